"""Resource quotas of claims of storage, and of how many objects a namespace has.

Sources: kubernetes/kubernetes v1.36.3 pkg/quota/v1/evaluator/core/persistent_volume_claims.go,
https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from gpu_facts.quantities import quantity, show
from gpu_preflight.admission.quotas import quotas_of
from gpu_preflight.cluster.objects.storage import Claimed, claimed, made_by_a_stateful_set
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping

_COUNT, _CLAIMS, _STORAGE = "count/", "persistentvolumeclaims", "requests.storage"
_OF_CLASS = ".storageclass.storage.k8s.io/"
_RULE = "GPU130"


def beyond_objects(workload: Workload, cluster: Cluster) -> Iterator[Reason]:
    """Yield why what makes the pods of a workload, or the storage that they claim, is more than a quota allows."""
    for quota in quotas_of(workload.namespace, cluster):
        for name, written in mapping(quota.spec.get("hard")).items():
            if isinstance(written, Unknown):
                yield from _of_unknown(name, workload, cluster, quota)
                continue
            most = quantity(name, written)
            found = [] if most is None else [*_of_owner(name, most, workload, cluster)]
            found += [] if most is None else [*_of_claims(name, most, workload, cluster)]
            for answer, text in found:
                yield Reason(answer, "refused", f"{text}, as ResourceQuota {quota.name} says", rule=_RULE)


def _of_unknown(name: str, workload: Workload, cluster: Cluster, quota: Object) -> Iterator[Reason]:
    """Yield that a quota may refuse what makes the pods, or their claims: its amount is known at deployment only."""
    if any(_of_owner(name, 0, workload, cluster)) or any(_of_claims(name, 0, workload, cluster)):
        text = f"ResourceQuota {quota.name} allows an amount of {name} that only deployment sets"
        yield Reason(Answer.UNKNOWN, "refused", text, rule=_RULE)


def _of_owner(name: str, most: int, workload: Workload, cluster: Cluster) -> Iterator[tuple[Answer, str]]:
    owner = workload.owner
    plural = f"{owner.kind.lower()}s"
    if owner.kind == "Pod" or name != f"{_COUNT}{plural}{f'.{owner.group}' if owner.group else ''}":
        return
    alike = [each.origin for each in cluster.of_kind(owner.kind) if _is_beside(each, owner)]
    place = alike.index(owner.origin) + 1 if owner.origin in alike else 0
    if place > most:
        yield Answer.NO, f"is number {place} of the {plural} of the namespace, which may have {most}"


def _is_beside(each: Object, owner: Object) -> bool:
    return each.group == owner.group and each.namespace == owner.namespace


def _of_claims(name: str, most: int, workload: Workload, cluster: Cluster) -> Iterator[tuple[Answer, str]]:
    if not name.endswith((_CLAIMS, _STORAGE)):
        return
    written = [each for each in cluster.of_kind("PersistentVolumeClaim") if each.namespace == workload.namespace]
    kept = sum(_charge(name, each.spec) for each in written if not _is_made(each, workload, cluster))
    for each in claimed(workload, cluster):
        wanted = _charge(name, each.spec or {}) if each.name and not _is_made(each, workload, cluster) else 0
        if wanted and max(wanted, kept) > most:
            text = f"{each.title} asks for {_shown(name, wanted)}, and the namespace has {_shown(name, most)}"
            yield (Answer.NO, text) if wanted > most else (Answer.UNKNOWN, f"{text} for all of its claims")
    yield from _of_new_claims(name, most, kept, workload, cluster)


def _of_new_claims(
    name: str, most: int, kept: int, workload: Workload, cluster: Cluster
) -> Iterator[tuple[Answer, str]]:
    """Yield why claims that are made for the pods are too many, beside those of the workloads before it."""
    wanted = _made(name, workload, cluster) * _pods(workload)
    taken = 0
    for each in takewhile(lambda each: each is not workload, _in(workload.namespace, cluster)):
        of_each = _made(name, each, cluster) if each.owner.origin != workload.owner.origin and not each.ends else 0
        taken += of_each * min(_pods(each), (most - taken) // of_each) if of_each else 0
    if wanted and wanted + taken + kept > most:
        sure = wanted + taken > most and workload.replicas is not None
        left = _shown(name, max(most - taken, 0))
        text = f"its pods claim {_shown(name, wanted)} in all, and the namespace has {left}"
        yield (Answer.NO, text) if sure else (Answer.UNKNOWN, f"{text}, beside claims that are written there")


def _in(namespace: str, cluster: Cluster) -> Iterator[Workload]:
    return (each for each in cluster.workloads if each.namespace == namespace)


def _made(name: str, workload: Workload, cluster: Cluster) -> int:
    """Return what the claims made for one pod count for."""
    return sum(_charge(name, each.spec or {}) for each in claimed(workload, cluster) if each.name is None)


def _pods(workload: Workload) -> int:
    return 1 if workload.replicas is None or workload.takes_turns else workload.replicas


def _is_made(claim: Object | Claimed, workload: Workload, cluster: Cluster) -> bool:
    return made_by_a_stateful_set(claim.name or "", workload, cluster)


def _charge(name: str, claim: Mapping[str, Any]) -> int:
    """Return what a claim counts for in a quota; nothing where that is not known."""
    of_class, found, rest = name.rpartition(_OF_CLASS)
    if found and known_text(claim.get("storageClassName")) != of_class:
        return 0
    if rest in (_CLAIMS, f"{_COUNT}{_CLAIMS}"):
        return 1 if claim else 0
    if rest == _STORAGE:
        return quantity("storage", dig(claim, "resources", "requests", "storage")) or 0
    return 0


def _shown(name: str, amount: int) -> str:
    resource = name.removeprefix(_COUNT)
    return f"{show('memory' if resource.endswith(_STORAGE) else resource, amount)} {resource}"
