"""Autoscalers of pods that ask for more than the pools may ever hold."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import SCALED_OBJECT, horizontal_autoscalers, most_pods, target_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.workload import Workload
from gpu_preflight.rules.rule import Problem, rule


@rule("GPU375", "warning", source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/")
def autoscaler_of_pods_that_goes_beyond_the_pools(case: Case) -> Iterator[Problem]:
    """Autoscaler of pods that goes beyond the pools.

    Under load it makes pods that stay Pending, and the load stays: no pool may have the nodes for them.

    Fix: Raise the maximum of a pool, or lower that of the autoscaler.
    """
    for scaler in (*horizontal_autoscalers(case.cluster), *case.cluster.of_kind(SCALED_OBJECT)):
        workload, most = target_of(scaler, case.cluster), most_pods(scaler)
        if workload is None or most is None or not workload.asks_for_gpu:
            continue
        for text, answer in _beyond(case, workload, most):
            who = f"{scaler.kind} {scaler.namespace}/{scaler.name}"
            message = f"{who}: makes up to {most} pods of {workload.name}; {text}"
            yield Problem(scaler, message, unknown=answer is not Answer.NO or not case.cluster.whole)


def _beyond(case: Case, workload: Workload, most: int) -> Iterator[tuple[str, Answer]]:
    """Yield how many of the most pods run, where that is not all."""
    now = case.verdict(workload)
    if now.answer is Answer.NO:
        return
    then = case.with_replicas(workload, most)
    known = {each.text for each in now.reasons}
    for each in then.reasons:
        if each.rule == "GPU121" and each.text not in known:
            yield each.text, each.answer
