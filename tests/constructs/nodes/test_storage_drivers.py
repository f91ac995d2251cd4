"""Fresh nodes keep pods away until the drivers can mount there, and the docs state that this is temporary."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import AutoModeNodePool, GpuCluster, ManagedNodeGroup, NodeShape, Taint, UpTo
from gpu_constructs.autoscaling.cluster_autoscaler import flags
from gpu_constructs.autoscaling.karpenter_node_pool import node_pool
from gpu_constructs.autoscaling.node_pool import NodePool
from gpu_constructs.metrics import DcgmExporter
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup
from gpu_constructs.nodes.bootstrap import Membership
from gpu_constructs.nodes.user_data import joining_user_data
from gpu_constructs.pools import CustomImage
from gpu_constructs.pools.capacity import OnDemand
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.pool import tolerations
from gpu_constructs.pools.sharing import DeviceManagerName
from gpu_constructs.storage import S3CsiDriver
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.reading.inputs import read_input
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster
from tests.templates import of_type, only, resources_of, text_of

KEYS = ["ebs.csi.aws.com/agent-not-ready", "s3.csi.aws.com/agent-not-ready"]
SHAPE = NodeShape(instance_types=("g6.xlarge",), storage_drivers=("ebs", "s3"))
MEMBERSHIP = Membership(
    name="demo",
    endpoint=ENDPOINT,
    certificate_authority=CERTIFICATE,
    service_cidr="172.20.0.0/16",
    kubernetes_version="1.36",
    ami_release="v20260714",
    image_parameter="/image",
)


def addons(stack: cdk.Stack) -> set[str]:
    return {each["Properties"]["AddonName"] for each in of_type(resources_of(stack), "AWS::EKS::Addon").values()}


def test_a_managed_group_has_the_taints_and_its_cluster_the_drivers(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"])
    gpu.add_pool("l4", SHAPE, max_nodes=2)

    groups = [each["Properties"] for each in of_type(resources_of(stack), "AWS::EKS::Nodegroup").values()]
    [taints] = [each["Taints"] for each in groups if "Taints" in each]
    assert taints[1:] == [{"Key": key, "Value": "true", "Effect": "NO_SCHEDULE"} for key in KEYS]
    assert {"aws-ebs-csi-driver", "aws-mountpoint-s3-csi-driver"} <= addons(stack)


def test_cluster_autoscaler_is_configured_for_every_driver() -> None:
    told = [each.removeprefix("--startup-taint=") for each in flags("demo") if each.startswith("--startup-taint=")]

    assert set(KEYS) | {"fsx.csi.aws.com/agent-not-ready", "efs.csi.aws.com/agent-not-ready"} == set(told)


def test_a_node_pool_lists_them_among_those_that_do_not_stay() -> None:
    pool = NodePool(
        name="l4",
        shape=SHAPE,
        size=UpTo(gpus=8),
        capacities=(OnDemand(),),
        disruption=Disruption.suited_to(None, static=False),
    )

    spec = node_pool(pool)["spec"]["template"]["spec"]
    assert [each["key"] for each in spec["taints"]] == ["nvidia.com/gpu"]
    assert [(each["key"], each["effect"]) for each in spec["startupTaints"]] == [(key, "NoSchedule") for key in KEYS]


def test_pods_tolerate_none_of_them(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group = ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, max_nodes=2)

    assert [each["key"] for each in tolerations(group)] == ["nvidia.com/gpu"]


def test_a_self_managed_node_registers_with_them_and_no_tag_tells_of_them(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    cluster = imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)
    says = Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16")
    SelfManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, max_nodes=2, bootstrap=says)

    tags = only(resources_of(stack), "AWS::AutoScaling::AutoScalingGroup")["Tags"]
    assert not [each for each in tags if "agent-not-ready" in text_of(each["Key"])]
    [flag] = re.findall(r"register-with-taints=(\S+?)['\"\n]", joining_user_data(SHAPE, "l4", MEMBERSHIP))
    assert flag.split(",")[1:] == [f"{key}=true:NoSchedule" for key in KEYS]


def test_bottlerocket_registers_with_them() -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", storage_drivers=("s3",))

    assert '"s3.csi.aws.com/agent-not-ready" = [\n    "true:NoSchedule",\n]' in joining_user_data(
        shape, "l4", MEMBERSHIP
    )


def test_eks_is_not_asked_to_taint_nodes_of_an_image_of_ones_own(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    cluster = imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)
    image = CustomImage(id="ami-0123456789abcdef0", driver_branch=595)
    shape = NodeShape(instance_types=("g6.xlarge",), storage_drivers=("s3",), image=image)
    says = Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16")
    ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=2, bootstrap=says)

    assert [each["Key"] for each in only(resources_of(stack), "AWS::EKS::Nodegroup")["Taints"]] == ["nvidia.com/gpu"]
    template = only(resources_of(stack), "AWS::EC2::LaunchTemplate")["LaunchTemplateData"]
    assert "s3.csi.aws.com/agent-not-ready=true:NoSchedule" in text_of(template["UserData"]["Fn::Base64"])


@pytest.mark.parametrize("manager", ["device-plugin", "gpu-operator", "dra"])
def test_whatever_else_runs_on_each_node_does_not_wait(manager: DeviceManagerName, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path))
    stack = cdk.Stack(app, "Test")
    gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"])
    DcgmExporter(stack, "Exporter", cluster=gpu)
    shape = NodeShape(
        instance_types=("g6.12xlarge",), efa=True, device_manager=manager, storage_drivers=("ebs", "fsx", "s3")
    )
    gpu.add_pool("l4", shape, min_nodes=1, max_nodes=2, subnets=gpu.cluster.vpc.private_subnets[:1])
    app.synth()

    [cluster] = clusters(read_input([str(tmp_path)]))
    [pool] = [each for each in cluster.pools if each.name == "l4"]
    assert len(pool.startup_taints) == 3
    assert len(cluster.daemon_sets) >= 6
    assert {each.name: refusing_taints(each, pool.startup_taints) for each in cluster.daemon_sets} == {
        each.name: [] for each in cluster.daemon_sets
    }


def test_without_drivers_nothing_changes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    ManagedNodeGroup(
        stack, "Nodes", cluster=cluster, name="l4", shape=NodeShape(instance_types=("g6.xlarge",)), max_nodes=2
    )

    assert len(only(resources_of(stack), "AWS::EKS::Nodegroup")["Taints"]) == 1
    assert not addons(stack)


def test_an_imported_cluster_may_have_drivers_of_its_own(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, max_nodes=2)

    assert not addons(stack)


def test_refuses_a_driver_that_does_not_know_its_taint(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    S3CsiDriver(stack, "Driver", cluster=cluster, version="v2.0.0-eksbuild.1")

    with pytest.raises(
        ValueError,
        match=r"storage_drivers must have drivers that .* 's3' of version v2\.0\.0-eksbuild\.1; use v2\.1 or",
    ):
        ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, max_nodes=2)


def test_takes_the_first_version_that_does(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    S3CsiDriver(stack, "Driver", cluster=cluster, version="v2.1.0-eksbuild.1")

    made = ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=SHAPE, max_nodes=2)
    assert "s3.csi.aws.com/agent-not-ready" in {each.key for each in made.shape.startup_taints}


def test_auto_mode_attaches_ebs_volumes_itself(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="shape must be without 'ebs' in storage_drivers"):
        AutoModeNodePool(stack, "Pool", cluster=cluster, name="l4", shape=SHAPE, size=UpTo(gpus=8))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"storage_drivers": "s3"}, TypeError, "storage_drivers must"),
        ({"storage_drivers": ("S3",)}, ValueError, "storage_drivers must be one of ebs, fsx, s3, got 'S3'"),
        ({"storage_drivers": ("s3", "s3")}, ValueError, "storage_drivers must differ"),
        (
            {"taints": (Taint(key=KEYS[1], value="true"),)},
            ValueError,
            r"taints must not contain s3.csi.aws.com/agent-not-ready, .*, got Taint\(key='s3.*\); "
            r"write storage_drivers=\('s3',\)",
        ),
    ],
)
def test_refuses_what_is_no_driver(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NodeShape(instance_types=("g6.xlarge",), **changes)
