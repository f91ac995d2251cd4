"""A whole GPU cluster in one stack."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.autoscaling.cluster_autoscaler import ClusterAutoscaler
from gpu_constructs.autoscaling.karpenter import Karpenter
from gpu_constructs.autoscaling.karpenter_node_pool import KarpenterNodePool
from gpu_constructs.cluster.gpu_cluster import GpuCluster
from gpu_constructs.cluster.network import gpu_vpc
from gpu_constructs.cluster.system_nodes import SystemNodes
from gpu_constructs.devices.device_plugin import DevicePlugin
from gpu_constructs.nodes.managed_node_group import ManagedNodeGroup
from gpu_constructs.workloads.smoke_test import GpuSmokeTest
from stacks.options import GpuClusterOptions


class GpuClusterStack(cdk.Stack):
    """A VPC, an EKS cluster, GPU pools, what makes their GPUs visible and what scales them.

    Args:
        options: What the cluster is.
        kwargs: Arguments of ``cdk.Stack``.
    """

    def __init__(self, scope: Construct, id: str, *, options: GpuClusterOptions | None = None, **kwargs: Any) -> None:
        super().__init__(scope, id, **kwargs)
        says = options if options is not None else GpuClusterOptions()
        karpenter = says.autoscaler == "karpenter"
        vpc = gpu_vpc(self, "Vpc", availability_zones=says.availability_zones, nat_gateways=says.nat_gateways)
        self.gpu = GpuCluster(
            self,
            "Gpu",
            cluster_name=says.cluster_name,
            kubernetes_version=says.kubernetes_version,
            vpc=cast("ec2.IVpc", vpc),
            public_access_cidrs=says.public_access_cidrs,
            admins=says.admins,
            # Karpenter leaves node groups alone, so two system nodes stay two.
            system_nodes=SystemNodes(instance_types=says.system_instance_types, max_nodes=2 if karpenter else 4),
        )
        self.device_plugin = DevicePlugin(self, "DevicePlugin", cluster=self.gpu.cluster)
        pools = self._karpenter_pools(says) if karpenter else self._node_groups(says)
        if says.smoke_test:
            GpuSmokeTest(self, "SmokeTest", cluster=self.gpu.cluster, pool=pools[0])

    def _node_groups(self, says: GpuClusterOptions) -> list[ManagedNodeGroup | KarpenterNodePool]:
        ClusterAutoscaler(self, "ClusterAutoscaler", cluster=self.gpu.cluster)
        return [
            ManagedNodeGroup(
                self,
                f"Pool-{pool.name}",
                cluster=self.gpu.cluster,
                name=pool.name,
                shape=pool.shape,
                capacity=pool.bought,
                min_nodes=pool.min_nodes,
                max_nodes=pool.max_nodes,
            )
            for pool in says.pools
        ]

    def _karpenter_pools(self, says: GpuClusterOptions) -> list[ManagedNodeGroup | KarpenterNodePool]:
        karpenter = Karpenter(self, "Karpenter", cluster=self.gpu.cluster)
        return [
            KarpenterNodePool(
                self,
                f"Pool-{pool.name}",
                cluster=self.gpu.cluster,
                name=pool.name,
                shape=pool.shape,
                capacity=pool.bought,
                max_gpus=pool.max_gpus,
                karpenter=karpenter,
            )
            for pool in says.pools
        ]
