"""Notebooks that share L4 GPUs, four to a GPU, on spot nodes that scale with the notebooks."""

import aws_cdk as cdk

from gpu_constructs import GpuCluster, GpuDeployment, GpuPod, Karpenter, NodeShape, OnDemand, Spot, TimeSlicing, UpTo

app = cdk.App()
stack = cdk.Stack(app, "Notebooks")
gpu = GpuCluster(stack, "Gpu")
Karpenter(stack, "Karpenter", cluster=gpu)
pool = gpu.add_pool(
    "l4-shared",
    # A notebook requests nvidia.com/gpu.shared. Pods that request a whole GPU don't run here.
    NodeShape(instance_types=("g6.2xlarge", "g6.4xlarge"), sharing=TimeSlicing(4), purpose="inference"),
    capacity=[Spot(), OnDemand()],
    size=UpTo(gpus=8),
)
GpuDeployment(
    stack,
    "Notebook",
    cluster=gpu,
    pool=pool,
    name="notebook",
    pod=GpuPod(image="quay.io/jupyter/pytorch-notebook:cuda12-2025-10-20", shm_gib=1),
    port=8888,
    replicas=2,
    health_path="/api",
)
app.synth()
