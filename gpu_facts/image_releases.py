"""Releases of EKS' NVIDIA images: drivers and known faults; operating systems."""

from __future__ import annotations

import re
from typing import Literal, get_args

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import refuse_unless_choice

# NVIDIA's driver branches: the one with long-term support, and the production branch.
LTS, PRODUCTION = 580, 595
DRIVER_BRANCHES = (LTS, PRODUCTION)
# The branch before the LTS branch.
_BEFORE_LTS = 570
# Names of the branches in Bottlerocket's setting settings.kernel.drivers.nvidia.branch, which selects one for all
# types.
BOTTLEROCKET_BRANCHES = {"lts": LTS, "pb": PRODUCTION}
# An image with both branches boots the first one that supports every GPU of the node.
# Source: awslabs/amazon-eks-ami 46d3c70a templates/al2023/runtime/gpu/resolve-nvidia-driver.sh (2026-11-21)
_AL2023_WITH_BOTH = "20260917"
# The first release of each minor version with 580, and from 1.34 the earliest. Releases since April 2025 had 570
# before.
# Source: awslabs/amazon-eks-ami v20260724 CHANGELOG.md (2026-11-21)
_AL2023_WITH_LTS = {
    **dict.fromkeys(("1.29", "1.30"), "20251120"),
    **dict.fromkeys(("1.31", "1.32"), "20251108"),
    "1.33": "20251029",
}
_AL2023_FIRST_WITH_LTS, _AL2023_SURELY_WITH_LTS, _AL2023_FIRST_STATED = "20251023", "20251120", "20250501"
# Source: https://github.com/bottlerocket-os/bottlerocket/releases/tag/v1.66.0 and v1.68.0 (2026-11-21)
_BOTTLEROCKET_1_37_WITH_BOTH = (1, 66)
_BOTTLEROCKET_WITH_BOTH = (1, 68)
# The kernel of Kubernetes 1.36 without FIPS is different, and no release notes state that it got the second branch.
_UNSTATED = (1, 36)
# The first releases of AL2023: of the variant with NVIDIA's driver, and of the variant without. The newest release that
# was read is v20260714.
# Source: awslabs/amazon-eks-ami 81fec2e CHANGELOG.md (2026-11-24)
AL2023_FIRST_WITH_NVIDIA, AL2023_FIRST = "20241024", "20240213"
# GiB of the snapshot behind /dev/xvda in each of them.
# Sources: https://github.com/awslabs/amazon-eks-ami/pull/1581, 81fec2e templates/al2023/variables-default.json,
# https://github.com/cilium/cilium/pull/43051 (2026-11-24)
AL2023_SNAPSHOT_GIB = 20
NEWEST = "latest"
_DATE = regex(r"(?:v|\d+\.\d+\.\d+-)(\d{8})")
_MINOR = regex(r"(\d+)\.(\d+)", re.ASCII)
_VERSION = regex(r"v?(\d+)\.(\d+)\.\d+(?:-[0-9a-f]{8})?")
# The newest release that was read and has none of the faults.
NEWEST_WITHOUT_FAULT = "v20261012"
# Suggested releases for types that need the second branch, for messages.
TAKE_WITH_BOTH = {"al2023": repr(NEWEST_WITHOUT_FAULT), "bottlerocket": "'1.68.0' or newer"}
OperatingSystem = Literal["al2023", "bottlerocket"]


def driver_branches(
    operating_system: str, release: str | None, kubernetes_version: str | None, *, fips: bool = False
) -> tuple[int, ...] | None:
    """Return the driver branches of an image that EKS publishes, or ``None`` if no source states them.

    Args:
        operating_system: ``al2023`` or ``bottlerocket``.
        release: Release name of EKS or Karpenter, ``latest`` for the newest, or ``None`` if it is unknown.
        kubernetes_version: Minor version of the image, or ``None`` if it is unknown.
        fips: Whether it is a FIPS variant of Bottlerocket.
    """
    if operating_system == "al2023":
        return _al2023_branches(release, kubernetes_version)
    return (
        _bottlerocket_branches(release, kubernetes_version, fips=fips) if operating_system == "bottlerocket" else None
    )


def _al2023_branches(release: str | None, kubernetes_version: str | None) -> tuple[int, ...] | None:
    if release == NEWEST:
        return DRIVER_BRANCHES
    date = release_date(release)
    if date is None or date < _AL2023_FIRST_STATED:
        return None
    if date < _first_with_lts(kubernetes_version):
        # The months between don't determine the branch of an image without a known version.
        known = kubernetes_version is not None or date < _AL2023_FIRST_WITH_LTS
        return (_BEFORE_LTS,) if known else None
    return DRIVER_BRANCHES if date >= _AL2023_WITH_BOTH else (LTS,)


def _first_with_lts(kubernetes_version: str | None) -> str:
    if kubernetes_version is None:
        return _AL2023_SURELY_WITH_LTS
    return _AL2023_WITH_LTS.get(kubernetes_version, _AL2023_FIRST_WITH_LTS)


def _bottlerocket_branches(
    release: str | None, kubernetes_version: str | None, *, fips: bool
) -> tuple[int, ...] | None:
    version = _bottlerocket_version(release)
    if version is None:
        return None
    if version < _BOTTLEROCKET_1_37_WITH_BOTH:
        return (LTS,)
    if kubernetes_version is None:
        return None
    named = _MINOR.fullmatch(kubernetes_version)
    if named is None:
        return None
    minor = (int(named[1]), int(named[2]))
    if minor > _UNSTATED:
        return DRIVER_BRANCHES
    if version < _BOTTLEROCKET_WITH_BOTH:
        return (LTS,)
    return None if minor == _UNSTATED and not fips else DRIVER_BRANCHES


def _bottlerocket_version(release: str | None) -> tuple[float, ...] | None:
    if release == NEWEST:
        return (float("inf"),)
    found = _VERSION.fullmatch(release or "")
    return (int(found[1]), int(found[2])) if found else None


def release_date(release: str | None) -> str | None:
    """Return the date of a release of AL2023, ``20260714`` for ``v20260714`` or ``1.36.2-20260714``."""
    found = _DATE.fullmatch(release or "")
    return found[1] if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A fault of some releases of AL2023.

    Attributes:
        first: Date of the first release with it.
        last: Date of the last one.
        mended: Release with the fix.
        what: Effect of the fault.
        kubernetes: Minor versions whose images have it, or empty for all.
        gpu_only: Whether it affects only nodes with GPUs.
        source: Place where it was read.
        as_of: Day on which it was read, ISO 8601.
    """

    first: str
    last: str
    mended: str
    what: str
    kubernetes: tuple[str, ...] = ()
    gpu_only: bool = False
    source: str
    as_of: str

    def affects(self, release: str | None, kubernetes_version: str | None) -> bool:
        """Whether a release for a minor version has it. Without a version, whether any of its images has it."""
        date = release_date(release)
        concerns = not self.kubernetes or kubernetes_version is None or kubernetes_version in self.kubernetes
        return date is not None and self.first <= date <= self.last and concerns


FAULTS = (
    Fault(
        first="20260917",
        last="20260923",
        mended="v20260930",
        what="programs that load NVML without CDI do not find it, such as an older toolkit of the GPU operator",
        gpu_only=True,
        source="https://github.com/awslabs/amazon-eks-ami/issues/2834",
        as_of="2026-11-21",
    ),
    Fault(
        first="20260930",
        last="20261003",
        mended="v20261012",
        what="kernel 6.12.110 panics while it reclaims memory, and nodes restart",
        kubernetes=("1.31", "1.32", "1.33", "1.34", "1.35"),
        source="https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261012",
        as_of="2026-11-21",
    ),
)


def refuse_unless_operating_system(who: object, operating_system: object) -> None:
    """Reject an operating system that has no NVIDIA image for current Kubernetes versions.

    Raises:
        ValueError: The value isn't one of `OperatingSystem`.
    """
    if isinstance(operating_system, str) and operating_system.lower() in ("al2", "amazon-linux-2"):
        raise ValueError(
            f"{who}: operating_system must be one of {', '.join(get_args(OperatingSystem))}, got {operating_system!r}; "
            "use 'al2023', because AWS published the last Amazon Linux 2 image on 2025-11-26"
        )
    refuse_unless_choice(who, "operating_system", operating_system, get_args(OperatingSystem))
