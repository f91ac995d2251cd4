"""DaemonSets of the device plugin's charts, rendered with Helm 4.2 from the tagged sources."""

from __future__ import annotations

from gpu_facts import charts, labels, resources
from gpu_facts.software.model import (
    CRITICAL_ADDONS,
    GPU,
    Container,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    NodeSelectorTerm,
    Switch,
    Tolerations,
)
from gpu_facts.software.node_feature_discovery import node_feature_discovery
from gpu_facts.software.nvidia_nodes import (
    MPS,
    MPS_CAPABLE,
    NODES_WITH_GPUS,
)

_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/deployments/helm/nvidia-device-plugin"
_OLDER_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.17.4/deployments/helm/nvidia-device-plugin"
_OLDEST_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.14.5/deployments/helm/nvidia-device-plugin"

# Helm uses the first condition of a dependency that is set.
_FEATURE_DISCOVERY = Switch(path="gfd.enabled", default=False)
_NODE_FEATURE_DISCOVERY = Switch(path=("nfd.enabled", "gfd.enabled"), default=False)
_NAMES = ("nameOverride", "fullnameOverride")


def _plugin_part(
    suffix: str,
    source: str,
    as_of: str,
    *switches: Switch,
    labels_of_nodes: tuple[NodeSelectorTerm, ...] = NODES_WITH_GPUS,
    advertises: tuple[str, ...] = (),
    inexact: tuple[str, ...] = (),
) -> KnownDaemonSet:
    return KnownDaemonSet(
        name=f"{charts.DEVICE_PLUGIN}{suffix}",
        tolerations=Tolerations.from_part("", CRITICAL_ADDONS, GPU),
        nodes=Nodes.from_part("", *labels_of_nodes, selector=MPS_CAPABLE if suffix == MPS else {}),
        containers=(Container(path="resources"),),
        advertises=advertises,
        switches=switches,
        inexact_paths=(*_NAMES, *inexact),
        source=source,
        as_of=as_of,
    )


def _plugin(
    versions: tuple[str, ...],
    *,
    asks: bool,
    mps: bool = True,
    source: str,
    as_of: str,
) -> KnownSoftware:
    """Return the chart of the device plugin. Before it supported MPS, it selected nodes only with feature discovery."""
    plugin = Switch(path="devicePlugin.enabled")
    worker, topology_updater = node_feature_discovery(
        charts.DEVICE_PLUGIN,
        "nfd",
        Tolerations.from_part(
            "nfd.worker",
            {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
            {"key": labels.GPU_TAINT, "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        ),
        _NODE_FEATURE_DISCOVERY,
        asks=asks,
        source=source,
        as_of=as_of,
    )
    gpus = (resources.GPU,)
    own = (
        (
            _plugin_part("", source, as_of, plugin, advertises=gpus),
            _plugin_part(MPS, source, as_of, plugin),
        )
        if mps
        else (_plugin_part("", source, as_of, labels_of_nodes=(), advertises=gpus, inexact=("gfd.enabled",)),)
    )
    discovery = _plugin_part("-gpu-feature-discovery", source, as_of, _FEATURE_DISCOVERY)
    daemon_sets = (*own, discovery, worker, topology_updater)
    return KnownSoftware(
        name=charts.DEVICE_PLUGIN, versions=versions, daemon_sets=daemon_sets, source=source, as_of=as_of
    )


DEVICE_PLUGIN = _plugin(
    ("0.20.0", "0.19.3", "0.19.2", "0.19.1", "0.19.0", "0.18.2", "0.18.1", "0.18.0"),
    asks=True,
    source=_PLUGIN_SOURCE,
    as_of="2026-08-19",
)
DEVICE_PLUGIN_0_15 = _plugin(
    ("0.17.4", "0.17.3", "0.17.2", "0.17.1", "0.17.0", "0.16.2", "0.16.1", "0.16.0", "0.15.1", "0.15.0"),
    asks=False,
    source=_OLDER_PLUGIN_SOURCE,
    as_of="2026-11-22",
)
DEVICE_PLUGIN_0_14 = _plugin(
    ("0.14.5", "0.14.4", "0.14.3", "0.14.2", "0.14.1", "0.14.0"),
    asks=False,
    mps=False,
    source=_OLDEST_PLUGIN_SOURCE,
    as_of="2026-11-22",
)

CHARTS = (DEVICE_PLUGIN, DEVICE_PLUGIN_0_15, DEVICE_PLUGIN_0_14)
