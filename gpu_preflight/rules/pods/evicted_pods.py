"""Pods that the taints of their nodes put off again."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.taints import Taint, stay
from gpu_preflight.rules.rule import Problem, rule

_SOURCE = "https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions"


@rule("GPU458", "warning", source=_SOURCE)
def pod_that_its_node_evicts_after_a_while(case: Case) -> Iterator[Problem]:
    """Pod that is evicted after a while.

    A toleration with tolerationSeconds lets a pod stay that long beside a NoExecute taint. The taint of a pool never
    goes, so every pod is evicted, and the next one too.

    Fix: Leave tolerationSeconds out of the toleration.
    """
    if not any(_lasting(each) for each in case.cluster.pools):
        return
    for verdict in case.verdicts:
        pod = verdict.workload.pod
        if all(each.seconds is None for each in pod.tolerations):
            continue
        pools = [each.pool for each in verdict.pools if each.answer is not Answer.NO]
        for_a_while = [(pool, *found) for pool in pools if (found := _shortest_stay(pod, pool)) is not None]
        if for_a_while:
            pool, taint, seconds = for_a_while[0]
            text = f"its pods are evicted from pool {pool.name} after {seconds} s: they tolerate {taint} for that long"
            yield Problem.of(verdict.workload, text, unknown=len(for_a_while) < len(pools))


def _shortest_stay(pod: Pod, pool: Pool) -> tuple[Taint, int] | None:
    """Return the taint of a pool that puts a pod off first, and after how many seconds."""
    found = [(taint, stay(pod.tolerations, taint)) for taint in _lasting(pool)]
    timed = [(taint, seconds) for taint, seconds in found if isinstance(seconds, int) and seconds > 0]
    return min(timed, key=lambda each: each[1], default=None)


def _lasting(pool: Pool) -> list[Taint]:
    return [each for each in pool.taints if each.effect == "NoExecute"]
