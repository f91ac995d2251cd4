"""Containers that do not get NVIDIA's runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.preflight.model import Cluster
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import dig, known_text

_DEFAULT_RUNTIME = re.compile(r"default_runtime_name\s*=\s*[\"']([\w.-]+)[\"']")
_NVIDIA_RUNTIME = re.compile(r"runtimes\.[\"']?nvidia[\"']?[\].]")
_CHARTS = ("nvidia-device-plugin", "dcgm-exporter")


def _other_runtime(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        written = known_text(dig(dict(pool.user_data.node_config), "containerd", "config")) or ""
        default = _DEFAULT_RUNTIME.search(written)
        if default and default.group(1) != "nvidia":
            message = f"pool {pool.name}: containerd is told to use {default.group(1)} instead of nvidia"
            yield Problem(pool.origin, message)
        elif _NVIDIA_RUNTIME.search(written):
            yield Problem(pool.origin, f"pool {pool.name}: containerd is told another runtime nvidia than the image's")


def _no_class(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.sees_software or cluster.chart("gpu-operator"):
        return
    known = {each.name for each in cluster.of_kind("RuntimeClass")}
    for chart in cluster.charts:
        name = known_text(chart.values.get("runtimeClassName")) if chart.name in _CHARTS else None
        if name and name not in known:
            yield Problem(
                chart.origin, f"chart {chart.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            )
    for daemon in cluster.of_kind("DaemonSet"):
        name = known_text(dig(dict(daemon.spec), "template", "spec", "runtimeClassName"))
        if name and name not in known:
            message = f"DaemonSet {daemon.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            yield Problem(daemon.origin, message)


RULES = (
    Rule(
        id="GPU018",
        severity="warning",
        title="Runtime of containerd changed on GPU nodes",
        why="EKS images make nvidia the default runtime; without it containers see no GPU and no driver library.",
        source="awslabs/amazon-eks-ami v20260724 nodeadm/internal/containerd/runtime_config_nvidia.go",
        fix="Leave the runtimes out of spec.containerd.config of the NodeConfig.",
        causes=("D14",),
        check=_other_runtime,
    ),
    Rule(
        id="GPU019",
        severity="error",
        title="RuntimeClass of a DaemonSet that does not exist",
        why="The API server refuses its pods, so no node gets the device plugin or the exporter.",
        source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
        fix="Leave runtimeClassName out, nvidia is the default runtime of EKS images, or create the RuntimeClass.",
        causes=("D15",),
        check=_no_class,
    ),
)
