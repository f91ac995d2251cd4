"""Software of a cluster: DaemonSets of manifests, charts and add-ons, autoscalers, exporters, definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.charts import (
    CLUSTER_AUTOSCALER,
    DCGM_EXPORTER,
    DEVICE_PLUGIN,
    DRA_DRIVERS,
    DYNAMO,
    DYNAMO_CRDS,
    EFA_DEVICE_PLUGIN,
    GPU_OPERATOR,
    JOBSET,
    KAI_SCHEDULER,
    KARPENTER,
    KEDA,
    KUBE_PROMETHEUS_STACK,
    KUBERAY,
    KUEUE,
    LEADER_WORKER_SET,
    MPI_OPERATOR,
    OPERATOR_DCGM_EXPORTER,
    VERTICAL_POD_AUTOSCALER,
    VOLCANO,
)
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG, KUEUE_DOMAIN
from gpu_facts.light import dataclass, regex
from gpu_facts.resources import EFA, GPU
from gpu_facts.schemas import KUBERNETES, find_source
from gpu_facts.software.daemon_sets import daemon_sets_of_addon, daemon_sets_of_chart
from gpu_facts.software.model import DaemonSetSpec
from gpu_preflight.cluster.storage import installs
from gpu_preflight.model.answer import Answer, yes_if
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.cluster_autoscaler import DISCOVERY, EXPLICIT, REMOVERS, goes_by_itself
from gpu_preflight.model.container import Container
from gpu_preflight.model.label_values import Selection, equal, term
from gpu_preflight.model.pod import Pod, read_pod_template
from gpu_preflight.model.software import Addon, Autoscaler, AutoscalerKind, DaemonSet, MissingConfig
from gpu_preflight.model.taints import Taint, tolerations
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings
from gpu_preflight.schema.fields import schema_kind

# Parts of the name of an image, and the resources that its DaemonSet registers.
_ADVERTISED = (
    ("k8s-device-plugin", GPU),
    (DEVICE_PLUGIN, GPU),
    (EFA_DEVICE_PLUGIN, EFA),
    ("efa-device-plugin", EFA),
)
# In the chart's default value for the tags.
_OF_THE_VALUES = regex(r"\{\{-? *\.Values\.autoDiscovery\.clusterName *-?\}\}")
_NOT_A_PLUGIN = ("gpu-feature-discovery", "mps-control-daemon", "config-manager")
_UNKNOWN_CONFIG = Unknown("${configuration of the device plugin}")
# API groups, and the charts that install their CRDs.
# Sources: kueue 0.19.2, kai-scheduler v0.17.0, keda 2.20.2, kube-prometheus-stack 88.5.3, vertical-pod-autoscaler
# 0.11.0, jobset 0.12.0, lws 0.10.0, kuberay-operator 1.7.0, dra-driver-nvidia-gpu 0.4.1: their crds/ and templates/.
CHARTS_OF_GROUP = {
    KUEUE_DOMAIN: (KUEUE,),
    "scheduling.run.ai": (KAI_SCHEDULER, DYNAMO),
    "keda.sh": (KEDA,),
    "monitoring.coreos.com": (KUBE_PROMETHEUS_STACK, "prometheus-operator-crds", "prometheus-operator"),
    "autoscaling.k8s.io": (VERTICAL_POD_AUTOSCALER, "vpa"),
    "jobset.x-k8s.io": (JOBSET,),
    "leaderworkerset.x-k8s.io": (LEADER_WORKER_SET, DYNAMO),
    "ray.io": (KUBERAY,),
    "resource.nvidia.com": (*DRA_DRIVERS, GPU_OPERATOR),
    # The training operator and the MPI operator are installed from manifests. Third-party charts use their names.
    "kubeflow.org": ("training-operator", MPI_OPERATOR, "kubeflow-training-operator"),
    "trainer.kubeflow.org": ("kubeflow-trainer", "trainer"),
    "batch.volcano.sh": (VOLCANO,),
    "scheduling.volcano.sh": (VOLCANO,),
    "serving.kserve.io": ("kserve-crd", "kserve-crd-minimal", "kserve-llmisvc-crd", "kserve"),
}
# For a group that several programs share: kinds, and the charts that install each.
# Sources: gpu-operator v26.7.0 deployments/gpu-operator/crds, ai-dynamo/dynamo v1.5 deploy/helm/charts.
CHARTS_OF_KIND = {
    "ClusterPolicy": (GPU_OPERATOR,),
    "NVIDIADriver": (GPU_OPERATOR,),
    "DynamoGraphDeployment": (DYNAMO, DYNAMO_CRDS),
    "DynamoComponentDeployment": (DYNAMO, DYNAMO_CRDS),
}
NVIDIA_GROUP = "nvidia.com"
_MINOR = regex(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Software:
    """Software that runs in a cluster.

    Attributes:
        daemon_sets: Its DaemonSets.
        opaque: Charts and add-ons with contents that no table lists.
        autoscalers: Its autoscalers.
    """

    daemon_sets: tuple[DaemonSet, ...]
    opaque: tuple[str, ...]
    autoscalers: tuple[Autoscaler, ...]


def software(objects: Iterable[Object], charts: Iterable[Chart], addons: Iterable[Addon]) -> Software:
    """Return the software that runs in a cluster."""
    every, releases, installed = list(objects), list(charts), list(addons)
    configs = {(each.namespace, each.name): each for each in every if each.kind == "ConfigMap"}
    found = [_daemon_set_from_object(each, configs) for each in every if each.kind == "DaemonSet"]
    opaque: list[str] = []
    for chart in releases:
        specs = daemon_sets_of_chart(chart.name, chart.version, _plain(chart.values))
        if specs is None:
            opaque.append(f"chart {chart.name}")
        found += [_daemon_set_from_spec(spec, chart) for spec in specs or ()]
    for addon in installed:
        specs = daemon_sets_of_addon(addon.name, addon.version, _plain(addon.configuration))
        if specs is None:
            opaque.append(f"add-on {addon.name}")
        found += [_daemon_set_from_spec(spec, addon) for spec in specs or ()]
    opaque += _nameless(every)
    if not any(each.name == GPU_OPERATOR for each in releases):
        # Its operator isn't in the input.
        opaque += [f"the operator of ClusterPolicy {each.name}" for each in every if each.kind == "ClusterPolicy"]
    autoscalers = [*_controllers(every), *_charted(releases)]
    return Software(tuple(found), tuple(opaque), tuple(autoscalers))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(values)


def _daemon_set_from_object(daemon: Object, configs: Mapping[tuple[str, str], Object]) -> DaemonSet:
    pod = read_pod_template(daemon)
    advertises = _advertised(pod)
    config = _plugin_config(pod, daemon.namespace, configs) if GPU in advertises else None
    return DaemonSet(daemon.name, pod, daemon.origin, advertises, config=config)


def _advertised(pod: Pod) -> tuple[str, ...]:
    found = set()
    for container in pod.containers or ():
        image = str(container.image).partition("@")[0].rpartition("/")[2]
        names = [container.name, *container.words]
        if any(str(name).rpartition("/")[2] in _NOT_A_PLUGIN for name in names):
            continue
        found |= {resource for part, resource in _ADVERTISED if image.startswith(part)}
    return tuple(sorted(found))


def _plugin_config(pod: Pod, namespace: str, configs: Mapping[tuple[str, str], Object]) -> Any:
    """Return the configuration with which a device plugin starts: from its file, its variables and its flags."""
    config: dict[str, Any] = {}
    for container in pod.containers or ():
        variables = container.env
        words = [str(each) for each in container.words]
        file = variables.get("CONFIG_FILE") or _flag(words, "--config-file")
        if file:
            config |= mapping(_configured(str(file), pod, container, namespace, configs)) or {"flags": Unknown("${}")}
        strategy = variables.get("MIG_STRATEGY") or _flag(words, "--mig-strategy")
        if strategy and not isinstance(config.get("flags"), Unknown):
            config["flags"] = {**mapping(config.get("flags")), "migStrategy": strategy}
    if isinstance(config.get("flags"), Unknown):
        return _UNKNOWN_CONFIG
    return config or None


def _flag(words: list[str], name: str) -> str | None:
    for index, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag == name:
            return value if equals else next(iter(words[index + 1 :]), None)
    return None


def _configured(
    file: str,
    pod: Pod,
    container: Container,
    namespace: str,
    configs: Mapping[tuple[str, str], Object],
) -> Any:
    """Return the parsed file that a ConfigMap of the input mounts, or ``None``."""
    maps = {each.name: each.config_map for each in pod.volumes}
    for path, volume in container.mounts.items():
        folder = path.rstrip("/")
        source = configs.get((namespace, str(maps.get(volume))))
        if source is not None and file.startswith(f"{folder}/"):
            return _parsed(dig(source.content, "data", file.removeprefix(f"{folder}/")))
    return None


def _parsed(text: Any) -> Any:
    if not isinstance(text, str):
        return None
    try:
        return next((each.content for each in parse("configuration", text)), None)
    except UnusableInput:
        return None


def _daemon_set_from_spec(spec: DaemonSetSpec, source: Chart | Addon) -> DaemonSet:
    terms = tuple(map(term, spec.node_affinity)) if spec.node_affinity else None
    pod = Pod(
        containers=(Container(spec.name, asked=spec.requests),),
        tolerations=tolerations([dict(each) for each in spec.tolerations]),
        selection=Selection(tuple(equal(spec.node_selector)), terms),
    )
    found = DaemonSet(spec.name, pod, source.origin, spec.advertises, exact=spec.exact)
    return _with_chart_configs(found, source) if GPU in spec.advertises and isinstance(source, Chart) else found


def _with_chart_configs(daemon: DaemonSet, chart: Chart) -> DaemonSet:
    """Return a device plugin with the configurations in the values of NVIDIA's chart or of the GPU Operator.

    Sources: NVIDIA/k8s-device-plugin v0.20.0 deployments/helm, cmd/config-manager/main.go and api/config/v1/flags.go;
    NVIDIA/gpu-operator v26.7.0 controllers/object_controls.go (2026-11)
    """
    operator = chart.name == GPU_OPERATOR
    config = _value(chart.values, *(("devicePlugin", "config") if operator else ("config",)))
    name, default, written = (_value(config, key) for key in ("name", "default", "data" if operator else "map"))
    # The charts set it as an environment variable, which overrides the plugin's file. The operator's default is
    # "single".
    strategy = _value(chart.values, "mig", "strategy") or "single" if operator else _value(chart.values, "migStrategy")
    made_elsewhere = name and (_value(config, "create") is not True if operator else not written)
    if made_elsewhere or any(isinstance(each, Unknown) for each in (default, written)):
        return replace(daemon, config=_UNKNOWN_CONFIG)
    texts = {} if operator and not name else mapping(written)
    if not texts:
        return replace(daemon, config={"flags": {"migStrategy": strategy}} if strategy else None)
    configs = {key: _with_strategy(_parsed(text) or _UNKNOWN_CONFIG, strategy) for key, text in texts.items()}
    if default:
        usual = configs.get(str(default), MissingConfig(str(default)))
    elif operator:
        usual = _with_strategy({}, strategy)
    else:
        usual = _fallback(configs) if _value(config, "fallbackStrategies") is None else _UNKNOWN_CONFIG
    return replace(daemon, config=usual, configs=configs)


def _fallback(configs: Mapping[str, Any]) -> Any:
    """Return the configuration of nodes that select none, by the default strategies of NVIDIA's chart."""
    alone = next(iter(configs.values())) if len(configs) == 1 else _UNKNOWN_CONFIG
    return configs.get("default", alone)


def _with_strategy(config: Any, strategy: Any) -> Any:
    if not strategy or not isinstance(config, dict):
        return config
    return {**config, "flags": {**mapping(config.get("flags")), "migStrategy": strategy}}


def _value(found: Any, *path: str) -> Any:
    """Return the value at a path; ``Unknown`` if a part of the path isn't known."""
    for key in path:
        found = found if isinstance(found, Unknown) else dig(found, key)
    return found


def _controllers(objects: Iterable[Object]) -> list[Autoscaler]:
    found = []
    for each in objects:
        if each.kind not in ("Deployment", "StatefulSet"):
            continue
        pod = read_pod_template(each)
        for container in pod.containers or ():
            image, version = _image(container.image)
            kind = _controller(image)
            if kind is not None:
                account = known_text(pod.service_account) or "default"
                flags = parse_flags(container.words) | dict(container.env)
                found.append(Autoscaler(kind, each.origin, flags, version, pod, (each.namespace, account)))
    return found


def _nameless(objects: Iterable[Object]) -> list[str]:
    """Return objects that may be a device plugin or an autoscaler: a DaemonSet, or an object with RBAC permissions."""
    found = []
    for each in objects:
        if each.kind not in ("DaemonSet", "Deployment"):
            continue
        pod = read_pod_template(each)
        images = [container.image for container in pod.containers or ()]
        rights = (pod.service_account or "default") != "default"
        if (each.kind == "DaemonSet" or rights) and any(isinstance(image, Unknown) for image in images):
            found.append(f"{each.kind} {each.name}")
    return found


def _controller(image: str) -> AutoscalerKind | None:
    if image == "cluster-autoscaler" or image.startswith("cluster-autoscaler-"):
        return "cluster-autoscaler"
    return "karpenter" if "karpenter/controller" in image or image == "karpenter" else None


def _image(reference: Any) -> tuple[str, str | None]:
    text = str(reference).partition("@")[0]
    path, colon, tag = text.rpartition(":")
    if not colon or "/" in tag:
        path, tag = text, ""
    name = path.rpartition("/")[2]
    return ("karpenter/controller" if path.endswith("karpenter/controller") else name), tag.removeprefix("v") or None


def parse_flags(words: Iterable[Any]) -> dict[str, Any]:
    """Return the flags of a command line, without their dashes. A repeated flag keeps every value."""
    found: dict[str, Any] = {}
    listed = [str(each) for each in words]
    for index, word in enumerate(listed):
        if not (match := re.fullmatch(r"--?([a-z][a-z0-9-]*)(?:=(.*))?", word, re.DOTALL)):
            continue
        name, value = match.groups()
        following = listed[index + 1] if index + 1 < len(listed) and not listed[index + 1].startswith("-") else "true"
        value = following if value is None else value
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


def _charted(charts: Iterable[Chart]) -> list[Autoscaler]:
    found = []
    for chart in charts:
        if chart.name == KARPENTER:
            found.append(_charted_karpenter(chart))
        elif chart.name == CLUSTER_AUTOSCALER:
            found.append(_charted_autoscaler(chart))
    return found


def _charted_karpenter(chart: Chart) -> Autoscaler:
    settings = mapping(chart.values.get("settings"))
    account = known_text(dig(chart.values, "serviceAccount", "name")) or KARPENTER
    pod = Pod(tolerations=tolerations(chart.values.get("tolerations")), service_account=account)
    return Autoscaler("karpenter", chart.origin, settings, chart.version, pod, (chart.namespace, account))


def _default_account(chart: Chart) -> str:
    """Return the default name of the service account in Cluster Autoscaler's chart.

    Source: kubernetes/autoscaler cluster-autoscaler-chart-9.50.1 templates/_helpers.tpl
    ``cluster-autoscaler.serviceAccountName`` and ``cluster-autoscaler.fullname``
    """
    if full := known_text(chart.values.get("fullnameOverride")):
        return full
    release = known_text(chart.properties.get("Release")) or "${release}"
    provider = known_text(chart.values.get("cloudProvider")) or "aws"
    name = known_text(chart.values.get("nameOverride")) or f"{provider}-{CLUSTER_AUTOSCALER}"
    return release if name in release else f"{release}-{name}"


def _charted_autoscaler(chart: Chart) -> Autoscaler:
    arguments = mapping(chart.values.get("extraArgs"))
    flags: dict[str, Any] = {str(key): value for key, value in arguments.items()}
    cluster = dig(chart.values, "autoDiscovery", "clusterName")
    if cluster is not None:
        # The chart's template renders these flags for AWS.
        tags = dig(chart.values, "autoDiscovery", "tags") or [AUTOSCALED_TAG, f"{AUTOSCALED_BY_TAG}{cluster}"]
        written = ",".join(map(str, tags)) if isinstance(tags, list) else str(tags)
        flags[DISCOVERY] = f"asg:tag={_OF_THE_VALUES.sub(lambda _: str(cluster), written)}"
    groups = mappings(chart.values.get("autoscalingGroups"))
    if groups:
        flags[EXPLICIT] = " ".join(f"{each.get('minSize')}:{each.get('maxSize')}:{each.get('name')}" for each in groups)
    written = dig(chart.values, "rbac", "serviceAccount", "name")
    account = str(written) if written else _default_account(chart)
    version = known_text(dig(chart.values, "image", "tag"))
    pod = Pod(tolerations=tolerations(chart.values.get("tolerations")))
    return Autoscaler(
        "cluster-autoscaler",
        chart.origin,
        flags,
        version.removeprefix("v") if version else None,
        pod,
        (chart.namespace, account),
    )


def exporters(cluster: Cluster) -> list[DaemonSet]:
    """Return the DCGM exporters, except the GPU Operator's, which labels its nodes itself."""
    charted = cluster.chart(GPU_OPERATOR)
    return [
        each for each in cluster.daemon_sets if _exports(each) and not (charted and each.name == OPERATOR_DCGM_EXPORTER)
    ]


def _exports(daemon: DaemonSet) -> bool:
    images = [each.image_text for each in daemon.pod.containers or ()]
    return DCGM_EXPORTER in daemon.name or any(DCGM_EXPORTER in image for image in images)


def operator_exports(cluster: Cluster) -> bool:
    """Whether the GPU Operator runs a DCGM exporter."""
    chart = cluster.chart(GPU_OPERATOR)
    return chart is not None and dig(chart.values, "dcgmExporter", "enabled") is not False


def operator_installs(part: str, cluster: Cluster) -> Answer:
    """Return whether the GPU Operator installs a part with a switch, such as ``driver``, which its chart turns on."""
    chart = cluster.chart(GPU_OPERATOR)
    if chart is None:
        return Answer.NO
    enabled = dig(chart.values, part, "enabled")
    return Answer.UNKNOWN if isinstance(enabled, Unknown) else yes_if(enabled in (None, True, "true"))


def unremoved_taints(pool: Pool, cluster: Cluster) -> tuple[Taint, ...]:
    """Return the startup taints that neither Kubernetes nor a component in the input removes."""
    return tuple(each for each in pool.startup_taints if not (goes_by_itself(each) or _is_removed(each, cluster)))


def _is_removed(taint: Taint, cluster: Cluster) -> bool:
    installed = any(installs(each, cluster) for each in REMOVERS.get(taint.key, ()))
    return installed or _is_taint_mentioned(taint.key, cluster)


def _is_taint_mentioned(key: str, cluster: Cluster) -> bool:
    """Whether a manifest or chart values name the taint, so that its component may remove it."""
    others = (each for each in cluster.objects if each.kind not in ("NodePool", "EC2NodeClass", "NodeClass"))
    written = (str(each.content).replace(f"--startup-taint={key}", "") for each in others)
    charts = (each for each in cluster.charts if each.name != CLUSTER_AUTOSCALER)
    return any(key in each for each in written) or any(key in str(each.values) for each in charts)


def defining_charts(each: Object) -> tuple[str, ...]:
    """Return the charts that define the kind of an object; none if no table lists it."""
    return CHARTS_OF_KIND.get(each.kind, ()) if each.group == NVIDIA_GROUP else CHARTS_OF_GROUP.get(each.group, ())


def is_kind_defined(each: Object, cluster: Cluster) -> bool:
    """Whether a chart or a CRD in the input installs the kind of an object."""
    definitions = cluster.objects_of_kind("CustomResourceDefinition")
    return any(chart.name in defining_charts(each) for chart in cluster.charts) or any(
        one.spec.get("group") == each.group and dig(one.spec, "names", "kind") in (each.kind, None)
        for one in definitions
    )


def is_defined(group: str, cluster: Cluster) -> bool:
    """Whether the input installs an API group by a chart or a CRD, or its plain objects show that it is installed."""
    if not cluster.charts and any(each.group == group and each.origin.resource is None for each in cluster.objects):
        return True
    charts = CHARTS_OF_GROUP.get(group, ())
    definitions = cluster.objects_of_kind("CustomResourceDefinition")
    return any(each.name in charts for each in cluster.charts) or any(
        each.spec.get("group") == group for each in definitions
    )


def other_definition(each: Object, cluster: Cluster) -> str | None:
    """Return the definition of an object's kind in a cluster, if it certainly differs from the one that the checks use.

    Kubernetes doesn't remove fields from a version of its API, so only a newer version can accept more.
    """
    source = find_source(schema_kind(each))
    if source is None:
        return None
    if source.name == KUBERNETES:
        newer = cluster.version is not None and _minor(cluster.version) > _minor(source.version)
        return f"Kubernetes {cluster.version}" if newer else None
    for one in cluster.objects_of_kind("CustomResourceDefinition"):
        if one.spec.get("group") == each.group and dig(one.spec, "names", "kind") == each.kind:
            return one.origin.path
    for name, read in source.charts.items():
        chart = cluster.chart(name)
        if chart is not None and chart.version and _minor(chart.version) != _minor(read):
            return f"chart {name} {chart.version}"
    return None


def read_version(each: Object) -> str:
    """Return the source and version of the definition that the checks use for the kind of an object."""
    source = find_source(schema_kind(each))
    return f"{source.name} {source.version}" if source else ""


def _minor(version: str) -> tuple[int, ...]:
    found = _MINOR.search(version)
    return tuple(map(int, found.groups())) if found else ()
