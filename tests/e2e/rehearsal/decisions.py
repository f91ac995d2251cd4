"""The decisions of Karpenter and the scheduler on pods, many at once, while no instance becomes a node."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import NODE_POOL
from gpu_rehearsal.cluster.client import CONFLICT, THREADS, ApiError, Object
from gpu_rehearsal.processes import LOOPBACK
from gpu_rehearsal.scenarios.pools import wait_until_found, wait_until_none
from gpu_rehearsal.stage import Stage

# How long a batch may take. Karpenter waits for 10 seconds at most until it looks at pods that keep coming.
BATCH_SECONDS = 240.0
# A pod is touched that often until its decision: Karpenter counts it again when it changes, or after 30 seconds.
POLL_SECONDS = 3.0
# How long NodePools may take until nodes can come of them.
READY_SECONDS = 300.0
_NAMESPACE = "agree"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
# In Karpenter 1.14: unbound pods with a place that it found; a pod without one is removed from them.
# Source: sigs.k8s.io/karpenter v1.14.1 pkg/controllers/metrics/pod/controller.go
_PLACED = re.compile(r'^karpenter_pods_provisioning_unbound_time_seconds\{name="([^"]+)",namespace="([^"]+)"\}', re.M)
_METRICS = "Serving metrics server"
Given = TypeVar("Given")
Answered = TypeVar("Answered")


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """The decision about a pod.

    Attributes:
        runs: Whether a node is there for it or is started; ``None`` if there was no decision in time.
        message: Why not, in the words of the component that decided.
    """

    runs: bool | None
    message: str = ""


class Decisions:
    """Karpenter and the scheduler of a stage, asked what they do with pods.

    Args:
        stage: The stage, with a Karpenter that runs.
        slots: How many pods are created at once; each in a separate namespace.
    """

    def __init__(self, stage: Stage, *, slots: int) -> None:
        self._client, self._stage, self.slots = stage.client, stage, slots
        self._threads = ThreadPoolExecutor(THREADS)
        self._asked = 0

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Wait until every NodePool gives nodes, then keep instances from becoming some.

        Raises:
            TimeoutError: A NodePool gives no node to a pod that asks for nothing, or its static nodes do not come.
        """
        self._together(self._make_namespace, range(self.slots))
        if wait_until_found(self._has_static_nodes, READY_SECONDS) is None:
            raise TimeoutError("the nodes of static NodePools do not come")
        self._stage.nodes.held = True
        try:
            if wait_until_found(self._gives_nodes, READY_SECONDS) is None:
                raise TimeoutError("Karpenter starts no node for a pod that asks for nothing")
            yield
        finally:
            self._end_nodes()
            self._stage.nodes.held = False

    def _has_static_nodes(self) -> bool | None:
        """Whether the nodes are there that come without a pod, with all that they are to have."""
        pools = self._client.list("/apis/karpenter.sh/v1/nodepools")
        wanted = sum(each["spec"].get("replicas") or 0 for each in pools)
        nodes = self._client.list("/api/v1/nodes", labelSelector=f"{NODE_POOL},karpenter.sh/initialized=true")
        return len(nodes) >= wanted or None

    def _gives_nodes(self) -> bool | None:
        """Whether Karpenter knows every NodePool: it takes them in one by one after it started.

        Source: sigs.k8s.io/karpenter v1.14.1 pkg/controllers/nodeoverlay/controller.go, "awaiting evaluation"
        """
        self._asked += 1
        pools = self._client.list("/apis/karpenter.sh/v1/nodepools")
        pods = [_undemanding(_name(each), self.namespace(slot), self._asked) for slot, each in enumerate(pools)]
        return all(each.runs for each in self.of(pods)) or None

    def namespace(self, slot: int) -> str:
        """Return the namespace of a pod, by its place in a batch."""
        return f"{_NAMESPACE}-{slot}"

    def of(self, pods: Sequence[Object]) -> list[Decision]:
        """Return what becomes of each of some pods, and delete them."""
        refused = dict(zip(map(_key, pods), self._together(self._refusal, pods), strict=True))
        found = {key: Decision(runs=False, message=said) for key, said in refused.items() if said}
        waited = {_key(each) for each in pods} - found.keys()
        found |= self._decided(waited)
        self._clear({each["metadata"]["namespace"] for each in pods})
        return [found.get(_key(each), Decision(runs=None)) for each in pods]

    def _decided(self, waited: set[str]) -> dict[str, Decision]:
        found: dict[str, Decision] = {}
        ends = time.monotonic() + BATCH_SECONDS
        while time.monotonic() < ends:
            time.sleep(POLL_SECONDS)
            found.update(self._said(waited))
            missing = waited - found.keys()
            if not missing:
                break
            self._together(self._touch, missing)
        return found

    def _said(self, waited: set[str]) -> Iterator[tuple[str, Decision]]:
        """Yield the decisions until now; a place counts more than any earlier message."""
        for each in self._client.list("/api/v1/events", fieldSelector="reason=FailedScheduling"):
            key = f"{each['involvedObject'].get('namespace')}/{each['involvedObject']['name']}"
            if key in waited and _speaker(each) == "karpenter":
                yield key, Decision(runs=False, message=str(each["message"]))
        for name, namespace in _PLACED.findall(self._metrics()):
            if f"{namespace}/{name}" in waited:
                yield f"{namespace}/{name}", Decision(runs=True)
        for each in self._client.list("/api/v1/pods"):
            if _key(each) in waited and each["spec"].get("nodeName"):
                yield _key(each), Decision(runs=True)

    def _refusal(self, pod: Object) -> str:
        try:
            self._client.create(pod)
        except ApiError as refused:
            if refused.status == CONFLICT:
                raise
            return f"the API server rejects it: {refused.message}"
        return ""

    def _touch(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        changes = {"metadata": {"annotations": {"rehearsal.gpu-constructs.io/touched": str(time.monotonic())}}}
        self._client.patch(f"/api/v1/namespaces/{namespace}/pods/{name}", changes)

    def _clear(self, namespaces: Iterable[str]) -> None:
        listed = list(namespaces)
        self._together(lambda each: self._client.delete(f"/api/v1/namespaces/{each}/pods"), listed)
        self._together(lambda each: self._client.delete(f"/api/v1/namespaces/{each}/events"), listed)

    def alone(self, pod: Object) -> Decision:
        """Return what becomes of a pod while no node is on its way for another.

        Such a node has labels that its pod asked for: Karpenter makes up a value for one that is to exist, or to have
        another value than some. A pod may go there that no node of its NodePool alone would take.
        Source: sigs.k8s.io/karpenter v1.14.1 pkg/controllers/provisioning/scheduling/nodeclaimtemplate.go
        (resolveCustomLabelsFromRequirements)

        Raises:
            TimeoutError: The nodes on their way do not end.
        """
        self._end_nodes()
        if not wait_until_none(self._on_their_way, READY_SECONDS):
            raise TimeoutError("nodes on their way do not end")
        return self.of([pod])[0]

    def _end_nodes(self) -> None:
        """Delete the nodes that are on their way.

        Not between batches: a node on its way takes any pod that a new one of its kind would, and another is started
        for those that it does not take. A pod with a different result is then tried once more, alone.
        """
        self._together(self._client.delete, [f"{_CLAIMS}/{each}" for each in self._on_their_way()])

    def _on_their_way(self) -> list[str]:
        claims = self._client.list(_CLAIMS)
        return [_name(each) for each in claims if each["metadata"]["labels"].get(NODE_POOL) not in self.static]

    @cached_property
    def static(self) -> set[str]:
        """NodePools whose nodes are there without a pod, so that pods of one batch take each other's place."""
        pools = self._client.list("/apis/karpenter.sh/v1/nodepools")
        return {_name(each) for each in pools if each["spec"].get("replicas") is not None}

    def _make_namespace(self, slot: int) -> None:
        name = self.namespace(slot)
        path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        if self._client.find(f"/api/v1/namespaces/{name}") is None:
            self._client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if wait_until_found(partial(self._client.find, path), BATCH_SECONDS) is None:
            raise TimeoutError(f"namespace {name} has no service account")

    def _metrics(self) -> str:
        """Return what every replica of Karpenter counts; all but the one that leads count no pods."""
        return "\n".join(map(_read, self._addresses))

    @cached_property
    def _addresses(self) -> list[str]:
        """Where it counts, as its own log tells.

        Raises:
            LookupError: No Karpenter is on stage.
        """
        logs = sorted((self._stage.folder / KUBE_SYSTEM).glob("karpenter-*/controller/controller.log"))
        lines = (line for log in logs for line in log.read_text(errors="replace").splitlines() if _METRICS in line)
        ports = [json.loads(line)["bindAddress"].rpartition(":")[2] for line in lines]
        if not ports:
            raise LookupError("no Karpenter is on stage that tells where it counts")
        return [f"http://{LOOPBACK}:{port}/metrics" for port in ports]

    def _together(self, do: Callable[[Given], Answered], each_of: Iterable[Given]) -> list[Answered]:
        return list(self._threads.map(do, each_of))


def _undemanding(pool: str, namespace: str, number: int) -> Object:
    """Return a pod that every node takes, held to one NodePool."""
    spec = {
        "containers": [{"name": "main", "image": "rehearsal"}],
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {NODE_POOL: pool},
    }
    metadata = {"name": f"undemanding-{number}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _read(address: str) -> str:
    """Return what an address answers; nothing where it is too busy to answer now."""
    try:
        with urllib.request.urlopen(address, timeout=POLL_SECONDS * 10) as answer:
            return str(answer.read().decode())
    except TimeoutError:
        return ""


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _name(found: Object) -> str:
    return str(found["metadata"]["name"])


def _speaker(event: Object) -> str:
    return str(event.get("reportingComponent") or event.get("source", {}).get("component", ""))
