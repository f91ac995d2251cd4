"""The Kubernetes objects of NVIDIA's device plugin: one DaemonSet for each way of sharing GPUs.

They are literals, because most clusters have them, and cdk8s-plus takes a quarter of a second to load. Keys are in the
order of cdk8s.

Source: NVIDIA/k8s-device-plugin v0.20.0 deployments/static/, deployments/helm/nvidia-device-plugin/templates/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_constructs.pools.sharing import Mig, Mps, Sharing
from gpu_facts.charts import DEVICE_PLUGIN
from gpu_facts.kubernetes import KUBE_SYSTEM, NODE_CRITICAL
from gpu_facts.labels import APP_NAME, COMPUTE_TYPE, DEVICE_MANAGER, SHARING

_NAME = DEVICE_PLUGIN
_NAMESPACE = KUBE_SYSTEM
_SOCKETS = "/var/lib/kubelet/device-plugins"
_MPS_ROOT = "/run/nvidia/mps"
_CONFIG = "/config/config.yaml"


def device_plugin_manifests(image: str) -> list[dict[str, Any]]:
    """Return the DaemonSet for nodes without GPU sharing."""
    return [_daemon_set(_NAME, _plugin(image, None))]


def sharing_manifests(image: str, sharing: Sharing, config: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the DaemonSet for nodes with one way of sharing, its configuration, and with MPS the control daemon."""
    name = f"{_NAME}-{sharing.profile}"
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        # The plugin reads YAML, which includes JSON.
        "data": {"config.yaml": json.dumps(config, indent=2)},
    }
    control = [_daemon_set(f"{name}-control", _control_daemon(image, sharing))] if isinstance(sharing, Mps) else []
    return [config_map, _daemon_set(name, _plugin(image, sharing)), *control]


def _daemon_set(name: str, pod: Mapping[str, Any]) -> dict[str, Any]:
    labels = {APP_NAME: name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"labels": labels, "name": name, "namespace": _NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "updateStrategy": {"type": "RollingUpdate"},
        },
    }


def _plugin(image: str, sharing: Sharing | None) -> dict[str, Any]:
    name = "device-plugins"
    return {
        "affinity": _served_nodes(sharing),
        "automountServiceAccountToken": False,
        "containers": [
            {
                "env": _environment(sharing),
                "image": image,
                "name": _NAME,
                "resources": _resources(limited=True),
                "securityContext": _security(sharing),
                "volumeMounts": [{"mountPath": _SOCKETS, "name": name}, *_mounts(sharing)],
            }
        ],
        "priorityClassName": NODE_CRITICAL,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [{"hostPath": {"path": _SOCKETS, "type": "Directory"}, "name": name}, *_volumes(sharing)],
    }


def _control_daemon(image: str, sharing: Mps) -> dict[str, Any]:
    privileged = {"privileged": True}
    return {
        "affinity": _served_nodes(sharing),
        "automountServiceAccountToken": False,
        "containers": [
            {
                "command": ["mps-control-daemon"],
                "env": [_variable("NVIDIA_VISIBLE_DEVICES", "all"), *_environment(sharing)],
                "image": image,
                "name": "mps-control-daemon",
                # Its server may hold memory that clients pinned.
                "resources": _resources(limited=False),
                "securityContext": privileged,
                "volumeMounts": _mounts(sharing),
            }
        ],
        # The server reads its own process under /proc by the id that the driver reports.
        "hostPID": True,
        "initContainers": [
            {
                "command": ["mps-control-daemon", "mount-shm"],
                "image": image,
                "name": "mount-shm",
                "resources": _resources(limited=True),
                "securityContext": privileged,
                "volumeMounts": [{"mountPath": "/mps", "mountPropagation": "Bidirectional", "name": "mps"}],
            }
        ],
        "priorityClassName": NODE_CRITICAL,
        "tolerations": [{"operator": "Exists"}],
        "volumes": _volumes(sharing),
    }


def _environment(sharing: Sharing | None) -> list[dict[str, str]]:
    # Explicit, because some releases enable it by default and then take over the EFA devices from EFA's plugin.
    found = [_variable("MOFED_ENABLED", "false")]
    if sharing is not None:
        found.append(_variable("CONFIG_FILE", _CONFIG))
    if isinstance(sharing, Mig):
        found += [_variable("NVIDIA_MIG_MONITOR_DEVICES", "all"), _variable("NVIDIA_VISIBLE_DEVICES", "all")]
    if isinstance(sharing, Mps):
        found.append(_variable("MPS_ROOT", _MPS_ROOT))
    return found


def _mounts(sharing: Sharing | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if sharing is not None:
        found.append({"mountPath": "/config", "name": "config", "readOnly": True})
    if isinstance(sharing, Mps):
        found += [{"mountPath": "/mps", "name": "mps"}, {"mountPath": "/dev/shm", "name": "mps-shm"}]
    return found


def _volumes(sharing: Sharing | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if sharing is not None:
        found.append({"configMap": {"name": f"{_NAME}-{sharing.profile}"}, "name": "config"})
    if isinstance(sharing, Mps):
        found.append({"hostPath": {"path": _MPS_ROOT, "type": "DirectoryOrCreate"}, "name": "mps"})
        found.append({"hostPath": {"path": f"{_MPS_ROOT}/shm"}, "name": "mps-shm"})
    return found


def _security(sharing: Sharing | None) -> dict[str, Any]:
    seccomp = {"type": "RuntimeDefault"}
    if isinstance(sharing, Mig):
        # Reading MIG devices needs this capability.
        return {"capabilities": {"add": ["SYS_ADMIN"]}, "seccompProfile": seccomp}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "seccompProfile": seccomp}


def _resources(*, limited: bool) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "64Mi"}
    # Far more than it needs, because a node without its plugin has no GPUs.
    return {"limits": {"memory": "512Mi"}, "requests": requests} if limited else {"requests": requests}


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def _served_nodes(sharing: Sharing | None) -> dict[str, Any]:
    shared: dict[str, Any] = {"key": SHARING, "operator": "DoesNotExist"}
    if sharing is not None:
        shared = {"key": SHARING, "operator": "In", "values": [sharing.profile]}
    served = [
        {"key": DEVICE_MANAGER, "operator": "In", "values": ["device-plugin"]},
        {"key": COMPUTE_TYPE, "operator": "NotIn", "values": ["auto"]},
        shared,
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": served}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
