"""The verdict on every GPU workload of a cluster, made once for all the rules that ask."""

from __future__ import annotations

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import Cluster, Pool, Workload
from gpu_constructs.preflight.scheduling import PoolVerdict, Scheduler, Verdict

_KEPT_AS = "_gpu_verdicts"


def gpu_verdicts(cluster: Cluster) -> tuple[Verdict, ...]:
    """Return the verdict on each workload that asks for GPUs."""
    kept = vars(cluster)
    if _KEPT_AS not in kept:
        scheduler = Scheduler(cluster)
        # As a cached property keeps its value.
        kept[_KEPT_AS] = tuple(scheduler.verdict(each) for each in cluster.workloads if each.asks_for_gpu)
    verdicts: tuple[Verdict, ...] = kept[_KEPT_AS]
    return verdicts


def no_reasons(verdict: PoolVerdict) -> tuple[str, ...]:
    """Return why a pool surely does not take the pods."""
    return tuple(dict.fromkeys(each.text for each in verdict.reasons if each.answer is Answer.NO))


def only_limited(verdict: PoolVerdict) -> bool:
    """Whether a pool takes the pods, though not all of them."""
    limited = verdict.binding is not None and not verdict.binding.startswith("no node")
    return limited and all(each.kind == "limit" for each in verdict.reasons if each.answer is Answer.NO)


def taking(cluster: Cluster, workload: Workload) -> tuple[Pool, ...]:
    """Return the GPU pools that a workload may run on."""
    for verdict in gpu_verdicts(cluster):
        if verdict.workload is workload:
            return tuple(each.pool for each in verdict.pools if each.answer is not Answer.NO or only_limited(each))
    return ()
