"""A stack: everything that a template declares, created as CloudFormation creates it.

Only creation is played. Updates, deletions, rollbacks, change sets, drift and imports are not; what a failed creation
has made stays, so that it can be looked at.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from gpu_constructs.rehearsal.players.authority import Authority
from gpu_constructs.rehearsal.players.cloudformation.account import Account, partition_of
from gpu_constructs.rehearsal.players.cloudformation.answers import Answers
from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, CreationFailed, Made
from gpu_constructs.rehearsal.players.cloudformation.deployment import Clients, Deployment, StackIdentity
from gpu_constructs.rehearsal.players.cloudformation.events import Event, Status
from gpu_constructs.rehearsal.players.cloudformation.executor import create_all
from gpu_constructs.rehearsal.players.cloudformation.functions.assets import Assets
from gpu_constructs.rehearsal.players.cloudformation.functions.functions import Functions, Run
from gpu_constructs.rehearsal.players.cloudformation.known import Known
from gpu_constructs.rehearsal.players.cloudformation.resource_types.table import creator
from gpu_constructs.rehearsal.players.cloudformation.templates.dynamic_references import resolve
from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import evaluate
from gpu_constructs.rehearsal.players.cloudformation.templates.order import Order, existing, order
from gpu_constructs.rehearsal.players.cloudformation.templates.parameters import values
from gpu_constructs.rehearsal.players.cloudformation.templates.rules import refuse_unless_asserted
from gpu_constructs.rehearsal.players.cloudformation.templates.template import Resource, Template, references

Initiated = Callable[[str, str, str], None]
Skip = Callable[[str, str, Mapping[str, Any]], str]


class Stack:
    """One stack of one template.

    Args:
        template: The document that was synthesized.
        name: Name of the stack.
        assembly: Folder with the template's asset manifest.
        aws: Where its resources are made. Functions of the stack answer its Invoke from then on.
        parameters: What the deployment says of the template's parameters.
        exports: What other stacks export, by name.
        others: Outputs of other stacks of the region, by stack and key.
        environment: Variables that every run of a function gets beside its own, such as an address of a registry.
        authority: Vouches for where functions answer; one for all stacks that use each other's functions. Default: one
            of its own.
        folder: For code, layers and logs of functions. Default: a temporary one, that stays.
        initiated: Told logical id, type and physical id of a cluster, node group, add-on or gateway when it is being
            made, before anybody waits for it.
        skip: Asked for a resource that is about to be made, by logical id, type and properties with functions applied:
            returns why it is not played, or nothing where it is. What refers to it is not played then; what only waits
            for it goes on.
        at_once: How many resources may be on their way.

    Attributes:
        id: ARN of the stack.
        resources: What exists, by logical id.
        outputs: Values of the template's outputs, once it is created whole.
        exports: Those of them that other stacks may import, by name.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        *,
        name: str,
        assembly: Path,
        aws: Account,
        parameters: Mapping[str, str] | None = None,
        exports: Mapping[str, str] | None = None,
        others: Mapping[str, Mapping[str, str]] | None = None,
        environment: Mapping[str, str] | None = None,
        authority: Authority | None = None,
        folder: Path | None = None,
        initiated: Initiated | None = None,
        skip: Skip | None = None,
        at_once: int = 16,
    ) -> None:
        self._template, self._aws, self._assembly = Template.read(template), aws, assembly
        self._parameters, self._imports, self._others = parameters or {}, exports or {}, others or {}
        self._environment, self._initiated, self._skip = environment or {}, initiated, skip
        self._at_once = at_once
        self._folder = folder or Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self._authority = authority or Authority(self._folder)
        self._clients = Clients(aws)
        self._functions: Functions | None = None
        identifier = uuid.uuid5(uuid.NAMESPACE_URL, f"{aws.account}/{aws.region}/{name}")
        where = f"arn:{partition_of(aws.region)}:cloudformation:{aws.region}:{aws.account}"
        self._identity = StackIdentity(name=name, id=f"{where}:stack/{name}/{identifier}")
        self.id = self._identity.id
        self.resources: dict[str, Made] = {}
        self.outputs: dict[str, str] = {}
        self.exports: dict[str, str] = {}

    @property
    def runs(self) -> list[Run]:
        """Every run of a function of this stack that has ended."""
        return list(self._functions.runs) if self._functions else []

    def create(self) -> list[Event]:
        """Create everything in the order of its dependencies, and return how each resource ended.

        Raises:
            ValueError: CloudFormation would refuse the template or its parameters before it makes anything.
        """
        known = self._known()
        refuse_unless_asserted(self._template.rules, known)
        resources = existing(self._template, known.condition)
        needs = order(resources, declared=self._template.resources, others=known.names)
        with Answers(self._authority) as answers:
            self._functions = Functions(self._aws, self._folder, {**self._authority.environment(), **self._environment})
            deployment = Deployment(
                stack=self._identity,
                aws=self._aws,
                clients=self._clients,
                functions=self._functions,
                answers=answers,
                assets=Assets(self._assembly),
            )
            creating = _Creating(deployment, known, resources, needs, self._initiated, self._skip, self._stored)
            events = create_all(needs, creating.create, at_once=self._at_once)
            self._functions.settle()
        self.resources = creating.made
        if all(event.status == "CREATE_COMPLETE" for event in events) and len(events) == len(resources):
            self._tell_outputs(known)
        return [*events, *_not_begun(resources, needs, events)]

    def _known(self) -> Known:
        return Known(
            self._template,
            stack=self._identity,
            region=self._aws.region,
            account=self._aws.account,
            parameters=values(self._template.parameters, self._parameters, self._stored),
            zones=self._zones,
            exports=self._imports,
            outputs=self._others,
        )

    def _tell_outputs(self, known: Known) -> None:
        for name, each in self._template.outputs.items():
            if "Condition" in each and not known.condition(each["Condition"]):
                continue
            self.outputs[name] = evaluate(each["Value"], known)
            if "Export" in each:
                self.exports[evaluate(each["Export"]["Name"], known)] = self.outputs[name]

    def _stored(self, name: str) -> str:
        """Read a parameter of the parameter store."""
        ssm = self._clients.of("ssm")
        try:
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            raise ValueError(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None

    def _zones(self, region: str) -> list[str]:
        if region != self._aws.region:
            raise ValueError(f"Fn::GetAZs: region must be {self._aws.region!r}, got {region!r}")
        found = self._clients.of("ec2").describe_availability_zones()["AvailabilityZones"]
        return sorted(each["ZoneName"] for each in found if each["ZoneType"] == "availability-zone")


class _Creating:
    """The creation of a stack's resources, one by one, each in a thread of its own."""

    def __init__(
        self,
        deployment: Deployment,
        known: Known,
        resources: Mapping[str, Resource],
        needs: Order,
        initiated: Initiated | None,
        skip: Skip | None,
        stored: Callable[[str], str],
    ) -> None:
        self._deployment, self._known, self._resources, self._needs = deployment, known, resources, needs
        self._initiated, self._skip, self._stored = initiated, skip, stored
        self._began = time.monotonic()
        self._unplayed: set[str] = set()
        self.made: dict[str, Made] = {}

    def create(self, logical_id: str) -> Event:
        """Create a resource and return how that ended."""
        resource, started = self._resources[logical_id], time.monotonic() - self._began
        status, said = self._ended(resource)
        made = self.made.get(logical_id)
        return Event(
            logical_id=logical_id,
            type=resource.type,
            status=status,
            reason=said,
            started=started,
            ended=time.monotonic() - self._began,
            after=self._needs[logical_id],
            physical_id=made.ref if made else "",
        )

    def _ended(self, resource: Resource) -> tuple[Status, str]:
        try:
            if reason := self._why_not_played(resource):
                self._unplayed.add(resource.logical_id)
                return "NOT_PLAYED", reason
            made = self._make(resource)
        except (CreationFailed, ClientError, BotoCoreError, ValueError, LookupError) as error:
            return "CREATE_FAILED", f"{type(error).__name__}: {error}"
        self._known.add(resource.logical_id, made)
        self.made[resource.logical_id] = made
        return "CREATE_COMPLETE", made.note

    def _why_not_played(self, resource: Resource) -> str:
        if creator(resource.type) is None:
            return f"nothing here plays {resource.type}"
        asked = sorted(self._unplayed.intersection(references(resource.properties)))
        if asked:
            return f"refers to {', '.join(asked)}, not played"
        return self._skip(resource.logical_id, resource.type, self._properties(resource)) if self._skip else ""

    def _properties(self, resource: Resource) -> dict[str, Any]:
        """Return its properties with functions applied."""
        found: dict[str, Any] = resolve(evaluate(resource.properties, self._known), self._stored)
        return found

    def _make(self, resource: Resource) -> Made:
        make = creator(resource.type)
        assert make is not None
        creation = Creation(
            deployment=self._deployment,
            resource=resource,
            properties=self._properties(resource),
            initiated=lambda physical_id: self._tell(resource, physical_id),
        )
        made = make(creation)
        creation.refuse_unused()
        return made

    def _tell(self, resource: Resource, physical_id: str) -> None:
        if self._initiated:
            self._initiated(resource.logical_id, resource.type, physical_id)


def _not_begun(resources: Mapping[str, Resource], needs: Order, events: list[Event]) -> list[Event]:
    ended = {event.logical_id for event in events}
    return [
        Event(logical_id=name, type=each.type, status="NOT_BEGUN", after=needs[name])
        for name, each in resources.items()
        if name not in ended
    ]
