"""A resource waits for the resources in its references and in DependsOn. Circular dependencies are errors."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.cloudformation.template import Template, existing, order

VPC = {"Type": "AWS::EC2::VPC"}


def dependencies(**resources: Any) -> dict[str, tuple[str, ...]]:
    template = Template.read({"Resources": resources})
    return dict(
        order(
            existing(template, lambda name: name == "Yes"),
            declared=template.resources,
            others={"AWS::Region": "", "P": ""},
        )
    )


@pytest.mark.parametrize(
    "reference",
    [
        {"Properties": {"VpcId": {"Ref": "Vpc"}}},
        {"Properties": {"A": [{"B": {"Fn::GetAtt": ["Vpc", "CidrBlock"]}}]}},
        {"Properties": {"A": {"Fn::GetAtt": "Vpc.CidrBlock"}}},
        {"Properties": {"A": {"Fn::Sub": "${AWS::Region} ${Vpc.CidrBlock}"}}},
        {"Properties": {"A": {"Fn::Sub": ["${Own}", {"Own": {"Ref": "Vpc"}}]}}},
        {"Properties": {"A": {"Fn::If": ["Yes", {"Ref": "Vpc"}, {"Ref": "Nobody"}]}}},
        {"DependsOn": "Vpc"},
        {"DependsOn": ["Vpc"], "Properties": {"VpcId": {"Ref": "Vpc"}}},
    ],
)
def test_a_resource_waits_for_its_references(reference: dict[str, Any]) -> None:
    assert dependencies(Vpc=VPC, Subnet={"Type": "AWS::EC2::Subnet", **reference}) == {"Vpc": (), "Subnet": ("Vpc",)}


@pytest.mark.parametrize(
    "properties",
    [
        {"A": {"Ref": "P"}},
        {"A": {"Fn::Sub": "${!Vpc}"}},
        {"A": {"Fn::Sub": ["${Vpc}", {"Vpc": "own"}]}},
        {"A": {"Fn::If": ["No", {"Ref": "Vpc"}, 1]}},
        {"A": "Vpc"},
    ],
)
def test_a_resource_waits_for_nothing_else(properties: dict[str, Any]) -> None:
    assert dependencies(Vpc=VPC, Subnet={"Type": "AWS::EC2::Subnet", "Properties": properties})["Subnet"] == ()


def test_a_resource_does_not_wait_for_an_absent_one() -> None:
    absent = {"Type": "AWS::EC2::VPC", "Condition": "No"}

    assert dependencies(Vpc=absent, Subnet={"Type": "AWS::EC2::Subnet", "DependsOn": "Vpc"}) == {"Subnet": ()}


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"A": {"Type": "T", "DependsOn": "B"}, "B": {"Type": "T", "DependsOn": "A"}}, r"between resources: \[A, B\]"),
        ({"A": {"Type": "T", "DependsOn": "A"}}, r"Circular dependency between resources: \[A\]"),
        ({"A": {"Type": "T", "DependsOn": "B"}}, r"Unresolved resource dependencies \[B\]"),
        ({"A": {"Type": "T", "Properties": {"B": {"Ref": "B"}}}}, r"Unresolved resource dependencies \[B\]"),
        (
            {"A": {"Type": "T", "Properties": {"B": {"Ref": "B"}}}, "B": {"Type": "T", "Condition": "No"}},
            r"Unresolved resource dependencies \[B\]",
        ),
        ({"A": {"Type": "T", "CreationPolicy": {}}}, r"A: keys must be among .*, got \['CreationPolicy'\]"),
    ],
)
def test_refuses(resources: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dependencies(**resources)


def test_refuses_sections_that_are_not_simulated() -> None:
    with pytest.raises(ValueError, match=r"template: keys must be among .*, got \['Transform'\]"):
        Template.read({"Transform": "AWS::Serverless-2016-10-31", "Resources": {}})
