"""A cluster in EKS Auto Mode: AWS operates its nodes, drivers and device plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs import AutoMode, AutoModeNodePool, GpuCluster, NodeShape, OnDemand, Spot, UpTo, gpu_vpc


class AutoModeClusterStack(cdk.Stack):
    """A cluster in Auto Mode with one GPU pool. It needs no separate autoscaler, plugin or add-on.

    Args:
        instance_types: EC2 names.
        max_gpus: Max number of GPUs.
        availability_zones: Zones of the VPC. Default: two, chosen at deployment.
        admins: ARNs of IAM users or roles that administer the cluster.
        kwargs: Arguments of ``cdk.Stack``.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        instance_types: Sequence[str] = ("g6.xlarge", "g6.2xlarge"),
        max_gpus: int = 8,
        availability_zones: Sequence[str] | None = None,
        admins: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        vpc = gpu_vpc(self, "Vpc", availability_zones=availability_zones)
        gpu = GpuCluster(self, "Gpu", vpc=vpc, admins=admins, auto_mode=AutoMode())
        self.cluster = gpu.cluster
        AutoModeNodePool(
            self,
            "Pool",
            cluster=self.cluster,
            name="gpu",
            shape=NodeShape(instance_types=instance_types, operating_system="bottlerocket", purpose="inference"),
            capacity=(Spot(), OnDemand()),
            size=UpTo(gpus=max_gpus),
        )
