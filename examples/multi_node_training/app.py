"""Training on four p5 nodes with EFA: the job waits in its team's queue until all of them are available."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from gpu_constructs import GpuCluster, GpuJob, GpuPod, NodeShape
from gpu_constructs.queueing import GpuQueues, Kueue, TeamQueue

app = cdk.App()
stack = cdk.Stack(app, "Training")
gpu = GpuCluster(stack, "Gpu")
kueue = Kueue(stack, "Kueue", cluster=gpu)
rack = ec2.CfnPlacementGroup(stack, "Rack", strategy="cluster")
pool = gpu.add_pool(
    "p5",
    NodeShape(instance_types=("p5.48xlarge",), purpose="training", efa=True, placement_group=rack.ref),
    max_nodes=4,
    # EFA works only within one zone.
    subnets=gpu.vpc.private_subnets[:1],
)
GpuQueues(
    stack,
    "Queues",
    cluster=gpu,
    kueue=kueue,
    pools=[pool],
    teams=[TeamQueue(name="research", namespace="default", nodes={"p5": 4})],
)
GpuJob(
    stack,
    "Pretrain",
    cluster=gpu,
    pool=pool,
    name="pretrain",
    pod=GpuPod(
        image="pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime",
        # torchrun reads the address of the first pod and the number of pods from its environment.
        command=("torchrun", "--nproc-per-node", "8", "train.py"),
        gpus=8,
        efa=32,
        shm_gib=64,
    ),
    pods=4,
    gang=True,
    queue="research",
    max_hours=72,
)
app.synth()
