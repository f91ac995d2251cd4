"""Mutants change what they say of a template, nothing of the one they are given, and are told apart by what failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.mutants import MUTANTS, Mutant
from gpu_constructs.rehearsal.report import Line, Outcome, Report

PLUGIN = {
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin"},
    "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}},
}


def stack(**resources: dict[str, Any]) -> Assembly:
    return Assembly(
        stack="Any",
        folder=Path("any"),
        file=Path("any") / "any.json",
        template={"Resources": resources},
        region="us-east-1",
    )


def applied(manifest: Any) -> dict[str, Any]:
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}}


def test_an_object_is_changed_and_values_of_deployment_stay() -> None:
    before, after = json.dumps([PLUGIN]).split("nvidia-device-plugin")
    given = stack(Plugin=applied({"Fn::Join": ["", [before, {"Ref": "Name"}, after]]}))

    mutant = MUTANTS["the device plugin tolerates nothing"].of(given)

    changed = mutant.template["Resources"]["Plugin"]["Properties"]["Manifest"]["Fn::Join"][1]
    assert {"Ref": "Name"} in changed
    assert "tolerations" not in json.dumps(changed)
    assert "tolerations" in json.dumps(given.template)


def test_nothing_waits_for_what_was_dropped() -> None:
    entry = {"Type": "AWS::EKS::AccessEntry", "Properties": {"Type": "EC2_LINUX"}}
    waits = {"Type": "AWS::EKS::Nodegroup", "DependsOn": ["Entry", "Role"], "Properties": {}}

    mutant = MUTANTS["the node role has no access entry"].of(stack(Entry=entry, Nodes=waits))

    assert mutant.template["Resources"] == {"Nodes": waits | {"DependsOn": ["Role"]}}


@pytest.mark.parametrize("name", MUTANTS)
def test_refuses_a_stack_that_has_nothing_to_be_changed(name: str) -> None:
    with pytest.raises(LookupError, match="Any: nothing of it is changed"):
        MUTANTS[name].of(stack())


@pytest.mark.parametrize(
    ("outcome", "scene", "text", "seen"),
    [
        (Outcome.FAILED, "Scale", "no user\ndata", True),
        (Outcome.HELD, "Scale", "no user\ndata", False),
        (Outcome.FAILED, "Create", "no user\ndata", False),
        (Outcome.FAILED, "Scale", "no capacity", False),
    ],
)
def test_a_mutant_is_seen_by_a_failed_line_of_its_scene_that_names_it(
    outcome: Outcome, scene: str, text: str, seen: bool
) -> None:
    mutant, report = Mutant(lambda resources: None, "Scale", "no user.data"), Report("Any")
    report.add([Line(scene=scene, promise="a node comes", outcome=outcome, text=text)])

    assert bool(mutant.seen(report)) is seen
