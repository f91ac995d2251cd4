"""Addresses of networks, and of pods that have subnets of their own or take addresses in blocks."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs import AutoMode, GpuCluster, Karpenter, NodeShape, SystemNodes, gpu_vpc
from gpu_constructs.cluster import PrivateEndpoints
from gpu_constructs.cluster.network import SERVICE_CIDR
from tests.templates import of_type, resources_of

ZONES = ("eu-west-1a", "eu-west-1b", "eu-west-1c")


def a_stack() -> cdk.Stack:
    return cdk.Stack(cdk.App(), "Test", env=cdk.Environment(region="eu-west-1"))


def of_the_plugin(resources: dict[str, Any]) -> Any:
    [found] = [
        each["Properties"].get("ConfigurationValues", "{}")
        for each in of_type(resources, "AWS::EKS::Addon").values()
        if each["Properties"]["AddonName"] == "vpc-cni"
    ]
    if isinstance(found, dict):
        _, parts = found["Fn::Join"]
        found = "".join(part if isinstance(part, str) else part["Ref"] for part in parts)
    return json.loads(found)


@pytest.fixture(scope="module")
def apart() -> dict[str, Any]:
    """A cluster whose pods have a block of their own, beside few addresses for nodes."""
    stack = a_stack()
    vpc = gpu_vpc(stack, "Net", block="10.8.0.0/18", pod_block="100.64.0.0/16", availability_zones=ZONES)
    labelled = SystemNodes(labels={"example.com/team": "platform"})
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, prefix_delegation=True, system_nodes=labelled)
    Karpenter(stack, "Karpenter", cluster=gpu)
    return resources_of(stack)


def test_each_zone_has_a_subnet_for_pods_with_the_way_out_of_its_nodes(apart: dict[str, Any]) -> None:
    pods = {id: each["Properties"] for id, each in apart.items() if id.startswith("NetPodsSubnet")}
    routed = of_type(apart, "AWS::EC2::SubnetRouteTableAssociation").values()
    tables = {each["Properties"]["SubnetId"]["Ref"]: each["Properties"]["RouteTableId"]["Ref"] for each in routed}

    assert {each["AvailabilityZone"]: each["CidrBlock"] for each in pods.values()} == {
        "eu-west-1a": "100.64.0.0/18",
        "eu-west-1b": "100.64.64.0/18",
        "eu-west-1c": "100.64.128.0/18",
    }
    assert [tables[id] for id in pods] == [tables[each] for each in tables if each.startswith("NetPrivate")]
    assert [apart[id]["DependsOn"] for id in pods] == [["NetPodsBlock068FC685"]] * 3


def test_nodes_have_a_part_of_the_smaller_block_each(apart: dict[str, Any]) -> None:
    others = [
        IPv4Network(each["Properties"]["CidrBlock"])
        for id, each in of_type(apart, "AWS::EC2::Subnet").items()
        if not id.startswith("NetPods")
    ]

    assert [each.prefixlen for each in others] == [26, 26, 26, 21, 21, 21]
    assert all(each.subnet_of(IPv4Network("10.8.0.0/18")) for each in others)
    assert not any(one.overlaps(other) for at, one in enumerate(others) for other in others[:at])


def test_the_network_plugin_is_configured(apart: dict[str, Any]) -> None:
    subnets = {each["Properties"]["AvailabilityZone"]: id for id, each in apart.items() if id.startswith("NetPodsSub")}

    assert of_the_plugin(apart) == {
        "enableNetworkPolicy": "false",
        "env": {
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
            "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true",
            "ENI_CONFIG_LABEL_DEF": "topology.kubernetes.io/zone",
        },
        "eniConfig": {
            "create": True,
            "region": "eu-west-1",
            "subnets": {zone: {"id": id} for zone, id in subnets.items()},
        },
    }


def test_the_block_is_there_before_the_cluster(apart: dict[str, Any]) -> None:
    [cluster] = of_type(apart, "AWS::EKS::Cluster").values()

    assert "NetPodsBlock068FC685" in cluster["DependsOn"]


def test_karpenter_counts_no_addresses_of_the_first_interface(apart: dict[str, Any]) -> None:
    [values] = [
        json.dumps(each["Properties"]["Values"])
        for each in of_type(apart, "Custom::AWSCDK-EKS-HelmChart").values()
        if each["Properties"]["Release"] == "karpenter"
    ]

    assert r"\"reservedENIs\":\"1\"" in values


def test_system_nodes_have_labels(apart: dict[str, Any]) -> None:
    [group] = of_type(apart, "AWS::EKS::Nodegroup").values()

    assert group["Properties"]["Labels"] == {"example.com/team": "platform"}


def test_by_default_no_settings_for_pod_subnets_are_written() -> None:
    stack = a_stack()
    GpuCluster(stack, "Gpu")

    assert of_the_plugin(resources_of(stack)) == {"enableNetworkPolicy": "false"}


def test_subnets_of_a_network_of_ones_own() -> None:
    stack = a_stack()
    mine = {zone: f"subnet-0123456789abcdef{at}" for at, zone in enumerate(ZONES)}
    gpu = GpuCluster(stack, "Gpu", pod_subnets=mine)
    gpu.add_pool("p5", NodeShape(instance_types=("p5.48xlarge",)), max_nodes=150)

    told = of_the_plugin(resources_of(stack))["eniConfig"]["subnets"]
    assert told == {zone: {"id": subnet} for zone, subnet in mine.items()}


def test_a_zone_of_nodes_without_a_subnet_for_pods() -> None:
    stack = a_stack()
    vpc = gpu_vpc(stack, "Net", availability_zones=ZONES)

    with pytest.raises(ValueError, match="for each zone of nodes, got none for eu-west-1b, eu-west-1c"):
        GpuCluster(stack, "Gpu", vpc=vpc, pod_subnets={"eu-west-1a": "subnet-0123456789abcdef0"})


def test_isolated_pods_reach_the_endpoints() -> None:
    stack = a_stack()
    gpu_vpc(stack, "Net", pod_block="100.64.0.0/16", availability_zones=ZONES[:2], nat_gateways=0)

    [group] = [
        each["Properties"]
        for id, each in of_type(resources_of(stack), "AWS::EC2::SecurityGroup").items()
        if "Endpoints" in id
    ]
    let_in = [each["CidrIp"] for each in group["SecurityGroupIngress"]]
    assert let_in == [{"Fn::GetAtt": [let_in[0]["Fn::GetAtt"][0], "CidrBlock"]}, "100.64.0.0/16"]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"block": 10}, "block must be an address block, got 10; write one such as '10.0.0.0/16'"),
        ({"block": "10.0.0.0"}, "block must be an address block such as '10.0.0.0/16'"),
        ({"block": "52.0.0.0/16"}, "block must be in one of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16"),
        ({"block": "10.0.0.0/20"}, "block must have a length of /16 to /19"),
        ({"block": SERVICE_CIDR}, "block must not overlap 172.20.0.0/16 of the cluster's services"),
        ({"pod_block": 7}, "pod_block must be an address block, got 7; write one such as '100.64.0.0/16'"),
        ({"pod_block": "10.1.0.0/16"}, "pod_block must be in 100.64.0.0/10, got"),
        ({"pod_block": "198.19.0.0/16"}, "pod_block must be in 100.64.0.0/10, got"),
        ({"pod_block": "100.64.0.0/15"}, "pod_block must have a length of /16 to /24"),
        (
            {"pod_block": "100.64.0.0/16", "availability_zones": None},
            "availability_zones must be given with pod_block, got None; name",
        ),
        ({"pod_block": "100.64.0.0/16", "ip_family": "ipv6"}, "pod_block must be left out with ip_family 'ipv6'"),
    ],
)
def test_networks_that_cannot_be(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rule):
        gpu_vpc(a_stack(), "Net", **({"availability_zones": ZONES} | arguments))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"pod_subnets": ["subnet-1"]}, "pod_subnets must map zones to subnet ids"),
        ({"pod_subnets": {}}, "pod_subnets must name a subnet for each zone of nodes, got none"),
        ({"pod_subnets": {"here": "subnet-0123456789abcdef0"}}, "pod_subnets must be a zone name"),
        ({"pod_subnets": {"eu-west-1a": "net-1"}}, r"pod_subnets\['eu-west-1a'\] must be the id of a subnet"),
        ({"pod_subnets": {"eu-west-1a": None}}, r"pod_subnets\['eu-west-1a'\] must be the id of a subnet"),
        ({"pod_subnets": {cdk.Fn.select(0, cdk.Fn.get_azs()): "subnet-0123456789abcdef0"}}, "must have literal zones"),
        ({"prefix_delegation": "yes"}, "prefix_delegation must be"),
        ({"prefix_delegation": True, "auto_mode": AutoMode()}, "prefix_delegation must be left out in Auto Mode"),
        ({"prefix_delegation": True, "ip_family": "ipv6"}, "prefix_delegation must be left out with ip_family 'ipv6'"),
    ],
)
def test_pods_that_would_get_no_addresses(arguments: dict[str, Any], rule: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rule):
        GpuCluster(a_stack(), "Gpu", **arguments)


def test_endpoints_let_in_blocks_of_pods_alone() -> None:
    stack = a_stack()

    with pytest.raises(ValueError, match=r"pod_blocks must be in 100.64.0.0/10"):
        PrivateEndpoints(stack, "Endpoints", vpc=gpu_vpc(stack, "Net"), pod_blocks=["10.0.0.0/16"])
