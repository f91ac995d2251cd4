"""Nodes that have GPUs which nobody, or more than one, advertises."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.images import has_driver
from gpu_constructs.preflight.model import EFA, GPU, Chart, Cluster, DaemonSet, Object, Pool
from gpu_constructs.preflight.node_selection import selection
from gpu_constructs.preflight.nodes import GPU_PRESENT, nodes_to_be, reaches
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.unknown import dig, known_text, mapping, mappings

_DEVICE_MANAGEMENT = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html"
_PLUGIN_CHANGES = "https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/CHANGELOG.md"
_OPERATOR, _PLUGIN = "gpu-operator", "nvidia-device-plugin"
_DRA_CHARTS = ("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu")
# They took every InfiniBand device for themselves unless told not to.
_GREEDY = ("0.19.0", "0.19.1", "0.19.2")
_NEEDS_HOST = (_PLUGIN, _OPERATOR, "dcgm-exporter", "aws-efa-k8s-device-plugin", *_DRA_CHARTS)
_ENFORCE = "pod-security.kubernetes.io/enforce"


def _built_in(pool: Pool) -> str | None:
    """Return the name of the device manager that a pool's nodes bring along."""
    if pool.kind == "auto-mode":
        return "EKS Auto Mode"
    switched_off = dig(dict(pool.user_data.settings), "kubelet-device-plugins", "nvidia", "enabled") is False
    if pool.operating_system == "bottlerocket" and has_driver(pool) is not Answer.NO and not switched_off:
        return "Bottlerocket"
    return None


def _plugins(cluster: Cluster) -> list[DaemonSet]:
    return [each for each in cluster.daemon_sets if GPU in each.advertises]


def _managers(cluster: Cluster, pool: Pool) -> list[tuple[str, Answer]]:
    found = [(each.name, reaches(each, pool, cluster)) for each in _plugins(cluster)]
    built_in = _built_in(pool)
    return [*([(built_in, Answer.YES)] if built_in else []), *found]


def _dra(cluster: Cluster) -> Chart | None:
    return next((chart for each in _DRA_CHARTS if (chart := cluster.chart(each))), None)


def _nobody(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        answers = [answer for _, answer in _managers(cluster, pool)]
        if Answer.YES in answers or _dra(cluster) or _reaches_as_read(cluster, pool):
            continue
        unknown = Answer.UNKNOWN in answers or not cluster.sees_software
        if cluster.whole or not unknown:
            yield Problem(pool.origin, f"pool {pool.name}: {_why_nobody(cluster, pool)}", unknown=unknown)


def _reaches_as_read(cluster: Cluster, pool: Pool) -> bool:
    """Whether a plugin runs on a pool if its version is like the nearest one that was read."""
    plugins = [each for each in _plugins(cluster) if not each.exact]
    as_read = replace(cluster, daemon_sets=tuple(replace(each, exact=True) for each in cluster.daemon_sets))
    return any(reaches(replace(each, exact=True), pool, as_read) is Answer.YES for each in plugins)


def _why_nobody(cluster: Cluster, pool: Pool) -> str:
    misses = [text for each in _plugins(cluster) if (text := _miss(each, pool, cluster))]
    if misses:
        return f"nothing advertises {GPU}: {'; '.join(misses)}"
    for name in (_OPERATOR, _PLUGIN):
        chart = cluster.chart(name)
        if chart and dig(dict(chart.values), "devicePlugin", "enabled") in (False, "false"):
            return f"nothing advertises {GPU}: devicePlugin.enabled of chart {name} is false"
    return f"nothing that reaches its nodes advertises {GPU}"


def _miss(daemon: DaemonSet, pool: Pool, cluster: Cluster) -> str | None:
    """Return why a plugin does not run on a pool, ``None`` when it may."""
    taints = [taint for taint, answer in untolerated(daemon.pod, pool.taints, daemon=True) if answer is Answer.NO]
    if taints:
        return f"{daemon.name} does not tolerate {', '.join(map(str, taints))}"
    for node in nodes_to_be(pool, cluster):
        wanted = selection(daemon.pod)
        named = any(one.key == GPU_PRESENT for each in wanted.terms or () for one in each.labels)
        unmet = [str(each) for each, answer in wanted.unmet(node.labels) if answer is Answer.NO]
        if unmet:
            labels = f"{GPU_PRESENT}=true" if named else ", ".join(unmet)
            return f"{daemon.name} asks for label {labels}, which its nodes do not have"
    return None


def _two(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        names = [name for name, answer in _managers(cluster, pool) if answer is Answer.YES]
        names += [each.name for each in _claimed_from(cluster) if reaches(each, pool, cluster) is Answer.YES]
        if len(names) > 1:
            yield Problem(pool.origin, f"pool {pool.name}: {' and '.join(names)} both advertise its GPUs")


def _claimed_from(cluster: Cluster) -> list[DaemonSet]:
    """Return the DaemonSets that offer GPUs to claims."""
    chart = _dra(cluster)
    if chart is None or dig(dict(chart.values), "resources", "gpus", "enabled") in (False, "false"):
        return []
    return [each for each in cluster.daemon_sets if each.origin == chart.origin]


def _over_the_image(cluster: Cluster) -> Iterator[Problem]:
    chart = cluster.chart(_OPERATOR)
    pools = [each.name for each in cluster.gpu_pools if has_driver(each) is Answer.YES and each.kind != "auto-mode"]
    if chart is None or not pools:
        return
    parts = [each for each in ("driver", "toolkit") if dig(dict(chart.values), each, "enabled") in (None, True, "true")]
    if parts:
        switches = " and ".join(f"{each}.enabled" for each in parts)
        message = f"chart {_OPERATOR}: {switches} not set to false, and the image of {', '.join(pools)} has its own"
        yield Problem(chart.origin, message)


def _not_privileged(cluster: Cluster) -> Iterator[Problem]:
    for namespace in cluster.of_kind("Namespace"):
        level = namespace.labels.get(_ENFORCE)
        if level not in ("baseline", "restricted"):
            continue
        found = [(each.name, each.origin, each.namespace) for each in cluster.charts if each.name in _NEEDS_HOST]
        found += [
            (each.name, each.origin, each.namespace)
            for each in cluster.of_kind("DaemonSet")
            if _advertises(each, cluster)
        ]
        for name, origin, place in found:
            if place == namespace.name:
                yield Problem(origin, f"{name} is in namespace {place}, which enforces {level}")


def _advertises(applied: Object, cluster: Cluster) -> bool:
    return any(each.origin == applied.origin and each.advertises for each in cluster.daemon_sets)


def _greedy(cluster: Cluster) -> Iterator[Problem]:
    if not any(EFA in each.advertises for each in cluster.daemon_sets):
        return
    chart = cluster.chart(_PLUGIN)
    if chart and chart.version in _GREEDY and chart.values.get("mofedEnabled") in (None, True, "true"):
        yield Problem(chart.origin, f"chart {_PLUGIN} {chart.version} also hands out the devices of EFA")
    for daemon in _plugins(cluster):
        for container in mappings(daemon.pod.get("containers")):
            version = (known_text(container.get("image")) or "").rpartition(":v")[2]
            told = {str(each.get("name")): each.get("value") for each in mappings(container.get("env"))}
            words = str(mapping(container).get("args")) + str(container.get("command"))
            if version in _GREEDY and told.get("MOFED_ENABLED") != "false" and "--mofed-enabled=false" not in words:
                yield Problem(daemon.origin, f"{daemon.name} {version} also hands out the devices of EFA")


RULES = (
    Rule(
        id="GPU010",
        severity="error",
        title="Nothing advertises the GPUs of a pool",
        why="The node joins without nvidia.com/gpu in its allocatable resources; the pod it was for stays Pending.",
        source=_DEVICE_MANAGEMENT,
        fix="Install NVIDIA's device plugin with tolerations and node affinity that reach the pool.",
        causes=("D1", "D2", "D3", "P010"),
        check=_nobody,
    ),
    Rule(
        id="GPU011",
        severity="error",
        title="Two device managers on one node",
        why="Both register the same GPUs with kubelet, so pods are given GPUs that others already have.",
        source=_DEVICE_MANAGEMENT,
        fix="Keep one, and keep the other off the pool by node affinity.",
        causes=("D4", "D5", "D19", "P011", "P012"),
        check=_two,
    ),
    Rule(
        id="GPU012",
        severity="warning",
        title="GPU Operator installs what the image has",
        why="Its driver and toolkit do not fit EKS images; their pods crash or break the container runtime.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html",
        fix="Set driver.enabled and toolkit.enabled of the chart to false.",
        causes=("D6",),
        check=_over_the_image,
    ),
    Rule(
        id="GPU014",
        severity="error",
        title="Device plugin in a namespace that forbids it",
        why="Pod Security refuses host paths and privileges there, so the DaemonSet makes no pods.",
        source="https://kubernetes.io/docs/concepts/security/pod-security-standards/",
        fix="Label the namespace pod-security.kubernetes.io/enforce=privileged, or install into another one.",
        causes=("D18",),
        check=_not_privileged,
    ),
    Rule(
        id="GPU017",
        severity="warning",
        title="Device plugin that takes the devices of EFA",
        why="Versions 0.19.0 to 0.19.2 mount every InfiniBand device, and pods that ask for EFA fail.",
        source=_PLUGIN_CHANGES,
        fix="Take 0.19.3 or newer, or set mofedEnabled to false.",
        causes=("D16",),
        check=_greedy,
    ),
)
OUT_OF_REACH = (
    OutOfReach(
        "D7",
        "NVIDIA's kernel module does not load",
        "That a custom image or kernel does not fit the driver shows on the running node only.",
    ),
    OutOfReach(
        "D8",
        "Fabric manager does not run on instances with NVSwitch",
        "EKS images bring it; what is on a custom image no template says.",
    ),
    OutOfReach(
        "D9",
        "A GPU fails, and the node has fewer than it should",
        "Hardware fails later; node auto repair is there for it.",
    ),
)
