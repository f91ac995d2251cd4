"""What runs in a cluster: DaemonSets from manifests, charts and add-ons, and what makes nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.charts import CLUSTER_AUTOSCALER, DEVICE_PLUGIN, EFA_DEVICE_PLUGIN, GPU_OPERATOR, KARPENTER
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_facts.resources import EFA, GPU
from gpu_facts.software.daemon_sets import daemon_sets_of_addon, daemon_sets_of_chart
from gpu_facts.software.model import DaemonSetSpec
from gpu_preflight.model.container import Container
from gpu_preflight.model.discovery import DISCOVERY, EXPLICIT
from gpu_preflight.model.label_values import equal
from gpu_preflight.model.node_selection import Selection, term
from gpu_preflight.model.pod import Pod, pod_of
from gpu_preflight.model.software import Addon, Autoscaler, AutoscalerKind, DaemonSet, MissingConfig
from gpu_preflight.model.taints import tolerations
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings

# Parts of the name of an image, and what its DaemonSet registers.
_ADVERTISED = (
    ("k8s-device-plugin", GPU),
    (DEVICE_PLUGIN, GPU),
    (EFA_DEVICE_PLUGIN, EFA),
    ("efa-device-plugin", EFA),
)
# In the chart's default of the tags.
_OF_THE_VALUES = regex(r"\{\{-? *\.Values\.autoDiscovery\.clusterName *-?\}\}")
_NOT_A_PLUGIN = ("gpu-feature-discovery", "mps-control-daemon", "config-manager")
_UNKNOWN_CONFIG = Unknown("${configuration of the device plugin}")


@dataclass(frozen=True, slots=True)
class Software:
    """What runs in a cluster.

    Attributes:
        daemon_sets: Its DaemonSets.
        opaque: Charts and add-ons of which no table says what is in them.
        autoscalers: What makes nodes.
    """

    daemon_sets: tuple[DaemonSet, ...]
    opaque: tuple[str, ...]
    autoscalers: tuple[Autoscaler, ...]


def software(objects: Iterable[Object], charts: Iterable[Chart], addons: Iterable[Addon]) -> Software:
    """Return what runs in a cluster."""
    every, releases, installed = list(objects), list(charts), list(addons)
    configs = {(each.namespace, each.name): each for each in every if each.kind == "ConfigMap"}
    found = [_of_object(each, configs) for each in every if each.kind == "DaemonSet"]
    opaque: list[str] = []
    for chart in releases:
        specs = daemon_sets_of_chart(chart.name, chart.version, _plain(chart.values))
        if specs is None:
            opaque.append(f"chart {chart.name}")
        found += [_of_spec(spec, chart) for spec in specs or ()]
    for addon in installed:
        specs = daemon_sets_of_addon(addon.name, addon.version, _plain(addon.configuration))
        if specs is None:
            opaque.append(f"add-on {addon.name}")
        found += [_of_spec(spec, addon) for spec in specs or ()]
    opaque += _nameless(every)
    if not any(each.name == GPU_OPERATOR for each in releases):
        # Its operator was installed elsewhere.
        opaque += [f"the operator of ClusterPolicy {each.name}" for each in every if each.kind == "ClusterPolicy"]
    autoscalers = [*_controllers(every), *_charted(releases)]
    return Software(tuple(found), tuple(opaque), tuple(autoscalers))


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(values)


def _of_object(daemon: Object, configs: Mapping[tuple[str, str], Object]) -> DaemonSet:
    pod = pod_of(daemon)
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
    """Return the configuration a device plugin is started with: from its file, its variables and its flags."""
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


def _of_spec(spec: DaemonSetSpec, source: Chart | Addon) -> DaemonSet:
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
    told = _value(chart.values, *(("devicePlugin", "config") if operator else ("config",)))
    name, default, written = (_value(told, key) for key in ("name", "default", "data" if operator else "map"))
    # The charts make an environment variable of it, which overrides the plugin's file. The operator's is "single".
    strategy = _value(chart.values, "mig", "strategy") or "single" if operator else _value(chart.values, "migStrategy")
    made_elsewhere = name and (_value(told, "create") is not True if operator else not written)
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
        usual = _fallback(configs) if _value(told, "fallbackStrategies") is None else _UNKNOWN_CONFIG
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
    """Return the value at a path; ``Unknown`` where a part of the path isn't known."""
    for key in path:
        found = found if isinstance(found, Unknown) else dig(found, key)
    return found


def _controllers(objects: Iterable[Object]) -> list[Autoscaler]:
    found = []
    for each in objects:
        if each.kind not in ("Deployment", "StatefulSet"):
            continue
        pod = pod_of(each)
        for container in pod.containers or ():
            image, version = _image(container.image)
            kind = _controller(image)
            if kind is not None:
                account = known_text(pod.service_account) or "default"
                flags = flags_of(container.words) | dict(container.env)
                found.append(Autoscaler(kind, each.origin, flags, version, pod, (each.namespace, account)))
    return found


def _nameless(objects: Iterable[Object]) -> list[str]:
    """Return what may be a device plugin or an autoscaler: a DaemonSet, or something with rights of its own."""
    found = []
    for each in objects:
        if each.kind not in ("DaemonSet", "Deployment"):
            continue
        pod = pod_of(each)
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


def flags_of(words: Iterable[Any]) -> dict[str, Any]:
    """Return the flags of a command line, without their dashes; one given twice keeps every value."""
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
    """Return the service account that cluster autoscaler's chart makes without a name.

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
        # What the chart's template renders for AWS.
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
