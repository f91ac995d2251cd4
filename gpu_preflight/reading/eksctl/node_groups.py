"""Managed and self-managed node groups of eksctl.

Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder/managed_nodegroup.go, pkg/apis/eksctl.io/v1alpha5/amitype.go
(2026-08-21)

Self-managed node groups of eksctl: Auto Scaling groups whose nodes join by themselves.

Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder/nodegroup.go, pkg/ami/ssm_resolver.go (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG, CLUSTER_TAG, LABEL_TAG, TAINT_TAG
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.groups import (
    AL2,
    AL2023,
    BOTTLEROCKET,
    SECURITY_GROUPS,
    ami_family,
    group_instance_types,
    group_labels,
    group_sizes,
    group_subnets,
    group_tags,
    group_taints,
    has_nvidia_gpus,
    is_arm,
    launch_template_data,
    node_permissions,
    resource,
    types_written_as,
    user_data,
    without_none,
)
from gpu_preflight.reading.eksctl.recognition import TYPES_AS, metadata
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping

_FAMILIES: dict[str | None, str] = {
    "AmazonLinux2023": "AL2023",
    "AmazonLinux2": "AL2",
    "Bottlerocket": "BOTTLEROCKET",
    "BottlerocketFips": "BOTTLEROCKET",
}
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
_DISTRIBUTION = {
    "maxPrice": "SpotMaxPrice",
    "onDemandBaseCapacity": "OnDemandBaseCapacity",
    "onDemandPercentageAboveBaseCapacity": "OnDemandPercentageAboveBaseCapacity",
    "spotInstancePools": "SpotInstancePools",
    "spotAllocationStrategy": "SpotAllocationStrategy",
}


def managed_group(config: Object, group: dict[str, Any], name: str) -> Iterator[Resource]:
    """Yield a managed node group, its launch template and its known subnets."""
    subnets, made = group_subnets(config, group)
    yield from made
    template = _managed_template(config, group, name)
    types = group_instance_types(group)
    in_template = template is not None and _is_capacity_block(group)
    least, most, desired = group_sizes(group)
    properties = {
        "ClusterName": metadata(config).get("name"),
        "NodegroupName": group.get("name"),
        "InstanceTypes": None if in_template else types,
        "AmiType": _managed_image(group, types),
        "CapacityType": _capacity(group),
        "ReleaseVersion": group.get("releaseVersion") or None,
        # EKS requires a max size of at least 1.
        "ScalingConfig": {"MinSize": least, "MaxSize": most or 1, "DesiredSize": least if desired is None else desired},
        "Labels": group_labels(config, group),
        "Taints": _taints(group),
        "Tags": {**group_tags(config, group), "alpha.eksctl.io/nodegroup-name": group.get("name")},
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


def _managed_template(config: Object, group: dict[str, Any], name: str) -> Resource | None:
    """Return the launch template that eksctl makes, ``None`` where the group names one."""
    if group.get("launchTemplate"):
        return None
    by_itself = known_text(group.get("ami")) is not None
    data = launch_template_data(config, group, user_data(config, group, joins_by_itself=by_itself))
    if "NetworkInterfaces" not in data:
        data["SecurityGroupIds"] = SECURITY_GROUPS
    if by_itself:
        data["ImageId"] = group["ami"]
    types = group_instance_types(group)
    if _is_capacity_block(group) and isinstance(types, list):
        data["InstanceType"] = types[0]
    return resource(config, f"{name} template", "AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data})


def _specification(group: dict[str, Any], made: Resource | None) -> dict[str, Any]:
    if made:
        # eksctl sets no version: it replaces a group instead of changing it.
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


def _managed_image(group: dict[str, Any], types: Any) -> Any:
    """Return the image that eksctl chooses: NVIDIA's where a type has a GPU."""
    if known_text(group.get("ami")) is not None:
        return "CUSTOM"
    family = _FAMILIES.get(known_text(ami_family(group)))
    if family is None or group.get("ami") or not isinstance(types, list):
        return Unknown("${image that eksctl takes}")
    if family == "AL2":
        return "AL2_x86_64_GPU" if has_nvidia_gpus(group) else "AL2_ARM_64" if is_arm(types) else "AL2_x86_64"
    plain = "STANDARD" if family == "AL2023" else ""
    parts = (family, "ARM_64" if is_arm(types) else "x86_64", "NVIDIA" if has_nvidia_gpus(group) else plain)
    fips = "FIPS" if ami_family(group) == f"{BOTTLEROCKET}Fips" else ""
    return "_".join(each for each in (*parts, fips) if each)


def _taints(group: dict[str, Any]) -> Any:
    written = group.get("taints")
    unknown = [each for each in (written, *items(written)) if isinstance(each, Unknown)]
    return unknown[0] if unknown else [_taint(each) for each in group_taints(group)]


def _taint(taint: dict[str, Any]) -> dict[str, Any]:
    effect = taint.get("effect")
    written = {"Key": taint.get("key"), "Value": taint.get("value"), "Effect": _EFFECTS.get(str(effect), effect)}
    return without_none(written)


def _repair(said: dict[str, Any]) -> dict[str, Any] | None:
    return {"Enabled": said.get("enabled") is True} if said else None


def self_managed_group(config: Object, group: dict[str, Any], name: str) -> Iterator[Resource]:
    """Yield an Auto Scaling group, its launch template and its known subnets."""
    subnets, made = group_subnets(config, group)
    yield from made
    template = _self_managed_template(config, group, name)
    least, most, desired = group_sizes(group)
    specification = {"LaunchTemplateId": template.ref(), "Version": Unknown(f"${{{template.key}.LatestVersionNumber}}")}
    mixed = _mixed(group, specification)
    properties = {
        "DesiredCapacity": None if desired is None else str(desired),
        "MinSize": str(least),
        "MaxSize": str(most),
        "VPCZoneIdentifier": subnets,
        "Tags": _listed(_tags(config, group)),
        "MixedInstancesPolicy": mixed,
        "LaunchTemplate": None if mixed else specification,
        "MaxInstanceLifetime": group.get("maxInstanceLifetime"),
    }
    types = {} if mixed else {TYPES_AS: "instanceType"}
    permissions = node_permissions(group)
    yield resource(config, name, "AWS::AutoScaling::AutoScalingGroup", properties, {**types, **permissions})
    yield template


def _listed(tags: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()]


def _mixed(group: dict[str, Any], specification: dict[str, Any]) -> dict[str, Any] | None:
    said = mapping(group.get("instancesDistribution"))
    types = items(said.get("instanceTypes"))
    if not types:
        return None
    return {
        "LaunchTemplate": {
            "LaunchTemplateSpecification": specification,
            "Overrides": [{"InstanceType": each} for each in types],
        },
        "InstancesDistribution": without_none({theirs: said.get(ours) for ours, theirs in _DISTRIBUTION.items()}),
    }


def _self_managed_template(config: Object, group: dict[str, Any], name: str) -> Resource:
    types = group_instance_types(group)
    data = launch_template_data(config, group, user_data(config, group, joins_by_itself=True))
    data.setdefault("NetworkInterfaces", [{"DeviceIndex": 0, "Groups": SECURITY_GROUPS, "NetworkCardIndex": 0}])
    data |= {
        "IamInstanceProfile": {"Arn": dig(group, "iam", "instanceProfileARN") or Unknown("${profile of eksctl}")},
        "ImageId": _self_managed_image(config, group),
        "InstanceType": types[0] if isinstance(types, list) else types,
    }
    return resource(config, f"{name} template", "AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data})


def _self_managed_image(config: Object, group: dict[str, Any]) -> Any:
    """Return the image: the one that is named, or the parameter in which eksctl looks it up."""
    if (known_text(group.get("ami")) or "auto") not in ("auto", "auto-ssm", "static"):
        return group["ami"]
    version, types = metadata(config).get("version"), group_instance_types(group)
    family, gpus = str(ami_family(group)), has_nvidia_gpus(group)
    if version is None or not isinstance(types, list):
        return _not_known(family)
    architecture = "arm64" if is_arm(types) else "x86_64"
    if family == AL2023:
        variant = "nvidia" if gpus else "standard"
        place = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/recommended"
    elif family == AL2:
        variant = "-gpu" if gpus else "-arm64" if architecture == "arm64" else ""
        place = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2{variant}/recommended"
    elif family.startswith(BOTTLEROCKET):
        variant = f"{version}{'-nvidia' if gpus else ''}{'-fips' if family.endswith('Fips') else ''}"
        place = f"/aws/service/bottlerocket/aws-k8s-{variant}/{architecture}/latest"
    elif family.startswith("Ubuntu"):
        return _ubuntu_ami_parameter(family, version, architecture)
    else:
        return _not_known(family)
    return f"{{{{resolve:ssm:{place}/image_id}}}}"


def _ubuntu_ami_parameter(family: str, version: Any, architecture: str) -> str:
    product, release = ("eks-pro" if "Pro" in family else "eks"), f"{family[-4:-2]}.{family[-2:]}"
    machine, disk = ("arm64" if architecture == "arm64" else "amd64"), ("gp3" if release >= "24.04" else "gp2")
    place = f"{product}/{release}/{version}/stable/current/{machine}/hvm/ebs-{disk}/ami-id"
    return f"{{{{resolve:ssm:/aws/service/canonical/ubuntu/{place}}}}}"


def _not_known(family: str) -> Unknown:
    return Unknown(f"${{image that eksctl takes of {family.lower()}}}")


def _tags(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of the group: its own, the cluster's tag, and the tags for cluster autoscaler's discovery."""
    name = metadata(config).get("name")
    tags = {**group_tags(config, group), f"{CLUSTER_TAG}{name}": "owned"}
    if dig(group, "iam", "withAddonPolicies", "autoScaler") is True:
        tags |= {AUTOSCALED_TAG: "true", f"{AUTOSCALED_BY_TAG}{name}": "owned"}
    if group.get("propagateASGTags") is True:
        tags |= {f"{LABEL_TAG}{key}": value for key, value in group_labels(config, group).items()}
        # Without the effect, as GPU158 says.
        tags |= {f"{TAINT_TAG}{each.get('key')}": each.get("value") or "" for each in group_taints(group)}
    return tags
