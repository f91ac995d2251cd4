"""The rehearsal simulates each resource type that this library emits.

Each property reaches a call that botocore's models accept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from gpu_facts.schemas import replacement_properties
from gpu_rehearsal.cloudformation.changes import (
    Clients,
    Created,
    Creation,
    CreationFailed,
    Deployed,
    Deployment,
    StackIdentity,
)
from gpu_rehearsal.cloudformation.intrinsics import evaluate, resolve
from gpu_rehearsal.cloudformation.invocation import Functions
from gpu_rehearsal.cloudformation.resource_types import CUSTOM, TYPES, find_type
from gpu_rehearsal.cloudformation.template import Resource
from tests.emitted import Template
from tests.rehearsal.cloudformation.accounts import REGION, UnsentAccount

# Types that no example and no stack of the matrix has, but a user's stack can have.
RARE = {
    "AWS::CDK::Metadata",
    "AWS::CloudFormation::CustomResource",
    "AWS::KMS::Alias",
    "AWS::Lambda::Permission",
}
# The rehearsal reports resources of these types as not played.
NOT_SIMULATED = ["AWS::AutoScaling::ScheduledAction", "AWS::FSx::DataRepositoryAssociation"]
# The ARN of an S3 access point, because calls accept it as the name of a bucket too.
ARN = f"arn:aws:s3:{REGION}:123456789012:accesspoint/any"


class Anything:
    """A scope that has a value for each name."""

    def ref(self, name: str) -> Any:
        """Return what Ref gives."""
        return ARN

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return what Fn::GetAtt gives."""
        return "1" if name.endswith(("Number", "Size")) else ARN

    def condition(self, name: str) -> bool:
        """Whether a condition holds."""
        return True

    def mapping(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a mapping."""
        raise LookupError(name)

    def zones(self, region: str) -> list[str]:
        """Return zones."""
        return [f"{REGION}{each}" for each in "abcdef"]

    def imported(self, name: str) -> Any:
        """Return what is imported."""
        return ARN

    def output(self, stack: str, name: str, region: str) -> Any:
        """Return an output."""
        return "output"


class Workshop:
    """Creates resources of any type by calls that are checked and not sent."""

    def __init__(self, folder: Path) -> None:
        self.aws, self._folder, self._physical = UnsentAccount(), folder, 0
        self._clients = Clients(self.aws)
        (folder / "empty").mkdir()

    def make(self, kind: str, properties: Mapping[str, Any]) -> Created:
        """Make a resource and return it."""
        creation = self._creation(kind, evaluated(properties))
        made = TYPES[kind].create(creation)
        creation.refuse_unused()
        return made

    def update(self, kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Make a resource, then update it."""
        creation = self._creation(kind, evaluated(new), before=self._deployed(kind, old))
        if update := TYPES[kind].update:
            update(creation)
        creation.refuse_unused()

    def delete(self, kind: str, properties: Mapping[str, Any]) -> None:
        """Make a resource, then delete it."""
        before = self._deployed(kind, properties)
        self.aws.sent.clear()
        TYPES[kind].delete(self._creation(kind, before.properties, before=before))

    def _deployed(self, kind: str, properties: Mapping[str, Any]) -> Deployed:
        made = self.make(kind, properties)
        self.aws.sent.clear()
        resource = Resource(logical_id="Resource", type=kind, properties={})
        return Deployed(resource=resource, properties=evaluated(properties), physical=made)

    def _creation(self, kind: str, properties: Mapping[str, Any], before: Deployed | None = None) -> Creation:
        self._physical += 1
        functions = Functions(self.aws, self._folder / str(self._physical), {})
        functions.layers[ARN] = self._folder / "empty"
        deployment = Deployment(
            stack=StackIdentity(name="Test", id="arn:aws:cloudformation:us-east-1:123456789012:stack/Test/0"),
            aws=self.aws,
            clients=self._clients,
            functions=functions,
            answers=None,  # type: ignore[arg-type]  # of custom resources only
            assets=SimpleNamespace(unpack=lambda key, folder: self._folder / "empty"),  # type: ignore[arg-type]
        )
        resource = Resource(logical_id="Resource", type=kind, properties={})
        return Creation(deployment=deployment, resource=resource, properties=properties, before=before)


def evaluated(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties with functions applied."""
    found: dict[str, Any] = resolve(evaluate(properties, Anything()), str)
    return found


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def different(emitted: Mapping[str, Template]) -> list[tuple[str, dict[str, Any]]]:
    """Return type and properties of one resource of each form. Resources of one form differ in values only."""
    resources = [each for template in emitted.values() for each in template["Resources"].values()]
    forms = {json.dumps([each["Type"], form(each.get("Properties", {}))], sort_keys=True): each for each in resources}
    return [(each["Type"], each.get("Properties", {})) for each in forms.values()]


def form(value: Any) -> Any:
    """Return the keys of a value with the types of their values."""
    if isinstance(value, Mapping):
        return {key: form(each) for key, each in value.items()}
    return sorted({json.dumps(form(each)) for each in value}) if isinstance(value, list) else type(value).__name__


def test_every_other_type_is_simulated(emitted: dict[str, Template]) -> None:
    assert sorted({kind for kind, _ in different(emitted) if find_type(kind) is None}) == NOT_SIMULATED


def simulated(emitted: Mapping[str, Template]) -> list[tuple[str, dict[str, Any]]]:
    """Return the resources of `different` that are simulated and aren't custom resources."""
    return [each for each in different(emitted) if find_type(each[0]) not in (None, CUSTOM)]


def test_every_property_reaches_a_call(emitted: dict[str, Template], workshop: Workshop) -> None:
    for kind, properties in simulated(emitted):
        assert workshop.make(kind, properties).ref, kind


def test_a_property_that_no_call_takes_is_refused(emitted: dict[str, Template], workshop: Workshop) -> None:
    one = dict(simulated(emitted))
    for kind, properties in one.items():
        with pytest.raises((ValueError, CreationFailed), match=r"Nonsense"):
            workshop.make(kind, {**properties, "Nonsense": "1"})


def test_every_simulated_type_is_emitted_or_rare(emitted: dict[str, Template]) -> None:
    assert set(TYPES) - {kind for kind, _ in different(emitted)} == RARE


# Types that no call creates.
UNSENT = {"AWS::CDK::Metadata", "AWS::Lambda::Function", "AWS::Lambda::LayerVersion", "AWS::Lambda::Permission"}
# Settings of later calls, so an update doesn't send them.
SETTINGS_OF_LATER_CALLS = {("AWS::EKS::Nodegroup", "ForceUpdateEnabled"), ("AWS::KMS::Key", "PendingWindowInDays")}


def test_every_type_is_deleted_by_calls(emitted: dict[str, Template], workshop: Workshop) -> None:
    for kind, properties in simulated(emitted):
        workshop.delete(kind, properties)
        assert workshop.aws.sent or kind in UNSENT, kind


def test_no_update_of_a_property_is_silent(emitted: dict[str, Template], workshop: Workshop) -> None:
    """An update that adds a property, or removes it, sends a call or fails."""
    updated = set()
    for kind, properties in simulated(emitted):
        if kind in UNSENT:
            continue
        # A property that identifies the resource, or that the call requires, isn't added or removed alone.
        for name in properties.keys() - set(replacement_properties(kind)):
            without = {key: each for key, each in properties.items() if key != name}
            for old, new in ((properties, without), (without, properties)):
                try:
                    workshop.update(kind, old, new)
                except (ValueError, LookupError, TypeError, CreationFailed, ParamValidationError):
                    continue
                assert workshop.aws.sent or (kind, name) in SETTINGS_OF_LATER_CALLS, (kind, name)
                updated.add(kind)
    assert updated >= {"AWS::EKS::Nodegroup", "AWS::IAM::Role", "AWS::SQS::Queue"}
