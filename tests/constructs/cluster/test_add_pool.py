"""`add_pool` makes the kind of pool that the cluster runs, and brings what its GPUs cannot do without."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    AutoMode,
    AutoModeNodePool,
    ClusterAutoscaler,
    DevicePlugin,
    Disk,
    GpuCluster,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    OnDemand,
    Spot,
    Static,
    UpTo,
)
from gpu_constructs.cluster import pool_kinds
from gpu_constructs.devices import DraDriver, EfaDevicePlugin, GpuOperator
from gpu_constructs.pools import Disruption, NodeRepair, ScalingOptions
from gpu_facts.hardware import instance_type
from tests.conftest import FLAGS
from tests.templates import manifest, of_type, only, resources_of

P5 = NodeShape(instance_types=("p5.48xlarge",), efa=True)


@pytest.fixture
def gpu(stack: cdk.Stack, vpc: ec2.IVpc) -> GpuCluster:
    """A cluster with node groups."""
    return GpuCluster(stack, "Gpu", vpc=vpc)


def children(gpu: GpuCluster) -> set[str]:
    """The resources of a cluster that not every cluster has."""
    return {each.node.id for each in gpu.node.children} - {
        "SecretsKey",
        "Cluster",
        "KubectlLayer",
        "Logs",
        "Addons",
        "SystemNodes",
    }


def test_a_managed_group_with_plugin_and_autoscaler(gpu: GpuCluster) -> None:
    l4 = gpu.add_pool("l4", "g6.xlarge", max_nodes=8, capacity=Spot())

    assert isinstance(l4, ManagedNodeGroup)
    assert (l4.name, l4.max_nodes, l4.shape) == ("l4", 8, NodeShape(instance_types=("g6.xlarge",)))
    assert children(gpu) == {"Pool-l4", "DevicePlugin", "ClusterAutoscaler"}
    assert isinstance(gpu.autoscaler, ClusterAutoscaler)
    assert [type(each) for each in gpu.device_managers] == [DevicePlugin]


def test_what_it_makes_is_what_the_constructs_make(
    gpu: GpuCluster, stack: cdk.Stack, snapshot_text: SnapshotAssertion
) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    made = resources_of(stack)
    assert "\n".join(sorted(f"{each['Type']} {id}" for id, each in made.items())) == snapshot_text


def test_a_second_pool_brings_nothing_again(gpu: GpuCluster) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)
    gpu.add_pool("l40s", ["g6e.xlarge", "g6e.2xlarge"], max_nodes=2)

    assert children(gpu) == {"Pool-l4", "Pool-l40s", "DevicePlugin", "ClusterAutoscaler"}


def test_before_a_pool_there_is_nothing(gpu: GpuCluster) -> None:
    assert gpu.autoscaler is None
    assert gpu.device_managers == ()


@pytest.mark.parametrize(
    ("shape", "brought"),
    [
        (P5, {"DevicePlugin", "EfaDevicePlugin"}),
        (NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket"), set()),
        (NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator"), {"GpuOperator"}),
        (NodeShape(instance_types=("g6.xlarge",), device_manager="dra"), {"DraDriver"}),
    ],
)
def test_each_shape_brings_its_device_manager(
    gpu: GpuCluster, vpc: ec2.IVpc, shape: NodeShape, brought: set[str]
) -> None:
    gpu.add_pool("pool", shape, max_nodes=1, min_nodes=1, subnets=vpc.private_subnets[:1])

    kinds = {"DevicePlugin": DevicePlugin, "GpuOperator": GpuOperator, "DraDriver": DraDriver}
    assert children(gpu) == {"Pool-pool", "ClusterAutoscaler"} | brought
    assert {type(each) for each in gpu.device_managers} == {
        ({**kinds, "EfaDevicePlugin": EfaDevicePlugin})[n] for n in brought
    }


def test_one_row_of_the_catalogue_is_a_shape_too(gpu: GpuCluster) -> None:
    pool = gpu.add_pool("l4", (instance_type("g6.xlarge"),), max_nodes=1)

    assert pool.shape.names == ("g6.xlarge",)


def test_what_was_made_before_is_taken(stack: cdk.Stack, gpu: GpuCluster) -> None:
    plugin = DevicePlugin(stack, "Mine", cluster=gpu)
    autoscaler = ClusterAutoscaler(stack, "MineToo", cluster=gpu, balance_similar=True)

    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    assert children(gpu) == {"Pool-l4"}
    assert gpu.autoscaler is autoscaler
    assert gpu.device_managers == (plugin,)


def test_where_karpenter_was_made_the_pool_is_its(stack: cdk.Stack, gpu: GpuCluster) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu)

    pool = gpu.add_pool("l4", ("g6.12xlarge", "g6.24xlarge"), max_nodes=8, capacity=(Spot(), OnDemand()))

    assert isinstance(pool, KarpenterNodePool)
    assert gpu.autoscaler is karpenter
    assert children(gpu) == {"Pool-l4", "DevicePlugin"}
    assert pool.max_nodes == 8
    assert manifest(resources_of(stack), "NodePool")["spec"]["limits"] == {"nvidia.com/gpu": "32"}


def test_a_pool_of_karpenter_takes_a_size(stack: cdk.Stack, gpu: GpuCluster) -> None:
    Karpenter(stack, "Karpenter", cluster=gpu)
    gpu.add_pool("l4", "g6.xlarge", size=Static(nodes=2), disruption=Disruption.static())

    assert manifest(resources_of(stack), "NodePool")["spec"]["replicas"] == 2


def test_in_auto_mode_the_pool_is_auto_modes_and_nothing_is_brought(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    auto = GpuCluster(stack, "Auto", vpc=vpc, auto_mode=AutoMode())

    pool = auto.add_pool("l4", "g6.xlarge", max_nodes=4)

    assert isinstance(pool, AutoModeNodePool)
    assert pool.shape.os == "bottlerocket"
    assert children(auto) == {"Pool-l4", "AutoModeRole"}
    assert auto.autoscaler is None


def test_options_of_a_managed_group_reach_it(stack: cdk.Stack, gpu: GpuCluster) -> None:
    role = iam.Role.from_role_name(stack, "Role", "gpu-nodes")
    gpu.add_pool(
        "l4",
        NodeShape(instance_types=("g6.xlarge",), disk=Disk(size_gib=300)),
        max_nodes=8,
        min_nodes=1,
        node_role=role,
        node_repair=NodeRepair(enabled=False),
        ami_release="latest",
    )

    groups = of_type(resources_of(stack), "AWS::EKS::Nodegroup").values()
    [group] = [
        each["Properties"] for each in groups if "nvidia.com/gpu.present" in each["Properties"].get("Labels", {})
    ]
    assert (group["ScalingConfig"]["MinSize"], group["ScalingConfig"]["MaxSize"]) == (1, 8)
    assert group["NodeRepairConfig"] == {"Enabled": False}
    assert "ReleaseVersion" not in group


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        (
            {"size": UpTo(gpus=8)},
            ValueError,
            "Test/Gpu: add_pool must have only arguments of ManagedNodeGroup, the kind of this cluster, got 'size'; "
            "write max_nodes and min_nodes for a ManagedNodeGroup",
        ),
        (
            {"max_nodes": 8, "disruption": Disruption.training()},
            ValueError,
            "Test/Gpu: add_pool must have only arguments of ManagedNodeGroup, the kind of this cluster, got "
            "'disruption'; create Karpenter(stack, 'Karpenter', cluster=gpu) before the first ",
        ),
        ({}, ValueError, "Test/Gpu: max_nodes must be given, got None; set the max number of nodes of pool 'l4'"),
        ({"max_nodes": 0}, ValueError, "Test/Gpu/Pool-l4: max_nodes must be at least 1, got 0; delete the group"),
        (
            {"max_nodes": 8, "capacity": (Spot(), OnDemand())},
            TypeError,
            "Test/Gpu/Pool-l4: capacity must be OnDemand(), Spot(), Reservation(...) or CapacityBlock(...), got "
            "(Spot(checkpointed=False), OnDemand()); only pools of Karpenter and Auto Mode accept a list",
        ),
        (
            {"max_nodes": 8, "capacity": "spot"},
            TypeError,
            "Test/Gpu/Pool-l4: capacity must be OnDemand(), Spot(), Reservation(...) or CapacityBlock(...), got "
            "'spot'; write Spot()",
        ),
        (
            {"max_nodez": 8},
            TypeError,
            "Test/Gpu.add_pool: argument must be one that add_pool accepts, got 'max_nodez'; did you mean 'max_nodes'?",
        ),
        (
            {"max_nodes": 8, "shape": 5},
            TypeError,
            "Test/Gpu: shape must be a NodeShape or instance types, got 5; write ones such as 'g6.xlarge'",
        ),
        ({"max_nodes": 8, "shape": "g6.xlage"}, ValueError, "instance type 'g6.xlage' is unknown; did you mean"),
    ],
)
def test_refuses_what_a_managed_group_has_not(
    gpu: GpuCluster, says: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as refused:
        gpu.add_pool("l4", says.pop("shape", "g6.xlarge"), **says)

    assert str(refused.value).startswith(message)
    assert children(gpu) <= {"Pool-l4"}


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"max_nodes": 8, "min_nodes": 1}, "got 'min_nodes'; write size=Static(nodes=2) for nodes that always run"),
        ({"max_nodes": 8, "node_repair": NodeRepair()}, "got 'node_repair'; use it with a ManagedNodeGroup"),
        (
            {"max_nodes": 8, "scaling_options": ScalingOptions(unneeded_minutes=30)},
            "got 'scaling_options'; use them with a Managed",
        ),
        ({"max_nodes": 8, "size": UpTo(gpus=8)}, "either max_nodes or size must be given, got 8 and UpTo(gpus=8,"),
        ({}, "either max_nodes or size must be given, got neither"),
        ({"max_nodes": 0}, "max_nodes must be at least 1, got 0; delete the pool to switch it off"),
        ({"max_nodes": -1.8881545897087626e289}, "max_nodes must be known at synth, got a token"),
        (
            {"max_nodes": 2, "shape": ("g6.xlarge", "g6.12xlarge")},
            "size must be given instead of max_nodes if types differ in GPUs, got {'g6.xlarge': 1, "
            "'g6.12xlarge': 4}; write size=UpTo(gpus=8)",
        ),
    ],
)
def test_refuses_what_a_pool_of_karpenter_has_not(
    stack: cdk.Stack, gpu: GpuCluster, says: dict[str, Any], message: str
) -> None:
    Karpenter(stack, "Karpenter", cluster=gpu)

    with pytest.raises(ValueError, match=r"^Test/Gpu: ") as refused:
        gpu.add_pool("l4", says.pop("shape", "g6.xlarge"), **says)

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "lacks"),
    [
        (ManagedNodeGroup, pool_kinds.UNSUPPORTED_BY_MANAGED_GROUPS),
        (KarpenterNodePool, pool_kinds.UNSUPPORTED_BY_KARPENTER),
        (AutoModeNodePool, pool_kinds.UNSUPPORTED_BY_AUTO_MODE),
    ],
)
def test_every_argument_that_a_kind_lacks_is_refused_with_advice(kind: Any, lacks: tuple[str, ...]) -> None:
    arguments = set(inspect.signature(GpuCluster.add_pool).parameters) - {"self", "max_nodes"}

    assert arguments - set(inspect.signature(kind.__init__).parameters) == set(lacks)
    assert set(lacks) <= set(pool_kinds._INSTEAD)
    assert arguments | {"max_nodes"} == {each.name for each in dataclasses.fields(pool_kinds.PoolRequest)}


def test_an_argument_that_is_not_given_has_the_default_of_the_construct() -> None:
    by_kind = [
        {name: each.default for name, each in inspect.signature(kind.__init__).parameters.items()}
        for kind in (ManagedNodeGroup, KarpenterNodePool, AutoModeNodePool)
    ]

    assert [each["capacity"] for each in by_kind] == [OnDemand()] * 3
    assert (by_kind[0]["min_nodes"], by_kind[0]["node_repair"]) == (0, NodeRepair())


def test_a_plugin_made_afterwards_is_refused_with_the_fix(stack: cdk.Stack, gpu: GpuCluster) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    with pytest.raises(ValueError, match=r"next to 'Test/Gpu/DevicePlugin'; create yours before the first add_pool"):
        DevicePlugin(stack, "Mine", cluster=gpu)


@pytest.mark.parametrize("kind", [ClusterAutoscaler, Karpenter])
def test_a_second_autoscaler_made_afterwards_is_refused_with_the_fix(
    stack: cdk.Stack, gpu: GpuCluster, kind: Any
) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    with pytest.raises(ValueError, match=r"Test/Mine: .*'Test/Gpu/ClusterAutoscaler'.* before the first add_pool"):
        kind(stack, "Mine", cluster=gpu)


def test_karpenter_made_afterwards_is_told_what_becomes_of_the_pools(stack: cdk.Stack, gpu: GpuCluster) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    with pytest.raises(ValueError, match="before the first add_pool") as refused:
        Karpenter(stack, "Mine", cluster=gpu)

    assert str(refused.value) == (
        "Test/Mine: cluster must not have a ClusterAutoscaler, because both would launch nodes for the same pod, got "
        "'Test/Gpu/ClusterAutoscaler', which add_pool created; create Karpenter before the first add_pool, so that "
        "add_pool creates KarpenterNodePools, and create node groups with ManagedNodeGroup"
    )


def test_two_autoscalers_made_explicitly_are_accepted(stack: cdk.Stack, gpu: GpuCluster) -> None:
    ClusterAutoscaler(stack, "ClusterAutoscaler", cluster=gpu)
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu)

    assert isinstance(gpu.add_pool("l4", "g6.xlarge", max_nodes=8), KarpenterNodePool)
    assert gpu.autoscaler is karpenter


def test_one_component_advertises_gpus(stack: cdk.Stack, gpu: GpuCluster) -> None:
    GpuOperator(stack, "Operator", cluster=gpu)

    with pytest.raises(ValueError, match="Test/Gpu: shape must have device_manager='gpu-operator' of the cluster, got"):
        gpu.add_pool("l4", "g6.xlarge", max_nodes=8)
    gpu.add_pool("l4", NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator"), max_nodes=8)


def test_a_manager_of_ones_own_kind_is_known_again(stack: cdk.Stack, gpu: GpuCluster) -> None:
    class OurPlugin(DevicePlugin):
        """Somebody's own."""

    OurPlugin(stack, "Plugin", cluster=gpu)

    with pytest.raises(ValueError, match="shape must have device_manager='device-plugin' of the cluster, got"):
        gpu.add_pool("l4", NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator"), max_nodes=8)


def test_a_release_of_the_operator_is_made_once(stack: cdk.Stack, gpu: GpuCluster) -> None:
    GpuOperator(stack, "Labels", cluster=gpu, acknowledge_bottlerocket=True)

    with pytest.raises(ValueError, match="cluster must have one GPU Operator, got a second one next to 'Test/Labels'"):
        gpu.add_pool("l4", NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator"), max_nodes=8)


def test_a_name_is_taken_once(gpu: GpuCluster) -> None:
    gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

    with pytest.raises(
        ValueError, match=r"Test/Gpu: name must be unique among the pools of .*got 'l4', which 'Test/Gpu/Pool-l4'"
    ):
        gpu.add_pool("l4", "g6.2xlarge", max_nodes=8)


def test_karpenter_of_another_stack_is_not_taken(stack: cdk.Stack, gpu: GpuCluster) -> None:
    elsewhere = cdk.Stack(cdk.App.of(stack), "Elsewhere")
    Karpenter(elsewhere, "Karpenter", cluster=gpu)

    with pytest.raises(ValueError, match="Test/Gpu: Karpenter must be in the stack of the cluster for add_pool, got"):
        gpu.add_pool("l4", "g6.xlarge", max_nodes=8)


def test_a_stage_has_pools_of_its_own(tmp_path: Path) -> None:
    app = cdk.App(context=FLAGS, analytics_reporting=False, outdir=str(tmp_path))
    for name in ("Dev", "Prod"):
        stack = cdk.Stack(cdk.Stage(app, name), "Inference")
        GpuCluster(stack, "Gpu").add_pool("l4", "g6.xlarge", max_nodes=2)

    app.synth()

    assert len(list(tmp_path.rglob("*.template.json"))) == 2


def test_files_for_gitops_are_pools_too(tmp_path: Path) -> None:
    files = {"gpu-constructs:delivery": "argocd", "gpu-constructs:manifests": str(tmp_path)}
    stack = cdk.Stack(cdk.App(context=FLAGS | files, analytics_reporting=False), "Test")

    GpuCluster(stack, "Gpu").add_pool("l4", "g6.xlarge", max_nodes=8)

    assert "Custom::AWSCDK-EKS-KubernetesResource" not in {each["Type"] for each in resources_of(stack).values()}
    assert list(tmp_path.rglob("*.yaml"))


def test_a_construct_with_a_cluster_is_taken_for_it(stack: cdk.Stack, gpu: GpuCluster) -> None:
    class Platform(Construct):
        """Names that the caller chooses."""

        def __init__(self, scope: Construct, id: str) -> None:
            super().__init__(scope, id)
            self.cluster = gpu.cluster

    platform = Platform(stack, "Platform")
    group = ManagedNodeGroup(
        stack, "L4", cluster=platform, name="l4", shape=NodeShape(instance_types=("g6.xlarge",)), max_nodes=1
    )

    assert group.resource.cluster_name == gpu.cluster.cluster_name
    assert only(resources_of(stack), "AWS::EKS::Cluster")["Name"] == gpu.name


@dataclasses.dataclass
class Owner:
    """Has a cluster, and is neither hashable nor a construct."""

    cluster: Any


def test_whatever_has_a_cluster_is_taken_for_it(stack: cdk.Stack, gpu: GpuCluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",))

    for number, holder in enumerate((Owner(gpu.cluster), Owner(gpu), Owner(Owner(gpu)))):
        ManagedNodeGroup(stack, f"L{number}", cluster=holder, name=f"l{number}", shape=shape, max_nodes=1)

    assert len(of_type(resources_of(stack), "AWS::EKS::Nodegroup")) == 4
