"""One resource on its way: its properties, the calls that make it, and what others may ask of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from botocore import xform_name

from gpu_constructs.rehearsal.players.cloudformation.account import partition_of
from gpu_constructs.rehearsal.players.cloudformation.deployment import Deployment
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping, validate
from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import NO_VALUE
from gpu_constructs.rehearsal.players.cloudformation.templates.template import Resource

# Seconds from a look at a resource to the next, and for how long one is looked at.
LOOKS_EVERY, PATIENCE = 0.2, 3600.0
AS_NAMED = Shaping()


class CreationFailed(Exception):
    """A resource could not be made, in the words of who refused it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """A resource that exists.

    Attributes:
        ref: What ``Ref`` gives.
        attributes: What ``Fn::GetAtt`` gives, by name.
        note: How it was played, where a reader of the events should know.
    """

    ref: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


class Creation:
    """A resource on its way.

    A property is used up by `take` or by the `call` that makes the resource; what nothing used is refused at the end.

    Args:
        deployment: What all resources of the stack share.
        resource: As declared.
        properties: With functions applied.
        initiated: Told the physical id as soon as there is one, while others still wait for the resource.

    Attributes:
        properties: Those that are not used up.
    """

    def __init__(
        self,
        *,
        deployment: Deployment,
        resource: Resource,
        properties: Mapping[str, Any],
        initiated: Callable[[str], None],
    ) -> None:
        self.aws, self.stack = deployment.aws, deployment.stack
        self.functions, self.answers, self.assets = deployment.functions, deployment.answers, deployment.assets
        self.logical_id, self.type = resource.logical_id, resource.type
        self.properties, self.initiated = dict(properties), initiated
        self._clients = deployment.clients

    def take(self, name: str, default: Any = None) -> Any:
        """Return a property for another call than the one that makes the resource."""
        return self.properties.pop(name, default)

    def call(self, service: str, operation: str, shaping: Shaping = AS_NAMED, **given: Any) -> dict[str, Any]:
        """Make the resource of all properties that are left, and return the answer.

        Args:
            service: As boto3 calls it.
            operation: As the API calls it, e.g. ``CreateVpc``.
            shaping: How the properties differ from the parameters.
            given: Parameters beside the properties.
        """
        return self.ask(service, operation, **self._parameters(service, operation, shaping), **given)

    def check(self, service: str, operation: str, shaping: Shaping = AS_NAMED, **given: Any) -> dict[str, Any]:
        """Return the parameters of a call that is played here, if a client would send it; arguments as in `call`."""
        parameters = self._parameters(service, operation, shaping) | given
        validate(self._clients.of(service), operation, parameters)
        return parameters

    def shaped(self, service: str, operation: str, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return properties in the form of an operation's parameters."""
        shape = self._clients.of(service).meta.service_model.operation_model(operation).input_shape
        return AS_NAMED.parameters(shape, properties)

    def _parameters(self, service: str, operation: str, shaping: Shaping) -> dict[str, Any]:
        shape = self._clients.of(service).meta.service_model.operation_model(operation).input_shape
        properties, self.properties = self.properties, {}
        return shaping.parameters(shape, properties)

    def ask(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """Send a call as the administrator and return its answer."""
        answer: dict[str, Any] = getattr(self._clients.of(service), xform_name(operation))(**parameters)
        return answer

    def as_role(self, service: str, role: str) -> Any:
        """Return a client that acts as a role, for what a service does in its name."""
        return self._clients.of(service, role)

    def wait(self, look: Callable[[], str], *, until: str, while_: frozenset[str]) -> None:
        """Look at a resource until it is ready.

        Args:
            look: Returns its status.
            until: The status of a ready one.
            while_: Statuses on the way there.

        Raises:
            CreationFailed: It has another status, or keeps one of the way.
        """
        ends = time.monotonic() + PATIENCE
        while (status := look()) != until:
            if status not in while_ or time.monotonic() > ends:
                raise CreationFailed(f"{self.logical_id} did not become {until}, but stayed {status}")
            time.sleep(LOOKS_EVERY)

    def fail(self, reason: str) -> NoReturn:
        """End the creation.

        Raises:
            CreationFailed: Always.
        """
        raise CreationFailed(f"{self.logical_id}: {reason}")

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of something of this account and region."""
        aws = self.aws
        return f"arn:{partition_of(aws.region)}:{service}:{aws.region}:{aws.account}:{resource}"

    def name(self, most: int, *, lower: bool = False) -> str:
        """Return the name that CloudFormation makes up: stack, logical id and twelve characters.

        The characters are the same in every rehearsal, so that reports can be compared.

        Args:
            most: Characters that a name may have.
            lower: Whether it may have no capitals.
        """
        tail = hashlib.sha256(f"{self.stack.name}/{self.logical_id}".encode()).hexdigest()[:12].upper()
        room = most - len(tail) - 2
        head = self.stack.name[: max(room // 2, room - len(self.logical_id))]
        name = f"{head}-{self.logical_id[: room - len(head)]}-{tail}"
        return name.lower() if lower else name

    def named(self, property_name: str, most: int, **how: Any) -> str:
        """Take the property with the name, or make one up; arguments as in `name`."""
        said = self.take(property_name)
        return self.name(most, **how) if said is None else str(said)

    def refuse_unused(self) -> None:
        """Refuse properties that no call took.

        Raises:
            CreationFailed: There are some.
        """
        left = {name for name, each in self.properties.items() if each is not NO_VALUE}
        if left:
            raise CreationFailed(f"properties {sorted(left)} of {self.type} reach no call")
