"""Each property of a resource becomes a parameter of a call, or is an error."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from gpu_rehearsal.cloudformation.intrinsics import Shaping


def parameters(service: str, operation: str, properties: dict[str, Any], **how: Any) -> dict[str, Any]:
    model = botocore.session.get_session().get_service_model(service)
    return Shaping(**how).parameters(model.operation_model(operation).input_shape, properties)


@pytest.mark.parametrize(
    ("call", "properties", "expected"),
    [
        (("eks", "CreateNodegroup"), {"AmiType": "CUSTOM"}, {"amiType": "CUSTOM"}),
        (("eks", "CreateNodegroup"), {"DiskSize": "20"}, {"diskSize": 20}),
        (("eks", "CreateNodegroup"), {"ScalingConfig": {"MinSize": "2"}}, {"scalingConfig": {"minSize": 2}}),
        (("eks", "CreateNodegroup"), {"Taints": [{"Key": "a"}]}, {"taints": [{"key": "a"}]}),
        (("eks", "CreateNodegroup"), {"Labels": {"A": 1}}, {"labels": {"A": "1"}}),
        (("eks", "CreateNodegroup"), {"Tags": {"a": "b"}}, {"tags": {"a": "b"}}),
        (("eks", "CreateAddon"), {"Tags": [{"Key": "a", "Value": "b"}]}, {"tags": {"a": "b"}}),
        (("kms", "CreateKey"), {"Tags": [{"Key": "a", "Value": 1}]}, {"Tags": [{"TagKey": "a", "TagValue": "1"}]}),
        (("iam", "CreateRole"), {"Tags": [{"Key": "a", "Value": "b"}]}, {"Tags": [{"Key": "a", "Value": "b"}]}),
        (
            ("autoscaling", "CreateAutoScalingGroup"),
            {"Tags": [{"Key": "a", "Value": "b", "PropagateAtLaunch": "false"}]},
            {"Tags": [{"Key": "a", "Value": "b", "PropagateAtLaunch": False}]},
        ),
        (("ec2", "CreateSubnet"), {"Ipv6Native": "true"}, {"Ipv6Native": True}),
        (("ec2", "CreateVpc"), {"CidrBlock": "10.0.0.0/16"}, {"CidrBlock": "10.0.0.0/16"}),
    ],
)
def test_properties_become_parameters(call: tuple[str, str], properties: Any, expected: Any) -> None:
    assert parameters(*call, properties) == expected


def test_a_type_renames_properties_and_marks_documents() -> None:
    properties = {"KeyPolicy": {"Version": "2012-10-17"}}
    how = {"renamed": {"KeyPolicy": "Policy"}, "documents": frozenset({"KeyPolicy"})}

    assert parameters("kms", "CreateKey", properties, **how) == {"Policy": '{"Version": "2012-10-17"}'}


def test_ec2_takes_tags_by_resource_type() -> None:
    tags = [{"Key": "a", "Value": "b"}]

    found = parameters("ec2", "CreateVpc", {"Tags": tags}, tagged="vpc")

    assert found == {"TagSpecifications": [{"ResourceType": "vpc", "Tags": tags}]}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"AmiTyp": "CUSTOM"}, r"property AmiTyp isn't a parameter of CreateNodegroupRequest"),
        ({"ScalingConfig": {"Min": 1}}, r"property ScalingConfig.Min isn't a parameter"),
        ({"DiskSize": "big"}, r"property DiskSize must be a integer, got 'big'"),
        ({"DiskSize": {"a": 1}}, r"property DiskSize must be a integer, got \{'a': 1\}"),
        ({"AmiType": ["CUSTOM"]}, r"property AmiType must be a string, got \['CUSTOM'\]"),
        ({"NodeRepairConfig": {"Enabled": "yes"}}, r"property NodeRepairConfig.Enabled must be a boolean, got 'yes'"),
        ({"Subnets": "subnet-1"}, r"property Subnets must be a list, got 'subnet-1'"),
    ],
)
def test_refuses(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parameters("eks", "CreateNodegroup", properties)
