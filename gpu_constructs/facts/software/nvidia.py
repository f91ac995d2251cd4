"""DaemonSets of NVIDIA's charts, rendered with Helm 4.2 from the tagged sources, and of the GPU Operator's operands."""

from __future__ import annotations

from gpu_constructs.facts.software.model import Container, KnownDaemonSet, KnownSoftware, Switch
from gpu_constructs.facts.software.terms import CRITICAL_ADDONS, GPU, any_label, tolerates

_NODES_WITH_GPUS = any_label(
    "feature.node.kubernetes.io/pci-10de.present=true",
    "feature.node.kubernetes.io/cpu-model.vendor_id=NVIDIA",
    "nvidia.com/gpu.present=true",
)

_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/deployments/helm/nvidia-device-plugin"
_OLDER_PLUGIN_SOURCE = "https://github.com/NVIDIA/k8s-device-plugin/tree/v0.17.4/deployments/helm/nvidia-device-plugin"
# Helm takes the first of a dependency's conditions that is set.
_FEATURE_DISCOVERY = Switch(path="gfd.enabled", default=False)
_NODE_FEATURE_DISCOVERY = Switch(path="nfd.enabled,gfd.enabled", default=False)
_NAMES = ("nameOverride", "fullnameOverride")


def _plugin_part(
    suffix: str, switch: Switch, source: str, as_of: str, *, advertises: tuple[str, ...] = ()
) -> KnownDaemonSet:
    return KnownDaemonSet(
        name=f"nvidia-device-plugin{suffix}",
        tolerations=(CRITICAL_ADDONS, GPU),
        node_selector={"nvidia.com/mps.capable": "true"} if suffix == "-mps-control-daemon" else {},
        node_affinity=_NODES_WITH_GPUS,
        containers=(Container(path="resources"),),
        advertises=advertises,
        switches=(switch,),
        tolerations_path="tolerations",
        selector_path="nodeSelector",
        affinity_path="affinity",
        inexact_paths=_NAMES,
        source=source,
        as_of=as_of,
    )


def _plugin(versions: tuple[str, ...], worker_requests: dict[str, str], *, source: str, as_of: str) -> KnownSoftware:
    plugin = Switch(path="devicePlugin.enabled")
    worker = KnownDaemonSet(
        name="nvidia-device-plugin-node-feature-discovery-worker",
        tolerations=(
            {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"},
        ),
        containers=(Container(requests=worker_requests, path="nfd.worker.resources"),),
        switches=(_NODE_FEATURE_DISCOVERY,),
        tolerations_path="nfd.worker.tolerations",
        selector_path="nfd.worker.nodeSelector",
        affinity_path="nfd.worker.affinity",
        source=source,
        as_of=as_of,
    )
    daemon_sets = (
        _plugin_part("", plugin, source, as_of, advertises=("nvidia.com/gpu",)),
        _plugin_part("-mps-control-daemon", plugin, source, as_of),
        _plugin_part("-gpu-feature-discovery", _FEATURE_DISCOVERY, source, as_of),
        worker,
    )
    return KnownSoftware(
        name="nvidia-device-plugin", versions=versions, daemon_sets=daemon_sets, source=source, as_of=as_of
    )


DEVICE_PLUGIN = _plugin(
    ("0.20.0", "0.19.3", "0.19.2", "0.19.1", "0.19.0", "0.18.2", "0.18.1", "0.18.0"),
    {"cpu": "5m", "memory": "64Mi"},
    source=_PLUGIN_SOURCE,
    as_of="2026-08-19",
)
DEVICE_PLUGIN_0_17 = _plugin(
    ("0.17.4", "0.17.3", "0.17.2", "0.17.1"),
    {},
    source=_OLDER_PLUGIN_SOURCE,
    as_of="2026-08-19",
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
    """Return a DaemonSet that the operator makes; it labels the nodes it selects itself, at run time."""
    return KnownDaemonSet(
        name=name,
        tolerations=(GPU,),
        node_selector={f"nvidia.com/gpu.deploy.{label}": "true", **(selector or {})},
        containers=(Container(requests=requests or {}, path=f"{key}.resources"),),
        advertises=advertises,
        switches=(Switch(path="clusterPolicy.deployCR"), *switches),
        tolerations_path="daemonsets.tolerations",
        tolerations_kept_when_empty=True,
        inexact_paths=inexact,
        source=_OPERATOR_SOURCE,
        as_of=_OPERATOR_AS_OF,
    )


def _enabled(key: str, *, default: bool = True) -> Switch:
    return Switch(path=f"{key}.enabled", default=default)


_SANDBOX = _enabled("sandboxWorkloads", default=False)
_KUBEVIRT = Switch(path="sandboxWorkloads.mode", on="kubevirt", default="kubevirt")
_KATA = Switch(path="sandboxWorkloads.mode", on="kata", default="kubevirt")
_OPERANDS = (
    # A DaemonSet per driver object replaces this one where the operator is told to use NVIDIADriver objects.
    _operand(
        "nvidia-driver-daemonset",
        "driver",
        "driver",
        _enabled("driver"),
        inexact=("driver.nvidiaDriverCRD.enabled",),
    ),
    _operand("nvidia-container-toolkit-daemonset", "container-toolkit", "toolkit", _enabled("toolkit")),
    _operand(
        "nvidia-device-plugin-daemonset",
        "device-plugin",
        "devicePlugin",
        _enabled("devicePlugin"),
        advertises=("nvidia.com/gpu",),
    ),
    _operand(
        "nvidia-device-plugin-mps-control-daemon",
        "device-plugin",
        "devicePlugin",
        _enabled("devicePlugin"),
        selector={"nvidia.com/mps.capable": "true"},
    ),
    _operand("gpu-feature-discovery", "gpu-feature-discovery", "gfd", _enabled("gfd")),
    _operand("nvidia-dcgm-exporter", "dcgm-exporter", "dcgmExporter", _enabled("dcgmExporter")),
    _operand("nvidia-dcgm", "dcgm", "dcgm", _enabled("dcgm", default=False)),
    _operand("nvidia-mig-manager", "mig-manager", "migManager", _enabled("migManager")),
    _operand("nvidia-operator-validator", "operator-validator", "validator"),
    _operand(
        "nvidia-node-status-exporter",
        "node-status-exporter",
        "nodeStatusExporter",
        _enabled("nodeStatusExporter", default=False),
    ),
    _operand("nvidia-sandbox-validator", "sandbox-validator", "validator", _SANDBOX),
    _operand(
        "nvidia-sandbox-device-plugin-daemonset",
        "sandbox-device-plugin",
        "sandboxDevicePlugin",
        _SANDBOX,
        _KUBEVIRT,
        _enabled("sandboxDevicePlugin"),
    ),
    _operand(
        "nvidia-kata-sandbox-device-plugin-daemonset",
        "kata-sandbox-device-plugin",
        "kataSandboxDevicePlugin",
        _SANDBOX,
        _KATA,
        _enabled("kataSandboxDevicePlugin"),
    ),
    _operand(
        "nvidia-vfio-manager",
        "vfio-manager",
        "vfioManager",
        _SANDBOX,
        _enabled("vfioManager"),
        requests=_SMALL_MANAGER,
    ),
    _operand(
        "nvidia-cc-manager", "cc-manager", "ccManager", _SANDBOX, _KATA, _enabled("ccManager"), requests=_SMALL_MANAGER
    ),
    _operand(
        "nvidia-vgpu-device-manager",
        "vgpu-device-manager",
        "vgpuDeviceManager",
        _SANDBOX,
        _enabled("vgpuDeviceManager"),
    ),
    _operand(
        "nvidia-vgpu-manager-daemonset",
        "vgpu-manager",
        "vgpuManager",
        _SANDBOX,
        _enabled("vgpuManager", default=False),
    ),
)

GPU_OPERATOR = KnownSoftware(
    name="gpu-operator",
    versions=("26.7.0",),
    daemon_sets=(
        *_OPERANDS,
        KnownDaemonSet(
            name="gpu-operator-node-feature-discovery-worker",
            tolerations=(
                {
                    "key": "node-role.kubernetes.io/control-plane",
                    "operator": "Equal",
                    "value": "",
                    "effect": "NoSchedule",
                },
                GPU,
            ),
            containers=(
                Container(requests={"cpu": "5m", "memory": "64Mi"}, path="node-feature-discovery.worker.resources"),
            ),
            switches=(_enabled("nfd"),),
            tolerations_path="node-feature-discovery.worker.tolerations",
            selector_path="node-feature-discovery.worker.nodeSelector",
            affinity_path="node-feature-discovery.worker.affinity",
            source="https://github.com/NVIDIA/gpu-operator/tree/v26.7.0/deployments/gpu-operator",
            as_of=_OPERATOR_AS_OF,
        ),
    ),
    # The operands of a GPUCluster object were not read.
    opaque_paths=("gpuCluster.deployCR",),
    source=_OPERATOR_SOURCE,
    as_of=_OPERATOR_AS_OF,
)

_DRA_SOURCE = (
    "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/tree/v0.4.1/deployments/helm/dra-driver-nvidia-gpu"
)
DRA_DRIVER = KnownSoftware(
    name="dra-driver-nvidia-gpu",
    versions=("0.4.1",),
    daemon_sets=(
        KnownDaemonSet(
            name="dra-driver-nvidia-gpu-kubelet-plugin",
            tolerations=(GPU,),
            node_affinity=any_label(
                "feature.node.kubernetes.io/pci-10de.present=true",
                "feature.node.kubernetes.io/pci-0302_10de.present=true",
                "feature.node.kubernetes.io/pci-0300_10de.present=true",
                "feature.node.kubernetes.io/cpu-model.vendor_id=NVIDIA",
                "nvidia.com/gpu.present=true",
            ),
            containers=(
                Container(path="kubeletPlugin.containers.computeDomains.resources"),
                Container(path="kubeletPlugin.containers.gpus.resources"),
            ),
            tolerations_path="kubeletPlugin.tolerations",
            selector_path="kubeletPlugin.nodeSelector",
            affinity_path="kubeletPlugin.affinity",
            inexact_paths=_NAMES,
            source=_DRA_SOURCE,
            as_of="2026-06-30",
        ),
    ),
    source=_DRA_SOURCE,
    as_of="2026-06-30",
)

_EXPORTER_SOURCE = "https://github.com/NVIDIA/dcgm-exporter/tree/4.5.3-4.8.2/deployment"
DCGM_EXPORTER = KnownSoftware(
    name="dcgm-exporter",
    versions=("4.8.2", "4.8.1", "4.8.0", "4.7.1", "4.7.0"),
    daemon_sets=(
        KnownDaemonSet(
            name="dcgm-exporter",
            tolerations=(tolerates("node-role.kubernetes.io/control-plane", effect="NoSchedule"),),
            containers=(Container(requests={"cpu": "100m", "memory": "128Mi"}, path="resources"),),
            tolerations_path="tolerations",
            selector_path="nodeSelector",
            affinity_path="affinity",
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
KAI_SCHEDULER = KnownSoftware(
    name="kai-scheduler",
    versions=("0.17.0",),
    daemon_sets=(
        KnownDaemonSet(
            name="numa-placement-exporter",
            node_selector={"feature.node.kubernetes.io/memory-numa": "true"},
            containers=(Container(requests={"cpu": "50m", "memory": "64Mi"}, path="numaPlacementExporter.resources"),),
            # Unless told, it is there when the scheduler has its NUMA plugin on, which is off by default.
            switches=(Switch(path="numaPlacementExporter.enabled,scheduler.plugins.numa.enabled", default=False),),
            tolerations_path="numaPlacementExporter.tolerations",
            affinity_path="numaPlacementExporter.affinity",
            # A selector from the values replaces the operator's own instead of adding to it.
            inexact_paths=("numaPlacementExporter.nodeSelector",),
            source=_KAI_SOURCE,
            as_of="2026-08-03",
        ),
    ),
    source=_KAI_SOURCE,
    as_of="2026-08-03",
)

CHARTS = (DEVICE_PLUGIN, DEVICE_PLUGIN_0_17, GPU_OPERATOR, DRA_DRIVER, DCGM_EXPORTER, KAI_SCHEDULER)
