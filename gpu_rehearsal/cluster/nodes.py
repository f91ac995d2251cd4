"""Nodes that join and leave with the instances of EC2, and the kubelets that start, run and end their pods.

This is our own code instead of kwok. kwok simulates what a pod reports. A second process that writes to the same status
would have to add programs, missing mounts and rejections of device plugins.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_rehearsal.cluster import pod_status as status
from gpu_rehearsal.cluster.bootstrap import NeverJoins, Unreachable
from gpu_rehearsal.cluster.client import CONFLICT, FORBIDDEN, NOT_FOUND, ApiError, Client, Loop, Looped, Object
from gpu_rehearsal.cluster.container import Container, Starter, last_error
from gpu_rehearsal.cluster.instances import (
    UNINITIALIZED,
    Instance,
    Instances,
    Node,
    cloud_labels,
    lease_time,
    node_name,
    now,
    ready_condition,
    render_lease,
    render_node,
)
from gpu_rehearsal.cluster.pod_status import ContainerState, is_ready, missing, owner
from gpu_rehearsal.credentials import Cloud

# Usual seconds from running to registered, from registered to ready, and from terminated to removed. No source promises
# them.
_BOOT_SECONDS, READY_SECONDS, _REMOVE_SECONDS = 30.0, 10.0, 5.0
# Source: https://kubernetes.io/docs/reference/node/node-status/#heartbeats
_LEASE_SECONDS = 10.0
# How long an instance tries to reach its cluster. Routes may be created while it boots.
_CONNECT_SECONDS = 60.0
# When a node that isn't ready counts as unhealthy. EKS doesn't document its limit.
UNHEALTHY_SECONDS = 900.0


class Nodes(Looped):
    """The nodes of one cluster.

    Attributes:
        joined: Registered nodes with running instances, by name.
        never: Why an instance never becomes a node, by its id.
        kubelets: Why the API server doesn't reach the kubelet of a node, by the id of its instance; empty if it does.
        held: Whether new instances don't finish booting.

    Args:
        cloud: AWS.
        pace: Factor of the usual delays.
        network: DaemonSet in kube-system with a pod that a node needs to become ready; empty for none.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        cloud: Cloud,
        client: Client,
        *,
        cluster: str,
        pace: float = 1.0,
        network: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._instances = client, Instances(cloud, cluster)
        self._cloud, self._cluster = cloud, cluster
        self._pace, self._network, self._clock, self._region = pace, network, clock, cloud.region
        self.joined: dict[str, Node] = {}
        self.never: dict[str, str] = {}
        self.kubelets: dict[str, str] = {}
        self.held = False
        self._seen: dict[str, float] = {}
        self._of_other_clusters: set[str] = set()
        self._leaving: dict[str, float] = {}
        self.loop = Loop("nodes", self.step, seconds=0.5)

    @property
    def instances(self) -> Instances:
        """The instances of the cluster."""
        return self._instances

    def outcome(self, instance: str) -> str | None:
        """Return why an instance never becomes a healthy node; empty if it is one, ``None`` while it boots."""
        node = next((each for each in list(self.joined.values()) if each.instance.id == instance), None)
        if node is None:
            return self.never.get(instance)
        daemon_set = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{self._network}"
        # Without the DaemonSet, the node isn't checked: the network may be installed later.
        if node.ready or not self._network or self._client.find(daemon_set) is None:
            return ""
        if self._clock() - node.since < UNHEALTHY_SECONDS * self._pace:
            return None
        messages = [each["message"] for pod in self._network_pods(node) for each in _waiting(pod) if "message" in each]
        return "; ".join([f"node {node.name} isn't ready: no ready pod of {self._network}", *messages])

    def step(self) -> None:
        """Update the nodes to the instances that run now."""
        running, at = self._instances.running(), self._clock()
        self._leave(set(running), at)
        known = {each.instance.id for each in self.joined.values()} | self.never.keys() | self._of_other_clusters
        for id, description in running.items():
            if not self.held and id not in known and at - self._seen.setdefault(id, at) >= _BOOT_SECONDS * self._pace:
                self._boot(id, description)
        for node in list(self.joined.values()):
            self._renew_and_check(node, at)

    def _boot(self, id: str, description: Object) -> None:
        try:
            instance = self._instances.joining_instance(description)
            if instance is None:
                self._of_other_clusters.add(id)
            else:
                self._join(instance)
        except Unreachable as error:
            if self._clock() - self._seen[id] >= (_BOOT_SECONDS + _CONNECT_SECONDS) * self._pace:
                self.never[id] = str(error)
        except NeverJoins as error:
            self.never[id] = str(error)

    def _join(self, instance: Instance) -> None:
        """Register a node with the rights of its kubelet, then initialize it."""
        name = node_name(instance)
        if self._leaving.pop(name, None) is not None:
            # The new instance has the address of an ended one.
            self._client.delete(f"/api/v1/nodes/{name}")
        kubelet = self._client.impersonating(f"system:node:{name}", ["system:nodes"])
        try:
            kubelet.create(render_node(instance, version=self._instances.version))
        except ApiError as error:
            if error.status != CONFLICT:
                raise NeverJoins(f"the API server rejects its node: {error}") from error
        self._initialize(name, instance)
        self.kubelets[instance.id] = self._cloud.unreachable_kubelet(instance.source, self._cluster)
        self.joined[name] = Node(name, instance, kubelet, self._clock())

    def _initialize(self, name: str, instance: Instance) -> None:
        """Add the labels of the cloud controller, and remove the taint that waits for it."""
        path = f"/api/v1/nodes/{name}"
        found = self._client.get(path)
        taints = [each for each in found["spec"].get("taints", ()) if each["key"] != UNINITIALIZED["key"]]
        labels = cloud_labels(instance, region=self._region, zone_id=self._instances.zone_ids[instance.zone])
        # With the version that was read, because other controllers change taints at the same time.
        metadata = {"labels": labels, "resourceVersion": found["metadata"]["resourceVersion"]}
        self._client.patch(path, {"metadata": metadata, "spec": {"taints": taints}})

    def _renew_and_check(self, node: Node, at: float) -> None:
        """Renew the lease of a node, and set it to ready when it is."""
        try:
            if at - node.renewed >= _LEASE_SECONDS:
                self._renew(node)
                node.renewed = at
            if not node.ready and at - node.since >= READY_SECONDS * self._pace and self._has_network(node):
                self._become_ready(node)
        except ApiError as error:
            # The node was deleted. A kubelet doesn't register again.
            if error.status != NOT_FOUND:
                raise

    def _renew(self, node: Node) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
        if not node.renewed:
            # An earlier node may have had the same name.
            self._client.delete(path)
            node.client.create(render_lease(node.name))
        else:
            node.client.patch(path, {"spec": {"renewTime": lease_time()}})

    def _become_ready(self, node: Node) -> None:
        path = f"/api/v1/nodes/{node.name}"
        conditions = self._client.get(path)["status"]["conditions"]
        others = [each for each in conditions if each["type"] != "Ready"]
        node.client.patch(f"{path}/status", {"status": {"conditions": [*others, ready_condition()]}})
        node.ready = True

    def _has_network(self, node: Node) -> bool:
        if not self._network:
            return True
        return any(is_ready(each) for each in self._network_pods(node))

    def _network_pods(self, node: Node) -> list[Object]:
        pods = self._client.list("/api/v1/namespaces/kube-system/pods", fieldSelector=f"spec.nodeName={node.name}")
        return [each for each in pods if owner(each, "DaemonSet") == self._network]

    def _leave(self, running: set[str], at: float) -> None:
        """Remove nodes whose instances ended, as the node lifecycle controller of the cloud does.

        Source: https://kubernetes.io/docs/concepts/architecture/cloud-controller/#node-controller
        """
        for name in [name for name, each in self.joined.items() if each.instance.id not in running]:
            self._leaving[self.joined.pop(name).name] = at
        for name in [name for name, left in self._leaving.items() if at - left >= _REMOVE_SECONDS * self._pace]:
            self._client.delete(f"/api/v1/nodes/{name}")
            del self._leaving[name]


def _waiting(pod: Object) -> list[Object]:
    """Return why the containers of a pod don't run."""
    states = (each["state"] for each in pod.get("status", {}).get("containerStatuses", ()))
    return [each["waiting"] for each in states if "waiting" in each]


# Usual seconds to pull and start an image, and to run each init container. No source promises them.
START_SECONDS, _INIT_SECONDS = 5.0, 2.0
# How long a pod runs if it ends by itself.
_RUN_SECONDS = 3.0
# How often a program may end by itself before it is a crash loop.
_MAX_ENDS = 1
# The exit code of a program that SIGTERM ended.
_SIGTERM = 143
# How long a pod takes to terminate. Most handle SIGTERM.
STOP_SECONDS = 1.0


@dataclass
class _ManagedPod:
    """A pod that a kubelet manages.

    Attributes:
        pod: The pod, as last read.
        node: Its node.
        address: Its address.
        seen: When it was first seen.
        containers: Containers that run as programs, by name.
        started: When its containers started.
        began: The same time in the format of Kubernetes.
        ending: When its deletion was first seen.
        deleted: Whether the pod was deleted after its end.
        rejection: Why its node rejects it.
        reported: The last reported status.
    """

    pod: Object
    node: Node
    address: str
    seen: float
    containers: dict[str, Container] = field(default_factory=dict)
    started: float | None = None
    began: str = ""
    ending: float | None = None
    deleted: bool = False
    rejection: str = ""
    reported: Object = field(default_factory=dict)


class Kubelet(Looped):
    """The kubelets of all joined nodes.

    Attributes:
        waits: The missing object that a pod waits for, by namespace and name.
        crash_loops: Why a pod keeps crashing, by namespace and name. Set from its second crash until it is ready.

    Args:
        nodes: The nodes, by name; it may change.
        starter: Starts the containers with a program. Without it, all containers are simulated.
        rejection_reason: Returns why a device of a node rejects a pod; empty if it doesn't.
        pace: Factor of the usual delays.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        nodes: Mapping[str, Node],
        *,
        starter: Starter | None = None,
        rejection_reason: Callable[[Object, Node], str] = lambda pod, node: "",
        pace: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._nodes, self._starter = client, nodes, starter
        self._rejection_reason, self._pace, self._clock = rejection_reason, pace, clock
        self.waits: dict[str, str] = {}
        self.crash_loops: dict[str, str] = {}
        self._managed: dict[str, _ManagedPod] = {}
        self._addresses = itertools.count(1)
        self.loop = Loop("kubelet", self.step)

    def __exit__(self, *_: object) -> None:
        try:
            self.loop.stop()
        finally:
            for each in self._managed.values():
                self._stop(each)

    @property
    def logs(self) -> dict[str, Path]:
        """Log files of all programs, ended ones included, by namespace, pod and container."""
        return dict(self._starter.logs) if self._starter else {}

    def step(self) -> None:
        """Update every pod on the nodes."""
        pods = {each["metadata"]["uid"]: each for each in self._client.list("/api/v1/pods")}
        for uid in [uid for uid in self._managed if uid not in pods]:
            self._stop(self._managed.pop(uid))
        for uid, pod in pods.items():
            node = self._nodes.get(pod["spec"].get("nodeName", ""))
            if node is None:
                # Its machine is gone.
                if uid in self._managed:
                    self._stop(self._managed.pop(uid))
            else:
                self._manage(uid, pod, node)

    def _manage(self, uid: str, pod: Object, node: Node) -> None:
        managed = self._managed.get(uid)
        if managed is None:
            managed = self._managed[uid] = _ManagedPod(pod, node, self._address(pod, node), self._clock())
        managed.pod = pod
        try:
            if "deletionTimestamp" in pod["metadata"]:
                self._end(managed)
            elif not status.is_over(pod):
                self._update_pod(managed)
        except ApiError as error:
            # The pod changed or was removed meanwhile, or the server's authorizer hasn't seen its node yet.
            if error.status not in (NOT_FOUND, CONFLICT, FORBIDDEN):
                raise
            self.loop.errors[str(error)] = None

    def _address(self, pod: Object, node: Node) -> str:
        if status.has_host_network(pod):
            return str(node.instance.description["PrivateIpAddress"])
        number = next(self._addresses)
        # From the range that AWS suggests for pods if a VPC has too few addresses.
        return f"100.{64 + number // 65536}.{number // 256 % 256}.{number % 256}"

    def _update_pod(self, managed: _ManagedPod) -> None:
        if managed.started is None:
            self._wait(managed)
        for each in managed.containers.values():
            each.keep()
        self._note_crashes(managed)
        if managed.started is not None and self._is_done(managed):
            self._report(managed, "Succeeded", self._states(managed, lambda _: status.ended(managed.began)))
        elif managed.started is not None:
            self._report(managed, "Running", self._states(managed, lambda _: status.running(managed.began, ready=True)))

    def _wait(self, managed: _ManagedPod) -> None:
        """Start its containers if everything that they need exists. Otherwise, report what is missing."""
        at, name = self._clock(), _name(managed.pod)
        managed.rejection = managed.rejection or self._rejection_reason(managed.pod, managed.node)
        if managed.rejection:
            states = self._states(managed, lambda _: status.waiting("ContainerCreating"))
            self._report(managed, "Failed", states, reason="UnexpectedAdmissionError", message=managed.rejection)
            return
        lacks = self._lacks(managed)
        self.waits.pop(name, None)
        if lacks:
            self.waits[name] = lacks
        first = len(managed.pod["spec"].get("initContainers", ()))
        if lacks or at - managed.seen < (START_SECONDS + _INIT_SECONDS * first) * self._pace:
            self._report(
                managed, "Pending", self._states(managed, lambda _: status.waiting("ContainerCreating", lacks))
            )
            return
        managed.started, managed.began = at, now()
        if self._starter:
            managed.containers = self._starter.start(managed.pod | {"status": self._addressed(managed)}, managed.node)

    def _lacks(self, managed: _ManagedPod) -> str:
        if not managed.node.ready and not status.has_host_network(managed.pod):
            return "network is not ready: container runtime network not ready"
        lacks = missing(managed.pod, managed.node.client)
        return lacks or (self._starter.lacks(managed.pod, managed.node) if self._starter else "")

    def _addressed(self, managed: _ManagedPod) -> Object:
        addresses = {"podIP": managed.address, "hostIP": self._host(managed)}
        return {**managed.pod.get("status", {}), **addresses}

    def _host(self, managed: _ManagedPod) -> str:
        return str(managed.node.instance.description["PrivateIpAddress"])

    def _note_crashes(self, managed: _ManagedPod) -> None:
        for name, each in managed.containers.items():
            if each.state().ready:
                self.crash_loops.pop(_name(managed.pod), None)
            elif each.ends > _MAX_ENDS and _name(managed.pod) not in self.crash_loops:
                why = [
                    last_error(each.log),
                    self._starter.without_role(managed.pod, managed.node) if self._starter else "",
                ]
                text = "; ".join(filter(None, why))
                self.crash_loops[_name(managed.pod)] = f"container {name} crashed {each.ends} times: {text}"

    def last_errors(self, pod: Object) -> list[str]:
        """Return the last error line of each program of a pod, with the name of its container."""
        prefix = f"{_name(pod)}/"
        found = {each.removeprefix(prefix): log for each, log in self.logs.items() if each.startswith(prefix)}
        return [f"container {name}: {error}" for name, log in sorted(found.items()) if (error := last_error(log))]

    def _is_done(self, managed: _ManagedPod) -> bool:
        lasts = status.run_seconds(managed.pod, _RUN_SECONDS)
        return lasts is not None and self._clock() - (managed.started or 0.0) >= lasts

    def _states(self, managed: _ManagedPod, simulated: Callable[[Object], ContainerState]) -> dict[str, ContainerState]:
        """Return the state of each container, real for programs and simulated for others."""
        spec = managed.pod["spec"]
        states = {each["name"]: simulated(each) for each in spec["containers"]}
        for each in spec.get("initContainers", ()):
            stays = each.get("restartPolicy") == "Always"
            through = simulated(each) if stays else status.ended(managed.began, until=managed.began)
            states[each["name"]] = through if managed.started is not None else status.waiting("PodInitializing")
        return states | {name: each.state() for name, each in managed.containers.items()}

    def _report(self, managed: _ManagedPod, phase: str, states: dict[str, ContainerState], **why: str) -> None:
        """Write the status if it changed."""
        report = status.status(managed.pod, phase, states, host=self._host(managed), address=managed.address, **why)
        new = status.without_times(report)
        if new != managed.reported:
            managed.node.client.apply_status(status.pod_path(managed.pod), report)
            managed.reported = new

    def _end(self, managed: _ManagedPod) -> None:
        """Stop its containers, report their end, then delete the pod."""
        managed.ending = self._clock() if managed.ending is None else managed.ending
        grace = managed.pod["metadata"].get("deletionGracePeriodSeconds", 0)
        self._stop(managed, grace)
        if managed.deleted or self._clock() - managed.ending < min(STOP_SECONDS * self._pace, grace):
            return
        if managed.started is not None and not status.is_over(managed.pod):
            self._report(
                managed, "Failed", self._states(managed, lambda _: status.ended(managed.began, exit_code=_SIGTERM))
            )
        managed.node.client.delete(status.pod_path(managed.pod))
        managed.deleted = True

    def _stop(self, managed: _ManagedPod, seconds: float = 0.0) -> None:
        for each in managed.containers.values():
            each.stop(seconds)
        managed.containers.clear()
        self.waits.pop(_name(managed.pod), None)


def _name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
