"""What every kind of pool tells those who place pods on it."""

from __future__ import annotations

from typing import Protocol

from gpu_constructs.pools.node_shape import NodeShape


class Pool(Protocol):
    """A pool of GPU nodes.

    Attributes:
        name: Value of its nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_nodes: Most nodes; a token where only deployment tells.
        counts_huge_pages: Whether its autoscaler launches a node for a pod that asks for huge pages.
    """

    name: str
    shape: NodeShape
    max_nodes: int
    counts_huge_pages: bool


def refuse_unless_pool(who: object, pool: object) -> None:
    """Refuse what is no pool of this library.

    Raises:
        TypeError: ``pool`` is something else.
    """
    if not hasattr(pool, "counts_huge_pages") or not isinstance(getattr(pool, "shape", None), NodeShape):
        raise TypeError(f"{who}: pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool, got {pool!r}")
