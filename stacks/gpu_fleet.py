"""The same GPU platform in many regions and accounts, each with hundreds of pools."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs import DevicePlugin, GpuCluster, Karpenter, KarpenterNodePool, NodeShape, SystemNodes, UpTo
from gpu_constructs.pools import Capacity


@dataclass(frozen=True, kw_only=True, slots=True)
class FleetPool:
    """One pool of a fleet.

    Attributes:
        shape: Hardware and software of its nodes.
        capacity: Purchase options of the instances, one or several.
        max_gpus: Max number of GPUs.
    """

    shape: NodeShape
    capacity: Capacity | Sequence[Capacity]
    max_gpus: int


class GpuFleetStage(cdk.Stage):
    """A cluster with Karpenter in one account and region, and its pools in separate stacks.

    A stack has at most 500 resources and 1 MB of template, which is about 150 pools. The name of a pool alone
    determines its stack, so that another pool neither moves nor replaces it.

    Args:
        cluster_name: Name of the cluster.
        pools: Pools by name.
        pool_stacks: Number of stacks for the pools. Another number moves some pools, which replaces their nodes.
        kwargs: Arguments of ``cdk.Stage``.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        pools: Mapping[str, FleetPool],
        pool_stacks: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        stack = cdk.Stack(self, "Cluster")
        gpu = GpuCluster(stack, "Gpu", cluster_name=cluster_name, system_nodes=SystemNodes(max_nodes=2))
        DevicePlugin(stack, "DevicePlugin", cluster=gpu)
        karpenter = Karpenter(stack, "Karpenter", cluster=gpu)
        stacks = [cdk.Stack(self, f"Pools{number}") for number in range(1, pool_stacks + 1)]
        for name, pool in pools.items():
            KarpenterNodePool(
                stacks[stack_of(name, pool_stacks)],
                f"Pool-{name}",
                cluster=gpu,
                name=name,
                shape=pool.shape,
                capacity=pool.capacity,
                size=UpTo(gpus=pool.max_gpus),
                karpenter=karpenter,
            )


def stack_of(name: str, stacks: int) -> int:
    """Return the number of a pool's stack. With an additional stack, only the pools that move to it change."""
    return max(range(stacks), key=lambda number: zlib.crc32(f"{name}/{number}".encode()))
