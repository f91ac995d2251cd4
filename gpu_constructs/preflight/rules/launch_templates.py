"""Launch templates that EKS or EC2 refuses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from gpu_constructs.preflight.launch import is_given, is_visible, launched_groups, market
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, is_true, known_text, mapping, mappings
from gpu_constructs.preflight.user_data import MAX_BYTES

_SUPPORT = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_MIME = ("mime-version", "content-type")


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in launched_groups(cluster) if pool.kind == "managed"]


def _forbidden(cluster: Cluster) -> Iterator[Problem]:
    for pool in _managed(cluster):
        names = list(_forbidden_parts(pool))
        if names:
            yield Problem(pool.origin, f"pool {pool.name}: the launch template must not have {', '.join(names)}")


def _forbidden_parts(pool: Pool) -> Iterator[str]:
    launch = pool.launch
    if any(is_given(each.get("SubnetId")) for each in mappings(launch.get("NetworkInterfaces"))):
        yield "NetworkInterfaces.SubnetId"
    if is_given(launch.get("IamInstanceProfile")):
        yield "IamInstanceProfile"
    if market(pool) == "spot":
        yield "InstanceMarketOptions.MarketType spot"
    if is_true(mapping(launch.get("HibernationOptions")).get("Configured")):
        yield "HibernationOptions"
    if is_given(launch.get("InstanceInitiatedShutdownBehavior")):
        yield "InstanceInitiatedShutdownBehavior"


def _types_in_two_places(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        group, template = pool.properties.get("InstanceTypes"), pool.launch.get("InstanceType")
        if is_given(group) and is_given(template):
            yield Problem(pool.origin, f"pool {pool.name}: instance types in the group and in its launch template")
        elif group is None and template is None and pool.launch.get("InstanceRequirements") is None:
            ami_type = known_text(pool.properties.get("AmiType")) or ""
            if "NVIDIA" in ami_type:
                yield Problem(pool.origin, f"pool {pool.name}: {ami_type} without instance type is a t3.medium")


def _beside_template(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        names = [name for name in ("DiskSize", "RemoteAccess") if is_given(pool.properties.get(name))]
        if pool.kind == "managed" and names and is_given(pool.properties.get("LaunchTemplate")):
            yield Problem(pool.origin, f"pool {pool.name}: {' and '.join(names)} beside a launch template")


def _image_twice(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        given = [name for name in ("AmiType", "Version", "ReleaseVersion") if is_given(pool.properties.get(name))]
        custom = pool.properties.get("AmiType") == "CUSTOM"
        beside = [name for name in given if not (name == "AmiType" and custom)]
        if is_given(pool.launch.get("ImageId")) and beside:
            yield Problem(pool.origin, f"pool {pool.name}: {', '.join(beside)} beside ImageId in the launch template")
        elif custom and pool.launch.get("ImageId") is None:
            yield Problem(pool.origin, f"pool {pool.name}: AmiType CUSTOM, but no ImageId in a launch template")


def _unusable_user_data(cluster: Cluster) -> Iterator[Problem]:
    for pool in launched_groups(cluster):
        size = len((pool.user_data.text or "").encode(errors="replace"))
        partly = isinstance(mapping(pool.launch.get("UserData")).get("Fn::Base64"), Unknown)
        why = f"has {size} bytes, EC2 takes {MAX_BYTES}" if size > MAX_BYTES else _misformed(pool)
        if why:
            yield Problem(pool.origin, f"pool {pool.name}: user data {why}", unknown=partly)


def _misformed(pool: Pool) -> str | None:
    data, raw = pool.user_data, pool.launch.get("UserData")
    if data.text is None:
        return data.problem if isinstance(raw, str) and not _is_base64(raw) else None
    if pool.operating_system == "bottlerocket":
        return data.problem if data.format == "unknown" else None
    merged = pool.kind == "managed" and pool.operating_system in ("al2023", "al2") and "ImageId" not in pool.launch
    fits = data.format == "nodeadm" or data.text.lstrip().lower().startswith(_MIME)
    return "is no MIME message, which EKS merges" if merged and not fits else None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _reserved_tags(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        keys = [key for key in _tag_keys(pool) if key.lower().startswith("aws:")]
        if pool.is_group and keys:
            yield Problem(pool.origin, f"pool {pool.name}: {', '.join(keys)} is a tag that only AWS may set")


def _tag_keys(pool: Pool) -> list[str]:
    tags = pool.properties.get("Tags")
    listed = [*mappings(tags)]
    for each in mappings(pool.launch.get("TagSpecifications")):
        listed += mappings(each.get("Tags"))
    return [*mapping(tags), *(key for each in listed if (key := known_text(each.get("Key"))))]


RULES = (
    Rule(
        id="GPU040",
        severity="error",
        title="Launch template with what a managed group must not have",
        why="EKS sets these itself and refuses the node group.",
        source=_SUPPORT,
        fix="Remove it; subnets, role and CapacityType belong to the node group.",
        causes=("B1",),
        check=_forbidden,
    ),
    Rule(
        id="GPU041",
        severity="error",
        title="Instance types in two places, or in none",
        why="EKS refuses types in both group and launch template; in neither it takes t3.medium, which has no GPU.",
        source=_SUPPORT,
        fix="Name the types once: InstanceTypes of the group, or InstanceType of the launch template.",
        causes=("B2",),
        check=_types_in_two_places,
    ),
    Rule(
        id="GPU042",
        severity="error",
        title="Disk size or remote access beside a launch template",
        why="EKS refuses the node group.",
        source=_SUPPORT,
        fix="Size the disk by BlockDeviceMappings and name the key in the launch template.",
        causes=("B3", "P081"),
        check=_beside_template,
    ),
    Rule(
        id="GPU043",
        severity="error",
        title="Image named twice, or not at all",
        why="With ImageId in the launch template EKS refuses AmiType, Version and ReleaseVersion; CUSTOM needs one.",
        source=_SUPPORT,
        fix="Keep either ImageId in the launch template, or AmiType, Version and ReleaseVersion of the group.",
        causes=("B4",),
        check=_image_twice,
    ),
    Rule(
        id="GPU055",
        severity="error",
        title="User data that EC2 or EKS refuses",
        why="The node group fails with Ec2LaunchTemplateInvalidConfiguration, or the node never joins.",
        source=_SUPPORT,
        fix="Write a MIME multipart message for AL2023 or TOML for Bottlerocket, in base64 and at most 16 KB.",
        causes=("B21",),
        check=_unusable_user_data,
    ),
    Rule(
        id="GPU056",
        severity="error",
        title="Tag that only AWS may set",
        why="AWS refuses the tag, and with it the node group or each launch.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html",
        fix="Rename the tag; 'aws:' is reserved.",
        causes=("B22",),
        check=_reserved_tags,
    ),
)
