"""Configuration of EKS add-ons against public schemas: EKS refuses another, and the stack rolls back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.emitted import Template
from tests.templates import of_type

ADDON = "eks-node-monitoring-agent"


@pytest.fixture(scope="session")
def schema(upstream_schemas: Path) -> jsonschema.Draft7Validator:
    """The schema of the add-on's configuration in EKS."""
    return jsonschema.Draft7Validator(json.loads((upstream_schemas / f"{ADDON}.configuration.schema.json").read_text()))


def configurations(emitted: dict[str, Template], name: str) -> list[dict[str, Any]]:
    """Return every add-on configuration in the stacks."""
    resources = (of_type(each["Resources"], "AWS::EKS::Addon") for each in emitted.values())
    addons = (each["Properties"] for made in resources for each in made.values())
    mine = (each for each in addons if each["AddonName"] == name)
    return [json.loads(each["ConfigurationValues"]) for each in mine if "ConfigurationValues" in each]


def test_every_configuration_is_taken(emitted: dict[str, Template], schema: jsonschema.Draft7Validator) -> None:
    found = configurations(emitted, ADDON)

    assert found
    assert [each.message for config in found for each in schema.iter_errors(config)] == []


@pytest.mark.parametrize(
    "wrong", [{"tolerations": []}, {"nodeAgent": {"toleration": []}}, {"dcgmAgent": {"tolerations": "all"}}]
)
def test_the_judge_refuses_what_eks_would(schema: jsonschema.Draft7Validator, wrong: dict[str, Any]) -> None:
    assert list(schema.iter_errors(wrong))
