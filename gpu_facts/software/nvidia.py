"""DaemonSets of NVIDIA's charts, rendered with Helm 4.2 from the tagged sources."""

from __future__ import annotations

from dataclasses import replace

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
    any_label,
    enabled,
    tolerates,
)

_NVIDIA_DEVICE = f"{labels.NODE_FEATURE}pci-10de.present=true"
_NVIDIA_CPU = f"{labels.NODE_FEATURE}cpu-model.vendor_id=NVIDIA"
_GPU_PRESENT = f"{labels.GPU_PRESENT}=true"
_NODES_WITH_GPUS = any_label(_NVIDIA_DEVICE, _NVIDIA_CPU, _GPU_PRESENT)
_NVIDIA_DISPLAYS = tuple(f"{labels.NODE_FEATURE}pci-{code}_10de.present=true" for code in ("0302", "0300"))
_MPS = "-mps-control-daemon"
_MPS_CAPABLE = {labels.MPS_CAPABLE: "true"}
_NAMES = ("nameOverride", "fullnameOverride")


# Requests of Node Feature Discovery's worker and topology updater from 0.16. Older versions have none.
_WORKER = {"cpu": "5m", "memory": "64Mi"}
_UPDATER = {"cpu": "50m", "memory": "40Mi"}


def _node_feature_discovery(
    chart: str,
    part: str,
    tolerations: Tolerations,
    switch: Switch,
    *,
    asks: bool = True,
    source: str,
    as_of: str,
) -> tuple[KnownDaemonSet, KnownDaemonSet]:
    """Return the DaemonSets of Node Feature Discovery inside another chart. The second is off by default.

    Source: kubernetes-sigs/node-feature-discovery deployment/helm/node-feature-discovery, as it is packed into the
    charts of each row: v0.12.1, v0.15.3, v0.16.3, v0.16.6, v0.17.2, v0.17.3, v0.18.2, v0.18.3 and v0.19.0
    """
    updater_switch = f"{part}.topologyUpdater.enable"
    worker = KnownDaemonSet(
        name=f"{chart}-node-feature-discovery-worker",
        tolerations=tolerations,
        nodes=Nodes.from_part(f"{part}.worker"),
        containers=(Container(requests=_WORKER if asks else {}, path=f"{part}.worker.resources"),),
        switches=(switch, Switch(path=f"{part}.worker.enable")),
        source=source,
        as_of=as_of,
    )
    updater = KnownDaemonSet(
        name=f"{chart}-node-feature-discovery-topology-updater",
        tolerations=Tolerations.from_part(f"{part}.topologyUpdater"),
        nodes=Nodes.from_part(f"{part}.topologyUpdater"),
        containers=(Container(requests=_UPDATER if asks else {}, path=f"{part}.topologyUpdater.resources"),),
        switches=(switch, Switch(path=updater_switch, default=False)),
        source=source,
        as_of=as_of,
    )
    return worker, updater


_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/deployments/helm/nvidia-device-plugin"
_OLDER_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.17.4/deployments/helm/nvidia-device-plugin"
_OLDEST_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.14.5/deployments/helm/nvidia-device-plugin"

# Helm uses the first condition of a dependency that is set.
_FEATURE_DISCOVERY = Switch(path="gfd.enabled", default=False)
_NODE_FEATURE_DISCOVERY = Switch(path=("nfd.enabled", "gfd.enabled"), default=False)


def _plugin_part(
    suffix: str,
    source: str,
    as_of: str,
    *switches: Switch,
    labels_of_nodes: tuple[NodeSelectorTerm, ...] = _NODES_WITH_GPUS,
    advertises: tuple[str, ...] = (),
    inexact: tuple[str, ...] = (),
) -> KnownDaemonSet:
    return KnownDaemonSet(
        name=f"{charts.DEVICE_PLUGIN}{suffix}",
        tolerations=Tolerations.from_part("", CRITICAL_ADDONS, GPU),
        nodes=Nodes.from_part("", *labels_of_nodes, selector=_MPS_CAPABLE if suffix == _MPS else {}),
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
    worker, topology_updater = _node_feature_discovery(
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
            _plugin_part(_MPS, source, as_of, plugin),
        )
        if mps
        else (_plugin_part("", source, as_of, labels_of_nodes=(), advertises=gpus, inexact=("gfd.enabled",)),)
    )
    discovery = _plugin_part("-gpu-feature-discovery", source, as_of, _FEATURE_DISCOVERY)
    daemon_sets = (*own, discovery, worker, topology_updater)
    return KnownSoftware(
        name=charts.DEVICE_PLUGIN, versions=versions, daemon_sets=daemon_sets, source=source, as_of=as_of
    )


_DEVICE_PLUGIN = _plugin(
    ("0.20.0", "0.19.3", "0.19.2", "0.19.1", "0.19.0", "0.18.2", "0.18.1", "0.18.0"),
    asks=True,
    source=_PLUGIN_SOURCE,
    as_of="2026-08-19",
)
_DEVICE_PLUGIN_0_15 = _plugin(
    ("0.17.4", "0.17.3", "0.17.2", "0.17.1", "0.17.0", "0.16.2", "0.16.1", "0.16.0", "0.15.1", "0.15.0"),
    asks=False,
    source=_OLDER_PLUGIN_SOURCE,
    as_of="2026-11-22",
)
_DEVICE_PLUGIN_0_14 = _plugin(
    ("0.14.5", "0.14.4", "0.14.3", "0.14.2", "0.14.1", "0.14.0"),
    asks=False,
    mps=False,
    source=_OLDEST_PLUGIN_SOURCE,
    as_of="2026-11-22",
)


_OPERATOR_SOURCE = "https://github.com/NVIDIA/gpu-operator/tree/v26.7.0/assets"
_OPERATOR_AS_OF = "2026-08-20"
_SMALL_MANAGER = {"cpu": "100m", "memory": "200Mi"}


def _operand(
    name: str,
    label: str,
    key: str,
    *switches: Switch,
    selector: dict[str, str] | None = None,
    requests: dict[str, str] | None = None,
    advertises: tuple[str, ...] = (),
    inexact: tuple[str, ...] = (),
) -> KnownDaemonSet:
    """Return a DaemonSet that the operator creates. The operator labels its nodes itself, at run time."""
    return KnownDaemonSet(
        name=name,
        tolerations=Tolerations(default=(GPU,), path="daemonsets.tolerations", kept_when_empty=True),
        nodes=Nodes(selector={f"{labels.OPERAND}{label}": "true", **(selector or {})}),
        containers=(Container(requests=requests or {}, path=f"{key}.resources"),),
        advertises=advertises,
        switches=(Switch(path="clusterPolicy.deployCR"), *switches),
        inexact_paths=inexact,
        source=_OPERATOR_SOURCE,
        as_of=_OPERATOR_AS_OF,
    )


_SANDBOX = enabled("sandboxWorkloads", default=False)
_KUBEVIRT = Switch(path="sandboxWorkloads.mode", on="kubevirt", default="kubevirt")
_KATA = Switch(path="sandboxWorkloads.mode", on="kata", default="kubevirt")
_OPERANDS = (
    # If the operator uses NVIDIADriver objects, a DaemonSet for each of them replaces this one.
    _operand(
        "nvidia-driver-daemonset",
        "driver",
        "driver",
        enabled("driver"),
        inexact=("driver.nvidiaDriverCRD.enabled",),
    ),
    _operand("nvidia-container-toolkit-daemonset", "container-toolkit", "toolkit", enabled("toolkit")),
    _operand(
        f"{charts.DEVICE_PLUGIN}-daemonset",
        "device-plugin",
        "devicePlugin",
        enabled("devicePlugin"),
        advertises=(resources.GPU,),
    ),
    _operand(
        f"{charts.DEVICE_PLUGIN}{_MPS}",
        "device-plugin",
        "devicePlugin",
        enabled("devicePlugin"),
        selector=_MPS_CAPABLE,
    ),
    _operand("gpu-feature-discovery", "gpu-feature-discovery", "gfd", enabled("gfd")),
    _operand(charts.OPERATOR_DCGM_EXPORTER, charts.DCGM_EXPORTER, "dcgmExporter", enabled("dcgmExporter")),
    _operand("nvidia-dcgm", "dcgm", "dcgm", enabled("dcgm", default=False)),
    _operand("nvidia-mig-manager", "mig-manager", "migManager", enabled("migManager")),
    _operand("nvidia-operator-validator", "operator-validator", "validator"),
    _operand(
        "nvidia-node-status-exporter",
        "node-status-exporter",
        "nodeStatusExporter",
        enabled("nodeStatusExporter", default=False),
    ),
    _operand("nvidia-sandbox-validator", "sandbox-validator", "validator", _SANDBOX),
    _operand(
        "nvidia-sandbox-device-plugin-daemonset",
        "sandbox-device-plugin",
        "sandboxDevicePlugin",
        _SANDBOX,
        _KUBEVIRT,
        enabled("sandboxDevicePlugin"),
    ),
    _operand(
        "nvidia-kata-sandbox-device-plugin-daemonset",
        "kata-sandbox-device-plugin",
        "kataSandboxDevicePlugin",
        _SANDBOX,
        _KATA,
        enabled("kataSandboxDevicePlugin"),
    ),
    _operand(
        "nvidia-vfio-manager",
        "vfio-manager",
        "vfioManager",
        _SANDBOX,
        enabled("vfioManager"),
        requests=_SMALL_MANAGER,
    ),
    _operand(
        "nvidia-cc-manager", "cc-manager", "ccManager", _SANDBOX, _KATA, enabled("ccManager"), requests=_SMALL_MANAGER
    ),
    _operand(
        "nvidia-vgpu-device-manager",
        "vgpu-device-manager",
        "vgpuDeviceManager",
        _SANDBOX,
        enabled("vgpuDeviceManager"),
    ),
    _operand(
        "nvidia-vgpu-manager-daemonset",
        "vgpu-manager",
        "vgpuManager",
        _SANDBOX,
        enabled("vgpuManager", default=False),
    ),
)


def _control_plane_toleration(role: str) -> dict[str, str]:
    return {"key": role, "operator": "Equal", "value": "", "effect": "NoSchedule"}


def _operator(
    versions: tuple[str, ...],
    operands: tuple[KnownDaemonSet, ...],
    *,
    worker_tolerates: tuple[dict[str, str], ...] = (),
    opaque: tuple[str, ...] = (),
    as_of: str,
) -> KnownSoftware:
    """Return the operator's chart for a range of versions with the same result for the same values."""
    source = f"https://github.com/NVIDIA/gpu-operator/tree/v{versions[0]}"
    tolerations = (*worker_tolerates, _control_plane_toleration(labels.CONTROL_PLANE), GPU)
    discovery = _node_feature_discovery(
        charts.GPU_OPERATOR,
        "node-feature-discovery",
        Tolerations.from_part("node-feature-discovery.worker", *tolerations),
        enabled("nfd"),
        source=f"{source}/deployments/gpu-operator",
        as_of=as_of,
    )
    own = tuple(replace(each, source=f"{source}/assets", as_of=as_of) for each in operands)
    return KnownSoftware(
        name=charts.GPU_OPERATOR,
        versions=versions,
        daemon_sets=(*own, *discovery),
        opaque_paths=opaque,
        source=f"{source}/assets",
        as_of=as_of,
    )


# The operands of a GPUCluster object were not read.
_GPU_OPERATOR = _operator(("26.7.0",), _OPERANDS, opaque=("gpuCluster.deployCR",), as_of=_OPERATOR_AS_OF)
_GPU_OPERATOR_26_3 = _operator(("26.3.3", "26.3.2", "26.3.1", "26.3.0"), _OPERANDS, as_of="2026-11-22")

# Before 26.3 sandboxes had no modes, and the manager of confidential computing was off and selected its nodes itself.
_MODES = ("sandboxWorkloads.mode",)
_CC_CAPABLE = {"nvidia.com/cc.capable": "true"}
_OLDER_OPERANDS = (
    *(
        replace(each, switches=tuple(one for one in each.switches if one.path not in _MODES))
        for each in _OPERANDS
        if each.name not in ("nvidia-kata-sandbox-device-plugin-daemonset", "nvidia-cc-manager")
    ),
    _operand(
        "nvidia-cc-manager",
        "cc-manager",
        "ccManager",
        _SANDBOX,
        enabled("ccManager", default=False),
        selector=_CC_CAPABLE,
        requests=_SMALL_MANAGER,
    ),
    _operand("nvidia-kata-manager", "kata-manager", "kataManager", _SANDBOX, enabled("kataManager", default=False)),
)
_GPU_OPERATOR_24_6 = _operator(
    (
        *("25.10.1", "25.10.0", "25.3.4", "25.3.3", "25.3.2", "25.3.1", "25.3.0"),
        *("24.9.2", "24.9.1", "24.9.0", "24.6.2", "24.6.1", "24.6.0"),
    ),
    _OLDER_OPERANDS,
    worker_tolerates=(_control_plane_toleration("node-role.kubernetes.io/master"),),
    as_of="2026-11-22",
)


_DRA_SOURCE = (
    "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/v0.4.1/deployments/helm/dra-driver-nvidia-gpu"
)
_DRA_DRIVER = KnownSoftware(
    name=charts.DRA_DRIVER,
    versions=("0.4.1",),
    daemon_sets=(
        KnownDaemonSet(
            name=f"{charts.DRA_DRIVER}-kubelet-plugin",
            tolerations=Tolerations.from_part("kubeletPlugin", GPU),
            nodes=Nodes.from_part(
                "kubeletPlugin", *any_label(_NVIDIA_DEVICE, *_NVIDIA_DISPLAYS, _NVIDIA_CPU, _GPU_PRESENT)
            ),
            containers=(
                *(
                    Container(
                        path=f"kubeletPlugin.containers.{part}.resources", switches=(enabled(f"resources.{part}"),)
                    )
                    for part in ("computeDomains", "gpus")
                ),
            ),
            inexact_paths=_NAMES,
            source=_DRA_SOURCE,
            as_of="2026-06-30",
        ),
    ),
    source=_DRA_SOURCE,
    as_of="2026-06-30",
)

_EXPORTER_SOURCE = "https://github.com/NVIDIA/dcgm-exporter/tree/4.5.3-4.8.2/deployment"
_DCGM_EXPORTER = KnownSoftware(
    name=charts.DCGM_EXPORTER,
    versions=("4.8.2", "4.8.1", "4.8.0", "4.7.1", "4.7.0"),
    daemon_sets=(
        KnownDaemonSet(
            name=charts.DCGM_EXPORTER,
            tolerations=Tolerations.from_part("", tolerates(labels.CONTROL_PLANE, effect="NoSchedule")),
            nodes=Nodes.from_part(""),
            containers=(Container(requests={"cpu": "100m", "memory": "128Mi"}, path="resources"),),
            inexact_paths=_NAMES,
            source=_EXPORTER_SOURCE,
            as_of="2026-05-12",
        ),
    ),
    source=_EXPORTER_SOURCE,
    as_of="2026-05-12",
)

_KAI_SOURCE = (
    "https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0/pkg/operator/operands/numa_placement_exporter"
)
_KAI_SCHEDULER = KnownSoftware(
    name=charts.KAI_SCHEDULER,
    versions=("0.17.0",),
    daemon_sets=(
        KnownDaemonSet(
            name="numa-placement-exporter",
            tolerations=Tolerations.from_part("numaPlacementExporter"),
            nodes=Nodes(
                selector={f"{labels.NODE_FEATURE}memory-numa": "true"}, affinity_path="numaPlacementExporter.affinity"
            ),
            containers=(Container(requests={"cpu": "50m", "memory": "64Mi"}, path="numaPlacementExporter.resources"),),
            # By default it exists if the scheduler's NUMA plugin is on, which is off by default.
            switches=(Switch(path=("numaPlacementExporter.enabled", "scheduler.plugins.numa.enabled"), default=False),),
            # A selector in the values replaces the operator's own instead of adding to it.
            inexact_paths=("numaPlacementExporter.nodeSelector",),
            source=_KAI_SOURCE,
            as_of="2026-08-03",
        ),
    ),
    source=_KAI_SOURCE,
    as_of="2026-08-03",
)

CHARTS = (
    *(_DEVICE_PLUGIN, _DEVICE_PLUGIN_0_15, _DEVICE_PLUGIN_0_14),
    *(_GPU_OPERATOR, _GPU_OPERATOR_26_3, _GPU_OPERATOR_24_6),
    *(_DRA_DRIVER, _DCGM_EXPORTER, _KAI_SCHEDULER),
)
