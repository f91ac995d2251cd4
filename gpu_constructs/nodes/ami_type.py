"""Which EKS image a node boots."""

from __future__ import annotations

from gpu_constructs.hardware.catalogue import Architecture
from gpu_constructs.pools.operating_system import OperatingSystem

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html (amiType), read 2026-09.
_NVIDIA: dict[tuple[OperatingSystem, Architecture], str] = {
    ("al2023", "x86_64"): "AL2023_x86_64_NVIDIA",
    ("al2023", "arm64"): "AL2023_ARM_64_NVIDIA",
    ("bottlerocket", "x86_64"): "BOTTLEROCKET_x86_64_NVIDIA",
    ("bottlerocket", "arm64"): "BOTTLEROCKET_ARM_64_NVIDIA",
}


def nvidia_ami_type(operating_system: OperatingSystem, architecture: Architecture) -> str:
    """Return the ``AmiType`` of a managed node group whose nodes have NVIDIA GPUs."""
    return _NVIDIA[operating_system, architecture]
