"""One GPU platform in two regions of two accounts, as CDK stages that a pipeline deploys one after the other."""

import sys
from pathlib import Path

import aws_cdk as cdk

# The stages aren't part of the package: copy stacks/gpu_fleet.py, or run this from the repository.
sys.path.insert(0, str(Path(__file__).parents[2]))

from gpu_constructs import NodeShape, OnDemand, Spot
from stacks.gpu_fleet import FleetPool, GpuFleetStage

SPOT_FIRST = (Spot(), OnDemand())
POOLS = {
    "notebooks": FleetPool(shape=NodeShape(instance_types=("g6.xlarge",)), capacity=OnDemand(), max_gpus=8),
    "chat": FleetPool(
        shape=NodeShape(instance_types=("g6e.xlarge", "g6e.2xlarge"), purpose="inference"),
        capacity=SPOT_FIRST,
        max_gpus=32,
    ),
    "embeddings": FleetPool(
        shape=NodeShape(instance_types=("g6.xlarge", "g5.xlarge"), purpose="inference"),
        capacity=SPOT_FIRST,
        max_gpus=16,
    ),
}
PLACES = {
    "staging-us-east-1": cdk.Environment(account="111122223333", region="us-east-1"),
    "prod-us-east-1": cdk.Environment(account="444455556666", region="us-east-1"),
    "prod-eu-west-1": cdk.Environment(account="444455556666", region="eu-west-1"),
}

app = cdk.App()
for place, environment in PLACES.items():
    GpuFleetStage(app, place, env=environment, cluster_name=f"gpu-{place}", pools=POOLS, pool_stacks=2)
app.synth()
