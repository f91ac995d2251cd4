"""The app in which faults are planted, and small correct apps, synthesized to disk as by `cdk synth`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm

from gpu_constructs import (
    ClusterAutoscaler,
    DevicePlugin,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuPod,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    Mps,
    NodeShape,
    Spot,
    TimeSlicing,
    UpTo,
    gpu_vpc,
)

ACCOUNT, REGION = "123456789012", "us-east-1"
ZONES = ("us-east-1b", "us-east-1c")
STACK = "Mine"
EXPORT = "mine-node-subnet"
P5 = "p5.48xlarge"
_ADMIN = f"arn:aws:iam::{ACCOUNT}:role/Admin"
_ROOT = Path(__file__).parents[3]
_FLAGS: Mapping[str, Any] = json.loads((_ROOT / "cdk.json").read_text())["context"]
_SERVER = GpuPod(image="vllm/vllm-openai:v0.33.0")

Define = Callable[[cdk.Stack], object]


def synthesize(define: Define, folder: Path, *, account: str | None = ACCOUNT) -> Path:
    """Synthesize an app of one stack with the flags of ``cdk.json``, with assets and with paths in its metadata."""
    context = {**_FLAGS, "aws:cdk:enable-path-metadata": True}
    app = cdk.App(context=context, outdir=str(folder), analytics_reporting=False)
    define(cdk.Stack(app, STACK, env=cdk.Environment(account=account, region=REGION)))
    app.synth()
    return folder


def _cluster(stack: cdk.Stack) -> GpuCluster:
    vpc = gpu_vpc(stack, "Vpc", availability_zones=ZONES, nat_gateways=1)
    return GpuCluster(stack, "Gpu", vpc=vpc, cluster_name="mine", admins=(_ADMIN,))


def own_app(stack: cdk.Stack) -> GpuCluster:
    """Nodes of Karpenter for a server, and one managed node for a training job."""
    gpu = _cluster(stack)
    Karpenter(stack, "Karpenter", cluster=gpu)
    g6 = gpu.add_pool("g6", NodeShape(instance_types=("g6.xlarge", "g6.2xlarge")), size=UpTo(gpus=4))
    shape = NodeShape(instance_types=(P5,))
    p5 = ManagedNodeGroup(stack, "P5", cluster=gpu, name="p5", shape=shape, min_nodes=1, max_nodes=2)
    GpuDeployment(stack, "Chat", cluster=gpu, pool=g6, name="chat", pod=_SERVER, port=8000)
    image = "pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"
    GpuJob(stack, "Train", cluster=gpu, pool=p5, name="train", pod=GpuPod(image=image, gpus=8))
    return gpu


def own_app_with_import(stack: cdk.Stack) -> None:
    """The same app, and a second stack that imports a value which the first one exports."""
    gpu = own_app(stack)
    cdk.CfnOutput(stack, "NodeSubnet", value=gpu.vpc.private_subnets[0].subnet_id, export_name=EXPORT)
    second = cdk.Stack(cdk.Stage.of(stack), "Consumer", env=cdk.Environment(account=ACCOUNT, region=REGION))
    second.node.add_dependency(stack)
    ssm.CfnParameter(second, "Subnet", type="String", value=cdk.Fn.import_value(EXPORT))


def without_account(stack: cdk.Stack) -> None:
    """A managed group and a server in a stack without an account, with an admin of some account."""
    gpu = GpuCluster(stack, "Gpu", admins=("arn:aws:iam::111122223333:role/Admin",))
    l40s = gpu.add_pool("l40s", NodeShape(instance_types=("g6e.4xlarge",)), max_nodes=4)
    GpuDeployment(stack, "Chat", cluster=gpu, pool=l40s, name="chat", pod=_SERVER, port=8000, replicas=2)


def bottlerocket(stack: cdk.Stack) -> None:
    """A managed group of Bottlerocket on Spot with cluster autoscaler."""
    gpu = _cluster(stack)
    shape = NodeShape(instance_types=("g6.xlarge", "g5.xlarge"), operating_system="bottlerocket")
    pool = gpu.add_pool("g6", shape, max_nodes=4, capacity=Spot())
    GpuJob(stack, "Train", cluster=gpu, pool=pool, name="train", pod=_SERVER)


def time_slices(stack: cdk.Stack) -> None:
    """GPUs that four pods share by time, on nodes of Karpenter."""
    gpu = _cluster(stack)
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu)
    DevicePlugin(stack, "Plugin", cluster=gpu)
    shape = NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(replicas=4))
    pool = KarpenterNodePool(
        stack, "Pool", cluster=gpu, karpenter=karpenter, name="shared", shape=shape, size=UpTo(gpus=2)
    )
    GpuDeployment(stack, "Chat", cluster=gpu, pool=pool, name="chat", pod=_SERVER, port=8000)


def shared_by_mps(stack: cdk.Stack) -> None:
    """GPUs that two pods share by MPS, in a managed group with cluster autoscaler."""
    gpu = _cluster(stack)
    ClusterAutoscaler(stack, "Autoscaler", cluster=gpu)
    shape = NodeShape(instance_types=("g6e.2xlarge",), sharing=Mps(replicas=2))
    pool = gpu.add_pool("mps", shape, min_nodes=1, max_nodes=2)
    GpuDeployment(stack, "Chat", cluster=gpu, pool=pool, name="chat", pod=_SERVER, port=8000)


def _example(name: str) -> Callable[[Path], Path]:
    return partial(_run, _ROOT / "examples" / name / "app.py", {})


def _run(app: Path, context: Mapping[str, Any], folder: Path) -> Path:
    # tools.plays imports moto, which isn't installed where tests only read templates.
    from tools.plays import synthesize_app

    synthesize_app(app, folder, context)
    return folder


# Without the fleet, which is the same platform nine times.
_EXAMPLES = (
    *("auto_mode", "dra_pool", "existing_cluster", "llm_service", "mig_on_p5", "model_from_s3", "mounted_bucket"),
    *("multi_node_serving", "multi_node_training", "quickstart", "shared_notebooks", "teams", "training_on_lustre"),
)
# Each synthesizes to the folder that it is given.
CORRECT: Mapping[str, Callable[[Path], Path]] = {
    "own-app": partial(synthesize, own_app),
    "without-account": partial(synthesize, without_account, account=None),
    "bottlerocket": partial(synthesize, bottlerocket),
    "time-slices": partial(synthesize, time_slices),
    "shared-by-mps": partial(synthesize, shared_by_mps),
    "default-karpenter": partial(_run, _ROOT / "app.py", {"autoscaler": "karpenter"}),
    "reference-stacks": _example("reference_stacks"),
    **{each.replace("_", "-"): _example(each) for each in _EXAMPLES},
}
