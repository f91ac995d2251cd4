"""A stack that is created, updated and deleted as CloudFormation does.

Change sets, drift, imports, stack policies and termination protection aren't simulated. An update that failed to
roll back can't be continued, and the deletion of its stack leaves replacements behind that it created.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpu_rehearsal.cloudformation.assets import Assets
from gpu_rehearsal.cloudformation.changes import Answers, Clients, Deployed, Deployment, Event, Phase, StackIdentity
from gpu_rehearsal.cloudformation.intrinsics import evaluate, refuse_unless_asserted
from gpu_rehearsal.cloudformation.invocation import Functions, Run
from gpu_rehearsal.cloudformation.operation import Operation, Replaces, Skip, StackScope
from gpu_rehearsal.cloudformation.template import (
    Account,
    Order,
    Resource,
    Template,
    existing,
    order,
    region_partition,
    values,
)
from gpu_rehearsal.credentials import Authority

# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html (2026-11)
_CAN_BE_UPDATED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")


class Stack:
    """One stack of one template.

    Args:
        template: The synthesized template.
        name: Name of the stack.
        assembly: Folder with the template's asset manifest.
        aws: The simulated account. Its Invoke calls functions of the stack.
        parameters: Values of the template's parameters.
        exports: Exported values of other stacks, by name.
        others: Outputs of other stacks of the region, by stack and key.
        environment: Additional variables of every run of a function, for example the address of a proxy.
        authority: Signs the certificate of the server to which functions respond. Stacks that use each other's
            functions share it. Default: a new one.
        folder: Folder for code, layers and logs of functions. Default: a temporary one, which isn't deleted.
        skip: Returns why a resource isn't simulated, by logical id, type and evaluated properties; empty if it is.
            Resources that refer to it aren't simulated either. Resources that only depend on it are.
        excuse: Returns why an error doesn't fail the stack, so that the resource isn't simulated; empty if it does.
            Errors of rollbacks and deletions always count.
        stopped: Returns why to stop a creation or update; empty while it may continue. Rollbacks and deletions aren't
            stopped.
        replaces: Returns the properties of a resource type whose change replaces the resource, as paths with slashes.
            Default: none, so that such a change is an update that fails.
        at_once: Max number of concurrent changes.
        fails: Returns why a resource fails after its creation, by logical id; empty if it doesn't. Default: none.
        tries: How many earlier stacks of the same name were rolled back.

    Attributes:
        id: ARN of the stack.
        status: Status in CloudFormation; empty before the creation.
        resources: Existing resources, by logical id.
        outputs: Values of the template's outputs, once every resource is complete.
        exports: Outputs that other stacks can import, by name.
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
        skip: Skip | None = None,
        excuse: Callable[[str], str] = lambda error: "",
        stopped: Callable[[], str] = lambda: "",
        replaces: Replaces = lambda _: (),
        at_once: int = 16,
        fails: Callable[[str], str] = lambda logical_id: "",
        tries: int = 0,
    ) -> None:
        self._template, self._aws, self._assets = Template.read(template), aws, Assets(assembly)
        self._parameters, self._imports, self._others = parameters or {}, exports or {}, others or {}
        self._skip, self._excuse, self._replaces, self._at_once = skip, excuse, replaces, at_once
        self._fails = fails
        self._folder = folder or Path(tempfile.mkdtemp(prefix="rehearsal-"))
        self._authority = authority or Authority(self._folder)
        self._clients = Clients(aws)
        environment = {**self._authority.environment(), **(environment or {})}
        self._functions = Functions(aws, self._folder, environment, stopped)
        identifier = uuid.uuid5(uuid.NAMESPACE_URL, f"{aws.account}/{aws.region}/{name}{tries or ''}")
        where = f"arn:{region_partition(aws.region)}:cloudformation:{aws.region}:{aws.account}"
        self._identity = StackIdentity(name=name, id=f"{where}:stack/{name}/{identifier}", tries=tries)
        self.id = self._identity.id
        self.status = ""
        self.resources: dict[str, Deployed] = {}
        self.outputs: dict[str, str] = {}
        self.exports: dict[str, str] = {}
        aws.stack_resources.update(dict.fromkeys((name, self.id), self._physical_id))

    @property
    def runs(self) -> list[Run]:
        """All ended runs of functions of this stack."""
        return list(self._functions.runs)

    def create(self, *, rollback: bool = False) -> list[Event]:
        """Create all resources in the order of their dependencies, and return the event of each.

        Args:
            rollback: Whether a failure deletes the created resources. By default they stay for inspection.

        Raises:
            ValueError: CloudFormation would reject the template or its parameters before it creates anything.
        """
        return self._deploy("create", self._template, self._assets, rolls_back=rollback)

    def update(
        self,
        template: Mapping[str, Any],
        *,
        assembly: Path,
        exports: Mapping[str, str] | None = None,
        others: Mapping[str, Mapping[str, str]] | None = None,
    ) -> list[Event]:
        """Update the stack to another template, or roll back. Return the event of each changed resource.

        Args:
            template: The new document.
            assembly: Folder with its asset manifest.
            exports: Exported values of other stacks now. Default: unchanged.
            others: Outputs of other stacks now. Default: unchanged.

        Raises:
            ValueError: CloudFormation would reject the update before it changes anything.
        """
        if self.status not in _CAN_BE_UPDATED:
            raise ValueError(f"Stack:{self.id} is in {self.status} state and can not be updated.")
        self._imports, self._others = exports or self._imports, others or self._others
        new = Template.read(template)
        old = self.resources
        if kinds := sorted(
            name for name, each in new.resources.items() if name in old and each.type != old[name].resource.type
        ):
            raise ValueError(
                "Update of resource type is not permitted. The new template modifies resource type of the following "
                f"resources: [{', '.join(kinds)}]"
            )
        return self._deploy("update", new, Assets(assembly), rolls_back=True)

    def delete(self) -> list[Event]:
        """Delete every resource, each before its dependencies. Call it again to retry failed deletions."""
        with self._operation(self._assets) as operation:
            events = operation.delete_all()
        self.resources = operation.deployed
        self.status = "DELETE_FAILED" if self.resources else "DELETE_COMPLETE"
        if not self.resources:
            self.outputs, self.exports = {}, {}
        return events

    def _physical_id(self, logical_id: str) -> str:
        found = self.resources.get(logical_id)
        return found.physical.ref if found else ""

    def _deploy(self, phase: Phase, template: Template, assets: Assets, *, rolls_back: bool) -> list[Event]:
        known = self._known(template)
        refuse_unless_asserted(template.rules, known)
        resources = existing(template, known.condition)
        needs = order(resources, declared=template.resources, others=known.names)
        verb = phase.upper()
        with self._operation(assets) as operation:
            events = operation.forward(phase, resources, needs, known)
            whole = {each.status for each in events} <= {f"{verb}_COMPLETE", "CREATE_COMPLETE", "UNCHANGED"}
            if not any(each.failed for each in events):
                self._template, self._assets = template, assets
                events += operation.clean_up(resources)
                self.status = f"{verb}_COMPLETE"
                if whole:
                    self._set_outputs(known)
            elif rolls_back:
                events += _not_begun(resources, needs, events) if phase == "create" else []
                back = operation.roll_back(self._assets)
                events += back
                # A failed deletion fails the rollback of a creation only: an update forgets the resource.
                blocking = "UPDATE_FAILED" if phase == "update" else "DELETE_FAILED"
                ended = "FAILED" if any(each.status == blocking for each in back) else "COMPLETE"
                self.status = f"{'UPDATE_' if phase == 'update' else ''}ROLLBACK_{ended}"
            else:
                events += _not_begun(resources, needs, events)
                self.status = f"{verb}_FAILED"
        self.resources = operation.deployed
        return [each for each in events if each.status != "UNCHANGED"]

    @contextmanager
    def _operation(self, assets: Assets) -> Iterator[Operation]:
        with Answers(self._authority) as answers:
            deployment = Deployment(
                stack=self._identity,
                aws=self._aws,
                clients=self._clients,
                functions=self._functions,
                answers=answers,
                assets=assets,
            )
            yield Operation(
                deployment,
                self.resources,
                at_once=self._at_once,
                replaces=self._replaces,
                skip=self._skip,
                excuse=self._excuse,
                stored=self._stored,
                fails=self._fails,
            )
            self._functions.settle()

    def _known(self, template: Template) -> StackScope:
        return StackScope(
            template,
            stack=self._identity,
            region=self._aws.region,
            account=self._aws.account,
            parameters=values(template.parameters, self._parameters, self._stored),
            zones=self._zones,
            exports=self._imports,
            outputs=self._others,
        )

    def _set_outputs(self, known: StackScope) -> None:
        self.outputs, self.exports = {}, {}
        for name, each in self._template.outputs.items():
            if "Condition" in each and not known.condition(each["Condition"]):
                continue
            self.outputs[name] = evaluate(each["Value"], known)
            if "Export" in each:
                self.exports[evaluate(each["Export"]["Name"], known)] = self.outputs[name]

    def _stored(self, name: str) -> str:
        """Read a parameter of Parameter Store."""
        ssm = self._clients.get_client("ssm")
        try:
            return str(ssm.get_parameter(Name=name)["Parameter"]["Value"])
        except ssm.exceptions.ParameterNotFound:
            raise ValueError(f"Unable to fetch parameters [{name}] from parameter store for this account.") from None

    def _zones(self, region: str) -> list[str]:
        if region != self._aws.region:
            raise ValueError(f"Fn::GetAZs: region must be {self._aws.region!r}, got {region!r}")
        found = self._clients.get_client("ec2").describe_availability_zones()["AvailabilityZones"]
        return sorted(each["ZoneName"] for each in found if each["ZoneType"] == "availability-zone")


def _not_begun(resources: Mapping[str, Resource], needs: Order, events: list[Event]) -> list[Event]:
    ended = {event.logical_id for event in events}
    return [
        Event(logical_id=name, type=each.type, status="NOT_BEGUN", after=needs[name])
        for name, each in resources.items()
        if name not in ended
    ]
