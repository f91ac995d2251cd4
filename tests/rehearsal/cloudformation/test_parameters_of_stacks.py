"""A parameter's value comes from the deployment, its default or Parameter Store, and is checked by its rules."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rehearsal.cloudformation.intrinsics import resolve
from gpu_rehearsal.cloudformation.template import values

STORED = {"/ami": "ami-1", "/ami:2": "ami-2", "/zones": "a,b"}.__getitem__


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ({"Type": "String", "Default": "a"}, {}, "a"),
        ({"Type": "String", "Default": "a"}, {"P": "b"}, "b"),
        ({"Type": "Number", "Default": 3}, {}, "3"),
        ({"Type": "CommaDelimitedList", "Default": "a, b"}, {}, ["a", "b"]),
        ({"Type": "List<AWS::EC2::Subnet::Id>"}, {"P": "subnet-1"}, ["subnet-1"]),
        ({"Type": "AWS::EC2::VPC::Id"}, {"P": "vpc-1"}, "vpc-1"),
        ({"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/ami"}, {}, "ami-1"),
        ({"Type": "AWS::SSM::Parameter::Value<List<String>>", "Default": "/zones"}, {}, ["a", "b"]),
        ({"Type": "String", "AllowedValues": [1, 2]}, {"P": "2"}, "2"),
        ({"Type": "String", "AllowedPattern": "[a-z]+"}, {"P": "ab"}, "ab"),
    ],
)
def test_values(declared: dict[str, Any], given: dict[str, str], expected: Any) -> None:
    assert values({"P": declared}, given, STORED) == {"P": expected}


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        ({"Type": "String"}, {}, r"Parameters: \[P\] must have values"),
        ({"Type": "String"}, {"Q": "1"}, r"Parameters: \[Q\] do not exist"),
        ({"Type": "String", "AllowedValues": [1, 2]}, {"P": "3"}, r"P: value must be one of \['1', '2'\], got '3'"),
        ({"Type": "String", "AllowedPattern": "[a-z]+"}, {"P": "aB"}, r"P: value must match \[a-z\]\+, got 'aB'"),
        ({"Type": "String", "MinLength": 2}, {"P": "abc"}, r"P: keys must be among .*, got \['MinLength'\]"),
        ({"Type": "AWS::Route53::HostedZone::Id"}, {"P": "a"}, r"parameter type AWS::Route53.* isn't simulated"),
    ],
)
def test_refuses(declared: dict[str, Any], given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        values({"P": declared}, given, STORED)


def test_references_to_the_store_are_resolved_anywhere() -> None:
    properties = {"a": ["x {{resolve:ssm:/ami}}", 1], "b": {"c": "{{resolve:ssm:/ami:2}}"}}

    assert resolve(properties, STORED) == {"a": ["x ami-1", 1], "b": {"c": "ami-2"}}


def test_refuses_references_to_other_services() -> None:
    with pytest.raises(ValueError, match=r"service must be 'ssm', got 'secretsmanager'"):
        resolve("{{resolve:secretsmanager:a}}", STORED)
