"""The two node operating systems with NVIDIA images, and what differs between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from gpu_constructs.pools.disk import Disk
from gpu_constructs.refusals import refuse_unless_one_of

OperatingSystem = Literal["al2023", "bottlerocket"]
# Who tells Kubernetes about the GPUs of a node: a DaemonSet, or the image itself. The first is the default.
DeviceManager = Literal["device-plugin", "gpu-operator", "dra", "bottlerocket"]
_DEVICE_MANAGERS: dict[OperatingSystem, tuple[DeviceManager, ...]] = {
    "al2023": ("device-plugin", "gpu-operator", "dra"),
    "bottlerocket": ("bottlerocket", "dra"),
}

# Bottlerocket's first volume holds the OS only; Karpenter's default size for it.
# Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bottlerocket.go
BOTTLEROCKET_OS_GIB = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """One EBS volume of a node.

    Attributes:
        device: Device name the image expects.
        disk: What it is.
        size_gib: Size, in GiB; differs from the disk's on Bottlerocket's OS volume.
    """

    device: str
    disk: Disk
    size_gib: int


def refuse_unless_operating_system(who: object, operating_system: object) -> None:
    """Refuse an operating system that has no NVIDIA image for current Kubernetes versions.

    Raises:
        ValueError: It is none of `OperatingSystem`.
    """
    if isinstance(operating_system, str) and operating_system.lower() in ("al2", "amazon-linux-2"):
        raise ValueError(
            f"{who}: operating_system must be one of {', '.join(get_args(OperatingSystem))}, got "
            f"{operating_system!r}; AWS published the last Amazon Linux 2 image on 2025-11-26, use 'al2023'"
        )
    refuse_unless_one_of(who, "operating_system", operating_system, get_args(OperatingSystem))


def device_manager_for(who: object, operating_system: OperatingSystem, given: object) -> DeviceManager:
    """Return who advertises the GPUs. Bottlerocket's images contain the device plugin, AL2023's do not.

    Raises:
        ValueError: The operating system leaves the GPUs to another.
    """
    able = _DEVICE_MANAGERS[operating_system]
    if given is None:
        return able[0]
    if operating_system == "bottlerocket" and given == "gpu-operator":
        raise ValueError(
            f"{who}: device_manager must be one of {', '.join(able)} on bottlerocket, whose image has all that the "
            f"operator would install, got {given!r}; leave it out, and see GpuOperator(acknowledge_bottlerocket=True)"
        )
    refuse_unless_one_of(who, "device_manager", given, able)
    return cast("DeviceManager", given)


def volumes_of(operating_system: OperatingSystem, disk: Disk) -> tuple[Volume, ...]:
    """Return the volumes of a node: one on AL2023; OS, and data with the disk's snapshot, on Bottlerocket."""
    if operating_system == "al2023":
        return (Volume(device="/dev/xvda", disk=disk, size_gib=disk.size_gib),)
    system = Disk(kms_key_arn=disk.kms_key_arn)
    return (
        Volume(device="/dev/xvda", disk=system, size_gib=BOTTLEROCKET_OS_GIB),
        Volume(device="/dev/xvdb", disk=disk, size_gib=disk.size_gib),
    )
