"""What every kind of pool tells those who place pods on it."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import POOL

# Who launches nodes for pods that wait. EKS Auto Mode contains a Karpenter.
Autoscaler = Literal["cluster-autoscaler", "karpenter"]
# The other one takes a node to have no huge pages, and launches none for a pod that asks for them.
# Source: karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go computeCapacity
_COUNT_HUGE_PAGES: tuple[Autoscaler, ...] = ("cluster-autoscaler",)


class Pool(Protocol):
    """A pool of GPU nodes.

    Attributes:
        name: Value of its nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_nodes: Most nodes on which pods run at once, without spare ones; a token where only deployment tells.
        autoscaler: Who launches its nodes.
        expects_less_memory: Whether the autoscaler expects less memory of a node before launch than the node has.
    """

    name: str
    shape: NodeShape
    max_nodes: int
    autoscaler: Autoscaler
    expects_less_memory: bool


def node_selector(pool: Pool) -> dict[str, str]:
    """Return the label of a pool's nodes, which they have before they boot."""
    return {POOL: pool.name}


def tolerations(pool: Pool) -> list[dict[str, str]]:
    """Return what lets a pod onto the nodes of a pool, as Kubernetes spells it."""
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in pool.shape.node_taints
    ]


def counts_huge_pages(pool: Pool) -> bool:
    """Whether the autoscaler of a pool launches a node for a pod that asks for huge pages."""
    return pool.autoscaler in _COUNT_HUGE_PAGES


def refuse_unless_pool(who: object, pool: object) -> None:
    """Refuse what is no pool of this library.

    Raises:
        TypeError: ``pool`` is something else.
    """
    shape, autoscaler = getattr(pool, "shape", None), getattr(pool, "autoscaler", None)
    if not isinstance(shape, NodeShape) or autoscaler not in get_args(Autoscaler):
        fix = f"; pass what made it, or what add_pool({pool!r}, ...) returned" if isinstance(pool, str) else ""
        raise TypeError(
            f"{who}: pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool, got {pool!r}{fix}"
        )
