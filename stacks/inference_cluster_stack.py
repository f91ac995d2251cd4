"""A cluster for inference: Karpenter over several GPU families, spot before on-demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs import (
    DevicePlugin,
    GpuCluster,
    Karpenter,
    KarpenterNodePool,
    NodeShape,
    OnDemand,
    Spot,
    SystemNodes,
    UpTo,
    find_instance_types,
    gpu_vpc,
)

# GPU models by pool, in order of preference.
POOLS: Mapping[str, Sequence[str]] = MappingProxyType({"small": ("L4", "A10G"), "large": ("L40S",)})


class InferenceClusterStack(cdk.Stack):
    """A NodePool for each class of GPU. Replicas may move, so pods are packed and spot is used before on-demand.

    Args:
        max_gpus: Max number of GPUs of each pool.
        pools: GPU models of each pool, by EC2's names. Karpenter prefers the first pool.
        availability_zones: Zones of the VPC. Default: two, chosen at deployment.
        admins: ARNs of IAM users or roles that administer the cluster.
        kwargs: Arguments of ``cdk.Stack``.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        max_gpus: int = 16,
        pools: Mapping[str, Sequence[str]] = POOLS,
        availability_zones: Sequence[str] | None = None,
        admins: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        vpc = gpu_vpc(self, "Vpc", availability_zones=availability_zones)
        # Karpenter doesn't scale node groups, so the number of system nodes is two.
        system = SystemNodes(max_nodes=2)
        gpu = GpuCluster(self, "Gpu", vpc=vpc, admins=admins, system_nodes=system)
        self.cluster = gpu.cluster
        DevicePlugin(self, "DevicePlugin", cluster=self.cluster)
        karpenter = Karpenter(self, "Karpenter", cluster=self.cluster, node_repair=True)
        for rank, (name, models) in enumerate(pools.items()):
            one_gpu = find_instance_types(gpu_models=models, max_gpus=1, min_gpu_memory_gib=16)
            KarpenterNodePool(
                self,
                f"Pool-{name}",
                cluster=self.cluster,
                name=name,
                shape=NodeShape(instance_types=one_gpu, purpose="inference"),
                capacity=(Spot(), OnDemand()),
                size=UpTo(gpus=max_gpus, weight=100 - rank),
                karpenter=karpenter,
            )
