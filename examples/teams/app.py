"""Two teams on one cluster, each with a namespace, members, a quota and a queue. Each lends its idle nodes."""

import aws_cdk as cdk

from gpu_constructs import GpuCluster, GpuJob, GpuPod
from gpu_constructs.queueing import GpuQueues, Kueue
from gpu_constructs.teams import Team, TeamQuota

app = cdk.App()
stack = cdk.Stack(app, "Shared")
role = "arn:aws:iam::111122223333:role/{}".format
gpu = GpuCluster(stack, "Gpu", admins=[role("Admin")], operators=[role("OnCall")], network_policies=True)
pool = gpu.add_pool("l4", "g6.xlarge", max_nodes=8)

# The quota is the max that a team may use, its own and borrowed GPUs together.
quota = TeamQuota(gpus=8, vcpus=32, memory_gib=128)
nlp = Team(stack, "Nlp", cluster=gpu, namespace="nlp", members={role("Nlp"): "edit"}, quota=quota, isolate=True)
vision = Team(
    stack, "Vision", cluster=gpu, namespace="vision", members={role("Vision"): "edit"}, quota=quota, isolate=True
)
queues = [nlp.queue(nodes={"l4": 5}), vision.queue(nodes={"l4": 3})]
kueue = Kueue(stack, "Kueue", cluster=gpu)
GpuQueues(stack, "Queues", cluster=gpu, kueue=kueue, pools=[pool], teams=queues)

GpuJob(
    stack,
    "Finetune",
    cluster=gpu,
    pool=pool,
    name="finetune",
    namespace=nlp.namespace,
    queue=queues[0].name,
    pod=GpuPod(image="registry.example.com/finetune:1", command=("python", "finetune.py"), run_as_user=1000),
    max_hours=12,
)
app.synth()
