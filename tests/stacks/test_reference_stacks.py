"""The reference stacks synthesize, lint clean, and are what their names promise; a fleet stays below the limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import NodeShape, OnDemand, Reservation, Spot
from stacks.auto_mode_cluster_stack import AutoModeClusterStack
from stacks.gpu_fleet import FleetPool, GpuFleetStage, stack_of
from stacks.inference_cluster_stack import InferenceClusterStack
from stacks.training_cluster_stack import TrainingClusterStack
from tests.conftest import FLAGS, ROOT
from tests.linting import CDKS_OWN, cfn_lint
from tests.templates import Resources, manifests_of, of_type, only
from tools.released import BLOCK, ZONES

# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
MAX_RESOURCES, MAX_BYTES = 500, 1_000_000


class Made:
    """One of each stack, synthesized once."""

    def __init__(self, folder: Path) -> None:
        app = cdk.App(outdir=str(folder), context=FLAGS, analytics_reporting=False)
        env = cdk.Environment(account="111122223333", region="us-east-1")
        training: dict[str, Any] = {"availability_zones": ZONES, "max_nodes": 4, "env": env}
        TrainingClusterStack(app, "Training", capacity=BLOCK, **training)
        reservation = Reservation(availability_zone="us-east-1b", id="cr-0a100000000000000")
        TrainingClusterStack(app, "Reserved", capacity=reservation, **training)
        TrainingClusterStack(app, "OnDemand", capacity=OnDemand(), instance_type="p6-b200.48xlarge", **training)
        InferenceClusterStack(app, "Inference", env=env)
        AutoModeClusterStack(app, "AutoMode", env=env)
        app.synth()
        self.paths = sorted(folder.glob("*.template.json"))
        self.resources: dict[str, Resources] = {
            path.name.split(".")[0]: json.loads(path.read_text())["Resources"] for path in self.paths
        }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One of each stack, synthesized once."""
    return Made(tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("name", ["Training", "Inference", "AutoMode"])
def test_inventory(made: Made, name: str, snapshot_text: SnapshotAssertion) -> None:
    lines = sorted(f"{each['Type']} {id}" for id, each in made.resources[name].items())

    # The hash of a Lambda version changes with every CDK release.
    assert "\n".join(line for line in lines if "Version" not in line) == snapshot_text


@pytest.mark.linted
def test_cfn_lint_finds_nothing(made: Made) -> None:
    # W3010: the zones are the user's word, because GPUs are sold in few.
    assert cfn_lint(made.paths, ignore=(*CDKS_OWN, "W3010")) == []


def training_nodes(resources: Resources) -> tuple[dict[str, Any], dict[str, Any]]:
    groups = [each["Properties"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()]
    [group] = [each for each in groups if "Labels" in each]
    template = resources[group["LaunchTemplate"]["Id"]["Ref"]]["Properties"]["LaunchTemplateData"]
    return group, template


@pytest.mark.parametrize(("name", "rack"), [("Training", False), ("Reserved", False), ("OnDemand", True)])
def test_training_nodes_have_efa_in_one_zone_and_a_place(made: Made, name: str, rack: bool) -> None:
    group, template = training_nodes(made.resources[name])

    assert len(group["Subnets"]) == 1
    kinds = [each["InterfaceType"] for each in template["NetworkInterfaces"]]
    assert kinds[0] == "interface"
    assert set(kinds[1:]) == {"efa-only"}
    assert ("Placement" in template) == rack
    daemonsets = [
        each["metadata"]["name"] for each in manifests_of(made.resources[name]) if each["kind"] == "DaemonSet"
    ]
    assert daemonsets == ["nvidia-device-plugin"]
    charts = [
        each["Properties"]["Chart"] for each in of_type(made.resources[name], "Custom::AWSCDK-EKS-HelmChart").values()
    ]
    assert charts == ["aws-efa-k8s-device-plugin"]


def test_a_block_is_spent_in_its_zone_and_time(made: Made) -> None:
    resources = made.resources["Training"]
    group, template = training_nodes(resources)

    assert group["CapacityType"] == "CAPACITY_BLOCK"
    assert template["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    [subnet] = group["Subnets"]
    assert resources[subnet["Ref"]]["Properties"]["AvailabilityZone"] == "us-east-1b"
    assert len(of_type(resources, "AWS::Scheduler::Schedule")) == 2


def test_inference_takes_spot_first_in_every_family(made: Made) -> None:
    pools = [each["spec"] for each in manifests_of(made.resources["Inference"]) if each["kind"] == "NodePool"]

    assert [each["weight"] for each in pools] == [100, 99]
    for pool in pools:
        asked = {each["key"]: each["values"] for each in pool["template"]["spec"]["requirements"]}
        assert asked["karpenter.sh/capacity-type"] == ["spot", "on-demand"]
        assert pool["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
        assert len({name.split(".")[0] for name in asked["node.kubernetes.io/instance-type"]}) >= 1
    families = {
        name.split(".")[0]
        for pool in pools
        for each in pool["template"]["spec"]["requirements"]
        if each["key"] == "node.kubernetes.io/instance-type"
        for name in each["values"]
    }
    assert families == {"g5", "g6", "g6e", "gr6"}


def test_auto_mode_brings_its_own(made: Made) -> None:
    resources = made.resources["AutoMode"]

    assert only(resources, "AWS::EKS::Cluster")["ComputeConfig"]["Enabled"] is True
    assert of_type(resources, "AWS::EKS::Addon") == of_type(resources, "AWS::EKS::Nodegroup") == {}
    assert sorted(each["kind"] for each in manifests_of(resources)) == ["NodeClass", "NodePool"]


def test_every_stack_is_under_eighty_lines() -> None:
    for path in (ROOT / "stacks").glob("*stack.py"):
        assert len(path.read_text().splitlines()) < 80, path.name


def pool(number: int) -> FleetPool:
    return FleetPool(
        shape=NodeShape(instance_types=("g6.xlarge", "g6.2xlarge"), labels={"team": f"team-{number}"}),
        capacity=(Spot(), OnDemand()),
        max_gpus=8,
    )


def test_three_hundred_pools_stay_below_cloudformations_limits(tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path), context=FLAGS, analytics_reporting=False)
    pools = {f"team-{number}": pool(number) for number in range(300)}
    env = cdk.Environment(account="111122223333", region="us-east-1")
    GpuFleetStage(app, "prod", cluster_name="gpu", pools=pools, pool_stacks=4, env=env)

    app.synth()

    templates = [path.read_text() for path in tmp_path.glob("**/*.template.json")]
    assert len(templates) == 5
    assert all(len(json.loads(each)["Resources"]) <= MAX_RESOURCES for each in templates)
    assert all(len(each.encode()) <= MAX_BYTES for each in templates)
    names = [
        manifest["metadata"]["name"]
        for each in templates
        for manifest in manifests_of(json.loads(each)["Resources"])
        if manifest["kind"] == "NodePool"
    ]
    assert sorted(names) == sorted(pools)


def test_a_new_pool_or_stack_moves_no_other_pool() -> None:
    names = [f"team-{number}" for number in range(300)]

    before = {name: stack_of(name, 4) for name in names}
    after = {name: stack_of(name, 5) for name in names}

    moved = [name for name in names if before[name] != after[name]]
    assert {after[name] for name in moved} == {4}
    assert len(moved) < len(names) / 3
