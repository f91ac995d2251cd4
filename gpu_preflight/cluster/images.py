"""The image of a pool: operating system, CPU architecture, and whether it contains NVIDIA's driver.

Sources: https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html,
https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html (2026-08)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.hardware.catalogue import Architecture
from gpu_facts.image_releases import BOTTLEROCKET_BRANCHES, LTS, NEWEST, driver_branches
from gpu_facts.light import regex
from gpu_preflight.model.answer import Answer, yes_if
from gpu_preflight.model.cluster import OperatingSystem, Pool
from gpu_preflight.reading.unknown import Unknown, choices, dig, known_text, mappings

_BY_PREFIX: tuple[tuple[str, OperatingSystem], ...] = (
    ("AL2023_", "al2023"),
    ("AL2_", "al2"),
    ("BOTTLEROCKET_", "bottlerocket"),
    ("WINDOWS_", "windows"),
)
# Parts of an image's SSM parameter. The first match decides.
_BY_PARAMETER: tuple[tuple[str, OperatingSystem], ...] = (
    ("bottlerocket", "bottlerocket"),
    ("amazon-linux-2023", "al2023"),
    ("amazon-linux-2", "al2"),
    ("windows", "windows"),
    ("ubuntu", "custom"),
)
# Canonical's images for EKS don't contain NVIDIA's driver.
# Source: https://docs.aws.amazon.com/eks/latest/eksctl/gpu-support.html (2026-08)
_OF_EKS = "/optimized-ami/"
_OF_CANONICAL = "/canonical/ubuntu/"
_FAMILIES: Mapping[str, OperatingSystem] = {
    "AL2023": "al2023",
    "Bottlerocket": "bottlerocket",
    "AL2": "al2",
    "Windows2019": "windows",
    "Windows2022": "windows",
    "Windows2025": "windows",
}

# Minor version and release in the name of an image or in its SSM parameter.
_MINOR_OF_RELEASE = regex(r"(\d+\.\d+)\.\d+-\d{8}$")
_AL2023_IMAGE = regex(r"-(\d+\.\d+)-(v\d{8})")
_BOTTLEROCKET_IMAGE = regex(r"aws-k8s-(\d+\.\d+)-nvidia(?:-fips)?/[^/]+/([\w.]+)/")
# Parameters and names of plain images. Other AL2023 names may match its NVIDIA variant too.
_PLAIN_IMAGE = regex(
    r"^/aws/service/(?:eks/optimized-ami/[\w.]+/(?:amazon-linux-2023/\w+/standard|amazon-linux-2(?:-arm64)?)"
    r"|bottlerocket/aws-k8s-[\d.]+(?:-fips)?)/|^amazon-eks-node-al2023-\w+-standard-"
)
_NEWEST_IMAGE = regex(r"/optimized-ami/(\d+\.\d+)/.*/recommended/")


def group_system(ami_type: Any, image: Any, user_data_format: str) -> OperatingSystem:
    """Return the operating system of a node group or an Auto Scaling group."""
    if image is None and ami_type is None:
        return "al2023"
    names = [known_text(each) for each in choices(ami_type)]
    systems = {_operating_system(name) for name in names if name and name != "CUSTOM"}
    if systems and "CUSTOM" not in names:
        return systems.pop() if len(systems) == 1 else "unknown"
    text = str(image)
    named = next((system for part, system in _BY_PARAMETER if part in text), None)
    by_format: dict[str, OperatingSystem] = {"toml": "bottlerocket", "nodeadm": "al2023"}
    return named or by_format.get(user_data_format, "custom")


def _operating_system(ami_type: str) -> OperatingSystem:
    return next((system for prefix, system in _BY_PREFIX if ami_type.startswith(prefix)), "unknown")


def class_system(spec: Mapping[str, Any]) -> OperatingSystem:
    """Return the operating system of an EC2NodeClass."""
    for term in mappings(spec.get("amiSelectorTerms")):
        family = (known_text(term.get("alias")) or "").partition("@")[0]
        for name, system in _FAMILIES.items():
            if family and family == name.lower():
                return system
    named = known_text(spec.get("amiFamily"))
    return _FAMILIES.get(named, "custom") if named else "unknown"


def pool_image(pool: Pool) -> Any:
    """Return the image that a pool names: an id, an expression, or ``None``."""
    return pool.launch.image


def has_driver(pool: Pool) -> Answer:
    """Return whether a pool's image contains NVIDIA's driver."""
    if pool.kind == "auto-mode":
        return Answer.YES
    if pool.kind == "karpenter":
        # Karpenter chooses the accelerated variant of an alias by the instance type.
        if any(pool.launch.aliases) or _selects_nvidia(pool):
            return Answer.YES
        return Answer.NO if plain_images(pool) and not pool.user_data.scripts else Answer.UNKNOWN
    ami_type = pool.properties.get("AmiType")
    names = [known_text(each) for each in choices(ami_type)]
    if names and "CUSTOM" not in names:
        answers = {yes_if("NVIDIA" in str(name) or name == "AL2_x86_64_GPU") for name in names}
        return answers.pop() if len(answers) == 1 else Answer.UNKNOWN
    image = pool_image(pool)
    if image is None:
        return Answer.UNKNOWN if isinstance(ami_type, Unknown) or pool.kind == "self-managed" else Answer.NO
    text = str(image)
    if "/optimized-ami/" in text or "/bottlerocket/" in text:
        return yes_if("nvidia" in text or "-gpu" in text)
    # A script may install the driver.
    bare = _OF_CANONICAL in text and not pool.user_data.scripts
    return Answer.NO if bare else Answer.UNKNOWN


def always_has_driver(pool: Pool) -> bool:
    """Whether all nodes of a pool certainly boot an image with NVIDIA's driver, for every instance type."""
    return _selects_nvidia(pool) if pool.kind == "karpenter" else pool.is_group and has_driver(pool) is Answer.YES


def _selects_nvidia(pool: Pool) -> bool:
    """Whether an EC2NodeClass selects images only by names or parameters of NVIDIA's variant."""
    names = [known_text(each.get("ssmParameter")) or known_text(each.get("name")) for each in pool.launch.image_terms]
    return bool(names) and all(each is not None and "nvidia" in each for each in names)


def plain_images(pool: Pool) -> tuple[str, ...]:
    """Return the image terms of an EC2NodeClass, if all of them name EKS images without NVIDIA's driver.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html (2026-11-24)
    """
    names = [
        known_text(each.get("ssmParameter")) or known_text(each.get("name")) or "" for each in pool.launch.image_terms
    ]
    return tuple(names) if all(map(_PLAIN_IMAGE.search, names)) else ()


def is_image_of_eks(pool: Pool) -> bool:
    """Whether a pool names an image that EKS publishes."""
    if pool.kind == "karpenter":
        named = [str(each.get("alias") or each.get("ssmParameter")) for each in pool.launch.image_terms]
        return bool(named) and all("@" in each or _OF_EKS in each for each in named)
    image = pool_image(pool)
    typed = known_text(pool.properties.get("AmiType")) not in (None, "CUSTOM")
    return pool.is_group and (_OF_EKS in str(image) if image is not None else typed)


def image_architecture(pool: Pool) -> Architecture | None:
    """Return the CPU architecture of a pool's image, or ``None`` if it isn't known."""
    text = known_text(pool.properties.get("AmiType")) or ""
    if text in ("", "CUSTOM"):
        text = str(pool_image(pool) or "")
    if "ARM_64" in text or "arm64" in text:
        return "arm64"
    return "x86_64" if "x86_64" in text or pool.properties.get("AmiType") == "AL2_x86_64_GPU" else None


def ami_alias(pool: Pool) -> str | None:
    """Return the alias of an EC2NodeClass, e.g. ``al2023@latest``."""
    aliases = map(known_text, pool.launch.aliases)
    return next((each for each in aliases if each), None)


def ami_release(pool: Pool) -> str | None:
    """Return the release of the EKS image that nodes of a pool boot: ``latest`` for the newest, ``None`` if unknown."""
    if pool.kind == "karpenter":
        return (ami_alias(pool) or "").partition("@")[2] or None
    if named := _parameter(pool):
        return named[1]
    given = pool.properties.get("ReleaseVersion")
    if pool.kind != "managed" or pool_image(pool) is not None:
        return None
    return NEWEST if given is None else known_text(given)


def image_version(pool: Pool, cluster_version: str | None) -> str | None:
    """Return the minor version of a pool's image: from its name or release, from the group, or from the cluster.

    ``None`` if none of them is known.
    """
    if named := _parameter(pool):
        return named[0]
    if stated := _MINOR_OF_RELEASE.match(ami_release(pool) or ""):
        return stated[1]
    own = pool.properties.get("Version")
    return cluster_version if own is None else known_text(own)


def _parameter(pool: Pool) -> tuple[str, str] | None:
    text = str(pool_image(pool) or "")
    if found := _AL2023_IMAGE.search(text) or _BOTTLEROCKET_IMAGE.search(text):
        return found[1], found[2]
    newest = _NEWEST_IMAGE.search(text)
    return (newest[1], NEWEST) if newest else None


def pool_driver_branches(pool: Pool, cluster_version: str | None) -> tuple[int, ...] | None:
    """Return the branches of NVIDIA's driver that nodes of a pool may load; ``None`` if no source states them."""
    pinned = known_text(dig(pool.user_data.settings, "kernel", "drivers", "nvidia", "branch"))
    fips = "FIPS" in str(pool.properties.get("AmiType")) or "-fips" in str(pool_image(pool))
    version = image_version(pool, cluster_version)
    carried = driver_branches(pool.operating_system, ami_release(pool), version, fips=fips)
    one = BOTTLEROCKET_BRANCHES.get(pinned or "") if pool.operating_system == "bottlerocket" else None
    # A release with one branch ignores the setting.
    return (one,) if one == LTS or (one and one in (carried or ())) else carried
