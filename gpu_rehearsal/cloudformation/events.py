"""Events of resources, and the executor that changes many resources at once."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Literal

from gpu_rehearsal.cloudformation.assets import Assets
from gpu_rehearsal.cloudformation.invocation import Functions
from gpu_rehearsal.cloudformation.template import Account, Order
from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.processes import Handler, Server

# Bytes that an answer may have.
MOST = 4096
_HOST = "localhost"
_STATUSES = ("SUCCESS", "FAILED")


class _Answer(Handler):
    server: Answers

    def do_PUT(self) -> None:
        """Keep the answer. The address is signed for a request without a content type."""
        place, given = self.server.expected.get(self.path.strip("/")), self.body()
        allowed = place is not None and not self.headers.get("Content-Type")
        if allowed and place is not None:
            place.put(given)
        self.send(200 if allowed else 403)


class Answers(Server):
    """A server that takes the answer to each request once."""

    def __init__(self, authority: Authority) -> None:
        self.expected: dict[str, queue.SimpleQueue[bytes]] = {}
        super().__init__(_Answer, authority.context(_HOST))

    def expect(self, request_id: str) -> str:
        """Return the ResponseURL of a request."""
        self.expected[request_id] = queue.SimpleQueue()
        return f"https://{_HOST}:{self.server_port}/{request_id}"

    def wait(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return the answer to a request, or nothing where none came in time.

        Raises:
            ValueError: CloudFormation would not take the answer.
        """
        try:
            given = self.expected[request["RequestId"]].get(timeout=max(seconds, 0))
        except queue.Empty:
            return None
        return checked(given, request)


def checked(given: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer that CloudFormation would take.

    Raises:
        ValueError: It is too long, lacks a field, or answers another request.
    """
    if len(given) > MOST:
        raise ValueError(f"Response object is too long: {len(given)} bytes of at most {MOST}")
    answer: dict[str, Any] = json.loads(given)
    if answer.get("Status") not in _STATUSES:
        raise ValueError(f"Invalid response status {answer.get('Status')!r}")
    for name in ("StackId", "RequestId", "LogicalResourceId"):
        if answer.get(name) != request[name]:
            raise ValueError(f"Invalid response: {name} must be {request[name]!r}, got {answer.get(name)!r}")
    if not answer.get("PhysicalResourceId"):
        raise ValueError("Invalid PhysicalResourceId")
    if answer["Status"] == "FAILED" and not answer.get("Reason"):
        raise ValueError("Invalid response: Reason must be said of a failure")
    return answer


@dataclass(frozen=True, kw_only=True, slots=True)
class StackIdentity:
    """How a stack is named.

    Attributes:
        name: Name of the stack.
        id: Its ARN.
        tries: How many stacks of that name were created before and rolled back.
    """

    name: str
    id: str
    tries: int = 0


class Clients:
    """A client of each service and role, made once: making one is not safe in threads, using it is."""

    def __init__(self, aws: Account) -> None:
        self._aws = aws
        self._made: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def get_client(self, service: str, role: str = "") -> Any:
        """Return the client of a service that acts as a role, or as the administrator."""
        with self._lock:
            if (service, role) not in self._made:
                self._made[service, role] = self._aws.client(service, role=role)
            return self._made[service, role]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deployment:
    """A stack, and what makes its resources.

    Attributes:
        stack: Whose resources they are.
        aws: Where they are made.
        clients: By which they are made.
        functions: Runs those of the stack.
        answers: Where custom resources answer.
        assets: Files of functions and layers.
    """

    stack: StackIdentity
    aws: Account
    clients: Clients
    functions: Functions
    answers: Answers
    assets: Assets


# CloudFormation has all but the last three. NOT_PLAYED: the type isn't simulated, or a resource that it refers to.
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
        logical_id: Its name in the template.
        type: What it is, e.g. ``AWS::EC2::VPC``.
        status: How it ended.
        reason: Why it is not complete, or how it was played.
        started: Seconds from the start of the operation on the stack.
        ended: Seconds from the start of the operation to the end of the change.
        after: Logical ids it waited for.
        physical_id: What ``Ref`` gives; empty where it does not exist.
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
    """Change everything, and return the events in the order in which they ended.

    Nothing starts that waits for a failed change. Changes that have started always end.

    Args:
        order: Logical ids that each waits for.
        work: Changes one and returns how that ended.
        at_once: How many may be on their way.
        stop_on_failure: Whether nothing else starts after a failure either.
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
    """Return the order of deletions: what depends on a resource is deleted before it."""
    return {name: tuple(sorted(each for each, needs in order.items() if name in needs)) for name in order}
