"""What eksctl makes of a ClusterConfig, as the resources of a template, as far as that is certain.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5 (types.go, defaults.go, validation.go) and
pkg/cfn/builder/managed_nodegroup.go (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.facts.hardware.catalogue import catalogue
from gpu_constructs.preflight.reading.cloudformation import Resource, Template
from gpu_constructs.preflight.reading.objects import Chart, Object, Origin
from gpu_constructs.preflight.reading.unknown import Unknown, known_text, mapping, mappings

GROUP = "eksctl.io"
_DEFAULT_TYPE = "m5.large"
_DEFAULT_NODES = 2
_FAMILIES = {None: "AL2023", "AmazonLinux2023": "AL2023", "AmazonLinux2": "AL2", "Bottlerocket": "BOTTLEROCKET"}
_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
_BY_API = "add-ons, a device plugin and more that eksctl installs by API stand in no file"


def is_of_eksctl(template: Template) -> bool:
    """Whether eksctl wrote a template; it describes each as its own."""
    return "eksctl" in str(template.body.get("Description"))


def installed_by_api(templates: list[Template], objects: list[Object]) -> Iterator[tuple[Origin, str]]:
    """Yield where eksctl installs more than it writes."""
    for each in templates:
        if is_of_eksctl(each):
            yield Origin(each.file, f"{each.name}/Description"), _BY_API
    for config in configs(objects):
        yield config.origin, _BY_API
        if config.content.get("nodeGroups"):
            yield config.origin, "its nodeGroups are not read; managedNodeGroups are"


def configs(objects: list[Object]) -> list[Object]:
    """Return the ClusterConfigs among some objects."""
    return [each for each in objects if each.kind == "ClusterConfig" and each.group == GROUP]


def resources_of(config: Object) -> Iterator[Resource]:
    """Yield the cluster, its managed node groups, its add-ons and its Fargate profiles."""
    metadata = mapping(config.content.get("metadata"))
    version = metadata.get("version")
    auto = mapping(config.content.get("autoModeConfig"))
    cluster = {"Name": metadata.get("name"), "Version": str(version) if isinstance(version, float) else version}
    if auto:
        cluster["ComputeConfig"] = {"Enabled": auto.get("enabled")}
    yield _resource(config, "Cluster", "AWS::EKS::Cluster", cluster)
    for number, group in enumerate(mappings(config.content.get("managedNodeGroups"))):
        name = known_text(group.get("name")) or f"managedNodeGroups[{number}]"
        yield _resource(config, name, "AWS::EKS::Nodegroup", _managed(group, metadata.get("name")))
    for addon in mappings(config.content.get("addons")):
        properties = {
            "ClusterName": metadata.get("name"),
            "AddonName": addon.get("name"),
            "AddonVersion": None if addon.get("version") == "latest" else addon.get("version"),
            "ConfigurationValues": addon.get("configurationValues"),
        }
        yield _resource(config, f"addon {addon.get('name')}", "AWS::EKS::Addon", properties)
    for profile in mappings(config.content.get("fargateProfiles")):
        properties = {"ClusterName": metadata.get("name"), "Selectors": _selectors(profile)}
        yield _resource(config, f"fargate {profile.get('name')}", "AWS::EKS::FargateProfile", properties)


def _selectors(profile: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a Fargate profile selects; without labels, all pods of the namespace."""
    return [
        {key: value for key, value in written.items() if value is not None}
        for each in mappings(profile.get("selectors"))
        for written in [{"Namespace": each.get("namespace"), "Labels": _pairs(each.get("labels"))}]
    ]


def _pairs(labels: Any) -> Any:
    if not isinstance(labels, dict):
        return labels
    return [{"Key": key, "Value": value} for key, value in labels.items()]


def charts_of(config: Object) -> Iterator[Chart]:
    """Yield the Karpenter that eksctl installs on request."""
    karpenter = mapping(config.content.get("karpenter"))
    if karpenter:
        name = mapping(config.content.get("metadata")).get("name")
        values = {"settings": {"clusterName": name, "interruptionQueue": Unknown("${queue of eksctl}")}}
        version = known_text(karpenter.get("version"))
        yield Chart("karpenter", version, values, config.origin, {}, "karpenter", name)


def _resource(config: Object, name: str, kind: str, properties: dict[str, Any]) -> Resource:
    region = known_text(mapping(config.content.get("metadata")).get("region"))
    written = {key: value for key, value in properties.items() if value is not None}
    key = f"{config.name}/{name}"
    return Resource(config.origin.file, key, kind, written, key, (), {}, conditional=False, region=region)


def _managed(group: dict[str, Any], cluster: Any) -> dict[str, Any]:
    types = group.get("instanceTypes") or [group.get("instanceType") or _DEFAULT_TYPE]
    if "instanceSelector" in group:
        types = Unknown("${types of the instance selector}")
    sizes = [group.get(each) for each in ("desiredCapacity", "minSize", "maxSize")]
    return {
        "ClusterName": cluster,
        "NodegroupName": group.get("name"),
        "InstanceTypes": types,
        "AmiType": _image(group, types),
        "CapacityType": "SPOT" if group.get("spot") is True else "ON_DEMAND",
        "ScalingConfig": _scaling(*sizes),
        "Labels": group.get("labels"),
        "Taints": [_taint(each) for each in mappings(group.get("taints"))],
        "Tags": group.get("tags"),
        "NodeRole": Unknown("${role of eksctl}"),
        # What else it says stands in a launch template that eksctl makes.
        "LaunchTemplate": {"Id": Unknown("${launch template of eksctl}")},
    }


def _scaling(desired: Any, least: Any, most: Any) -> dict[str, Any]:
    """Return sizes, those that are left out filled in as eksctl does before it makes the group."""
    if least is None:
        least = _DEFAULT_NODES if desired is None else desired
    if most is None:
        most = (least if desired is None else desired) or 1
    return {"MinSize": least, "MaxSize": most, "DesiredSize": least if desired is None else desired}


def _image(group: dict[str, Any], types: Any) -> Any:
    """Return the image that eksctl chooses: NVIDIA's where a type has a GPU."""
    family = _FAMILIES.get(group.get("amiFamily"))
    known = catalogue()
    rows = [known[each] for each in types if each in known] if isinstance(types, list) else []
    if family is None or group.get("ami") or not isinstance(types, list):
        return Unknown("${image that eksctl takes}")
    arm = any(each.architecture == "arm64" for each in rows) or any(_is_graviton(str(each)) for each in types)
    if family == "AL2":
        return "AL2_x86_64_GPU" if rows else "AL2_ARM_64" if arm else "AL2_x86_64"
    architecture = "ARM_64" if arm else "x86_64"
    plain = "STANDARD" if family == "AL2023" else ""
    return "_".join(each for each in (family, architecture, "NVIDIA" if rows else plain) if each)


def _is_graviton(name: str) -> bool:
    family = name.partition(".")[0]
    return family.startswith("a1") or "g" in family.lstrip("abcdefghijklmnopqrstuvwxyz")


def _taint(taint: dict[str, Any]) -> dict[str, Any]:
    effect = taint.get("effect")
    written = {"Key": taint.get("key"), "Value": taint.get("value"), "Effect": _EFFECTS.get(str(effect), effect)}
    return {key: value for key, value in written.items() if value is not None}
