"""Pairs of whole apps that differ in one option, of kinds that no row of one construct shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs import (
    CapacityBlock,
    ClusterAutoscaler,
    GpuCluster,
    GpuDeployment,
    GpuPod,
    Karpenter,
    KarpenterNodePool,
    NodeShape,
    UpTo,
    gpu_vpc,
)
from gpu_constructs.pod_scaling import Keda
from gpu_preflight.judging.changes import ResourceChange, resource_changes
from gpu_preflight.reading.inputs import Input, read_input
from tests.conftest import FLAGS

ZONES = ("b", "c")
L4 = NodeShape(instance_types=("g6.xlarge",))
Define = Callable[[cdk.App, cdk.Stack, GpuCluster], object]
Pair = Callable[..., list[tuple[str, str]]]


def synthesized(folder: Path, define: Define, region: str, zones: tuple[str, ...], **network: Any) -> Input:
    app = cdk.App(context=FLAGS, analytics_reporting=False, outdir=str(folder))
    stack = cdk.Stack(app, "Main", env=cdk.Environment(account="111122223333", region=region))
    vpc = gpu_vpc(stack, "Net", availability_zones=[f"{region}{each}" for each in zones], **network)
    define(app, stack, GpuCluster(stack, "Gpu", vpc=vpc, cluster_name="demo"))
    app.synth()
    return read_input([str(folder)])


def nothing(app: cdk.App, stack: cdk.Stack, gpu: GpuCluster) -> None:
    """The cluster alone."""


def found(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> list[ResourceChange]:
    """The changes in the second version, except resources that are only updated, added or removed."""
    defaults: dict[str, Any] = {"define": nothing, "region": "us-west-2", "zones": ZONES}
    before, after = (synthesized(folder / str(number), **defaults | each) for number, each in enumerate((old, new)))
    return [each for each in resource_changes(before, after) if each.change not in ("in place", "added", "removed")]


@pytest.mark.parametrize(("before", "after"), [(1, 0), (0, 1)])
def test_subnets_of_nodes_stay_with_the_first_and_the_last_nat_gateway(tmp_path: Path, before: int, after: int) -> None:
    assert found(tmp_path, {"nat_gateways": before}, {"nat_gateways": after}) == []


@pytest.mark.parametrize(
    ("region", "zones", "expected"),
    [
        ("us-west-2", ("b", "c", "d"), {("fails", "Cluster"), ("replaced", "Nodegroup")}),
        ("us-west-2", ("b", "d"), {("fails", "Cluster"), ("fails", "Subnet")}),
        # The control plane has its own subnets.
        ("us-east-1", ("b", "c", "d"), {("replaced", "Nodegroup")}),
        ("us-east-1", ("b", "d"), {("fails", "Subnet")}),
    ],
)
def test_zones(tmp_path: Path, region: str, zones: tuple[str, ...], expected: set[tuple[str, str]]) -> None:
    changes = found(tmp_path, {"region": region}, {"region": region, "zones": zones})

    assert {(each.change, each.kind) for each in changes} == expected


def test_a_tag_of_the_stack_reaches_groups_and_instances_at_once(tmp_path: Path) -> None:
    def tagged(**options: Any) -> Define:
        return lambda app, stack, gpu: cdk.Tags.of(stack).add("team", "nlp", **options)

    once = found(tmp_path / "once", {}, {"define": tagged()})
    first = found(tmp_path / "first", {}, {"define": tagged(exclude_resource_types=["AWS::EC2::Instance"])})

    assert [(each.change, each.kind) for each in once] == [("fails", "Nodegroup")]
    assert "Tags, then LaunchTemplate" in once[0].detail
    assert first == []


@pytest.mark.parametrize("to_second", [True, False])
def test_a_server_that_moves_between_stacks(tmp_path: Path, to_second: bool) -> None:
    def served(*, in_second: bool) -> Define:
        def define(app: cdk.App, stack: cdk.Stack, gpu: GpuCluster) -> None:
            second = cdk.Stack(app, "Second", env=cdk.Environment(account=stack.account, region=stack.region))
            cdk.CfnWaitConditionHandle(second, "Kept")
            pod, pool = GpuPod(image="registry.example.com/app:1"), gpu.add_pool("l4", L4, max_nodes=2)
            scope = second if in_second else stack
            GpuDeployment(scope, "Chat", cluster=gpu, pool=pool, name="chat", pod=pod, port=8000)

        return define

    changes = found(tmp_path, {"define": served(in_second=not to_second)}, {"define": served(in_second=to_second)})

    assert {(each.change, each.kind) for each in changes} == {
        ("destructive", each) for each in ("Deployment", "PodDisruptionBudget", "Service")
    }
    stacks = ("Main", "Second") if to_second else ("Second", "Main")
    assert all("deploy {} without it first, then {}".format(*stacks) in each.detail for each in changes)


def test_nodes_that_run_lose_the_role_of_karpenter(tmp_path: Path) -> None:
    def launched(role: str | None) -> Define:
        def define(app: cdk.App, stack: cdk.Stack, gpu: GpuCluster) -> None:
            given = cdk.aws_iam.Role.from_role_name(stack, "Nodes", role) if role else None
            karpenter = Karpenter(stack, "Karpenter", cluster=gpu, node_role=given)
            KarpenterNodePool(stack, "Pool", cluster=gpu, karpenter=karpenter, name="l4", shape=L4, size=UpTo(gpus=4))

        return define

    [entry] = found(tmp_path, {"define": launched(None)}, {"define": launched("nodes")})

    assert (entry.change, entry.kind) == ("destructive", "AccessEntry")
    assert "add a second pool" in entry.detail


def test_keda_starts_again_with_its_first_permission(tmp_path: Path) -> None:
    def scaled(*queues: str) -> Define:
        return lambda app, stack, gpu: Keda(stack, "Keda", cluster=gpu, sqs_queue_arns=queues)

    queue = "arn:aws:sqs:us-west-2:111122223333:jobs"
    old, new = (synthesized(tmp_path / str(len(each)), scaled(*each), "us-west-2", ZONES) for each in ((), (queue,)))

    values = [
        each.properties["Values"]
        for one in (old, new)
        for each in one.resources.values()
        if "Values" in each.properties
    ]
    assert [("podAnnotations" in each) for each in values] == [False, True]


@pytest.mark.parametrize("isolated", [False, True])
def test_nodes_and_controller_keep_their_roles_when_karpenter_gets_another_id(tmp_path: Path, isolated: bool) -> None:
    def launched(id: str) -> Define:
        def define(app: cdk.App, stack: cdk.Stack, gpu: GpuCluster) -> None:
            karpenter = Karpenter(stack, id, cluster=gpu, isolated=isolated)
            KarpenterNodePool(stack, "Pool", cluster=gpu, karpenter=karpenter, name="l4", shape=L4, size=UpTo(gpus=4))

        return define

    old, new = (synthesized(tmp_path / id, launched(id), "us-west-2", ZONES) for id in ("Karpenter", "Moved"))
    changes = resource_changes(old, new)

    of_roles = {"AccessEntry", "EC2NodeClass", "InstanceProfile", "PodIdentityAssociation", "Role"}
    assert [each for each in changes if each.kind in of_roles] == []
    assert [each.what for each in changes if each.change in ("destructive", "fails")] == []
    # Their statements name the new queue.
    assert {each.change for each in changes if each.kind == "ManagedPolicy"} == {"in place"}


def test_a_controller_keeps_its_role_when_the_app_takes_it_over(tmp_path: Path) -> None:
    def scaled(*, own: bool) -> Define:
        def define(app: cdk.App, stack: cdk.Stack, gpu: GpuCluster) -> None:
            if own:
                ClusterAutoscaler(stack, "Own", cluster=gpu, balance_similar=True)
            gpu.add_pool("l4", L4, max_nodes=2)

        return define

    old, new = (synthesized(tmp_path / str(own), scaled(own=own), "us-west-2", ZONES) for own in (False, True))

    assert {(each.change, each.kind) for each in resource_changes(old, new)} == {("in place", "Deployment")}


def test_a_group_is_replaced_with_its_block(tmp_path: Path) -> None:
    def reserved(id: str, month: int) -> Define:
        starts, ends = (datetime(2027, month, day, 11, 30, tzinfo=timezone.utc) for day in (4, 11))
        block = CapacityBlock(id=id, availability_zone="us-west-2b", starts=starts, ends=ends, instances=2)
        shape = NodeShape(instance_types=("p5.48xlarge",))
        return lambda app, stack, gpu: gpu.add_pool("p5", shape, max_nodes=2, capacity=block)

    first, second = reserved("cr-0123456789abcdef0", 1), reserved("cr-0aaaaaaaaaaaaaaa0", 2)
    changes = found(tmp_path / "block", {"define": first}, {"define": second})
    longer = found(tmp_path / "longer", {"define": first}, {"define": reserved("cr-0123456789abcdef0", 2)})

    assert [(each.change, each.kind) for each in changes] == [("replaced", "Nodegroup")]
    assert longer == []
