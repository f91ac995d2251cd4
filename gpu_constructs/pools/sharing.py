"""How the GPUs of a node are shared between pods."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_constructs.pools.node_labels import GPU_RESOURCE


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Each GPU belongs to one container at a time."""

    def resources(self, gpus: int) -> dict[str, int]:
        """Return what a node with ``gpus`` GPUs advertises, by resource name."""
        return {GPU_RESOURCE: gpus}


Sharing = Exclusive
