"""What somebody asks: one HTTP request, named by the models of the SDK."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ParamValidationError
from botocore.validate import ParamValidator
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request as HttpRequest
from moto.core.request import determine_request_protocol
from moto.core.routing import get_service_router
from moto.core.utils import get_service_model
from werkzeug.exceptions import NotFound

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.validation import faults

# Credential=<key>/<day>/<region>/<service>/aws4_request, in a header or, of a presigned URL, in the query.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
_SCOPE = re.compile(r"Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request")
# Where the name that is signed with is not the name of the SDK's client.
_CLIENTS = {"eventbridge": "events", "elasticloadbalancing": "elbv2", "monitoring": "cloudwatch"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One call of an AWS API.

    Attributes:
        access_key: Key it is signed with.
        region: Region it is signed for.
        service: Name of the SDK's client, ``ec2``.
        operation: The SDK's model of the operation.
        parameters: What is said with it, by the names of the model.
        http: The request itself.
        protocol: How its parameters are written, e.g. ``rest-json``.
    """

    access_key: str
    region: str
    service: str
    operation: Any
    parameters: Mapping[str, Any]
    http: HttpRequest
    protocol: str

    @property
    def name(self) -> str:
        """Name of the operation."""
        return str(self.operation.name)


def read_request(environ: dict[str, Any]) -> Request:
    """Read a request, and leave its body to be read again.

    Raises:
        AwsRefusal: It is not signed, no service has such an operation, or its parameters are none of the model.
    """
    rewind(environ)
    http = HttpRequest(environ)
    access_key, region, service = _scope(http)
    model = _model(service)
    try:
        operation, in_path = get_service_router(service).match(http)
    except (NotFound, NotImplementedError) as error:
        raise Unplayed(f"{http.method} {http.path} of {service}") from error
    protocol = determine_request_protocol(model, http.content_type)
    parameters = _parse(http, operation, protocol, in_path)
    return Request(
        access_key=access_key,
        region=region,
        service=service,
        operation=operation,
        parameters=parameters,
        http=http,
        protocol=protocol,
    )


def check(request: Request) -> None:
    """Refuse parameters that the SDK's model of the operation does not allow.

    Raises:
        AwsRefusal: With each fault.
    """
    shape = request.operation.input_shape
    if shape is None:
        return
    try:
        report = ParamValidator().validate(request.parameters, shape)
    except ParamValidationError as error:
        raise AwsRefusal("ValidationException", str(error)) from error
    said = [report.generate_report()] if report.has_errors() else faults(request.parameters, shape)
    if said:
        raise AwsRefusal("ValidationException", f"{request.name}: {'; '.join(said)}")


def rewind(environ: dict[str, Any]) -> None:
    """Have the body be read from its beginning, however often it was read."""
    if "rehearsal.body" not in environ:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["rehearsal.body"] = environ["wsgi.input"].read(length) if length else b""
    environ["wsgi.input"] = io.BytesIO(environ["rehearsal.body"])
    # What werkzeug made of it belongs to the reader before.
    environ.pop("werkzeug.request", None)


def _scope(http: HttpRequest) -> tuple[str, str, str]:
    signed = http.headers.get("Authorization") or f"Credential={http.args.get('X-Amz-Credential', '')}"
    found = _SCOPE.search(signed)
    if found is None:
        raise AwsRefusal("MissingAuthenticationToken", f"{http.method} {http.path} is not signed")
    key, _, region, service = found.groups()
    return key, region, _CLIENTS.get(service, service)


def _model(service: str) -> Any:
    try:
        return get_service_model(service)
    except Exception as error:
        raise Unplayed(f"the service {service}") from error


def _parse(http: HttpRequest, operation: Any, protocol: str, in_path: dict[str, Any]) -> Mapping[str, Any]:
    parser = PROTOCOL_PARSERS[protocol](operation)
    return dict(
        parser.parse(
            {
                "method": http.method,
                "values": http.values,
                "headers": http.headers,
                "body": http.get_data(),
                "url_path": http.path,
                "url_params": in_path,
            }
        )
    )
