"""Devices of nodes, which appear when a pod of their manager runs on the node, under the names in its configuration.

Simulated: NVIDIA's device plugin and DRA driver, EFA's plugin, and the built-in plugin of Bottlerocket. Not simulated:
pods that the GPU Operator would start, because its operator doesn't run here.

Sources: https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/api/config/v1 and .../internal/rm,
https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/v0.4.1/cmd/gpu-kubelet-plugin/deviceinfo.go
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gpu_rehearsal.cluster.client import CONFLICT, NOT_FOUND, ApiError, Client, Loop, Looped, Object
from gpu_rehearsal.cluster.instances import Image, Instance, Instances, Node
from gpu_rehearsal.cluster.pod_status import environment, is_ready

# The command that creates instances of a MIG GPU, on all GPUs unless it names some.
# Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#creating-gpu-instances
_PARTITION = re.compile(r"^\s*nvidia-smi\s+mig\s+(?P<flags>.*?)-cgi\s+(?P<profiles>\S+)", re.MULTILINE)
_PROFILE = re.compile(r"\d+g\.\d+gb(\+\w+(\.\w+)?)?")
# Repositories of images, without the registry.
PLUGIN, EFA, DRA = "k8s-device-plugin", "aws-efa-k8s-device-plugin", "dra-driver-nvidia-gpu"
_CONTROL_DAEMON = "mps-control-daemon"
# Other programs in the image of the plugin.
_OTHER_PROGRAMS = (_CONTROL_DAEMON, "gpu-feature-discovery", "config-manager")
_DRA_GPU_CONTAINER = "gpus"
_GPU = "nvidia.com/gpu"
_STRATEGIES = ("none", "single", "mixed")
_DRIVER = "gpu.nvidia.com"
PATH = "/apis/resource.k8s.io/v1/resourceslices"
# Usual seconds from a running manager to advertised devices. No source promises them.
_ADVERTISE_SECONDS = 10.0
_EFA = "vpc.amazonaws.com/efa"


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpus:
    """The GPUs that a driver shows.

    Attributes:
        count: Whole GPUs, or vGPUs if the type has a fraction of a GPU.
        name: Name in EC2.
        memory_mib: Memory of each, in MiB.
        partitions: MIG partitions of each, by profile; empty without MIG.
    """

    count: int
    name: str = ""
    memory_mib: int = 0
    partitions: Mapping[str, int] = field(default_factory=dict)


def visible_gpus(instance: Instance, image: Image) -> Gpus:
    """Return the GPUs of an instance; none without a driver in its image.

    Raises:
        LookupError: Its partitions aren't supported.
    """
    found = [each for each in instance.kind.get("GpuInfo", {}).get("Gpus", ()) if each["Manufacturer"] == "NVIDIA"]
    if not found or not image.has_driver:
        return Gpus(count=0)
    [one] = found
    count = int(one.get("LogicalGpuCount") or one["Count"])
    return Gpus(
        count=count, name=one["Name"], memory_mib=one["MemoryInfo"]["SizeInMiB"], partitions=_partitions(instance)
    )


def _partitions(instance: Instance) -> dict[str, int]:
    """Return the partitions of each GPU that the scripts of an instance create."""
    commands = [match for script in instance.bootstrap.scripts for match in _PARTITION.finditer(script)]
    if not commands:
        return {}
    profiles = commands[-1]["profiles"].split(",")
    unknown = [each for each in profiles if not _PROFILE.fullmatch(each)]
    if "-i" in commands[-1]["flags"].split() or unknown:
        raise LookupError(f"{instance.id}: this partitioning of its GPUs isn't supported: {commands[-1][0].strip()}")
    return dict(Counter(profiles))


def find_manager_container(pod: Object, repository: str) -> Object | None:
    """Return the container of a pod that manages devices, by the repository of its image."""
    for each in pod["spec"]["containers"]:
        # The pod of the driver has a container for each kind of device.
        is_part = repository != DRA or each["name"] == _DRA_GPU_CONTAINER
        if _repository(each) == repository and is_part and _program(each) not in _OTHER_PROGRAMS:
            return dict(each)
    return None


def _repository(container: Object) -> str:
    return str(container["image"]).partition("@")[0].rpartition("/")[2].partition(":")[0]


def _program(container: Object) -> str:
    return str((container.get("command") or [""])[0]).rpartition("/")[2]


def is_control_daemon(pod: Object) -> bool:
    """Whether a pod is the control daemon of MPS. Without it, a plugin with MPS sharing advertises nothing."""
    return any(_program(each) == _CONTROL_DAEMON for each in pod["spec"]["containers"])


def plugin_config(pod: Object, container: Object, kubelet: Client) -> dict[str, Any]:
    """Return the configuration of a device plugin: its file, overridden by variables and arguments.

    Raises:
        LookupError: Its file isn't found.
    """
    variables, flags = environment(pod, container, kubelet), _flags(container)
    path = flags.get("config-file") or variables.get("CONFIG_FILE")
    config = yaml.safe_load(_file(pod, container, path, kubelet)) if path else {}
    strategy = flags.get("mig-strategy") or variables.get("MIG_STRATEGY")
    merged_flags = (config.get("flags") or {}) | ({"migStrategy": strategy} if strategy else {})
    return dict(config) | {"flags": merged_flags}


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Advertised:
    """A resource of a node.

    Attributes:
        count: Number of devices.
        single: Whether a container may request only one.
    """

    name: str
    count: int
    single: bool = False


def advertised(config: Mapping[str, Any], gpus: Gpus) -> list[Advertised]:
    """Return the resources that the plugin advertises.

    Args:
        config: Its configuration file, with flags and variables merged into it.
        gpus: The GPUs that the driver shows.

    Raises:
        LookupError: A setting isn't supported.
    """
    strategy = (config.get("flags") or {}).get("migStrategy") or "none"
    if strategy not in _STRATEGIES:
        raise LookupError(f"device plugin: migStrategy must be one of {_STRATEGIES}, got {strategy!r}")
    whole = _whole(strategy, gpus)
    return [_shared(name, count, config.get("sharing") or {}) for name, count in whole.items() if count]


def _whole(strategy: str, gpus: Gpus) -> dict[str, int]:
    """Return resources before they are shared."""
    if strategy == "none" or not gpus.partitions:
        return {_GPU: gpus.count}
    if strategy == "single":
        if len(gpus.partitions) > 1:
            raise LookupError(f"device plugin: migStrategy single takes one profile, got {dict(gpus.partitions)}")
        return {_GPU: gpus.count * sum(gpus.partitions.values())}
    return {
        f"nvidia.com/mig-{profile.replace('+', '.')}": gpus.count * number
        for profile, number in gpus.partitions.items()
    }


def _shared(name: str, count: int, sharing: Mapping[str, Any]) -> Advertised:
    for kind in ("timeSlicing", "mps"):
        settings = sharing.get(kind) or {}
        for each in settings.get("resources") or ():
            if each["name"] == name:
                renamed = f"{name}.shared" if settings.get("renameByDefault") else name
                # With MPS, a container may request only one, whatever the setting is.
                single = kind == "mps" or bool(settings.get("failRequestsGreaterThanOne"))
                return Advertised(
                    name=each.get("rename") or renamed, count=count * int(each["replicas"]), single=single
                )
    return Advertised(name=name, count=count)


def bottlerocket_plugin_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of Bottlerocket's built-in plugin.

    Source: https://bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins/

    Args:
        settings: ``settings.kubelet-device-plugins.nvidia``.

    Raises:
        LookupError: It partitions GPUs, which isn't supported.
    """
    if settings.get("device-partitioning-strategy", "none") != "none":
        raise LookupError("Bottlerocket: device-partitioning-strategy isn't supported")
    strategy = settings.get("device-sharing-strategy", "none")
    if strategy == "none":
        return {}
    kinds = {"time-slicing": "timeSlicing", "mps": "mps"}
    if strategy not in kinds:
        raise LookupError(f"Bottlerocket: device-sharing-strategy must be one of {[*kinds]}, got {strategy!r}")
    sharing = settings.get(strategy) or {}
    shared = {
        "renameByDefault": sharing.get("rename-by-default", True),
        "failRequestsGreaterThanOne": sharing.get("fail-requests-greater-than-one", True),
        "resources": [{"name": _GPU, "replicas": sharing.get("replicas", 2)}],
    }
    return {"sharing": {kinds[strategy]: shared}}


def _render_resource_slice(node: Object, gpus: Gpus) -> Object:
    """Return the ResourceSlice of a node.

    Attributes that EC2 doesn't return are left out. A claim that requests one isn't allocated, and the scheduler
    reports why.
    """
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{metadata['name']}-{_DRIVER}", "ownerReferences": [owner]},
        "spec": {
            "driver": _DRIVER,
            "nodeName": metadata["name"],
            "pool": {"name": metadata["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(metadata["uid"], number, gpus) for number in range(gpus.count)],
        },
    }


def _device(node: str, number: int, gpus: Gpus) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{node}-{number}"[:64]}},
        "capacity": {"memory": {"value": f"{gpus.memory_mib}Mi"}},
    }


class Devices(Looped):
    """The devices of all joined nodes.

    Attributes:
        broken: Names of nodes whose devices never appear.
        failures: Why a manager advertises nothing, by node name.
    """

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, Node],
        instances: Instances,
        *,
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._nodes, self._instances = client, nodes, instances
        self._pace, self._clock = pace, clock
        self.broken: set[str] = set()
        self.failures: dict[str, str] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._shown: dict[str, dict[str, Advertised]] = {}
        self._sliced: set[str] = set()
        self._gpus: dict[str, Gpus] = {}
        self._configs: dict[str, dict[str, Any]] = {}
        self._efas: dict[str, int] = {}
        self.loop = Loop("devices", self.step, seconds=0.5)

    def rejection_reason(self, pod: Object, node: Node) -> str:
        """Return why a plugin of a node rejects a pod; empty if it doesn't.

        Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/internal/plugin/server.go
        """
        for container in pod["spec"]["containers"]:
            limits = container.get("resources", {}).get("limits", {})
            for each in self._shown.get(node.name, {}).values():
                number = int(limits.get(each.name, 0))
                if each.single and number > 1:
                    return _too_many(each.name, number)
        return ""

    def step(self) -> None:
        """Update the advertised devices to the managers that run now."""
        every, pods = self._client.list("/api/v1/pods"), dict[str, list[Object]]()
        for pod in every:
            pods.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        for name, node in list(self._nodes.items()):
            if name not in self.broken:
                self._update_node(node, [each for each in pods.get(name, ()) if is_ready(each)])

    def _update_node(self, node: Node, pods: list[Object]) -> None:
        try:
            found = {each.name: each for each in self._advertised(node, pods)}
            self._slice(node, pods)
            self.failures.pop(node.name, None)
        except LookupError as error:
            # The manager would fail, or its setting isn't supported: nothing is advertised.
            self.failures[node.name] = str(error)
            found = {}
        if found != self._shown.get(node.name, {}):
            self._show(node, found)

    def _advertised(self, node: Node, pods: list[Object]) -> Iterator[Advertised]:
        for pod in pods:
            plugin, efa = (find_manager_container(pod, each) for each in (PLUGIN, EFA))
            if plugin and self._is_time(node, pod):
                config = self._config(pod, plugin, node)
                if not (config.get("sharing") or {}).get("mps") or any(map(is_control_daemon, pods)):
                    yield from advertised(config, self._node_gpus(node))
            elif efa and self._is_time(node, pod):
                yield from self._efa(node)
        if self._has_built_in_plugin(node):
            settings = node.instance.bootstrap.kubelet.get("kubelet-device-plugins", {})
            yield from advertised(bottlerocket_plugin_config(settings), self._node_gpus(node))

    def _config(self, pod: Object, plugin: Object, node: Node) -> dict[str, Any]:
        """Return the configuration that a plugin read at its start."""
        uid = pod["metadata"]["uid"]
        if uid not in self._configs:
            self._configs[uid] = plugin_config(pod, plugin, node.client)
        return self._configs[uid]

    def _is_time(self, node: Node, pod: Object) -> bool:
        since = self._since.setdefault((node.name, pod["metadata"]["uid"]), self._clock())
        return self._clock() - since >= _ADVERTISE_SECONDS * self._pace

    def _has_built_in_plugin(self, node: Node) -> bool:
        image = self._instances.image(node.instance.description)
        is_time = self._clock() - node.since >= _ADVERTISE_SECONDS * self._pace
        return image.is_bottlerocket and image.has_driver and node.ready and is_time

    def _node_gpus(self, node: Node) -> Gpus:
        if node.name not in self._gpus:
            self._gpus[node.name] = visible_gpus(node.instance, self._instances.image(node.instance.description))
        return self._gpus[node.name]

    def _efa(self, node: Node) -> Iterator[Advertised]:
        if node.name not in self._efas:
            self._efas[node.name] = self._instances.efa_interfaces(node.instance)
        if self._efas[node.name]:
            yield Advertised(name=_EFA, count=self._efas[node.name])

    def _slice(self, node: Node, pods: list[Object]) -> None:
        """Publish devices with the rights of the node's DRA driver."""
        drivers = [each for each in pods if find_manager_container(each, DRA)]
        due = [each for each in drivers if self._is_time(node, each)]
        if due and node.name not in self._sliced:
            found, driver_pod = self._client.get(f"/api/v1/nodes/{node.name}"), due[0]
            account = f"{driver_pod['metadata']['namespace']}:{driver_pod['spec']['serviceAccountName']}"
            driver = self._client.impersonating(f"system:serviceaccount:{account}", node=node.name)
            driver.create(_render_resource_slice(found, self._node_gpus(node)))
            self._sliced.add(node.name)

    def _show(self, node: Node, found: dict[str, Advertised]) -> None:
        """Write the devices as the kubelet does: a removed resource becomes 0."""
        gone = {name: "0" for name in self._shown.get(node.name, {}).keys() - found.keys()}
        amounts = gone | {name: str(each.count) for name, each in found.items()}
        try:
            node.client.apply_status(f"/api/v1/nodes/{node.name}", {"capacity": amounts, "allocatable": amounts})
        except ApiError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
        self._shown[node.name] = found


def _too_many(name: str, number: int) -> str:
    why = f"maximum request size for shared resources is 1; found {number}, which is unexpected"
    return f"Allocate failed due to rpc error: request for {name!r}: invalid request: {why}"
