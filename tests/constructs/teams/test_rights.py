"""Kinds in the roles of people are written as their definitions write them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_constructs.teams.access import member_rules, operator_rules, viewer_rules

Names = dict[str, set[str]]


@pytest.fixture(scope="module")
def defined(crds: Path) -> Names:
    """Plurals of the definitions that are at hand, by group, with their subresources."""
    found: Names = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in crds.glob("*.yaml"):
        for each in filter(None, yaml.load_all(path.read_text(), loader)):
            spec = each["spec"]
            plural = spec["names"]["plural"]
            parts = {part for version in spec["versions"] for part in version.get("subresources") or ()}
            found.setdefault(spec["group"], set()).update({plural, *(f"{plural}/{part}" for part in parts)})
    return found


@pytest.mark.parametrize("rules", [member_rules("edit"), viewer_rules(), operator_rules()], ids=["edit", "view", "ops"])
def test_every_kind_is_spelt_as_its_definition(rules: list[dict[str, list[str]]], defined: Names) -> None:
    """A misspelt plural grants nothing, and Kubernetes doesn't report it."""
    # Definitions of one group can be in several files.
    known = {"jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io", "karpenter.sh", "karpenter.k8s.aws", "keda.sh"}
    for rule in rules:
        [group] = rule["apiGroups"]
        if group in known:
            assert set(rule["resources"]) <= defined[group], group


def test_what_members_make_has_definitions(defined: Names) -> None:
    made = {group: set(rule["resources"]) for rule in member_rules("edit") for group in rule["apiGroups"]}

    assert {"localqueues"} == made["kueue.x-k8s.io"] & defined["kueue.x-k8s.io"]
    assert {"mpijobs"} == made["kubeflow.org"] & defined["kubeflow.org"]
    assert {"trainjobs"} == made["trainer.kubeflow.org"] & defined["trainer.kubeflow.org"]
