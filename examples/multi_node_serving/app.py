"""A model on two p5 nodes: Kueue admits its pods as a group. An internal load balancer sends requests to the leader."""

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuCluster, GpuPod, NodeShape
from gpu_constructs.exposure import Internal, LoadBalancerController
from gpu_constructs.queueing import GpuQueues, Kueue, LeaderWorkerSets, TeamQueue
from gpu_constructs.storage import S3Mount, S3Volume
from gpu_constructs.workloads import MultiNodeDeployment, VolumeClaimMount

app = cdk.App()
stack = cdk.Stack(app, "Reasoner", env=cdk.Environment(region="us-east-1"))
gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"])
# EFA works only within one zone.
shape = NodeShape(instance_types=("p5.48xlarge",), efa=True, raid0=True, storage_drivers=("s3",))
pool = gpu.add_pool("p5", shape, max_nodes=4, subnets=gpu.vpc.private_subnets[:1])
LoadBalancerController(stack, "LoadBalancers", cluster=gpu)
LeaderWorkerSets(stack, "Groups", cluster=gpu)
kueue = Kueue(stack, "Kueue", cluster=gpu)
serving = TeamQueue(name="serving", namespace="default", nodes={"p5": 4})
GpuQueues(stack, "Queues", cluster=gpu, kueue=kueue, pools=[pool], teams=[serving])

weights = s3.Bucket(stack, "Weights", enforce_ssl=True, versioned=True)
mount = S3Mount(cache_gib=800, metadata_ttl="indefinite")
r1 = S3Volume(stack, "Model", cluster=gpu, name="r1-weights", bucket=weights, prefix="deepseek-r1/", mount=mount)
ray = "bash /vllm-workspace/examples/online_serving/multi-node-serving.sh"
serve = "vllm serve /models --port 8000 --tensor-parallel-size 8 --pipeline-parallel-size 2"
MultiNodeDeployment(
    stack,
    "R1",
    cluster=gpu,
    pool=pool,
    name="r1",
    # A vLLM image with EFA's libraries, which vllm/vllm-openai doesn't have.
    pod=GpuPod(
        image="registry.example.com/vllm-efa:1",
        gpus=8,
        efa=32,
        shm_gib=64,
        mounts=[VolumeClaimMount(path="/models", claim=r1.name, read_only=True)],
    ),
    nodes=2,
    replicas=2,
    leader=["sh", "-c", f"{ray} leader --ray_cluster_size=$(LWS_GROUP_SIZE) && {serve}"],
    worker=["sh", "-c", f"{ray} worker --ray_address=$(LWS_LEADER_ADDRESS)"],
    port=8000,
    queue=serving.name,
    expose=Internal(),
)
app.synth()
