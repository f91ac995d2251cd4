"""Triggers of KEDA that measure GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.preflight.model import Cluster
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.rules.scaling_signals import signals_of_gpus
from gpu_constructs.preflight.scalers import SCALED_OBJECT, Signal, signals
from gpu_constructs.preflight.unknown import known_number

_KEDA = "https://keda.sh/docs/2.20/scalers/prometheus/"
_SCALED = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"


def _asleep(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind(SCALED_OBJECT):
        idle = each.spec.get("idleReplicaCount", each.spec.get("minReplicaCount", 0))
        triggers = [one for one in signals(cluster) if one.scaler is each]
        if known_number(idle) == 0 and triggers and not each.spec.get("fallback") and all(map(_needs_pods, triggers)):
            count = "minReplicaCount is 0 unless it is set" if "minReplicaCount" not in each.spec else "scales to 0"
            message = f"{each.kind} {each.namespace}/{each.name}: {count}, and every trigger measures pods that run"
            if any("DCGM_" in one.meaning for one in triggers):
                yield Problem(each.origin, message)


def _needs_pods(signal: Signal) -> bool:
    if signal.kind in ("cpu", "memory"):
        return True
    wakes = re.search(r"\bvector\s*\(\s*[1-9]", signal.meaning) or "kube_" in signal.meaning
    return signal.kind == "prometheus" and "DCGM_" in signal.meaning and not wakes


def _averages(cluster: Cluster) -> Iterator[Problem]:
    for each in signals_of_gpus(cluster):
        if each.kind != "prometheus" or not each.per_pod or not each.query:
            continue
        query = each.query.strip()
        if re.match(r"avg\s*(?:\(|by|without)", query):
            yield Problem(
                each.scaler.origin, f"{each.place}: the query is an average, which KEDA divides by the threshold"
            )
        elif re.match(r"DCGM_\w+\s*(?:\{[^}]*\})?$", query) or re.match(r"(?:sum|max|min)\s+by\b", query):
            yield Problem(
                each.scaler.origin, f"{each.place}: the query has a value for each GPU or pod, KEDA takes one"
            )


def _silence(cluster: Cluster) -> Iterator[Problem]:
    for each in signals_of_gpus(cluster):
        if each.kind == "prometheus" and each.null_is_zero and "vector" not in each.query:
            yield Problem(each.scaler.origin, f"{each.place}: no measurement counts as 0, an exporter that is down too")


RULES = (
    Rule(
        id="GPU226",
        severity="error",
        title="Scaled to zero by a measurement of running pods",
        why="With no pod there is no GPU in use and no measurement, so KEDA never makes the first pod again.",
        source=_SCALED,
        fix="Add a trigger of demand, such as the length of a queue, or set minReplicaCount: 1.",
        causes=("S11",),
        check=_asleep,
    ),
    Rule(
        id="GPU230",
        severity="warning",
        title="KEDA query that is no sum",
        why="KEDA makes query / threshold pods: an average asks for one or two whatever the load, several values fail.",
        source=_KEDA,
        fix="Sum over the pods, e.g. sum(max by (exported_pod) (...)), or set metricType: Value for an average.",
        causes=("M4",),
        check=_averages,
    ),
    Rule(
        id="GPU231",
        severity="note",
        title="Missing measurement counts as zero",
        why="When the exporter or Prometheus is down, KEDA removes the pods that are busy.",
        source=_KEDA,
        fix='Set ignoreNullValues: "false" in the trigger.',
        causes=("M5",),
        check=_silence,
    ),
)
