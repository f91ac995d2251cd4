"""A language model on vLLM: no pod and no GPU without requests, one more pod for every twenty waiting requests."""

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs

from gpu_constructs import Disk, GpuCluster, GpuDeployment, GpuPod, Karpenter, NodeShape, UpTo
from gpu_constructs.metrics import DcgmExporter, PrometheusStack
from gpu_constructs.pod_scaling import Demand, GpuHorizontalAutoscaler, Keda, SqsQueue

app = cdk.App()
stack = cdk.Stack(app, "Llm", env=cdk.Environment(region="us-east-1"))
gpu = GpuCluster(stack, "Gpu")
Karpenter(stack, "Karpenter", cluster=gpu)
prometheus = PrometheusStack(stack, "Prometheus", cluster=gpu)
DcgmExporter(stack, "DcgmExporter", cluster=gpu, prometheus=prometheus)
requests = sqs.Queue(stack, "Requests", enforce_ssl=True)
keda = Keda(stack, "Keda", cluster=gpu, sqs_queue_arns=[requests.queue_arn])
pool = gpu.add_pool(
    "l40s",
    # Weights and image are pulled in parallel streams onto a volume that is fast enough.
    NodeShape(
        instance_types=("g6e.2xlarge", "g6e.4xlarge"),
        purpose="inference",
        disk=Disk(size_gib=200, iops=16_000, throughput_mib_s=1_000),
        soci=True,
    ),
    size=UpTo(gpus=8),
)
chat = GpuDeployment(
    stack,
    "Chat",
    cluster=gpu,
    pool=pool,
    name="chat",
    pod=GpuPod(image="vllm/vllm-openai:v0.33.0", args=("--model", "Qwen/Qwen3-8B"), shm_gib=8),
    port=8000,
    startup_minutes=30,
)
prometheus.scrape(chat)
GpuHorizontalAutoscaler(
    stack,
    "Scaler",
    cluster=gpu,
    target=chat,
    # The queue starts the first pod. Requests that wait in vLLM add more. GPU utilization would do neither.
    signals=[
        SqsQueue(url=requests.queue_url, region=stack.region, per_pod=20),
        Demand(query='sum(vllm:num_requests_waiting{namespace="default"}) or vector(0)', per_pod=20),
    ],
    min_replicas=0,
    max_replicas=8,
    through=keda,
    prometheus=prometheus,
)
app.synth()
