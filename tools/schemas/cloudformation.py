"""Schemas of CloudFormation's resources from cfn-lint, with more precise values from EC2 and EKS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cfnlint
from botocore.loaders import Loader

from tools.schemas.reduce import Reducer
from tools.schemas.source import Source

_FOLDER = Path(cfnlint.__file__).parent / "data" / "schemas"
# The region with most services is first.
_REGION = "us-east-1"
_TYPES = {
    "AWS::AutoScaling": (
        "AutoScalingGroup",
        "LaunchConfiguration",
        "LifecycleHook",
        "ScalingPolicy",
        "ScheduledAction",
    ),
    "AWS::EC2": (
        *("CapacityReservation", "EIP", "FlowLog", "InternetGateway", "LaunchTemplate", "NatGateway", "PlacementGroup"),
        *("PrefixList", "Route", "RouteTable", "SecurityGroup", "SecurityGroupEgress", "SecurityGroupIngress"),
        *("Subnet", "SubnetRouteTableAssociation", "VPC", "VPCEndpoint", "VPCGatewayAttachment"),
    ),
    "AWS::EFS": ("AccessPoint", "FileSystem", "MountTarget"),
    "AWS::EKS": (
        *("AccessEntry", "Addon", "Cluster", "FargateProfile", "IdentityProviderConfig", "Nodegroup"),
        "PodIdentityAssociation",
    ),
    "AWS::Events": ("Rule",),
    "AWS::FSx": ("DataRepositoryAssociation", "FileSystem"),
    "AWS::IAM": ("InstanceProfile", "ManagedPolicy", "OIDCProvider", "Policy", "Role", "RolePolicy"),
    "AWS::KMS": ("Alias", "Key"),
    "AWS::Logs": ("LogGroup",),
    "AWS::SQS": ("Queue", "QueuePolicy"),
    "AWS::SSM": ("Parameter",),
    "AWS::Scheduler": ("Schedule",),
}
# The service request of a resource type, for enumerations that CloudFormation's schemas lack.
_REQUESTS = {
    "AWS::AutoScaling::AutoScalingGroup": ("autoscaling", "CreateAutoScalingGroupType"),
    "AWS::EC2::CapacityReservation": ("ec2", "CreateCapacityReservationRequest"),
    "AWS::EC2::LaunchTemplate": ("ec2", "CreateLaunchTemplateRequest"),
    "AWS::EC2::PlacementGroup": ("ec2", "CreatePlacementGroupRequest"),
    "AWS::EC2::VPCEndpoint": ("ec2", "CreateVpcEndpointRequest"),
    "AWS::EKS::Addon": ("eks", "CreateAddonRequest"),
    "AWS::EKS::Cluster": ("eks", "CreateClusterRequest"),
    "AWS::EKS::Nodegroup": ("eks", "CreateNodegroupRequest"),
    "AWS::Scheduler::Schedule": ("scheduler", "CreateScheduleInput"),
}
# Longer enumerations are names such as instance types, which change every week.
_LONGEST_ENUMERATION = 60
# Constraints that CloudFormation's schemas of 2026-10-20 only describe in words.
# Sources: their descriptions; https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html,
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateInstanceMetadataOptionsRequest.html (2026-11)
_IN_WORDS: dict[str, dict[tuple[str, ...], dict[str, int]]] = {
    "AWS::EC2::LaunchTemplate": {
        ("LaunchTemplateData", "MetadataOptions", "HttpPutResponseHopLimit"): {"minimum": 1, "maximum": 64},
    },
    "AWS::EKS::Nodegroup": {("UpdateConfig", "MaxUnavailable"): {"minimum": 1, "maximum": 100}},
}


def types() -> list[str]:
    """Return the resource types whose schemas are read."""
    return [f"{service}::{name}" for service, names in _TYPES.items() for name in names]


def read_schema(kind: str) -> dict[str, Any]:
    """Return cfn-lint's schema of a resource type."""
    return dict(_json(_FOLDER / "resources" / f"{_json(_FOLDER / 'providers' / f'{_REGION}.json')[kind]}.json"))


def read() -> Source:
    """Read the schemas of the resource types."""
    kinds = {kind: _reduced(kind) for kind in types()}
    day = str(_json(_FOLDER / "version.json")["schema_date"])[:10]
    return Source(
        name="CloudFormation",
        version=f"{day} (cfn-lint {version('cfn-lint')}, botocore {version('botocore')})",
        url="https://github.com/aws-cloudformation/cfn-lint/tree/main/src/cfnlint/data/schemas",
        as_of=day,
        kinds=kinds,
    )


def _json(file: Path) -> Any:
    return json.loads(file.read_text())


def _reduced(kind: str) -> dict[str, Any]:
    schema = read_schema(kind)
    reduced = dict(Reducer(schema.get("definitions")).reduce(schema))
    for path, bounds in _IN_WORDS.get(kind, {}).items():
        reduced = _bounded(reduced, path, bounds)
    if kind in _REQUESTS:
        service, shape = _REQUESTS[kind]
        reduced = _stricter(reduced, Loader().load_service_model(service, "service-2")["shapes"], shape, ())
    fixed = [each.removeprefix("/properties/") for each in schema.get("createOnlyProperties", ())]
    return {**reduced, "createOnly": sorted(fixed)} if fixed else reduced


def _bounded(schema: Mapping[str, Any], path: tuple[str, ...], bounds: Mapping[str, int]) -> dict[str, Any]:
    """Return a schema with bounds on the value at a path."""
    if not path:
        return {**schema, **bounds}
    name, *rest = path
    inner = _bounded(schema["properties"][name], tuple(rest), bounds)
    return {**schema, "properties": {**schema["properties"], name: inner}}


def _stricter(schema: Any, shapes: Mapping[str, Any], name: str, within: tuple[str, ...]) -> Any:
    """Return a schema with the enumerations of the service request where it has none."""
    shape = shapes[name]
    if not isinstance(schema, dict) or name in within:
        return schema
    inside = (*within, name)
    if shape["type"] == "string":
        return _listed(schema, shape.get("enum", ()))
    if shape["type"] == "list" and isinstance(schema.get("items"), dict):
        return {**schema, "items": _stricter(schema["items"], shapes, shape["member"]["shape"], inside)}
    if shape["type"] != "structure" or "properties" not in schema:
        return schema
    members = {key.lower(): each["shape"] for key, each in shape["members"].items()}
    properties = {
        key: _stricter(each, shapes, members[key.lower()], inside) if key.lower() in members else each
        for key, each in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _listed(schema: dict[str, Any], values: Any) -> dict[str, Any]:
    silent = not {"enum", "enumOfAnyCase", "const", "anyOf", "oneOf"} & schema.keys()
    few = 0 < len(values) <= _LONGEST_ENUMERATION
    return {**schema, "enum": list(values)} if silent and few and schema.get("type") == "string" else schema
