"""AWS at one address: moto's server in this process, simulators of the operations that moto lacks, and all calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from traceback import format_exc
from typing import Any

from botocore.exceptions import ClientError
from moto.backends import get_backend
from moto.iam.exceptions import NotFoundException
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server
from werkzeug.test import run_wsgi_app
from werkzeug.wrappers import Response

from gpu_rehearsal.aws.access import Access
from gpu_rehearsal.aws.api import (
    AwsError,
    NotSimulated,
    Request,
    Simulate,
    answer,
    check,
    collect_operations,
    parse_error,
    plain_error_response,
    read_request,
    register_validation,
    rewind,
)
from gpu_rehearsal.aws.clusters import Addons, Clusters, Identities, Tags
from gpu_rehearsal.aws.fleets import Catalogue, Fleets
from gpu_rehearsal.aws.launches import INTERRUPTION, Capacity, EventBus, Images, Launches
from gpu_rehearsal.aws.node_groups import Nodegroups, Outcome
from gpu_rehearsal.aws.permissions import collect_access_requests
from gpu_rehearsal.aws.policies import AccessRequest, UnknownPermission, decide, role_statements, role_tags
from gpu_rehearsal.aws.reachability import Reachability, create_existing_network
from gpu_rehearsal.aws.region import INSIDE_KEY, SERVICE_KEY, Call, Invoke, OtherServices, Principals, Region, Roles
from gpu_rehearsal.aws.scaling import Groups
from gpu_rehearsal.credentials import Credentials, Source
from gpu_rehearsal.processes import LOOPBACK, free_port

# Services that moto doesn't simulate well enough. Their operations without a simulator here fail.
ONLY_SIMULATED = frozenset({"arc-zonal-shift", "autoscaling", "cloudformation", "eks", "lambda", "pricing", "sts"})

# This header sets the account for moto, which doesn't know the access keys of this server.
# Source: https://docs.getmoto.org/en/latest/docs/multi_account.html
_ACCOUNT_HEADER = "HTTP_X_MOTO_ACCOUNT_ID"


# The error code of each service with the query protocol. The others return AccessDeniedException.
_CODES = {"ec2": "UnauthorizedOperation", "iam": "AccessDenied", "sts": "AccessDenied", "autoscaling": "AccessDenied"}


class _PermissionCheck:
    """Checks the permissions of calls of roles. The administrator is allowed everything."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def check(self, call: Call, request: Request, session_tags: dict[str, str]) -> Call:
        """Return a call with the decision."""
        if not call.principal:
            return call
        try:
            statements = role_statements(self._region.account, call.principal)
            access_requests = collect_access_requests(self._region, request)
            shared = self._shared_keys(call.principal, session_tags)
            decided = [
                decide(statements, replace(each, context={**shared, **each.context})) for each in access_requests
            ]
        except (UnknownPermission, NotFoundException, ClientError, LookupError) as error:
            return call.denied("NotSimulated", f"the permission of {call.action}: {error}")
        call = replace(call, resources=tuple(dict.fromkeys(each.resource for each in access_requests)))
        for access_request, decision in zip(access_requests, decided, strict=True):
            if not decision.allowed:
                message = _denied(call, access_request, decision.statement)
                return replace(
                    call, allowed=False, statements=(decision.statement,) if decision.statement else (), message=message
                )
        return call.with_statements(*(each.statement for each in decided))

    def _shared_keys(self, role: str, session_tags: dict[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the condition keys that every call has. All calls count as TLS."""
        tags = role_tags(self._region.account, role) | session_tags
        shared = {
            "aws:PrincipalAccount": self._region.account,
            "aws:PrincipalArn": role,
            "aws:RequestedRegion": self._region.name,
            "aws:SecureTransport": "true",
        } | {f"aws:PrincipalTag/{key}": value for key, value in tags.items()}
        return {key: (value,) for key, value in shared.items()}


def _access_denied_error(call: Call) -> AwsError:
    """Return the error for the caller of a denied call.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
    """
    if call.error:
        return AwsError(call.error, call.message)
    return AwsError(_CODES.get(call.service, "AccessDeniedException"), call.message)


def _denied(call: Call, access_request: AccessRequest, statement: str) -> str:
    account, name = call.principal.split(":")[4], call.principal.rpartition("/")[2]
    who = f"arn:aws:sts::{account}:assumed-role/{name}/rehearsal"
    why = f"because no identity-based policy allows the {access_request.action} action"
    if statement:
        why = f"with an explicit deny in {statement}"
    wanted = f"{access_request.action} on resource: {access_request.resource}"
    return f"User: {who} is not authorized to perform: {wanted} {why}"


class _Application:
    """The WSGI application of the server."""

    def __init__(
        self,
        simulated: Mapping[tuple[str, str], Simulate],
        principals: Principals,
        check: _PermissionCheck,
        write: Callable[[Call], None],
        reachability: Reachability,
    ) -> None:
        self._reachability = reachability
        self._simulated, self._principals, self._permission_check, self._write = simulated, principals, check, write
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Respond to one request."""
        return self._answer(environ)(environ, start_response)

    def _answer(self, environ: dict[str, Any]) -> Response:
        try:
            request = read_request(environ)
        except AwsError as error:
            self._write(Call(principal="?", service="?", action="?", error=error.code, message=str(error)))
            return plain_error_response(error)
        if request.access_key == SERVICE_KEY:
            return self._forward_to_moto(request, environ)
        if request.access_key == INSIDE_KEY:
            return self._simulate(request, environ)
        return self._answer_role(request, environ)

    def _answer_role(self, request: Request, environ: dict[str, Any]) -> Response:
        """Simulate a call if it is allowed, and record it in any case."""
        action = f"{request.service}:{request.name}"
        call = Call(principal="?", service=request.service, action=action)
        try:
            if why := self._principals.rejection_reason(request.access_key):
                call = replace(call, principal="pods.eks.amazonaws.com").denied("AccessDenied", why)
                raise _access_denied_error(call)
            call = replace(call, principal=self._principals.resolve_role(request.access_key))
            if why := self._why_unreached(request):
                call = call.denied("ConnectTimeout", why)
                raise _access_denied_error(call)
            check(request)
            call = self._permission_check.check(call, request, self._principals.session_tags(request.access_key))
            if not call.allowed:
                raise _access_denied_error(call)
            if request.service == "ec2" and request.parameters.get("DryRun"):
                raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
        except AwsError as error:
            response = answer(request, error)
        else:
            response = self._simulate(request, environ)
        code, message = parse_error(response, request)
        self._write(replace(call, error=code, message=message))
        return response

    def _why_unreached(self, request: Request) -> str:
        source = self._principals.call_source(request.access_key)
        return self._reachability.service(source, request.service) if source else ""

    def _simulate(self, request: Request, environ: dict[str, Any]) -> Response:
        simulate = self._simulated.get((request.service, request.name))
        try:
            simulated = simulate(request) if simulate else None
            if simulated is not None:
                return answer(request, simulated)
            if request.service in ONLY_SIMULATED:
                raise NotSimulated(f"{request.service}:{request.name}")
            return self._forward_to_moto(request, environ)
        except AwsError as error:
            return answer(request, error)
        except ClientError as error:
            return answer(request, AwsError(error.response["Error"]["Code"], error.response["Error"]["Message"]))
        except Exception:
            # An exception of a simulator is recorded as the error of the call.
            return answer(request, AwsError("InternalFailure", format_exc()))

    def _forward_to_moto(self, request: Request, environ: dict[str, Any]) -> Response:
        rewind(environ)
        environ[_ACCOUNT_HEADER] = self._principals.account
        try:
            body, status, headers = run_wsgi_app(self._moto, environ, buffered=True)
        except NotImplementedError as error:
            raise NotSimulated(f"{request.service}:{request.name}") from error
        response = Response(b"".join(body), status=status, headers=headers)
        # moto has no such path.
        if response.status_code == 404 and response.mimetype == "text/html":
            raise NotSimulated(f"{request.service}:{request.name}")
        return response


_TICK_SECONDS = 1.0
# The account of stacks without one. AWS' documentation uses it in examples.
ACCOUNT = "123456789012"


class _Silent(MotoRequestHandler):
    """A request handler without logs: `Aws.calls` records the calls."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""


class Aws:
    """One region of one account, running inside its ``with`` block. moto has one state for each process: run only one.

    Attributes:
        calls: All calls, in order.
        capacity: Capacity of EC2.
        endpoint: Address that answers for every service.
    """

    endpoint: str

    def __init__(self, *, region: str, account: str = ACCOUNT) -> None:
        self.region, self.account = region, account
        self.calls: list[Call] = []
        self.capacity = Capacity()
        self._principals = Principals(self.account)
        self._running = ExitStack()

    def __enter__(self) -> Aws:
        """Start the server."""
        port = free_port()
        self.endpoint = f"http://{LOOPBACK}:{port}"
        self._region = Region(name=self.region, account=self.account, endpoint=self.endpoint)
        # `list.append` is thread-safe.
        write, self._reachability = self.calls.append, Reachability(self._region)
        simulated = {
            key: simulate for each in self._simulators(write) for key, simulate in collect_operations(each).items()
        }
        front = _Application(simulated, self._principals, _PermissionCheck(self._region), write, self._reachability)
        server = make_server(LOOPBACK, port, front, threaded=True, request_handler=_Silent)
        self._running.callback(_forget, self.account)
        self._running.callback(server.server_close)
        over = Event()
        serve = partial(server.serve_forever, poll_interval=0.02)
        for target, end in ((serve, server.shutdown), (partial(self._tick, over), over.set)):
            thread = Thread(target=target, daemon=True)
            thread.start()
            self._running.callback(thread.join)
            self._running.callback(end)
        return self

    def _simulators(self, write: Callable[[Call], None]) -> list[object]:
        """Return the simulators of the operations that moto lacks."""
        region = self._region
        self._others, self._roles = OtherServices(), Roles(region, self._principals, write)
        self._event_bus = EventBus(region, write)
        self._launches = Launches(region, self.capacity, self._event_bus)
        self._groups, self._clusters, images = Groups(region, self._launches), Clusters(region), Images(region)
        self._identities = Identities(self._clusters)
        access, addons = Access(region, self._clusters, self._principals), Addons(self._clusters, self._identities)
        self._nodegroups = Nodegroups(region, self._clusters, access, images, self._launches, self._groups, self._roles)
        of_eks = (self._clusters, self._nodegroups, addons, access, self._identities)
        others = (Catalogue(region), Fleets(region, self._launches))
        own = (self._others, self._roles, self._groups, images)
        return [*own, *of_eks, *others, Tags(*(each.descriptions for each in of_eks))]

    def __exit__(self, *_: object) -> None:
        """Stop the server, and reset the state of moto."""
        self._running.close()

    @property
    def administrator(self) -> str:
        """ARN of the deploying role, which is the creator of clusters."""
        return self._principals.administrator

    @property
    def functions(self) -> Invoke | None:
        """A function that runs a Lambda function: called with its name and payload, it returns the response."""
        return self._others.invoke

    @functions.setter
    def functions(self, invoke: Invoke) -> None:
        self._others.invoke = invoke

    @property
    def stack_resources(self) -> dict[str, Callable[[str], str]]:
        """Functions that return the physical id of a logical id, by name and by ARN of the stack."""
        return self._others.resources

    @property
    def nodes(self) -> Outcome | None:
        """A function that returns the outcome of an instance. Without it, each instance becomes a node."""
        return self._nodegroups.outcome

    @nodes.setter
    def nodes(self, outcome: Outcome) -> None:
        self._nodegroups.outcome = outcome

    def credentials(self, role: str = "", *, tags: dict[str, str] | None = None) -> Credentials:
        """Return an access key of a role, without a check of its trust policy."""
        return self._principals.credentials(role, tags=tags)

    def assume(self, role: str, *, service: str, source: Source | None = None) -> Credentials:
        """Return credentials of a role for a service, or raise `AwsError` if the trust policy doesn't allow it."""
        return self._roles.assume(role, kind="Service", principal=service, calls_from=source)

    def unreachable(self, source: Source, cluster: str, *services: str) -> str:
        """Return why a source doesn't reach the API server of a cluster, or some AWS APIs; empty if it does."""
        network, descriptions = self._reachability, self._clusters.find(cluster).description
        why = network.api_server(source, descriptions)
        return why or next((why for each in services if (why := network.service(source, each))), "")

    def unreachable_kubelet(self, node: Source, cluster: str) -> str:
        """Return why the API server of a cluster doesn't reach the kubelet of a node; empty if it does."""
        return self._reachability.kubelet(node, self._clusters.find(cluster).description)

    def pod_credentials(
        self, cluster: str, *, namespace: str, service_account: str, pod: str, node_role: str, source: Source
    ) -> Credentials | None:
        """Return the credentials that a pod gets from Pod Identity; ``None`` if its service account has no role.

        The agent on the pod's node requests them as the role of the node.
        Source: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html (2026-11)

        Raises:
            AwsError: The node may not request them, or the role doesn't trust the pod.
        """
        found = self._clusters.find(cluster)
        association = self._identities.find_association(found, namespace, service_account)
        if association is None:
            return None
        self._roles.check(node_role, "eks-auth:AssumeRoleForPodIdentity", found.arn)
        tagged = not association.get("disableSessionTags")
        tags = self._identities.session_tags(found, namespace, service_account, pod) if tagged else {}
        role, who = str(association["roleArn"]), "pods.eks.amazonaws.com"
        return self._roles.assume(role, kind="Service", principal=who, tags=tags, calls_from=source)

    def rejected(self, why: str) -> Credentials:
        """Return credentials of a pod whose request was rejected: its calls fail with the reason."""
        return self._principals.rejected(why)

    def resolve_role(self, access_key: str) -> str:
        """Return the ARN of the role that has a key; empty for the administrator. Raises `AwsError` without one."""
        return self._principals.resolve_role(access_key)

    def client(self, service: str, *, role: str = "", credentials: Credentials | None = None) -> Any:
        """Return an SDK client that also checks enumerations, patterns and lengths of its parameters."""
        client = self._region.client(service, credentials or self.credentials(role))
        register_validation(client)
        return client

    def serve_cluster(self, name: str, *, endpoint: str, certificate_authority: bytes) -> None:
        """Set the address of the API server of a cluster, which makes the cluster active."""
        self._clusters.serve(name, endpoint, certificate_authority)

    def create_existing_network(self, *, vpc: str, in_zones: Sequence[str]) -> None:
        """Create a VPC that exists before the stacks, with subnets in successive Availability Zones."""
        create_existing_network(self._region, vpc=vpc, in_zones=in_zones)

    def interrupt(self, instance: str) -> None:
        """Send the interruption warning of a spot instance. EC2 ends it two minutes later; call `terminate` for that.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
        """
        self._event_bus.publish(INTERRUPTION, instance, {"instance-action": "terminate"})

    def terminate(self, instance: str) -> None:
        """Terminate an instance, as EC2 does."""
        self._launches.terminate([instance])

    def _tick(self, over: Event) -> None:
        """Run Auto Scaling's own actions until the server stops."""
        while not over.wait(_TICK_SECONDS):
            try:
                self._groups.settle()
            except Exception:
                # There is no caller, so the error is only recorded.
                broken = Call(principal="autoscaling.amazonaws.com", service="autoscaling", action="autoscaling:Settle")
                self.calls.append(broken.denied("InternalFailure", format_exc()))


def _forget(account: str) -> None:
    """Reset the state of moto in an account."""
    for name in ("ec2", "events", "iam", "kms", "logs", "s3", "scheduler", "sqs", "ssm"):
        backend: Any = get_backend(name)
        backend[account].clear()
