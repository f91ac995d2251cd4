"""Which pods a resource quota counts.

Source: kubernetes/kubernetes v1.36.3 pkg/quota/v1/evaluator/core/pods.go ``podMatchesScopeFunc``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.quantities import resources
from gpu_preflight.model.answer import Answer, all_of, yes_if
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, is_true, items, mapping, mappings

_NO_CLASS = ""
_OF_QUALITY = ("cpu", "memory")


def class_of_the_rest(cluster: Cluster) -> str | Unknown:
    """Return the priority class of pods that name none; empty where there is none."""
    for each in cluster.of_kind("PriorityClass"):
        if is_true(each.content.get("globalDefault")):
            return each.name
    return _NO_CLASS if cluster.sees_objects else Unknown("the default PriorityClass of the cluster")


def counts(quota: Object, pod: Pod, without_class: str | Unknown = _NO_CLASS) -> Answer:
    """Say whether a quota counts a pod.

    Args:
        quota: The quota.
        pod: The pod, as it is let in.
        without_class: The priority class of pods that name none; empty where there is none.
    """
    return all_of(_in_scope(each, pod, without_class) for each in _scopes(quota))


def _scopes(quota: Object) -> Iterator[Mapping[str, Any]]:
    written, selector = quota.spec.get("scopes"), quota.spec.get("scopeSelector")
    for each in [written] if isinstance(written, Unknown) else items(written):
        yield {"scopeName": each, "operator": "Exists"}
    yield from mappings(dig(selector, "matchExpressions"))
    if isinstance(selector, Unknown) or isinstance(dig(selector, "matchExpressions"), Unknown):
        yield {}


def _in_scope(scope: Mapping[str, Any], pod: Pod, without_class: str | Unknown) -> Answer:
    name = scope.get("scopeName")
    if name == "PriorityClass":
        return _is_of_class(scope, pod.priority_class or without_class)
    if name in ("Terminating", "NotTerminating"):
        return _one_of_two(_ends_at_a_deadline(pod), name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return _one_of_two(_is_best_effort(pod), name == "BestEffort")
    if name == "CrossNamespacePodAffinity" and not (_is_open(affinity := pod.written.get("affinity"))):
        return Answer.UNKNOWN if {"podAffinity", "podAntiAffinity"} & {*mapping(affinity)} else Answer.NO
    return Answer.UNKNOWN


def _one_of_two(answer: Answer, wanted: bool) -> Answer:
    return answer if answer is Answer.UNKNOWN else yes_if((answer is Answer.YES) is wanted)


def _ends_at_a_deadline(pod: Pod) -> Answer:
    seconds = pod.written.get("activeDeadlineSeconds")
    return Answer.UNKNOWN if _is_open(seconds) else yes_if(seconds is not None)


def _is_best_effort(pod: Pod) -> Answer:
    parts = [pod.limits, pod.asked, *(part for each in pod.every_container for part in (each.limits, each.asked))]
    if any(resources(part).get(name) for part in parts for name in _OF_QUALITY):
        return Answer.NO
    return Answer.UNKNOWN if pod.is_open else Answer.YES


def _is_of_class(scope: Mapping[str, Any], name: Any) -> Answer:
    operator, values = scope.get("operator"), scope.get("values")
    if _is_open(name) or _is_open(values) or any(map(_is_open, items(values))):
        return Answer.UNKNOWN
    met = {
        "Exists": bool(name),
        "DoesNotExist": not name,
        "In": name in items(values),
        "NotIn": name not in items(values),
    }
    return yes_if(met[operator]) if operator in met else Answer.UNKNOWN


def _is_open(value: Any) -> bool:
    return isinstance(value, Unknown) or (isinstance(value, str) and is_expression(value))
