"""How many pods the nodes of a pool have room for at once."""

from __future__ import annotations

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod


def pods_at_most(who: object, pod: GpuPod, pool: Pool) -> int | None:
    """Return how many of such pods all nodes of a pool have room for at most.

    ``None`` where the arguments don't tell: only the deployment knows how many nodes there are, an overlay changes what
    a pod asks for or where it runs, or pods share a claimed GPU.

    Raises:
        ValueError: No node of the pool has what the pod asks for.
    """
    if not isinstance(pool.max_nodes, int) or pod.overlay or pod.claim is not None:
        return None
    return pool.max_nodes * max(pod.room_on(who, pool.shape, row) for row in pool.shape.rows)


def refuse_more_pods_than_room(
    who: object, argument: str, pods: int, pod: GpuPod, pool: Pool, *, otherwise: str
) -> None:
    """Refuse pods that never all run at once.

    Args:
        who: Who refuses.
        argument: Argument that is the number of pods.
        pods: The number.
        pod: What each pod is.
        pool: Pool that they run on.
        otherwise: What happens, or what to do.

    Raises:
        ValueError: The pool has room for fewer.
    """
    most = pods_at_most(who, pod, pool)
    if most is not None and pods > most:
        raise ValueError(
            f"{who}: {argument} must be at most {most}, which the {pool.max_nodes} nodes of pool {pool.name!r} have "
            f"room for, got {pods}; {otherwise} [GPU121]"
        )
