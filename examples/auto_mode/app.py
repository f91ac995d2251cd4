"""EKS Auto Mode: AWS operates the nodes. A Qwen3-8B server gets its API key and Hugging Face token from a Secret."""

import aws_cdk as cdk

from gpu_constructs import AutoMode, Disk, GpuCluster, GpuDeployment, GpuPod, NodeShape, UpTo
from gpu_constructs.workloads import SecretKey

app = cdk.App()
stack = cdk.Stack(app, "AutoModeServer")
# The built-in pools run pods without GPUs, so there are no system_nodes.
gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"], auto_mode=AutoMode())
shape = NodeShape(instance_types=("g6e.2xlarge", "g6e.4xlarge"), purpose="inference", disk=Disk(size_gib=200))
pool = gpu.add_pool("l40s", shape, size=UpTo(gpus=4))
GpuDeployment(
    stack,
    "Chat",
    cluster=gpu,
    pool=pool,
    name="chat",
    pod=GpuPod(
        image="vllm/vllm-openai:v0.33.0",
        args=("--model", "Qwen/Qwen3-8B"),
        # Create the Secret outside the app, so that its values are in no template:
        # kubectl create secret generic chat --from-file=api-key --from-file=token
        env={
            "VLLM_API_KEY": SecretKey(secret="chat", key="api-key"),
            "HF_TOKEN": SecretKey(secret="chat", key="token"),
        },
        shm_gib=8,
    ),
    port=8000,
    startup_minutes=30,
)
app.synth()
