"""Resource quotas: which pods and objects they count, and how many more they admit.

Source: kubernetes/kubernetes v1.36.2 pkg/quota/v1/evaluator/core/pods.go

The module also checks resource quotas for storage claims, and for the number of objects in a namespace.

Sources: kubernetes/kubernetes v1.36.3 pkg/quota/v1/evaluator/core/persistent_volume_claims.go,
https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count (2026-11)

The source for which pods a resource quota counts:
kubernetes/kubernetes v1.36.3 pkg/quota/v1/evaluator/core/pods.go ``podMatchesScopeFunc``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import takewhile
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import Resources, add, quantity, resources, show
from gpu_preflight.cluster.storage import Claimed, claimed, is_stateful_set_claim
from gpu_preflight.model.answer import Answer, Reason, all_yes, yes_if
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, is_true, items, known_text, mapping, mappings

_NO_CLASS = ""
_OF_QUALITY = ("cpu", "memory")
_REQUESTS, _LIMITS, _COUNT = "requests.", "limits.", "count/"
# If a quota counts these resources, every container must have a request or limit of them.
_SAID = ("cpu", "memory")
# Amounts by the name of a quota and the name of the counted resource.
Taken = Counter[tuple[str, str]]
_COUNT_PREFIX, _CLAIMS, _STORAGE = "count/", "persistentvolumeclaims", "requests.storage"
_OF_CLASS = ".storageclass.storage.k8s.io/"
_RULE = "GPU130"


def class_of_the_rest(cluster: Cluster) -> str | Unknown:
    """Return the priority class of pods that name none; empty if there is none."""
    for each in cluster.objects_of_kind("PriorityClass"):
        if is_true(each.content.get("globalDefault")):
            return each.name
    return _NO_CLASS if cluster.sees_objects else Unknown("the default PriorityClass of the cluster")


def counts(quota: Object, pod: Pod, without_class: str | Unknown = _NO_CLASS) -> Answer:
    """Return whether a quota counts a pod.

    Args:
        quota: The quota.
        pod: The pod after admission.
        without_class: The priority class of pods that name none; empty if there is none.
    """
    return all_yes(_in_scope(each, pod, without_class) for each in _scopes(quota))


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


def resource_quotas(namespace: str, cluster: Cluster) -> list[Object]:
    """Return the quotas of a namespace."""
    return [each for each in cluster.objects_of_kind("ResourceQuota") if each.namespace == namespace]


@dataclass(frozen=True, slots=True)
class _Use:
    """Amounts of quotas that workloads use.

    Attributes:
        certain: Amounts of workloads with a known number of pods, which certainly count.
        likely: Amounts of all workloads, with one pod for a workload with an unknown number of pods.
    """

    certain: Taken = field(default_factory=Counter)
    likely: Taken = field(default_factory=Counter)

    def copy(self) -> _Use:
        """Return a copy."""
        return _Use(self.certain.copy(), self.likely.copy())


@dataclass(frozen=True, slots=True)
class Shortage:
    """A quota that has too little left for a workload.

    Attributes:
        quota: The quota.
        name: The name in it.
        resource: The resource that it counts.
        needed: The amount that it would need, including the workloads before this one.
        for_each: The amount that it leaves for each pod.
    """

    quota: Object
    name: str
    resource: str
    needed: int
    for_each: int


class NamespaceQuotas:
    """The quotas of one namespace, and the amounts that its workloads leave, in the order in which they are written.

    Args:
        quotas: The quotas.
        workloads: The workloads of the namespace, after the other admission plugins.
        without_class: The priority class of pods that name none; empty if there is none.
    """

    def __init__(
        self, quotas: Iterable[Object], workloads: Iterable[Workload], without_class: str | Unknown = ""
    ) -> None:
        self._quotas = {quota.name: quota for quota in quotas}
        self._without_class = without_class
        self._most = {
            (quota.name, name): most for quota in self._quotas.values() for name, most in _hard(quota).items()
        }
        self._unknown = [(quota.name, name) for quota in self._quotas.values() for name in _unknown_amounts(quota)]
        self._before: dict[tuple[str, Origin], _Use] = {}
        self._taken = _Use()
        for each in workloads:
            self._before[each.name, each.origin] = self._taken.copy()
            # Pods that end, or that are suspended, free their part of the quota.
            if not (each.ends or each.suspended):
                self._take(each)

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def _counting(self, pod: Pod) -> dict[str, Answer]:
        """Return the quotas that count a pod, or may count it."""
        answers = {name: counts(quota, pod, self._without_class) for name, quota in self._quotas.items()}
        return {name: answer for name, answer in answers.items() if answer is not Answer.NO}

    def _take(self, workload: Workload) -> None:
        """Count the pods of a workload that are admitted."""
        counting = self._counting(workload.pod)
        most = {key: amount for key, amount in self._most.items() if key[0] in counting}
        if any(_unsaid(name, workload.pod) for _, name in most):
            return
        usage = {(quota, name): _usage(name, workload.pod) for quota, name in most}
        room = (max(most[key] - self._taken.likely[key], 0) // each for key, each in usage.items() if each)
        let_in = min((*room, _pods(workload)))
        taken = {key: each * let_in for key, each in usage.items()}
        self._taken.likely.update(taken)
        if workload.replicas is not None and Answer.UNKNOWN not in counting.values():
            self._taken.certain.update(taken)

    def refusals(self, workload: Workload) -> Iterator[Reason]:
        """Yield why pods of a workload are rejected, or may be rejected."""
        if not self:
            return
        taken = self._before.get((workload.name, workload.origin), self._taken)
        counting = self._counting(workload.pod)
        for (quota, name), most in self._most.items():
            if quota not in counting:
                continue
            key = quota, name
            sure = _unsaid(name, workload.pod) or _quota_excess_text(
                name, most, _certain(taken, key, workload), workload
            )
            text = sure or _quota_excess_text(name, most, taken.likely[key], workload)
            if text:
                answer = Answer.NO if sure and counting[quota] is Answer.YES else Answer.UNKNOWN
                field = "limits" if name.startswith(_LIMITS) else "requests"
                silent = _unsaid(name, workload.pod) is not None
                fix = f"Raise {name} in spec.hard of the ResourceQuota, or lower the requests or the replicas."
                fix = f"Set {_resource(name)} in resources.{field} of every container." if silent else fix
                yield Reason(answer, "refused", f"{text} (ResourceQuota {quota})", rule="GPU130", fix=fix)
        for quota, name in self._unknown:
            if quota in counting and (not name or _usage(name, workload.pod) or _unsaid(name, workload.pod)):
                text = (
                    f"ResourceQuota {quota} allows an amount{f' of {name}' if name else ''} that is known only at "
                    "deployment"
                )
                yield Reason(Answer.UNKNOWN, "refused", text, rule="GPU130")

    def shortages(self, workload: Workload) -> Iterator[Shortage]:
        """Yield the quotas that have too little left for all pods of a workload."""
        taken = self._before.get((workload.name, workload.origin), self._taken).likely
        pods = _pods(workload)
        for (quota, name), most in self._most.items():
            wanted, used = _usage(name, workload.pod) * pods, taken[quota, name]
            if quota in self._counting(workload.pod) and wanted and wanted + used > most:
                left = max(most - used, 0) // pods
                yield Shortage(self._quotas[quota], name, _resource(name), wanted + used, left)


def _certain(taken: _Use, key: tuple[str, str], workload: Workload) -> int:
    """Return the amounts that other workloads certainly use; nothing if the workload may have no pods itself."""
    return 0 if workload.replicas is None else taken.certain[key]


def _hard(quota: Object) -> dict[str, int]:
    hard = mapping(quota.spec.get("hard"))
    amounts = {name: quantity(_resource(name), value) for name, value in hard.items()}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _unknown_amounts(quota: Object) -> list[str]:
    """Return the names of a quota whose amounts are known at deployment only; an empty name means all of them."""
    hard = quota.spec.get("hard")
    if isinstance(hard, Unknown):
        return [""]
    return [name for name, value in mapping(hard).items() if isinstance(value, Unknown)]


def _resource(name: str) -> str:
    """Return the resource that an entry of a quota counts."""
    for prefix in (_REQUESTS, _LIMITS, _COUNT):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _unsaid(name: str, pod: Pod) -> str | None:
    """Return the first container without an amount that the quota requires of every container."""
    resource = _resource(name)
    if resource not in _SAID or pod.is_open or resource in {*resources(pod.asked), *resources(pod.limits)}:
        return None
    limited = name.startswith(_LIMITS)
    silent = next((each for each in pod.every_container if resource not in _limits_or_requests(each, limited)), None)
    word = "limit" if limited else "request"
    return f"container {silent.name} must have a {word} of {resource}" if silent else None


def _limits_or_requests(container: Container, limited: bool) -> Resources:
    return resources(container.limits) if limited else container.requests


def _quota_excess_text(name: str, most: int, taken: int, workload: Workload) -> str | None:
    """Return why a workload exceeds the rest of a quota, or ``None``."""
    resource, wanted = _resource(name), _usage(name, workload.pod) * _pods(workload)
    if not wanted or wanted + taken <= most:
        return None
    left = f"{show(resource, most)} {resource}"
    if wanted <= most:
        left = f"{show(resource, max(most - taken, 0))} of {left} left after the workloads before it"
    return f"requests {show(resource, wanted)} {resource} in total, but the namespace has {left}"


def _usage(name: str, pod: Pod) -> int:
    resource = _resource(name)
    amounts: Mapping[str, int] = _limits(pod) if name.startswith(_LIMITS) else pod.requests
    return amounts.get(resource, 0)


def _limits(pod: Pod) -> Resources:
    return add(*(resources(each.limits) for each in pod.containers or ())) | resources(pod.limits)


def _pods(workload: Workload) -> int:
    return 1 if workload.replicas is None or workload.takes_turns else workload.replicas


def object_quota_violations(workload: Workload, cluster: Cluster) -> Iterator[Reason]:
    """Yield why the owner of a workload's pods, or the storage that they claim, exceeds a quota."""
    for quota in resource_quotas(workload.namespace, cluster):
        for name, written in mapping(quota.spec.get("hard")).items():
            if isinstance(written, Unknown):
                yield from _unknown_quota_reasons(name, workload, cluster, quota)
                continue
            most = quantity(name, written)
            found = [] if most is None else [*_owner_count_violations(name, most, workload, cluster)]
            found += [] if most is None else [*_claim_violations(name, most, workload, cluster)]
            for answer, text in found:
                yield Reason(answer, "refused", f"{text} (ResourceQuota {quota.name})", rule=_RULE)


def _unknown_quota_reasons(name: str, workload: Workload, cluster: Cluster, quota: Object) -> Iterator[Reason]:
    """Yield that a quota may reject the owner of the pods, or their claims: its amount is known at deployment only."""
    if any(_owner_count_violations(name, 0, workload, cluster)) or any(_claim_violations(name, 0, workload, cluster)):
        text = f"ResourceQuota {quota.name} allows an amount of {name} that is known only at deployment"
        yield Reason(Answer.UNKNOWN, "refused", text, rule=_RULE)


def _owner_count_violations(name: str, most: int, workload: Workload, cluster: Cluster) -> Iterator[tuple[Answer, str]]:
    owner = workload.owner
    plural = f"{owner.kind.lower()}s"
    if owner.kind == "Pod" or name != f"{_COUNT_PREFIX}{plural}{f'.{owner.group}' if owner.group else ''}":
        return
    alike = [each.origin for each in cluster.objects_of_kind(owner.kind) if _is_beside(each, owner)]
    place = alike.index(owner.origin) + 1 if owner.origin in alike else 0
    if place > most:
        yield Answer.NO, f"is number {place} of the {plural} of the namespace, but the quota of the namespace is {most}"


def _is_beside(each: Object, owner: Object) -> bool:
    return each.group == owner.group and each.namespace == owner.namespace


def _claim_violations(name: str, most: int, workload: Workload, cluster: Cluster) -> Iterator[tuple[Answer, str]]:
    if not name.endswith((_CLAIMS, _STORAGE)):
        return
    written = [
        each for each in cluster.objects_of_kind("PersistentVolumeClaim") if each.namespace == workload.namespace
    ]
    kept = sum(_charge(name, each.spec) for each in written if not _is_made(each, workload, cluster))
    for each in claimed(workload, cluster):
        wanted = _charge(name, each.spec or {}) if each.name and not _is_made(each, workload, cluster) else 0
        if wanted and max(wanted, kept) > most:
            asked, allowed = _format_amount(name, wanted), _format_amount(name, most)
            text = f"{each.title} requests {asked}, and the namespace has {allowed}"
            yield (Answer.NO, text) if wanted > most else (Answer.UNKNOWN, f"{text} for all of its claims")
    yield from _new_claim_violations(name, most, kept, workload, cluster)


def _new_claim_violations(
    name: str, most: int, kept: int, workload: Workload, cluster: Cluster
) -> Iterator[tuple[Answer, str]]:
    """Yield why the claims created for the pods exceed a quota, together with the claims of earlier workloads."""
    wanted = _new_claim_charge(name, workload, cluster) * _pods(workload)
    taken = 0
    for each in takewhile(lambda each: each is not workload, _namespace_workloads(workload.namespace, cluster)):
        of_each = (
            _new_claim_charge(name, each, cluster)
            if each.owner.origin != workload.owner.origin and not each.ends
            else 0
        )
        taken += of_each * min(_pods(each), (most - taken) // of_each) if of_each else 0
    if wanted and wanted + taken + kept > most:
        sure = wanted + taken > most and workload.replicas is not None
        left = _format_amount(name, max(most - taken, 0))
        text = f"its pods claim {_format_amount(name, wanted)} in total, but the namespace has {left}"
        yield (Answer.NO, text) if sure else (Answer.UNKNOWN, f"{text}, together with claims in the input")


def _namespace_workloads(namespace: str, cluster: Cluster) -> Iterator[Workload]:
    return (each for each in cluster.workloads if each.namespace == namespace)


def _new_claim_charge(name: str, workload: Workload, cluster: Cluster) -> int:
    """Return the amount that the claims created for one pod count."""
    return sum(_charge(name, each.spec or {}) for each in claimed(workload, cluster) if each.name is None)


def _is_made(claim: Object | Claimed, workload: Workload, cluster: Cluster) -> bool:
    return is_stateful_set_claim(claim.name or "", workload, cluster)


def _charge(name: str, claim: Mapping[str, Any]) -> int:
    """Return the amount that a claim counts in a quota; 0 if it isn't known."""
    of_class, found, rest = name.rpartition(_OF_CLASS)
    if found and known_text(claim.get("storageClassName")) != of_class:
        return 0
    if rest in (_CLAIMS, f"{_COUNT_PREFIX}{_CLAIMS}"):
        return 1 if claim else 0
    if rest == _STORAGE:
        return quantity("storage", dig(claim, "resources", "requests", "storage")) or 0
    return 0


def _format_amount(name: str, amount: int) -> str:
    resource = name.removeprefix(_COUNT_PREFIX)
    return f"{show('memory' if resource.endswith(_STORAGE) else resource, amount)} {resource}"
