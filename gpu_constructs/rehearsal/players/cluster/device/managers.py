"""The pods that manage the devices of a node, and what they are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from gpu_constructs.rehearsal.players.cluster.client import Client, Object
from gpu_constructs.rehearsal.players.cluster.pod.environment import environment

# Repositories of images, without registries: each has its own.
PLUGIN, EFA, DRA = "k8s-device-plugin", "aws-efa-k8s-device-plugin", "dra-driver-nvidia-gpu"
# Starts managers of its own, which nobody plays.
_OPERATOR = "gpu-operator"
_CONTROL_DAEMON = "mps-control-daemon"
# Other programs in the image of the plugin.
_NO_MANAGERS = (_CONTROL_DAEMON, "gpu-feature-discovery", "config-manager")
_GPUS_OF_DRA = "gpus"


def container_of(pod: Object, repository: str) -> Object | None:
    """Return the container of a pod that manages devices, by the repository of its image."""
    for each in pod["spec"]["containers"]:
        # The pod of the driver has a container for each kind of device.
        is_part = repository != DRA or each["name"] == _GPUS_OF_DRA
        if _repository(each) == repository and is_part and _program(each) not in _NO_MANAGERS:
            return dict(each)
    return None


def operators(pods: Iterable[Object]) -> Iterator[str]:
    """Return images of operators whose managers are not played."""
    for container in (each for pod in pods for each in pod["spec"]["containers"]):
        if _repository(container) == _OPERATOR:
            yield container["image"]


def _repository(container: Object) -> str:
    return str(container["image"]).partition("@")[0].rpartition("/")[2].partition(":")[0]


def _program(container: Object) -> str:
    return str((container.get("command") or [""])[0]).rpartition("/")[2]


def is_control_daemon(pod: Object) -> bool:
    """Whether a pod is the control daemon of MPS, without which a plugin that shares by it advertises nothing."""
    return any(_program(each) == _CONTROL_DAEMON for each in pod["spec"]["containers"])


def config_of(pod: Object, container: Object, kubelet: Client) -> dict[str, Any]:
    """Return what a device plugin is told by its file, and stronger by variables and arguments.

    Raises:
        LookupError: Its file is not there.
    """
    variables, flags = environment(pod, container, kubelet), _flags(container)
    path = flags.get("config-file") or variables.get("CONFIG_FILE")
    config = yaml.safe_load(_file(pod, container, path, kubelet)) if path else {}
    strategy = flags.get("mig-strategy") or variables.get("MIG_STRATEGY")
    said = (config.get("flags") or {}) | ({"migStrategy": strategy} if strategy else {})
    return dict(config) | {"flags": said}


def _flags(container: Object) -> dict[str, str]:
    words = [*(container.get("command") or ())[1:], *container.get("args", ())]
    pairs = (each.lstrip("-").partition("=") for each in words if each.startswith("--"))
    return {name: value for name, _, value in pairs}


def _file(pod: Object, container: Object, path: str, kubelet: Client) -> str:
    """Read a file that a container mounts from a ConfigMap."""
    volumes = {each["name"]: each for each in pod["spec"].get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        source = volumes[mount["name"]].get("configMap")
        if source and path.startswith(f"{mount['mountPath'].rstrip('/')}/"):
            return _key(pod, source, path.removeprefix(mount["mountPath"].rstrip("/") + "/"), kubelet)
    raise LookupError(f"device plugin: no ConfigMap is mounted at {path}")


def _key(pod: Object, source: Mapping[str, Any], name: str, kubelet: Client) -> str:
    found = kubelet.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/configmaps/{source['name']}")
    keys = {each["path"]: each["key"] for each in source.get("items") or ()}
    key = keys.get(name, "") if keys else name
    if key not in found.get("data", {}):
        raise LookupError(f"device plugin: ConfigMap {source['name']} has no {name}")
    return str(found["data"][key])
