"""The input shapes of an API in botocore's models, and the input in a template."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, Shape, StructureShape

from tests.schemas import is_pythons

# The call by which CloudFormation makes a resource.
CALLS = {
    "AWS::AutoScaling::AutoScalingGroup": ("autoscaling", "CreateAutoScalingGroup"),
    "AWS::AutoScaling::ScheduledAction": ("autoscaling", "PutScheduledUpdateGroupAction"),
    "AWS::EC2::EIP": ("ec2", "AllocateAddress"),
    "AWS::EC2::FlowLog": ("ec2", "CreateFlowLogs"),
    "AWS::EC2::InternetGateway": ("ec2", "CreateInternetGateway"),
    "AWS::EC2::LaunchTemplate": ("ec2", "CreateLaunchTemplate"),
    "AWS::EC2::NatGateway": ("ec2", "CreateNatGateway"),
    "AWS::EC2::PlacementGroup": ("ec2", "CreatePlacementGroup"),
    "AWS::EC2::Route": ("ec2", "CreateRoute"),
    "AWS::EC2::RouteTable": ("ec2", "CreateRouteTable"),
    "AWS::EC2::SecurityGroup": ("ec2", "CreateSecurityGroup"),
    "AWS::EC2::SecurityGroupIngress": ("ec2", "AuthorizeSecurityGroupIngress"),
    "AWS::EC2::Subnet": ("ec2", "CreateSubnet"),
    "AWS::EC2::SubnetRouteTableAssociation": ("ec2", "AssociateRouteTable"),
    "AWS::EC2::VPC": ("ec2", "CreateVpc"),
    "AWS::EC2::VPCEndpoint": ("ec2", "CreateVpcEndpoint"),
    "AWS::EC2::VPCGatewayAttachment": ("ec2", "AttachInternetGateway"),
    "AWS::EKS::AccessEntry": ("eks", "CreateAccessEntry"),
    "AWS::EKS::Addon": ("eks", "CreateAddon"),
    "AWS::EKS::Cluster": ("eks", "CreateCluster"),
    "AWS::EKS::Nodegroup": ("eks", "CreateNodegroup"),
    "AWS::EKS::PodIdentityAssociation": ("eks", "CreatePodIdentityAssociation"),
}
_TAGGED = ("EIP", "FlowLog", "InternetGateway", "NatGateway", "RouteTable", "Subnet", "VPC", "VPCEndpoint")
# Where CloudFormation has another name than the API, by the path of the property; `None` where another call takes it or
# another form is taken.
DIFFERENT: dict[str, str | None] = {
    **{f"EC2::{each}.Tags": None for each in _TAGGED},
    "AutoScaling::AutoScalingGroup.VPCZoneIdentifier": None,
    "EC2::FlowLog.ResourceId": "ResourceIds",
    "EC2::SecurityGroup.GroupDescription": "Description",
    "EC2::SecurityGroup.SecurityGroupEgress": None,
    "EC2::SecurityGroupIngress.Description": None,
    "EC2::SecurityGroupIngress.SourceSecurityGroupId": None,
    "EC2::Subnet.MapPublicIpOnLaunch": None,
    "EC2::VPC.EnableDnsHostnames": None,
    "EC2::VPC.EnableDnsSupport": None,
    "EKS::AccessEntry.AccessPolicies": None,
    "EKS::Cluster.Logging": None,
}

# Names that CloudFormation makes up.
MADE_UP = {
    "AutoScaling::AutoScalingGroup.AutoScalingGroupName",
    "AutoScaling::ScheduledAction.ScheduledActionName",
    "EC2::LaunchTemplate.LaunchTemplateName",
    "EC2::SecurityGroup.GroupName",
    "EKS::Cluster.name",
    "EKS::Nodegroup.nodegroupName",
}
_NUMBERS = ("integer", "long")
_PYTHONS: dict[str, type] = {"string": str, "integer": int, "long": int, "boolean": bool, "timestamp": str}


class Judge:
    """Holds properties against the shapes of an API.

    Attributes:
        compared: How many values were.
        different: Paths of `DIFFERENT` that were met.
    """

    def __init__(self) -> None:
        self.compared = 0
        self.different: set[str] = set()

    def faults(self, kind: str, properties: Mapping[str, Any]) -> list[str]:
        """Return what the API would refuse of a resource."""
        return list(self._structure(_input(*CALLS[kind]), properties, kind.removeprefix("AWS::")))

    def _structure(self, shape: StructureShape, value: Mapping[str, Any], path: str) -> Iterator[str]:
        members = {name.lower(): member for name, member in shape.members.items()}
        given = {str(DIFFERENT.get(f"{path}.{key}", key)).lower() for key in value}
        for name in shape.required_members:
            if name.lower() not in given and f"{path}.{name}" not in MADE_UP:
                yield f"{path}.{name} is required"
        for key, each in value.items():
            here = f"{path}.{key}"
            name = DIFFERENT.get(here, key)
            if here in DIFFERENT:
                self.different.add(here)
            if name is None:
                continue
            member = members.get(name.lower())
            if member is None:
                yield f"{here} is none of {shape.name}"
            else:
                yield from self._any(member, each, here)

    def _any(self, shape: Shape, value: Any, path: str) -> Iterator[str]:
        if _is_intrinsic(value):
            return
        if isinstance(shape, StructureShape) and isinstance(value, Mapping):
            yield from self._structure(shape, value, path)
        elif isinstance(shape, ListShape) and isinstance(value, list):
            for each in value:
                yield from self._any(shape.member, each, path)
        elif isinstance(shape, MapShape) and isinstance(value, Mapping):
            for key, each in value.items():
                yield from self._any(shape.key, key, path)
                yield from self._any(shape.value, each, path)
        else:
            self.compared += 1
            yield from _scalar(shape, value, path)


def _scalar(shape: Shape, value: Any, path: str) -> Iterator[str]:
    said, kind = shape.metadata, shape.type_name
    # CloudFormation takes numbers as texts.
    if kind in _NUMBERS and isinstance(value, str) and value.isdigit():
        value = int(value)
    size = len(value) if isinstance(value, str) else value
    if not isinstance(value, _PYTHONS[kind]) or (kind in _NUMBERS and isinstance(value, bool)):
        yield f"{path} must be a {kind}, got {value!r}"
    elif said.get("enum") and value not in said["enum"]:
        yield f"{path} must be one of {', '.join(said['enum'])}, got {value!r}"
    elif is_pythons(said.get("pattern", "")) and not re.fullmatch(said.get("pattern", ".*"), str(value), re.DOTALL):
        yield f"{path} must match {said['pattern']}, got {value!r}"
    elif not said.get("min", size) <= size <= said.get("max", size):
        yield f"{path} must be {said.get('min')} to {said.get('max')}, got {value!r}"


def _is_intrinsic(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)).startswith(("Ref", "Fn::"))


@cache
def _input(service: str, operation: str) -> StructureShape:
    model = botocore.session.get_session().get_service_model(service)
    shape = model.operation_model(operation).input_shape
    assert isinstance(shape, StructureShape)
    return shape
