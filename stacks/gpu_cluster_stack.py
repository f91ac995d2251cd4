"""A complete GPU cluster in one stack."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

# Imported as a package, so that names that a stack doesn't use aren't loaded.
import gpu_constructs
from gpu_constructs.pools import Pool
from stacks.options import GpuClusterOptions, PoolOptions


class GpuClusterStack(cdk.Stack):
    """A VPC, an EKS cluster, GPU pools, a device manager and an autoscaler, as set in the options."""

    def __init__(self, scope: Construct, id: str, *, options: GpuClusterOptions | None = None, **kwargs: Any) -> None:
        super().__init__(scope, id, **kwargs)
        says = options if options is not None else GpuClusterOptions()
        for key, value in (says.tags or {}).items():
            cdk.Tags.of(self).add(key, value)
        gpu = gpu_constructs.GpuCluster(
            self,
            "Gpu",
            cluster_name=says.cluster_name,
            kubernetes_version=says.kubernetes_version,
            vpc=gpu_constructs.gpu_vpc(
                self, "Vpc", availability_zones=says.availability_zones, nat_gateways=says.nat_gateways
            ),
            public_access_cidrs=says.public_access_cidrs,
            admins=says.admins,
            system_nodes=says.system_nodes,
        )
        self.cluster = gpu.cluster
        gpu_constructs.DevicePlugin(self, "DevicePlugin", cluster=self.cluster)
        if says.autoscaler == "karpenter":
            karpenter = gpu_constructs.Karpenter(self, "Karpenter", cluster=self.cluster)
            pools = [self._node_pool(each, karpenter) for each in says.pools]
        else:
            gpu_constructs.ClusterAutoscaler(self, "ClusterAutoscaler", cluster=self.cluster)
            pools = [self._node_group(each) for each in says.pools]
        if says.smoke_test:
            gpu_constructs.GpuSmokeTest(self, "SmokeTest", cluster=self.cluster, pool=pools[0])
        command = f"aws eks update-kubeconfig --name {gpu.name} --region {self.region}"
        cdk.CfnOutput(self, "KubeconfigCommand", value=command)

    def _node_group(self, says: PoolOptions) -> Pool:
        return gpu_constructs.ManagedNodeGroup(
            self,
            f"Pool-{says.name}",
            cluster=self.cluster,
            name=says.name,
            shape=says.shape,
            capacity=says.bought,
            min_nodes=says.min_nodes,
            max_nodes=says.max_nodes,
        )

    def _node_pool(self, says: PoolOptions, karpenter: gpu_constructs.Karpenter) -> Pool:
        return gpu_constructs.KarpenterNodePool(
            self,
            f"Pool-{says.name}",
            cluster=self.cluster,
            name=says.name,
            shape=says.shape,
            capacity=says.bought,
            size=gpu_constructs.UpTo(gpus=says.max_gpus),
            karpenter=karpenter,
        )
