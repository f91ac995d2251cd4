"""Nodes that come and go with the instances of EC2, as a kubelet and the controllers of the cloud make them."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpu_rehearsal.cluster.bootstrap import NeverJoins, Unreachable
from gpu_rehearsal.cluster.client import CONFLICT, NOT_FOUND, Client, Object, Refused
from gpu_rehearsal.cluster.instances import (
    UNINITIALIZED,
    Instance,
    Instances,
    Node,
    cloud_labels,
    lease,
    node_name,
    ready,
    registered,
    renewed,
)
from gpu_rehearsal.cluster.pod_status import is_ready, owner
from gpu_rehearsal.cluster.process import Loop, Looped
from gpu_rehearsal.credentials import Cloud

# From running to registered, from there to ready, and from terminated to removed: what is usual, not what is promised.
BOOT_SECONDS, READY_SECONDS, REMOVE_SECONDS = 30.0, 10.0, 5.0
# Source: https://kubernetes.io/docs/reference/node/node-status/#heartbeats
LEASE_SECONDS = 10.0
# For how long an instance tries to reach what it needs: routes may come while it boots.
CONNECT_SECONDS = 60.0
# After how long a node that isn't ready counts as unhealthy; EKS doesn't document its own limit.
UNHEALTHY_SECONDS = 900.0


class Nodes(Looped):
    """The nodes of one cluster.

    Attributes:
        joined: Nodes that registered and whose instances run, by name.
        never: Why an instance became no node, by its id.
        kubelets: Why the API server doesn't reach the kubelet of a node, by the id of its instance; empty if it does.
        held: Whether instances that start from now on stay in their boot.

    Args:
        cloud: AWS.
        pace: How long delays are, against those of AWS.
        network: DaemonSet in kube-system whose pod must run on a node before it is ready; empty for none.
        clock: Seconds from some point.
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
        self._elsewhere: set[str] = set()
        self._leaving: dict[str, float] = {}
        self.loop = Loop("nodes", self.step, seconds=0.5)

    @property
    def instances(self) -> Instances:
        """EC2, as these nodes see it."""
        return self._instances

    def outcome(self, instance: str) -> str | None:
        """Return why an instance never becomes a healthy node; empty if it is one, ``None`` while it boots."""
        node = next((each for each in list(self.joined.values()) if each.instance.id == instance), None)
        if node is None:
            return self.never.get(instance)
        daemon_set = f"/apis/apps/v1/namespaces/kube-system/daemonsets/{self._network}"
        # Without one, whoever brings the network may come later.
        if node.ready or not self._network or self._client.find(daemon_set) is None:
            return ""
        if self._clock() - node.since < UNHEALTHY_SECONDS * self._pace:
            return None
        said = [each["message"] for pod in self._network_pods(node) for each in _waiting(pod) if "message" in each]
        return "; ".join([f"node {node.name} isn't ready: no ready pod of {self._network}", *said])

    def step(self) -> None:
        """Bring the nodes to what EC2 says now."""
        running, at = self._instances.running(), self._clock()
        self._leave(set(running), at)
        known = {each.instance.id for each in self.joined.values()} | self.never.keys() | self._elsewhere
        for id, said in running.items():
            if not self.held and id not in known and at - self._seen.setdefault(id, at) >= BOOT_SECONDS * self._pace:
                self._boot(id, said)
        for node in list(self.joined.values()):
            self._keep(node, at)

    def _boot(self, id: str, said: Object) -> None:
        try:
            instance = self._instances.joining_instance(said)
            if instance is None:
                self._elsewhere.add(id)
            else:
                self._join(instance)
        except Unreachable as error:
            if self._clock() - self._seen[id] >= (BOOT_SECONDS + CONNECT_SECONDS) * self._pace:
                self.never[id] = str(error)
        except NeverJoins as error:
            self.never[id] = str(error)

    def _join(self, instance: Instance) -> None:
        """Register a node as its kubelet, which the server lets do no more than that; then initialize it."""
        name = node_name(instance)
        if self._leaving.pop(name, None) is not None:
            # An instance with the address of one that ended.
            self._client.delete(f"/api/v1/nodes/{name}")
        kubelet = self._client.impersonating(f"system:node:{name}", ["system:nodes"])
        try:
            kubelet.create(registered(instance, version=self._instances.version))
        except Refused as refused:
            if refused.status != CONFLICT:
                raise NeverJoins(f"the API server refuses its node: {refused}") from refused
        self._initialize(name, instance)
        self.kubelets[instance.id] = self._cloud.unreachable_kubelet(instance.source, self._cluster)
        self.joined[name] = Node(name, instance, kubelet, self._clock())

    def _initialize(self, name: str, instance: Instance) -> None:
        """Add what the cloud controller knows, and take away the taint that waits for it."""
        path = f"/api/v1/nodes/{name}"
        found = self._client.get(path)
        taints = [each for each in found["spec"].get("taints", ()) if each["key"] != UNINITIALIZED["key"]]
        labels = cloud_labels(instance, region=self._region, zone_id=self._instances.zone_ids[instance.zone])
        # With the version that was read: other controllers add and remove taints at the same time.
        metadata = {"labels": labels, "resourceVersion": found["metadata"]["resourceVersion"]}
        self._client.patch(path, {"metadata": metadata, "spec": {"taints": taints}})

    def _keep(self, node: Node, at: float) -> None:
        """Say that its kubelet lives, and that it is ready when it is."""
        try:
            if at - node.renewed >= LEASE_SECONDS:
                self._renew(node)
                node.renewed = at
            if not node.ready and at - node.since >= READY_SECONDS * self._pace and self._has_network(node):
                self._become_ready(node)
        except Refused as refused:
            # Somebody deleted its node: a kubelet does not register again.
            if refused.status != NOT_FOUND:
                raise

    def _renew(self, node: Node) -> None:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
        if not node.renewed:
            # An earlier node may have had the name.
            self._client.delete(path)
            node.client.create(lease(node.name))
        else:
            node.client.patch(path, {"spec": {"renewTime": renewed()}})

    def _become_ready(self, node: Node) -> None:
        path = f"/api/v1/nodes/{node.name}"
        conditions = self._client.get(path)["status"]["conditions"]
        others = [each for each in conditions if each["type"] != "Ready"]
        node.client.patch(f"{path}/status", {"status": {"conditions": [*others, ready()]}})
        node.ready = True

    def _has_network(self, node: Node) -> bool:
        if not self._network:
            return True
        return any(is_ready(each) for each in self._network_pods(node))

    def _network_pods(self, node: Node) -> list[Object]:
        pods = self._client.list("/api/v1/namespaces/kube-system/pods", fieldSelector=f"spec.nodeName={node.name}")
        return [each for each in pods if owner(each, "DaemonSet") == self._network]

    def _leave(self, running: set[str], at: float) -> None:
        """Stop kubelets whose instances ended, and remove their nodes as the cloud's lifecycle controller does.

        Source: https://kubernetes.io/docs/concepts/architecture/cloud-controller/#node-controller
        """
        for name in [name for name, each in self.joined.items() if each.instance.id not in running]:
            self._leaving[self.joined.pop(name).name] = at
        for name in [name for name, left in self._leaving.items() if at - left >= REMOVE_SECONDS * self._pace]:
            self._client.delete(f"/api/v1/nodes/{name}")
            del self._leaving[name]


def _waiting(pod: Object) -> list[Object]:
    """Return why the containers of a pod don't run."""
    states = (each["state"] for each in pod.get("status", {}).get("containerStatuses", ()))
    return [each["waiting"] for each in states if "waiting" in each]
