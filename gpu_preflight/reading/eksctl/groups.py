"""Launch templates, user data and resources of eksctl's managed and self-managed node groups.

Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5/defaults.go, pkg/ami/ssm_resolver.go,
pkg/vpc/vpc.go (2026-08-21)

The launch template that eksctl makes for a node group.

Source: eksctl-io/eksctl 99984adb6 pkg/cfn/builder (nodegroup.go, managed_launch_template.go, network_interfaces.go,
block_device_mapping.go) and pkg/apis/eksctl.io/v1alpha5/defaults.go (2026-08-21)

The user data that eksctl gives the nodes of a group.

Source: eksctl-io/eksctl 99984adb6 pkg/nodebootstrap (al2023.go, bottlerocket.go, userdata.go) (2026-08-21)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import is_seen_zone
from gpu_facts.light import regex
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import CLUSTER_SUBNET, GROUP, NODES_SCALE, is_of_eksctl, metadata
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings
from gpu_preflight.reading.user_data import parse_embedded

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
SECURITY_GROUPS = Unknown("${security groups of eksctl}")
_GIB, _KIND, _IOPS, _THROUGHPUT = 80, "gp3", 3000, 125
_WITH_IOPS = ("gp3", "io1", "io2")
_LOWEST_IOPS = {"gp3": _IOPS, "io1": 100, "io2": 100}
_BOUNDARY = "//"
_NODE_CONFIG = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
# Values that eksctl reads from EKS after the cluster exists.
_ENDPOINT, _AUTHORITY, _RANGE = "Endpoint", "CertificateAuthorityData", "KubernetesNetworkConfig.ServiceIpv4Cidr"


def resource(
    config: Object, name: str, kind: str, properties: dict[str, Any], more: Mapping[str, Any] | None = None
) -> Resource:
    """Return a resource that eksctl makes of a config.

    Args:
        config: The ClusterConfig.
        name: Its name, unique in a config.
        kind: Its type in CloudFormation.
        properties: Its properties, without values that are ``None``.
        more: More metadata about its form in the config.
    """
    key = f"{config.name}/{name}"
    region = known_text(metadata(config).get("region"))
    told = {GROUP: config.name, **(more or {})}
    return Resource(config.origin.file, key, kind, without_none(properties), key, (), told, False, region)


def eksctl_field_path(made: Resource, name: str) -> tuple[str, ...]:
    """Return where a property of a group is in the file of eksctl; nothing for a group that eksctl doesn't make."""
    if not is_of_eksctl(made):
        return ()
    return ("managedNodeGroups" if made.type == "AWS::EKS::Nodegroup" else "nodeGroups", name)


def without_none(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties without those that are not said."""
    return {key: value for key, value in properties.items() if value is not None}


def canonical_family(name: Any) -> Any:
    """Return a family of images as eksctl writes it; it reads capital and small letters alike."""
    return AMI_FAMILIES.get(name.lower(), name) if isinstance(name, str) else name


def ami_family(group: dict[str, Any]) -> Any:
    """Return the family of a group's image."""
    return canonical_family(group.get("amiFamily")) or AL2023


def group_instance_types(group: dict[str, Any]) -> Any:
    """Return the instance types of a group, `Unknown` where eksctl asks EC2 for them."""
    # Next to a list, the selector must choose exactly the listed types.
    if listed := items(dig(group, "instancesDistribution", "instanceTypes")) or items(group.get("instanceTypes")):
        return listed
    if group.get("instanceSelector"):
        return Unknown("${types of the instance selector}")
    return [group.get("instanceType") or _DEFAULT_TYPE]


def types_written_as(group: dict[str, Any]) -> str | None:
    """Return the field for other types in a managed group; ``None`` with a selector, which has to choose them.

    eksctl accepts either ``instanceType`` or ``instanceTypes``.
    Source: eksctl-io/eksctl 99984adb6 pkg/apis/eksctl.io/v1alpha5/validation.go (2026-08-21)
    """
    if group.get("instanceSelector"):
        return None
    return "instanceTypes" if group.get("instanceTypes") else "instanceType"


def has_nvidia_gpus(group: dict[str, Any]) -> bool:
    """Whether one of a group's types has NVIDIA GPUs."""
    return any(name in catalogue() for name in items(group_instance_types(group)) if isinstance(name, str))


def is_arm(types: Any) -> bool:
    """Whether one of some types has Graviton."""
    return any(_is_graviton(str(each)) for each in items(types))


def _is_graviton(name: str) -> bool:
    row, family = catalogue().get(name), name.partition(".")[0]
    if row is not None:
        return row.architecture == "arm64"
    return family.startswith("a1") or "g" in family.lstrip("abcdefghijklmnopqrstuvwxyz")


def group_labels(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the labels of a group's nodes, with the two that eksctl adds."""
    own = {
        "alpha.eksctl.io/cluster-name": metadata(config).get("name"),
        "alpha.eksctl.io/nodegroup-name": group.get("name"),
    }
    return {**mapping(group.get("labels")), **{key: value for key, value in own.items() if value is not None}}


def group_taints(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the taints of a group; a self-managed one may have them as a mapping of ``value:effect``."""
    written = group.get("taints")
    if not isinstance(written, dict):
        return mappings(written)
    return [_parse_taint(str(key), str(each)) for key, each in written.items()]


def _parse_taint(key: str, written: str) -> dict[str, Any]:
    value, colon, effect = written.partition(":")
    return {"key": key, "value": value, "effect": effect} if colon else {"key": key, "effect": value}


def group_sizes(group: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return least, most and wanted size, as eksctl fills in those that are left out."""
    desired, least, most = (group.get(each) for each in ("desiredCapacity", "minSize", "maxSize"))
    if least is None:
        least = _DEFAULT_NODES if desired is None else desired
    if most is None:
        most = least if desired is None else desired
    return least, most, desired


def group_tags(config: Object, group: dict[str, Any]) -> dict[str, Any]:
    """Return the tags of a group, with the tags of the cluster."""
    return {**mapping(metadata(config).get("tags")), **mapping(group.get("tags"))}


def group_subnets(config: Object, group: dict[str, Any]) -> tuple[Any, list[Resource]]:
    """Return the subnets of a group, and their resources; `Unknown` if eksctl uses the cluster's subnets."""
    if named := items(group.get("subnets")):
        zones = [(str(each), _subnet_zone(config, each)) for each in named]
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


def _subnet_zone(config: Object, named: Any) -> Any:
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


def launch_template_data(config: Object, group: dict[str, Any], user_data: Any) -> dict[str, Any]:
    """Return the launch template data of a group, except its image and its instance type."""
    on_reservation = mapping(group.get("capacityReservation"))
    data = {
        "BlockDeviceMappings": _disks(group),
        "CapacityReservationSpecification": _reservation(on_reservation) if on_reservation else None,
        # eksctl writes it only with a reservation.
        "InstanceMarketOptions": _market(group) if on_reservation else None,
        "MetadataOptions": {
            "HttpPutResponseHopLimit": 1 if group.get("disablePodIMDS") is True else 2,
            "HttpTokens": "optional" if group.get("disableIMDSv1") is False else "required",
        },
        "NetworkInterfaces": _interfaces(group),
        "Placement": {"GroupName": dig(group, "placement", "groupName")} if group.get("placement") else None,
        "TagSpecifications": _tags(config, group),
        "UserData": user_data,
    }
    return without_none(data)


def _reservation(said: dict[str, Any]) -> dict[str, Any]:
    target = mapping(said.get("capacityReservationTarget"))
    named = {
        "CapacityReservationId": target.get("capacityReservationID"),
        "CapacityReservationResourceGroupArn": target.get("capacityReservationResourceGroupARN"),
    }
    preference = said.get("capacityReservationPreference")
    specification = {
        "CapacityReservationPreference": preference,
        "CapacityReservationTarget": without_none(named) or None,
    }
    return without_none(specification)


def _market(group: dict[str, Any]) -> dict[str, Any] | None:
    kind = dig(group, "instanceMarketOptions", "marketType")
    return {"MarketType": kind} if kind else None


def _disks(group: dict[str, Any]) -> list[dict[str, Any]]:
    device = group.get("volumeName") or ("/dev/xvdb" if str(ami_family(group)).startswith(BOTTLEROCKET) else None)
    if device is None:
        device = "/dev/sda1" if str(ami_family(group)).startswith("Windows") else "/dev/xvda"
    return [_disk(each) for each in ({**group, "volumeName": device}, *mappings(group.get("additionalVolumes")))]


def _disk(said: dict[str, Any]) -> dict[str, Any]:
    kind = said.get("volumeType") or _KIND
    ebs = {
        "VolumeSize": said.get("volumeSize", _GIB),
        "VolumeType": kind,
        "Iops": said.get("volumeIOPS", _LOWEST_IOPS[kind]) if kind in _WITH_IOPS else None,
        "Throughput": said.get("volumeThroughput", _THROUGHPUT) if kind == _KIND else None,
        "Encrypted": said.get("volumeEncrypted"),
        "KmsKeyId": said.get("volumeKmsKeyID"),
    }
    return {"DeviceName": said.get("volumeName"), "Ebs": without_none(ebs)}


def _interfaces(group: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return an interface of EFA for each network card that every type of the group has."""
    if group.get("efaEnabled") is not True:
        return None
    rows = [catalogue().get(str(each)) for each in items(group_instance_types(group))]
    cards = [len(each.network_cards) if each else 1 for each in rows]
    return [
        {
            "DeviceIndex": min(card, 1),
            "Groups": SECURITY_GROUPS,
            "InterfaceType": "efa",
            "NetworkCardIndex": card,
        }
        for card in range(min(cards, default=1))
    ]


def _tags(config: Object, group: dict[str, Any]) -> list[dict[str, Any]]:
    tags = [{"Key": key, "Value": value} for key, value in group_tags(config, group).items()]
    return [{"ResourceType": each, "Tags": tags} for each in ("instance", "volume")] if tags else []


def user_data(config: Object, group: dict[str, Any], *, joins_by_itself: bool) -> Any:
    """Return user data as a launch template has it, ``None`` without any.

    Args:
        config: The ClusterConfig.
        group: The group.
        joins_by_itself: Whether only eksctl's user data names the cluster that the nodes join.
    """
    if str(ami_family(group)).startswith(BOTTLEROCKET):
        text = _toml(config, group, joins_by_itself)
    else:
        text = _mime(config, group, joins_by_itself)
    return {"Fn::Base64": Unknown(text)} if text else None


def _mime(config: Object, group: dict[str, Any], joins_by_itself: bool) -> str:
    scripts = [f"#!/bin/bash\n{each}" for each in items(group.get("preBootstrapCommands"))]
    configs = [{**_NODE_CONFIG, "spec": each} for each in _node_configs(config, group, joins_by_itself)]
    override = parse_embedded(config.origin.file, group.get("overrideBootstrapCommand"))
    configs += [override] if isinstance(override, dict) else []
    parts = [("text/x-shellscript", each) for each in scripts]
    parts += [("application/node.eks.aws", json.dumps(each, default=str)) for each in configs]
    if not parts:
        return ""
    body = "".join(f"--{_BOUNDARY}\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n{body}--{_BOUNDARY}--\n'


def _node_configs(config: Object, group: dict[str, Any], joins_by_itself: bool) -> Iterator[dict[str, Any]]:
    if joins_by_itself:
        flags = [f"--node-labels={','.join(f'{key}={value}' for key, value in group_labels(config, group).items())}"]
        taints = ",".join(map(_flag, group_taints(group)))
        yield {
            "cluster": {
                "name": metadata(config).get("name"),
                "apiServerEndpoint": _cluster_attribute(config, _ENDPOINT),
                "certificateAuthority": _cluster_attribute(config, _AUTHORITY),
                "cidr": _cluster_attribute(config, _RANGE),
            },
            "kubelet": {
                "flags": [*flags, *([f"--register-with-taints={taints}"] if taints else [])],
                "config": mapping(group.get("kubeletExtraConfig")),
            },
        }
    if group.get("maxPodsPerNode"):
        yield {"kubelet": {"config": {"maxPods": group["maxPodsPerNode"]}}}


def _cluster_attribute(config: Object, attribute: str) -> str:
    return f"${{{config.name}/Cluster.{attribute}}}"


def _flag(taint: dict[str, Any]) -> str:
    return f"{taint.get('key')}={taint.get('value') or ''}:{taint.get('effect')}"


def _toml(config: Object, group: dict[str, Any], joins_by_itself: bool) -> str:
    settings = mapping(dig(group, "bottlerocket", "settings"))
    taints = {str(each.get("key")): f"{each.get('value') or ''}:{each.get('effect')}" for each in group_taints(group)}
    cluster = {"cluster-name": metadata(config).get("name")}
    if joins_by_itself:
        cluster["api-server"] = _cluster_attribute(config, _ENDPOINT)
        cluster["cluster-certificate"] = _cluster_attribute(config, _AUTHORITY)
    written = {**mapping(settings.get("kubernetes")), "node-labels": group_labels(config, group), "node-taints": taints}
    if group.get("maxPodsPerNode"):
        written["max-pods"] = group["maxPodsPerNode"]
    return "\n".join(_lines(("settings",), {**settings, "kubernetes": {**written, **cluster}}))


def _lines(path: tuple[str, ...], value: Any) -> Iterator[str]:
    """Yield one line for each setting. Keys are quoted, because Kubernetes' keys have dots."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _lines((*path, str(key)), each)
    elif value is not None:
        yield f"{'.'.join(json.dumps(each) for each in path)} = {json.dumps(value, default=str)}"
