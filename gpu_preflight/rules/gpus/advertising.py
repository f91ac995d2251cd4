"""Nodes that have GPUs which nobody, or more than one, advertises."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import (
    DCGM_EXPORTER,
    DEVICE_PLUGIN,
    DRA_DRIVERS,
    EFA_DEVICE_PLUGIN,
    GPU_OPERATOR,
)
from gpu_facts.labels import ENFORCED_LEVEL, GPU_PRESENT
from gpu_facts.resources import EFA, GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import pod_of
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.node.claim_drivers import claim_drivers, claims_chart
from gpu_preflight.node.daemon_miss import Miss, miss
from gpu_preflight.node.gpu_devices import built_in
from gpu_preflight.node.nodes import reaches
from gpu_preflight.reading.eksctl.configs import configs
from gpu_preflight.reading.eksctl.device_plugins import default_plugin
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import dig
from gpu_preflight.rules.rule import Problem, rule

_DEVICE_MANAGEMENT = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html"
_PLUGIN_CHANGES = "https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/CHANGELOG.md"
# They took every InfiniBand device for themselves unless told not to.
_GREEDY = ("0.19.0", "0.19.1", "0.19.2")
_NEEDS_HOST = (DEVICE_PLUGIN, GPU_OPERATOR, DCGM_EXPORTER, EFA_DEVICE_PLUGIN, *DRA_DRIVERS)


def _plugins(cluster: Cluster) -> list[DaemonSet]:
    return [each for each in cluster.daemon_sets if GPU in each.advertises]


def _managers(case: Case, pool: Pool) -> list[tuple[str, Answer]]:
    found = [(each.name, case.reaches(each, pool)) for each in _plugins(case.cluster)]
    image = built_in(pool)
    return [*([image] if image else []), *found]


@rule("GPU010", "error", source=_DEVICE_MANAGEMENT)
def nothing_advertises_the_gpus_of_a_pool(case: Case) -> Iterator[Problem]:
    """Nothing advertises the GPUs of a pool.

    The node joins without nvidia.com/gpu in its allocatable resources; the pod it was for stays Pending.

    Fix: Install NVIDIA's device plugin with tolerations and node affinity that reach the pool.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        answers = [answer for _, answer in _managers(case, pool)]
        if Answer.YES in answers or claims_chart(cluster) or _reaches_as_read(case, pool):
            continue
        if "device-plugin" in cluster.assumed and not _misses(case, pool):
            continue
        unknown = Answer.UNKNOWN in answers or not cluster.sees_plugins_for(GPU)
        # Without a cluster in the input, only a plugin of the input that misses the pool is reported.
        if cluster.whole or not unknown or _misses(case, pool):
            yield Problem.of(pool, _why_nobody(case, pool), fix=_fix_of_miss(case, pool), unknown=unknown)


def _fix_of_miss(case: Case, pool: Pool) -> str:
    """Return what lets a plugin that is installed reach a pool; nothing where none is."""
    for daemon in _plugins(case.cluster):
        found = miss(daemon, pool.taints, case.nodes(pool))
        if found.taints:
            return f"Add tolerations for {', '.join(map(str, found.taints))} to {daemon.name}."
        if found.unselected:
            label = _wanted_label(daemon, found)
            return f"Label the nodes of the pool {label}, or change the node selection of {daemon.name}."
    return ""


def _reaches_as_read(case: Case, pool: Pool) -> bool:
    """Whether a plugin runs on a pool if its version is like the nearest one that was read."""
    plugins = [each for each in _plugins(case.cluster) if not each.exact]
    return any(case.reaches_as_read(each, pool) is Answer.YES for each in plugins)


def _why_nobody(case: Case, pool: Pool) -> str:
    cluster = case.cluster
    if misses := _misses(case, pool):
        return f"nothing advertises {GPU}: {'; '.join(misses)}"
    for name in (GPU_OPERATOR, DEVICE_PLUGIN):
        chart = cluster.chart(name)
        if chart and dig(chart.values, "devicePlugin", "enabled") in (False, "false"):
            return f"nothing advertises {GPU}: devicePlugin.enabled of chart {name} is false"
    return f"nothing that reaches its nodes advertises {GPU}"


def _misses(case: Case, pool: Pool) -> list[str]:
    """Return why each plugin of the input doesn't run on a pool."""
    return [text for each in _plugins(case.cluster) if (text := _miss(each, pool, case))]


def _miss(daemon: DaemonSet, pool: Pool, case: Case) -> str:
    """Return why a plugin does not run on a pool, nothing when it may."""
    found = miss(daemon, pool.taints, case.nodes(pool))
    if not found.unselected:
        return found.intolerance
    return f"{daemon.name} asks for label {_wanted_label(daemon, found)}, which its nodes do not have"


def _wanted_label(daemon: DaemonSet, found: Miss) -> str:
    """Return the label that a plugin selects and that nodes lack. Of several terms, people can meet one."""
    selection = daemon.pod.selection
    named = any(one.key == GPU_PRESENT for each in selection.terms or () for one in each.labels)
    selected = {str(each) for each in selection.selector}.intersection(found.unmet)
    return f"{GPU_PRESENT}=true" if named and not selected else ", ".join(found.unmet)


@rule("GPU011", "error", source=_DEVICE_MANAGEMENT, presumed=True)
def two_device_managers_on_one_node(case: Case) -> Iterator[Problem]:
    """Two device managers on one node.

    Both register the same GPUs with kubelet, so pods are given GPUs that others already have.

    Fix: Keep one, and keep the other off the pool by node affinity.
    """
    by_eksctl = _plugins_by_default(case.cluster)
    for pool in case.gpu_pools:
        names = [name for name, answer in _managers(case, pool) if answer is Answer.YES]
        names += [each.name for each in claim_drivers(case.cluster) if case.reaches(each, pool) is Answer.YES]
        if len(names) > 1:
            yield Problem.of(pool, f"{' and '.join(names)} both advertise its GPUs")
        elif names and any(reaches(each, pool, case.cluster) is not Answer.NO for each in by_eksctl):
            text = f"{names[0]} and the device plugin that eksctl installs by default both advertise its GPUs"
            fix = "Pass --install-nvidia-plugin=false to eksctl, or remove the other."
            yield Problem.of(pool, text, fix=fix, unknown=True)


def _plugins_by_default(cluster: Cluster) -> list[DaemonSet]:
    """Return the device plugins that eksctl installs by default and that the input doesn't contain.

    Source: eksctl-io/eksctl 99984ad pkg/ctl/cmdutils/nodegroup_flags.go, pkg/eks/tasks.go (2026-08-21)
    """
    own = [each for each in configs(list(cluster.objects)) if each.name == cluster.name]
    applied = {(each.namespace, each.name) for each in cluster.of_kind("DaemonSet")}
    return [
        DaemonSet(each.name, pod_of(each), each.origin, (GPU,))
        for config in own
        for each in default_plugin(config)
        if (each.namespace, each.name) not in applied
    ]


@rule("GPU012", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html")
def gpu_operator_installs_what_the_image_has(case: Case) -> Iterator[Problem]:
    """GPU Operator installs what the image has.

    Its driver and toolkit do not fit EKS images; their pods crash or break the container runtime.

    Fix: Set driver.enabled and toolkit.enabled of the chart to false.
    """
    chart = case.cluster.chart(GPU_OPERATOR)
    pools = [each.name for each in case.gpu_pools if has_driver(each) is Answer.YES and each.kind != "auto-mode"]
    if chart is None or not pools:
        return
    parts = [each for each in ("driver", "toolkit") if dig(chart.values, each, "enabled") in (None, True, "true")]
    if parts:
        switches = " and ".join(f"{each}.enabled" for each in parts)
        message = f"chart {GPU_OPERATOR}: {switches} not set to false, and the image of {', '.join(pools)} has its own"
        yield Problem(chart, message)


@rule("GPU014", "error", source="https://kubernetes.io/docs/concepts/security/pod-security-standards/")
def device_plugin_in_a_namespace_that_forbids_it(case: Case) -> Iterator[Problem]:
    """Device plugin in a namespace that forbids it.

    Pod Security refuses host paths and privileges there, so the DaemonSet makes no pods.

    Fix: Label the namespace pod-security.kubernetes.io/enforce=privileged, or install into another one.
    """
    cluster = case.cluster
    for namespace in cluster.of_kind("Namespace"):
        level = namespace.labels.get(ENFORCED_LEVEL)
        if level not in ("baseline", "restricted"):
            continue
        found: list[Chart | Object] = [each for each in cluster.charts if each.name in _NEEDS_HOST]
        found += [each for each in cluster.of_kind("DaemonSet") if _advertises(each, cluster)]
        for each in found:
            if each.namespace == namespace.name:
                yield Problem(each, f"{each.name} is in namespace {each.namespace}, which enforces {level}")


def _advertises(applied: Object, cluster: Cluster) -> bool:
    return any(each.origin == applied.origin and each.advertises for each in cluster.daemon_sets)


@rule("GPU017", "warning", source=_PLUGIN_CHANGES)
def device_plugin_that_takes_the_devices_of_efa(case: Case) -> Iterator[Problem]:
    """Device plugin that takes the devices of EFA.

    Versions 0.19.0 to 0.19.2 mount every InfiniBand device, and pods that ask for EFA fail.

    Fix: Take 0.19.3 or newer, or set mofedEnabled to false.
    """
    cluster = case.cluster
    if not any(EFA in each.advertises for each in cluster.daemon_sets):
        return
    chart = cluster.chart(DEVICE_PLUGIN)
    if chart and chart.version in _GREEDY and chart.values.get("mofedEnabled") in (None, True, "true"):
        yield Problem(chart, f"chart {DEVICE_PLUGIN} {chart.version} also hands out the devices of EFA")
    for daemon in _plugins(cluster):
        for container in daemon.pod.containers or ():
            version = container.image_text.rpartition(":v")[2]
            words = " ".join(map(str, container.words))
            off = container.env.get("MOFED_ENABLED") == "false" or "--mofed-enabled=false" in words
            if version in _GREEDY and not off:
                yield Problem(daemon, f"{daemon.name} {version} also hands out the devices of EFA")
