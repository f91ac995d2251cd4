"""Options of a ManagedNodeGroup: release, custom image, initial size, repair, scaling options."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import CapacityBlock, ManagedNodeGroup, NodeShape, Spot
from gpu_constructs.nodes import Bootstrap
from gpu_constructs.pools import CustomImage, NodeRepair, RepairOverride, ScalingOptions
from gpu_facts.versions import KUBERNETES
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster
from tests.templates import depends_on, of_type, only, resources_of, slice_of, text_of
from tests.user_data import parts_of

GROUP, TEMPLATE = "AWS::EKS::Nodegroup", "AWS::EC2::LaunchTemplate"
IMAGE = CustomImage(id="ami-0123456789abcdef0", driver_branch=595)


def group(stack: cdk.Stack, cluster: eks.ICluster | eks.Cluster, /, **changes: Any) -> ManagedNodeGroup:
    says = {"cluster": cluster, "name": "l4", "shape": NodeShape(instance_types=("g6.xlarge",)), "max_nodes": 4}
    return ManagedNodeGroup(stack, "Nodes", **says | changes)


def properties(stack: cdk.Stack) -> dict[str, Any]:
    return only(slice_of(resources_of(stack), "Nodes"), GROUP)


@pytest.mark.parametrize(("said", "emitted"), [(True, True), (False, None)])
def test_an_update_may_be_forced(
    stack: cdk.Stack, created_cluster: eks.Cluster, said: bool, emitted: bool | None
) -> None:
    group(stack, created_cluster, force_update=said)

    assert properties(stack).get("ForceUpdateEnabled") is emitted


def test_a_created_cluster_pins_version_and_release(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    group(stack, created_cluster)

    made = properties(stack)
    assert made["Version"] == "1.35"
    assert made["ReleaseVersion"] == KUBERNETES["1.35"].al2023.version
    assert made["ReleaseVersion"].startswith("1.35.")


def test_bottlerocket_and_latest_leave_the_release_to_eks(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    group(stack, created_cluster, ami_release="latest")
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")
    ManagedNodeGroup(stack, "NodesOfBottlerocket", cluster=created_cluster, name="b", shape=shape, max_nodes=1)

    for made in of_type(slice_of(resources_of(stack), "Nodes"), GROUP).values():
        assert made["Properties"]["Version"] == "1.35"
        assert "ReleaseVersion" not in made["Properties"]


@pytest.mark.parametrize(("system", "release"), [("al2023", "1.35.6-20260714"), ("bottlerocket", "1.34.0-18d04e52")])
def test_a_release_can_be_named(stack: cdk.Stack, cluster: eks.ICluster, system: Any, release: str) -> None:
    group(
        stack,
        cluster,
        shape=NodeShape(instance_types=("g6.xlarge",), operating_system=system),
        ami_release=release,
    )

    made = properties(stack)
    assert made["ReleaseVersion"] == release
    assert "Version" not in made


@pytest.mark.parametrize("release", ["latest", "1.35.7-20261012"])
def test_a_type_that_newer_images_drive(stack: cdk.Stack, created_cluster: eks.Cluster, release: str) -> None:
    group(stack, created_cluster, shape=NodeShape(instance_types=("g7.2xlarge",)), ami_release=release)

    assert properties(stack)["InstanceTypes"] == ["g7.2xlarge"]


def test_all_that_is_launched_carries_the_tags(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, shape=NodeShape(instance_types=("g6.xlarge",), tags={"team": "search"}))

    data = only(resources_of(stack), TEMPLATE)["LaunchTemplateData"]
    assert [each["ResourceType"] for each in data["TagSpecifications"]] == ["instance", "volume", "network-interface"]
    for each in data["TagSpecifications"]:
        assert {"Key": "team", "Value": "search"} in each["Tags"]
        assert {"Key": "Name", "Value": "demo-l4"} in each["Tags"]


def test_repair_is_rendered_whole(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    override = RepairOverride(
        condition="AcceleratedHardwareReady", reason="NvidiaXID64Error", wait_minutes=5, action="Replace"
    )
    group(stack, cluster, node_repair=NodeRepair(max_parallel="50%", overrides=(override,)))

    assert properties(stack)["NodeRepairConfig"] == {
        "Enabled": True,
        "MaxParallelNodesRepairedPercentage": 50,
        "NodeRepairConfigOverrides": [
            {
                "NodeMonitoringCondition": "AcceleratedHardwareReady",
                "NodeUnhealthyReason": "NvidiaXID64Error",
                "MinRepairWaitTimeMins": 5,
                "RepairAction": "Replace",
            }
        ],
    }


@pytest.mark.parametrize(("name", "pinned"), [("g6.2xlarge", True), ("g7.2xlarge", False)])
def test_eks_chooses_where_the_pinned_image_has_no_driver(
    stack: cdk.Stack, created_cluster: eks.Cluster, name: str, pinned: bool
) -> None:
    group(stack, created_cluster, shape=NodeShape(instance_types=(name,)))

    made = properties(stack)
    assert made["Version"] == "1.35"
    assert ("ReleaseVersion" in made) == pinned


def test_an_image_of_ones_own(stack: cdk.Stack, vpc: Any, snapshot_yaml: SnapshotAssertion) -> None:
    joinable = imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)
    group(
        stack,
        joinable,
        shape=NodeShape(instance_types=("g7.2xlarge",), image=IMAGE),
        bootstrap=Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16"),
    )

    resources = slice_of(resources_of(stack), "Nodes")
    made, data = only(resources, GROUP), only(resources, TEMPLATE)["LaunchTemplateData"]
    # EKS rejects these together with a custom image.
    assert made.keys().isdisjoint({"AmiType", "Version", "ReleaseVersion"})
    assert data["ImageId"] == IMAGE.id
    [(_, text)] = parts_of(text_of(data["UserData"]["Fn::Base64"]))
    assert yaml.safe_load(text)["spec"] == snapshot_yaml


def test_an_image_needs_what_a_node_joins_by(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/Nodes: kubernetes_version must be given for an imported cluster"):
        group(stack, cluster, shape=NodeShape(instance_types=("g6.xlarge",), image=IMAGE))


def test_scaling_options_reach_the_auto_scaling_group(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group(stack, cluster, scaling_options=ScalingOptions(unneeded_minutes=30, gpu_utilization=0.7))

    resources = resources_of(stack)
    [(id, tags)] = of_type(resources, "Custom::GpuNodeGroupTags").items()
    [name] = of_type(resources, GROUP)
    [policy_id] = of_type(resources, "AWS::IAM::RolePolicy")
    assert tags["Properties"]["Name"] == {"Fn::GetAtt": [name, "NodegroupName"]}
    assert tags["Properties"]["Tags"] == {
        "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledownunneededtime": "30m0s",
        "k8s.io/cluster-autoscaler/node-template/autoscaling-options/scaledowngpuutilizationthreshold": "0.7",
    }
    assert policy_id in depends_on(resources, id)
    [tagging] = resources[policy_id]["Properties"]["PolicyDocument"]["Statement"]
    assert tagging["Action"] == ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"]
    assert tagging["Condition"] == {"StringEquals": {"aws:ResourceTag/eks:cluster-name": "demo"}}
    assert not of_type(resources, "Custom::AWS")


def test_scaling_options_of_many_groups_take_one_policy(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    """IAM takes 10,240 characters of inline policies in a role, and took a policy for each tag of each group."""
    options = ScalingOptions(unneeded_minutes=30, gpu_utilization=0.7)
    for number in range(20):
        shape = NodeShape(instance_types=("g6.xlarge",))
        said: dict[str, Any] = {"cluster": cluster, "name": f"l4-{number}", "shape": shape, "max_nodes": 2}
        ManagedNodeGroup(stack, f"Nodes{number}", scaling_options=options, **said)

    resources = resources_of(stack)
    assert len(of_type(resources, "Custom::GpuNodeGroupTags")) == 20
    assert len(of_type(resources, "AWS::IAM::RolePolicy")) == 1
    assert not of_type(resources, "AWS::IAM::Policy")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"ami_release": "v20260714"},
            ValueError,
            "ami_release must be 'latest' or a release name of EKS for al2023, got 'v20260714'",
        ),
        (
            {"shape": NodeShape(instance_types=("g7.2xlarge",)), "ami_release": "1.36.3-20260903"},
            ValueError,
            r"ami_release must be one with NVIDIA driver 595, which g7.2xlarge needs, got '1.36.3-20260903', which "
            r"has 580; use 'latest' \[GPU006\]",
        ),
        ({"ami_release": 1}, TypeError, "ami_release must be a string, got 1; write one such as '1.36.3-20260903'"),
        (
            {"ami_release": "1.36.3-20260903", "shape": NodeShape(instance_types=("g6.xlarge",), image=IMAGE)},
            ValueError,
            "ami_release must be left out if the shape has its own image",
        ),
        ({"force_update": 1}, TypeError, r"force_update must be True or False, got 1"),
        ({"node_repair": True}, TypeError, r"node_repair must be a NodeRepair, got True"),
        ({"bootstrap": "1.36"}, TypeError, r"bootstrap must be a Bootstrap, got '1.36'"),
        ({"scaling_options": {}}, TypeError, r"scaling_options must be a ScalingOptions, got \{\}"),
        (
            {"capacity": Spot(), "shape": NodeShape(instance_types=("g6.xlarge",), purpose="training")},
            ValueError,
            r"capacity must not be Spot\(\) if the shape's purpose is 'training', .*Spot\(checkpointed=True\)",
        ),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Nodes: {message}"):
        group(stack, cluster, **changes)

    assert stack.node.find_child("Nodes").node.children == []


def test_refuses_a_release_for_another_minor_than_the_clusters(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    with pytest.raises(
        ValueError, match=r"ami_release must be for Kubernetes 1.35 of the .*before it, got '1.36.3-20260903'"
    ):
        group(stack, created_cluster, ami_release="1.36.3-20260903")


def test_training_takes_spot_from_those_who_save_checkpoints(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), purpose="training")
    group(stack, cluster, capacity=Spot(checkpointed=True), shape=shape)

    assert properties(stack)["CapacityType"] == "SPOT"


def block(**changes: Any) -> CapacityBlock:
    starts = datetime.now(timezone.utc) + timedelta(days=30)
    says: dict[str, Any] = {
        "id": "cr-0a100000000000000",
        "availability_zone": "us-east-1a",
        "starts": starts,
        "instances": 4,
    }
    says |= {"ends": starts + timedelta(days=1)}
    return CapacityBlock(**says | changes)


P5 = NodeShape(instance_types=("p5.48xlarge",))


@pytest.mark.parametrize(("started", "steps"), [(False, ["Start", "Drain"]), (True, ["Drain"])])
def test_a_block_is_opened_and_drained_on_time(
    stack: cdk.Stack, cluster: eks.ICluster, started: bool, steps: list[str]
) -> None:
    group(stack, cluster, shape=P5, capacity=block(started=started))

    schedules = {
        id: json.loads(text_of(each["Properties"]["Target"]["Input"]))["ScalingConfig"]
        for id, each in of_type(resources_of(stack), "AWS::Scheduler::Schedule").items()
    }
    # EKS takes no group that can have no node, and the autoscaler must not start more than that one.
    opened, closed = ({"MinSize": 0, "MaxSize": most, "DesiredSize": nodes} for most, nodes in ((4, 4), (1, 0)))
    assert list(schedules.values()) == [{"Start": opened, "Drain": closed}[each] for each in steps]


def test_a_size_that_is_no_number_at_all_is_refused(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(TypeError, match="max_nodes must be a whole number, got nan"):
        group(stack, cluster, max_nodes=float("nan"))
