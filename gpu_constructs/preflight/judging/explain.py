"""The verdict on each workload, and on all of them together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.cluster import Workload
from gpu_constructs.preflight.scheduling.packing import Packing, pack
from gpu_constructs.preflight.scheduling.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """What becomes of some workloads in one cluster.

    Attributes:
        case: The cluster.
        verdicts: The verdict on each, as if it were alone.
        packing: What each pool has to run when all come at once.
    """

    case: Case
    verdicts: tuple[Verdict, ...]
    packing: Packing


def explain(case: Case, workloads: Iterable[Workload] | None = None) -> Explanation:
    """Judge workloads against the pools of a cluster.

    Args:
        case: The cluster.
        workloads: Some of its workloads. Default: those that ask for a GPU.
    """
    if workloads is None:
        return Explanation(case, case.verdicts, case.packing)
    verdicts = tuple(map(case.verdict, workloads))
    return Explanation(case, verdicts, pack(verdicts))
