"""Nodes that come and go with the instances of EC2, as a kubelet and the controllers of the cloud make them."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpu_constructs.rehearsal.players.cluster.boot.bootstrap import NeverJoins
from gpu_constructs.rehearsal.players.cluster.client import CONFLICT, NOT_FOUND, Client, Object, Refused
from gpu_constructs.rehearsal.players.cluster.cloud import Cloud
from gpu_constructs.rehearsal.players.cluster.loop import Loop
from gpu_constructs.rehearsal.players.cluster.node import registration
from gpu_constructs.rehearsal.players.cluster.node.instances import Instance, Instances
from gpu_constructs.rehearsal.players.cluster.node.node import Node
from gpu_constructs.rehearsal.players.cluster.pod.status import is_ready, owner

# From running to registered, from there to ready, and from terminated to removed: what is usual, not what is promised.
BOOT_SECONDS, READY_SECONDS, REMOVE_SECONDS = 30.0, 10.0, 5.0
# Source: https://kubernetes.io/docs/reference/node/node-status/#heartbeats
LEASE_SECONDS = 10.0


class Nodes:
    """The nodes of one cluster.

    Attributes:
        joined: Nodes that registered and whose instances run, by name.
        never: Why an instance became no node, by its id.
        held: Whether instances that start from now on stay in their boot.

    Args:
        cloud: AWS.
        client: An administrator of the cluster.
        cluster: Its name.
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
        self._pace, self._network, self._clock, self._region = pace, network, clock, cloud.region
        self.joined: dict[str, Node] = {}
        self.never: dict[str, str] = {}
        self.held = False
        self._seen: dict[str, float] = {}
        self._elsewhere: set[str] = set()
        self._leaving: dict[str, float] = {}
        self.loop = Loop("nodes", self.step, seconds=0.5)

    def __enter__(self) -> Nodes:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.stop()

    @property
    def instances(self) -> Instances:
        """EC2, as these nodes see it."""
        return self._instances

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
            instance = self._instances.of_cluster(said)
            if instance is None:
                self._elsewhere.add(id)
            else:
                self._join(instance)
        except NeverJoins as error:
            self.never[id] = str(error)

    def _join(self, instance: Instance) -> None:
        """Register a node as its kubelet, which the server lets do no more than that; then initialize it."""
        name = registration.name_of(instance)
        kubelet = self._client.impersonating(f"system:node:{name}", ["system:nodes"])
        try:
            kubelet.create(registration.registered(instance, version=self._instances.version))
        except Refused as refused:
            if refused.status != CONFLICT:
                raise NeverJoins(f"the API server refuses its node: {refused}") from refused
        self._initialize(name, instance)
        self.joined[name] = Node(name, instance, kubelet, self._clock())

    def _initialize(self, name: str, instance: Instance) -> None:
        """Add what the cloud controller knows, and take away the taint that waits for it."""
        path = f"/api/v1/nodes/{name}"
        found = self._client.get(path)
        taints = [each for each in found["spec"].get("taints", ()) if each["key"] != registration.UNINITIALIZED["key"]]
        labels = registration.cloud_labels(
            instance, region=self._region, zone_id=self._instances.zone_ids[instance.zone]
        )
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
        if node.renewed:
            node.client.patch(path, {"spec": {"renewTime": registration.renewed()}})
        else:
            node.client.create(registration.lease(node.name))

    def _become_ready(self, node: Node) -> None:
        path = f"/api/v1/nodes/{node.name}"
        conditions = self._client.get(path)["status"]["conditions"]
        others = [each for each in conditions if each["type"] != "Ready"]
        node.client.patch(f"{path}/status", {"status": {"conditions": [*others, registration.ready()]}})
        node.ready = True

    def _has_network(self, node: Node) -> bool:
        if not self._network:
            return True
        pods = self._client.list("/api/v1/namespaces/kube-system/pods", fieldSelector=f"spec.nodeName={node.name}")
        return any(owner(each, "DaemonSet") == self._network and is_ready(each) for each in pods)

    def _leave(self, running: set[str], at: float) -> None:
        """Stop kubelets whose instances ended, and remove their nodes as the cloud's lifecycle controller does.

        Source: https://kubernetes.io/docs/concepts/architecture/cloud-controller/#node-controller
        """
        for name in [name for name, each in self.joined.items() if each.instance.id not in running]:
            self._leaving[self.joined.pop(name).name] = at
        for name in [name for name, left in self._leaving.items() if at - left >= REMOVE_SECONDS * self._pace]:
            self._client.delete(f"/api/v1/nodes/{name}")
            del self._leaving[name]
