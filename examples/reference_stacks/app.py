"""The three reference stacks: training, inference, Auto Mode."""

import sys
from datetime import datetime, timezone
from pathlib import Path

import aws_cdk as cdk

# The stacks aren't part of the package: copy the one you want, or run this from the repository.
sys.path.insert(0, str(Path(__file__).parents[2]))

from gpu_constructs import CapacityBlock
from stacks.auto_mode_cluster_stack import AutoModeClusterStack
from stacks.inference_cluster_stack import InferenceClusterStack
from stacks.training_cluster_stack import TrainingClusterStack

app = cdk.App()
TrainingClusterStack(
    app,
    "Training",
    availability_zones=("us-east-1a", "us-east-1b"),
    # Copy it from `aws ec2 describe-capacity-reservations`. A Reservation(...) or OnDemand() works, too.
    capacity=CapacityBlock(
        id="cr-0123456789abcdef0",
        availability_zone="us-east-1a",
        starts=datetime(2027, 1, 11, 11, 30, tzinfo=timezone.utc),
        ends=datetime(2027, 1, 18, 11, 30, tzinfo=timezone.utc),
        instances=4,
    ),
    max_nodes=4,
)
InferenceClusterStack(app, "Inference", max_gpus=32)
AutoModeClusterStack(app, "AutoMode")
app.synth()
