"""A running cluster as the causes read it: objects by kind and name, conditions, events, nodes and their free devices.

Texts of status and events come from the cluster. Names in them are never interpreted, only compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from gpu_facts.doctor_reads import CONFIG_MAPS, RESOURCES
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import (
    COMPUTE_TYPE,
    EBS_NOT_READY,
    EFS_NOT_READY,
    FSX_NOT_READY,
    KUEUE_QUEUE,
    NODE_POOL,
    S3_NOT_READY,
)
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, resources
from gpu_facts.resources import NVIDIA
from gpu_facts.today import now
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.observed import RunningCluster, has_ended, is_finished
from gpu_preflight.doctor.cause import Confidence, Evidence
from gpu_preflight.doctor.dump import (
    OF_THE_POD,
    POD_COUNTS,
    Dump,
    NotLooked,
    latest_time,
    parse_time,
)
from gpu_preflight.judging.explain import explain
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import Requirement, exactly
from gpu_preflight.model.pod import Pod, read_pod
from gpu_preflight.model.taints import Taint, object_taints, untolerated
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings
from gpu_preflight.scheduling.verdict import Verdict

_RESOURCE_BY_KIND = {kind: resource for resource, kind in RESOURCES.items()}
# Where a device plugin registers.
# Source: kubernetes/kubernetes v1.36.2 pkg/kubelet/apis/deviceplugin/v1beta1/constants.go
DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"
# Taints of a node's conditions.
CONDITION_TAINTS = "node.kubernetes.io/"
# Beginnings of taints that Kubernetes, autoscalers and drivers add to nodes and remove.
# Sources: https://kubernetes.io/docs/reference/labels-annotations-taints/, kubernetes/autoscaler cluster-autoscaler
# utils/taints, https://karpenter.sh/v1.14/concepts/disruption/ (2026-11)
PASSING_TAINTS = (
    *(CONDITION_TAINTS, "node.cloudprovider.kubernetes.io/", "karpenter.sh/", "ToBeDeletedByClusterAutoscaler"),
    *("DeletionCandidateOfClusterAutoscaler", "node.cilium.io/"),
    *(EBS_NOT_READY, EFS_NOT_READY, FSX_NOT_READY, S3_NOT_READY),
)
# Kinds whose pods are a workload of the user. DaemonSets run on each node.
_TEMPLATES = ("ReplicaSet", "Deployment", "StatefulSet", "Job", "DaemonSet", "ReplicationController")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition in the status of an object. ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str
    time: datetime | None
    generation: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """An event about an object.

    Attributes:
        component: The component that reports it, such as ``default-scheduler`` or ``karpenter``.
        time: When it was last reported.
        count: How often it was reported.
        kind: Kind of the object.
        namespace: Namespace of the object; empty for an object without one.
        name: Name of the object.
        uid: UID of the object; empty if the event doesn't name it.
    """

    type: str
    reason: str
    message: str
    component: str
    time: datetime | None
    count: int
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The status of a container.

    Attributes:
        init: Whether it is an init container.
        waiting: Reason why it waits; empty if it doesn't.
        message: The message of the waiting or terminated state.
        ended: Reason why it ended; empty if it runs.
        exit_code: Its exit code; ``None`` if it hasn't ended.
        last_ended: Reason why its last run ended; empty if it is the first.
        last_exit_code: Exit code of its last run; ``None`` if it is the first.
        last_message: Message of its last run.
    """

    name: str
    init: bool
    ready: bool
    restarts: int
    waiting: str
    message: str
    ended: str
    exit_code: int | None
    last_ended: str
    last_exit_code: int | None
    last_message: str


@dataclass(frozen=True, slots=True)
class Target:
    """The pod in question, or an owner without pods.

    Attributes:
        pod: The pod; ``None`` if the owner has none.
        owners: The objects that created it, the nearest first.
        spec: Its spec, or the template of its nearest owner.
        read: The same, parsed.
    """

    pod: Object | None
    owners: tuple[Object, ...]
    spec: Mapping[str, Any]
    read: Pod

    @property
    def named(self) -> Object:
        """The pod, or the nearest owner if there is no pod."""
        return self.pod if self.pod is not None else self.owners[0]

    @property
    def root(self) -> Object:
        """The object that a user wrote: the last owner, or the pod itself."""
        return self.owners[-1] if self.owners else self.named

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.named.namespace

    @property
    def title(self) -> str:
        """Its kind, namespace and name."""
        return self.named.title

    @property
    def node(self) -> str | None:
        """Name of its node; ``None`` before it is bound."""
        return known_text(self.spec.get("nodeName")) if self.pod is not None else None

    @property
    def selected_keys(self) -> list[str]:
        """The labels of nodes that it selects."""
        terms = [each for term in self.read.selection.terms or () for each in term.labels]
        return [each.key for each in (*self.read.selection.selector, *terms)]

    @property
    def devices(self) -> Resources:
        """The GPUs, shares and slices that it requests."""
        return {name: amount for name, amount in self.read.requests.items() if name.startswith(NVIDIA)}


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Why a node doesn't take a pod; every part is empty if it does.

    Attributes:
        node: The node.
        taints: Taints that the pod doesn't tolerate, without the taints of a cordoned node.
        labels: Requirements of the pod that the labels of the node don't meet.
        too_small: Resources of which the node has less than the pod requests: name to (requested, allocatable).
        busy: Resources of which running pods leave too little: name to (requested, free).
        unknown: Resources that the node doesn't have at all.
        is_cordoned: Whether it is unschedulable.
    """

    node: Object
    taints: tuple[Taint, ...]
    labels: tuple[Requirement, ...]
    too_small: Mapping[str, tuple[int, int]]
    busy: Mapping[str, tuple[int, int]]
    unknown: tuple[str, ...]
    is_cordoned: bool

    @property
    def fits(self) -> bool:
        """Whether the node takes the pod now."""
        return not (self.taints or self.labels or self.too_small or self.busy or self.unknown or self.is_cordoned)

    def fits_except(self, *parts: str) -> bool:
        """Whether only the named parts, such as ``taints``, keep the node from taking the pod."""
        own = ("taints", "labels", "too_small", "busy", "unknown", "is_cordoned")
        return not any(getattr(self, each) for each in own if each not in parts)


class Live:
    """A running cluster.

    Args:
        dump: The content of the files.
        at: The time of the dump. Default: the latest time in it.
    """

    def __init__(self, dump: Dump, at: datetime | None = None) -> None:
        self.dump = dump
        self.now = at or dump.at or latest_time(dump) or now()
        self._asked: dict[str, NotLooked] = {}
        self._fits: dict[str, list[NodeFit]] = {}
        self._by_kind: dict[str, list[Object]] = {}
        # Whether a cause asks for the cause of another pod. That one then doesn't ask again.
        self.asks_for_component = False
        for each in dump.objects:
            self._by_kind.setdefault(each.kind, []).append(each)

    # Objects and lists.

    def objects(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of a kind, and note that a cause needs them."""
        self.certainty(kind)
        every = self._by_kind.get(kind, [])
        return every if namespace is None else [each for each in every if each.namespace == namespace]

    def object(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object by name; ``None`` if it isn't in the dump. See `certainty` before "it doesn't exist"."""
        return next((each for each in self.objects(kind, namespace) if each.name == name), None)

    def certainty(self, kind: str, namespace: str | None = None) -> Confidence | None:
        """Return how certain "there is no such object" is for a kind; ``None`` if its list isn't in the dump.

        Args:
            kind: The kind.
            namespace: The namespace in question, empty for all. Default: the one to which the dump is limited, if any.
        """
        limit = self.dump.namespace
        if limit and namespace not in (None, limit) and _RESOURCE_BY_KIND.get(kind) in OF_THE_POD:
            self._asked[kind] = NotLooked(_RESOURCE_BY_KIND[kind], f"the dump is limited to namespace {limit}")
            return None
        if kind in self.dump.complete and kind not in self.dump.cut:
            return "proven"
        if kind in self.dump.listed and kind not in self.dump.cut:
            return "likely"
        if kind not in self._asked:
            resource = _RESOURCE_BY_KIND.get(kind, kind)
            why = next((each.why for each in self.dump.refused if each.what in (resource, resource.split(".")[0])), "")
            has_part = kind in self.dump.cut or kind in self._by_kind
            cut = "only a part of the list is in the dump" if has_part else "isn't in the dump"
            self._asked[kind] = NotLooked(resource, why or cut)
        return None

    def config_map(self, name: str, namespace: str = KUBE_SYSTEM) -> Object | None:
        """Return a ConfigMap; ``None`` if it isn't in the dump. ConfigMaps are never listed."""
        every = self._by_kind.get("ConfigMap", ())
        found = next((each for each in every if (each.namespace, each.name) == (namespace, name)), None)
        is_absent = f"{namespace}/{name}" in self.dump.absent
        if found is None and not is_absent and name in CONFIG_MAPS and not self._by_kind.get("NodePool"):
            self._asked[name] = NotLooked(f"configmap {name} of {namespace}", "isn't in the dump")
        return found

    def aws(self, key: str) -> list[Any]:
        """Return the answers of the AWS CLI under a key, such as ``nodegroup``; lists are joined."""
        found: list[Any] = []
        for _, answer in self.dump.aws.get(key, ()):
            found += answer if isinstance(answer, list) else [answer]
        return found

    @property
    def not_looked(self) -> list[NotLooked]:
        """Lists that a cause needed and the dump doesn't have, and those that weren't readable."""
        every = [*self._asked.values(), *self.dump.refused, *self.dump.unread]
        return sorted({each.what: each for each in reversed(every)}.values(), key=lambda each: each.what)

    # Status.

    def conditions(self, each: Object | Mapping[str, Any]) -> list[Condition]:
        """Return the conditions of an object, or of its status."""
        status = mapping(each.content.get("status")) if isinstance(each, Object) else each
        return [
            Condition(
                str(one.get("type")),
                str(one.get("status")),
                str(one.get("reason") or ""),
                str(one.get("message") or ""),
                parse_time(one.get("lastTransitionTime") or one.get("lastProbeTime")),
                one["observedGeneration"] if isinstance(one.get("observedGeneration"), int) else None,
            )
            for one in mappings(status.get("conditions"))
        ]

    def condition(self, each: Object, type: str) -> Condition | None:
        """Return a condition of an object by its type."""
        return next((one for one in self.conditions(each) if one.type == type), None)

    def is_true(self, each: Object, type: str) -> bool:
        """Whether a condition of an object is True."""
        found = self.condition(each, type)
        return found is not None and found.status == "True"

    @cached_property
    def events(self) -> list[Event]:
        """Every event, the newest first. Events expire after an hour by default, so no event isn't evidence."""
        found = [_event(each) for each in self.objects("Event")]
        return sorted(found, key=lambda each: each.time.timestamp() if each.time else 0.0, reverse=True)

    @cached_property
    def _events_by_object(self) -> dict[tuple[str, str], list[Event]]:
        found: dict[tuple[str, str], list[Event]] = {}
        for each in self.events:
            found.setdefault((each.kind, each.name), []).append(each)
        return found

    def object_events(self, each: Object, *, reason: str | None = None, component: str | None = None) -> list[Event]:
        """Return the events about an object, the newest first. Events of an earlier object of its name don't count.

        Args:
            each: The object.
            reason: Only events with this reason.
            component: Only events of this component.
        """
        uid = str(dig(each.content, "metadata", "uid") or "")
        named = self._events_by_object.get((each.kind, each.name), ())
        return [
            one
            for one in named
            if one.namespace in (each.namespace, "")
            and (not uid or not one.uid or one.uid == uid)
            and (reason is None or one.reason == reason)
            and (component is None or one.component == component)
        ]

    def last_event(self, each: Object, reason: str) -> Event | None:
        """Return the newest event about an object with a reason."""
        return next(iter(self.object_events(each, reason=reason)), None)

    def containers(self, pod: Object) -> list[ContainerState]:
        """Return the status of each container of a pod, init containers first."""
        status = mapping(pod.content.get("status"))
        return [
            _container(each, init=name == "initContainerStatuses")
            for name in ("initContainerStatuses", "containerStatuses")
            for each in mappings(status.get(name))
        ]

    def has_crashed(self, pod: Object) -> bool:
        """Whether a container of a pod ended with an error, now or in its last run."""
        return any(each.exit_code or each.last_exit_code for each in self.containers(pod))

    def is_creating(self, pod: Object) -> bool:
        """Whether a pod has a node, and neither its sandbox nor a container was started there."""
        states = self.containers(pod)
        waits = all(each.waiting in ("ContainerCreating", "PodInitializing") for each in states)
        return (
            self.phase(pod) == "Pending"
            and bool(pod.spec.get("nodeName"))
            and waits
            and not dig(pod.content, "status", "podIP")
        )

    def phase(self, pod: Object) -> str:
        """Return the phase of a pod, such as ``Pending``."""
        return str(dig(pod.content, "status", "phase") or "Pending")

    def logs(self, pod: Object) -> Iterator[tuple[str, str]]:
        """Yield each container of a pod with a log, and the log."""
        for (namespace, name, container), text in self.dump.logs.items():
            if (namespace, name) == (pod.namespace, pod.name):
                yield container, text

    def log_lines(self, pod: Object, *parts: str) -> Iterator[tuple[str, str]]:
        """Yield each log line of a pod that has one of some texts, with its container, the last line first."""
        for container, text in self.logs(pod):
            for line in reversed(text.splitlines()):
                if any(part in line for part in parts):
                    yield container, line.strip()

    # Owners.

    @cached_property
    def running(self) -> RunningCluster:
        """Its nodes and pods, with their owners."""
        return RunningCluster(self.dump.objects)

    def owners(self, each: Object) -> tuple[Object, ...]:
        """Return the objects of the dump that created an object, the nearest first."""
        found: list[Object] = []
        while (above := self.running.owner(each)) is not None and above not in found and len(found) < 8:
            found.append(above)
            each = above
        return tuple(found)

    def owned(self, owner: Object, kind: str) -> list[Object]:
        """Return the objects of a kind that an object created."""
        return [each for each in self.objects(kind, owner.namespace) if self.running.owner(each) is owner]

    # Nodes.

    @property
    def nodes(self) -> list[Object]:
        """Its nodes."""
        return self.objects("Node")

    @cached_property
    def pods_by_node(self) -> dict[str, list[Object]]:
        """The pods that haven't ended, by the name of their node."""
        found: dict[str, list[Object]] = {}
        for each in self.objects("Pod"):
            name = known_text(each.spec.get("nodeName"))
            if name and not has_ended(each):
                found.setdefault(name, []).append(each)
        return found

    @cached_property
    def waiting_daemons(self) -> list[Object]:
        """The pods of DaemonSets that have no node yet. Their affinity names the node."""
        waiting = (each for each in self.objects("Pod") if not known_text(each.spec.get("nodeName")))
        return [each for each in waiting if is_daemon(each)]

    def node(self, target: Target) -> Object | None:
        """Return the node of a pod; ``None`` before it is bound, or if the node isn't in the dump."""
        return None if target.node is None else self.object("Node", target.node)

    def allocatable(self, node: Object) -> Resources:
        """Return the allocatable resources of a node, in base units; its capacity if it reports none."""
        return resources(dig(node.content, "status", "allocatable") or dig(node.content, "status", "capacity"))

    def capacity(self, node: Object) -> Resources:
        """Return the capacity of a node, in base units."""
        return resources(dig(node.content, "status", "capacity"))

    def free(self, node: Object) -> Resources:
        """Return the allocatable resources of a node that its pods don't request, in base units."""
        return self.running.free(node)

    def taints(self, node: Object) -> tuple[Taint, ...]:
        """Return the taints of a node as they are written."""
        return object_taints(node.spec.get("taints"))

    def fits(self, target: Target) -> list[NodeFit]:
        """Return for each node why it doesn't take a pod."""
        key = target.read.likeness
        if key not in self._fits:
            # Several groups of causes need it for the same pod, and pods of one owner are alike.
            self._fits = {key: [self.fit(node, target.read) for node in self.nodes]}
        return self._fits[key]

    def fit(self, node: Object, pod: Pod, *, daemon: bool = False) -> NodeFit:
        """Return why a node doesn't take a pod, which may belong to a DaemonSet."""
        have, free = self.allocatable(node), self.free(node)
        labels = {key: exactly(str(value)) for key, value in node.labels.items()}
        wanted = {name: amount for name, amount in pod.requests.items() if amount}
        small = {name: (amount, have[name]) for name, amount in wanted.items() if name in have and amount > have[name]}
        unmet = [one for one, answer in pod.selection.unmet(labels) if answer is Answer.NO]
        taints = [one for one, _ in untolerated(pod.tolerations, self.taints(node), daemon=daemon)]
        cordoned = node.spec.get("unschedulable") is True
        return NodeFit(
            node,
            tuple(one for one in taints if one.key != "node.kubernetes.io/unschedulable"),
            tuple(unmet),
            small,
            {n: (a, free[n]) for n, a in wanted.items() if n in free and n not in small and a > free[n]},
            tuple(name for name in wanted if name not in have),
            cordoned,
        )

    # Autoscalers.

    @cached_property
    def autoscaler_status(self) -> dict[str, Any]:
        """The status of Cluster Autoscaler, from its ConfigMap; empty if there is none."""
        found = self.config_map("cluster-autoscaler-status")
        text = dig(found.content, "data", "status") if found is not None else None
        try:
            documents = list(parse("cluster-autoscaler-status", str(text or "")))
        except UnusableInput:
            return {}
        return mapping(documents[0].content) if documents else {}

    def may_grow(self, pool: Pool) -> bool:
        """Whether an autoscaler that runs in the dump may launch nodes of a pool."""
        if pool.observed is not None and pool.observed.names:
            return False
        return self.case.cluster.autoscaler(pool.autoscaler) is not None or pool.kind == "auto-mode"

    # The simulation.

    @cached_property
    def input(self) -> Input:
        """The objects, and the node groups that AWS describes, as the input of a check."""
        groups = {
            each.key: each for file, answer in self.dump.aws.get("nodegroup", ()) for each in [_group(file, answer)]
        }
        objects = tuple(each for each in self.dump.objects if each.kind != "Event")
        return Input(groups, objects, (), assumed=frozenset(self._working_autoscalers()))

    def _working_autoscalers(self) -> Iterator[str]:
        """Yield the autoscalers that reach AWS, so that they have a role. The dump doesn't have IAM roles."""
        nodes = self._by_kind.get("Node", ())
        if any(NODE_POOL in each.labels and COMPUTE_TYPE not in each.labels for each in nodes):
            yield "karpenter"
        if self.autoscaler_status.get("nodeGroups"):
            yield "cluster-autoscaler"

    @cached_property
    def case(self) -> Case:
        """The cluster as `check` and `explain` see it."""
        return Case(clusters(self.input)[0])

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The simulated result of each workload that requests GPUs."""
        return explain(self.case).verdicts

    def verdict(self, target: Target) -> Verdict | None:
        """Return the simulated result for a pod, in the pools and running nodes of the dump."""
        owners = {each.title for each in (*target.owners, target.named)}
        found = (each for each in self.verdicts if each.workload.owner.title in owners)
        return next(found, None)

    # Targets.

    def target(self, pod: Object) -> Target:
        """Return a pod as a target."""
        return Target(pod, self.owners(pod), pod.spec, read_pod(pod.spec))

    def owner_target(self, owner: Object) -> Target:
        """Return an owner without pods as a target."""
        inner = dig(owner.spec, "jobTemplate", "spec") if owner.kind == "CronJob" else owner.spec
        spec = mapping(dig(inner, "template", "spec"))
        return Target(None, (owner, *self.owners(owner)), spec, read_pod(spec))

    def targets(self, namespace: str | None = None) -> list[Target]:
        """Return every GPU pod that doesn't run and isn't replaced, and every owner of GPU pods that has too few."""
        faulty = [each for each in self.objects("Pod", namespace) if not self.is_fine(each)]
        owners_of_failed = {id(each): self.running.owner(each) for each in faulty if self.phase(each) == "Failed"}
        whole = {id(each) for each in owners_of_failed.values() if each is not None and self._is_whole(each)}
        pods = [self.target(each) for each in faulty if id(owners_of_failed.get(id(each))) not in whole]
        for kind in POD_COUNTS:
            self.certainty(kind, namespace or "")
        owners = [each for kind in _TEMPLATES for each in self._by_kind.get(kind, ()) if self.lacks_pods(each)]
        known = [*pods, *map(self.owner_target, owners)]
        every = (*known, *self._queued(known, namespace))
        return [each for each in every if self._is_of_gpus(each) and namespace in (None, each.namespace)]

    def _queued(self, found: Iterable[Target], namespace: str | None) -> Iterator[Target]:
        """Yield the objects without pods and Jobs that a queue holds: JobSets, and owners of Kueue's Workloads."""
        known = {one.title for each in found for one in (each.named, *each.owners)}
        suspended = [each for each in self._by_kind.get("JobSet", ()) if each.spec.get("suspend") is True]
        if any(KUEUE_QUEUE in each.labels for each in suspended) or self._by_kind.get("LocalQueue"):
            self.certainty("Workload", namespace or "")
        waiting = [
            each
            for each in self._by_kind.get("Workload", ())
            if not self.is_true(each, "QuotaReserved") and not self.is_true(each, "Finished")
        ]
        for owner, parts in (
            *((self.running.owner(each) or each, each.spec.get("podSets")) for each in waiting),
            *(
                (each, [dig(one, "template", "spec") for one in mappings(each.spec.get("replicatedJobs"))])
                for each in suspended
            ),
        ):
            specs = [mapping(dig(one, "template", "spec")) for one in mappings(parts)]
            every = [Target(None, (owner,), spec, read_pod(spec)) for spec in specs]
            first = next((one for one in every if one.read.asks_for_gpu), None)
            if first is not None and owner.title not in known:
                known.add(owner.title)
                yield first

    def _is_of_gpus(self, target: Target) -> bool:
        """Whether pods request GPUs, or belong to the GPU software of nodes."""
        paths = (str(dig(each, "hostPath", "path") or "") for each in mappings(target.spec.get("volumes")))
        images = " ".join(each.image_text for each in target.read.every_container)
        offers = any(each.rstrip("/") == DEVICE_PLUGINS for each in paths)
        return target.read.asks_for_gpu or offers or (target.root.kind == "DaemonSet" and "nvidia" in images)

    def is_fine(self, pod: Object) -> bool:
        """Whether a pod has succeeded, or runs and all its containers are ready."""
        if self.phase(pod) == "Succeeded":
            return True
        if self.phase(pod) != "Running" or not all(each.ready for each in self.containers(pod) if not each.init):
            return False
        # If its node is silent, its containers stay ready, and the condition becomes False.
        ready = self.condition(pod, "Ready")
        return ready is None or ready.status == "True"

    def lacks_pods(self, owner: Object) -> bool:
        """Whether an owner has fewer pods than it wants, or than its autoscaler wants."""
        if is_finished(owner):
            return False
        if any(self.limits_owner(each, owner) for each in self._by_kind.get("HorizontalPodAutoscaler", ())):
            return True
        if owner.kind == "Deployment" and self.owned(owner, "ReplicaSet"):
            return False
        status = mapping(owner.content.get("status"))
        wanted = owner.spec.get("replicas", 1)
        if owner.kind == "Job":
            limits = (owner.spec.get("parallelism", 1), owner.spec.get("completions"))
            wanted = min((each for each in limits if isinstance(each, int)), default=None)
        elif owner.kind == "DaemonSet":
            wanted = status.get("desiredNumberScheduled") or 0
        have: Any = len(self.owned(owner, "Pod"))
        if self.certainty("Pod") is None or (owner.kind == "Deployment" and self.certainty("ReplicaSet") is None):
            # Its pods may exist and not be in the dump.
            have = status.get(POD_COUNTS.get(owner.kind, "replicas"), 0) if status else None
        # The missing pods of a Job may have ended and been deleted.
        ended = owner.kind == "Job" and status.get("succeeded")
        is_short = isinstance(wanted, int) and isinstance(have, int) and have < wanted and not ended
        return is_short or self.is_true(owner, "ReplicaFailure")

    def _is_whole(self, owner: Object) -> bool:
        """Whether an owner has replaced its failed pods: it is complete, or as many pods as it wants run."""
        wanted = owner.spec.get("replicas")
        if owner.kind not in ("ReplicaSet", "StatefulSet") or not isinstance(wanted, int):
            return self.is_true(owner, "Complete")
        return sum(map(self.is_fine, self.owned(owner, "Pod"))) >= wanted

    def limits_owner(self, scaler: Object, owner: Object) -> bool:
        """Whether an autoscaler of pods keeps an owner at too few: at its max, without its metric, or of 0 replicas."""
        about = mapping(scaler.spec.get("scaleTargetRef"))
        if (about.get("kind"), about.get("name"), scaler.namespace) != (owner.kind, owner.name, owner.namespace):
            return False
        active, limited = self.condition(scaler, "ScalingActive"), self.condition(scaler, "ScalingLimited")
        fails = active is not None and active.status == "False" and active.reason.startswith("FailedGet")
        # KEDA, which owns its autoscalers, scales from 0 itself, and so does an autoscaler whose min is 0.
        from_zero = scaler.spec.get("minReplicas") == 0 or dig(scaler.content, "metadata", "ownerReferences")
        is_off = active is not None and active.reason == "ScalingDisabled" and not from_zero
        return (
            fails or is_off or (limited is not None and (limited.status, limited.reason) == ("True", "TooManyReplicas"))
        )

    # Texts.

    def time_text(self, time: datetime | None) -> str:
        """Return a time as text; empty without one."""
        return "" if time is None else time.strftime("%Y-%m-%dT%H:%M:%SZ")

    def seconds_since(self, time: datetime | None) -> float | None:
        """Return the seconds from a time to the dump; ``None`` without a time."""
        return None if time is None else (self.now - time).total_seconds()

    def created(self, each: Object) -> datetime | None:
        """Return when an object was created."""
        return parse_time(dig(each.content, "metadata", "creationTimestamp"))

    def log_evidence(self, pod: Object, line: tuple[str, str]) -> Evidence:
        """Return a line of a container's log as evidence."""
        return Evidence(f"log {pod.namespace}/{pod.name}/{line[0]}", "", line[1])

    def claim(self, node: Object) -> Object | None:
        """Return the NodeClaim of a node."""
        named = (each for each in self.objects("NodeClaim") if dig(each.content, "status", "nodeName") == node.name)
        return next(named, None)

    def condition_evidence(self, each: Object, condition: Condition, part: str = "message") -> Evidence:
        """Return a condition as evidence; its message, or its status if it has none."""
        value = getattr(condition, part) or condition.reason or condition.status
        return Evidence(
            title(each), f"status.conditions[{condition.type}].{part}", value, self.time_text(condition.time)
        )

    def event_evidence(self, event: Event) -> Evidence:
        """Return an event as evidence."""
        place = f"{event.namespace}/" if event.namespace else ""
        source = f"Event {event.reason} of {event.kind} {place}{event.name} ({event.component})"
        return Evidence(source, "message", event.message, self.time_text(event.time))


def _event(each: Object) -> Event:
    content = each.content
    about = mapping(content.get("involvedObject") or content.get("regarding"))
    series = mapping(content.get("series"))
    times = (
        parse_time(value)
        for value in (
            series.get("lastObservedTime"),
            content.get("lastTimestamp") or content.get("deprecatedLastTimestamp"),
            content.get("eventTime"),
            content.get("firstTimestamp"),
            dig(content, "metadata", "creationTimestamp"),
        )
    )
    component = (
        content.get("reportingComponent")
        or content.get("reportingController")
        or dig(content, "source", "component")
        or dig(content, "deprecatedSource", "component")
    )
    count = series.get("count") or content.get("count") or content.get("deprecatedCount") or 1
    return Event(
        str(content.get("type") or ""),
        str(content.get("reason") or ""),
        str(content.get("message") or content.get("note") or ""),
        str(component or ""),
        next((each for each in times if each is not None), None),
        count if isinstance(count, int) else 1,
        str(about.get("kind") or ""),
        str(about.get("namespace") or ""),
        str(about.get("name") or ""),
        str(about.get("uid") or ""),
    )


def _container(each: Mapping[str, Any], *, init: bool) -> ContainerState:
    state, last = mapping(each.get("state")), mapping(dig(each.get("lastState"), "terminated"))
    waiting, ended = mapping(state.get("waiting")), mapping(state.get("terminated"))
    return ContainerState(
        str(each.get("name")),
        init,
        each.get("ready") is True,
        each["restartCount"] if isinstance(each.get("restartCount"), int) else 0,
        str(waiting.get("reason") or ""),
        str(waiting.get("message") or ended.get("message") or ""),
        str(ended.get("reason") or ""),
        ended["exitCode"] if isinstance(ended.get("exitCode"), int) else None,
        str(last.get("reason") or ""),
        last["exitCode"] if isinstance(last.get("exitCode"), int) else None,
        str(last.get("message") or ""),
    )


def _group(file: str, answer: Any) -> Resource:
    """Return a node group that AWS describes as the resource that CloudFormation would create."""
    given = mapping(answer)
    properties = {key[:1].upper() + key[1:]: value for key, value in given.items()}
    properties["ScalingConfig"] = _capitalized(mapping(given.get("scalingConfig")))
    properties["Taints"] = [_capitalized(each) for each in mappings(given.get("taints"))]
    properties["LaunchTemplate"] = _capitalized(mapping(given.get("launchTemplate"))) or None
    name = str(given.get("nodegroupName"))
    return Resource(file, name, "AWS::EKS::Nodegroup", properties, f"node group {name}", (), {}, False)


def _capitalized(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key[:1].upper() + key[1:]: value for key, value in values.items()}


def title(each: Object) -> str:
    """Return the title of an object that an API server returned: without a namespace, if it has none."""
    return each.title if dig(each.content, "metadata", "namespace") else f"{each.kind} {each.name}"


def is_daemon(pod: Object) -> bool:
    """Whether a DaemonSet created a pod."""
    return any(each.get("kind") == "DaemonSet" for each in mappings(dig(pod.content, "metadata", "ownerReferences")))


def titles(each: Iterable[Object], most: int = 3) -> str:
    """Return names of some objects in one line, such as ``node a, node b and 2 more``."""
    listed = [f"{one.kind.lower()} {one.name}" for one in each]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
