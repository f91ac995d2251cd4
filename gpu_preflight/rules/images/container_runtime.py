"""Containers that do not get NVIDIA's runtime."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DCGM_EXPORTER, DEVICE_PLUGIN, GPU_OPERATOR
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.model.pod import pod_of
from gpu_preflight.reading.unknown import dig, known_text
from gpu_preflight.rules.rule import Problem, rule

_DEFAULT_RUNTIME = regex(r"default_runtime_name\s*=\s*[\"']([\w.-]+)[\"']")
_NVIDIA_RUNTIME = regex(r"runtimes\.[\"']?nvidia[\"']?[\].]")
_CHARTS = (DEVICE_PLUGIN, DCGM_EXPORTER)


@rule(
    "GPU018", "warning", source="awslabs/amazon-eks-ami v20260724 nodeadm/internal/containerd/runtime_config_nvidia.go"
)
def runtime_of_containerd_changed_on_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Runtime of containerd changed on GPU nodes.

    EKS images make nvidia the default runtime; without it containers see no GPU and no driver library.

    Fix: Leave the runtimes out of spec.containerd.config of the NodeConfig.
    """
    for pool in case.gpu_pools:
        written = known_text(dig(pool.user_data.node_config, "containerd", "config")) or ""
        default = _DEFAULT_RUNTIME.search(written)
        if default and default.group(1) != "nvidia":
            message = f"containerd is told to use {default.group(1)} instead of nvidia"
            yield Problem.of(pool, message)
        elif _NVIDIA_RUNTIME.search(written):
            yield Problem.of(pool, "containerd is told another runtime nvidia than the image's")


@rule("GPU019", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def daemonset_with_a_runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """RuntimeClass of a DaemonSet that does not exist.

    The API server refuses its pods, so no node gets the device plugin or the exporter.

    Fix: Leave runtimeClassName out, nvidia is the default runtime of EKS images, or create the RuntimeClass.
    """
    cluster = case.cluster
    if not cluster.shows_software or cluster.chart(GPU_OPERATOR):
        return
    known = {each.name for each in cluster.of_kind("RuntimeClass")}
    for chart in cluster.charts:
        name = known_text(chart.values.get("runtimeClassName")) if chart.name in _CHARTS else None
        if name and name not in known:
            message = f"chart {chart.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            yield Problem(chart, message)
    for daemon in cluster.of_kind("DaemonSet"):
        name = pod_of(daemon).runtime_class
        if name and name not in known:
            message = f"DaemonSet {daemon.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            yield Problem(daemon, message)
