"""Requests of a pod after admission, and the devices that it claims.

Sources of claims: aws/karpenter-provider-aws v1.15.1 charts/karpenter/values.yaml, https://karpenter.sh/docs/tasks/dra/
(2026-11), kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from gpu_facts.charts import DRANET
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.regions import is_unseen
from gpu_facts.labels import ARCH, OLD_ARCH
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS, DISK, EFA, GPU, NVIDIA
from gpu_preflight.model.answer import Answer, Reason, any_yes
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.node.devices import claim_drivers, is_of_gpus
from gpu_preflight.node.instance_types import Labels, allocatable, autoscaler_labels, kubelet_labels
from gpu_preflight.node.nodes import NodeToBe, minor
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings
from gpu_preflight.scheduling.topology import Topology, topology

# The first Karpenter version that can launch nodes for claims, if its feature gates are on.
_CLAIMS_FROM = (1, 15)
# The first Kubernetes version whose claims Karpenter reads (resource.k8s.io/v1).
_SERVED_FROM = (1, 34)
# Source: https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html (2026-11)
_CLASSES = {"efa.networking.k8s.aws": DRANET}
# Families whose GPUs Karpenter expects as devices.
# Source: aws/karpenter-provider-aws v1.15.1 pkg/providers/drametadata/zz_generated_gpu_metadata.go
_LISTED = frozenset(
    [
        "g4dn",
        "g5",
        "g5g",
        "g6",
        "g6e",
        "g6f",
        "gr6",
        "gr6f",
        "p3dn",
        "p4d",
        "p4de",
        "p5",
        "p5e",
        "p5en",
        "p6-b200",
        "p6-b300",
    ]
)
_NO_FIRST_NODE = "cluster autoscaler launches no first node for claimed devices; keep one node in the group"
_NOT_OF_AUTO_MODE = "EKS Auto Mode launches no nodes for claimed devices; use a managed group"
# Resources whose amount depends only on the type, and the disk that EKS configures.
_OF_TYPES = {"cpu", "memory", "pods", DISK, GPU, EFA, DEVICE_CLASS}
_PLAIN = Pool("plain", "managed", Origin("", ""), operating_system="al2023")


@dataclass(frozen=True, slots=True)
class ClaimedGpus:
    """GPUs that a pod claims.

    Attributes:
        count: Min number of GPUs; ``None`` if it isn't known.
        selected: Whether the claim requires more than a number, which only the driver can check.
        own: Number of GPUs that each pod claims for itself; ``None`` for all GPUs of its node.
        shared: The claims whose GPUs all pods share, with the number of GPUs; ``None`` for all GPUs of its node.
    """

    count: int | None
    selected: bool = False
    own: int | None = 0
    shared: tuple[tuple[str, int | None], ...] = ()


def request_alternatives(claim: Object) -> list[list[dict[str, Any]]]:
    """Return the alternatives of each request of a ResourceClaim or its template, in v1 and the beta versions."""
    spec = mapping(claim.spec.get("spec")) if claim.kind == "ResourceClaimTemplate" else dict(claim.spec)
    listed = mappings(dig(spec, "devices", "requests"))
    return [mappings(each.get("firstAvailable")) or [mapping(each.get("exactly")) or each] for each in listed]


def claim_requests(claim: Object) -> list[dict[str, Any]]:
    """Return what a ResourceClaim or its template requests, over all alternatives."""
    return [each for ways in request_alternatives(claim) for each in ways]


def device_count(request: Mapping[str, Any]) -> int | None:
    """Return the number of devices of a request."""
    if request.get("allocationMode") == "All":
        return None
    return 1 if request.get("count") is None else known_number(request.get("count"))


def claimed_gpus(workload: Workload, cluster: Cluster) -> ClaimedGpus | None:
    """Return the GPUs that a pod claims, or ``None`` if it claims none according to the input."""
    every = [
        (claim.name if claim.kind == "ResourceClaim" else None, part)
        for claim in _workload_claims(workload, cluster)
        for ways in request_alternatives(claim)
        if (part := _least(ways, cluster)) is not None
    ]
    if not every:
        return None
    parts = [part for _, part in every]
    own = _sum(part.count for name, part in every if name is None)
    selected = any(part.selected for part in parts)
    names = dict.fromkeys(name for name, _ in every if name is not None)
    shared = tuple((each, _sum(part.count for name, part in every if name == each)) for each in names)
    return ClaimedGpus(_sum(part.count for part in parts), selected, own, shared)


def _sum(counts: Iterable[int | None]) -> int | None:
    every = list(counts)
    return None if None in every else sum(each or 0 for each in every)


def _least(ways: Iterable[Mapping[str, Any]], cluster: Cluster) -> ClaimedGpus | None:
    """Return the smallest alternative of a request, or ``None`` if no alternative is for GPUs."""
    every = list(ways)
    of_gpus = [each for each in every if is_of_gpus(each.get("deviceClassName"), cluster) is not Answer.NO]
    if not of_gpus:
        return None
    if len(of_gpus) < len(every):
        return ClaimedGpus(0, selected=True)
    parts = [_part(each) for each in of_gpus]
    return min(parts, key=lambda each: (math.inf if each.count is None else each.count, each.selected))


def _part(request: Mapping[str, Any]) -> ClaimedGpus:
    if is_true(request.get("adminAccess")):
        return ClaimedGpus(0, selected=True)  # It allocates nothing, and only some namespaces may use it.
    own_class = request.get("deviceClassName") != DEVICE_CLASS
    # If GPUs are shared, a claim may use a part of a GPU.
    partly = bool(request.get("capacity"))
    return ClaimedGpus(0 if partly else device_count(request), bool(request.get("selectors")) or own_class or partly)


def _workload_claims(workload: Workload, cluster: Cluster) -> Iterable[Object]:
    named = {("ResourceClaim", known_text(each.claim)) for each in workload.pod.claims}
    named |= {("ResourceClaimTemplate", known_text(each.template)) for each in workload.pod.claims}
    for each in cluster.objects_of_kind("ResourceClaim", "ResourceClaimTemplate"):
        if each.namespace == workload.namespace and (each.kind, each.name) in named:
            yield each


def unclear_claims(workload: Workload, cluster: Cluster, claimed: ClaimedGpus | None) -> list[Reason]:
    """Return what isn't known about claims on existing nodes."""
    if claimed is not None and claimed.selected:
        return [Reason(Answer.UNKNOWN, "claim", "only its driver knows which GPUs the claim selects")]
    found = [each for claim in _workload_claims(workload, cluster) for each in claim_requests(claim)]
    names = sorted({name for each in found if (name := known_text(each.get("deviceClassName")))})
    unmade = [name for name in names if not _is_made(name, cluster)]
    if unmade:
        text = f"claims a device of class {unmade[0]}, and it is unknown whether something creates that class"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    if not found and not cluster.sees_software:
        return [Reason(Answer.UNKNOWN, "claim", "the claim that it names is not in the input")]
    return []


def _is_made(name: str, cluster: Cluster) -> bool:
    """Whether a device class exists. If nothing installs NVIDIA's classes, a rule reports it."""
    chart = _CLASSES.get(name)
    made = name in {each.name for each in cluster.objects_of_kind("DeviceClass")} or bool(
        chart and cluster.chart(chart)
    )
    of_nvidia = name.endswith(".nvidia.com")
    return made or (of_nvidia and (cluster.sees_software or bool(claim_drivers(cluster))))


def without_devices(claimed: ClaimedGpus, nodes: Iterable[NodeToBe]) -> list[Reason]:
    """Return why no node of a pool has the GPUs that a pod claims."""
    every = list(nodes)
    if claimed.count == 0 or any(each.instance_type is None for each in every):
        return []
    most = max((each.row.gpus if each.row else 0 for each in every), default=0)
    if most and (claimed.count is None or claimed.count <= most):
        return _without_driver(every)
    types = ", ".join(str(each.instance_type) for each in every[:3])
    asked = "GPUs" if claimed.count is None else f"{claimed.count} GPU{'s' if claimed.count != 1 else ''}"
    return [Reason(Answer.NO, "claim", f"claims {asked}, but {types} has {most or 'none'}", 3)]


def _without_driver(nodes: Iterable[NodeToBe]) -> list[Reason]:
    """Return a reason if the driver that offers GPUs to claims doesn't run on the nodes of a pool, or may not."""
    answer = any_yes(each.offers_claims for each in nodes)
    if answer is Answer.YES:
        return []
    runs = "does not run" if answer is Answer.NO else "may not run"
    text = f"the driver that offers GPUs to claims {runs} on its nodes"
    return [Reason(answer, "claim", f"{text}; add tolerations and a node selector that match the nodes", 3)]


def claim_scale_up_blockers(
    pool: Pool, cluster: Cluster, claimed: ClaimedGpus | None, nodes: Iterable[NodeToBe]
) -> list[Reason]:
    """Return why the autoscaler of a pool launches no node for pods that claim devices."""
    if pool.kind == "auto-mode":
        return [Reason(Answer.NO, "claim", _NOT_OF_AUTO_MODE, 4)]
    if pool.kind == "karpenter":
        unlisted = [] if claimed is None else _unlisted(nodes)
        return unlisted or _karpenter_claim_blockers(cluster.autoscaler("karpenter"), claimed, cluster.version)
    return [Reason(Answer.NO, "claim", _NO_FIRST_NODE, 2)]


def _unlisted(nodes: Iterable[NodeToBe]) -> list[Reason]:
    """Return a reason if Karpenter expects no claimed GPUs on any type of a pool."""
    types = [each.instance_type for each in nodes if each.instance_type is not None and each.row is not None]
    if not types or any(each.partition(".")[0] in _LISTED for each in types):
        return []
    return [Reason(Answer.NO, "claim", f"Karpenter expects no claimed GPUs on {types[0]}; use a managed node group", 4)]


def _karpenter_claim_blockers(
    karpenter: Autoscaler | None, claimed: ClaimedGpus | None, kubernetes: str | None
) -> list[Reason]:
    if karpenter is None or karpenter.version is None:
        text = "whether Karpenter launches nodes for claimed devices depends on its version and its feature gates"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    late = minor(karpenter.version) >= _CLAIMS_FROM
    sees = _sees_claims(karpenter) if late else Answer.NO
    if sees is Answer.NO:
        gate = " without settings.enableDRA" if late else ""
        text = f"Karpenter {karpenter.version} launches no nodes for claimed devices{gate}; use a managed node group"
        return [Reason(Answer.NO, "claim", text, 4)]
    if kubernetes is not None and (0, 0) < minor(kubernetes) < _SERVED_FROM:
        text = f"Karpenter launches no nodes for claimed devices on Kubernetes {kubernetes}; use 1.34 or later"
        return [Reason(Answer.NO, "claim", text, 4)]
    if sees is Answer.UNKNOWN:
        text = "whether Karpenter launches nodes for claimed devices depends on its feature gates"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    if claimed is None or claimed.selected:
        text = "only its driver knows what the claim selects, and it is unknown whether Karpenter expects it on a node"
        return [Reason(Answer.UNKNOWN, "claim", text)]
    return []


def _sees_claims(karpenter: Autoscaler) -> Answer:
    """Return whether Karpenter 1.15 or later launches nodes for claims of NVIDIA GPUs."""
    flags = karpenter.flags
    if "clusterName" not in flags:
        # The installation doesn't use the chart's values, and its environment variables aren't read.
        return Answer.UNKNOWN
    both, gate = flags.get("enableDRA"), dig(flags, "awsFeatureGates", "draNVIDIAGPU")
    if any(isinstance(each, Unknown) for each in (both, gate)):
        return Answer.UNKNOWN
    return Answer.YES if is_true(both) or is_true(gate) else Answer.NO


@dataclass(frozen=True)
class Demand:
    """The requests of a pod, and the keys by which requests are compared.

    Attributes:
        workload: The pods after admission.
        topology: Their constraints on where they run.
        claimed: GPUs that they claim; ``None`` if they claim none according to the input.
        in_all: The total requests of workloads that are placed together; ``None`` for a single workload.
    """

    workload: Workload
    topology: Topology = field(default_factory=Topology)
    claimed: ClaimedGpus | None = None
    in_all: Resources | None = None

    @property
    def shared(self) -> tuple[tuple[str, int | None], ...]:
        """The claims whose GPUs all pods share, with the number of GPUs; ``None`` for all GPUs of the node."""
        return () if self.claimed is None else self.claimed.shared

    @property
    def pod(self) -> Pod:
        """One of the pods."""
        return self.workload.pod

    @cached_property
    def requests(self) -> Resources:
        """The requests of one pod, with the GPUs that it claims for itself."""
        if self.in_all is not None:
            return self.in_all
        own = self.claimed.own if self.claimed is not None else 0
        return {**self.pod.requests, DEVICE_CLASS: own} if own else self.pod.requests

    @cached_property
    def gpus(self) -> int:
        """GPUs, shares or slices that one pod requests."""
        return sum(amount for name, amount in self.requests.items() if name.startswith(NVIDIA))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels that the pod's constraints use."""
        chosen = self.pod.selection
        terms = [each for term in chosen.terms or () for each in term.labels]
        return tuple(dict.fromkeys(each.key for each in (*chosen.selector, *terms)))

    @cached_property
    def selection_key(self) -> str:
        """A key that is equal for pods with the same label requirements."""
        return repr(self.pod.selection)

    @cached_property
    def tolerations_key(self) -> str:
        """A key that is equal for pods with the same tolerations."""
        return repr(self.pod.tolerations)

    @cached_property
    def requests_key(self) -> str:
        """A key that is equal for pods with the same requests. It is a text, because a text caches its hash."""
        return repr((*self.requests.items(), self.pod.is_open, self.pod.open_requests))

    @cached_property
    def anywhere(self) -> bool:
        """Whether the pod has no constraint on its place beyond what a node checks."""
        return self.topology == Topology()

    @cached_property
    def refusals(self) -> list[Reason]:
        """Why the API server would reject the pod."""
        return [Reason(Answer.NO, "refused", f"the API server rejects it: {each}") for each in self.pod.refusals]


def demand(workload: Workload, cluster: Cluster) -> Demand:
    """Return what the pods of a workload request after admission."""
    claimed = claimed_gpus(workload, cluster) if workload.pod.claims else None
    return Demand(workload, topology(workload, cluster), claimed)


def smallest_first() -> Iterable[InstanceType]:
    """Return the types with whole GPUs, the cheapest first. Types without a price are last, by number of GPUs."""
    whole = (row for row in catalogue().values() if row.ec2_gpus == row.gpus)
    return sorted(whole, key=lambda row: (row.usd_per_hour is None, row.usd_per_hour or 0.0, row.gpus))


def requested_gpus(wanted: Demand) -> int | None:
    """Return how many whole GPUs a pod requests; ``None`` for shares, slices, and amounts that types don't decide."""
    gpus = wanted.requests.get(GPU) or (wanted.claimed.count if wanted.claimed else None)
    return gpus if gpus and wanted.requests.keys() <= _OF_TYPES and not wanted.pod.is_open else None


def smallest_type(
    wanted: Demand, region: str | None, *, any_disk: bool = False, at_most: bool = False
) -> InstanceType | None:
    """Return the smallest type whose node has what a pod requests, or ``None`` if there is none.

    The node runs Amazon Linux 2023 with the defaults of EKS, before the pods of DaemonSets.

    Args:
        wanted: The requests of one pod.
        region: The AWS Region; ``None`` if it isn't known.
        any_disk: Whether the pool may have a disk of any size.
        at_most: Whether to include a type that has enough memory only at its max.
    """
    gpus = requested_gpus(wanted)
    fitting = (
        row
        for row in (smallest_first() if gpus else ())
        if row.is_driven and row.gpus >= (gpus or 0) and _is_selected(row, wanted)
        if _has(row, wanted.requests, any_disk=any_disk, at_most=at_most)
    )
    return next((row for row in fitting if not is_unseen(row.name, region)), None)


def _has(row: InstanceType, wanted: Resources, *, any_disk: bool, at_most: bool) -> bool:
    have = allocatable(_PLAIN, row)[at_most]
    names = ("cpu", "memory") if any_disk else ("cpu", "memory", DISK)
    large = all(wanted.get(name, 0) <= have.get(name, 0) for name in names)
    return large and wanted.get(EFA, 0) <= (row.max_efa or 0)


def _is_selected(row: InstanceType, wanted: Demand) -> bool:
    """Whether a pod can run on nodes of a type with any pool labels. Arm types count only if the pod selects them."""
    if row.architecture != "x86_64" and not {ARCH, OLD_ARCH} & set(wanted.keys):
        return False
    of_pool: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    makers = [autoscaler_labels(row.name, kind) for kind in ("karpenter", "auto-mode")]
    labels = of_pool | makers[0] | makers[1] | kubelet_labels(row.name)
    return wanted.pod.selection.takes(labels) is not Answer.NO
