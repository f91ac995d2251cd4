"""Where EKS rejects a zone, the control plane uses separate subnets in zones that EKS accepts."""

from __future__ import annotations

import ipaddress
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs import AutoMode, GpuCluster, gpu_vpc
from gpu_constructs.installing.subnets import subnet_zone
from gpu_facts.hardware.regions import ACCEPTED_ZONE_IDS, REFUSED_ZONE_ID, known_regions
from tests.templates import of_type, only, resources_of

ACCOUNT = "111122223333"
REGIONS = sorted(REFUSED_ZONE_ID)


def stack_in(region: str | None, id: str = "Test", app: cdk.App | None = None) -> cdk.Stack:
    return cdk.Stack(app or cdk.App(), id, env=cdk.Environment(account=ACCOUNT, region=region))


def own_subnets(resources: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = of_type(resources, "AWS::EC2::Subnet")
    return {id: each["Properties"] for id, each in found.items() if "AvailabilityZoneId" in each["Properties"]}


def placed_in(resources: dict[str, Any]) -> list[Any]:
    return list(only(resources, "AWS::EKS::Cluster")["ResourcesVpcConfig"]["SubnetIds"])


@pytest.mark.parametrize("region", REGIONS)
def test_two_that_nothing_else_lives_in(region: str) -> None:
    stack = stack_in(region)
    GpuCluster(stack, "Gpu")

    resources = resources_of(stack)
    own = own_subnets(resources)
    assert placed_in(resources) == [{"Ref": id} for id in own]
    assert [each["AvailabilityZoneId"] for each in own.values()] == list(ACCEPTED_ZONE_IDS[region])
    others = {id: each for id, each in resources.items() if each["Type"] not in {"AWS::EKS::Cluster"}}
    assert not any(f"'Ref': '{id}'" in str(each) for id in own for each in others.values())
    assert [{tag["Key"]: tag["Value"] for tag in each["Tags"]}["Name"] for each in own.values()] == [
        f"Test/Gpu/Vpc/ControlPlane/Subnet{number}" for number in (1, 2)
    ]


@pytest.mark.parametrize("nat_gateways", [0, 1])
@pytest.mark.parametrize("zones", [None, [f"us-east-1{letter}" for letter in "abcdef"]])
def test_their_addresses_overlap_no_others(zones: list[str] | None, nat_gateways: int) -> None:
    stack = stack_in("us-east-1")
    GpuCluster(stack, "Gpu", vpc=gpu_vpc(stack, "Net", availability_zones=zones, nat_gateways=nat_gateways))

    subnets = of_type(resources_of(stack), "AWS::EC2::Subnet").values()
    blocks = [ipaddress.IPv4Network(each["Properties"]["CidrBlock"]) for each in subnets]
    assert not any(one.overlaps(other) for at, one in enumerate(blocks) for other in blocks[:at])
    assert sum(block.prefixlen == 28 for block in blocks) == 2
    assert all(block.subnet_of(ipaddress.IPv4Network("10.0.0.0/16")) for block in blocks)


def test_with_ipv6_they_have_both_kinds_of_addresses() -> None:
    stack = stack_in("us-west-1")
    GpuCluster(stack, "Gpu", ip_family="ipv6")

    resources = resources_of(stack)
    taken = [each["Properties"]["Ipv6CidrBlock"] for each in of_type(resources, "AWS::EC2::Subnet").values()]
    # Each is [its number, Fn::Cidr of the block of the VPC].
    numbers = [each["Fn::Select"][0] for each in taken]
    assert len(set(numbers)) == len(numbers) == 6
    for id in own_subnets(resources):
        assert resources[id]["DependsOn"] == ["GpuVpcipv6cidr9F138BEE"]


@pytest.mark.parametrize("region", [None, "us-west-2", "eu-west-1"])
def test_elsewhere_the_control_plane_is_with_the_nodes(region: str | None) -> None:
    stack = stack_in(region)
    GpuCluster(stack, "Gpu")

    resources = resources_of(stack)
    assert own_subnets(resources) == {}
    assert all("PrivateSubnet" in each["Ref"] for each in placed_in(resources))


def test_without_built_in_pools_auto_mode_has_them_too() -> None:
    stack = stack_in("us-east-1")
    GpuCluster(stack, "Gpu", auto_mode=AutoMode(node_pools=()))

    resources = resources_of(stack)
    assert ["ControlPlaneSubnet" in each["Ref"] for each in placed_in(resources)] == [True, True]
    assert len(own_subnets(resources)) == 2


@pytest.mark.parametrize("region", REGIONS)
def test_where_built_in_pools_start_nodes_beside_it_all_subnets_are_in_zones_that_eks_takes(region: str) -> None:
    stack = stack_in(region)
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode())

    resources = resources_of(stack)
    subnets = of_type(resources, "AWS::EC2::Subnet")
    assert [each["Properties"]["AvailabilityZoneId"] for each in subnets.values()] == [*ACCEPTED_ZONE_IDS[region]] * 2
    assert not any("AvailabilityZone" in each["Properties"] for each in subnets.values())
    assert all("PrivateSubnet" in each["Ref"] for each in placed_in(resources))
    assert [subnet_zone(each) for each in gpu.vpc.private_subnets] == [None, None]


def test_zones_that_you_name_stay_where_built_in_pools_start_nodes() -> None:
    stack = stack_in("us-east-1")
    zones = ["us-east-1a", "us-east-1b"]
    GpuCluster(stack, "Gpu", auto_mode=AutoMode(), vpc=gpu_vpc(stack, "Net", availability_zones=zones))

    subnets = of_type(resources_of(stack), "AWS::EC2::Subnet").values()
    assert [each["Properties"]["AvailabilityZone"] for each in subnets] == zones * 2


def test_two_clusters_of_a_network_share_them() -> None:
    stack = stack_in("us-east-1")
    vpc = gpu_vpc(stack, "Net")
    for name in ("a", "b"):
        GpuCluster(stack, name, cluster_name=name, vpc=vpc)

    resources = resources_of(stack)
    clusters = of_type(resources, "AWS::EKS::Cluster").values()
    used = [each["Properties"]["ResourcesVpcConfig"]["SubnetIds"] for each in clusters]
    assert used == [[{"Ref": id} for id in own_subnets(resources)]] * 2


def test_what_applies_manifests_stays_where_there_is_a_way_out() -> None:
    stack = stack_in("us-east-1")
    GpuCluster(stack, "Gpu")

    functions = of_type(resources_of(stack), "AWS::Lambda::Function").values()
    used = [each["Properties"]["VpcConfig"]["SubnetIds"] for each in functions if "VpcConfig" in each["Properties"]]
    assert used
    assert all("PrivateSubnet" in subnet["Ref"] for subnets in used for subnet in subnets)


def test_a_network_of_another_stack_brings_them_too() -> None:
    app = cdk.App()
    network = stack_in("us-east-1", "Network", app)
    vpc = gpu_vpc(network, "Net")
    stack = stack_in("us-east-1", app=app)
    GpuCluster(stack, "Gpu", vpc=vpc)

    placed = placed_in(resources_of(stack))
    assert [next(iter(each)) for each in placed] == ["Fn::ImportValue"] * 2
    assert all("ControlPlaneSubnet" in each["Fn::ImportValue"] for each in placed)


@pytest.mark.parametrize("region", REGIONS)
def test_no_refused_zone_is_among_them(region: str) -> None:
    assert region in known_regions()
    assert REFUSED_ZONE_ID[region] not in ACCEPTED_ZONE_IDS[region]
    assert {each[:-1] for each in ACCEPTED_ZONE_IDS[region]} == {REFUSED_ZONE_ID[region][:-1]}
