"""Room on the node's own disk, for as long as a pod lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.workloads.parts.mount_path import refuse_unless_mount_path, volume_mount, volume_name
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number

_ONLY = "scratch"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchMount:
    """An empty folder on the node's disk, which is gone with the pod.

    The pod asks for its size as ``ephemeral-storage``, so that the scheduler and autoscalers know of it: it lands on no
    node whose disk others have taken. It is on local NVMe where the pool's `NodeShape` puts emptyDirs there, and on the
    node's EBS volume otherwise. A pod that writes more is evicted.

    Attributes:
        path: Where it appears, absolute.
        size_gib: The most that it holds, in GiB.
        name: What tells it from other scratch of the pod. Containers that name the same share it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A path, the size or the name cannot be.

    Source: https://kubernetes.io/docs/concepts/storage/ephemeral-storage/ (2026-11)
    """

    path: str
    size_gib: int
    name: str = _ONLY

    def __post_init__(self) -> None:
        who = "scratch mount"
        refuse_unless_mount_path(who, self.path)
        refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        refuse_unless_object_name(who, "name", self.name)

    @property
    def _volume_name(self) -> str:
        return _ONLY if self.name == _ONLY else volume_name(_ONLY, self.name)

    def volume(self) -> dict[str, Any]:
        """Return the volume of the pod."""
        return {"emptyDir": {"sizeLimit": f"{self.size_gib}Gi"}, "name": self._volume_name}

    def to_manifest(self) -> dict[str, Any]:
        """Return the mount of the container."""
        return volume_mount(self._volume_name, self.path, read_only=False)
