"""The verdict on each workload, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_constructs.preflight.model import Cluster, Workload
from gpu_constructs.preflight.packing import PoolUse, pack
from gpu_constructs.preflight.scheduling import Scheduler, Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of some workloads in one cluster.

    Attributes:
        cluster: The cluster.
        verdicts: The verdict on each, as if it were alone.
        uses: What each pool has to run when all come at once.
        left: Replicas without a node then, by workload.
    """

    cluster: Cluster
    verdicts: tuple[Verdict, ...]
    uses: tuple[PoolUse, ...]
    left: tuple[tuple[Workload, int], ...]


def explain(cluster: Cluster, workloads: Iterable[Workload] | None = None) -> Explanation:
    """Judge workloads against the pools of a cluster.

    Args:
        cluster: The cluster.
        workloads: The workloads. Default: those of the cluster that ask for a GPU.
    """
    judged = [each for each in cluster.workloads if each.asks_for_gpu] if workloads is None else list(workloads)
    scheduler = Scheduler(cluster)
    verdicts = tuple(scheduler.verdict(each) for each in judged)
    uses, left = pack(verdicts)
    return Explanation(cluster, verdicts, uses, left)
