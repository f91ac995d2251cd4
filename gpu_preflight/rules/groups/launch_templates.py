"""Launch templates that EKS or EC2 refuses."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_given, is_visible, launched_groups
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.unknown import Unknown, is_true, known_text, mapping, mappings
from gpu_preflight.reading.user_data import MAX_BYTES, UserData
from gpu_preflight.rules.rule import Problem, rule

_SUPPORT = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_MIME = ("mime-version", "content-type")


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in launched_groups(cluster) if pool.kind == "managed"]


@rule("GPU040", "error", source=_SUPPORT)
def launch_template_with_what_a_managed_group_must_not_have(case: Case) -> Iterator[Problem]:
    """Launch template with what a managed group must not have.

    EKS sets these itself and refuses the node group.

    Fix: Remove it; subnets, role and CapacityType belong to the node group.
    """
    for pool in _managed(case.cluster):
        names = list(_forbidden_parts(pool))
        if names:
            yield Problem.of(pool, f"the launch template must not have {', '.join(names)}")


def _forbidden_parts(pool: Pool) -> Iterator[str]:
    launch = pool.launch
    if any(is_given(each.subnet) for each in launch.interfaces):
        yield "NetworkInterfaces.SubnetId"
    if is_given(launch.profile):
        yield "IamInstanceProfile"
    if launch.market == "spot":
        yield "InstanceMarketOptions.MarketType spot"
    if is_true(launch.hibernates):
        yield "HibernationOptions"
    if is_given(launch.shutdown):
        yield "InstanceInitiatedShutdownBehavior"


@rule("GPU041", "error", source=_SUPPORT)
def instance_types_in_two_places_or_in_none(case: Case) -> Iterator[Problem]:
    """Instance types in two places, or in none.

    EKS refuses types in both group and launch template; in neither it takes t3.medium, which has no GPU.

    Fix: Name the types once: InstanceTypes of the group, or InstanceType of the launch template.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        group, template = pool.properties.get("InstanceTypes"), pool.launch.instance_type
        if is_given(group) and is_given(template):
            yield Problem.of(pool, "instance types in the group and in its launch template")
        elif group is None and template is None and pool.launch.attributes is None:
            ami_type = known_text(pool.properties.get("AmiType")) or ""
            if "NVIDIA" in ami_type:
                yield Problem.of(pool, f"{ami_type} without instance type is a t3.medium")


@rule("GPU042", "error", source=_SUPPORT)
def disk_size_or_remote_access_beside_a_launch_template(case: Case) -> Iterator[Problem]:
    """Disk size or remote access beside a launch template.

    EKS refuses the node group.

    Fix: Size the disk by BlockDeviceMappings and name the key in the launch template.
    """
    for pool in case.cluster.pools:
        names = [name for name in ("DiskSize", "RemoteAccess") if is_given(pool.properties.get(name))]
        if pool.kind == "managed" and names and is_given(pool.properties.get("LaunchTemplate")):
            yield Problem.of(pool, f"{' and '.join(names)} beside a launch template")


@rule("GPU043", "error", source=_SUPPORT)
def image_named_twice_or_not_at_all(case: Case) -> Iterator[Problem]:
    """Image named twice, or not at all.

    With ImageId in the launch template EKS refuses AmiType, Version and ReleaseVersion; CUSTOM needs one.

    Fix: Keep either ImageId in the launch template, or AmiType, Version and ReleaseVersion of the group.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        given = [name for name in ("AmiType", "Version", "ReleaseVersion") if is_given(pool.properties.get(name))]
        custom = pool.properties.get("AmiType") == "CUSTOM"
        beside = [name for name in given if not (name == "AmiType" and custom)]
        if is_given(pool.launch.image) and beside:
            yield Problem.of(pool, f"{', '.join(beside)} beside ImageId in the launch template")
        elif custom and pool.launch.image is None:
            yield Problem.of(pool, "AmiType CUSTOM, but no ImageId in a launch template")


@rule("GPU055", "error", source=_SUPPORT)
def user_data_that_ec2_or_eks_refuses(case: Case) -> Iterator[Problem]:
    """User data that EC2 or EKS refuses.

    The node group fails with Ec2LaunchTemplateInvalidConfiguration, or the node never joins.

    Fix: Write a MIME multipart message for AL2023 or TOML for Bottlerocket, in base64 and at most 16 KB.
    """
    for pool in launched_groups(case.cluster):
        size = len((pool.user_data.text or "").encode(errors="replace"))
        partly = isinstance(mapping(pool.launch.user_data).get("Fn::Base64"), Unknown)
        why = f"has {size} bytes, EC2 takes {MAX_BYTES}" if size > MAX_BYTES else _misformed(pool)
        if why:
            yield Problem.of(pool, f"user data {why}", unknown=partly)
    for pool in case.cluster.pools:
        text = pool.user_data.text or ""
        if pool.kind == "karpenter" and pool.operating_system == "bottlerocket" and text.strip() and _is_no_toml(pool):
            yield Problem.of(pool, "user data is no TOML, into which Karpenter writes", unknown="${" in text)


def _is_no_toml(pool: Pool) -> bool:
    """Whether Karpenter cannot read what it is to add to, so that it launches nothing; it adds to no custom family.

    Source: aws/karpenter-provider-aws 009da959 pkg/providers/amifamily/bootstrap/bottlerocket.go, custom.go ``Script``
    """
    if pool.node_class is None or pool.node_class.spec.get("amiFamily") == "Custom":
        return False
    return pool.user_data.format in ("nodeadm", "script") or pool.user_data.problem is not None


def _misformed(pool: Pool) -> str | None:
    data, raw = pool.user_data, pool.launch.user_data
    if data.text is None:
        return None if isinstance(raw, str) and _is_base64(raw) else data.problem
    if pool.operating_system == "bottlerocket" or (pool.operating_system == "al2023" and _is_mime(data)):
        return data.problem if data.format == "unknown" else None
    merged = pool.kind == "managed" and pool.operating_system in ("al2023", "al2") and pool.launch.image is None
    fits = data.format == "nodeadm" or _is_mime(data)
    return "is no MIME message, which EKS merges" if merged and not fits else None


def _is_mime(data: UserData) -> bool:
    return (data.text or "").lstrip().lower().startswith(_MIME)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@rule("GPU056", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html")
def tag_that_only_aws_may_set(case: Case) -> Iterator[Problem]:
    """Tag that only AWS may set.

    AWS refuses the tag, and with it the node group or each launch.

    Fix: Rename the tag; 'aws:' is reserved.
    """
    for pool in case.cluster.pools:
        keys = [key for key in _tag_keys(pool) if key.lower().startswith("aws:")]
        if pool.is_group and keys:
            yield Problem.of(pool, f"{', '.join(keys)} is a tag that only AWS may set")


def _tag_keys(pool: Pool) -> list[str]:
    tags = pool.properties.get("Tags")
    listed = [*mappings(tags)]
    for each in pool.launch.tags:
        listed += mappings(each.get("Tags"))
    return [*mapping(tags), *(key for each in listed if (key := known_text(each.get("Key"))))]
