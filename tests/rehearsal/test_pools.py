"""GPU pools are what the APIs of a running cluster return, and a pod tolerates no more than a user's pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.scenarios.pools import GpuPool, gpu_pools

POOLS, OVERLAYS = "/apis/karpenter.sh/v1/nodepools", "/apis/karpenter.sh/v1alpha1/nodeoverlays"


class Server:
    """Serves lists of objects.

    Attributes:
        lists: The objects, by path; a path that isn't there isn't served.
    """

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists = {POOLS: lists.get("pools"), OVERLAYS: lists.get("overlays")}

    def find(self, path: str) -> dict[str, Any] | None:
        """Return a list."""
        found = self.lists.get(path)
        return None if found is None else {"items": found}


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    """An account with an empty cluster."""
    with Aws(region="us-east-1") as made:
        nodes = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [nodes]})
        role = made.client("iam").create_role(RoleName="pools", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
        ec2 = made.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        subnets = [
            ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
            for number, zone in enumerate(("us-east-1a", "us-east-1b"))
        ]
        network = {"subnetIds": subnets}
        made.client("eks").create_cluster(name="jobs", roleArn=role, resourcesVpcConfig=network, version="1.36")
        made.serve_cluster("jobs", endpoint="https://api", certificate_authority=b"ca")
        yield made


def nodepool(*requirements: dict[str, Any], name: str = "l4", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"requirements": list(requirements), "taints": spec.pop("taints", [])}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def is_in(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def found(aws: Aws, server: Server, **how: Any) -> list[GpuPool]:
    return gpu_pools(server, aws, "jobs", **how)  # type: ignore[arg-type]


TYPE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    "pool",
    [
        nodepool(is_in(TYPE, "g6.xlarge")),
        nodepool(is_in("karpenter.k8s.aws/instance-family", "g6e")),
        nodepool({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}),
        # A typo in its only type, or a type without GPUs: the pool is tried, and its job fails.
        nodepool(is_in(TYPE, "g6.xlrge"), taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]),
        nodepool(is_in(TYPE, "m7i.large"), limits={"nvidia.com/gpu": 8}),
    ],
)
def test_a_nodepool_that_asks_for_gpus_in_any_way_is_tried(aws: Aws, pool: dict[str, Any]) -> None:
    [one] = found(aws, Server(pools=[pool]))

    assert (one.name, one.kind, one.resource) == ("l4", "NodePool", "nvidia.com/gpu")
    assert one.selector == {"karpenter.sh/nodepool": "l4"}


@pytest.mark.parametrize(
    "pool",
    [nodepool(), nodepool(is_in(TYPE, "m7i.large")), nodepool({**is_in(TYPE, "g6.xlarge"), "operator": "NotIn"})],
)
def test_a_nodepool_without_gpus_is_not(aws: Aws, pool: dict[str, Any]) -> None:
    assert found(aws, Server(pools=[pool])) == []


def test_a_cluster_without_karpenter_has_no_nodepools(aws: Aws) -> None:
    assert found(aws, Server()) == []


def test_a_pod_tolerates_the_gpu_taint_alone_whatever_the_pool_has(aws: Aws) -> None:
    taints = [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "example.com/x", "effect": "NoSchedule"}]
    server = Server(pools=[nodepool(is_in(TYPE, "g6.xlarge"), taints=taints)])

    [one], [named] = found(aws, server), found(aws, server, tolerate=["example.com/x"])

    assert [each["key"] for each in one.tolerations] == ["nvidia.com/gpu"]
    assert [each["key"] for each in named.tolerations] == ["nvidia.com/gpu", "example.com/x"]


def test_shares_are_requested_by_the_name_that_an_overlay_declares(aws: Aws) -> None:
    capacity = {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "4"}
    overlay = {"spec": {"requirements": [is_in("karpenter.sh/nodepool", "shared")], "capacity": capacity}}
    pools = [nodepool(is_in(TYPE, "g6.xlarge"), name=name) for name in ("l4", "shared")]

    resources = {each.name: each.resource for each in found(aws, Server(pools=pools, overlays=[overlay]))}

    assert resources == {"l4": "nvidia.com/gpu", "shared": "nvidia.com/gpu.shared"}


def test_groups_are_those_of_the_cluster_whose_instances_have_gpus(aws: Aws) -> None:
    ec2, scaling = aws.client("ec2"), aws.client("autoscaling")
    network = aws.client("eks").describe_cluster(name="jobs")["cluster"]["resourcesVpcConfig"]
    [subnet, _] = network["subnetIds"]
    tags = {
        "kubernetes.io/cluster/jobs": "owned",
        "k8s.io/cluster-autoscaler/node-template/label/team": "vision",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-1g.5gb": "7",
    }
    aws.client("eks").create_nodegroup(
        clusterName="jobs",
        nodegroupName="l4",
        subnets=[subnet],
        nodeRole=aws.client("iam").get_role(RoleName="pools")["Role"]["Arn"],
        instanceTypes=["g6.xlarge"],
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 0},
    )
    for name, kind, own in (
        ("gpus", "p4d.24xlarge", tags),
        ("cpus", "m7i.large", {"kubernetes.io/cluster/jobs": "owned"}),
        ("others", "g6.xlarge", {}),
    ):
        template = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"InstanceType": kind})
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=1,
            VPCZoneIdentifier=subnet,
            LaunchTemplate={"LaunchTemplateId": template["LaunchTemplate"]["LaunchTemplateId"], "Version": "1"},
            Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in own.items()],
        )

    mig, plain = found(aws, Server())

    assert (mig.name, mig.kind, mig.resource) == ("gpus", "Auto Scaling group", "nvidia.com/mig-1g.5gb")
    assert mig.selector == {"team": "vision"}
    assert (plain.name, plain.kind, plain.resource) == ("l4", "node group", "")
    assert plain.selector == {"eks.amazonaws.com/nodegroup": "l4"}
