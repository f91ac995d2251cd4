"""Triggers of KEDA that measure GPUs, or the pods that they scale."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.cluster.scalers import SCALED_OBJECT, Signal, signals, signals_of_gpus, target_of
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import known_number
from gpu_preflight.rules.rule import Problem, rule

_KEDA = "https://keda.sh/docs/2.20/scalers/prometheus/"
_SCALED = "https://keda.sh/docs/2.20/reference/scaledobject-spec/"
# How the names of what a model server reports of itself begin, by a part of its image.
# Sources: docs.vllm.ai/en/v0.11.0/usage/metrics.html, docs.sglang.ai/references/production_metrics.html,
# huggingface.co/docs/text-generation-inference/reference/metrics, huggingface/text-embeddings-inference v1.8
# README.md, triton-inference-server/server r25.10 docs/user_guide/metrics.md
_OF_SERVERS = (
    ("vllm", re.compile(r"\bvllm:")),
    ("sglang", re.compile(r"\bsglang:")),
    ("text-generation-inference", re.compile(r"\btgi_")),
    ("text-embeddings-inference", re.compile(r"\bte_")),
    ("tritonserver", re.compile(r"\bnv_inference_")),
)
# What a router in front of the servers counts, it counts while there is none.
_OF_ROUTERS = ("incoming", "router", "gateway")


@rule("GPU226", "error", source=_SCALED, stops=False)
def workload_scaled_to_zero_by_a_measurement_of_its_pods(case: Case) -> Iterator[Problem]:
    """Scaled to zero by a measurement of running pods.

    With no pod there is no GPU in use and no measurement, so KEDA never makes the first pod again.

    Fix: Add a trigger of demand, such as the length of a queue, or set minReplicaCount: 1.
    """
    cluster = case.cluster
    for each in cluster.of_kind(SCALED_OBJECT):
        idle = each.spec.get("idleReplicaCount", each.spec.get("minReplicaCount", 0))
        triggers = [one for one in signals(cluster) if one.scaler is each]
        if known_number(idle) != 0 or not triggers or each.spec.get("fallback"):
            continue
        own, any_server = _of_its_server(target_of(each, cluster))
        measured = [_measured(one, own) for one in triggers]
        asleep = [bool(_measured(one, own)) or one.kind in ("cpu", "memory") for one in triggers]
        if any(measured) and all(asleep):
            count = "minReplicaCount is 0 unless it is set" if "minReplicaCount" not in each.spec else "scales to 0"
            names = sorted({name for one in measured for name in one})
            sure = not any_server or any(name.startswith("DCGM_") for name in names)
            what = f"every trigger measures pods that run ({', '.join(names)})"
            yield Problem(each, f"{each.kind} {each.namespace}/{each.name}: {count}, and {what}", unknown=not sure)


def _of_its_server(workload: Workload | None) -> tuple[tuple[re.Pattern[str], ...], bool]:
    """Return what the metrics of a workload's own server look like, and whether that is a guess.

    A GPU pod of an image that says nothing may be any server.
    """
    images = [each.image_text for each in workload.containers] if workload else []
    known = tuple(names for part, names in _OF_SERVERS if any(part in image for image in images))
    guessed = not known and workload is not None and workload.asks_for_gpu
    return (tuple(names for _, names in _OF_SERVERS) if guessed else known), guessed


def _measured(signal: Signal, own: tuple[re.Pattern[str], ...]) -> list[str]:
    """Return what a trigger reads that has no value while no pod runs."""
    wakes = re.search(r"\bvector\s*\(\s*[1-9]", signal.meaning) or "kube_" in signal.meaning
    if signal.kind != "prometheus" or wakes or any(word in signal.meaning for word in _OF_ROUTERS):
        return []
    read = re.findall(r"[a-zA-Z_:][\w:]*", re.sub(r"\"[^\"]*\"|'[^']*'", "", signal.meaning))
    return [each for each in read if each.startswith("DCGM_") or any(names.match(each) for names in own)]


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
