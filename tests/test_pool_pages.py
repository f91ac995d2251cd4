"""The examples of the pages on existing clusters, shared GPUs and Capacity Blocks are apps that the checker accepts."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.emitted import Template
from tests.linting import cfn_lint
from tests.templates import depends_on, ids_of_objects, manifests_of, of_type

HOW_TO = ROOT / "docs" / "how-to"
OWN, IMPORTED, OLD = programs_of((HOW_TO / "existing-cluster.md").read_text())
[SHARED] = programs_of((HOW_TO / "share-gpus.md").read_text())
# It is indented, as part of a list.
[BLOCK] = programs_of(
    textwrap.dedent(re.findall(r" *```python\n.*?```\n", (HOW_TO / "capacity-blocks.md").read_text(), re.DOTALL)[0])
)
# The CDK creates a network with lookups for a cluster without one.
ZONES = "availability-zones:account=111122223333:region=us-east-1"
PROGRAMS = {
    "own": (OWN, [ZONES]),
    "imported": (IMPORTED, []),
    "old": (OLD, [ZONES]),
    "shared": (SHARED, []),
    "block": (BLOCK, []),
}
GROUP = "AWS::EKS::Nodegroup"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The assembly of each example."""
    return {
        name: run_program(program, tmp_path_factory.mktemp(name), looks_up=lookups)
        for name, (program, lookups) in PROGRAMS.items()
    }


def report_of(folder: Path) -> Report:
    return check(read_input([str(folder)]))


def template_of(folder: Path) -> Template:
    # A cluster of aws_eks also has nested stacks.
    [file] = [each for each in folder.glob("*.template.json") if ".nested." not in each.name]
    return dict(json.loads(file.read_text())["Resources"])


@pytest.mark.parametrize("name", PROGRAMS)
def test_preflight_has_nothing_certain_against_an_example(name: str, folders: dict[str, Path]) -> None:
    found = report_of(folders[name]).findings

    certain = [each for each in found if each.rule.severity != "note" and not each.problem.unknown]
    assert [f"{each.rule.id} {each.problem.message}" for each in certain] == []


@pytest.mark.linted
@pytest.mark.parametrize("name", ["imported", "shared"])
def test_cloudformation_accepts_an_example(name: str, folders: dict[str, Path]) -> None:
    assert cfn_lint(folders[name].glob("*.template.json")) == []


@pytest.mark.parametrize("name", ["own", "imported", "old"])
def test_an_existing_cluster_gets_gpu_nodes(name: str, folders: dict[str, Path]) -> None:
    resources = template_of(folders[name])

    [group] = [each for each in of_type(resources, GROUP).values() if "NVIDIA" in each["Properties"]["AmiType"]]
    assert group["Properties"]["ScalingConfig"]["MaxSize"] == (2 if name == "old" else 4)
    assert {"DaemonSet", "Deployment"} <= {each["kind"] for each in manifests_of(resources)}


@pytest.mark.parametrize(("name", "access"), [("imported", "Access"), ("old", "KubectlAccess")])
def test_objects_for_an_imported_cluster_are_applied_after_the_access_entry(
    name: str, access: str, folders: dict[str, Path]
) -> None:
    resources = template_of(folders[name])

    [entry] = [id for id in of_type(resources, "AWS::EKS::AccessEntry") if id.startswith(access)]
    ids = ids_of_objects(resources)
    ours = [ids["DaemonSet", "nvidia-device-plugin"], ids["ServiceAccount", "cluster-autoscaler"]]
    assert all(entry in depends_on(resources, each) for each in ours)


def test_pods_that_share_gpus_would_run(folders: dict[str, Path]) -> None:
    report = report_of(folders["shared"])
    [case] = report.cases
    [result] = report.explanation(case).verdicts

    assert result.workload.replicas == 4
    assert result.answer is Answer.YES, result.reasons


def test_a_capacity_block_starts_all_nodes_and_drains_them_an_hour_before_its_end(folders: dict[str, Path]) -> None:
    schedules = of_type(template_of(folders["block"]), "AWS::Scheduler::Schedule").values()

    times = [each["Properties"]["ScheduleExpression"] for each in schedules]
    assert times == ["at(2027-03-01T11:30:00)", "at(2027-03-03T10:30:00)"]
