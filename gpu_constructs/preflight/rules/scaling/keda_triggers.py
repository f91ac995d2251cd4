"""Triggers of KEDA that measure GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.scalers import SCALED_OBJECT, Signal, signals, signals_of_gpus
from gpu_constructs.preflight.reading.unknown import known_number
from gpu_constructs.preflight.rules.rule import Problem, rule

_KEDA = "https://keda.sh/docs/2.20/scalers/prometheus/"
_SCALED = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"


@rule("GPU226", "error", source=_SCALED)
def workload_scaled_to_zero_by_a_measurement_of_its_pods(case: Case) -> Iterator[Problem]:
    """Scaled to zero by a measurement of running pods.

    With no pod there is no GPU in use and no measurement, so KEDA never makes the first pod again.

    Fix: Add a trigger of demand, such as the length of a queue, or set minReplicaCount: 1.
    """
    cluster = case.cluster
    for each in cluster.of_kind(SCALED_OBJECT):
        idle = each.spec.get("idleReplicaCount", each.spec.get("minReplicaCount", 0))
        triggers = [one for one in signals(cluster) if one.scaler is each]
        if known_number(idle) == 0 and triggers and not each.spec.get("fallback") and all(map(_needs_pods, triggers)):
            count = "minReplicaCount is 0 unless it is set" if "minReplicaCount" not in each.spec else "scales to 0"
            message = f"{each.kind} {each.namespace}/{each.name}: {count}, and every trigger measures pods that run"
            if any("DCGM_" in one.meaning for one in triggers):
                yield Problem(each, message)


def _needs_pods(signal: Signal) -> bool:
    if signal.kind in ("cpu", "memory"):
        return True
    wakes = re.search(r"\bvector\s*\(\s*[1-9]", signal.meaning) or "kube_" in signal.meaning
    return signal.kind == "prometheus" and "DCGM_" in signal.meaning and not wakes


@rule("GPU230", "warning", source=_KEDA)
def keda_query_that_is_no_sum(case: Case) -> Iterator[Problem]:
    """KEDA query that is no sum.

    KEDA makes query / threshold pods: an average asks for one or two whatever the load, several values fail.

    Fix: Sum over the pods, e.g. sum(max by (exported_pod) (...)), or set metricType: Value for an average.
    """
    for each in signals_of_gpus(case.cluster):
        if each.kind != "prometheus" or not each.per_pod or not each.query:
            continue
        query = each.query.strip()
        if re.match(r"avg\s*(?:\(|by|without)", query):
            yield Problem.of(each, "the query is an average, which KEDA divides by the threshold")
        elif re.match(r"DCGM_\w+\s*(?:\{[^}]*\})?$", query) or re.match(r"(?:sum|max|min)\s+by\b", query):
            yield Problem.of(each, "the query has a value for each GPU or pod, KEDA takes one")


@rule("GPU231", "note", source=_KEDA)
def missing_measurement_that_counts_as_zero(case: Case) -> Iterator[Problem]:
    """Missing measurement counts as zero.

    When the exporter or Prometheus is down, KEDA removes the pods that are busy.

    Fix: Set ignoreNullValues: "false" in the trigger.
    """
    for each in signals_of_gpus(case.cluster):
        if each.kind == "prometheus" and each.null_is_zero and "vector" not in each.query:
            yield Problem.of(each, "no measurement counts as 0, an exporter that is down too")
