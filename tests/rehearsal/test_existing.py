"""What a stack takes for granted is read off its template."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.rehearsal.existing import (
    Network,
    Reserved,
    cluster_of,
    network_of,
    people_of,
    reserved_for,
    why_not_played,
)


def _template(*clusters: Any, **properties: Any) -> dict[str, Any]:
    made = {f"C{n}": {"Type": "AWS::EKS::Cluster", "Properties": each} for n, each in enumerate(clusters)}
    return {"Resources": {**made, "Group": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}}


def test_the_cluster_is_the_one_that_a_template_names() -> None:
    assert cluster_of(_template({"Name": "research"})) == "research"


@pytest.mark.parametrize("clusters", [(), ({},), ({"Name": {"Ref": "Name"}},), ({"Name": "a"}, {"Name": "b"})])
def test_a_stack_without_one_cluster_of_its_own_is_not_played(clusters: tuple[Any, ...]) -> None:
    assert why_not_played(_template(*clusters)).startswith("a rehearsal plays one cluster with a name in the template")


def test_a_network_is_what_a_template_names_by_id() -> None:
    named = {"Subnets": ["subnet-0123456789abcdef1", "subnet-0123456789abcdef0"], "Vpc": "vpc-0123456789abcdef0"}

    assert network_of(_template({"Name": "research"}, **named)) == Network(
        vpc="vpc-0123456789abcdef0", subnets=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
    )
    assert network_of(_template({"Name": "research"}, Subnets=[{"Ref": "Subnet"}])) is None


@pytest.mark.parametrize("vpcs", [[], ["vpc-0123456789abcdef0", "vpc-0123456789abcdef1"]])
def test_subnets_without_one_vpc_are_not_played(vpcs: list[str]) -> None:
    template = _template({"Name": "research"}, Vpcs=vpcs, Subnets=["subnet-0123456789abcdef0"])

    assert why_not_played(template) == (
        f"a rehearsal makes one network for a stack, got subnets ['subnet-0123456789abcdef0'] of VPCs {vpcs}"
    )


@pytest.mark.parametrize(
    ("subnet", "size", "zone"),
    [
        ("us-east-1b", 2, "us-east-1b"),
        ({"Fn::Select": [1, {"Fn::GetAZs": ""}]}, {"Fn::GetAtt": ["Size", "MaxSize"]}, 1),
    ],
)
def test_reserved_capacity_is_what_a_group_launches_into(subnet: Any, size: Any, zone: str | int) -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}
    data = {"InstanceType": "p5.48xlarge", "CapacityReservationSpecification": target}
    group = {
        "LaunchTemplate": {"Id": {"Ref": "Template"}},
        "Subnets": [{"Ref": "Subnet"}],
        "ScalingConfig": {"MaxSize": size},
        "CapacityType": "CAPACITY_BLOCK",
    }
    template = _template({"Name": "research"}, **group)
    template["Resources"] |= {
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": data}},
        "Subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"AvailabilityZone": subnet}},
        "Size": {"Type": "Custom::GpuNodeGroupSize", "Properties": {"Max": 2}},
    }

    assert reserved_for(template) == [
        Reserved(id="cr-0123456789abcdef0", instance_type="p5.48xlarge", zone=zone, count=2, block=True)
    ]


def test_people_are_the_roles_of_the_account_that_a_stack_lets_in() -> None:
    principals = ("arn:aws:iam::111122223333:role/Platform", "arn:aws:iam::444455556666:role/Other", {"Ref": "Role"})
    entries = {
        f"E{n}": {"Type": "AWS::EKS::AccessEntry", "Properties": {"PrincipalArn": each}}
        for n, each in enumerate(principals)
    }

    assert people_of({"Resources": entries}, "111122223333") == ["Platform"]
