"""A cluster for distributed training: EFA in one zone, on reserved capacity or a Capacity Block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs import (
    CapacityBlock,
    ClusterAutoscaler,
    DevicePlugin,
    Disk,
    GpuCluster,
    ManagedNodeGroup,
    NodeShape,
    Reservation,
    gpu_vpc,
)
from gpu_constructs.devices import EfaDevicePlugin
from gpu_constructs.pools import Capacity


class TrainingClusterStack(cdk.Stack):
    """Nodes with every EFA interface of their type, in one zone, close together.

    Args:
        availability_zones: Zones of the VPC. Nodes start in the zone of the capacity, otherwise in the first one.
        capacity: Purchase option of the instances. On-demand instances share a placement group. Reserved ones already
            have a placement.
        max_nodes: Max number of nodes. For a Capacity Block, its number of instances.
        instance_type: EC2 name of a type with EFA.
        admins: ARNs of IAM users or roles that administer the cluster.
        kwargs: Arguments of ``cdk.Stack``.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        availability_zones: Sequence[str],
        capacity: Capacity,
        max_nodes: int,
        instance_type: str = "p5.48xlarge",
        admins: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        vpc = gpu_vpc(self, "Vpc", availability_zones=availability_zones)
        self.cluster = GpuCluster(self, "Gpu", vpc=vpc, admins=admins, pack_gpus=True).cluster
        DevicePlugin(self, "DevicePlugin", cluster=self.cluster)
        EfaDevicePlugin(self, "EfaDevicePlugin", cluster=self.cluster)
        ClusterAutoscaler(self, "ClusterAutoscaler", cluster=self.cluster)
        zone = capacity.availability_zone or availability_zones[0]
        shape = NodeShape(
            instance_types=(instance_type,),
            purpose="training",
            efa=True,
            placement_group=None if isinstance(capacity, (Reservation, CapacityBlock)) else self._rack(),
            disk=Disk(size_gib=200),
        )
        self.nodes = ManagedNodeGroup(
            self,
            "Nodes",
            cluster=self.cluster,
            name="training",
            shape=shape,
            capacity=capacity,
            max_nodes=max_nodes,
            subnets=[each for each in vpc.private_subnets if each.availability_zone == zone],
        )

    def _rack(self) -> str:
        return ec2.CfnPlacementGroup(self, "Rack", strategy="cluster").ref
