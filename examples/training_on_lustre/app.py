"""A team trains on data of its bucket: an FSx for Lustre file system reads the data and exports checkpoints."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuCluster, GpuJob, GpuPod, NodeShape, gpu_vpc
from gpu_constructs.queueing import GpuQueues, Kueue
from gpu_constructs.storage import LustreFileSystem, PersistentLustre
from gpu_constructs.teams import Team
from gpu_constructs.workloads import VolumeClaimMount

app = cdk.App()
stack = cdk.Stack(app, "Research", env=cdk.Environment(region="us-west-2"))
vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-west-2a", "us-west-2b"))
gpu = GpuCluster(stack, "Gpu", vpc=vpc)
rack = ec2.CfnPlacementGroup(stack, "Rack", strategy="cluster")
pool = gpu.add_pool(
    "p5",
    NodeShape(
        instance_types=("p5.48xlarge",),
        purpose="training",
        efa=True,
        placement_group=rack.ref,
        storage_drivers=("fsx",),
    ),
    max_nodes=2,
    # EFA works only within one zone, and the file system is fast only within its zone.
    subnets=vpc.private_subnets[:1],
)
# Pods with EFA lock memory, which the level baseline doesn't allow.
team = Team(stack, "Team", cluster=gpu, namespace="research", pod_security="privileged")
share = team.queue(nodes={"p5": 2})
kueue = Kueue(stack, "Kueue", cluster=gpu)
GpuQueues(stack, "Queues", cluster=gpu, kueue=kueue, pools=[pool], teams=[share])

bucket = s3.Bucket(stack, "Data", enforce_ssl=True, versioned=True)
size = PersistentLustre(size_gib=4800, mb_s_per_tib=500)
data = LustreFileSystem(stack, "Files", cluster=gpu, name="data", namespace=team.namespace, pool=pool, storage=size)
data.add_data_repository("Corpus", bucket=bucket, prefix="corpus/", path="/corpus")
data.add_data_repository("Checkpoints", bucket=bucket, prefix="checkpoints/", path="/checkpoints", exports=True)

mount = VolumeClaimMount(path="/data", claim=data.name)
train = ("torchrun", "--nproc-per-node", "8", "train.py", "--data", "/data/corpus", "--out", "/data/checkpoints")
job = GpuJob(
    stack,
    "Pretrain",
    cluster=gpu,
    pool=pool,
    name="pretrain",
    namespace=team.namespace,
    queue=share.name,
    pod=GpuPod(image="registry.example.com/train:1", command=train, gpus=8, efa=32, shm_gib=64, mounts=[mount]),
    pods=2,
    gang=True,
    max_hours=72,
)
job.node.add_dependency(data)
app.synth()
