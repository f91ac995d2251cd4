"""Small models on slices of H100 GPUs: seven instances each, with separate memory and fault isolation."""

import aws_cdk as cdk

from gpu_constructs import GpuCluster, GpuDeployment, GpuPod, Mig, NodeShape, Reservation, gpu_vpc

app = cdk.App()
stack = cdk.Stack(app, "SmallModels", env=cdk.Environment(account="111122223333", region="us-east-1"))
vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-east-1a", "us-east-1b"))
gpu = GpuCluster(stack, "Gpu", vpc=vpc)
pool = gpu.add_pool(
    "h100-mig",
    # Any geometry that fits is accepted. {"3g.40gb": 1, "1g.10gb": 4} is one large and four small instances.
    NodeShape(instance_types=("p5.48xlarge",), sharing=Mig(geometry={"1g.10gb": 7})),
    capacity=Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a"),
    max_nodes=2,
)
GpuDeployment(
    stack,
    "Embeddings",
    cluster=gpu,
    pool=pool,
    name="embeddings",
    # One instance for each pod: 7 x 8 of them on a node.
    pod=GpuPod(image="ghcr.io/huggingface/text-embeddings-inference:hopper-1.8", mig_profile="1g.10gb"),
    port=80,
    replicas=20,
)
app.synth()
