"""What a pod asks for, once it is let in: read once and compared often."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import Resources
from gpu_facts.resources import DEVICE_CLASS, NVIDIA
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.scheduling.claims import ClaimedGpus, claimed_gpus
from gpu_preflight.scheduling.topology import Topology, topology


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
