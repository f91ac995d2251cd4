"""The GPUs of an instance as its driver shows them, partitions included."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_constructs.rehearsal.players.cluster.node.image import Image
from gpu_constructs.rehearsal.players.cluster.node.instances import Instance

# Its own words for making instances of a MIG GPU, on all GPUs where it names none.
# Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#creating-gpu-instances
_PARTITION = re.compile(r"^\s*nvidia-smi\s+mig\s+(?P<flags>.*?)-cgi\s+(?P<profiles>\S+)", re.MULTILINE)
_PROFILE = re.compile(r"\d+g\.\d+gb(\+\w+(\.\w+)?)?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpus:
    """What a driver shows.

    Attributes:
        count: Whole GPUs, or vGPUs where a type has a part of one.
        name: What EC2 calls them.
        memory_mib: Memory of each, in MiB.
        partitions: Partitions of each, by profile; empty where MIG is off.
    """

    count: int
    name: str = ""
    memory_mib: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)


def gpus_of(instance: Instance, image: Image) -> Gpus:
    """Return the GPUs that an instance shows; none without a driver in its image.

    Args:
        instance: The instance.
        image: Its image.

    Raises:
        LookupError: It is partitioned in a way that is not known.
    """
    found = [each for each in instance.kind.get("GpuInfo", {}).get("Gpus", ()) if each["Manufacturer"] == "NVIDIA"]
    if not found or not image.has_driver:
        return Gpus(count=0)
    [one] = found
    count = int(one.get("LogicalGpuCount") or one["Count"])
    return Gpus(
        count=count, name=one["Name"], memory_mib=one["MemoryInfo"]["SizeInMiB"], partitions=_partitions(instance)
    )


def _partitions(instance: Instance) -> dict[str, int]:
    """Read what the scripts of an instance make of each GPU."""
    made = [match for script in instance.told.scripts for match in _PARTITION.finditer(script)]
    if not made:
        return {}
    profiles = made[-1]["profiles"].split(",")
    unknown = [each for each in profiles if not _PROFILE.fullmatch(each)]
    if "-i" in made[-1]["flags"].split() or unknown:
        raise LookupError(f"{instance.id}: what its script makes of its GPUs is not known: {made[-1][0].strip()}")
    return dict(Counter(profiles))
