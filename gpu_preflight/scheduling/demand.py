"""What a pod asks for, once it is let in: read once and compared often."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from functools import cached_property

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.regions import is_unseen
from gpu_facts.labels import ARCH, OLD_ARCH
from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS, DISK, EFA, GPU, NVIDIA
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.instance_labels import Labels, autoscaler_labels, kubelet_labels
from gpu_preflight.node.node_size import allocatable
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.scheduling.claims import ClaimedGpus, claimed_gpus
from gpu_preflight.scheduling.topology import Topology, topology

# Resources whose amount follows from the type, and the disk that EKS gives it.
_OF_TYPES = {"cpu", "memory", "pods", DISK, GPU, EFA, DEVICE_CLASS}
_PLAIN = Pool("plain", "managed", Origin("", ""), operating_system="al2023")


@dataclass(frozen=True)
class Demand:
    """What a pod asks for, and what it is compared by.

    Attributes:
        workload: The pods as they are let in.
        topology: What they ask of where they run.
        claimed: GPUs that they claim; ``None`` where they claim none that the input says.
        in_all: What several workloads that are placed as one ask for; ``None`` for one.
    """

    workload: Workload
    topology: Topology = field(default_factory=Topology)
    claimed: ClaimedGpus | None = None
    in_all: Resources | None = None

    @property
    def shared(self) -> tuple[tuple[str, int | None], ...]:
        """The claims whose GPUs every pod has, and how many each is for; ``None`` for all of its node."""
        return () if self.claimed is None else self.claimed.shared

    @property
    def pod(self) -> Pod:
        """One of the pods."""
        return self.workload.pod

    @cached_property
    def requests(self) -> Resources:
        """What one pod asks for, GPUs that it claims for itself among it."""
        if self.in_all is not None:
            return self.in_all
        own = self.claimed.own if self.claimed is not None else 0
        return {**self.pod.requests, DEVICE_CLASS: own} if own else self.pod.requests

    @cached_property
    def gpus(self) -> int:
        """GPUs, shares or slices that one pod asks for."""
        return sum(amount for name, amount in self.requests.items() if name.startswith(NVIDIA))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels that matter to it."""
        chosen = self.pod.selection
        terms = [each for term in chosen.terms or () for each in term.labels]
        return tuple(dict.fromkeys(each.key for each in (*chosen.selector, *terms)))

    @cached_property
    def selection_key(self) -> str:
        """What tells its demands on labels from others."""
        return repr(self.pod.selection)

    @cached_property
    def tolerations_key(self) -> str:
        """What tells its tolerations from others."""
        return repr(self.pod.tolerations)

    @cached_property
    def requests_key(self) -> str:
        """What tells its requests from others; a text, because it keeps its hash."""
        return repr((*self.requests.items(), self.pod.is_open, self.pod.open_requests))

    @cached_property
    def anywhere(self) -> bool:
        """Whether it may run wherever a node takes it."""
        return self.topology == Topology()

    @cached_property
    def refusals(self) -> list[Reason]:
        """Why the API server would refuse the pod."""
        return [Reason(Answer.NO, "refused", f"the API server refuses it: {each}") for each in self.pod.refusals]


def demand(workload: Workload, cluster: Cluster) -> Demand:
    """Return what the pods of a workload ask for, as they are let in."""
    claimed = claimed_gpus(workload, cluster) if workload.pod.claims else None
    return Demand(workload, topology(workload, cluster), claimed)


def smallest_first() -> Iterable[InstanceType]:
    """Return the types with whole GPUs, the cheapest first; those without a price last, by their GPUs."""
    whole = (row for row in catalogue().values() if row.ec2_gpus == row.gpus)
    return sorted(whole, key=lambda row: (row.usd_per_hour is None, row.usd_per_hour or 0.0, row.gpus))


def requested_gpus(wanted: Demand) -> int | None:
    """Return how many whole GPUs a pod requests; ``None`` for shares, slices, and amounts that types don't decide."""
    gpus = wanted.requests.get(GPU) or (wanted.claimed.count if wanted.claimed else None)
    return gpus if gpus and wanted.requests.keys() <= _OF_TYPES and not wanted.pod.is_open else None


def smallest_type(
    wanted: Demand, region: str | None, *, any_disk: bool = False, at_most: bool = False
) -> InstanceType | None:
    """Return the smallest type whose node has what a pod requests, ``None`` without any.

    Its node is one of Amazon Linux 2023 as EKS sets it up, before the pods of DaemonSets.

    Args:
        wanted: What one pod requests.
        region: The AWS Region; ``None`` where it isn't known.
        any_disk: Whether the pool may have a disk of any size.
        at_most: Whether a type counts that only may have as much memory.
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
    """Whether a pod runs on nodes of a type, whose pool may have any label; on Arm only one that says so."""
    if row.architecture != "x86_64" and not {ARCH, OLD_ARCH} & set(wanted.keys):
        return False
    of_pool: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    makers = [autoscaler_labels(row.name, kind) for kind in ("karpenter", "auto-mode")]
    labels = of_pool | makers[0] | makers[1] | kubelet_labels(row.name)
    return wanted.pod.selection.takes(labels) is not Answer.NO
