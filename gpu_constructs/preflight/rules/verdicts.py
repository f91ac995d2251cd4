"""The verdict on every GPU workload of a cluster, made once for all the rules that ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.model import Cluster, Pool, Workload
from gpu_constructs.preflight.scheduling import PoolVerdict, Scheduler, Verdict
from gpu_constructs.preflight.unknown import items

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
JOBS = ("Job", "CronJob", "ScaledJob")
_KEPT_AS = "_gpu_verdicts"


def gpu_verdicts(cluster: Cluster) -> tuple[Verdict, ...]:
    """Return the verdict on each workload that asks for GPUs."""
    kept = vars(cluster)
    if _KEPT_AS not in kept:
        scheduler = Scheduler(cluster)
        flavors = [one for each in cluster.of_kind("ResourceFlavor") for one in items(each.spec.get("tolerations"))]
        asking = [each for each in cluster.workloads if each.asks_for_gpu]
        # As a cached property keeps its value.
        kept[_KEPT_AS] = tuple(replace(scheduler.verdict(_admitted(each, flavors)), workload=each) for each in asking)
    verdicts: tuple[Verdict, ...] = kept[_KEPT_AS]
    return verdicts


def is_queued(workload: Workload) -> bool:
    """Whether Kueue decides when the workload starts."""
    return QUEUE_LABEL in workload.owner.labels or QUEUE_LABEL in workload.labels


def _admitted(workload: Workload, tolerations: list[Any]) -> Workload:
    """Return a workload with what Kueue adds to its pods when it lets them in: the tolerations of a flavor."""
    if not tolerations or not is_queued(workload):
        return workload
    return replace(
        workload, pod={**workload.pod, "tolerations": [*items(workload.pod.get("tolerations")), *tolerations]}
    )


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
