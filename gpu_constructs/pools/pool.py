"""The attributes that every kind of pool provides to workloads."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import POOL

# Component that launches nodes for pending pods. EKS Auto Mode contains a Karpenter.
Autoscaler = Literal["cluster-autoscaler", "karpenter"]
# Karpenter assumes that a node has no huge pages, and launches no node for a pod that requests them.
# Source: karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go computeCapacity
_COUNT_HUGE_PAGES: tuple[Autoscaler, ...] = ("cluster-autoscaler",)


class Pool(Protocol):
    """A pool of GPU nodes.

    Attributes:
        name: Value of its nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes.
        max_nodes: Max nodes on which pods run at once, without spare ones. A token if it is known only at deployment.
        autoscaler: Component that launches its nodes.
        expects_less_memory: Whether the autoscaler expects less memory of a node before launch than the node has.
    """

    name: str
    shape: NodeShape
    max_nodes: int
    autoscaler: Autoscaler
    expects_less_memory: bool


def node_selector(pool: Pool) -> dict[str, str]:
    """Return the label of a pool's nodes, which autoscalers can read before a node boots."""
    return {POOL: pool.name}


def tolerations(pool: Pool) -> list[dict[str, str]]:
    """Return the tolerations for the nodes of a pool, in Kubernetes' spelling."""
    return [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        for taint in pool.shape.node_taints
    ]


def counts_huge_pages(pool: Pool) -> bool:
    """Whether the autoscaler of a pool launches a node for a pod that requests huge pages."""
    return pool.autoscaler in _COUNT_HUGE_PAGES


def refuse_unless_pool(who: object, pool: object) -> None:
    """Reject a value that isn't a pool of this library.

    Raises:
        TypeError: ``pool`` has another type.
    """
    shape, autoscaler = getattr(pool, "shape", None), getattr(pool, "autoscaler", None)
    if not isinstance(shape, NodeShape) or autoscaler not in get_args(Autoscaler):
        fix = f"; pass its construct, or the result of add_pool({pool!r}, ...)" if isinstance(pool, str) else ""
        raise TypeError(
            f"{who}: pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool, got {pool!r}{fix}"
        )
