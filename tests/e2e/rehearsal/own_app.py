"""An app as docs/how-to/workloads.md writes it: a region without an account, an administrator by ARN, own workloads."""

from __future__ import annotations

import aws_cdk as cdk

from gpu_constructs import GpuCluster, GpuDeployment, GpuJob, GpuPod, Karpenter, NodeShape, UpTo, gpu_vpc

ADMIN = "arn:aws:iam::111122223333:role/teams/Admin"


def main() -> None:
    """Synthesize it."""
    app = cdk.App()
    stack = cdk.Stack(app, "Own", env=cdk.Environment(region="us-east-1"))
    vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-east-1a", "us-east-1b"))
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, cluster_name="own", admins=(ADMIN,))
    Karpenter(stack, "Karpenter", cluster=gpu)
    pool = gpu.add_pool("g6", NodeShape(instance_types=("g6.xlarge",)), size=UpTo(gpus=8))
    chat = GpuPod(image="vllm/vllm-openai:v0.11.0", gpus=1)
    GpuDeployment(stack, "Chat", cluster=gpu, pool=pool, name="chat", pod=chat, port=8000, replicas=1)
    train = GpuPod(image="pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime", command=("python", "train.py"), gpus=1)
    GpuJob(stack, "Train", cluster=gpu, pool=pool, name="train", pod=train)
    app.synth()


if __name__ == "__main__":
    main()
