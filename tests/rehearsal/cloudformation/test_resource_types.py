"""Every resource that this library emits is played, and every property of it reaches a call that botocore takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, CreationFailed, Made
from gpu_constructs.rehearsal.players.cloudformation.deployment import Clients, Deployment, StackIdentity
from gpu_constructs.rehearsal.players.cloudformation.functions.functions import Functions
from gpu_constructs.rehearsal.players.cloudformation.resource_types.custom import custom_resource
from gpu_constructs.rehearsal.players.cloudformation.resource_types.table import CREATORS, creator
from gpu_constructs.rehearsal.players.cloudformation.templates.dynamic_references import resolve
from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import evaluate
from gpu_constructs.rehearsal.players.cloudformation.templates.template import Resource
from tests.emitted import Template
from tests.rehearsal.cloudformation.accounts import REGION, UnsentAccount

# What stacks of users may contain beside what examples and matrix do.
RARE = {
    "AWS::CDK::Metadata",
    "AWS::CloudFormation::CustomResource",
    "AWS::KMS::Alias",
    "AWS::Lambda::Permission",
}
# Of an access point, which also a bucket may be named by.
ARN = f"arn:aws:s3:{REGION}:123456789012:accesspoint/anybody"


class Anything:
    """A scope in which everything is known."""

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
    """Makes resources of any type by calls that are checked and not sent."""

    def __init__(self, folder: Path) -> None:
        self.aws, self._folder, self._made = UnsentAccount(), folder, 0
        self._clients = Clients(self.aws)
        (folder / "empty").mkdir()

    def make(self, kind: str, properties: Mapping[str, Any]) -> Made:
        """Make a resource and return it."""
        self._made += 1
        functions = Functions(self.aws, self._folder / str(self._made), {})
        functions.layers[ARN] = self._folder / "empty"
        deployment = Deployment(
            stack=StackIdentity(name="Test", id="arn:aws:cloudformation:us-east-1:123456789012:stack/Test/0"),
            aws=self.aws,
            clients=self._clients,
            functions=functions,
            answers=None,  # type: ignore[arg-type]  # of custom resources only
            assets=SimpleNamespace(unpack=lambda key, folder: self._folder / "empty"),  # type: ignore[arg-type]
        )
        creation = Creation(
            deployment=deployment,
            resource=Resource(logical_id="Resource", type=kind, properties={}),
            properties=resolve(evaluate(properties, Anything()), str),
            initiated=lambda physical_id: None,
        )
        made = CREATORS[kind](creation)
        creation.refuse_unused()
        return made


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


def different(emitted: Mapping[str, Template]) -> list[tuple[str, dict[str, Any]]]:
    """Return type and properties of resources, one of each form: what differs in texts and numbers only is the same."""
    resources = [each for template in emitted.values() for each in template["Resources"].values()]
    forms = {json.dumps([each["Type"], form(each.get("Properties", {}))], sort_keys=True): each for each in resources}
    return [(each["Type"], each.get("Properties", {})) for each in forms.values()]


def form(value: Any) -> Any:
    """Return the keys of a value, and the types of what they hold."""
    if isinstance(value, Mapping):
        return {key: form(each) for key, each in value.items()}
    return sorted({json.dumps(form(each)) for each in value}) if isinstance(value, list) else type(value).__name__


def test_every_type_is_played(emitted: dict[str, Template]) -> None:
    assert [kind for kind, _ in different(emitted) if creator(kind) is None] == []


def test_every_property_reaches_a_call(emitted: dict[str, Template], workshop: Workshop) -> None:
    for kind, properties in different(emitted):
        if creator(kind) is not custom_resource:
            assert workshop.make(kind, properties).ref, kind


def test_a_property_that_no_call_takes_is_refused(emitted: dict[str, Template], workshop: Workshop) -> None:
    one = {kind: properties for kind, properties in different(emitted) if creator(kind) is not custom_resource}
    for kind, properties in one.items():
        with pytest.raises((ValueError, CreationFailed), match=r"Nonsense"):
            workshop.make(kind, {**properties, "Nonsense": "1"})


def test_no_type_is_played_for_nothing(emitted: dict[str, Template]) -> None:
    assert set(CREATORS) - {kind for kind, _ in different(emitted)} == RARE
