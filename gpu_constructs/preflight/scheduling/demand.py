"""What a pod asks for, read once and compared often."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.model.node_selection import Selection, selection
from gpu_constructs.preflight.model.pod_size import (
    has_unknown_ports,
    has_unknown_requests,
    host_ports,
    invalid_requests,
    pod_requests,
)
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.quantity import Resources
from gpu_constructs.preflight.scheduling.topology import Topology, topology


@dataclass(frozen=True)
class Demand:
    """What a pod asks for, read once.

    Attributes:
        workload: The pods.
        requests: What one pod asks for.
        selection: What it asks of labels.
        ports: Its host ports.
        topology: What it asks of where it runs.
    """

    workload: Workload
    requests: Resources
    selection: Selection
    ports: frozenset[tuple[str, str, int]]
    topology: Topology = field(default_factory=Topology)

    @cached_property
    def gpus(self) -> int:
        """GPUs, shares or slices that one pod asks for."""
        return sum(amount for name, amount in self.requests.items() if name.startswith("nvidia.com/"))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels that matter to it."""
        terms = [each for term in self.selection.terms or () for each in term.labels]
        return tuple(dict.fromkeys(each.key for each in (*self.selection.selector, *terms)))

    @cached_property
    def selection_key(self) -> str:
        """What tells its demands on labels from others."""
        return repr(self.selection)

    @cached_property
    def tolerations_key(self) -> str:
        """What tells its tolerations from others."""
        return repr(self.workload.pod.get("tolerations"))

    @cached_property
    def requests_key(self) -> str:
        """What tells its requests from others; a text, because it keeps its hash."""
        return repr((*self.requests.items(), self.uncertain))

    @cached_property
    def anywhere(self) -> bool:
        """Whether it may run wherever a node takes it."""
        return self.topology == Topology()

    @cached_property
    def refusals(self) -> list[Reason]:
        """Why the API server would refuse the pod."""
        why = invalid_requests(self.workload.pod)
        return [Reason(Answer.NO, "refused", f"the API server refuses it: {each}") for each in why]

    @cached_property
    def ports_open(self) -> bool:
        """Whether a host port is known at deployment only."""
        return has_unknown_ports(self.workload.pod)

    @cached_property
    def uncertain(self) -> bool:
        """Whether a request is known at deployment only."""
        return has_unknown_requests(self.workload.pod)


def demand(workload: Workload, cluster: Cluster) -> Demand:
    """Return what the pods of a workload ask for."""
    pod = workload.pod
    return Demand(workload, pod_requests(pod), selection(pod), host_ports(pod), topology(workload, cluster))
