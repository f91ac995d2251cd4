"""An app whose one stack has NodePools of every shape, so that many pods can be tried on all of them at once."""

from __future__ import annotations

import aws_cdk as cdk

from gpu_constructs import (
    DevicePlugin,
    GpuCluster,
    Karpenter,
    KarpenterNodePool,
    Mig,
    Mps,
    NodeShape,
    OnDemand,
    Spot,
    TimeSlicing,
    UpTo,
    gpu_vpc,
)
from gpu_constructs.devices import EfaDevicePlugin
from gpu_constructs.pools import Disk, Static, Taint

# Far more than all pods together ask for: a limit that another pod reaches would be no answer on this one.
SIZE = UpTo(gpus=4_000)
# Named, because a pod's zone requirement has no answer if deployment chooses the zones.
ZONES = ("us-east-1a", "us-east-1b")
STATIC = "static"
SHAPES = {
    "l4": NodeShape(instance_types=("g6.xlarge",)),
    "two-types": NodeShape(instance_types=("g6.xlarge", "g6e.2xlarge"), disk=Disk(size_gib=400)),
    "a10g-four": NodeShape(instance_types=("g5.12xlarge",)),
    "vision": NodeShape(
        instance_types=("g6.2xlarge",),
        labels={"team": "vision", "tier": "gold"},
        taints=(Taint(key="team", value="vision"),),
    ),
    "untainted": NodeShape(instance_types=("g4dn.xlarge",), gpu_taint=False),
    "sliced": NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4)),
    "mps": NodeShape(instance_types=("g5.2xlarge",), sharing=Mps(4)),
    "mig": NodeShape(instance_types=("p4d.24xlarge",), sharing=Mig(geometry={"3g.20gb": 1, "1g.5gb": 4})),
    "fraction": NodeShape(instance_types=("g6f.xlarge",)),
    "efa": NodeShape(instance_types=("g6.12xlarge",), efa=True),
    "arm": NodeShape(instance_types=("g5g.xlarge", "g5g.2xlarge")),
    "bottlerocket": NodeShape(instance_types=("g6e.xlarge",), operating_system="bottlerocket"),
    "bottlerocket-sliced": NodeShape(
        instance_types=("g6.xlarge",), operating_system="bottlerocket", sharing=TimeSlicing(2)
    ),
    "spot": NodeShape(instance_types=("g5.xlarge", "g6.xlarge")),
    "zonal": NodeShape(instance_types=("g6e.4xlarge",)),
    "labelled": NodeShape(instance_types=("g5.2xlarge",), labels={"example.com/rank": "17", "team": "speech"}),
    STATIC: NodeShape(instance_types=("g6.4xlarge",), labels={"team": "17"}),
}


def main() -> None:
    """Synthesize it."""
    app = cdk.App()
    stack = cdk.Stack(app, "ManyPools", env=cdk.Environment(region="us-east-1"))
    vpc = gpu_vpc(stack, "Vpc", availability_zones=ZONES)
    gpu = GpuCluster(stack, "Gpu", cluster_name="many-pools", vpc=vpc)
    DevicePlugin(stack, "DevicePlugin", cluster=gpu.cluster)
    EfaDevicePlugin(stack, "Efa", cluster=gpu.cluster)
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu.cluster)
    for name, shape in SHAPES.items():
        KarpenterNodePool(
            stack,
            f"Pool-{name}",
            cluster=gpu.cluster,
            karpenter=karpenter,
            name=name,
            shape=shape,
            size=Static(nodes=2) if name == STATIC else SIZE,
            capacity=Spot() if name == "spot" else OnDemand(),
            subnets=vpc.private_subnets[:1] if name in ("zonal", "efa") else None,
        )
    app.synth()


if __name__ == "__main__":
    main()
