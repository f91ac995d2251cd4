"""The nodes that a pool would launch: their real resources for pods, and the autoscaler's view of them.

The two differ. This difference explains pods that stay Pending while an autoscaler does nothing, or launches node after
node.

Sources: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``; aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.node_capacity import allocatable_without_gpus
from gpu_facts.hardware.regions import zone_id_prefix
from gpu_facts.labels import (
    CAPACITY_TYPE,
    EBS_ZONE,
    GPU_PRESENT,
    HOSTNAME,
    INSTANCE_TYPE,
    OLD_ZONE,
    REGION,
    ZONE,
    ZONE_ID,
)
from gpu_facts.light import dataclass, regex
from gpu_facts.resources import DEVICE_CLASS, DISK, EFA, GPU
from gpu_preflight.cluster.images import has_driver
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.cluster.pools import usable_capacity_types
from gpu_preflight.model.answer import Answer, all_yes, any_yes
from gpu_preflight.model.cluster import Cluster, Observation, Pool
from gpu_preflight.model.container import HostPort
from gpu_preflight.model.label_values import Labels, LabelValues, exactly
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.autoscaler_view import Conflict, active_overlays, belief, conflicts, may_conflict, overlaid
from gpu_preflight.node.daemon_reach import Reached, reached, refusing_taints
from gpu_preflight.node.devices import claim_drivers, gives_gpus_by_name, registered
from gpu_preflight.node.instance_types import allocatable, autoscaler_labels, is_of_the_type, kubelet_labels
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown

_SHARED_BY_ALL = ("cpu", "memory", DISK)
# From this minor version, nodeadm sets the label of nodes with a GPU.
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/internal/kubelet/config.go
_LABELLED_FROM = (1, 35)
# Names of Node Feature Discovery workers end with one of these.
FEATURE_WORKERS = ("node-feature-discovery-worker", "nfd-worker")
_GPU_DISCOVERY = "gpu-feature-discovery"
_LABELS_BY_ITSELF = (0, 19)
_MINOR = regex(r"v?([0-9]{1,4})\.([0-9]{1,4})")
# Labels that NVIDIA's feature discovery adds once a node runs.
# Source: NVIDIA/k8s-device-plugin v0.20.0 docs/gpu-feature-discovery/README.md
_DISCOVERED = tuple(
    f"nvidia.com/{name}"
    for name in (
        "cuda.driver-version.full",
        "cuda.driver-version.major",
        "cuda.driver.major",
        "cuda.runtime-version.full",
        "cuda.runtime.major",
        "gfd.timestamp",
        "gpu.compute.major",
        "gpu.compute.minor",
        "gpu.count",
        "gpu.family",
        "gpu.machine",
        "gpu.memory",
        "gpu.mode",
        "gpu.product",
        "gpu.replicas",
        "gpu.sharing-strategy",
        "mig.capable",
        "mig.strategy",
        "mps.capable",
    )
)


@dataclass(frozen=True, slots=True)
class NodeToBe:
    """A fresh node of a pool.

    Attributes:
        instance_type: EC2 name; ``None`` if it isn't known.
        row: Its row in the catalogue; ``None`` for a type without NVIDIA GPUs.
        labels: Its labels when its software runs.
        taints: Its taints after its startup taints are removed.
        least: Min amounts for pods, without the requests of DaemonSets.
        most: Max amounts for pods, without the requests of DaemonSets.
        unsaid: Resources for which it isn't known whether the node has them.
        unseen: Unknown resources that nothing in the input advertises on any node.
        alone: Resources of which a pod may request only one.
        believed_labels: Its labels in the autoscaler's view.
        believed_taints: Its taints in the autoscaler's view.
        believed: Its amounts for pods in the autoscaler's view, without the requests of DaemonSets.
        ports: Host ports that DaemonSets use.
        unsure_ports: Host ports of DaemonSets that may not run there.
        ports_open: Whether a DaemonSet uses a host port that isn't known.
        device_managers: Names of the components that advertise its GPUs.
        offers_claims: Whether a driver that offers its GPUs to claims runs on it, as far as the input has one.
        taken: Names of the DaemonSets that use some of a device, by resource.
        allocatable: Resources of a running node, before its pods; ``None`` for a node that isn't launched yet.
    """

    instance_type: str | None
    row: InstanceType | None
    labels: Labels
    taints: tuple[Taint, ...]
    least: Mapping[str, int]
    most: Mapping[str, int]
    unsaid: frozenset[str] = frozenset()
    unseen: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    believed_labels: Labels = field(default_factory=dict)
    believed_taints: tuple[Taint, ...] = ()
    believed: Mapping[str, int] = field(default_factory=dict)
    ports: frozenset[HostPort] = frozenset()
    unsure_ports: frozenset[HostPort] = frozenset()
    ports_open: bool = False
    device_managers: tuple[str, ...] = ()
    offers_claims: Answer = Answer.YES
    taken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    allocatable: Mapping[str, int] | None = None

    def devices_max(self, name: str) -> int | None:
        """Return how many devices its hardware has, if it isn't known how many are advertised.

        A device plugin that isn't in the input and shares GPUs under their whole name could offer more GPUs.
        """
        if self.row is None or name not in self.unsaid:
            return None
        if name == EFA:
            return self.row.max_efa or 0
        return self.row.gpus if name == GPU and name in self.unseen else None


@lru_cache(maxsize=4096)
def _types_meeting(requirements: tuple[Any, ...], kind: str) -> tuple[str, ...]:
    found = []
    for name in catalogue():
        labels = kubelet_labels(name) | autoscaler_labels(name, kind)
        relevant = [each for each in requirements if each.key in labels or is_of_the_type(each.key, kind)]
        if all(each.matches(labels) is not Answer.NO for each in relevant):
            found.append(name)
    return tuple(found)


def gpu_types(pool: Pool) -> tuple[str, ...]:
    """Return the NVIDIA instance types that a pool may launch."""
    if pool.kind in ("karpenter", "auto-mode"):
        return _types_meeting(pool.requirements, pool.kind)
    return tuple(name for name in pool.instance_types if name in catalogue())


def surely_launches(pool: Pool, names: Iterable[str]) -> bool:
    """Whether a group launches one of the named types, for every choice that deployment can make."""
    return not pool.undecided or set(pool.instance_types) <= set(names)


def may_have_gpus(pool: Pool) -> bool:
    """Whether a node of the pool may have NVIDIA GPUs."""
    return bool(gpu_types(pool))


def nodes_to_be(pool: Pool, cluster: Cluster, overlays: list[Object] | None = None) -> tuple[NodeToBe, ...]:
    """Return a fresh node of each instance type of a pool, or a node of an unknown type if no type is known.

    Args:
        pool: The pool.
        cluster: Its cluster.
        overlays: NodeOverlays that Karpenter applies. Default: the NodeOverlays of the cluster.
    """
    if pool.observed is not None:
        return (_running_node(pool, pool.observed),)
    applied = (active_overlays(cluster) if overlays is None else overlays) if pool.kind == "karpenter" else []
    by_name = gives_gpus_by_name(cluster, None if cluster.version is None else minor(cluster.version))
    drivers = claim_drivers(cluster)
    return tuple(_node(pool, name, cluster, applied, by_name, drivers) for name in _pool_instance_types(pool))


def _running_node(pool: Pool, observed: Observation) -> NodeToBe:
    """Return a node for a group of running nodes, with the resources that are free on it."""
    name = pool.instance_types[0] if pool.instance_types else None
    row = catalogue().get(name) if name else None
    claimable = {} if row is None else {DEVICE_CLASS: row.gpus}
    return NodeToBe(
        instance_type=name,
        row=row,
        labels=pool.labels,
        taints=pool.taints,
        least={**observed.free_min},
        most={**observed.free_max, **claimable},
        believed_labels=pool.labels,
        believed_taints=pool.taints,
        believed={**observed.free_max, **claimable},
        allocatable=observed.allocatable,
    )


def _pool_instance_types(pool: Pool) -> tuple[str | None, ...]:
    if pool.is_group:
        return pool.instance_types or (None,)
    return gpu_types(pool) or tuple(pool.instance_types) or (None,)


def overlays_in_conflict(cluster: Cluster) -> list[Conflict]:
    """Return the NodeOverlays of a cluster that Karpenter ignores because of a conflict."""
    overlays = active_overlays(cluster)
    if not may_conflict(overlays):
        return []
    pools = [each for each in cluster.pools if each.kind == "karpenter"]
    return conflicts(
        overlays, (_given_labels(pool, name, cluster) for pool in pools for name in _pool_instance_types(pool))
    )


def _node(
    pool: Pool,
    name: str | None,
    cluster: Cluster,
    overlays: list[Object],
    by_name: Answer,
    drivers: list[DaemonSet],
) -> NodeToBe:
    row = catalogue().get(name) if name else None
    given = _given_labels(pool, name, cluster)
    at_boot = given | _booted_labels(pool, row, cluster)
    running = reached(cluster.daemon_sets, at_boot, pool.taints)
    labels = _with_discovered_labels(at_boot, running, cluster)
    least, most = allocatable(pool, row) if row else allocatable_without_gpus(name)
    unsaid = frozenset(("cpu", "memory", "pods", DISK)).difference(most)
    devices = registered(pool, row, cluster, running, overlaid(given, overlays), by_name)
    claimable = {} if row is None else {DEVICE_CLASS: row.gpus}
    least, most = {**least, **devices.least, **claimable}, {**most, **devices.most, **claimable}
    certain = [each.pod.requests for each, answer in running if answer is Answer.YES]
    possible = [each.pod.requests for each, answer in running if answer is not Answer.NO]
    for each in certain:
        most = _without(most, each)
    for each in possible:
        least = _without(least, each)
    if any(each.pod.is_open for each, answer in running if answer is not Answer.NO):
        # If the requests of a DaemonSet aren't known, the rest isn't known either.
        least = {key: 0 if key in _SHARED_BY_ALL else amount for key, amount in least.items()}
    expected = belief(pool, row, given, overlays)
    believed = expected.resources
    for each in certain:
        believed = _without(believed, each)
    return NodeToBe(
        instance_type=name,
        row=row,
        labels=labels,
        taints=pool.taints,
        least=least,
        most=most,
        unsaid=unsaid | devices.unsaid,
        unseen=devices.unseen,
        alone=devices.alone,
        believed_labels=expected.labels,
        believed_taints=expected.taints,
        believed=believed,
        ports=_ports(running, Answer.YES),
        unsure_ports=_ports(running, Answer.UNKNOWN),
        ports_open=any(each.pod.has_open_ports for each, answer in running if answer is not Answer.NO),
        device_managers=devices.names,
        offers_claims=_offers_claims(running, drivers),
        taken=_taken(running),
    )


def _offers_claims(running: Reached, drivers: Iterable[DaemonSet]) -> Answer:
    """Return whether a driver that offers GPUs to claims runs on a node. Another rule reports a missing driver."""
    known = {id(each) for each in drivers}
    return any_yes(answer for each, answer in running if id(each) in known) if known else Answer.YES


def _taken(running: Reached) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each, answer in running:
        for name in each.pod.requests if answer is not Answer.NO else ():
            if "/" in name:
                found[name] = (*found.get(name, ()), each.name)
    return found


def _ports(running: Reached, wanted: Answer) -> frozenset[HostPort]:
    return frozenset(port for each, answer in running if answer is wanted for port in each.pod.host_ports)


def _without(have: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - taken.get(name, 0) for name, amount in have.items()}


def _given_labels(pool: Pool, name: str | None, cluster: Cluster) -> dict[str, LabelValues | Unknown]:
    """Return the labels with which a node registers."""
    zones = [each for each in pool.zones if isinstance(each, str)]
    every = len(zones) == len(pool.zones) and zones
    region = pool_region(pool, cluster)
    zone = exactly(*zones) if every else Unknown(f"{region or ''}${{zone}}")
    typed = (kubelet_labels(name) | autoscaler_labels(name, pool.kind)) if name else {INSTANCE_TYPE: Unknown("${type}")}
    placed: dict[str, LabelValues | Unknown] = {
        ZONE: zone,
        OLD_ZONE: zone,
        REGION: exactly(region) if region else Unknown("${region}"),
        ZONE_ID: Unknown(f"{_zone_id_prefix(region)}${{zone id}}"),
        EBS_ZONE: zone,
        HOSTNAME: Unknown("${hostname}"),
    }
    bought = usable_capacity_types(pool) or pool.capacity_types
    capacity = {CAPACITY_TYPE: exactly(*bought)} if pool.autoscaler != "cluster-autoscaler" else {}
    return {**pool.labels, **placed, **typed, **capacity}


def _zone_id_prefix(region: str | None) -> str:
    """Return the common prefix of the zone ids of a region, including Local Zones; empty if it isn't known."""
    begins = zone_id_prefix(region)
    return begins.removesuffix("az") if begins else ""


def _booted_labels(pool: Pool, row: InstanceType | None, cluster: Cluster) -> dict[str, LabelValues | Unknown]:
    """Return the labels that AL2023 itself sets on a node with a GPU."""
    if row is None or pool.operating_system != "al2023" or has_driver(pool) is not Answer.YES:
        return {}
    if cluster.version is None:
        return {} if GPU_PRESENT in pool.labels else {GPU_PRESENT: LabelValues(frozenset(("true",)), unsure=True)}
    return {GPU_PRESENT: exactly("true")} if minor(cluster.version) >= _LABELLED_FROM else {}


def minor(version: str) -> tuple[int, int]:
    """Return a Kubernetes version as numbers."""
    found = _MINOR.match(version)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _with_discovered_labels(
    given: dict[str, LabelValues | Unknown], running: Reached, cluster: Cluster
) -> dict[str, LabelValues | Unknown]:
    """Return the labels of a node, with the labels that software adds at run time if it may run there."""
    unseen = Answer.NO if cluster.sees_programs else Answer.UNKNOWN
    workers = [answer for each, answer in running if each.name.endswith(FEATURE_WORKERS)]
    features = any_yes(workers) if workers else unseen
    finders = [(each, answer) for each, answer in running if _GPU_DISCOVERY in each.name]
    answers = [answer if _labels_by_itself(each, cluster) else all_yes((answer, features)) for each, answer in finders]
    gpus = any_yes(answers) if finders else unseen
    found = ((gpus, _DISCOVERED), (features, cluster.requested_features))
    added: dict[str, LabelValues | Unknown] = {
        key: Unknown(f"${{{key}}}") for answer, keys in found if answer is not Answer.NO for key in keys
    }
    return given | added if finders else added | given


def _labels_by_itself(daemon: DaemonSet, cluster: Cluster) -> bool:
    """Return whether GPU feature discovery may label nodes without a worker of Node Feature Discovery on them.

    Source: NVIDIA/k8s-device-plugin v0.17.0, v0.19.0 and v0.20.0 cmd/gpu-feature-discovery/main.go, flag
    use-node-feature-api (read 2026-11-23)
    """
    container = next(iter(daemon.pod.containers or ()), None)
    env = container.env if container else {}
    if any(key in env for key in ("GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API")):
        return True
    charts = [each.version for each in cluster.charts if each.origin == daemon.origin]
    version = charts[0] if charts else container.image_text.rpartition(":")[2] if container else ""
    return minor(version or "") >= _LABELS_BY_ITSELF or not _MINOR.match(version or "")


def reaches(daemon: DaemonSet, pool: Pool, cluster: Cluster) -> Answer:
    """Return whether a DaemonSet would run on every node of a pool, together with the DaemonSets of a cluster."""
    others = tuple(each for each in cluster.daemon_sets if each is not daemon)
    return daemon_set_answers(pool, replace(cluster, daemon_sets=(daemon, *others)))[0][1]


def daemon_set_answers(pool: Pool, cluster: Cluster) -> list[tuple[DaemonSet, Answer]]:
    """Return for each DaemonSet of a cluster whether it runs on every node of a pool."""
    names = gpu_types(pool) or tuple(pool.instance_types) or (None,)
    of_types: list[list[Answer]] = []
    for name in names:
        row = catalogue().get(name) if name else None
        labels = _given_labels(pool, name, cluster) | _booted_labels(pool, row, cluster)
        of_types.append([answer for _, answer in reached(cluster.daemon_sets, labels, pool.taints)])
    of_daemons = zip(cluster.daemon_sets, zip(*of_types, strict=True), strict=True)
    return [(each, all_yes(answers)) for each, answers in of_daemons]


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a DaemonSet doesn't run on some nodes, as far as that is certain.

    Attributes:
        daemon: The DaemonSet.
        taints: Taints that it doesn't tolerate.
        unselected: Nodes that it doesn't select. Empty if taints already exclude it.
    """

    daemon: DaemonSet
    taints: tuple[Taint, ...]
    unselected: tuple[NodeToBe, ...]

    @property
    def intolerance(self) -> str:
        """The taints in words; empty if it tolerates all of them."""
        taints = ", ".join(map(str, self.taints))
        return f"DaemonSet {self.daemon.name} doesn't tolerate {taints}" if taints else ""

    @property
    def unmet(self) -> tuple[str, ...]:
        """The label requirements that the first of the nodes doesn't meet."""
        first = (self.daemon.pod.selection.unmet(node.labels) for node in self.unselected[:1])
        return tuple(str(each) for unmet in first for each, answer in unmet if answer is Answer.NO)

    @property
    def text(self) -> str:
        """Why it doesn't run there; empty if it may."""
        if not self.unselected:
            return self.intolerance
        return f"DaemonSet {self.daemon.name} requires {self._wanted_labels}, which its nodes don't have"

    @property
    def fix(self) -> str:
        """The fix that makes it run there; empty if it may run."""
        if self.taints:
            return f"Add tolerations for {', '.join(map(str, self.taints))} to {self.daemon.name}."
        if not self.unselected:
            return ""
        name = self.daemon.name
        return f"Add {self._wanted_labels} to the pool's nodes, or remove the requirement from DaemonSet {name}."

    @property
    def _wanted_labels(self) -> str:
        """The labels that it selects and the nodes lack; of several terms, the one that users can set."""
        selection = self.daemon.pod.selection
        named = any(one.key == GPU_PRESENT for each in selection.terms or () for one in each.labels)
        selected = {str(each) for each in selection.selector}.intersection(self.unmet)
        unmet = [each.removesuffix(" Exists") for each in self.unmet]
        labels = [f"{GPU_PRESENT}=true"] if named and not selected else unmet
        return f"label{'s' if len(labels) > 1 else ''} {' and '.join(labels)}"


def miss(daemon: DaemonSet, taints: Iterable[Taint], nodes: Iterable[NodeToBe]) -> Miss:
    """Return why a DaemonSet does not run on nodes with some taints."""
    refusing = tuple(refusing_taints(daemon, taints))
    selection = daemon.pod.selection
    unselected = (each for each in nodes if selection.takes(each.labels) is Answer.NO)
    return Miss(daemon, refusing, () if refusing else tuple(unselected))
