"""A pool reports which service launches its nodes, and the consequences for pods on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_constructs import AutoModeNodePool, KarpenterNodePool, ManagedNodeGroup, NodeShape
from gpu_constructs.nodes import SelfManagedNodeGroup, ZonalNodeGroups
from gpu_constructs.pools import Pool
from gpu_constructs.pools.pool import counts_huge_pages, refuse_unless_pool

L4 = NodeShape(instance_types=("g6.xlarge",))


def pool(**changes: Any) -> Pool:
    """An object with the interface of a pool, with ``changes`` applied."""
    says = {"name": "l4", "shape": L4, "max_nodes": 2, "autoscaler": "karpenter"}
    return cast("Pool", SimpleNamespace(**says | changes))


@pytest.mark.parametrize("kind", [ManagedNodeGroup, SelfManagedNodeGroup, ZonalNodeGroups])
def test_cluster_autoscaler_launches_the_nodes_of_groups(kind: Any) -> None:
    assert kind.autoscaler == "cluster-autoscaler"


@pytest.mark.parametrize("kind", [KarpenterNodePool, AutoModeNodePool])
def test_karpenter_launches_the_nodes_of_node_pools(kind: Any) -> None:
    assert kind.autoscaler == "karpenter"


def test_karpenter_counts_no_huge_pages() -> None:
    assert not counts_huge_pages(pool())
    assert counts_huge_pages(pool(autoscaler="cluster-autoscaler"))


def test_accepts_what_looks_like_a_pool() -> None:
    refuse_unless_pool("who", pool())


@pytest.mark.parametrize(
    "other", ["l4", None, L4, pool(shape="g6.xlarge"), pool(autoscaler=None), pool(autoscaler="slurm")]
)
def test_refuses_what_is_no_pool(other: object) -> None:
    with pytest.raises(TypeError, match=r"who: pool must be a pool such as a ManagedNodeGroup or KarpenterNodePool"):
        refuse_unless_pool("who", other)
