"""A pod and its workload, parsed once into typed values. Values that only deployment sets stay `Unknown`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, quantity, resources
from gpu_facts.resources import NVIDIA
from gpu_preflight.model import container
from gpu_preflight.model.container import Amounts, Container, has_unknown, open_amounts, read_amounts, read_container
from gpu_preflight.model.label_values import Selection, selection
from gpu_preflight.model.taints import Toleration, tolerations
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, items, known_text, mapping, mappings

_CONTAINERS = ("containers", "initContainers")
# Other fields that decide where the pod runs, or whether it runs.
_OPEN_PARTS = (
    *_CONTAINERS,
    "hostNetwork",
    "resourceClaims",
    "schedulerName",
    "schedulingGates",
    "topologySpreadConstraints",
    "volumes",
)
_SCHEDULED_BY = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "resources",
    "overhead",
    "resourceClaims",
    "topologySpreadConstraints",
    "hostNetwork",
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OF_KUBERNETES = "batch"
# Kinds whose pods end.
JOBS = ("Job", "CronJob", "ScaledJob")


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of a pod.

    Attributes:
        name: Its name in the pod.
        claim: Name of the PersistentVolumeClaim that it uses.
        claim_spec: ``spec`` of the claim that is created for the pod.
        config_map: Name of the ConfigMap that it uses.
        size_limit: Max size on the node's disk, as it is written; ``None`` without limit.
        memory_limit: Max size in the node's memory, as it is written; ``None`` without limit.
        source: Its source by kind, as it is written.
    """

    name: str
    claim: Any = None
    claim_spec: Mapping[str, Any] | None = None
    config_map: Any = None
    size_limit: Any = None
    memory_limit: Any = None
    source: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def is_claimed(self) -> bool:
        """Whether it uses a claim."""
        return self.claim is not None or self.claim_spec is not None


@dataclass(frozen=True, slots=True)
class Claim:
    """Devices that a pod claims.

    Attributes:
        claim: Name of the ResourceClaim.
        template: Name of the ResourceClaimTemplate.
    """

    claim: Any = None
    template: Any = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint.

    Attributes:
        key: Node label that identifies domains.
        unsatisfiable: ``DoNotSchedule``, ``ScheduleAnyway``, or ``None`` if it isn't written.
        min_domains: Min number of domains.
        max_skew: How many more pods than the emptiest domain another domain may have.
        selector: Selector of the counted pods.
        affinity_policy: ``Honor``, ``Ignore``, or ``None``: whether only nodes count that match its node selector.
        taints_policy: ``Honor``, ``Ignore``, or ``None``: whether only nodes count whose taints it tolerates.
    """

    key: Any
    unsatisfiable: Any
    min_domains: Any
    max_skew: Any = None
    selector: Any = None
    affinity_policy: Any = None
    taints_policy: Any = None


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A required affinity, or anti-affinity, to other pods.

    Attributes:
        key: Node label that identifies domains.
        selector: Selector of the other pods.
        namespaces: Namespaces of those pods, except the pod's own. ``None`` if a selector, or only deployment, sets
            them.
        own: Whether pods in the pod's own namespace are included.
    """

    key: Any
    selector: Any
    namespaces: tuple[str, ...] | None = ()
    own: bool = True

    def among(self, namespace: str, of_pod: str) -> bool:
        """Whether the term of a pod in namespace `of_pod` certainly includes the pods in `namespace`."""
        return namespace in (self.namespaces or ()) or (self.own and namespace == of_pod)


@dataclass(frozen=True)
class Pod:
    """``spec`` of a pod.

    Attributes:
        containers: Its containers; ``None`` if the field isn't a list.
        init_containers: Its init containers.
        tolerations: Its tolerations.
        selection: Its requirements for node labels.
        apart: Required anti-affinity to pods.
        beside: Required affinity to pods.
        spreads: Its topology spread constraints.
        volumes: Its volumes.
        claims: Devices that it claims.
        limits: Limits of the whole pod.
        asked: Requests of the whole pod.
        overhead: Overhead of its RuntimeClass.
        host_network: Whether it uses the network of its node.
        scheduler: Name of its scheduler; ``None`` if none is written.
        gates: Names of its scheduling gates.
        priority_class: Name of its priority class.
        runtime_class: Name of its runtime class.
        restart_policy: When its containers restart.
        service_account: Its service account.
        open_parts: Other fields that are known at deployment only.
        likeness: A key that is equal for pods with the same scheduling.
        written: The whole spec as it is written, for fields that are rarely needed.
    """

    containers: tuple[Container, ...] | None = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    selection: Selection = field(default_factory=Selection)
    apart: tuple[PodTerm, ...] = ()
    beside: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()
    limits: Amounts = field(default_factory=dict)
    asked: Amounts = field(default_factory=dict)
    overhead: Amounts = field(default_factory=dict)
    host_network: bool = False
    scheduler: Any = None
    gates: tuple[str, ...] = ()
    priority_class: Any = None
    runtime_class: str | None = None
    restart_policy: Any = None
    service_account: Any = None
    open_parts: tuple[str, ...] = ()
    likeness: str = ""
    written: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def every_container(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return (*self.init_containers, *(self.containers or ()))

    @cached_property
    def _staying(self) -> tuple[Container, ...]:
        """The containers that run as long as the pod."""
        return (*(self.containers or ()), *(each for each in self.init_containers if each.sidecar))

    @cached_property
    def container_requests(self) -> Resources:
        """The requests of its containers."""
        return container.aggregate_container_amounts(self.containers or (), self.init_containers)

    @cached_property
    def whole_requests(self) -> Resources:
        """Requests of the pod itself, including the defaults that the API server sets."""
        return container.pod_level_requests(resources(self.limits), resources(self.asked), self.container_requests)

    @cached_property
    def requests(self) -> Resources:
        """The requests of the whole pod, including room for one pod."""
        whole, overhead = self.whole_requests, resources(self.overhead)
        return container.requests(self.containers or (), self.init_containers, whole, overhead)

    @cached_property
    def refusals(self) -> tuple[str, ...]:
        """Why the API server rejects its requests."""
        missing = ["spec.containers isn't a list"] if self.containers is None else []
        return (*missing, *container.invalid((*(self.containers or ()), *self.init_containers)))

    @cached_property
    def is_open(self) -> bool:
        """Whether a request is known at deployment only."""
        whole = any(map(has_unknown, (self.limits, self.asked, self.overhead)))
        return (
            whole
            or any(each in self.open_parts for each in _CONTAINERS)
            or any(each.is_open for each in self.every_container)
        )

    @cached_property
    def open_requests(self) -> tuple[str, ...]:
        """Resources that it requests in amounts known at deployment only, and parts of it with unknown resources."""
        whole, overhead = open_amounts(self.limits, self.asked), open_amounts({}, self.overhead)
        # The pod's own requests override the requests of its containers.
        own = mapping(self.asked)
        named = [name for each in self.every_container for name in each.open_requests or () if name not in own]
        parts = [f"all of container {each.name}" for each in self.every_container if each.open_requests is None]
        parts += [f"all of {name}" for name in _CONTAINERS if name in self.open_parts]
        parts += [f"all of its {name}" for name, each in (("resources", whole), ("overhead", overhead)) if each is None]
        return tuple(dict.fromkeys((*named, *(whole or ()), *(overhead or ()), *parts)))

    @cached_property
    def host_ports(self) -> frozenset[container.HostPort]:
        """Address, protocol and number of each of its ports on the node."""
        return container.host_ports(self._staying, host_network=self.host_network)

    @cached_property
    def has_open_ports(self) -> bool:
        """Whether a port on the node is known at deployment only."""
        ports = [port for each in self._staying for port in each.ports]
        numbers = [each for port in ports for each in (port.host, port.address, port.protocol)]
        numbers += [port.container for port in ports if self.host_network]
        return any(isinstance(each, Unknown) for each in numbers)

    @cached_property
    def asks_for_gpu(self) -> bool:
        """Whether a container requests a GPU, or a share or slice of a GPU, or the pod claims a device.

        A pod that requests a GPU in its own ``resources`` counts too: the API server rejects it (GPU405).
        """
        whole = {**mapping(self.asked), **mapping(self.limits)}
        asked = bool(self.claims) or any(each.devices for each in self.every_container)
        return asked or any(name.startswith(NVIDIA) and quantity(name, whole[name]) != 0 for name in whole)

    @cached_property
    def may_ask_for_gpu(self) -> bool:
        """Whether it requests a GPU, or deployment sets all requests of a part of it."""
        open_parts = any(each in self.open_parts for each in (*_CONTAINERS, "resourceClaims"))
        limits = (self.limits, *(each.limits for each in self.every_container))
        whole = any(isinstance(each, Unknown) for each in limits)
        return self.asks_for_gpu or open_parts or whole


def read_pod(raw: Mapping[str, Any]) -> Pod:
    """Return the pod of a ``spec``."""
    containers = raw.get("containers")
    return Pod(
        containers=None if not isinstance(containers, (list, Unknown)) else _containers(containers),
        init_containers=_containers(raw.get("initContainers")),
        tolerations=tolerations(raw.get("tolerations")),
        selection=selection(raw),
        apart=_terms(raw, "podAntiAffinity"),
        beside=_terms(raw, "podAffinity"),
        spreads=tuple(map(_spread, mappings(raw.get("topologySpreadConstraints")))),
        volumes=tuple(map(_volume, mappings(raw.get("volumes")))),
        claims=tuple(map(_claim, mappings(raw.get("resourceClaims")))),
        limits=read_amounts(raw, "limits"),
        asked=read_amounts(raw, "requests"),
        overhead=overhead if isinstance(overhead := raw.get("overhead"), Unknown) else mapping(overhead),
        host_network=raw.get("hostNetwork") is True,
        scheduler=raw.get("schedulerName"),
        gates=tuple(str(each.get("name")) for each in mappings(raw.get("schedulingGates"))),
        priority_class=raw.get("priorityClassName"),
        runtime_class=known_text(raw.get("runtimeClassName")),
        restart_policy=raw.get("restartPolicy"),
        service_account=raw.get("serviceAccountName") or raw.get("serviceAccount"),
        open_parts=tuple(each for each in _OPEN_PARTS if _is_open(raw.get(each))),
        likeness=_likeness(raw),
        written=raw,
    )


def read_pod_template(owner: Object) -> Pod:
    """Return the pod of an object that has one in ``spec.template``."""
    return read_pod(mapping(dig(owner.content, "spec", "template", "spec")))


def _containers(raw: Any) -> tuple[Container, ...]:
    return tuple(map(read_container, mappings(raw)))


def _terms(raw: Mapping[str, Any], kind: str) -> tuple[PodTerm, ...]:
    listed = mappings(dig(mapping(raw.get("affinity")), kind, _REQUIRED))
    return tuple(map(_term, listed))


def _term(raw: Mapping[str, Any]) -> PodTerm:
    named, selector = raw.get("namespaces"), raw.get("namespaceSelector")
    listed = items(named)
    open_ = selector is not None or isinstance(named, Unknown) or any(isinstance(each, Unknown) for each in listed)
    # An empty selector selects every namespace. Without selector and list, the pod's own namespace counts.
    own = selector == {} or not (listed or open_)
    return PodTerm(raw.get("topologyKey"), raw.get("labelSelector"), None if open_ else tuple(map(str, listed)), own)


def _spread(raw: Mapping[str, Any]) -> Spread:
    return Spread(
        raw.get("topologyKey"),
        raw.get("whenUnsatisfiable"),
        raw.get("minDomains"),
        raw.get("maxSkew"),
        raw.get("labelSelector"),
        raw.get("nodeAffinityPolicy"),
        raw.get("nodeTaintsPolicy"),
    )


def _claim(raw: Mapping[str, Any]) -> Claim:
    return Claim(raw.get("resourceClaimName"), raw.get("resourceClaimTemplateName"))


def _volume(raw: Mapping[str, Any]) -> Volume:
    made = dig(raw, "ephemeral", "volumeClaimTemplate", "spec") if "ephemeral" in raw else None
    medium, limit = (dig(raw, "emptyDir", each) for each in ("medium", "sizeLimit"))
    return Volume(
        name=str(raw.get("name")),
        claim=dig(raw, "persistentVolumeClaim", "claimName"),
        claim_spec=mapping(made) if "ephemeral" in raw else None,
        config_map=dig(raw, "configMap", "name"),
        size_limit=None if medium else limit,
        memory_limit=limit if medium == "Memory" else None,
        source=raw,
    )


def _is_open(part: Any) -> bool:
    """Whether deployment sets a part of a pod, or an element of it."""
    return isinstance(part, Unknown) or any(isinstance(each, Unknown) for each in items(part))


def _likeness(raw: Mapping[str, Any]) -> str:
    listed = [*mappings(raw.get("initContainers")), *mappings(raw.get("containers"))]
    containers = [(each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in listed]
    before = len(mappings(raw.get("initContainers")))
    shape = [repr(raw.get(each)) if _is_open(raw.get(each)) else type(raw.get(each)) for each in _OPEN_PARTS]
    return repr((shape, before, containers, *(raw.get(key) for key in _SCHEDULED_BY)))


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Groups of pods with exclusive placement: each whole group is in one domain without other groups.

    Attributes:
        key: Node label that identifies domains.
        groups: Number of groups; ``None`` if it isn't known.
        size: Number of pods in each group; ``None`` if it isn't known.
        beside: Number of groups in other parts of the same owner, which need domains too; ``None`` if it isn't known.
        shared: Whether pods of another part run in the domain of each group.
        labelled: Whether the user labels nodes for the groups beforehand.
    """

    key: Any
    groups: int | None
    size: int | None
    beside: int | None = 0
    shared: bool = False
    labelled: bool = False


@dataclass(frozen=True)
class Workload:
    """Pods that are alike.

    Attributes:
        name: ``Kind namespace/name``, with the name of the part if a kind has several.
        namespace: Its namespace.
        origin: Its place in the input.
        pod: Its pod.
        labels: Labels of its pods.
        annotations: Annotations of its pods.
        replicas: Number of pods; ``None`` if it isn't known.
        together: Whether all pods must run at once.
        owner: The object that creates them.
        suspended: Whether the workload is suspended.
        overlaps: Whether a schedule creates more pods while earlier pods still wait or run.
        claim_templates: ``spec`` of each claim that is created for each pod.
        priority: Priority of its class, if it is known.
        preempts: Whether it preempts running pods of lower priority.
        placed: How many of its pods already have a node, in a running cluster.
        unscheduled: The message of the running cluster's scheduler for a pod without a node; empty otherwise.
        exclusive: Groups of its pods that require a domain each; ``None`` without groups.
    """

    name: str
    namespace: str
    origin: Origin
    pod: Pod
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    replicas: int | None
    together: bool
    owner: Object
    suspended: bool = False
    overlaps: bool = False
    claim_templates: tuple[Mapping[str, Any], ...] = ()
    priority: int | None = 0
    preempts: bool = True
    exclusive: Exclusive | None = None
    placed: int = 0
    unscheduled: str = ""

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.name

    @property
    def is_placed(self) -> bool:
        """Whether each of its pods already has a node."""
        return self.placed > 0 and self.replicas is not None and self.placed >= self.replicas

    @property
    def is_daemon_set(self) -> bool:
        """Whether it is a DaemonSet, for which no autoscaler launches a node."""
        return self.owner.kind == "DaemonSet"

    @property
    def takes_turns(self) -> bool:
        """Whether pods that find no room run after other pods end."""
        return self.owner.kind in JOBS and not self.together

    @property
    def may_take_turns(self) -> bool:
        """Whether all of its pods may have to run at once: pods of an indexed job whose names let them find each other.

        Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode (2026-11)
        """
        indexed = self.owner.kind in JOBS and self.together and self.owner.group == _OF_KUBERNETES
        return indexed and self.pod.written.get("subdomain") is None

    @property
    def ends(self) -> bool:
        """Whether its pods end by themselves and free their place."""
        if self.owner.kind == "Pod":
            return self.pod.restart_policy in ("Never", "OnFailure")
        return self.owner.kind in (*JOBS, *TRAINING_JOBS, "JobSet", "RayJob")

    @property
    def containers(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return self.pod.every_container

    @property
    def asks_for_gpu(self) -> bool:
        """Whether its pods request a GPU, or a share or slice of a GPU, or claim a device."""
        return self.pod.asks_for_gpu
