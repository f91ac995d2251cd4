"""Resource quotas: how many pods a namespace lets in.

Source: kubernetes/kubernetes v1.36.2 pkg/quota/v1/evaluator/core/pods.go
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpu_constructs.facts.quantities import Resources, add, quantity, resources, show
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Workload
from gpu_constructs.preflight.model.container import Container
from gpu_constructs.preflight.model.pod import Pod
from gpu_constructs.preflight.model.reason import Reason
from gpu_constructs.preflight.reading.objects import Object, Origin
from gpu_constructs.preflight.reading.unknown import mapping

_REQUESTS, _LIMITS, _COUNT = "requests.", "limits.", "count/"
# Of these every container must say how much it takes, where a quota counts them.
_SAID = ("cpu", "memory")
# Amounts by the name of a quota and the name of what it counts.
Taken = Counter[tuple[str, str]]


def quotas_of(namespace: str, cluster: Cluster) -> list[Object]:
    """Return the quotas that every pod of a namespace counts against."""
    return [
        each
        for each in cluster.of_kind("ResourceQuota")
        if each.namespace == namespace and not (each.spec.get("scopes") or each.spec.get("scopeSelector"))
    ]


class NamespaceQuotas:
    """The quotas of one namespace, and what its workloads leave of them in the order in which they are written.

    Args:
        quotas: The quotas.
        workloads: The workloads of the namespace, as the other plugins let them in.
    """

    def __init__(self, quotas: Iterable[Object], workloads: Iterable[Workload]) -> None:
        self._most = {(quota.name, name): most for quota in quotas for name, most in _hard(quota).items()}
        self._before: dict[tuple[str, Origin], Taken] = {}
        self._taken: Taken = Counter()
        for each in workloads:
            self._before[each.name, each.origin] = self._taken.copy()
            # Pods that end, or wait to be released, leave their place to others.
            if not (each.ends or each.suspended):
                self._take(each)

    def _take(self, workload: Workload) -> None:
        """Count as many pods of a workload as are let in."""
        if any(_unsaid(name, workload.pod) for _, name in self._most):
            return
        usage = {(quota, name): _usage(name, workload.pod) for quota, name in self._most}
        room = (max(self._most[key] - self._taken[key], 0) // each for key, each in usage.items() if each)
        let_in = min((*room, _pods(workload)))
        self._taken.update({key: each * let_in for key, each in usage.items()})

    def refusals(self, workload: Workload) -> Iterator[Reason]:
        """Yield why pods of a workload are refused."""
        taken = self._before.get((workload.name, workload.origin), self._taken)
        for (quota, name), most in self._most.items():
            text = _unsaid(name, workload.pod) or _beyond(name, most, taken[quota, name], workload)
            if text:
                yield Reason(Answer.NO, "refused", f"{text}, as ResourceQuota {quota} says", rule="GPU130")


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


def _beyond(name: str, most: int, taken: int, workload: Workload) -> str | None:
    """Return by how much a workload is more than a quota leaves."""
    resource, wanted = _resource(name), _usage(name, workload.pod) * _pods(workload)
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
