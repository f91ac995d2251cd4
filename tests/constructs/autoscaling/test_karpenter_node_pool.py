"""KarpenterNodePool emits a NodePool and an EC2NodeClass that Karpenter accepts and launches GPU nodes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import Disk, Karpenter, KarpenterNodePool, NodeShape, Reservation, Spot, UpTo
from gpu_constructs.autoscaling.karpenter_node_pool import ec2_node_class, node_pool
from gpu_constructs.autoscaling.node_pool import Network, NodePool
from gpu_constructs.pools import Budget, Disruption
from gpu_constructs.pools.capacity import OnDemand
from gpu_facts.hardware.catalogue import catalogue
from tests.schemas import validate_custom
from tests.templates import CHART, depends_on, ids_of_objects, manifest, of_type, resources_of

NETWORK = Network(subnet_ids=["subnet-0123456789abcdef0"], security_group_ids=["sg-0123456789abcdef0"])
L4 = NodeShape(instance_types=("g6.xlarge",))


def pool(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> KarpenterNodePool:
    says: dict[str, Any] = {"cluster": cluster, "name": "l4", "shape": L4, "size": UpTo(gpus=8)}
    if "karpenter" not in changes and "node_role" not in changes:
        says["node_role"] = iam.Role.from_role_name(stack, "Nodes", "karpenter-nodes")
    return KarpenterNodePool(stack, "Pool", **says | changes)


def spec(shape: NodeShape = L4, *capacities: Any) -> NodePool:
    """A pool of at most 8 GPUs."""
    size = UpTo(gpus=8)
    return NodePool.from_arguments(
        "who", name="l4", shape=shape, size=size, capacity=capacities or OnDemand(), disruption=None
    )


def node_class(shape: NodeShape = L4, release: str = "v20260714", *capacities: Any) -> dict[str, Any]:
    made = spec(shape, *capacities)
    return ec2_node_class(
        pool=made,
        ami_release=release,
        runs_as={"role": "nodes"},
        network=NETWORK,
        tags={"Name": "demo-l4"} | dict(shape.tags),
    )


def test_reserved_capacity_is_asked_for_and_selected() -> None:
    capacity = Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000")

    made = node_pool(spec(L4, capacity))["spec"]["template"]["spec"]
    asked = {each["key"]: each["values"] for each in made["requirements"]}
    assert asked["karpenter.sh/capacity-type"] == ["reserved"]
    assert asked["topology.kubernetes.io/zone"] == ["us-east-1a"]
    assert node_class(L4, "v20260714", capacity)["spec"]["capacityReservationSelectorTerms"] == [
        {"id": "cr-0a100000000000000"}
    ]
    assert "capacityReservationSelectorTerms" not in node_class()["spec"]


def test_node_pool(snapshot_yaml: SnapshotAssertion) -> None:
    assert node_pool(spec()) == snapshot_yaml


def test_node_class(snapshot_yaml: SnapshotAssertion) -> None:
    assert node_class() == snapshot_yaml


def test_node_class_of_bottlerocket_with_a_key(snapshot_yaml: SnapshotAssertion) -> None:
    shape = NodeShape(
        instance_types=("g5g.xlarge",),
        operating_system="bottlerocket",
        disk=Disk(size_gib=300, kms_key_arn="arn:aws:kms:us-east-1:111122223333:key/a"),
    )

    assert node_class(shape, "1.66.0") == snapshot_yaml


def test_efa_interfaces_are_the_ones_of_a_launch_template() -> None:
    efa = NodeShape(instance_types=("p5en.48xlarge",), efa=True, placement_group="rack")

    made = node_class(efa)["spec"]
    kinds = [each["interfaceType"] for each in made["networkInterfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only")) == (1, 16)
    assert made["placementGroupSelector"] == {"name": "rack"}
    assert "networkInterfaces" not in node_class()["spec"]


EFA = NodeShape(instance_types=("p5en.48xlarge",), efa=True, placement_group="rack", labels={"team": "a"})
RESERVED = Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000")


@pytest.mark.parametrize("shape", [L4, EFA, NodeShape(instance_types=("g5g.xlarge",), operating_system="bottlerocket")])
@pytest.mark.parametrize("capacity", [OnDemand(), Spot(), RESERVED])
def test_objects_are_valid_for_karpenters_definitions(shape: NodeShape, capacity: Any, crds: Path) -> None:
    for emitted in (
        node_class(shape, "v20260714", capacity),
        node_pool(spec(shape, capacity)),
    ):
        validate_custom(emitted, crds)


def test_no_running_pod_is_ever_moved() -> None:
    made = node_pool(spec(L4, Spot()))["spec"]

    assert made["template"]["spec"]["expireAfter"] == "Never"
    assert made["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert {"nodes": "0", "reasons": ["Drifted", "Underutilized"]} in made["disruption"]["budgets"]


def test_gpus_are_limited(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster, size=UpTo(gpus=1))

    assert manifest(resources_of(stack), "NodePool")["spec"]["limits"] == {"nvidia.com/gpu": "1"}


def test_one_custom_resource_each_and_the_pool_goes_first(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster)
    pool(stack, cluster, karpenter=karpenter)

    resources = resources_of(stack)
    by_kind = {kind: id for (kind, _), id in ids_of_objects(resources).items()}
    assert set(by_kind) == {"EC2NodeClass", "NodePool"}
    assert by_kind["EC2NodeClass"] in depends_on(resources, by_kind["NodePool"])
    charts = set(of_type(resources, CHART))
    assert charts <= depends_on(resources, by_kind["EC2NodeClass"])


def test_nodes_take_karpenters_role(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster)
    pool(stack, cluster, karpenter=karpenter)

    role = stack.resolve(karpenter.node_role.role_name)["Ref"]
    assert manifest(resources_of(stack), "EC2NodeClass")["spec"]["role"] == "${" + role + "}"


def test_a_cluster_with_karpenter_of_its_own_needs_its_node_role(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster)

    assert manifest(resources_of(stack), "EC2NodeClass")["spec"]["role"] == "karpenter-nodes"


COUNTED = [name for name, each in catalogue().items() if each.ec2_gpus and each.family != "p6e-gb200"]


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("system", ["al2023", "bottlerocket"])
def test_every_type_is_asked_for_with_its_architecture_and_disks(name: str, system: Any) -> None:
    hardware, shape = catalogue()[name], NodeShape(instance_types=(name,), operating_system=system)

    made = node_class(shape)["spec"]
    requirements = node_pool(spec(shape))["spec"]["template"]["spec"]
    asked = {each["key"]: each["values"] for each in requirements["requirements"]}
    assert asked["kubernetes.io/arch"] == ["amd64" if hardware.architecture == "x86_64" else "arm64"]
    assert asked["node.kubernetes.io/instance-type"] == [name]
    assert ("instanceStorePolicy" in made) == (hardware.nvme_disks > 0)
    assert all(each["ebs"]["encrypted"] for each in made["blockDeviceMappings"])
    assert made["metadataOptions"]["httpPutResponseHopLimit"] == 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"shape": NodeShape(instance_types=("p5.48xlarge",)), "size": UpTo(gpus=7)},
            ValueError,
            "size.gpus must be at least 8, got 7; raise it, because the smallest of p5.48xlarge has 8",
        ),
        ({"size": 8}, TypeError, r"size must be UpTo\(gpus=8\) or Static\(nodes=2\), got 8"),
        ({"shape": None}, TypeError, r"shape must be a NodeShape, got None"),
        ({"name": "l4_pool"}, ValueError, r"name must be 1 to 63 lower-case letters"),
        ({"capacity": "spot"}, TypeError, r"capacity must be OnDemand\(\), Spot\(\)"),
        (
            {
                "capacity": Reservation(
                    availability_zone="us-east-1a",
                    resource_group_arn="arn:aws:resource-groups:us-east-1:111122223333:group/p5",
                )
            },
            ValueError,
            "capacity must be a Reservation with id, got a resource group; write the id, because Karpenter selects "
            "by id",
        ),
        ({"node_role": None}, ValueError, r"node_role must be given without karpenter, got None"),
        ({"node_role": "nodes"}, TypeError, r"node_role must be an iam.IRole, got 'nodes'"),
        ({"karpenter": "yes"}, TypeError, r"karpenter must be a Karpenter, got 'yes'"),
        (
            {"ami_release": "1.36.3-20260903"},
            ValueError,
            "ami_release must be 'latest' or a release name of Karpenter for al2023, got '1.36.3-20260903'",
        ),
        (
            {"shape": NodeShape(instance_types=("g6.xlarge", "g7.2xlarge")), "ami_release": "v20260903"},
            ValueError,
            r"ami_release must be one with NVIDIA driver 595, which g7.2xlarge needs, got 'v20260903', which has 580; "
            r"use 'v20261012' \[GPU006\]",
        ),
        (
            {
                "shape": NodeShape(instance_types=("g7.2xlarge",), operating_system="bottlerocket"),
                "ami_release": "1.65.0",
            },
            ValueError,
            r"ami_release must be one with NVIDIA driver 595, .* got '1.65.0', .* use '1.68.0' or newer \[GPU006\]",
        ),
        ({"ami_release": ""}, ValueError, r"ami_release must be 'latest' or .* such as 'v2"),
        ({"ami_release": 1}, TypeError, r"ami_release must be a string, got 1"),
        (
            {"shape": NodeShape(instance_types=("p5.48xlarge",), efa=True)},
            ValueError,
            "subnets must be in one zone with efa, got us-east-1a, us-east-1b",
        ),
        ({"subnets": []}, ValueError, r"subnets must name at least one subnet"),
        ({"security_group_ids": []}, ValueError, r"security_group_ids must name at least one group"),
        ({"security_group_ids": "sg-1"}, TypeError, r"security_group_ids must be a list of names, got 'sg-1'; write"),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Pool: {message}"):
        pool(stack, cluster, **changes)

    assert stack.node.find_child("Pool").node.children == []


def test_refuses_a_second_pool_of_the_same_name(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = pool(stack, cluster)

    with pytest.raises(
        ValueError, match="Test/Again: cluster must have one pool named 'l4', got a second one next to 'Test/Pool'"
    ):
        KarpenterNodePool(
            stack,
            "Again",
            cluster=cluster,
            name="l4",
            shape=L4,
            size=UpTo(gpus=1),
            node_role=iam.Role.from_role_name(stack, "R", "r"),
        )
    assert made.name == "l4"


def test_the_pinned_image_drives_every_type(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster, shape=NodeShape(instance_types=("g7.2xlarge",)))

    assert manifest(resources_of(stack), "EC2NodeClass")["spec"]["amiSelectorTerms"] == [{"alias": "al2023@v20261012"}]


def test_accepts_the_smallest_pool_and_the_newest_image(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    pool(stack, cluster, shape=NodeShape(instance_types=("p5.48xlarge",)), ami_release="latest")

    spec = manifest(resources_of(stack), "EC2NodeClass")["spec"]
    assert spec["amiSelectorTerms"] == [{"alias": "al2023@latest"}]


def test_refuses_a_limit_known_only_at_deployment(stack: cdk.Stack) -> None:
    number = cdk.CfnParameter(stack, "Size", type="Number").value_as_number

    with pytest.raises(ValueError, match="size: gpus must be known at synth, got a token"):
        UpTo(gpus=cast("int", number))


def test_refuses_a_cluster_imported_without_its_security_group(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    bare = eks.Cluster.from_cluster_attributes(
        stack, "Bare", cluster_name="bare", vpc=cluster.vpc, kubectl_provider=cluster.kubectl_provider
    )

    with pytest.raises(ValueError, match="security_group_ids must be given when the cluster was imported without"):
        pool(stack, bare)


def budgets(stack: cdk.Stack, cluster: eks.ICluster, disruption: Disruption | None, **says: Any) -> list[Any]:
    """The budgets of a pool beside a Karpenter of some arguments."""
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, **says)
    pool(stack, cluster, karpenter=karpenter, disruption=disruption)
    return list(manifest(resources_of(stack), "NodePool")["spec"]["disruption"]["budgets"])


ONE_REPAIR = {"nodes": "1", "reasons": ["Unhealthy"]}
ALWAYS = Disruption(consolidation="WhenEmpty", budgets=[Budget(nodes="10%")])


@pytest.mark.parametrize(
    ("says", "bounded"),
    [
        ({"version": "1.15.1", "node_repair": True}, True),
        ({"version": "1.15.1"}, False),
        ({"node_repair": True}, False),
    ],
)
def test_one_broken_node_is_repaired_at_a_time(
    stack: cdk.Stack, cluster: eks.ICluster, says: dict[str, Any], bounded: bool
) -> None:
    assert (ONE_REPAIR in budgets(stack, cluster, None, **says)) is bounded


def test_who_says_budgets_has_said_those_of_repair(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    assert budgets(stack, cluster, ALWAYS, version="1.15.1", node_repair=True) == [{"nodes": "10%"}]


def test_a_budget_for_repair_is_what_the_definitions_take(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, version="1.15.1", node_repair=True)
    pool(stack, cluster, karpenter=karpenter)

    validate_custom(manifest(resources_of(stack), "NodePool"), crds)


def test_an_older_karpenter_knows_no_budget_for_repair(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    repaired = Disruption.training().with_repair()

    with pytest.raises(
        ValueError, match=r"Test/Pool: disruption must have no budget for 'Unhealthy' before Karpenter 1.15, got"
    ):
        budgets(stack, cluster, repaired, node_repair=True)
