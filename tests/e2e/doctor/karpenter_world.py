"""A cluster with the real Karpenter on simulated AWS, on which one cause after another comes true."""

from __future__ import annotations

import copy
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gpu_facts.labels import NODE_POOL
from gpu_rehearsal.aws.api import AwsError
from gpu_rehearsal.aws.launches import Capacity
from gpu_rehearsal.cluster.client import Object
from gpu_rehearsal.cluster.instances import now
from gpu_rehearsal.cluster.pod_status import is_ready, pod_path
from gpu_rehearsal.report import Report
from gpu_rehearsal.scenarios.deployment import create
from gpu_rehearsal.stage import Props, Stage, stage
from tests.e2e.doctor.cause import trainer
from tests.e2e.doctor.dumps import KARPENTER, RESOURCES, observed_texts, read_dump, without_earlier_causes
from tests.e2e.doctor.fleet import Fleet, deployment, gpu_node
from tools.plays import ROOT, synthesize_app

# The label that the device plugin of the stack selects.
_PLUGIN_LABEL = {"gpu-constructs.io/device-manager": "device-plugin"}
_DENIAL = "rehearsal-denial"
ACCOUNT = "111122223333"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_POOLS = "/apis/karpenter.sh/v1/nodepools"
_CLASSES = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"
_TEAMS = ("vision", "speech", "ranking", "search", "genomics", "robotics", "climate", "fraud")
_POLL_SECONDS = 0.5
_SECONDS = 90.0
_READY_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class KarpenterCause:
    """One reason why Karpenter starts no usable node for a pod.

    Attributes:
        name: Name of its folder: ids of the facts, then what is planted.
        why: The planted fault in one sentence.
        first: Ids of causes that may be the first answer.
        until: Regular expressions. Each must match a condition or an event before the dump.
        pools: Name and changes of each NodePool, as in ``{"requirements": [...]}``.
        node_class: Changes of the EC2NodeClass that all its NodePools refer to.
        objects: The workload.
        also: Further ids that must be in the answer.
        never: Ids of look-alikes.
        confidence: The highest confidence that is right.
        launch_error: Code and message with which EC2 rejects each launch; empty for none. ``{type}`` and ``{zone}`` are
            replaced.
        first_change: Called before the NodePools are created.
        before: Called before the workload is created.
        ready: Whether its NodePools become ready.
        after: Called when `until` is true, just before the dump.
        no_nodes: Whether instances don't become nodes.
        no_devices: Whether nodes don't show their GPUs.
        pod: Beginning of the pod's name; empty for none.
        age_seconds: Seconds between the workload and the dump.
        patience_seconds: Max seconds until the texts appear.
        sources: Sources of texts that no real program wrote.
    """

    name: str
    why: str
    first: tuple[str, ...]
    until: tuple[str, ...]
    pools: Mapping[str, Object]
    objects: tuple[Object, ...]
    node_class: Object = field(default_factory=dict)
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    confidence: str = "proven"
    launch_error: tuple[str, str] | None = None
    first_change: Callable[[KarpenterWorld], None] | None = None
    before: Callable[[KarpenterWorld], None] | None = None
    ready: bool = True
    after: Callable[[KarpenterWorld], None] | None = None
    no_nodes: bool = False
    no_devices: bool = False
    pod: str = "train"
    owner: str = ""
    age_seconds: float = 0.0
    patience_seconds: float = 90.0
    sources: tuple[str, ...] = ()


class _RefusingCapacity(Capacity):
    """Capacity of EC2 that rejects launches with an error.

    Attributes:
        error: Code and message; ``None`` to allow launches.
    """

    error: tuple[str, str] | None = None

    def check(self, instance_type: str, zone: str, lifecycle: str) -> None:
        """Reject a launch if an error is set."""
        if self.error:
            code, message = self.error
            raise AwsError(code, message.replace("{type}", instance_type).replace("{zone}", zone))


class KarpenterWorld:
    """A cluster in which one cause at a time is planted.

    Attributes:
        client: Client of the API server.
        stage: The stage with Karpenter, moto and kubelets.
        namespace: Namespace of the current cause.
    """

    def __init__(self, made: Stage, fleet: Fleet) -> None:
        self.stage, self.client, self._fleet = made, made.client, fleet
        self.namespace, self._number, self._began = "", 0, ""
        self._capacity = _RefusingCapacity()
        # The simulators of EC2 refer to one object.
        made.aws._launches._capacity = self._capacity
        self._class_spec = self._take_class_of_the_stack()
        self._prepare()

    def _take_class_of_the_stack(self) -> Object:
        """Remove the NodePools of the stack, and return the specification of its EC2NodeClass."""
        [found, *_] = self.client.list(_CLASSES)
        self._remove_pools()
        return dict(found["spec"])

    def _prepare(self) -> None:
        """Add a node of a managed node group with a healthy GPU pod, next to the nodes of the stack."""
        self._fleet.join([gpu_node("g6.xlarge")])
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}})
        self._wait(
            lambda: self.client.find("/api/v1/namespaces/serving/serviceaccounts/default") is not None, "account"
        )
        self.client.create(deployment("llm", trainer(cpu="1", memory="4Gi"), namespace="serving"))
        self._wait(lambda: all(map(is_ready, self.client.list("/api/v1/namespaces/serving/pods"))), "a healthy GPU pod")

    def plant(self, cause: KarpenterCause) -> dict[str, list[Object]]:
        """Make a cause come true, and return a dump of that moment."""
        self.namespace, self._began = _TEAMS[self._number % len(_TEAMS)], now()
        self._number += 1
        try:
            self._create_namespace()
            self._capacity.error = cause.launch_error
            self.stage.nodes.held = cause.no_nodes
            if cause.first_change:
                cause.first_change(self)
            self._create_pools(cause)
            if cause.before:
                cause.before(self)
            for each in cause.objects:
                self.create(each)
            self._wait_for(cause)
            time.sleep(1.0 + cause.age_seconds)
            if cause.after:
                cause.after(self)
            dump = read_dump(self.client, {**RESOURCES, **KARPENTER}, since=self._began)
            return without_earlier_causes(dump, self.namespace)
        finally:
            self._reset()

    def _wait_for(self, cause: KarpenterCause) -> None:
        ends = time.monotonic() + cause.patience_seconds
        missing = list(cause.until)
        while missing:
            if cause.no_devices:
                self.stage.devices.broken.update(each["metadata"]["name"] for each in self.client.list("/api/v1/nodes"))
            texts = list(self._texts())
            missing = [each for each in missing if not any(re.search(each, text) for text in texts)]
            if missing and time.monotonic() > ends:
                raise TimeoutError(f"{cause.name}: no {missing} in\n" + "\n".join(dict.fromkeys(texts)))
            time.sleep(_POLL_SECONDS)

    def _create_namespace(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}"
        self._wait(lambda: self.client.find(path) is None, f"namespace {self.namespace} to end")
        self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self._wait(lambda: self.client.find(f"{path}/serviceaccounts/default") is not None, "a service account")

    def create(self, manifest: Object) -> None:
        """Create an object, in the namespace of the cause if it names none."""
        metadata = dict(manifest["metadata"])
        if manifest["kind"] not in ("PersistentVolume", "StorageClass", "DeviceClass"):
            metadata.setdefault("namespace", self.namespace)
        self.client.create(manifest | {"metadata": metadata})

    def _create_pools(self, cause: KarpenterCause) -> None:
        if not cause.pools:
            return
        spec = copy.deepcopy(self._class_spec) | cause.node_class
        self.client.create(
            {
                "apiVersion": "karpenter.k8s.aws/v1",
                "kind": "EC2NodeClass",
                "metadata": {"name": "gpu"},
                "spec": {key: each for key, each in spec.items() if each is not None},
            }
        )
        for name, changes in cause.pools.items():
            self.client.create(_node_pool(name, changes))
        if cause.ready:
            self._wait(
                lambda: self._are_ready(len(cause.pools)), f"the NodePools of {cause.name} to be ready", _READY_SECONDS
            )

    def _are_ready(self, count: int) -> bool:
        pools = self.client.list(_POOLS)
        return len(pools) == count and all(is_ready(each) for each in pools)

    def _texts(self) -> Iterator[str]:
        """Yield conditions and events of pods, NodePools, NodeClaims and classes."""
        events = self.client.list("/api/v1/events")
        yield from observed_texts(each for each in events if str(each["metadata"]["creationTimestamp"]) >= self._began)
        for path in (f"/api/v1/namespaces/{self.namespace}/pods", _POOLS, _CLAIMS, _CLASSES):
            yield from observed_texts(self.client.list(path))

    def _reset(self) -> None:
        """Delete everything that the cause created, and start Karpenter with an empty cache of missing capacity."""
        self._capacity.error = None
        self._allow()
        for path in (
            "apps/v1/{}/deployments",
            "apps/v1/{}/replicasets",
            "batch/v1/{}/jobs",
            "policy/v1/{}/poddisruptionbudgets",
        ):
            self.client.delete("/apis/" + path.format(f"namespaces/{self.namespace}"))
        self.client.delete(f"/api/v1/namespaces/{self.namespace}/pods")
        self._remove_pools()
        self.stage.nodes.held = False
        self.stage.devices.broken.clear()
        for path in (
            "/api/v1/persistentvolumes",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/resource.k8s.io/v1/deviceclasses",
        ):
            self.client.delete(path)
        for namespace in (self.namespace, "default"):
            self.client.delete(f"/api/v1/namespaces/{namespace}/events")
        self.client.delete(f"/api/v1/namespaces/{self.namespace}")

    def _remove_pools(self) -> None:
        self.client.delete(_POOLS)
        self.client.delete(_CLAIMS)
        self._wait(lambda: not self.client.list(_CLAIMS), "the NodeClaims to end")
        self.client.delete(_CLASSES)
        self._wait(lambda: not self.client.list(_CLASSES) and not self.client.list(_POOLS), "the EC2NodeClass to end")
        self._wait(lambda: not self.client.list("/api/v1/nodes", labelSelector=NODE_POOL), "the nodes to end")

    def _wait(self, is_true: Callable[[], bool], what: str, seconds: float = _SECONDS) -> None:
        ends = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > ends:
                raise TimeoutError(f"waited {seconds:.0f} s for {what}")
            time.sleep(_POLL_SECONDS)

    def wait_until_running(self, prefix: str) -> None:
        """Wait until a pod of the namespace is ready."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"

        def runs() -> bool:
            found = self.client.list(path)
            return any(is_ready(each) for each in found if each["metadata"]["name"].startswith(prefix))

        self._wait(runs, f"{prefix} to run")

    def deny(self, action: str) -> None:
        """Deny Karpenter's role an action until the cause ends."""
        statement = {"Effect": "Deny", "Action": action, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.stage.aws.client("iam").put_role_policy(
            RoleName=self._karpenter_role, PolicyName=_DENIAL, PolicyDocument=document
        )

    def restart_karpenter(self) -> None:
        """Start Karpenter again, which then knows no unavailable capacity."""
        before = {each["metadata"]["uid"] for each in self._karpenter_pods()}
        for each in self._karpenter_pods():
            self.client.delete(pod_path(each))

        def is_new() -> bool:
            pods = self._karpenter_pods()
            return bool(pods) and all(is_ready(each) and each["metadata"]["uid"] not in before for each in pods)

        self._wait(is_new, "a new Karpenter")

    def _karpenter_pods(self) -> list[Object]:
        return self.client.list("/api/v1/namespaces/kube-system/pods", labelSelector="app.kubernetes.io/name=karpenter")

    def _allow(self) -> None:
        iam = self.stage.aws.client("iam")
        with suppress(iam.exceptions.NoSuchEntityException):
            iam.delete_role_policy(RoleName=self._karpenter_role, PolicyName=_DENIAL)

    @cached_property
    def _karpenter_role(self) -> str:
        eks, of_cluster = self.stage.aws.client("eks"), {"clusterName": self.stage.cluster}
        [found] = eks.list_pod_identity_associations(**of_cluster, serviceAccount="karpenter")["associations"]
        described = eks.describe_pod_identity_association(**of_cluster, associationId=found["associationId"])
        return str(described["association"]["roleArn"]).rpartition("/")[2]

    def label_node(self, key: str, value: str) -> None:
        """Set a label on the node of the managed node group, as GPU feature discovery does."""
        [name] = self._fleet.nodes
        self.client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {key: value}}})

    def delete_pods(self, prefix: str) -> None:
        """Delete pods of the namespace at once."""
        for each in self.client.list(f"/api/v1/namespaces/{self.namespace}/pods"):
            if each["metadata"]["name"].startswith(prefix):
                self.client.delete(pod_path(each))


def _node_pool(name: str, changes: Object) -> Object:
    """Return a NodePool of g6.xlarge in two zones, with changes of its template's specification or of its limits."""
    template: Object = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        ],
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
        "expireAfter": "720h",
    }
    own = dict(changes)
    spec: Object = {
        "disruption": own.pop("disruption", {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "10m"})
    }
    spec |= {"limits": own.pop("limits", {"nvidia.com/gpu": "16"})}
    labels = own.pop("labels", _PLUGIN_LABEL)
    spec["template"] = {"metadata": {"labels": labels}, "spec": template | own}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


@contextmanager
def karpenter_world(props: Props) -> Iterator[KarpenterWorld]:
    """Run a cluster with Karpenter in which causes can be planted.

    Args:
        props: Programs and charts of the stage.

    Raises:
        RuntimeError: The stack isn't created.
    """
    with tempfile.TemporaryDirectory() as folder:
        context: dict[str, Any] = {
            "autoscaler": "karpenter",
            "pools": [{"name": "gpu", "instance_types": ["g6.xlarge"]}],
        }
        (stack,) = synthesize_app(ROOT / "app.py", Path(folder), context)
        stack = replace(stack, account=ACCOUNT)
        report = Report(stack.stack)
        with stage(stack, props) as made:
            if not create(made, [stack], report):
                raise RuntimeError(report.text())
            with Fleet(made.client) as fleet:
                yield KarpenterWorld(made, fleet)
