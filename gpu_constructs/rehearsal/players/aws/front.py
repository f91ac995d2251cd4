"""The front of AWS: reads each request, judges it, has it answered by who plays it, and writes it down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from traceback import format_exc
from typing import Any

from botocore.exceptions import ClientError
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from gpu_constructs.rehearsal.players.aws.api.answers import answer, error_of, plain_refusal
from gpu_constructs.rehearsal.players.aws.api.operations import Play
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request, check, read_request, rewind
from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.permissions.judge import Judge, refusal_of
from gpu_constructs.rehearsal.players.aws.principals import INSIDE_KEY, SERVICE_KEY, Principals

# Services of which moto plays nothing, or nothing that would do: what is not played here is not played.
WHOLE = frozenset({"arc-zonal-shift", "autoscaling", "cloudformation", "eks", "lambda", "pricing", "sts"})

# By this header moto is told whose everything is; of keys that it did not make it knows nobody.
# Source: https://docs.getmoto.org/en/latest/docs/multi_account.html
_ACCOUNT_TOLD = "HTTP_X_MOTO_ACCOUNT_ID"


class Front:
    """What the server runs for each request.

    Args:
        played: Who answers what moto lacks, by service and operation.
        principals: Whose keys are known.
        judge: Who says what they may do.
        write: Writes a call down.
    """

    def __init__(
        self,
        played: Mapping[tuple[str, str], Play],
        principals: Principals,
        judge: Judge,
        write: Callable[[Call], None],
    ) -> None:
        self._played, self._principals, self._judge, self._write = played, principals, judge, write
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer one request."""
        return self._answer(environ)(environ, start_response)

    def _answer(self, environ: dict[str, Any]) -> Response:
        try:
            request = read_request(environ)
        except AwsRefusal as refusal:
            self._write(Call(principal="?", service="?", action="?", error=refusal.code, message=str(refusal)))
            return plain_refusal(refusal)
        if request.access_key == SERVICE_KEY:
            return self._ask_moto(request, environ)
        if request.access_key == INSIDE_KEY:
            return self._play(request, environ)
        return self._judged(request, environ)

    def _judged(self, request: Request, environ: dict[str, Any]) -> Response:
        """Play what the caller may do, and write it down however it ends."""
        action = f"{request.service}:{request.name}"
        call = Call(principal="?", service=request.service, action=action)
        try:
            call = replace(call, principal=self._principals.role_of(request.access_key))
            check(request)
            call = self._judge.judge(call, request, self._principals.tags_of(request.access_key))
            if not call.allowed:
                raise refusal_of(call)
            if request.service == "ec2" and request.parameters.get("DryRun"):
                raise AwsRefusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
        except AwsRefusal as refusal:
            response = answer(request, refusal)
        else:
            response = self._play(request, environ)
        code, message = error_of(response, request)
        self._write(replace(call, error=code, message=message))
        return response

    def _play(self, request: Request, environ: dict[str, Any]) -> Response:
        play = self._played.get((request.service, request.name))
        try:
            played = play(request) if play else None
            if played is not None:
                return answer(request, played)
            if request.service in WHOLE:
                raise Unplayed(f"{request.service}:{request.name}")
            return self._ask_moto(request, environ)
        except AwsRefusal as refusal:
            return answer(request, refusal)
        except ClientError as error:
            return answer(request, AwsRefusal(error.response["Error"]["Code"], error.response["Error"]["Message"]))
        except Exception:
            # What breaks here is written down as the answer to the call that broke it.
            return answer(request, AwsRefusal("InternalFailure", format_exc()))

    def _ask_moto(self, request: Request, environ: dict[str, Any]) -> Response:
        rewind(environ)
        environ[_ACCOUNT_TOLD] = self._principals.account
        try:
            body, status, headers = run_wsgi_app(self._moto, environ, buffered=True)
        except NotImplementedError as error:
            raise Unplayed(f"{request.service}:{request.name}") from error
        response = Response(b"".join(body), status=status, headers=headers)
        # It has no such path.
        if response.status_code == 404 and response.mimetype == "text/html":
            raise Unplayed(f"{request.service}:{request.name}")
        return response
