"""A mutant writes one fault to a copy of an assembly. A failed line of the right scenario detects it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.assemblies import Assembly, read
from gpu_rehearsal.report import Line, Outcome, Report
from tests.e2e.rehearsal.mutants import MUTANTS, Mutant

PLUGIN = {
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-device-plugin"},
    "spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}},
}


def stack(folder: Path, **resources: dict[str, Any]) -> Assembly:
    """Write an assembly of one stack."""
    made = folder / "cdk.out"
    made.mkdir()
    artifact = {
        "type": "aws:cloudformation:stack",
        "environment": "aws://unknown-account/us-east-1",
        "properties": {"templateFile": "Any.template.json"},
    }
    (made / "manifest.json").write_text(json.dumps({"artifacts": {"Any": artifact}}))
    (made / "Any.template.json").write_text(json.dumps({"Resources": resources}))
    (made / "asset.zip").write_text("asset")
    [found] = read(made, region="us-east-1")
    return found


def applied(manifest: Any) -> dict[str, Any]:
    return {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": {"Manifest": manifest}}


def test_a_fault_is_written_to_disk_and_deployment_values_stay(tmp_path: Path) -> None:
    before, after = json.dumps([PLUGIN]).split("nvidia-device-plugin")
    given = stack(tmp_path, Plugin=applied({"Fn::Join": ["", [before, {"Ref": "Name"}, after]]}))

    mutant = MUTANTS["the device plugin tolerates nothing"].write(given, tmp_path / "mutant")

    assert mutant.template == json.loads((tmp_path / "mutant" / "Any.template.json").read_text())
    assert (tmp_path / "mutant" / "asset.zip").read_text() == "asset"
    changed = mutant.template["Resources"]["Plugin"]["Properties"]["Manifest"]["Fn::Join"][1]
    assert {"Ref": "Name"} in changed
    assert "tolerations" not in json.dumps(changed)
    assert "tolerations" in given.file.read_text()


def test_nothing_waits_for_a_removed_resource(tmp_path: Path) -> None:
    entry = {"Type": "AWS::EKS::AccessEntry", "Properties": {"Type": "EC2_LINUX"}}
    waits = {"Type": "AWS::EKS::Nodegroup", "DependsOn": ["Entry", "Role"], "Properties": {}}

    given = stack(tmp_path, Entry=entry, Nodes=waits)

    mutant = MUTANTS["the node role has no access entry"].write(given, tmp_path / "mutant")

    assert mutant.template["Resources"] == {"Nodes": waits | {"DependsOn": ["Role"]}}


@pytest.mark.parametrize("name", MUTANTS)
def test_refuses_a_stack_without_the_resource_to_change(name: str, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="Any: nothing of it is changed"):
        MUTANTS[name].write(stack(tmp_path), tmp_path / "mutant")


@pytest.mark.parametrize(
    ("outcome", "scenario", "text", "seen"),
    [
        (Outcome.FAILED, "Scale", "no user\ndata", True),
        (Outcome.HELD, "Scale", "no user\ndata", False),
        (Outcome.FAILED, "Create", "no user\ndata", False),
        (Outcome.FAILED, "Scale", "no capacity", False),
    ],
)
def test_a_mutant_is_seen_if_a_failed_line_of_its_scenario_names_it(
    outcome: Outcome, scenario: str, text: str, seen: bool
) -> None:
    mutant, report = Mutant(lambda resources: None, "Scale", "no user.data"), Report("Any")
    report.add([Line(scenario=scenario, promise="a node comes", outcome=outcome, text=text)])

    assert bool(mutant.seen(report)) is seen
