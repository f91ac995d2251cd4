"""The options of a KarpenterNodePool beyond the default: static, mixed, ranked, limited, overlaid, tuned."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    CapacityBlock,
    Disk,
    Karpenter,
    KarpenterNodePool,
    NodeShape,
    OnDemand,
    Reservation,
    Spot,
    Static,
    TimeSlicing,
    UpTo,
    find_instance_types,
)
from gpu_constructs.pools import CustomImage, Disruption, Kubelet
from gpu_facts.labels import POOL
from tests.chart_values import unknown_values
from tests.schemas import validate_custom
from tests.templates import CHART, depends_on, manifest, manifests_of, object_id, of_type, resources_of, text_of

L4 = NodeShape(instance_types=("g6.xlarge",))
RESERVED = Reservation(availability_zone="us-east-1a", id="cr-0a100000000000000")


@pytest.fixture
def karpenter(stack: cdk.Stack, cluster: eks.ICluster) -> Karpenter:
    """The controller of the app."""
    return Karpenter(stack, "Karpenter", cluster=cluster)


def pool(karpenter: Karpenter, cluster: eks.ICluster, /, **changes: Any) -> dict[str, Any]:
    """The resources of a valid pool, with ``changes`` applied."""
    stack = cdk.Stack.of(karpenter)
    says: dict[str, Any] = {"cluster": cluster, "name": "l4", "shape": L4, "karpenter": karpenter, "size": UpTo(gpus=8)}
    KarpenterNodePool(stack, "Pool", **says | changes)
    return resources_of(stack)


def gates(resources: dict[str, Any]) -> dict[str, bool]:
    [values] = [
        json.loads(text_of(each["Properties"]["Values"]))
        for each in of_type(resources, CHART).values()
        if each["Properties"]["Chart"] == "karpenter"
    ]
    return dict(values["settings"].get("featureGates", {}))


def test_a_plain_pool_needs_no_gate(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    assert gates(pool(karpenter, cluster)) == {}


def test_a_static_pool(karpenter: Karpenter, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    resources = pool(karpenter, cluster, size=Static(nodes=2))

    assert manifest(resources, "NodePool") == snapshot_yaml
    assert gates(resources) == {"staticCapacity": True}


def test_another_kind_of_size_makes_another_node_pool(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    resources = pool(karpenter, cluster, size=Static(nodes=2))

    names = {kind: manifest(resources, kind)["metadata"]["name"] for kind in ("NodePool", "EC2NodeClass")}
    assert names == {"NodePool": "l4-static", "EC2NodeClass": "l4"}
    labels = manifest(resources, "NodePool")["spec"]["template"]["metadata"]["labels"]
    assert labels[POOL] == "l4"


def test_the_name_of_a_static_pool_is_a_label_value(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match=r"name must be at most 56 characters with Static\(...\), got 'a{57}'"):
        pool(karpenter, cluster, name="a" * 57, size=Static(nodes=2))


def test_a_static_pool_of_a_reservation_counts_its_instances(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    spec = manifest(pool(karpenter, cluster, size=Static(nodes=2), capacity=RESERVED), "NodePool")["spec"]

    assert spec["limits"] == {"nodes": "2"}


def test_an_isolated_pool_may_take_a_role_of_ones_own(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    isolated = Karpenter(stack, "Karpenter", cluster=cluster, isolated=True)
    resources = pool(isolated, cluster, node_role=iam.Role.from_role_name(stack, "Own", "own-nodes"))

    profile = manifest(resources, "EC2NodeClass")["spec"]["instanceProfile"].strip("${}")
    assert resources[profile]["Properties"]["Roles"] == ["own-nodes"]


@pytest.mark.parametrize("isolated", [False, True])
def test_the_controller_may_pass_a_role_of_ones_own(stack: cdk.Stack, cluster: eks.ICluster, isolated: bool) -> None:
    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, isolated=isolated)
    own = iam.Role.from_role_arn(stack, "Own", "arn:aws:iam::111122223333:role/own-nodes")

    resources = pool(karpenter, cluster, node_role=own)

    [(id, policy)] = of_type(resources, "AWS::IAM::RolePolicy").items()
    [controller] = of_type(resources, "AWS::EKS::PodIdentityAssociation").values()
    assert controller["Properties"]["RoleArn"] == {"Fn::GetAtt": [policy["Properties"]["RoleName"]["Ref"], "Arn"]}
    [statement] = policy["Properties"]["PolicyDocument"]["Statement"]
    assert (statement["Action"], statement["Resource"]) == ("iam:PassRole", own.role_arn)
    [node_class] = [each for each in resources if "NodeClass" in each]
    assert id in depends_on(resources, node_class)


def test_the_controllers_own_node_role_needs_no_second_policy(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    assert of_type(pool(karpenter, cluster, node_role=karpenter.node_role), "AWS::IAM::RolePolicy") == {}


def test_a_pool_in_another_stack_may_have_a_role_there(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    app = cast("cdk.App", cdk.Stack.of(karpenter).node.root)
    there = cdk.Stack(app, "There", env=cdk.Environment(account="111122223333", region="us-east-1"))
    role = iam.Role(there, "Nodes", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    subnets = [ec2.Subnet.from_subnet_id(there, "Subnet", "subnet-0123456789abcdef0")]
    KarpenterNodePool(
        there,
        "Pool",
        cluster=cluster,
        name="l4",
        shape=L4,
        karpenter=karpenter,
        size=UpTo(gpus=8),
        node_role=role,
        subnets=subnets,
    )

    app.synth()
    assert len(of_type(resources_of(there), "AWS::IAM::RolePolicy")) == 1


def test_charts_come_from_a_mirror_and_take_values_of_ones_own(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    mirror = "oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts"
    mirrored = Construct(stack, "Mirrored")
    mirrored.node.set_context("gpu-constructs:chartMirror", mirror)
    image = {"controller": {"image": {"repository": "111122223333.dkr.ecr.us-east-1.amazonaws.com/karpenter"}}}
    Karpenter(mirrored, "Karpenter", cluster=cluster, values=image)

    charts = {each["Properties"]["Chart"]: each["Properties"] for each in of_type(resources_of(stack), CHART).values()}
    assert charts["karpenter"]["Repository"] == f"{mirror}/karpenter"
    assert charts["karpenter-crd"]["Repository"] == f"{mirror}/karpenter-crd"
    values = json.loads(text_of(charts["karpenter"]["Values"]))
    assert values["controller"]["image"] == image["controller"]["image"]
    assert values["controller"]["resources"]["requests"]["cpu"] == "500m"


def test_refuses_a_mirror_that_is_no_oci_registry(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    mirrored = Construct(stack, "Mirrored")
    mirrored.node.set_context("gpu-constructs:chartMirror", "https://charts.example.com")

    with pytest.raises(
        ValueError,
        match=r"context: gpu-constructs:chartMirror must be an OCI registry, got 'https://charts.example.com'",
    ):
        Karpenter(mirrored, "Karpenter", cluster=cluster)


def test_reserved_capacity_switches_its_gate_on(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    assert gates(pool(karpenter, cluster, capacity=RESERVED)) == {"reservedCapacity": True}


def test_reserved_then_spot_then_on_demand(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    resources = pool(karpenter, cluster, capacity=(RESERVED, Spot(), OnDemand()), size=UpTo(gpus=8, weight=10))

    spec = manifest(resources, "NodePool")["spec"]
    asked = {each["key"]: each["values"] for each in spec["template"]["spec"]["requirements"]}
    assert asked["karpenter.sh/capacity-type"] == ["reserved", "spot", "on-demand"]
    # The others may start in any zone.
    assert "topology.kubernetes.io/zone" not in asked
    assert spec["weight"] == 10
    node_class = manifest(resources, "EC2NodeClass")["spec"]
    assert node_class["capacityReservationSelectorTerms"] == [{"id": "cr-0a100000000000000"}]
    assert len(node_class["subnetSelectorTerms"]) == 2


def test_two_reservations_of_two_types(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    other = Reservation(availability_zone="us-east-1a", id="cr-0b200000000000000")
    shape = NodeShape(instance_types=("g6.xlarge", "g6e.xlarge"))

    resources = pool(karpenter, cluster, capacity=(RESERVED, other), shape=shape)

    terms = manifest(resources, "EC2NodeClass")["spec"]["capacityReservationSelectorTerms"]
    assert terms == [{"id": "cr-0a100000000000000"}, {"id": "cr-0b200000000000000"}]
    asked = manifest(resources, "NodePool")["spec"]["template"]["spec"]["requirements"]
    assert {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]} in asked


def test_a_fraction_of_a_gpu_is_counted_by_an_overlay(
    karpenter: Karpenter, cluster: eks.ICluster, crds: Path, snapshot_yaml: SnapshotAssertion
) -> None:
    shape = NodeShape(instance_types=("g6f.xlarge", "g6f.2xlarge", "g6.xlarge"))

    resources = pool(karpenter, cluster, shape=shape)

    overlay = manifest(resources, "NodeOverlay")
    assert overlay == snapshot_yaml
    validate_custom(overlay, crds)
    assert gates(resources) == {"nodeOverlay": True}
    made = object_id(resources, "NodeOverlay")
    assert made in depends_on(resources, object_id(resources, "NodePool"))
    assert set(of_type(resources, CHART)) <= depends_on(resources, made)


def test_shares_are_counted_by_an_overlay_and_limited_by_their_own_name(
    karpenter: Karpenter, cluster: eks.ICluster, crds: Path
) -> None:
    shape = NodeShape(instance_types=("g6.xlarge", "g6.12xlarge"), sharing=TimeSlicing(4))

    resources = pool(karpenter, cluster, shape=shape)

    overlays = [each for each in manifests_of(resources) if each["kind"] == "NodeOverlay"]
    assert [each["spec"]["capacity"] for each in overlays] == [
        {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"},
        {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"},
    ]
    for overlay in overlays:
        validate_custom(overlay, crds)
    assert manifest(resources, "NodePool")["spec"]["limits"] == {"nvidia.com/gpu.shared": "32"}
    assert gates(resources) == {"nodeOverlay": True}


def test_limits_in_addition_to_gpus(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    resources = pool(karpenter, cluster, size=UpTo(gpus=8, vcpus=32, memory_gib=128))

    limits = manifest(resources, "NodePool")["spec"]["limits"]
    assert limits == {"nvidia.com/gpu": "8", "cpu": "32", "memory": "128Gi"}


def test_a_pool_for_inference_packs_its_pods(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), purpose="inference")

    spec = manifest(pool(karpenter, cluster, shape=shape), "NodePool")["spec"]

    assert spec["disruption"] == Disruption.inference().to_manifest()


def test_a_disruption_of_ones_own(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    own = Disruption(consolidation="WhenEmpty", expire_after_hours=720, termination_grace_minutes=60)

    spec = manifest(pool(karpenter, cluster, disruption=own), "NodePool")["spec"]

    assert spec["disruption"] == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert spec["template"]["spec"]["terminationGracePeriod"] == "60m"


def test_node_class_of_tuned_nodes(
    karpenter: Karpenter, cluster: eks.ICluster, crds: Path, snapshot_yaml: SnapshotAssertion
) -> None:
    tuned = NodeShape(
        instance_types=("g7.2xlarge",),
        image=CustomImage(id="ami-0123456789abcdef0", driver_branch=595),
        kubelet=Kubelet(max_pods=50, system_reserved={"memory": "1Gi"}, parallel_image_pulls=8),
        soci=True,
        tags={"team": "search"},
    )

    made = manifest(pool(karpenter, cluster, shape=tuned), "EC2NodeClass")

    assert made["spec"] == snapshot_yaml
    validate_custom(made, crds)


def test_a_snapshot_of_images(karpenter: Karpenter, cluster: eks.ICluster, crds: Path) -> None:
    shape = NodeShape(
        instance_types=("g6.xlarge",),
        operating_system="bottlerocket",
        raid0=False,
        disk=Disk(snapshot_id="snap-0123456789abcdef0", initialization_mib_s=300),
    )

    made = manifest(pool(karpenter, cluster, shape=shape), "EC2NodeClass")

    system, data = [each["ebs"] for each in made["spec"]["blockDeviceMappings"]]
    assert (data["snapshotID"], data["volumeInitializationRate"]) == ("snap-0123456789abcdef0", 300)
    assert "snapshotID" not in system
    validate_custom(made, crds)


def test_types_found_by_capability(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    big = NodeShape(instance_types=find_instance_types(min_gpu_memory_gib=80, efa=True, min_gpus=8))

    [asked] = [
        each["values"]
        for each in manifest(pool(karpenter, cluster, shape=big), "NodePool")["spec"]["template"]["spec"][
            "requirements"
        ]
        if each["key"] == "node.kubernetes.io/instance-type"
    ]

    assert {"p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"} <= set(asked)


def test_broken_nodes_are_replaced_on_request(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster, node_repair=True)

    assert gates(resources_of(stack)) == {"nodeRepair": True}


def test_a_node_is_rebooted_before_it_is_replaced_on_request(
    stack: cdk.Stack, cluster: eks.ICluster, chart_values: Path
) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster, node_repair=True, reboot_for_repair=True, version="1.15.1")

    resources = resources_of(stack)
    [controller] = [
        json.loads(text_of(each["Properties"]["Values"]))
        for each in of_type(resources, CHART).values()
        if each["Properties"]["Chart"] == "karpenter"
    ]
    assert controller["settings"]["awsFeatureGates"] == {"rebootForRepair": True}
    assert unknown_values(chart_values / "karpenter-1.15.1.yaml", controller) == []
    policies = of_type(resources, "AWS::IAM::ManagedPolicy").values()
    allowed = [each for policy in policies for each in policy["Properties"]["PolicyDocument"]["Statement"]]
    [rebooting] = [each for each in allowed if "ec2:RebootInstances" in each["Action"]]
    assert rebooting["Sid"] == "AllowScopedDeletion"
    assert rebooting["Condition"]["StringLike"] == {"aws:ResourceTag/karpenter.sh/nodepool": "*"}


def test_without_that_nothing_may_reboot(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster, node_repair=True, version="1.15.1")

    assert "RebootInstances" not in json.dumps(resources_of(stack))


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"version": "1.15.1"}, ValueError, "node_repair must be True with reboot_for_repair, got False"),
        ({"node_repair": True}, ValueError, r"version must be 1\.15\.1 with reboot_for_repair, got '1\.14\.1'"),
        ({"reboot_for_repair": 1}, TypeError, "reboot_for_repair must be True or False, got 1"),
    ],
)
def test_refuses_reboots_that_would_not_happen(
    stack: cdk.Stack, cluster: eks.ICluster, says: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Karpenter: {message}"):
        Karpenter(stack, "Karpenter", cluster=cluster, **{"reboot_for_repair": True} | says)


def test_gates_of_another_controller_are_reported(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = iam.Role.from_role_name(stack, "Nodes", "karpenter-nodes")
    KarpenterNodePool(stack, "Pool", cluster=cluster, name="l4", shape=L4, size=Static(nodes=1), node_role=role)

    Annotations.from_stack(stack).has_warning(
        "/Test/Pool", Match.string_like_regexp("must run with the feature gates staticCapacity")
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"size": UpTo(gpus=8, vcpus=31)},
            ValueError,
            "size.vcpus must be at least 32, got 31; raise it, because 8 GPUs of the pool need it",
        ),
        ({"capacity": ()}, ValueError, "capacity must name at least one purchase option, got none"),
        ({"capacity": (Spot(), Spot())}, ValueError, r"capacity must differ"),
        ({"capacity": (Spot(), "on-demand")}, TypeError, r"capacity must be OnDemand\(\), Spot\(\).*got 'on-demand'"),
        (
            {"capacity": (Reservation(availability_zone="us-east-1f", id="cr-0a100000000000000"), Spot())},
            ValueError,
            "subnets must be in 'us-east-1f', the zone of the reservation",
        ),
        ({"disruption": "training"}, TypeError, r"disruption must be a Disruption, got 'training'"),
        (
            {"capacity": (OnDemand(), Spot()), "shape": NodeShape(instance_types=("g6.xlarge",), purpose="training")},
            ValueError,
            r"capacity must not be Spot\(\) if the shape's purpose is 'training'",
        ),
        (
            {
                "ami_release": "v20260714",
                "shape": NodeShape(
                    instance_types=("g6.xlarge",), image=CustomImage(id="ami-0123456789abcdef0", driver_branch=580)
                ),
            },
            ValueError,
            "ami_release must be left out if the shape has its own image",
        ),
        (
            {
                "shape": NodeShape(
                    instance_types=("g6.xlarge",),
                    operating_system="bottlerocket",
                    kubelet=Kubelet(parallel_image_pulls=4),
                )
            },
            ValueError,
            "shape must leave kubelet.parallel_image_pulls out on bottlerocket, got 4; remove it, because Karpenter "
            "drops",
        ),
    ],
)
def test_refuses_before_a_child_is_created(
    karpenter: Karpenter, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Pool: {message}"):
        pool(karpenter, cluster, **changes)

    assert cdk.Stack.of(karpenter).node.find_child("Pool").node.children == []


def test_a_static_pool_fits_into_its_block(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    starts = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
    block = CapacityBlock(
        id="cr-0a100000000000000",
        availability_zone="us-east-1a",
        starts=starts,
        ends=starts + timedelta(days=1),
        instances=2,
    )
    p5 = NodeShape(instance_types=("p5.48xlarge",))

    with pytest.raises(ValueError, match=r"size must be at most the 2 instances of the Capacity Block, .*got 3"):
        pool(karpenter, cluster, size=Static(nodes=3), capacity=block, shape=p5)


def test_a_capacity_that_serves_no_type_is_refused(karpenter: Karpenter, cluster: eks.ICluster) -> None:
    block = CapacityBlock(
        id="cr-0a100000000000000",
        availability_zone="us-east-1a",
        starts=datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc),
        ends=datetime(2026, 12, 2, 11, 30, tzinfo=timezone.utc),
        instances=1,
    )

    with pytest.raises(ValueError, match="capacity must fit one of the instance types, got CapacityBlock"):
        pool(karpenter, cluster, capacity=(OnDemand(), block))
