"""One operation on the resources of a stack: changes, the rollback after a failure, and deletions.

Sources, read 2026-11: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-deletionpolicy.html,
aws-attribute-updatereplacepolicy.html there, and
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-updating-stacks-update-behaviors.html
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from botocore.exceptions import BotoCoreError, ClientError

from gpu_rehearsal.cloudformation.assets import Assets
from gpu_rehearsal.cloudformation.changes import (
    Created,
    Creation,
    CreationFailed,
    Deployed,
    Deployment,
    Event,
    Phase,
    StackIdentity,
    Status,
    inverted,
    run_all,
)
from gpu_rehearsal.cloudformation.intrinsics import NO_VALUE, evaluate, resolve
from gpu_rehearsal.cloudformation.resource_types import Type, find_type
from gpu_rehearsal.cloudformation.template import Order, Resource, Template, references, region_partition

Skip = Callable[[str, str, Mapping[str, Any]], str]
Replaces = Callable[[str], Sequence[str]]
_Verb = Literal["CREATE", "UPDATE", "DELETE"]
_ERRORS = (CreationFailed, ClientError, BotoCoreError, ValueError, LookupError)
# Codes of errors that mean that a resource is gone already, which makes its deletion complete.
_GONE = ("NotFound", "NoSuch", "NonExistent", "DoesNotExist")


class StackScope:
    """The values that functions of a template can read.

    Args:
        template: The template, with conditions and mappings.
        stack: Name and id of the stack.
        region: Region of the stack.
        account: Account of the stack.
        parameters: Values of the parameters.
        zones: Returns the names of a region's Availability Zones.
        exports: Exported values of other stacks, by name.
        outputs: Outputs of the other stacks of the region, by stack and key.
    """

    def __init__(
        self,
        template: Template,
        *,
        stack: StackIdentity,
        region: str,
        account: str,
        parameters: Mapping[str, Any],
        zones: Callable[[str], list[str]],
        exports: Mapping[str, str],
        outputs: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._template, self._region, self._zones, self._exports = template, region, zones, exports
        self._outputs = outputs
        self.names = {**_pseudo_parameters(stack, region, account), **parameters}
        self._physical: dict[str, Created] = {}
        self._lock = threading.Lock()

    def add(self, logical_id: str, physical: Created) -> None:
        """Add a resource."""
        with self._lock:
            self._physical[logical_id] = physical

    def ref(self, name: str) -> Any:
        """Return the value of ``Ref``.

        Raises:
            LookupError: The name doesn't exist.
        """
        return self.names[name] if name in self.names else self._find_resource(name).ref

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute of a resource.

        Raises:
            LookupError: The resource doesn't exist, or has no such attribute here.
        """
        found = self._find_resource(logical_id)
        if name not in found.attributes:
            raise LookupError(f"{logical_id} has no attribute {name!r} here, but {sorted(found.attributes)}")
        return found.attributes[name]

    def condition(self, name: str) -> bool:
        """Whether a condition of the template holds."""
        return bool(evaluate(self._template.conditions[name], self))

    def mapping(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a mapping of the template."""
        found: Mapping[str, Mapping[str, Any]] = self._template.mappings[name]
        return found

    def zones(self, region: str) -> list[str]:
        """Return the names of a region's Availability Zones."""
        return self._zones(region or self._region)

    def imported(self, name: str) -> Any:
        """Return an exported value of another stack.

        Raises:
            LookupError: No stack exports it.
        """
        if name not in self._exports:
            raise LookupError(f"No export named {name} found; create the stack that exports it first")
        return self._exports[name]

    def output(self, stack: str, name: str, region: str) -> Any:
        """Return the value of another stack's output.

        Raises:
            LookupError: The stack or its output doesn't exist here.
            ValueError: The stack is in another region.
        """
        if region not in ("", self._region):
            raise ValueError(f"Fn::GetStackOutput: region must be {self._region!r}, got {region!r}")
        if name not in self._outputs.get(stack, {}):
            raise LookupError(f"No output {name} of stack {stack} found; create that stack first")
        return self._outputs[stack][name]

    def _find_resource(self, logical_id: str) -> Created:
        with self._lock:
            if logical_id not in self._physical:
                raise LookupError(f"{logical_id} is neither a parameter nor a resource that exists")
            return self._physical[logical_id]


def _pseudo_parameters(stack: StackIdentity, region: str, account: str) -> dict[str, Any]:
    """Return the pseudo parameters of a stack.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/pseudo-parameter-reference.html (2026-11)
    """
    partition = region_partition(region)
    return {
        "AWS::AccountId": account,
        "AWS::NoValue": NO_VALUE,
        "AWS::NotificationARNs": [],
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackId": stack.id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
    }


class Operation:
    """Creates, updates and deletes the resources of one stack, each in its own thread.

    Args:
        deployment: The stack, and the tools that create its resources.
        before: The resources of the stack when the operation starts, by logical id.
        at_once: Max number of concurrent changes.
        replaces: Returns the properties of a type whose change replaces the resource, as paths with slashes.
        skip: Returns why a resource isn't simulated; empty if it is.
        excuse: Returns why an error of a creation or update doesn't count; empty if it counts.
        stored: Reads a parameter of Parameter Store.
        fails: Returns why a resource fails although it was created; empty if it doesn't.

    Attributes:
        deployed: The resources of the stack, by logical id.
        leftovers: Resources that the stack no longer needs and that aren't deleted yet.
    """

    def __init__(
        self,
        deployment: Deployment,
        before: Mapping[str, Deployed],
        *,
        at_once: int,
        replaces: Replaces,
        skip: Skip | None,
        excuse: Callable[[str], str],
        stored: Callable[[str], str],
        fails: Callable[[str], str],
    ) -> None:
        self._deployment, self._before, self._at_once = deployment, dict(before), at_once
        self._replaces, self._skip, self._excuse, self._stored, self._fails = replaces, skip, excuse, stored, fails
        self._began = time.monotonic()
        self._not_simulated: set[str] = set()
        self.deployed = dict(before)
        self.leftovers: dict[str, Deployed] = {}

    def forward(self, phase: Phase, resources: Mapping[str, Resource], needs: Order, known: StackScope) -> list[Event]:
        """Create and update resources until one fails.

        Args:
            phase: ``create`` or ``update``.
            resources: The resources that exist afterwards.
            needs: The logical ids that each depends on.
            known: Receives each resource.
        """

        def change(name: str) -> Event:
            resource = resources[name]
            verb: _Verb = "UPDATE" if name in self._before else "CREATE"
            return self._event(
                phase, verb, resource, needs[name], lambda: self._create_or_update(resource, verb, needs[name], known)
            )

        functions = self._deployment.functions
        functions.can_be_stopped = True
        try:
            return run_all(needs, change, at_once=self._at_once)
        finally:
            # A stopped run ends before the rollback starts.
            functions.settle()
            functions.can_be_stopped = False

    def clean_up(self, resources: Mapping[str, Resource]) -> list[Event]:
        """Delete the resources that an update replaced or removed. CloudFormation ignores failed deletions here."""
        removed = {name: each for name, each in self._before.items() if name not in resources}
        keep = {name: each.resource.deletion_policy.startswith("Retain") for name, each in removed.items()}
        # Assumption, without a source: the policy of the old template counts.
        keep |= {name: each.resource.update_replace_policy == "Retain" for name, each in self.leftovers.items()}
        events = self._delete_all("cleanup", removed | self.leftovers, self._before, keep)
        self.leftovers = {}
        for name in removed:
            del self.deployed[name]
        return events

    def roll_back(self, assets: Assets) -> list[Event]:
        """Restore the resources of the start, in their old order, then delete new ones. Stops where it fails.

        Args:
            assets: Files of the old template.
        """
        self._deployment = replace(self._deployment, assets=assets)
        new, self.leftovers = dict(self.deployed), {}
        needs = {name: _present(each.after, self._before) for name, each in self._before.items()}

        def restore(name: str) -> Event:
            return self._event(
                "rollback", "UPDATE", self._before[name].resource, needs[name], lambda: self._restore(name)
            )

        events = run_all(needs, restore, at_once=self._at_once)
        if any(each.failed for each in events):
            return events
        created = {name: each for name, each in self.deployed.items() if name not in self._before}
        keep = {name: each.resource.deletion_policy == "Retain" for name, each in created.items()}
        events += self._delete_all("rollback", created | self.leftovers, new, keep)
        self.leftovers = {}
        # A failed deletion fails the rollback of a new stack. After an update, CloudFormation ignores it.
        for name in created if self._before else _deleted(events):
            del self.deployed[name]
        return events

    def delete_all(self) -> list[Event]:
        """Delete every resource. If a deletion fails, the resources that it depends on stay."""
        keep = {name: each.resource.deletion_policy.startswith("Retain") for name, each in self.deployed.items()}
        events = self._delete_all("delete", self.deployed, self.deployed, keep)
        for name in _deleted(events):
            del self.deployed[name]
        return events

    def _create_or_update(
        self, resource: Resource, verb: _Verb, after: tuple[str, ...], known: StackScope
    ) -> tuple[Status, str]:
        """Create or update a resource. If that isn't simulated, the stack keeps the old resource."""
        name = resource.logical_id
        try:
            reason = self._why_not_simulated(resource, known)
            if not reason:
                return self._apply(resource, verb, after, known)
        except _ERRORS as error:
            reason = self._excuse(str(error))
            if not reason:
                raise
            self.deployed.pop(name, None)
            self.deployed |= {name: self._before[name]} if name in self._before else {}
        self._not_simulated.add(name)
        return "NOT_PLAYED", reason

    def _apply(self, resource: Resource, verb: _Verb, after: tuple[str, ...], known: StackScope) -> tuple[Status, str]:
        """Create, update or replace a resource as the template declares it."""
        name, old = resource.logical_id, self._before.get(resource.logical_id)
        new = Deployed(
            resource=resource,
            properties=self._properties(resource, known),
            physical=Created(ref=""),
            after=after,
        )
        if old and old.properties == new.properties:
            new_state = replace(new, physical=old.physical, generation=old.generation)
        elif old and not self._is_replaced(old, new):
            new_state = self._update(old, new)
        else:
            new_state = self._create(replace(new, generation=old.generation + 1 if old else 0))
        if old and new_state.physical.ref != old.physical.ref:
            self.leftovers[name] = old
        self.deployed[name] = new_state
        known.add(name, new_state.physical)
        status = "UNCHANGED" if old and old.properties == new.properties else f"{verb}_COMPLETE"
        return cast(Status, status), new_state.physical.note

    def _restore(self, name: str) -> tuple[Status, str]:
        """Restore a resource to its state at the start of the operation."""
        old, now = self._before[name], self.deployed[name]
        self.deployed[name] = old
        if now.generation != old.generation:
            self.leftovers[name] = now
        elif now.properties != old.properties:
            try:
                new_state = self._update(now, old, reverts=True)
            except _ERRORS:
                self.deployed[name] = now
                raise
            # Assumption, without a source: the id that the update in the rollback returns counts.
            if new_state.physical.ref != now.physical.ref:
                self.leftovers[name] = now
            self.deployed[name] = new_state
            return "UPDATE_COMPLETE", new_state.physical.note
        return "UNCHANGED", ""

    def _create(self, new: Deployed) -> Deployed:
        creation = self._creation(new)
        try:
            physical = _type(new.resource).create(creation)
            creation.physical_id = physical.ref
            creation.refuse_unused()
            if why := self._fails(creation.logical_id):
                creation.fail(why)
        except _ERRORS:
            if creation.physical_id:
                self.deployed[creation.logical_id] = replace(new, physical=Created(ref=creation.physical_id))
            raise
        return replace(new, physical=physical)

    def _update(self, old: Deployed, new: Deployed, *, reverts: bool = False) -> Deployed:
        """Change a resource in place. A rollback also reverts a change that failed after its first call."""
        creation, kept = self._creation(new, before=old), replace(new, physical=old.physical, generation=old.generation)
        self.deployed[creation.logical_id] = kept
        update = _type(new.resource).update
        try:
            physical = update(creation) if update else old.physical
            # An update with an unsupported property failed before its first call, so there is nothing to revert.
            if not reverts:
                creation.refuse_unused()
        except _ERRORS:
            if not creation.has_called:
                self.deployed[creation.logical_id] = old
            raise
        return replace(kept, physical=physical)

    def _delete_all(
        self, phase: Phase, gone: Mapping[str, Deployed], all_of_them: Mapping[str, Deployed], keep: Mapping[str, bool]
    ) -> list[Event]:
        """Delete some of the resources, each before those that it depends on."""
        order = inverted({name: _present(each.after, all_of_them) for name, each in all_of_them.items()})

        def remove(name: str) -> Event:
            found = gone.get(name)
            resource, physical_id = all_of_them[name].resource, found.physical.ref if found else ""
            return self._event(
                phase, "DELETE", resource, order[name], lambda: self._delete(found, keep.get(name, False)), physical_id
            )

        return run_all(order, remove, at_once=self._at_once, stop_on_failure=False)

    def _delete(self, found: Deployed | None, keeps: bool) -> tuple[Status, str]:
        if found is None or keeps:
            return "DELETE_SKIPPED" if found else "UNCHANGED", ""
        try:
            _type(found.resource).delete(self._creation(found, before=found))
        except ClientError as error:
            if not any(each in error.response["Error"]["Code"] for each in _GONE):
                raise
        return "DELETE_COMPLETE", ""

    def _event(
        self,
        phase: Phase,
        verb: _Verb,
        resource: Resource,
        after: tuple[str, ...],
        change: Callable[[], tuple[Status, str]],
        physical_id: str = "",
    ) -> Event:
        started, name = time.monotonic() - self._began, resource.logical_id
        try:
            status, reason = change()
        except _ERRORS as error:
            status, reason = cast(Status, f"{verb}_FAILED"), f"{type(error).__name__}: {error}"
        if not physical_id and status != "NOT_PLAYED" and name in self.deployed:
            physical_id = self.deployed[name].physical.ref
        return Event(
            logical_id=name,
            type=resource.type,
            status=status,
            reason=reason,
            started=started,
            ended=time.monotonic() - self._began,
            after=after,
            physical_id=physical_id,
            phase=phase,
        )

    def _creation(self, new: Deployed, before: Deployed | None = None) -> Creation:
        return Creation(
            deployment=self._deployment,
            resource=new.resource,
            properties=new.properties,
            before=before,
            generation=new.generation,
        )

    def _is_replaced(self, old: Deployed, new: Deployed) -> bool:
        paths = (each.split("/") for each in self._replaces(new.resource.type))
        return any(_find_value(old.properties, path) != _find_value(new.properties, path) for path in paths)

    def _why_not_simulated(self, resource: Resource, known: StackScope) -> str:
        if find_type(resource.type) is None:
            return f"nothing here simulates {resource.type}"
        unsimulated = sorted(self._not_simulated.intersection(references(resource.properties)))
        if unsimulated:
            return f"refers to {', '.join(unsimulated)}, which isn't simulated"
        if not self._skip:
            return ""
        return self._skip(resource.logical_id, resource.type, self._properties(resource, known))

    def _properties(self, resource: Resource, known: StackScope) -> dict[str, Any]:
        """Return its properties with functions evaluated."""
        found: dict[str, Any] = resolve(evaluate(resource.properties, known), self._stored)
        return found


def _type(resource: Resource) -> Type:
    found = find_type(resource.type)
    assert found is not None, resource.type
    return found


def _deleted(events: list[Event]) -> list[str]:
    return [each.logical_id for each in events if each.status in ("DELETE_COMPLETE", "DELETE_SKIPPED")]


def _present(names: tuple[str, ...], resources: Mapping[str, Deployed]) -> tuple[str, ...]:
    return tuple(name for name in names if name in resources)


def _find_value(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
