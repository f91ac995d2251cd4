"""A control plane with nodes on which one cause after another comes true."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.cluster.instances import now
from gpu_rehearsal.cluster.pod_status import is_ready, pod_path
from gpu_rehearsal.processes import wait_until
from tests.e2e.doctor.dumps import RESOURCES, SHARED_NAMESPACES, observed_texts, read_dump, without_earlier_causes
from tests.e2e.doctor.fleet import Fleet, background

if TYPE_CHECKING:
    from tests.e2e.doctor.cause import Cause

# Names of namespaces, taken in turns, so that the namespace of an earlier cause has time to end.
_TEAMS = ("vision", "speech", "ranking", "search", "genomics", "robotics", "climate", "fraud")
_NAMESPACED = (
    "/apis/apps/v1/{}/deployments",
    "/apis/apps/v1/{}/statefulsets",
    "/apis/apps/v1/{}/daemonsets",
    "/apis/apps/v1/{}/replicasets",
    "/apis/batch/v1/{}/jobs",
    "/apis/policy/v1/{}/poddisruptionbudgets",
    "/api/v1/{}/pods",
    "/api/v1/{}/events",
)
_CLUSTER_WIDE = (
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/resource.k8s.io/v1/resourceslices",
    "/apis/resource.k8s.io/v1/deviceclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/persistentvolumes",
    "/apis/scheduling.k8s.io/v1/priorityclasses/best-effort",
)
_OBSERVED = (
    ("/api/v1", "events"),
    ("/api/v1", "pods"),
    ("/apis/apps/v1", "deployments"),
    ("/apis/apps/v1", "replicasets"),
    ("/apis/batch/v1", "jobs"),
    ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
)
_CLUSTER_KINDS = (
    "DeviceClass",
    "PersistentVolume",
    "PriorityClass",
    "ResourceSlice",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
)


class World:
    """A control plane in which one cause at a time is planted.

    Attributes:
        client: Client of the API server.
        namespace: Namespace of the current cause.
    """

    def __init__(self, client: Client, fleet: Fleet) -> None:
        self.client, self._fleet = client, fleet
        self.namespace, self._number, self._began = "", 0, ""
        self._create_namespace("serving", {})

    def plant(self, cause: Cause) -> dict[str, list[Object]]:
        """Make a cause come true, and return a dump of that moment."""
        self.namespace, self._began = _TEAMS[self._number % len(_TEAMS)], now()
        self._number += 1
        try:
            self._create_namespace(self.namespace, cause.labels)
            self._fleet.join(cause.nodes)
            for each in background(cause.plugin, serving=cause.serving):
                self.create(each)
            for each in cause.before:
                self.create(each)
            self._wait_until_settled(cause)
            if cause.change:
                cause.change(self)
            for each in cause.objects:
                self.create(each)
            for pattern in cause.until:
                self._wait_for(pattern)
            time.sleep(1.0 + cause.age_seconds)
            if cause.after:
                cause.after(self)
            dump = read_dump(self.client, RESOURCES, since=self._began)
            return without_earlier_causes(dump, self.namespace)
        finally:
            self._reset()

    def _create_namespace(self, name: str, labels: object) -> None:
        path = f"/api/v1/namespaces/{name}"
        wait_until(lambda: self.client.find(path) is None, f"namespace {name} to end")
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        # Pods are rejected before it exists.
        wait_until(lambda: self.client.find(f"{path}/serviceaccounts/default") is not None, "a service account")

    def create(self, manifest: Object) -> None:
        """Create an object, in the namespace of the cause if it names none."""
        metadata = dict(manifest["metadata"])
        if manifest["kind"] not in _CLUSTER_KINDS:
            metadata.setdefault("namespace", self.namespace)
        self.client.create(manifest | {"metadata": metadata})

    def _wait_until_settled(self, cause: Cause) -> None:
        """Wait until every pod runs that can, and the server knows policies and quotas."""
        wait_until(lambda: self._all_run(cause.plugin_runs), f"the pods of {cause.name} to run")
        if any(
            each["kind"]
            in ("ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "ResourceQuota", "LimitRange")
            for each in cause.before
        ):
            # The server reads them from caches.
            time.sleep(2.0)

    def _all_run(self, plugin_runs: bool) -> bool:
        pods = self.client.list("/api/v1/pods")
        sets = self.client.list("/apis/apps/v1/daemonsets")
        deployments = self.client.list("/apis/apps/v1/deployments")
        ready = all(is_ready(each) for each in pods if plugin_runs or "plugin" not in each["metadata"]["name"])
        counted = all(each.get("status", {}).get("observedGeneration") for each in [*sets, *deployments])
        expected = (
            all(
                each["status"].get("desiredNumberScheduled", 0) == each["status"].get("currentNumberScheduled", 0)
                for each in sets
            )
            if counted
            else False
        )
        replicas = counted and all(
            each["status"].get("readyReplicas", 0) == each["spec"]["replicas"] for each in deployments
        )
        return ready and counted and expected and replicas

    def _wait_for(self, pattern: str) -> None:
        """Wait until a condition or an event matches.

        Raises:
            TimeoutError: None does, with those that exist.
        """
        try:
            wait_until(lambda: any(re.search(pattern, each) for each in self._texts()), pattern)
        except TimeoutError as error:
            raise TimeoutError("\n".join((str(error), *self._texts()))) from error

    def _texts(self) -> Iterator[str]:
        """Yield conditions and events of the namespace."""
        for root, plural in _OBSERVED:
            yield from observed_texts(self.client.list(f"{root}/namespaces/{self.namespace}/{plural}"))

    def _reset(self) -> None:
        """Delete everything that the cause created."""
        for namespace in (*SHARED_NAMESPACES, self.namespace):
            for path in _NAMESPACED:
                self.client.delete(path.format(f"namespaces/{namespace}"))
        for pod in self.client.list(f"/api/v1/namespaces/{self.namespace}/pods"):
            if pod["metadata"].get("finalizers"):
                self.client.patch(pod_path(pod), {"metadata": {"finalizers": None}})
        self._fleet.leave()
        for path in _CLUSTER_WIDE:
            self.client.delete(path)
        for path in (
            "/api/v1/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
            "/apis/resource.k8s.io/v1/resourceclaims",
        ):
            for each in self.client.list(path):
                self._forget(path, each)
        self.client.delete(f"/api/v1/namespaces/{self.namespace}")
        wait_until(lambda: self._delete_pods(), "no pod")

    def _forget(self, path: str, manifest: Object) -> None:
        """Delete an object whose finalizers no controller removes."""
        version, _, plural = path.rpartition("/")
        namespace = manifest["metadata"].get("namespace")
        place = f"{version}/namespaces/{namespace}/{plural}" if namespace else path
        own = f"{place}/{manifest['metadata']['name']}"
        # A controller may have deleted it meanwhile.
        with suppress(ApiError):
            self.client.patch(own, {"metadata": {"finalizers": None}})
        self.client.delete(own)

    def _delete_pods(self) -> bool:
        """Delete pods that a controller created meanwhile, and return whether there are none."""
        pods = self.client.list("/api/v1/pods")
        for each in pods:
            self.client.delete(pod_path(each))
        return not pods

    def nodes_of_group(self, group: str) -> list[str]:
        """Return the names of the nodes of a group."""
        found = self.client.list("/api/v1/nodes", labelSelector=f"eks.amazonaws.com/nodegroup={group}")
        return [str(each["metadata"]["name"]) for each in found]

    def node_of_group(self, group: str) -> str:
        """Return the name of the first node of a group."""
        return self.nodes_of_group(group)[0]

    def find_pods(self, prefix: str) -> list[Object]:
        """Return the pods of the namespace whose names begin so, unready ones first."""
        found = self.client.list(f"/api/v1/namespaces/{self.namespace}/pods")
        return sorted((each for each in found if each["metadata"]["name"].startswith(prefix)), key=is_ready)

    def report(self, prefix: str, phase: str, container: Object | None, *, reason: str = "", message: str = "") -> None:
        """Set the status of a pod as its kubelet does.

        Args:
            prefix: Beginning of the pod's name.
            phase: Its phase.
            container: Fields of the status of its container; ``None`` if it has none.
            reason: Reason of the phase.
            message: Message of the phase.
        """
        pod = self.find_pods(prefix)[0]
        self._fleet.nodes.pop(pod["spec"]["nodeName"])
        # The simulated kubelet may be in the middle of a step.
        time.sleep(1.0)
        pod = self.client.get(pod_path(pod))
        status: Object = {"phase": phase} | ({"reason": reason, "message": message} if reason else {})
        conditions = [each for each in pod["status"].get("conditions", ()) if each["type"] == "PodScheduled"]
        if container is None:
            # A rejected pod has no other status.
            status |= {"containerStatuses": None, "conditions": [], "podIP": None, "podIPs": None}
        else:
            statuses = [
                each | container | {"ready": False, "started": False} for each in pod["status"]["containerStatuses"]
            ]
            for each in statuses:
                running = each["state"].pop("running", None)
                terminated = each["state"]["terminated"]
                started = (running or {}).get("startedAt") or pod["status"]["startTime"]
                terminated |= {"startedAt": started, "finishedAt": now()}
            false = [
                {"type": each, "status": "False", "reason": "PodFailed", "lastTransitionTime": now()}
                for each in ("ContainersReady", "Ready")
            ]
            true = [
                {"type": each, "status": "True", "lastTransitionTime": pod["status"]["startTime"]}
                for each in ("Initialized",)
            ]
            status |= {"containerStatuses": statuses, "conditions": [*true, *false, *conditions]}
        self.client.apply_status(pod_path(pod), status)
        # Its owner notices.
        time.sleep(1.0)

    def set_ready(self, group: str, status: str, reason: str, message: str) -> None:
        """Set the condition Ready of the first node of a group, and wait until the lifecycle controller taints it."""
        path = f"/api/v1/nodes/{self.node_of_group(group)}"
        conditions = self.client.get(path)["status"]["conditions"]
        fields = {"status": status, "reason": reason, "message": message, "lastTransitionTime": now()}
        changed = [each | fields if each["type"] == "Ready" else each for each in conditions]
        self.client.patch(f"{path}/status", {"status": {"conditions": changed}})
        self._wait_for_taint(path, "node.kubernetes.io/not-ready", 60)

    def stop_kubelet(self, group: str) -> None:
        """Stop the kubelet of the first node of a group, and wait until it counts as unreachable."""
        name = self.node_of_group(group)
        del self._fleet.nodes[name]
        self._fleet.beating.remove(name)
        self._wait_for_taint(f"/api/v1/nodes/{name}", "node.kubernetes.io/unreachable", 120)

    def _wait_for_taint(self, path: str, key: str, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while key not in {each["key"] for each in self.client.get(path)["spec"].get("taints", ())}:
            if time.monotonic() > ends:
                raise TimeoutError(f"{path} has no taint {key}")
            time.sleep(0.5)

    def wait_until_running(self, prefix: str) -> None:
        """Wait until a pod is ready."""
        wait_until(lambda: any(map(is_ready, self.find_pods(prefix))), f"{prefix} to run")

    def evict_from_hung_kubelet(self, prefix: str) -> None:
        """Evict a pod whose kubelet renews its lease and doesn't end containers."""
        [pod] = self.find_pods(prefix)
        self._fleet.nodes.pop(pod["spec"]["nodeName"])
        self.client.post(f"{pod_path(pod)}/eviction", _eviction(pod))
        self._wait(lambda: "deletionTimestamp" in self.find_pods(prefix)[0]["metadata"])

    def drain(self, group: str, prefix: str) -> None:
        """Cordon the first node of a group and evict a pod, which the server must reject."""
        self.client.patch(f"/api/v1/nodes/{self.node_of_group(group)}", {"spec": {"unschedulable": True}})
        pod = self.find_pods(prefix)[0]
        try:
            self.client.post(f"{pod_path(pod)}/eviction", _eviction(pod))
        except ApiError as error:
            if error.status != 429:
                raise
            time.sleep(1.0)
            return
        raise AssertionError(f"the eviction of {prefix} was allowed")

    def free_gpus(self, holders: str, waiting: str) -> None:
        """Scale a Deployment to zero, and wait until a pod that waited runs."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{holders}"
        self.client.patch(path, {"spec": {"replicas": 0}})
        self.wait_until_running(waiting)

    def _wait(self, is_true: Callable[[], bool]) -> None:
        wait_until(is_true, "an object to change")


def _eviction(pod: Object) -> Object:
    metadata = {each: pod["metadata"][each] for each in ("name", "namespace")}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
