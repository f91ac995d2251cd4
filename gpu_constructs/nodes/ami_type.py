"""The EKS image of a managed node group's nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_facts.hardware.catalogue import Architecture
from gpu_facts.image_releases import OperatingSystem
from gpu_facts.kubernetes import OLDEST_KUBELET
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token
from gpu_facts.versions import KUBERNETES

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html (amiType), read 2026-09.
_NVIDIA: dict[tuple[OperatingSystem, Architecture], str] = {
    ("al2023", "x86_64"): "AL2023_x86_64_NVIDIA",
    ("al2023", "arm64"): "AL2023_ARM_64_NVIDIA",
    ("bottlerocket", "x86_64"): "BOTTLEROCKET_x86_64_NVIDIA",
    ("bottlerocket", "arm64"): "BOTTLEROCKET_ARM_64_NVIDIA",
}
# A release of AL2023 is for one Kubernetes patch version, a release of Bottlerocket for all minor versions.
_RELEASES: dict[OperatingSystem, tuple[re.Pattern[str], str]] = {
    "al2023": (re.compile(r"\d+\.\d+\.\d+-\d{8}", re.ASCII), "1.36.3-20260903"),
    "bottlerocket": (re.compile(r"\d+\.\d+\.\d+-[0-9a-f]{8}", re.ASCII), "1.34.0-18d04e52"),
}
LATEST = "latest"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """Version and image release of a managed node group. With ``None`` EKS chooses.

    Attributes:
        kubernetes_version: Minor version.
        ami_release: Release of the image.
    """

    kubernetes_version: str | None = None
    ami_release: str | None = None


def nvidia_ami_type(operating_system: OperatingSystem, architecture: Architecture) -> str:
    """Return the ``AmiType`` of a managed node group whose nodes have NVIDIA GPUs."""
    return _NVIDIA[operating_system, architecture]


def pinned_release(who: object, cluster: ClusterRef, operating_system: OperatingSystem, given: object) -> Release:
    """Return the Kubernetes version and image release of a managed node group, or nothing if EKS should choose.

    Without a release, EKS moves the group to its newest image whenever the launch template changes. Without a version,
    the group keeps its version when the cluster is upgraded.
    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html

    Raises:
        TypeError: ``given`` isn't a string.
        ValueError: EKS has no such release, or none for the Kubernetes version of the cluster.
    """
    version = cluster.stated_version
    if given == LATEST:
        return Release(kubernetes_version=version)
    if given is None:
        pinned = KUBERNETES.get(version or "") if operating_system == "al2023" else None
        return Release(kubernetes_version=version, ami_release=pinned.al2023.version if pinned else None)
    _refuse_unless_release(who, operating_system, given)
    own = _release_minor(who, str(given), version) if operating_system == "al2023" and version is not None else version
    return Release(kubernetes_version=own, ami_release=str(given))


def _release_minor(who: object, release: str, cluster_version: str) -> str:
    """Return the minor version of a release. A group may keep an older one when its cluster is upgraded.

    Raises:
        ValueError: It doesn't fit the cluster's version.
    """
    if is_token(release):
        return cluster_version
    own = release.rpartition(".")[0]
    (major, minor), (of_cluster, newest) = (map(int, each.split(".")) for each in (own, cluster_version))
    if major != of_cluster or not newest - OLDEST_KUBELET <= minor <= newest:
        raise ValueError(
            f"{who}: ami_release must be for Kubernetes {cluster_version} of the cluster, or for one of the "
            f"{OLDEST_KUBELET} minor versions before it, got {release!r}; use another release [GPU093]"
        )
    return own


def _refuse_unless_release(who: object, operating_system: OperatingSystem, given: object) -> None:
    pattern, example = _RELEASES[operating_system]
    if not isinstance(given, str):
        raise TypeError(f"{who}: ami_release must be a string, got {given!r}; write one such as {example!r}")
    if not is_token(given) and not pattern.fullmatch(given):
        raise ValueError(
            f"{who}: ami_release must be {LATEST!r} or a release name of EKS for {operating_system}, got {given!r}; "
            f"write one such as {example!r}"
        )
