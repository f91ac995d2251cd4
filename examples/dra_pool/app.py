"""GPUs as devices that pods claim: one job with two exclusive GPUs, and two servers that share one."""

import aws_cdk as cdk

from gpu_constructs import GpuCluster, GpuDeployment, GpuJob, GpuPod, NodeShape
from gpu_constructs.devices import SharedGpuClaim
from gpu_constructs.pools import GpuClaim

app = cdk.App()
stack = cdk.Stack(app, "Claims")
gpu = GpuCluster(stack, "Gpu")
pool = gpu.add_pool(
    "l4",
    NodeShape(instance_types=("g6.12xlarge",), device_manager="dra"),
    # No current autoscaler can read the devices of a node that doesn't exist yet.
    min_nodes=1,
    max_nodes=1,
)
GpuJob(
    stack,
    "Finetune",
    cluster=gpu,
    pool=pool,
    name="finetune",
    pod=GpuPod(image="pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", command=("torchrun", "train.py"), gpus=2),
)
shared = SharedGpuClaim(stack, "Shared", cluster=gpu, name="small-models", gpu=GpuClaim(memory_gib=20))
for name, model in (("embed", "BAAI/bge-m3"), ("rerank", "BAAI/bge-reranker-v2-m3")):
    GpuDeployment(
        stack,
        name.capitalize(),
        cluster=gpu,
        pool=pool,
        name=name,
        pod=GpuPod(
            image="ghcr.io/huggingface/text-embeddings-inference:89-1.8",
            args=("--model-id", model),
            claim=shared.name,
            cpus=4,
            memory_gib=16,
        ),
        port=80,
        replicas=1,
    )
app.synth()
