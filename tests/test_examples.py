"""Every example runs as it stands and emits what a first commit needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.templates import Resources, manifests_of, of_type

EXAMPLES = sorted((ROOT / "examples").glob("*/app.py"))


def synthesize(example: Path, output: Path) -> dict[str, Resources]:
    """Run an example and return the resources of its stacks."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(output)}
    command = [sys.executable, example.name]
    done = subprocess.run(command, cwd=example.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    templates = {path.name.split(".")[0]: json.loads(path.read_text()) for path in output.glob("**/*.template.json")}
    return {stack: template["Resources"] for stack, template in templates.items()}


@pytest.mark.parametrize("name", ["quickstart", "existing_cluster"])
def test_every_stack_of_an_example_has_gpu_nodes_and_their_plugin(name: str, tmp_path: Path) -> None:
    stacks = synthesize(ROOT / "examples" / name / "app.py", tmp_path)

    for resources in stacks.values():
        kinds = [each["kind"] for each in manifests_of(resources)]
        images = [each["Properties"]["AmiType"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
        assert kinds.count("DaemonSet") == 1
        assert "AL2023_x86_64_NVIDIA" in images or "NodePool" in kinds


def test_every_example_is_tried() -> None:
    assert {each.parent.name for each in EXAMPLES} == {"existing_cluster", "fleet", "quickstart", "reference_stacks"}


def test_a_fleet_is_the_same_platform_in_every_place(tmp_path: Path) -> None:
    stacks = synthesize(ROOT / "examples" / "fleet" / "app.py", tmp_path)

    assert len(stacks) == 3 * 3
    pools: dict[str, set[str]] = {}
    for stack, resources in stacks.items():
        place = stack.rpartition("Pools")[0] or stack.rpartition("Cluster")[0]
        names = {each["metadata"]["name"] for each in manifests_of(resources) if each["kind"] == "NodePool"}
        pools.setdefault(place, set()).update(names)
    assert len(pools) == 3
    assert all(names == {"notebooks", "chat", "embeddings"} for names in pools.values())


def test_the_reference_stacks_are_three_ways_to_gpus(tmp_path: Path) -> None:
    stacks = synthesize(ROOT / "examples" / "reference_stacks" / "app.py", tmp_path)

    assert set(stacks) == {"Training", "Inference", "AutoMode"}
    for resources in stacks.values():
        kinds = {each["kind"] for each in manifests_of(resources)}
        assert "NodePool" in kinds or len(of_type(resources, "AWS::EKS::Nodegroup")) == 2


def test_pools_on_an_imported_cluster_make_no_cluster(tmp_path: Path) -> None:
    stacks = synthesize(ROOT / "examples" / "existing_cluster" / "app.py", tmp_path)

    groups = of_type(stacks["GpuPools"], "AWS::EKS::Nodegroup").values()
    assert of_type(stacks["GpuPools"], "AWS::EKS::Cluster") == {}
    assert {each["Properties"]["ClusterName"] for each in groups} == {"platform"}


def test_a_new_cluster_in_an_existing_vpc_makes_no_network(tmp_path: Path) -> None:
    stacks = synthesize(ROOT / "examples" / "existing_cluster" / "app.py", tmp_path)

    assert of_type(stacks["GpuResearch"], "AWS::EC2::VPC") == {}
    assert len(of_type(stacks["GpuResearch"], "AWS::EKS::Cluster")) == 1
