"""An app whose one pool uses drivers for storage, so that its fresh nodes wait for them, and a file system."""

from __future__ import annotations

import aws_cdk as cdk

from gpu_constructs import GpuCluster, Karpenter, NodeShape, UpTo, gpu_vpc
from gpu_constructs.storage import LustreFileSystem

POOL = "mounts"


def main() -> None:
    """Synthesize it."""
    app = cdk.App()
    stack = cdk.Stack(app, "Drivers", env=cdk.Environment(region="us-east-1"))
    vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-east-1a", "us-east-1b"))
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, cluster_name="drivers")
    Karpenter(stack, "Karpenter", cluster=gpu)
    shape = NodeShape(instance_types=("g6.xlarge",), storage_drivers=("ebs", "s3", "fsx"))
    pool = gpu.add_pool(POOL, shape, size=UpTo(gpus=8), subnets=vpc.private_subnets[:1])
    LustreFileSystem(stack, "Data", cluster=gpu, name="data", pool=pool)
    app.synth()


if __name__ == "__main__":
    main()
