"""Rules for NVIDIA's charts and DaemonSets: their values, device managers, and GPUs that no node advertises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import (
    DCGM_EXPORTER,
    DCGM_SERVER,
    DEVICE_PLUGIN,
    DRA_DRIVER,
    DRA_DRIVERS,
    EFA_DEVICE_PLUGIN,
    GPU_OPERATOR,
)
from gpu_facts.labels import ENFORCED_LEVEL, NODE_FEATURE
from gpu_facts.resources import EFA, GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.software import operator_installs
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.node.devices import built_in_device_manager, claim_drivers, claims_chart
from gpu_preflight.node.gpu_pools import may_launch_unknown_types
from gpu_preflight.node.nodes import FEATURE_WORKERS, Miss, miss, reaches
from gpu_preflight.reading.eksctl.recognition import configs
from gpu_preflight.reading.objects import Chart, Object, Origin
from gpu_preflight.reading.unknown import dig, is_true, known_number, mapping
from gpu_preflight.rule import Problem, rule

_SYSTEM_NAMES = {"al2023": "AL2023", "bottlerocket": "Bottlerocket"}
_UNSUPPORTED = tuple(_SYSTEM_NAMES)
_CHARTS = (DEVICE_PLUGIN, GPU_OPERATOR, DRA_DRIVER, DCGM_EXPORTER)
_DEPTH = 4
_DEVICE_MANAGEMENT = "https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia.html"
# These versions mount every InfiniBand device unless `mofedEnabled` is false.
_GREEDY = ("0.19.0", "0.19.1", "0.19.2")
_EFA_CONFLICT = "mounts every EFA device of a node into each GPU pod, so pods that request EFA may fail"
_NEEDS_HOST = (DEVICE_PLUGIN, GPU_OPERATOR, DCGM_EXPORTER, EFA_DEVICE_PLUGIN, *DRA_DRIVERS)
# Whether the plugin waits if it finds no GPU. By default it fails.
# Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/nvidia-device-plugin/main.go
_FAIL = ("FAIL_ON_INIT_ERROR", "--fail-on-init-error")
# Source: aws/eks-node-monitoring-agent v1.7.0 charts/eks-node-monitoring-agent/templates/dcgm-daemonset.yaml
_ENGINE, _ENGINE_PORT = "nv-hostengine", 5555
_OF_OPERATOR = "nvidia-dcgm"
# The values of charts with the tolerations of Node Feature Discovery's worker.
# Source: values.yaml of NVIDIA/k8s-device-plugin v0.20.0 and NVIDIA/gpu-operator v26.7.0
_WORKER_TOLERATIONS = {
    DEVICE_PLUGIN: "nfd.worker.tolerations",
    GPU_OPERATOR: "node-feature-discovery.worker.tolerations",
    "node-feature-discovery": "worker.tolerations",
}


def _value(chart: Chart, *path: str) -> Any:
    return dig(chart.values, *path)


@rule(
    "GPU240",
    "error",
    source="templates/ of NVIDIA/gpu-operator v26.7.0, k8s-device-plugin v0.20.0, dra-driver-nvidia-gpu v0.4.1",
)
def values_that_nvidias_chart_refuses(case: Case) -> Iterator[Problem]:
    """NVIDIA's chart rejects its values.

    Helm renders no objects, and the deployment fails.

    Fix: Set only one of two values that exclude each other, or add the missing value.
    """
    cluster = case.cluster
    checks = {DEVICE_PLUGIN: _plugin, GPU_OPERATOR: _operator, DRA_DRIVER: _dra}
    for chart in cluster.charts:
        for message, fix in checks[chart.name](chart) if chart.name in checks else ():
            yield Problem(chart, f"chart {chart.name}: {message}", fix)
    policies = [each for each in cluster.objects_of_kind("ClusterPolicy", "GPUCluster") if each.group == "nvidia.com"]
    if len({each.kind for each in policies}) > 1:
        names = " and ".join(f"{each.kind} {each.name}" for each in policies)
        text = f"{names} exclude each other, but both are in the cluster"
        yield Problem(policies[0], text, "Remove one of the two objects.")


def _plugin(chart: Chart) -> Iterator[tuple[str, str]]:
    """Yield why the chart rejects its values, and the fix."""
    if chart.namespace == "default" and not _value(chart, "allowDefaultNamespace"):
        yield (
            "rejects namespace default, in which it is installed",
            "Install the chart into another namespace, or set allowDefaultNamespace: true.",
        )
    maps = mapping(_value(chart, "config", "map"))
    if maps and _value(chart, "config", "name"):
        text = "config.name and config.map exclude each other, but both are set"
        yield text, "Remove config.name or config.map from the values."
    chosen = _value(chart, "config", "default") or "default" in maps or _value(chart, "config", "fallbackStrategies")
    if len(maps) > 1 and not chosen:
        names = ", ".join(repr(str(name)) for name in maps)
        yield f"config.default must name an entry of config.map: {names}", f"Set config.default to one of {names}."


def _operator(chart: Chart) -> Iterator[tuple[str, str]]:
    if is_true(_value(chart, "gpuCluster", "deployCR")) and _value(chart, "clusterPolicy", "deployCR") in (None, True):
        yield (
            "gpuCluster.deployCR and clusterPolicy.deployCR exclude each other, but both are on",
            "Set clusterPolicy.deployCR: false to use DRA, or remove gpuCluster.deployCR to use the device plugin.",
        )
    config = mapping(_value(chart, "devicePlugin", "config"))
    if is_true(config.get("create")) and not (config.get("name") and config.get("data")):
        yield (
            "devicePlugin.config.create needs devicePlugin.config.name and devicePlugin.config.data",
            "Set devicePlugin.config.name and devicePlugin.config.data.",
        )
    if is_true(_value(chart, "cdi", "nriPluginEnabled")) and _value(chart, "toolkit", "enabled") is False:
        yield "cdi.nriPluginEnabled is on and needs toolkit.enabled: true", "Set cdi.nriPluginEnabled: false."


def _dra(chart: Chart) -> Iterator[tuple[str, str]]:
    on = _value(chart, "resources", "gpus", "enabled") in (None, True)
    if on and _value(chart, "gpuResourcesEnabledOverride") in (None, False):
        yield (
            "resources.gpus.enabled is on and needs gpuResourcesEnabledOverride: true",
            "Set gpuResourcesEnabledOverride: true, or resources.gpus.enabled: false if the driver only manages IMEX.",
        )


@rule(
    "GPU241", "note", source="https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html"
)
def gpu_operator_on_an_unsupported_operating_system(case: Case) -> Iterator[Problem]:
    """GPU Operator runs on an operating system that NVIDIA doesn't list as supported.

    The operator works with driver and toolkit off, as AWS documents. NVIDIA's support matrix lists neither AL2023 nor
    Bottlerocket.

    Fix: Install charts nvidia-device-plugin and dcgm-exporter instead of the operator, or accept that NVIDIA may not
    support the operator on these nodes.
    """
    chart = case.cluster.chart(GPU_OPERATOR)
    pools = [pool for pool in case.gpu_pools if pool.operating_system in _UNSUPPORTED]
    if chart is not None and pools:
        systems = " and ".join(dict.fromkeys(_SYSTEM_NAMES[each.operating_system or ""] for each in pools))
        names = ", ".join(each.name for each in pools)
        text = f"chart {GPU_OPERATOR}: pool {names} uses {systems}, which NVIDIA doesn't list as supported"
        yield Problem(chart, text)


@rule("GPU242", "warning", source="NVIDIA/k8s-device-plugin v0.20.0 deployments/helm/nvidia-device-plugin/values.yaml")
def node_feature_discovery_kept_off_the_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Node Feature Discovery doesn't run on the GPU nodes.

    The worker in the device plugin's chart tolerates only nvidia.com/gpu=present, so Node Feature Discovery adds no
    hardware labels. Before version 0.19, GPU feature discovery adds none either.

    Fix: Add a toleration for each taint of the pool, or the labels that the worker selects to the pool's nodes.
    """
    workers = [each for each in case.cluster.daemon_sets if each.name.endswith(FEATURE_WORKERS)]
    for pool in case.gpu_pools:
        if workers and all(case.reaches(each, pool) is Answer.NO for each in workers):
            found = miss(workers[0], pool.taints, case.nodes(pool))
            text = found.text or f"DaemonSet {workers[0].name} doesn't run on its nodes"
            fix = _worker_fix(found, case.cluster) if found.taints else found.fix
            yield Problem(workers[0], f"pool {pool.name}: {text}, so its nodes get no labels {NODE_FEATURE}*", fix)


def _worker_fix(found: Miss, cluster: Cluster) -> str:
    """Return how the worker gets the missing tolerations, with the path of the value in its chart."""
    chart = next((each.name for each in cluster.charts if each.origin == found.daemon.origin), "")
    path = _WORKER_TOLERATIONS.get(chart)
    own = f"spec.template.spec.tolerations of DaemonSet {found.daemon.name}"
    where = f"{path} in the values of chart {chart}" if path else own
    effects = [f", effect: {each.effect}" if each.effect else "" for each in found.taints]
    pairs = zip(found.taints, effects, strict=True)
    entries = (f"{{key: {each.key}, operator: Exists{effect}}}" for each, effect in pairs)
    return f"Add {' and '.join(entries)} to the list {where}."


@rule("GPU243", "warning", source="NVIDIA/gpu-operator v26.7.0 deployments/gpu-operator/values.yaml")
def misspelt_switch_of_a_chart(case: Case) -> Iterator[Problem]:
    """Value of a chart is named enable instead of enabled.

    The chart has no schema. It ignores the value and keeps its default, which may be the opposite.

    Fix: Rename the value from enable to enabled.
    """
    for chart in case.cluster.charts:
        if chart.name in _CHARTS:
            for path in _switches(dict(chart.values), (), _DEPTH):
                yield Problem(chart, f"chart {chart.name} ignores value {path}; its name is {path}d")


def _switches(values: dict[str, Any], path: tuple[str, ...], depth: int) -> Iterator[str]:
    for key, value in values.items():
        here = (*path, str(key))
        if key == "enable" and isinstance(value, (bool, str)):
            yield ".".join(here)
        elif isinstance(value, dict) and depth:
            yield from _switches(value, here, depth - 1)


@rule("GPU217", "note", source="NVIDIA/k8s-device-plugin v0.20.0 deployments/static/nvidia-device-plugin.yml")
def device_plugin_without_priority(case: Case) -> Iterator[Problem]:
    """Device plugin has no priority class.

    On a full node, the plugin's pod waits behind your pods or is evicted for them. The node advertises no GPU until the
    plugin runs.

    Fix: Set priorityClassName: system-node-critical, as NVIDIA's own manifest does.
    """
    cluster = case.cluster
    charts: set[Origin] = {each.origin for each in cluster.charts}
    for each in cluster.daemon_sets:
        priority = each.pod.priority_class
        if GPU in each.advertises and each.origin not in charts and priority is None:
            image = next((one.image_text for one in each.pod.containers or ()), "").rpartition("/")[2]
            text = f"DaemonSet {each.name} ({image}) is a device plugin without priorityClassName, so a full node may "
            yield Problem(each, text + "evict it and then advertises no GPU")


def _plugins(cluster: Cluster) -> list[DaemonSet]:
    return [each for each in cluster.daemon_sets if GPU in each.advertises]


def _managers(case: Case, pool: Pool) -> list[tuple[str, Answer]]:
    found = [(each.name, case.reaches(each, pool)) for each in _plugins(case.cluster)]
    image = built_in_device_manager(pool)
    return [*([image] if image else []), *found]


@rule("GPU010", "error", source=_DEVICE_MANAGEMENT)
def nothing_advertises_the_gpus_of_a_pool(case: Case) -> Iterator[Problem]:
    """No component advertises the GPUs of a pool.

    The node joins without nvidia.com/gpu in its allocatable resources, so the GPU pod stays Pending.

    Fix: Install NVIDIA's device plugin with tolerations and node affinity that match the pool's nodes.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        answers = [answer for _, answer in _managers(case, pool)]
        if Answer.YES in answers or claims_chart(cluster) or _reaches_as_read(case, pool):
            continue
        if "device-plugin" in cluster.assumed and not _misses(case, pool):
            continue
        unknown = Answer.UNKNOWN in answers or not cluster.sees_device_plugins(GPU)
        # Without a cluster in the input, only a plugin of the input that misses the pool is reported.
        if cluster.whole or not unknown or _misses(case, pool):
            text, fix = _why_nobody(case, pool), _fix_of_miss(case, pool)
            yield Problem.from_subject(pool, text, fix=fix, unknown=unknown, doubt=cluster.doubt)


def _fix_of_miss(case: Case, pool: Pool) -> str:
    """Return the fix that makes an installed plugin run on a pool; empty if no plugin is installed."""
    fixes = (miss(each, pool.taints, case.nodes(pool)).fix for each in _plugins(case.cluster))
    off = _chart_without_plugin(case.cluster)
    return next(filter(None, fixes), f"Set devicePlugin.enabled: true in the values of chart {off}." if off else "")


def _reaches_as_read(case: Case, pool: Pool) -> bool:
    """Whether a plugin runs on a pool if its version is like the nearest one that was read."""
    plugins = [each for each in _plugins(case.cluster) if not each.exact]
    return any(case.reaches_as_read(each, pool) is Answer.YES for each in plugins)


def _why_nobody(case: Case, pool: Pool) -> str:
    cluster = case.cluster
    if misses := _misses(case, pool):
        return f"no component advertises {GPU} on its nodes: {'; '.join(misses)}"
    if name := _chart_without_plugin(cluster):
        return f"no component advertises {GPU} on its nodes: devicePlugin.enabled of chart {name} is false"
    return f"no component that runs on its nodes advertises {GPU}"


def _chart_without_plugin(cluster: Cluster) -> str:
    """Return the chart whose device plugin is off; empty if there is none."""
    charts = filter(None, map(cluster.chart, (GPU_OPERATOR, DEVICE_PLUGIN)))
    off = (each.name for each in charts if dig(each.values, "devicePlugin", "enabled") in (False, "false"))
    return next(off, "")


def _misses(case: Case, pool: Pool) -> list[str]:
    """Return why each plugin of the input doesn't run on a pool."""
    texts = (miss(each, pool.taints, case.nodes(pool)).text for each in _plugins(case.cluster))
    return [each for each in texts if each]


@rule("GPU011", "error", source=_DEVICE_MANAGEMENT, presumed=True)
def two_device_managers_on_one_node(case: Case) -> Iterator[Problem]:
    """Two device managers run on one node.

    Both register the same GPUs with kubelet, so pods get GPUs that other pods already have.

    Fix: Remove one of them, or exclude the pool's nodes from its DaemonSet by node affinity.
    """
    by_eksctl = _plugins_by_default(case.cluster)
    for pool in case.gpu_pools:
        names = [name for name, answer in _managers(case, pool) if answer is Answer.YES]
        names += [each.name for each in claim_drivers(case.cluster) if case.reaches(each, pool) is Answer.YES]
        if len(names) > 1:
            text = f"{' and '.join(names)} both advertise the GPUs of its nodes, so two pods may get the same GPU"
            built_in = built_in_device_manager(pool) is not None
            others = " and ".join(names[1:])
            fix = f"Exclude the pool's nodes from DaemonSet {others} by node affinity." if built_in else ""
            yield Problem.from_subject(pool, text, fix=fix)
        elif names and any(reaches(each, pool, case.cluster) is not Answer.NO for each in by_eksctl):
            text = (
                f"{names[0]} and eksctl's default device plugin both advertise the GPUs of its nodes, so two pods may "
                "get the same GPU"
            )
            fix = f"Pass --install-nvidia-plugin=false to eksctl, or remove {names[0]}."
            yield Problem.from_subject(pool, text, fix=fix, unknown=True)


def _plugins_by_default(cluster: Cluster) -> list[DaemonSet]:
    """Return the device plugins that eksctl installs by default and that the input doesn't contain.

    Source: eksctl-io/eksctl 99984ad pkg/ctl/cmdutils/nodegroup_flags.go, pkg/eks/tasks.go (2026-08-21)
    """
    own = [each for each in configs(list(cluster.objects)) if each.name == cluster.name]
    if not own:
        return []
    # Imported here, because few inputs have a ClusterConfig.
    from gpu_preflight.reading.eksctl.configs import default_plugin

    applied = {(each.namespace, each.name) for each in cluster.objects_of_kind("DaemonSet")}
    return [
        DaemonSet(each.name, read_pod_template(each), each.origin, (GPU,))
        for config in own
        for each in default_plugin(config)
        if (each.namespace, each.name) not in applied
    ]


@rule("GPU012", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html")
def gpu_operator_installs_what_the_image_has(case: Case) -> Iterator[Problem]:
    """GPU Operator installs driver or toolkit on nodes that already have it.

    The operator's driver and toolkit don't fit EKS images. Their pods crash or break the container runtime.

    Fix: Set driver.enabled and toolkit.enabled of the chart to false.
    """
    chart = case.cluster.chart(GPU_OPERATOR)
    pools = [each.name for each in case.gpu_pools if has_driver(each) is Answer.YES and each.kind != "auto-mode"]
    if chart is None or not pools:
        return
    parts = [each for each in ("driver", "toolkit") if operator_installs(each, case.cluster) is Answer.YES]
    if parts:
        switches = " and ".join(f"{each}.enabled" for each in parts)
        message = (
            f"chart {GPU_OPERATOR}: {switches} must be false, because the node image of pool {', '.join(pools)} has "
            "its own"
        )
        yield Problem(chart, message)


@rule("GPU014", "error", source="https://kubernetes.io/docs/concepts/security/pod-security-standards/")
def device_plugin_in_a_namespace_that_forbids_it(case: Case) -> Iterator[Problem]:
    """Device plugin or exporter is in a namespace that forbids it.

    Pod Security rejects host paths and privileged containers in this namespace, so the DaemonSet creates no pods.

    Fix: Label the namespace pod-security.kubernetes.io/enforce=privileged, or install into another one.
    """
    cluster = case.cluster
    for namespace in cluster.objects_of_kind("Namespace"):
        level = namespace.labels.get(ENFORCED_LEVEL)
        if level not in ("baseline", "restricted"):
            continue
        found: list[Chart | Object] = [each for each in cluster.charts if each.name in _NEEDS_HOST]
        found += [each for each in cluster.objects_of_kind("DaemonSet") if _advertises(each, cluster)]
        for each in found:
            if each.namespace == namespace.name:
                kind = "chart" if isinstance(each, Chart) else each.kind
                text = (
                    f"{kind} {each.name} is in namespace {each.namespace}, whose Pod Security level {level} forbids "
                    "its host paths, so it has no pods"
                )
                yield Problem(each, text)


def _advertises(applied: Object, cluster: Cluster) -> bool:
    return any(each.origin == applied.origin and each.advertises for each in cluster.daemon_sets)


@rule("GPU017", "warning", source="https://github.com/NVIDIA/k8s-device-plugin/issues/1692")
def device_plugin_that_takes_the_devices_of_efa(case: Case) -> Iterator[Problem]:
    """Device plugin mounts the EFA devices.

    Versions 0.19.0 to 0.19.2 mount every InfiniBand device into each GPU pod. This conflicts with the EFA device
    plugin, so pods that request EFA may fail.

    Fix: Use 0.19.3 or newer, or set mofedEnabled: false in the values of the chart.
    """
    cluster = case.cluster
    if not any(EFA in each.advertises for each in cluster.daemon_sets):
        return
    chart = cluster.chart(DEVICE_PLUGIN)
    if chart and chart.version in _GREEDY and chart.values.get("mofedEnabled") in (None, True, "true"):
        yield Problem(chart, f"chart {DEVICE_PLUGIN} {chart.version} {_EFA_CONFLICT}")
    for daemon in _plugins(cluster):
        for container in daemon.pod.containers or ():
            version = container.image_text.rpartition(":v")[2]
            words = " ".join(map(str, container.words))
            off = container.env.get("MOFED_ENABLED") == "false" or "--mofed-enabled=false" in words
            if version in _GREEDY and not off:
                fix = (
                    'Use 0.19.3 or newer, or set environment variable MOFED_ENABLED to "false" in container '
                    f"{container.name}."
                )
                yield Problem(daemon, f"DaemonSet {daemon.name} {version} {_EFA_CONFLICT}", fix)


@rule("GPU364", "warning", source="https://github.com/eksctl-io/eksctl/pull/8859")
def device_plugin_on_nodes_without_gpus(case: Case) -> Iterator[Problem]:
    """Device plugin runs on nodes without GPUs.

    The plugin finds no driver there and crash-loops. Its logs and restarts may fill the node's disk.

    Fix: Add a nodeSelector with a label that only GPU nodes have, or set FAIL_ON_INIT_ERROR to false.
    """
    gpu_pools = {id(each) for each in case.gpu_pools}
    others = [each for each in case.cluster.pools if id(each) not in gpu_pools and each.kind != "fargate"]
    written = {each.origin for each in case.cluster.objects_of_kind("DaemonSet")}
    for daemon in case.cluster.daemon_sets:
        if GPU not in daemon.advertises or daemon.origin not in written or _waits(daemon):
            continue
        reached = [each for each in others if case.reaches(daemon, each) is Answer.YES] if case.gpu_pools else []
        open_ones = [each.name for each in reached if may_launch_unknown_types(each)]
        names = [each.name for each in reached if not may_launch_unknown_types(each)]
        if names:
            where = f"pool {', '.join(names)}, which has no GPUs"
            yield Problem(daemon, f"DaemonSet {daemon.name} also runs on {where}, and crash-loops there")
        if open_ones:
            where = f"pool {', '.join(open_ones)}, whose types aren't known"
            text = f"DaemonSet {daemon.name} also runs on {where}, and crash-loops on nodes without GPUs"
            yield Problem(daemon, text, unknown=True)


def _waits(daemon: DaemonSet) -> bool:
    """Whether a plugin waits, or may wait, if there is no GPU."""
    settings = [str(each.env.get(_FAIL[0], "")).lower() for each in daemon.pod.containers or ()]
    words = [str(word).lower() for each in daemon.pod.containers or () for word in each.words]
    return any(each not in ("", "true") for each in settings) or any(
        each.startswith(f"{_FAIL[1]}=false") for each in words
    )


@rule("GPU365", "warning", source="aws/eks-node-monitoring-agent v1.7.0 charts/eks-node-monitoring-agent/values.yaml")
def two_host_engines_of_dcgm_on_one_node(case: Case) -> Iterator[Problem]:
    """Two DCGM host engines run on one node.

    The node monitoring agent's engine uses port 5555 of the node. A second engine doesn't start there, or takes over
    its profiling counters.

    Fix: Remove the DaemonSet that isn't the node monitoring agent's, or exclude the pool's nodes from it by node
    affinity.
    """
    agents = [each for each in case.cluster.daemon_sets if each.name == DCGM_SERVER]
    engines = [each for each in case.cluster.daemon_sets if each not in agents and _is_engine(each)]
    for pool in case.gpu_pools:
        here = [each for each in engines if case.reaches(each, pool) is not Answer.NO]
        for agent in agents:
            if here and case.reaches(agent, pool) is not Answer.NO:
                names = " and ".join(f"DaemonSet {each.name}" for each in here)
                text = (
                    f"DaemonSet {agent.name} (EKS node monitoring agent) and {names} each run a DCGM host engine on "
                    f"its nodes, but only one can use port {_ENGINE_PORT}"
                )
                operators = all(each.name == _OF_OPERATOR for each in here)
                fix = f"Set dcgm.enabled: false in the values of chart {GPU_OPERATOR}." if operators else ""
                fix = fix or f"Remove {names}, or exclude the pool's nodes by node affinity."
                yield Problem.from_subject(pool, text, fix=fix)


def _is_engine(daemon: DaemonSet) -> bool:
    """Whether a DaemonSet runs a host engine on a node port; an engine inside an exporter uses no port."""
    containers = daemon.pod.containers or ()
    ports = [known_number(port.host) for each in containers for port in each.ports]
    started = any(_ENGINE in str(word) for each in containers for word in each.words)
    return daemon.name == _OF_OPERATOR or _ENGINE_PORT in ports or (started and daemon.pod.host_network)
