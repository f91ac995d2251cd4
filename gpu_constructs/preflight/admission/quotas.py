"""Resource quotas: how many pods a namespace lets in.

Source: kubernetes/kubernetes v1.36.2 pkg/quota/v1/evaluator/core/pods.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpu_constructs.facts.quantities import Resources, add, quantity, resources, show
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.model.container import Container
from gpu_constructs.preflight.model.pod import Pod
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import mapping

_REQUESTS, _LIMITS, _COUNT = "requests.", "limits.", "count/"
# Of these every container must say how much it takes, where a quota counts them.
_SAID = ("cpu", "memory")


def quotas_of(namespace: str, cluster: Cluster) -> list[Object]:
    """Return the quotas that every pod of a namespace counts against."""
    return [
        each
        for each in cluster.of_kind("ResourceQuota")
        if each.namespace == namespace and not (each.spec.get("scopes") or each.spec.get("scopeSelector"))
    ]


def over_quota(workload: Workload, quotas: Iterable[Object], before: Iterable[Workload]) -> Iterator[Reason]:
    """Yield why pods of a workload are refused.

    Args:
        workload: The workload, as it is let in.
        quotas: The quotas of its namespace.
        before: The workloads of the namespace that come before it, and stay.
    """
    others = list(before)
    for quota in quotas:
        for name, most in _hard(quota).items():
            text = _unsaid(name, workload.pod) or _beyond(name, most, workload, others)
            if text:
                yield Reason(Answer.NO, "refused", f"{text}, as ResourceQuota {quota.name} says", rule="GPU130")


def _hard(quota: Object) -> dict[str, int]:
    hard = mapping(quota.spec.get("hard"))
    amounts = {name: quantity(_resource(name), value) for name, value in hard.items()}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _resource(name: str) -> str:
    """Return the resource that a name of a quota counts."""
    for prefix in (_REQUESTS, _LIMITS, _COUNT):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _unsaid(name: str, pod: Pod) -> str | None:
    """Return which container does not say what the quota wants of every container."""
    resource = _resource(name)
    if resource not in _SAID or pod.is_open or resource in {*resources(pod.asked), *resources(pod.limits)}:
        return None
    limited = name.startswith(_LIMITS)
    silent = next((each for each in pod.every_container if resource not in _said(each, limited)), None)
    word = "limit" if limited else "request"
    return f"container {silent.name} must have a {word} of {resource}" if silent else None


def _said(container: Container, limited: bool) -> Resources:
    return resources(container.limits) if limited else container.requests


def _beyond(name: str, most: int, workload: Workload, before: Iterable[Workload]) -> str | None:
    """Return by how much a workload is more than a quota leaves."""
    resource, each = _resource(name), _usage(name, workload.pod)
    wanted, taken = each * _pods(workload), sum(_usage(name, one.pod) * _pods(one) for one in before)
    if not wanted or wanted + taken <= most:
        return None
    left = f"{show(resource, most)} {resource}"
    if wanted <= most:
        left = f"{show(resource, max(most - taken, 0))} of {left} beside the workloads before it"
    return f"asks for {show(resource, wanted)} {resource} in all, and the namespace has {left}"


def _usage(name: str, pod: Pod) -> int:
    resource = _resource(name)
    amounts: Mapping[str, int] = _limits(pod) if name.startswith(_LIMITS) else pod.requests
    return amounts.get(resource, 0)


def _limits(pod: Pod) -> Resources:
    return add(*(resources(each.limits) for each in pod.containers or ())) | resources(pod.limits)


def _pods(workload: Workload) -> int:
    return 1 if workload.replicas is None or workload.takes_turns else workload.replicas
