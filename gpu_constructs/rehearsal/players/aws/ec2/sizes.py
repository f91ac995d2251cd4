"""How big a type is: what stands for its price, which nobody here knows.

Within a family more costs more, so the smallest of several types is the cheapest of its family.
"""

from __future__ import annotations

from functools import cache

from gpu_constructs.rehearsal.players.aws.kept import kept_by_moto
from gpu_constructs.rehearsal.players.aws.region import Region

Size = tuple[int, int, int, str]


class Sizes:
    """The sizes of types.

    Args:
        region: Whose EC2 tells them.
    """

    def __init__(self, region: Region) -> None:
        self._region = region
        self.of = cache(self._of)

    def _of(self, instance_type: str) -> Size:
        """Return GPUs, vCPUs and memory of a type, to be compared."""
        found = kept_by_moto(self._region).describe_instance_types([instance_type])[0]
        gpus = sum(one["Count"] for one in found.get("GpuInfo", {}).get("Gpus", ()))
        return gpus, found["VCpuInfo"]["DefaultVCpus"], found["MemoryInfo"]["SizeInMiB"], instance_type
