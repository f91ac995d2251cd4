"""The drill of docs/how-to/upgrades.md holds, and its example runs as it stands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from gpu_constructs import DevicePlugin, GpuCluster, Karpenter, ManagedNodeGroup, NodeShape, Reservation, gpu_vpc
from gpu_preflight.judging.check import check
from gpu_preflight.judging.review import Review, review
from gpu_preflight.reading.inputs import Input, read_input
from tests.apps import programs_of, run_program
from tests.conftest import FLAGS, ROOT
from tests.linting import cfn_lint
from tests.templates import of_type, resources_of

PAGE = (ROOT / "docs" / "how-to" / "upgrades.md").read_text()
[LAB] = programs_of(PAGE)
ENV = cdk.Environment(account="111122223333", region="us-east-1")
RESERVED = Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a")
GROUP = "AWS::EKS::Nodegroup"

Resources = dict[str, Any]
Make = Callable[[GpuCluster, str], object]


def managed(gpu: GpuCluster, name: str) -> object:
    return gpu.add_pool(name, "g6.2xlarge", max_nodes=4)


def launched(gpu: GpuCluster, name: str) -> object:
    if gpu.autoscaler is None:
        Karpenter(cdk.Stack.of(gpu), "Karpenter", cluster=gpu)
    return gpu.add_pool(name, "g6.2xlarge", max_nodes=4)


def reserved(gpu: GpuCluster, name: str) -> object:
    shape = NodeShape(instance_types=("p5.48xlarge",))
    [subnet] = gpu.vpc.select_subnets(
        subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, availability_zones=["us-east-1a"]
    ).subnets
    stack = cdk.Stack.of(gpu)
    if not gpu.device_managers:
        DevicePlugin(stack, "DevicePlugin", cluster=gpu)
    return ManagedNodeGroup(
        stack, name, cluster=gpu, name=name, shape=shape, capacity=RESERVED, subnets=[subnet], max_nodes=2
    )


def stage(make: Make, *names: str) -> cdk.Stack:
    """A stack with pools of those names."""
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Lab", env=ENV)
    vpc = gpu_vpc(stack, "Vpc", availability_zones=["us-east-1a", "us-east-1b"])
    gpu = GpuCluster(stack, "Gpu", vpc=vpc)
    for name in names:
        make(gpu, name)
    return stack


KINDS: dict[str, Make] = {"managed": managed, "karpenter": launched, "reserved": reserved}


@pytest.fixture(scope="module", params=KINDS)
def stages(request: pytest.FixtureRequest) -> list[Resources]:
    """The resources with the first pool, with both, and with the second."""
    make = KINDS[request.param]
    return [resources_of(stage(make, *names)) for names in (("blue",), ("blue", "green"), ("green",))]


def of_pool(resources: Mapping[str, Any], name: str) -> Resources:
    return {id: each for id, each in resources.items() if name in id.lower()}


def test_a_second_pool_leaves_the_first_as_it_is(stages: list[Resources]) -> None:
    blue, both, _ = stages

    assert of_pool(blue, "blue")
    assert of_pool(both, "blue") == of_pool(blue, "blue")
    assert both.keys() - blue.keys() == of_pool(both, "green").keys()


def test_without_the_first_the_second_is_as_it_was(stages: list[Resources]) -> None:
    _, both, green = stages

    assert of_pool(green, "green")
    assert of_pool(green, "green") == of_pool(both, "green")
    assert both.keys() - green.keys() == of_pool(both, "blue").keys()


def test_what_both_need_stays_through_both_steps(stages: list[Resources]) -> None:
    blue, both, green = (
        {id: each for id, each in one.items() if not re.search("blue|green", id.lower())} for one in stages
    )

    assert blue.keys() == both.keys() == green.keys()
    changed = {id for id in both if blue[id] != both[id] or both[id] != green[id]}
    # Resources whose policies and charts name each pool.
    assert {both[each]["Type"] for each in changed} <= {"AWS::IAM::ManagedPolicy", "Custom::AWSCDK-EKS-HelmChart"}


def written(folder: Path, stack: cdk.Stack) -> Input:
    folder.mkdir()
    template = {"Resources": resources_of(stack)}
    (folder / "Lab.template.json").write_text(json.dumps(template))
    return read_input([str(folder / "Lab.template.json")])


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Review:
    """The review of a second pool of one reservation."""
    folder = tmp_path_factory.mktemp("reserved")
    one, two = (stage(reserved, *names) for names in (("blue",), ("blue", "green")))
    return review(written(folder / "one", one), written(folder / "two", two))


def test_two_pools_may_name_one_reservation(reviewed: Review) -> None:
    assert [(each.name, each.change) for each in reviewed.pools] == [("green", "added")]
    assert [each.problem.message for each in reviewed.new if each.rule.severity == "error"] == []


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of the example."""
    return run_program(LAB, tmp_path_factory.mktemp("lab"))


def template_of(folder: Path) -> Resources:
    [file] = folder.glob("*.template.json")
    return dict(json.loads(file.read_text())["Resources"])


def test_the_example_has_a_group_that_stays_behind(lab: Path) -> None:
    resources = template_of(lab)

    versions = {id: each["Properties"]["Version"] for id, each in of_type(resources, GROUP).items()}
    assert [version for id, version in versions.items() if "blue" in id.lower()] == ["1.35"]
    assert {version for id, version in versions.items() if "blue" not in id} == {"1.36"}
    [cluster] = of_type(resources, "AWS::EKS::Cluster").values()
    assert cluster["Properties"]["ControlPlaneScalingConfig"] == {"Tier": "tier-xl"}


@pytest.mark.linted
def test_cloudformation_takes_what_the_example_writes(lab: Path) -> None:
    assert cfn_lint(lab.glob("*.template.json")) == []


def test_preflight_has_nothing_certain_against_the_example(lab: Path) -> None:
    found = check(read_input([str(lab)])).findings

    sure = [each for each in found if each.rule.severity != "note" and not each.problem.unknown]
    assert [f"{each.rule.id} {each.problem.message}" for each in sure] == []
