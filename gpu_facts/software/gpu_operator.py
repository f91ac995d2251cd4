"""DaemonSets of the GPU Operator's operands, and of its chart, rendered with Helm 4.2 from the tagged sources."""

from __future__ import annotations

from dataclasses import replace

from gpu_facts import charts, labels, resources
from gpu_facts.software.model import (
    GPU,
    Container,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    Switch,
    Tolerations,
    enabled,
)
from gpu_facts.software.node_feature_discovery import node_feature_discovery
from gpu_facts.software.nvidia_nodes import (
    MPS,
    MPS_CAPABLE,
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
        f"{charts.DEVICE_PLUGIN}{MPS}",
        "device-plugin",
        "devicePlugin",
        enabled("devicePlugin"),
        selector=MPS_CAPABLE,
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
    discovery = node_feature_discovery(
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
GPU_OPERATOR = _operator(("26.7.0",), _OPERANDS, opaque=("gpuCluster.deployCR",), as_of=_OPERATOR_AS_OF)
GPU_OPERATOR_26_3 = _operator(("26.3.3", "26.3.2", "26.3.1", "26.3.0"), _OPERANDS, as_of="2026-11-22")

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
GPU_OPERATOR_24_6 = _operator(
    (
        *("25.10.1", "25.10.0", "25.3.4", "25.3.3", "25.3.2", "25.3.1", "25.3.0"),
        *("24.9.2", "24.9.1", "24.9.0", "24.6.2", "24.6.1", "24.6.0"),
    ),
    _OLDER_OPERANDS,
    worker_tolerates=(_control_plane_toleration("node-role.kubernetes.io/master"),),
    as_of="2026-11-22",
)

CHARTS = (GPU_OPERATOR, GPU_OPERATOR_26_3, GPU_OPERATOR_24_6)
