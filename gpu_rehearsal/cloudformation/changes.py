"""Changes of resources: an executor, its events, and one resource that is created, updated or deleted."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, Literal, NoReturn

from botocore import xform_name

from gpu_rehearsal.cloudformation.assets import Assets
from gpu_rehearsal.cloudformation.intrinsics import Shaping, as_text, tags, validate
from gpu_rehearsal.cloudformation.invocation import Functions
from gpu_rehearsal.cloudformation.template import Account, Order, Resource, region_partition
from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.processes import Handler, Server

# Max size of a response of a custom resource.
MAX_ANSWER_BYTES = 4096
_HOST = "localhost"
_STATUSES = ("SUCCESS", "FAILED")


class _Answer(Handler):
    server: Answers

    def do_PUT(self) -> None:
        """Store the response. The address is signed for a request without a content type."""
        place, given = self.server.expected.get(self.path.strip("/")), self.body()
        allowed = place is not None and not self.headers.get("Content-Type")
        if allowed and place is not None:
            place.put(given)
        self.send(200 if allowed else 403)


class Answers(Server):
    """A server that receives the responses of custom resources."""

    def __init__(self, authority: Authority) -> None:
        self.expected: dict[str, queue.SimpleQueue[bytes]] = {}
        super().__init__(_Answer, authority.context(_HOST))

    def expect(self, request_id: str) -> str:
        """Return the ResponseURL of a request."""
        self.expected[request_id] = queue.SimpleQueue()
        return f"https://{_HOST}:{self.server_port}/{request_id}"

    def wait(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the response to a request, or ``None`` after a timeout.

        Raises:
            ValueError: CloudFormation would reject the response.
        """
        try:
            given = self.expected[request["RequestId"]].get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        return checked(given, request)


def checked(given: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response that CloudFormation would accept.

    Raises:
        ValueError: It is too long, lacks a field, or belongs to another request.
    """
    if len(given) > MAX_ANSWER_BYTES:
        raise ValueError(f"Response object is too long: {len(given)} bytes of at most {MAX_ANSWER_BYTES}")
    answer: dict[str, Any] = json.loads(given)
    if answer.get("Status") not in _STATUSES:
        raise ValueError(f"Invalid response status {answer.get('Status')!r}")
    for name in ("StackId", "RequestId", "LogicalResourceId"):
        if answer.get(name) != request[name]:
            raise ValueError(f"Invalid response: {name} must be {request[name]!r}, got {answer.get(name)!r}")
    if not answer.get("PhysicalResourceId"):
        raise ValueError("Invalid PhysicalResourceId")
    if answer["Status"] == "FAILED" and not answer.get("Reason"):
        raise ValueError("Invalid response: a failure must have a Reason")
    return answer


@dataclass(frozen=True, kw_only=True, slots=True)
class StackIdentity:
    """Name and id of a stack.

    Attributes:
        name: Name of the stack.
        id: Its ARN.
        tries: How many earlier stacks of the same name were rolled back.
    """

    name: str
    id: str
    tries: int = 0


class Clients:
    """Cached clients for each service and role. Only their creation isn't thread-safe."""

    def __init__(self, aws: Account) -> None:
        self._aws = aws
        self._by_role: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def get_client(self, service: str, role: str = "") -> Any:
        """Return the client of a service that acts as a role, or as the administrator."""
        with self._lock:
            if (service, role) not in self._by_role:
                self._by_role[service, role] = self._aws.client(service, role=role)
            return self._by_role[service, role]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A stack, and the tools that create its resources.

    Attributes:
        stack: The stack.
        aws: The simulated account.
        clients: Clients of the account.
        functions: Runs the functions of the stack.
        answers: Receives the responses of custom resources.
        assets: Files of functions and layers.
    """

    stack: StackIdentity
    aws: Account
    clients: Clients
    functions: Functions
    answers: Answers
    assets: Assets


# CloudFormation has all except the last three. NOT_PLAYED: the type isn't simulated, or a resource that it refers to.
# NOT_BEGUN: another resource failed before. UNCHANGED: no property differs; operations don't return it.
Status = Literal[
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "DELETE_COMPLETE",
    "DELETE_FAILED",
    "DELETE_SKIPPED",
    "NOT_PLAYED",
    "NOT_BEGUN",
    "UNCHANGED",
]
# Rollback and cleanup follow a creation or an update in the same operation.
Phase = Literal["create", "update", "rollback", "cleanup", "delete"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """The end of a change to a resource.

    Attributes:
        logical_id: Logical id of the resource.
        type: Its type, e.g. ``AWS::EC2::VPC``.
        status: Status after the change.
        reason: Why it isn't complete, or a note about its simulation.
        started: Seconds from the start of the operation on the stack.
        ended: Seconds from the start of the operation to the end of the change.
        after: Logical ids that it waited for.
        physical_id: The value of ``Ref``; empty if it doesn't exist.
        phase: Part of the operation.
    """

    logical_id: str
    type: str
    status: Status
    reason: str = ""
    started: float = 0.0
    ended: float = 0.0
    after: tuple[str, ...] = ()
    physical_id: str = ""
    phase: Phase = "create"

    @property
    def failed(self) -> bool:
        """Whether the change failed."""
        return self.status.endswith("_FAILED")


def run_all(order: Order, work: Callable[[str], Event], *, at_once: int, stop_on_failure: bool = True) -> list[Event]:
    """Change all resources, and return the events in the order of their ends.

    Nothing starts that waits for a failed change. Changes that have started always end.

    Args:
        order: Logical ids that each waits for.
        work: Changes one resource, and returns its event.
        at_once: Max number of concurrent changes.
        stop_on_failure: Whether no other change starts after a failure.
    """
    sorter = TopologicalSorter(order)
    sorter.prepare()
    events: list[Event] = []
    running: set[Future[Event]] = set()
    with ThreadPoolExecutor(at_once) as pool:
        while sorter.is_active():
            if not (stop_on_failure and any(each.failed for each in events)):
                running |= {pool.submit(work, each) for each in sorted(sorter.get_ready())}
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                events.append(each.result())
                if not events[-1].failed:
                    sorter.done(events[-1].logical_id)
    return events


def inverted(order: Order) -> Order:
    """Return the order of deletions: a resource is deleted after its dependents."""
    return {name: tuple(sorted(each for each, needs in order.items() if name in needs)) for name in order}


# Seconds between two checks of a status, and max seconds of a wait.
POLL_SECONDS, _MAX_WAIT_SECONDS = 0.2, 3600.0
SAME_NAMES = Shaping()


class CreationFailed(Exception):
    """A resource could not be created, updated or deleted, with the service's message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Created:
    """A resource that exists in the account.

    Attributes:
        ref: The value of ``Ref``.
        attributes: Values of ``Fn::GetAtt``, by name.
        note: A note about its simulation for readers of the events.
    """

    ref: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployed:
    """A resource of a stack between two operations.

    Attributes:
        resource: As the template declares it.
        properties: Its properties, with functions evaluated.
        physical: The resource in the account.
        after: Logical ids of the resources that it depends on.
        generation: How many resources it replaced.
    """

    resource: Resource
    properties: Mapping[str, Any]
    physical: Created
    after: tuple[str, ...] = ()
    generation: int = 0


class Creation:
    """A resource that is created, updated or deleted.

    `take` and `call` remove properties. A property that remains at the end is an error.

    Args:
        deployment: The stack, and the tools that create its resources.
        resource: The declared resource.
        properties: Its properties, with functions evaluated.
        before: The resource that is updated or deleted; ``None`` for a creation.
        generation: How many resources a created one replaces.

    Attributes:
        properties: The unused properties. An update starts with the changed ones. A removed one is ``None``.
        declared: All properties.
        physical_id: Its physical id, as soon as it exists. CloudFormation deletes the resource if a later call fails.
        has_called: Whether a call was sent. A failed update without one has nothing to roll back.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        resource: Resource,
        properties: Mapping[str, Any],
        before: Deployed | None = None,
        generation: int = 0,
    ) -> None:
        self.aws, self.stack = deployment.aws, deployment.stack
        self.functions, self.answers, self.assets = deployment.functions, deployment.answers, deployment.assets
        self.logical_id, self.type = resource.logical_id, resource.type
        self.declared, self.before, self._generation = properties, before, generation
        self.properties = changed(before.properties, properties) if before else dict(properties)
        self.physical_id = before.physical.ref if before else ""
        self._clients, self.has_called = deployment.clients, False

    @property
    def old(self) -> Deployed:
        """The resource that is updated or deleted."""
        assert self.before is not None
        return self.before

    def value(self, name: str) -> Any:
        """Return an attribute or property of the existing resource. The case of the first letter is ignored."""
        values = {**self.old.properties, **self.old.physical.attributes}
        return values.get(name[:1].upper() + name[1:])

    def items(self, name: str) -> tuple[list[Any], list[Any]]:
        """Take a list, and return its new items and the items that an update removes."""
        self.properties.pop(name, None)
        old, new = (each.get(name) or [] for each in (self.before.properties if self.before else {}, self.declared))
        return [each for each in new if each not in old], [each for each in old if each not in new]

    def tags(self) -> tuple[list[dict[str, str]], list[str]]:
        """Take the tags, and return the tags that an update sets and the keys that it removes."""
        self.properties.pop("Tags", None)
        old, new = (_pairs(each.get("Tags") or {}) for each in (self.old.properties, self.declared))
        changed = [{"Key": key, "Value": value} for key, value in new.items() if old.get(key) != value]
        return changed, sorted(old.keys() - new.keys())

    def retag(self, service: str, resource: str) -> Created:
        """Change the tags with TagResource and UntagResource, and return the unchanged resource.

        Args:
            service: Name of the boto3 client.
            resource: Its identifier in these calls: its ARN, or the id of a key.
        """
        for operation, changed in zip(("TagResource", "UntagResource"), self.tags(), strict=True):
            members = (
                self._clients.get_client(service).meta.service_model.operation_model(operation).input_shape.members
            )
            (which, _), (name, shape) = sorted(members.items(), key=lambda each: each[0].lower().startswith("tag"))
            if changed:
                tagged = tags(shape, changed) if operation == "TagResource" else changed  # type: ignore[arg-type]
                self.send(service, operation, **{which: resource, name: tagged})
        return self.old.physical

    def take(self, name: str, default: Any = None) -> Any:
        """Return a property for a call other than the creating one.

        Raises:
            CreationFailed: An update removes the property, and it has no default.
        """
        found = self.properties.get(name, default)
        if found is None and default is None and name in self.properties:
            self.fail(f"nothing here removes {name} of {self.type}")
        self.properties.pop(name, None)
        return default if found is None else found

    def call(self, service: str, operation: str, shaping: Shaping = SAME_NAMES, **given: Any) -> dict[str, Any]:
        """Create the resource with all remaining properties, and return the response.

        Args:
            service: Name of the boto3 client.
            operation: Operation of the API, e.g. ``CreateVpc``.
            shaping: How the properties differ from the parameters.
            given: Additional parameters.
        """
        return self.send(service, operation, **self._parameters(service, operation, shaping), **given)

    def check(self, service: str, operation: str, shaping: Shaping = SAME_NAMES, **given: Any) -> dict[str, Any]:
        """Validate and return the parameters of a call that is simulated here. Arguments as in `call`."""
        parameters = self._parameters(service, operation, shaping) | given
        validate(self._clients.get_client(service), operation, parameters)
        return parameters

    def shaped(self, service: str, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return properties as parameters of an operation."""
        shape = self._clients.get_client(service).meta.service_model.operation_model(operation).input_shape
        return SAME_NAMES.parameters(shape, properties)

    def _parameters(self, service: str, operation: str, shaping: Shaping) -> dict[str, Any]:
        shape = self._clients.get_client(service).meta.service_model.operation_model(operation).input_shape
        if removed := [name for name, each in self.properties.items() if each is None]:
            self.fail(f"nothing here removes {removed} of {self.type}")
        properties, self.properties = self.properties, {}
        return shaping.parameters(shape, properties)

    def send(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Send a call as the administrator, and return its response."""
        self.has_called = True
        answer: dict[str, Any] = getattr(self._clients.get_client(service), xform_name(operation))(**parameters)
        return answer

    def as_role(self, service: str, role: str) -> Any:
        """Return a client with a role, for calls that a service makes with it."""
        return self._clients.get_client(service, role)

    def wait(self, look: Callable[[], str], *, until: str, while_: frozenset[str]) -> None:
        """Wait until a resource is ready.

        Args:
            look: Returns its status.
            until: The status of a ready resource.
            while_: Statuses of a resource that isn't ready yet.

        Raises:
            CreationFailed: It has another status, or the wait takes too long.
        """
        ends = time.monotonic() + _MAX_WAIT_SECONDS
        while (status := look()) != until:
            if why := self.functions.stopped():
                self.fail(why)
            if status not in while_ or time.monotonic() > ends:
                raise CreationFailed(f"{self.logical_id} did not become {until}, but stayed {status}")
            time.sleep(POLL_SECONDS)

    def fail(self, reason: str) -> NoReturn:
        """Fail the operation.

        Raises:
            CreationFailed: Always.
        """
        raise CreationFailed(f"{self.logical_id}: {reason}")

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN in this account and region."""
        aws = self.aws
        return f"arn:{region_partition(aws.region)}:{service}:{aws.region}:{aws.account}:{resource}"

    def name(self, max_length: int, *, lower: bool = False) -> str:
        """Return the name that CloudFormation generates: stack, logical id and twelve characters.

        The characters are the same in every rehearsal, so that reports can be compared.

        Args:
            max_length: Max number of characters.
            lower: Whether it must be in lower case.
        """
        # A replacement has another name than the replaced resource. A second try has another name too.
        again = f"/{self._generation}" if self._generation else ""
        again += f"/try {self.stack.tries}" if self.stack.tries else ""
        tail = hashlib.sha256(f"{self.stack.name}/{self.logical_id}{again}".encode()).hexdigest()[:12].upper()
        room = max_length - len(tail) - 2
        head = self.stack.name[: max(room // 2, room - len(self.logical_id))]
        name = f"{head}-{self.logical_id[: room - len(head)]}-{tail}"
        return name.lower() if lower else name

    def named(self, property_name: str, max_length: int, **how: Any) -> str:
        """Take the property with the name, or generate a name. Arguments as in `name`."""
        name = self.take(property_name)
        return self.name(max_length, **how) if name is None else str(name)

    def refuse_unused(self) -> None:
        """Reject properties that no call used.

        Raises:
            CreationFailed: A property is left.
        """
        if left := sorted(self.properties):
            raise CreationFailed(
                f"nothing here updates {left} of {self.type}"
                if self.before
                else f"properties {left} of {self.type} aren't simulated"
            )


def _pairs(tags: Any) -> dict[str, str]:
    """Return tags as a mapping. Node groups declare a mapping, other types a list."""
    return dict(tags) if isinstance(tags, Mapping) else {each["Key"]: as_text(each["Value"]) for each in tags}


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties that differ, with their new values; ``None`` for a removed one."""
    names = dict.fromkeys((*before, *after))
    return {name: after.get(name) for name in names if before.get(name) != after.get(name)}
