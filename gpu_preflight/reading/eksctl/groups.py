"""What node groups of eksctl have in common, managed by EKS or not.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5/defaults.go, pkg/ami/ssm_resolver.go,
pkg/vpc/vpc.go (2026-08-21)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.zones import is_seen_zone
from gpu_facts.light_patterns import regex
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.resources import NODES_SCALE, metadata, resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings

AL2023, AL2, BOTTLEROCKET = "AmazonLinux2023", "AmazonLinux2", "Bottlerocket"
BOTTLEROCKETS = (BOTTLEROCKET, f"{BOTTLEROCKET}Fips")
# The oldest and the newest minor version of Kubernetes that each release of Ubuntu is for; ``None`` where it is open.
# Source: eksctl-io/eksctl 99984adb6 pkg/ami/ssm_resolver.go ``validateVersionForUbuntu`` (2026-08-21)
UBUNTU_VERSIONS: dict[str, tuple[int, int | None]] = {
    "Ubuntu2004": (21, 29),
    "UbuntuPro2004": (27, 29),
    "Ubuntu2204": (29, None),
    "UbuntuPro2204": (29, None),
    "Ubuntu2404": (31, None),
    "UbuntuPro2404": (31, None),
    "Ubuntu2604": (35, None),
    "UbuntuPro2604": (35, None),
}
WINDOWS = tuple(f"WindowsServer{year}{kind}Container" for year in (2019, 2022, 2025) for kind in ("Core", "Full"))
# Families of images by their names in small letters.
# Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5/types.go ``SupportedAMIFamilies`` (2026-08-21)
AMI_FAMILIES = {each.lower(): each for each in (AL2023, AL2, *BOTTLEROCKETS, *UBUNTU_VERSIONS, *WINDOWS)}
_DEFAULT_TYPE = "m5.large"
_DEFAULT_NODES = 2
_ZONE = regex(r"[a-z]{2}(?:-[a-z]+)+-\d[a-z]")
# Not of CloudFormation: all that is known of a subnet of eksctl is its zone.
_SUBNET = "eksctl::Subnet"
# The same, of a subnet that eksctl makes with the cluster.
CLUSTER_SUBNET = "eksctl::ClusterSubnet"


def canonical_family(name: Any) -> Any:
    """Return a family of images as eksctl writes it; it reads capital and small letters alike."""
    return AMI_FAMILIES.get(name.lower(), name) if isinstance(name, str) else name


def family_of(group: dict[str, Any]) -> Any:
    """Return the family of a group's image."""
    return canonical_family(group.get("amiFamily")) or AL2023


def types_of(group: dict[str, Any]) -> Any:
    """Return the instance types of a group, `Unknown` where eksctl asks EC2 for them."""
    # Beside a list, the selector must choose just what is listed.
    if listed := items(dig(group, "instancesDistribution", "instanceTypes")) or items(group.get("instanceTypes")):
        return listed
    if group.get("instanceSelector"):
        return Unknown("${types of the instance selector}")
    return [group.get("instanceType") or _DEFAULT_TYPE]


def types_written_as(group: dict[str, Any]) -> str | None:
    """Return where others can be written in a managed group; ``None`` beside a selector, which has to choose them.

    Of ``instanceType`` and ``instanceTypes`` eksctl takes only one.
    Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5/validation.go (2026-08-21)
    """
    if group.get("instanceSelector"):
        return None
    return "instanceTypes" if group.get("instanceTypes") else "instanceType"


def has_nvidia_gpus(group: dict[str, Any]) -> bool:
    """Whether one of a group's types has NVIDIA GPUs."""
    return any(name in catalogue() for name in items(types_of(group)) if isinstance(name, str))


def is_arm(types: Any) -> bool:
    """Whether one of some types has Graviton."""
    return any(_is_graviton(str(each)) for each in items(types))


def _is_graviton(name: str) -> bool:
    row, family = catalogue().get(name), name.partition(".")[0]
    if row is not None:
        return row.architecture == "arm64"
    return family.startswith("a1") or "g" in family.lstrip("abcdefghijklmnopqrstuvwxyz")


def labels_of(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the labels of a group's nodes, with the two that eksctl adds."""
    own = {
        "alpha.eksctl.io/cluster-name": metadata(config).get("name"),
        "alpha.eksctl.io/nodegroup-name": group.get("name"),
    }
    return {**mapping(group.get("labels")), **{key: value for key, value in own.items() if value is not None}}


def taints_of(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the taints of a group; a self-managed one may have them as a mapping of ``value:effect``."""
    written = group.get("taints")
    if not isinstance(written, dict):
        return mappings(written)
    return [_of_mapping(str(key), str(each)) for key, each in written.items()]


def _of_mapping(key: str, written: str) -> dict[str, Any]:
    value, colon, effect = written.partition(":")
    return {"key": key, "value": value, "effect": effect} if colon else {"key": key, "effect": value}


def sizes_of(group: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return least, most and wanted size, as eksctl fills in those that are left out."""
    desired, least, most = (group.get(each) for each in ("desiredCapacity", "minSize", "maxSize"))
    if least is None:
        least = _DEFAULT_NODES if desired is None else desired
    if most is None:
        most = least if desired is None else desired
    return least, most, desired


def tags_of(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of a group, those of the cluster among them."""
    return {**mapping(metadata(config).get("tags")), **mapping(group.get("tags"))}


def subnets_of(config: Object, group: dict[str, Any]) -> tuple[Any, list[Resource]]:
    """Return the subnets of a group, and what is known of them; `Unknown` where eksctl takes those of the cluster."""
    if named := items(group.get("subnets")):
        zones = [(str(each), _zone_of(config, each)) for each in named]
    else:
        listed = (*items(group.get("availabilityZones")), *items(group.get("localZones")))
        zones = [(str(each), each) for each in listed]
    made = [resource(config, f"subnet {name}", _SUBNET, {"AvailabilityZone": zone}) for name, zone in zones]
    return ([each.ref() for each in made] if made else Unknown("${subnets of eksctl}")), made


def cluster_subnets(config: Object) -> list[Resource]:
    """Return what is known of the subnets that eksctl makes for a cluster, one for each zone that the config names."""
    zones = [str(each) for each in items(config.content.get("availabilityZones")) if known_text(each)]
    zones += [str(each) for each in items(config.content.get("localZones")) if known_text(each)]
    return [resource(config, f"zone {each}", CLUSTER_SUBNET, {"AvailabilityZone": each}) for each in zones]


def _zone_of(config: Object, named: Any) -> Any:
    """Return the zone of a subnet that a group names by its id or by its name in the config."""
    for name, said in _subnets(config):
        if named in (name, said.get("id")):
            # A name of no zone is no more than a name.
            zone = said.get("az") or (name if _ZONE.fullmatch(name) and is_seen_zone(name) else None)
            return zone if known_text(zone) else Unknown(f"${{zone of {named}}}")
    return Unknown(f"${{zone of {named}}}")


def _subnets(config: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in ("private", "public"):
        for name, said in mapping(dig(config.content, "vpc", "subnets", kind)).items():
            yield str(name), mapping(said)


def node_permissions(group: dict[str, Any]) -> dict[str, bool]:
    """Return whether the role that eksctl makes for a group's nodes may scale groups; nothing where it isn't known.

    Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder/iam_helper.go ``createRole`` (2026-08-21)
    """
    written = mapping(group.get("iam"))
    own = ("instanceRoleARN", "instanceProfileARN", "attachPolicy", "attachPolicyARNs")
    if any(written.get(each) for each in own):
        return {}
    parts = (group.get("iam"), written.get("withAddonPolicies"), dig(written, "withAddonPolicies", "autoScaler"))
    if any(isinstance(each, Unknown) for each in parts):
        return {}
    return {NODES_SCALE: parts[-1] is True}
