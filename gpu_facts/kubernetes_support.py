"""How long EKS supports each minor version of Kubernetes, what that costs in the end, and which Karpenter is for it."""

from __future__ import annotations

from gpu_facts.light import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """How long EKS supports a minor version. Support ends at midnight UTC, when the day begins.

    Attributes:
        standard_ends: Day on which standard support ends, ISO 8601.
        extended_ends: Day on which extended support ends.
        source: Where they were read.
        as_of: Day they were read.
    """

    standard_ends: str
    extended_ends: str
    source: str = "https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html"
    as_of: str = "2026-11-21"


_PLATFORM_VERSIONS = "https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html"
_QUOTED = f"{_PLATFORM_VERSIONS}; eks:DescribeClusterVersions as somebody quoted it on 2026-07-28"
_COUNTED = f"{_PLATFORM_VERSIONS}; not stated, but 14 and 26 months after EKS opened it"
SUPPORT = {
    "1.31": Support(standard_ends="2025-11-26", extended_ends="2026-11-26"),
    "1.32": Support(standard_ends="2026-03-23", extended_ends="2027-03-23"),
    "1.33": Support(standard_ends="2026-07-29", extended_ends="2027-07-29"),
    "1.34": Support(standard_ends="2026-12-02", extended_ends="2027-12-02", source=_PLATFORM_VERSIONS),
    "1.35": Support(standard_ends="2027-03-27", extended_ends="2028-03-27", source=_PLATFORM_VERSIONS),
    "1.36": Support(standard_ends="2027-08-02", extended_ends="2028-08-02", source=_QUOTED),
    "1.37": Support(standard_ends="2027-12-02", extended_ends="2028-12-02", source=_COUNTED),
}
# Minor versions that kubelet and kube-proxy may be behind the API server; neither may be ahead of it.
# Source: https://kubernetes.io/releases/version-skew-policy/ (2026-11-22)
OLDEST_KUBELET = 3
# The least Karpenter for Kubernetes 1.31, 1.32, ..., by the number of the minor version.
# Source: https://karpenter.sh/v1.15/upgrading/compatibility/ (2026-11-21)
LEAST_KARPENTER = {31: (1, 0), 32: (1, 2), 33: (1, 5), 34: (1, 6), 35: (1, 9), 36: (1, 13), 37: (1, 15)}
# What an hour in extended support costs more, US dollars a cluster.
# Source: https://aws.amazon.com/eks/pricing/, as texts of 2026 quote it (2026-11-21)
EXTENDED_SUPPORT_USD_PER_HOUR = 0.5
# The last version whose extended support has ended, on 2026-07-23 (same source).
_SUPPORT_ENDED = (1, 30)
_FIRST_ON_EKS = (1, 10)


def is_ended(minor: str) -> bool:
    """Whether EKS runs a minor version no more; of words that are no version it does not know."""
    numbers = minor.split(".")
    if len(numbers) != 2 or not all(each.isdecimal() and each.isascii() for each in numbers):
        return False
    return _FIRST_ON_EKS <= (int(numbers[0]), int(numbers[1])) <= _SUPPORT_ENDED


def how_support_ended(minor: str) -> str:
    """Return that EKS ended its support of a minor version, and when, as the beginning of a sentence; else nothing."""
    if support := SUPPORT.get(minor):
        return f"EKS ended its standard support on {support.standard_ends}, "
    return "EKS ended its support, " if is_ended(minor) else ""
