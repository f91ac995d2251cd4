"""Managed node groups of eksctl.

Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder/managed_nodegroup.go, pkg/apis/eksctl.io/v1alpha5/amitype.go
(2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.groups import (
    BOTTLEROCKET,
    family_of,
    has_nvidia_gpus,
    is_arm,
    labels_of,
    node_permissions,
    sizes_of,
    subnets_of,
    tags_of,
    taints_of,
    types_of,
    types_written_as,
)
from gpu_preflight.reading.eksctl.launch_templates import SECURITY_GROUPS, launch_template_data
from gpu_preflight.reading.eksctl.resources import TYPES_AS, metadata, resource, without_none
from gpu_preflight.reading.eksctl.user_data import user_data
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping

_FAMILIES: dict[str | None, str] = {
    "AmazonLinux2023": "AL2023",
    "AmazonLinux2": "AL2",
    "Bottlerocket": "BOTTLEROCKET",
    "BottlerocketFips": "BOTTLEROCKET",
}
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}


def managed_group(config: Object, group: dict[str, Any], name: str) -> Iterator[Resource]:
    """Yield a managed node group, its launch template and what is known of its subnets."""
    subnets, made = subnets_of(config, group)
    yield from made
    template = _template(config, group, name)
    types = types_of(group)
    in_template = template is not None and _is_capacity_block(group)
    least, most, desired = sizes_of(group)
    properties = {
        "ClusterName": metadata(config).get("name"),
        "NodegroupName": group.get("name"),
        "InstanceTypes": None if in_template else types,
        "AmiType": _image(group, types),
        "CapacityType": _capacity(group),
        "ReleaseVersion": group.get("releaseVersion") or None,
        # Of EKS the most is at least 1.
        "ScalingConfig": {"MinSize": least, "MaxSize": most or 1, "DesiredSize": least if desired is None else desired},
        "Labels": labels_of(config, group),
        "Taints": _taints(group),
        "Tags": {**tags_of(config, group), "alpha.eksctl.io/nodegroup-name": group.get("name")},
        "NodeRole": dig(group, "iam", "instanceRoleARN") or Unknown("${role of eksctl}"),
        "NodeRepairConfig": _repair(mapping(group.get("nodeRepairConfig"))),
        "Subnets": subnets,
        "LaunchTemplate": _specification(group, template),
    }
    yield resource(
        config, name, "AWS::EKS::Nodegroup", properties, {TYPES_AS: types_written_as(group), **node_permissions(group)}
    )
    if template:
        yield template


def _template(config: Object, group: dict[str, Any], name: str) -> Resource | None:
    """Return the launch template that eksctl makes, ``None`` where the group names one."""
    if group.get("launchTemplate"):
        return None
    by_itself = known_text(group.get("ami")) is not None
    data = launch_template_data(config, group, user_data(config, group, joins_by_itself=by_itself))
    if "NetworkInterfaces" not in data:
        data["SecurityGroupIds"] = SECURITY_GROUPS
    if by_itself:
        data["ImageId"] = group["ami"]
    types = types_of(group)
    if _is_capacity_block(group) and isinstance(types, list):
        data["InstanceType"] = types[0]
    return resource(config, f"{name} template", "AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data})


def _specification(group: dict[str, Any], made: Resource | None) -> dict[str, Any]:
    if made:
        # eksctl names none: it makes a group anew rather than change it.
        return {"Id": made.ref(), "Version": Unknown(f"${{{made.key}.LatestVersionNumber}}")}
    named = mapping(group.get("launchTemplate"))
    version = named.get("version")
    return without_none({"Id": named.get("id"), "Version": None if version is None else str(version)})


def _is_capacity_block(group: dict[str, Any]) -> bool:
    return bool(dig(group, "instanceMarketOptions", "marketType") == "capacity-block")


def _capacity(group: dict[str, Any]) -> str:
    if _is_capacity_block(group):
        return "CAPACITY_BLOCK"
    return "SPOT" if group.get("spot") is True else "ON_DEMAND"


def _image(group: dict[str, Any], types: Any) -> Any:
    """Return the image that eksctl chooses: NVIDIA's where a type has a GPU."""
    if known_text(group.get("ami")) is not None:
        return "CUSTOM"
    family = _FAMILIES.get(known_text(family_of(group)))
    if family is None or group.get("ami") or not isinstance(types, list):
        return Unknown("${image that eksctl takes}")
    if family == "AL2":
        return "AL2_x86_64_GPU" if has_nvidia_gpus(group) else "AL2_ARM_64" if is_arm(types) else "AL2_x86_64"
    plain = "STANDARD" if family == "AL2023" else ""
    parts = (family, "ARM_64" if is_arm(types) else "x86_64", "NVIDIA" if has_nvidia_gpus(group) else plain)
    fips = "FIPS" if family_of(group) == f"{BOTTLEROCKET}Fips" else ""
    return "_".join(each for each in (*parts, fips) if each)


def _taints(group: dict[str, Any]) -> Any:
    written = group.get("taints")
    unknown = [each for each in (written, *items(written)) if isinstance(each, Unknown)]
    return unknown[0] if unknown else [_taint(each) for each in taints_of(group)]


def _taint(taint: dict[str, Any]) -> dict[str, Any]:
    effect = taint.get("effect")
    written = {"Key": taint.get("key"), "Value": taint.get("value"), "Effect": _EFFECTS.get(str(effect), effect)}
    return without_none(written)


def _repair(said: dict[str, Any]) -> dict[str, Any] | None:
    return {"Enabled": said.get("enabled") is True} if said else None
