"""Self-managed node groups of eksctl: Auto Scaling groups whose nodes join by themselves.

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
)
from gpu_preflight.reading.eksctl.launch_templates import SECURITY_GROUPS, launch_template_data
from gpu_preflight.reading.eksctl.resources import TYPES_AS, metadata, resource, without_none
from gpu_preflight.reading.eksctl.user_data import user_data
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping

_DISTRIBUTION = {
    "maxPrice": "SpotMaxPrice",
    "onDemandBaseCapacity": "OnDemandBaseCapacity",
    "onDemandPercentageAboveBaseCapacity": "OnDemandPercentageAboveBaseCapacity",
    "spotInstancePools": "SpotInstancePools",
    "spotAllocationStrategy": "SpotAllocationStrategy",
}


def self_managed_group(config: Object, group: dict[str, Any], name: str) -> Iterator[Resource]:
    """Yield an Auto Scaling group, its launch template and what is known of its subnets."""
    subnets, made = subnets_of(config, group)
    yield from made
    template = _template(config, group, name)
    least, most, desired = sizes_of(group)
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


def _template(config: Object, group: dict[str, Any], name: str) -> Resource:
    types = types_of(group)
    data = launch_template_data(config, group, user_data(config, group, joins_by_itself=True))
    data.setdefault("NetworkInterfaces", [{"DeviceIndex": 0, "Groups": SECURITY_GROUPS, "NetworkCardIndex": 0}])
    data |= {
        "IamInstanceProfile": {"Arn": dig(group, "iam", "instanceProfileARN") or Unknown("${profile of eksctl}")},
        "ImageId": _image(config, group),
        "InstanceType": types[0] if isinstance(types, list) else types,
    }
    return resource(config, f"{name} template", "AWS::EC2::LaunchTemplate", {"LaunchTemplateData": data})


def _image(config: Object, group: dict[str, Any]) -> Any:
    """Return the image: the one that is named, or the parameter in which eksctl looks it up."""
    if (known_text(group.get("ami")) or "auto") not in ("auto", "auto-ssm", "static"):
        return group["ami"]
    version, types = metadata(config).get("version"), types_of(group)
    family, gpus = str(family_of(group)), has_nvidia_gpus(group)
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
        return _of_canonical(family, version, architecture)
    else:
        return _not_known(family)
    return f"{{{{resolve:ssm:{place}/image_id}}}}"


def _of_canonical(family: str, version: Any, architecture: str) -> str:
    product, release = ("eks-pro" if "Pro" in family else "eks"), f"{family[-4:-2]}.{family[-2:]}"
    machine, disk = ("arm64" if architecture == "arm64" else "amd64"), ("gp3" if release >= "24.04" else "gp2")
    place = f"{product}/{release}/{version}/stable/current/{machine}/hvm/ebs-{disk}/ami-id"
    return f"{{{{resolve:ssm:/aws/service/canonical/ubuntu/{place}}}}}"


def _not_known(family: str) -> Unknown:
    return Unknown(f"${{image that eksctl takes of {family.lower()}}}")


def _tags(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of the group: its own, that of the cluster, and those by which cluster autoscaler finds it."""
    name = metadata(config).get("name")
    tags = {**tags_of(config, group), f"{CLUSTER_TAG}{name}": "owned"}
    if dig(group, "iam", "withAddonPolicies", "autoScaler") is True:
        tags |= {AUTOSCALED_TAG: "true", f"{AUTOSCALED_BY_TAG}{name}": "owned"}
    if group.get("propagateASGTags") is True:
        tags |= {f"{LABEL_TAG}{key}": value for key, value in labels_of(config, group).items()}
        # Without the effect, as GPU158 says.
        tags |= {f"{TAINT_TAG}{each.get('key')}": each.get("value") or "" for each in taints_of(group)}
    return tags
