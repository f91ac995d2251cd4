"""Devices of nodes: advertised when what manages them runs on the node, and under the names that it is told.

Played are NVIDIA's device plugin and DRA driver, EFA's plugin, and the plugin built into Bottlerocket. What the GPU
Operator's own pods would start is not: its operator is a program that does not run here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_rehearsal.players.cluster.client import CONFLICT, NOT_FOUND, Client, Object, Refused
from gpu_rehearsal.players.cluster.device_managers import (
    DRA,
    EFA,
    PLUGIN,
    Advertised,
    Gpus,
    advertised,
    config_of,
    container_of,
    gpus_of,
    is_control_daemon,
    of_bottlerocket,
    slice_of,
)
from gpu_rehearsal.players.cluster.instances import Instances, Node
from gpu_rehearsal.players.cluster.pod_status import is_ready
from gpu_rehearsal.players.cluster.process import Loop, Looped

# From a manager that runs to devices that are known; what is usual, not what is promised.
ADVERTISE_SECONDS = 10.0
_EFA = "vpc.amazonaws.com/efa"


class Devices(Looped):
    """The devices of all nodes that joined.

    Attributes:
        broken: Nodes whose devices never come, by name.
        failures: Why a manager advertises nothing, by node.
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

    def refuses(self, pod: Object, node: Node) -> str:
        """Return why a plugin of a node refuses a pod; empty where it does not.

        Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/internal/plugin/server.go
        """
        for container in pod["spec"]["containers"]:
            asked = container.get("resources", {}).get("limits", {})
            for each in self._shown.get(node.name, {}).values():
                number = int(asked.get(each.name, 0))
                if each.one_each and number > 1:
                    return _too_many(each.name, number)
        return ""

    def step(self) -> None:
        """Bring what is advertised to what manages devices now."""
        every, pods = self._client.list("/api/v1/pods"), dict[str, list[Object]]()
        for pod in every:
            pods.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
        for name, node in list(self._nodes.items()):
            if name not in self.broken:
                self._bring(node, [each for each in pods.get(name, ()) if is_ready(each)])

    def _bring(self, node: Node, pods: list[Object]) -> None:
        try:
            found = {each.name: each for each in self._advertised(node, pods)}
            self._slice(node, pods)
            self.failures.pop(node.name, None)
        except LookupError as error:
            # The manager would end with that, or what it does is not known here: nothing is advertised.
            self.failures[node.name] = str(error)
            found = {}
        if found != self._shown.get(node.name, {}):
            self._show(node, found)

    def _advertised(self, node: Node, pods: list[Object]) -> Iterator[Advertised]:
        for pod in pods:
            plugin, efa = (container_of(pod, each) for each in (PLUGIN, EFA))
            if plugin and self._is_time(node, pod):
                config = self._config(pod, plugin, node)
                if not (config.get("sharing") or {}).get("mps") or any(map(is_control_daemon, pods)):
                    yield from advertised(config, self._gpus_of(node))
            elif efa and self._is_time(node, pod):
                yield from self._efa(node)
        if self._has_built_in_plugin(node):
            settings = node.instance.told.kubelet.get("kubelet-device-plugins", {})
            yield from advertised(of_bottlerocket(settings), self._gpus_of(node))

    def _config(self, pod: Object, plugin: Object, node: Node) -> dict[str, Any]:
        """Return what a plugin read when it started."""
        uid = pod["metadata"]["uid"]
        if uid not in self._configs:
            self._configs[uid] = config_of(pod, plugin, node.client)
        return self._configs[uid]

    def _is_time(self, node: Node, pod: Object) -> bool:
        since = self._since.setdefault((node.name, pod["metadata"]["uid"]), self._clock())
        return self._clock() - since >= ADVERTISE_SECONDS * self._pace

    def _has_built_in_plugin(self, node: Node) -> bool:
        image = self._instances.image(node.instance.said)
        is_time = self._clock() - node.since >= ADVERTISE_SECONDS * self._pace
        return image.is_bottlerocket and image.has_driver and node.ready and is_time

    def _gpus_of(self, node: Node) -> Gpus:
        if node.name not in self._gpus:
            self._gpus[node.name] = gpus_of(node.instance, self._instances.image(node.instance.said))
        return self._gpus[node.name]

    def _efa(self, node: Node) -> Iterator[Advertised]:
        if node.name not in self._efas:
            self._efas[node.name] = self._instances.efa_interfaces(node.instance)
        if self._efas[node.name]:
            yield Advertised(name=_EFA, count=self._efas[node.name])

    def _slice(self, node: Node, pods: list[Object]) -> None:
        """Publish devices as the driver of the node does, by its own rights."""
        drivers = [each for each in pods if container_of(each, DRA)]
        due = [each for each in drivers if self._is_time(node, each)]
        if due and node.name not in self._sliced:
            found, of = self._client.get(f"/api/v1/nodes/{node.name}"), due[0]
            account = f"{of['metadata']['namespace']}:{of['spec']['serviceAccountName']}"
            driver = self._client.impersonating(f"system:serviceaccount:{account}", node=node.name)
            driver.create(slice_of(found, self._gpus_of(node)))
            self._sliced.add(node.name)

    def _show(self, node: Node, found: dict[str, Advertised]) -> None:
        """Write the devices as the kubelet does, and none of those that are gone."""
        gone = {name: "0" for name in self._shown.get(node.name, {}).keys() - found.keys()}
        amounts = gone | {name: str(each.count) for name, each in found.items()}
        try:
            node.client.apply_status(f"/api/v1/nodes/{node.name}", {"capacity": amounts, "allocatable": amounts})
        except Refused as refused:
            if refused.status not in (NOT_FOUND, CONFLICT):
                raise
        self._shown[node.name] = found


def _too_many(name: str, number: int) -> str:
    why = f"maximum request size for shared resources is 1; found {number}, which is unexpected"
    return f"Allocate failed due to rpc error: request for {name!r}: invalid request: {why}"
