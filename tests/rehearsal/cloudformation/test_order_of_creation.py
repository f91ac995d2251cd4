"""A resource waits for what it refers to and what it names, and circles are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.cloudformation.template import Template, existing, order

VPC = {"Type": "AWS::EC2::VPC"}


def order_of(**resources: Any) -> dict[str, tuple[str, ...]]:
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
def test_a_resource_waits_for_what_it_refers_to(reference: dict[str, Any]) -> None:
    assert order_of(Vpc=VPC, Subnet={"Type": "AWS::EC2::Subnet", **reference}) == {"Vpc": (), "Subnet": ("Vpc",)}


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
    assert order_of(Vpc=VPC, Subnet={"Type": "AWS::EC2::Subnet", "Properties": properties})["Subnet"] == ()


def test_what_does_not_exist_is_not_waited_for() -> None:
    absent = {"Type": "AWS::EC2::VPC", "Condition": "No"}

    assert order_of(Vpc=absent, Subnet={"Type": "AWS::EC2::Subnet", "DependsOn": "Vpc"}) == {"Subnet": ()}


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
        order_of(**resources)


def test_refuses_sections_that_nothing_plays() -> None:
    with pytest.raises(ValueError, match=r"template: keys must be among .*, got \['Transform'\]"):
        Template.read({"Transform": "AWS::Serverless-2016-10-31", "Resources": {}})
