"""Files from S3 without a copy: a job reads a dataset, and a server its weights, through Mountpoint for Amazon S3."""

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuCluster, GpuDeployment, GpuJob, GpuPod, NodeShape
from gpu_constructs.storage import S3Mount, S3Volume
from gpu_constructs.workloads import MountedModel, VolumeClaimMount

app = cdk.App()
stack = cdk.Stack(app, "Mounted", env=cdk.Environment(region="us-east-1"))
gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"])
# The read cache is on the node's NVMe disks.
shape = NodeShape(instance_types=("g6e.4xlarge",), raid0=True, storage_drivers=("s3",))
pool = gpu.add_pool("l40s", shape, max_nodes=4)

data = s3.Bucket(stack, "Data", enforce_ssl=True, versioned=True)
images = S3Volume(
    stack,
    "Images",
    cluster=gpu,
    name="images",
    bucket=data,
    prefix="images/",
    mount=S3Mount(cache_gib=200, metadata_ttl="indefinite"),
)
GpuJob(
    stack,
    "Embed",
    cluster=gpu,
    pool=pool,
    name="embed",
    pod=GpuPod(
        image="registry.example.com/embed:1",
        args=("--images", "/data"),
        mounts=[VolumeClaimMount(path="/data", claim=images.name, read_only=True)],
    ),
    max_hours=12,
)

qwen = MountedModel(bucket=data, prefix="qwen3-8b/", cache_gib=50)
GpuDeployment(
    stack,
    "Chat",
    cluster=gpu,
    pool=pool,
    name="chat",
    pod=GpuPod(
        image="vllm/vllm-openai:v0.33.0",
        args=("--model", qwen.location, "--safetensors-load-strategy", "eager"),
        shm_gib=8,
    ),
    port=8000,
    model=qwen,
)
app.synth()
