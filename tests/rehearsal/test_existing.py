"""The template of a stack shows its cluster, and the existing network, principals and account that it needs."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.assemblies import (
    Network,
    Principal,
    find_account,
    find_cluster_name,
    find_network,
    find_principals,
    why_not_simulated,
)
from gpu_rehearsal.aws.server import ACCOUNT


def _template(*clusters: Any, **properties: Any) -> dict[str, Any]:
    made = {f"C{n}": {"Type": "AWS::EKS::Cluster", "Properties": each} for n, each in enumerate(clusters)}
    return {"Resources": {**made, "Group": {"Type": "AWS::EKS::Nodegroup", "Properties": properties}}}


def test_the_cluster_is_the_one_that_a_template_names() -> None:
    assert find_cluster_name(_template({"Name": "research"})) == "research"


@pytest.mark.parametrize("clusters", [(), ({},), ({"Name": {"Ref": "Name"}},), ({"Name": "a"}, {"Name": "b"})])
def test_a_stack_without_one_cluster_of_its_own_is_not_played(clusters: tuple[Any, ...]) -> None:
    assert why_not_simulated(_template(*clusters)).startswith(
        "a rehearsal plays one cluster with a name in the template"
    )


def test_the_network_has_the_ids_in_the_template() -> None:
    named = {"Subnets": ["subnet-0123456789abcdef1", "subnet-0123456789abcdef0"], "Vpc": "vpc-0123456789abcdef0"}

    assert find_network(_template({"Name": "research"}, **named)) == Network(
        vpc="vpc-0123456789abcdef0", subnets=("subnet-0123456789abcdef0", "subnet-0123456789abcdef1")
    )
    assert find_network(_template({"Name": "research"}, Subnets=[{"Ref": "Subnet"}])) is None


@pytest.mark.parametrize("vpcs", [[], ["vpc-0123456789abcdef0", "vpc-0123456789abcdef1"]])
def test_subnets_without_one_vpc_are_not_played(vpcs: list[str]) -> None:
    template = _template({"Name": "research"}, Vpcs=vpcs, Subnets=["subnet-0123456789abcdef0"])

    assert why_not_simulated(template) == (
        f"a rehearsal creates one network for a stack, got subnets ['subnet-0123456789abcdef0'] of VPCs {vpcs}"
    )


def _entries(*principals: Any) -> dict[str, Any]:
    entries = {
        f"E{n}": {"Type": "AWS::EKS::AccessEntry", "Properties": {"PrincipalArn": each}}
        for n, each in enumerate(principals)
    }
    return {"Resources": entries}


def test_principals_are_those_of_the_account_that_a_stack_grants_access() -> None:
    joined = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::", {"Ref": "AWS::AccountId"}, ":role/Ops"]]}
    template = _entries(
        "arn:aws:iam::111122223333:role/teams/Platform",
        "arn:aws:iam::444455556666:role/Other",
        "arn:aws:iam::111122223333:user/alice",
        joined,
        {"Fn::GetAtt": ["Role", "Arn"]},
    )

    assert find_principals(template, "111122223333") == [
        Principal(kind="role", path="/", name="Ops"),
        Principal(kind="role", path="/teams/", name="Platform"),
        Principal(kind="user", path="/", name="alice"),
    ]


@pytest.mark.parametrize(
    ("principals", "account"),
    [
        (({"Ref": "Role"}, "arn:aws:iam::111122223333:role/Admin"), "111122223333"),
        ((), ACCOUNT),
        (({"Ref": "Role"},), ACCOUNT),
    ],
)
def test_a_stack_without_an_account_goes_to_the_one_that_it_names(principals: tuple[Any, ...], account: str) -> None:
    assert find_account(_entries(*principals)) == account
