"""NVIDIA's charts: values they refuse, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import DCGM_EXPORTER, DEVICE_PLUGIN, DRA_DRIVER, GPU_OPERATOR
from gpu_facts.labels import NODE_FEATURE
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.node.nodes import FEATURE_WORKERS
from gpu_preflight.reading.objects import Chart, Origin
from gpu_preflight.reading.unknown import dig, is_true, mapping
from gpu_preflight.rules.rule import Problem, rule

_UNSUPPORTED = ("al2023", "bottlerocket")
_CHARTS = (DEVICE_PLUGIN, GPU_OPERATOR, DRA_DRIVER, DCGM_EXPORTER)
_DEPTH = 4


def _value(chart: Chart, *path: str) -> Any:
    return dig(chart.values, *path)


@rule(
    "GPU240",
    "error",
    source="templates/ of NVIDIA/gpu-operator v26.7.0, k8s-device-plugin v0.20.0, dra-driver-nvidia-gpu v0.4.1",
)
def values_that_nvidias_chart_refuses(case: Case) -> Iterator[Problem]:
    """Values that NVIDIA's chart refuses.

    Helm renders nothing and the deployment fails.

    Fix: Choose one of the two, or add the value that is named.
    """
    cluster = case.cluster
    checks = {DEVICE_PLUGIN: _plugin, GPU_OPERATOR: _operator, DRA_DRIVER: _dra}
    for chart in cluster.charts:
        for message in checks[chart.name](chart) if chart.name in checks else ():
            yield Problem(chart, f"chart {chart.name}: {message}")
    policies = [each for each in cluster.of_kind("ClusterPolicy", "GPUCluster") if each.group == "nvidia.com"]
    if len({each.kind for each in policies}) > 1:
        names = " and ".join(f"{each.kind} {each.name}" for each in policies)
        yield Problem(policies[0], f"{names} cannot both be")


def _plugin(chart: Chart) -> Iterator[str]:
    if chart.namespace == "default" and not _value(chart, "allowDefaultNamespace"):
        yield "refuses namespace default"
    maps = mapping(_value(chart, "config", "map"))
    if maps and _value(chart, "config", "name"):
        yield "config.name and config.map are both set"
    chosen = _value(chart, "config", "default") or "default" in maps or _value(chart, "config", "fallbackStrategies")
    if len(maps) > 1 and not chosen:
        yield f"config.map has {', '.join(str(name) for name in maps)}, config.default names none of them"


def _operator(chart: Chart) -> Iterator[str]:
    if is_true(_value(chart, "gpuCluster", "deployCR")) and _value(chart, "clusterPolicy", "deployCR") in (None, True):
        yield "gpuCluster.deployCR and clusterPolicy.deployCR are both on"
    config = mapping(_value(chart, "devicePlugin", "config"))
    if is_true(config.get("create")) and not (config.get("name") and config.get("data")):
        yield "devicePlugin.config.create needs devicePlugin.config.name and data"
    if is_true(_value(chart, "cdi", "nriPluginEnabled")) and _value(chart, "toolkit", "enabled") is False:
        yield "cdi.nriPluginEnabled needs the toolkit, which is off"


def _dra(chart: Chart) -> Iterator[str]:
    on = _value(chart, "resources", "gpus", "enabled") in (None, True)
    if on and _value(chart, "gpuResourcesEnabledOverride") in (None, False):
        yield "resources.gpus.enabled needs gpuResourcesEnabledOverride: true"


@rule(
    "GPU241", "note", source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html"
)
def gpu_operator_on_an_unsupported_operating_system(case: Case) -> Iterator[Problem]:
    """GPU Operator on an operating system that NVIDIA does not support.

    It runs with driver and toolkit off, as AWS documents; NVIDIA's support matrix lists neither AL2023 nor
    Bottlerocket.

    Fix: Know whom to ask when it fails, or take the device plugin and DCGM exporter by themselves.
    """
    chart = case.cluster.chart(GPU_OPERATOR)
    names = [pool.name for pool in case.gpu_pools if pool.operating_system in _UNSUPPORTED]
    if chart is not None and names:
        yield Problem(chart, f"pool {', '.join(names)} has an operating system that NVIDIA does not list")


@rule("GPU242", "warning", source="NVIDIA/k8s-device-plugin v0.20.0 deployments/helm/nvidia-device-plugin/values.yaml")
def node_feature_discovery_kept_off_the_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Node Feature Discovery kept off the GPU nodes.

    Its worker of the device plugin's chart tolerates nvidia.com/gpu=present only, so Node Feature Discovery adds no
    hardware labels. Before version 0.19 GPU feature discovery adds none either.

    Fix: Set nfd.worker.tolerations to {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}.
    """
    workers = [each for each in case.cluster.daemon_sets if each.name.endswith(FEATURE_WORKERS)]
    for pool in case.gpu_pools:
        if workers and all(case.reaches(each, pool) is Answer.NO for each in workers):
            text = f"{workers[0].name} does not run on its nodes, so they get no label {NODE_FEATURE}..."
            yield Problem(workers[0], f"pool {pool.name}: {text}")


@rule("GPU243", "warning", source="NVIDIA/gpu-operator v26.7.0 deployments/gpu-operator/values.yaml")
def misspelt_switch_of_a_chart(case: Case) -> Iterator[Problem]:
    """Switch of a chart that is misspelt.

    The chart has no schema: it ignores the value and keeps its default, which may be the opposite.

    Fix: Write enabled.
    """
    for chart in case.cluster.charts:
        if chart.name in _CHARTS:
            for path in _switches(dict(chart.values), (), _DEPTH):
                yield Problem(chart, f"chart {chart.name}: no value is called {path}; it is called {path}d")


def _switches(values: dict[str, Any], path: tuple[str, ...], depth: int) -> Iterator[str]:
    for key, value in values.items():
        here = (*path, str(key))
        if key == "enable" and isinstance(value, (bool, str)):
            yield ".".join(here)
        elif isinstance(value, dict) and depth:
            yield from _switches(value, here, depth - 1)


@rule("GPU217", "note", source="NVIDIA/k8s-device-plugin v0.20.0 deployments/static/nvidia-device-plugin.yml")
def device_plugin_without_priority(case: Case) -> Iterator[Problem]:
    """Device plugin without priority.

    On a full node its pod waits behind yours or is evicted for them, and no GPU is advertised until it runs.

    Fix: Set priorityClassName: system-node-critical, as NVIDIA's own manifest does.
    """
    cluster = case.cluster
    charts: set[Origin] = {each.origin for each in cluster.charts}
    for each in cluster.daemon_sets:
        priority = each.pod.priority_class
        if GPU in each.advertises and each.origin not in charts and priority is None:
            image = next((one.image_text for one in each.pod.containers or ()), "").rpartition("/")[2]
            yield Problem(each, f"DaemonSet {each.name} ({image}) has no priorityClassName")
