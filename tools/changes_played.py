"""The stack of the update scenario: the changes of docs/reference/changes.md, one version of one stack each."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import aws_cdk as cdk

from gpu_constructs import (
    DevicePlugin,
    Disk,
    GpuCluster,
    GpuDeployment,
    GpuPod,
    Karpenter,
    KarpenterNodePool,
    NodeShape,
    OnDemand,
    Spot,
    SystemNodes,
    Taint,
    UpTo,
    gpu_vpc,
)
from gpu_constructs.pools import Disruption

ANN, BEN, CAT = (f"arn:aws:iam::123456789012:role/{each}" for each in ("Ann", "Ben", "Cat"))
# Class, option and new value. Each version includes all earlier changes. Changes that replace nodes are last.
CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("GpuDeployment", "replicas", 2),
    ("GpuCluster", "public_access_cidrs", ["203.0.113.0/24"]),
    ("KarpenterNodePool", "size", UpTo(gpus=12)),
    ("GpuPod", "image", "registry.example.com/other:2"),
    ("GpuCluster", "admins", (ANN,)),
    ("GpuCluster", "admins", (ANN, BEN)),
    ("GpuCluster", "viewers", (CAT,)),
    ("GpuCluster", "admins", ()),
    ("GpuCluster", "viewers", ()),
    ("GpuCluster", "operators", (ANN,)),
    ("GpuCluster", "deletion_protection", True),
    ("GpuCluster", "deletion_protection", False),
    ("GpuCluster", "log_days", 30),
    ("GpuCluster", "upgrade_policy", "standard"),
    ("GpuCluster", "network_policies", True),
    ("GpuCluster", "prefix_delegation", True),
    ("gpu_vpc", "nat_gateways", 2),
    ("gpu_vpc", "nat_gateways", 1),
    ("SystemNodes", "max_nodes", 3),
    ("Karpenter", "values", {"priorityClassName": "system-node-critical"}),
    ("KarpenterNodePool", "size", UpTo(gpus=6)),
    ("KarpenterNodePool", "disruption", Disruption(consolidation="WhenEmpty", consolidate_after_minutes=10)),
    ("GpuDeployment", "replicas", 1),
    ("GpuDeployment", "health_path", "/healthz"),
    ("GpuDeployment", "startup_minutes", 20),
    ("GpuDeployment", "port", 8080),
    ("GpuPod", "args", ("--verbose",)),
    ("GpuPod", "command", ("serve",)),
    ("GpuPod", "env", {"LEVEL": "debug"}),
    ("GpuPod", "cpus", 1),
    ("GpuPod", "memory_gib", 2),
    ("GpuPod", "shm_gib", 1),
    ("GpuPod", "run_as_user", 1000),
    ("GpuDeployment", "name", "talk"),
    ("GpuDeployment", "namespace", "kube-public"),
    ("DevicePlugin", "image", "registry.example.com/k8s-device-plugin:other"),
    ("NodeShape", "labels", {"example.com/team": "research"}),
    ("KarpenterNodePool", "capacity", (Spot(), OnDemand())),
    ("NodeShape", "tags", {"team": "research"}),
    ("NodeShape", "disk", Disk(size_gib=250)),
    ("NodeShape", "taints", (Taint(key="example.com/team", value="research"),)),
)


def main() -> None:
    """Synthesize each version into a new folder. The first version has no change."""
    says: dict[str, dict[str, Any]] = defaultdict(dict)
    _version(0, says)
    for number, (name, option, value) in enumerate(CHANGES[: int(os.environ["CHANGES"])], start=1):
        says[name][option] = value
        _version(number, says)


def _version(number: int, says: dict[str, dict[str, Any]]) -> None:
    app = cdk.App(outdir=f"{os.environ['CDK_OUTDIR']}/{number:02}")
    stack = cdk.Stack(app, "Changed")
    nodes = SystemNodes(**{"max_nodes": 2, **says["SystemNodes"]})
    vpc = gpu_vpc(stack, "Vpc", availability_zones=("us-east-1a", "us-east-1b"), **says["gpu_vpc"])
    gpu = GpuCluster(stack, "Gpu", cluster_name="changed", vpc=vpc, system_nodes=nodes, **says["GpuCluster"])
    DevicePlugin(stack, "DevicePlugin", cluster=gpu.cluster, **says["DevicePlugin"])
    karpenter = Karpenter(stack, "Karpenter", cluster=gpu.cluster, **says["Karpenter"])
    shape = NodeShape(**{"instance_types": ("g6.xlarge",), **says["NodeShape"]})
    pool = KarpenterNodePool(
        stack,
        "Pool",
        cluster=gpu.cluster,
        name="gpu",
        shape=shape,
        karpenter=karpenter,
        **{"size": UpTo(gpus=8), **says["KarpenterNodePool"]},
    )
    pod = GpuPod(**{"image": "registry.example.com/chat:1", "gpus": 1, **says["GpuPod"]})
    GpuDeployment(
        stack,
        "Chat",
        cluster=gpu.cluster,
        pool=pool,
        pod=pod,
        **{"name": "chat", "port": 8000, "replicas": 1, **says["GpuDeployment"]},
    )
    app.synth()


if __name__ == "__main__":
    main()
