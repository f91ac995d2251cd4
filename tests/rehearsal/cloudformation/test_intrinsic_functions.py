"""Intrinsic functions return the values that CloudFormation's reference documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpu_rehearsal.cloudformation.intrinsics import NO_VALUE, evaluate


class Scope:
    """A scope with one value of each kind."""

    def ref(self, name: str) -> Any:
        """Return what Ref gives."""
        known = {"Vpc": "vpc-1", "Zones": ["a", "b"], "Count": 2, "AWS::Region": "us-east-1", "AWS::NoValue": NO_VALUE}
        return known[name]

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return what Fn::GetAtt gives."""
        return {("Vpc", "CidrBlock"): "10.0.0.0/16", ("Cluster", "Endpoint.Url"): "https://x"}[logical_id, name]

    def condition(self, name: str) -> bool:
        """Whether a condition holds."""
        return name == "Yes"

    def mapping(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a mapping."""
        return {"Amis": {"us-east-1": {"arm": "ami-1"}}}[name]

    def zones(self, region: str) -> list[str]:
        """Return zones."""
        return [f"{region or 'us-east-1'}{each}" for each in "ab"]

    def imported(self, name: str) -> Any:
        """Return what is imported."""
        return {"Platform:Vpc": "vpc-9"}[name]

    def output(self, stack: str, name: str, region: str) -> Any:
        """Return the output."""
        return {("Platform", "Vpc", "us-east-1"): "vpc-8"}[stack, name, region]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Vpc"}, "vpc-1"),
        ({"Fn::GetStackOutput": {"StackName": "Platform", "OutputName": "Vpc", "Region": "us-east-1"}}, "vpc-8"),
        ({"Fn::GetAtt": ["Vpc", "CidrBlock"]}, "10.0.0.0/16"),
        ({"Fn::GetAtt": "Vpc.CidrBlock"}, "10.0.0.0/16"),
        ({"Fn::GetAtt": "Cluster.Endpoint.Url"}, "https://x"),
        ({"Fn::Sub": "arn:${AWS::Region}:${Vpc.CidrBlock}:${Count}"}, "arn:us-east-1:10.0.0.0/16:2"),
        ({"Fn::Sub": "${!Vpc} ${Vpc}"}, "${Vpc} vpc-1"),
        ({"Fn::Sub": ["${Own}-${Vpc}", {"Own": {"Ref": "Count"}}]}, "2-vpc-1"),
        ({"Fn::Join": ["-", ["a", 1, True, {"Ref": "Vpc"}]]}, "a-1-true-vpc-1"),
        ({"Fn::Join": [",", {"Ref": "Zones"}]}, "a,b"),
        ({"Fn::Join": ["", ["a", {"Ref": "AWS::NoValue"}]]}, "a"),
        ({"Fn::Select": [1, ["a", "b"]]}, "b"),
        ({"Fn::Select": ["0", {"Fn::GetAZs": ""}]}, "us-east-1a"),
        ({"Fn::GetAZs": "eu-west-1"}, ["eu-west-1a", "eu-west-1b"]),
        ({"Fn::Split": ["|", "a|b"]}, ["a", "b"]),
        ({"Fn::FindInMap": ["Amis", {"Ref": "AWS::Region"}, "arm"]}, "ami-1"),
        ({"Fn::If": ["Yes", "a", {"Ref": "Absent"}]}, "a"),
        ({"Fn::If": ["No", {"Ref": "Absent"}, "b"]}, "b"),
        ({"Fn::Equals": [{"Ref": "Count"}, 2]}, True),
        ({"Fn::Not": [{"Condition": "Yes"}]}, False),
        ({"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]}, False),
        ({"Fn::Or": [{"Condition": "Yes"}, {"Condition": "No"}]}, True),
        ({"Fn::Contains": [["1", "2"], "2"]}, True),
        ({"Fn::Base64": "hello"}, "aGVsbG8="),
        ({"Fn::Cidr": ["10.0.0.0/16", 2, 8]}, ["10.0.0.0/24", "10.0.1.0/24"]),
        ({"Fn::ImportValue": "Platform:Vpc"}, "vpc-9"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": 1}, {"b": 1}),
        ({"a": {"Fn::If": ["No", 1, {"Ref": "AWS::NoValue"}]}}, {}),
        ([{"Ref": "AWS::NoValue"}, 1], [1]),
        # A part of a policy, not the name of a condition.
        ({"Condition": {"Bool": {"Ref": "Vpc"}}}, {"Condition": {"Bool": "vpc-1"}}),
    ],
)
def test_functions(value: Any, expected: Any) -> None:
    assert evaluate(value, Scope()) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"Fn::Transform": {"Name": "AWS::Include"}}, r"Fn::Transform isn't simulated"),
        ({"Fn::GetStackOutput": {"RoleArn": "arn"}}, r"Fn::GetStackOutput: \['RoleArn'\] aren't simulated"),
        ({"Fn::Select": [2, ["a", "b"]]}, r"cannot select nonexistent value at index 2"),
        ({"Fn::Select": [-1, ["a", "b"]]}, r"cannot select nonexistent value at index -1"),
        ({"Fn::Join": ["", [["a"]]]}, r"a text must consist of texts and numbers, got \['a'\]"),
    ],
)
def test_refuses(value: Any, message: str) -> None:
    with pytest.raises((ValueError, LookupError), match=message):
        evaluate(value, Scope())
