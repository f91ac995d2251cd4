"""A model from your bucket behind an internal load balancer: on reserved GPUs first, then on spot ones."""

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuCluster, GpuDeployment, GpuPod, Karpenter, NodeShape, Reservation, Spot, UpTo, gpu_vpc
from gpu_constructs.exposure import Internal, LoadBalancerController
from gpu_constructs.metrics import DcgmExporter, PrometheusStack, ReservationAlarm
from gpu_constructs.workloads import StreamedModel

app = cdk.App()
stack = cdk.Stack(app, "Model", env=cdk.Environment(region="us-east-1"))
vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-east-1a", "us-east-1b"))
gpu = GpuCluster(stack, "Gpu", vpc=vpc)
Karpenter(stack, "Karpenter", cluster=gpu)
LoadBalancerController(stack, "LoadBalancers", cluster=gpu)
prometheus = PrometheusStack(stack, "Prometheus", cluster=gpu)
DcgmExporter(stack, "DcgmExporter", cluster=gpu, prometheus=prometheus)

reserved = Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a")
ReservationAlarm(stack, "Idle", reservation=reserved)
shape = NodeShape(instance_types=("g6e.12xlarge",), purpose="inference", soci=True)
pool = gpu.add_pool("l40s", shape, size=UpTo(gpus=16), capacity=(reserved, Spot()))

weights = s3.Bucket(stack, "Weights", enforce_ssl=True, versioned=True)
llama = StreamedModel(bucket=weights, prefix="llama-70b-fp8/")
server = ("--model", llama.location, "--load-format", "runai_streamer", "--tensor-parallel-size", "4")
chat = GpuDeployment(
    stack,
    "Chat",
    cluster=gpu,
    pool=pool,
    name="chat",
    pod=GpuPod(
        image="vllm/vllm-openai:v0.33.0",
        args=server,
        gpus=4,
        shm_gib=16,
        # By default vLLM closes idle connections after 5 seconds, while the load balancer still uses them.
        env={"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "700"},
    ),
    port=8000,
    replicas=2,
    model=llama,
    expose=Internal(idle_seconds=600, drain_seconds=60),
)
prometheus.scrape(chat)
app.synth()
