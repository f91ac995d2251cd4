"""Quotas of Kueue beside what the pools can ever have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_facts.quantities import quantity
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import flavor_labels, kueue_objects
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import mappings
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.pool_limits import node_limit

_SHOWN = 3


@rule("GPU456", "warning", source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/")
def quota_of_more_gpus_than_the_pools_can_have(case: Case) -> Iterator[Problem]:
    """Quota of more GPUs than the pools can have.

    Kueue admits jobs by its quota alone: the pods beyond what the pools can have stay Pending, and hold what others
    of their job got. The quotas that several queues have of one flavor come together.

    Fix: Lower nominalQuota to what the pools can have, or raise their maximum.
    """
    cluster = case.cluster
    if not cluster.whole or cluster.hidden:
        return
    flavors = {each.name: each for each in kueue_objects(cluster, "ResourceFlavor")}
    told: dict[str, list[tuple[Object, int]]] = {}
    for queue in (each for kind in ("ClusterQueue", "Cohort") for each in kueue_objects(cluster, kind)):
        for name, quota in _nominal(queue) if not _asks_elsewhere(queue) else ():
            told.setdefault(name, []).append((queue, quota))
    over = [
        problem
        for name, quotas in told.items()
        for problem in _beyond(quotas, f"of flavor {name}", _pools_of(flavors.get(name), case), case)
    ]
    every = [each for quotas in told.values() for each in quotas]
    yield from over or _beyond(every, "in all", case.gpu_pools, case)


def _beyond(quotas: Sequence[tuple[Object, int]], of: str, pools: Sequence[Pool], case: Case) -> Iterator[Problem]:
    """Yield that quotas come to more GPUs than some pools can have."""
    quota, most = sum(amount for _, amount in quotas), _most(pools, case)
    if most is None or quota <= most:
        return
    queues = list({id(queue): queue for queue, _ in quotas}.values())
    names = ", ".join(f"{queue.kind} {queue.name}" for queue in queues[:_SHOWN])
    more = f" and {len(queues) - _SHOWN} more" if len(queues) > _SHOWN else ""
    who = f"{names}: has" if len(queues) == 1 else f"{names}{more}: have together"
    text = f"{who} a quota of {quota} {GPU} {of}, and the GPU pools for it have at most {most}"
    yield Problem(queues[0], text)


def _asks_elsewhere(queue: Object) -> bool:
    """Whether a queue admits nobody, or only jobs that another program, or another cluster, has room for.

    Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go (stopPolicy, admissionChecksStrategy)
    """
    stopped = queue.spec.get("stopPolicy") not in (None, "None")
    return stopped or bool(queue.spec.get("admissionChecks") or queue.spec.get("admissionChecksStrategy"))


def _nominal(queue: Object) -> Iterator[tuple[str, int]]:
    """Yield the name of each flavor with its quota of GPUs, where that is known."""
    for group in mappings(queue.spec.get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            for each in mappings(flavor.get("resources")):
                if each.get("name") == GPU:
                    yield str(flavor.get("name")), quantity(GPU, each.get("nominalQuota")) or 0


def _pools_of(flavor: Object | None, case: Case) -> list[Pool]:
    """Return the pools whose nodes have the labels of a flavor, or may; all pools for GPUs where it is not known."""
    if flavor is None:
        return list(case.gpu_pools)
    labelled = {id(pool) for pool, answer in case.pools_with(flavor_labels(flavor)) if answer is not Answer.NO}
    return [pool for pool in case.gpu_pools if id(pool) in labelled]


def _most(pools: Sequence[Pool], case: Case) -> int | None:
    """Return the most GPUs by that name that pools can have, ``None`` without bound or where it is not known."""
    found = [_most_of(pool, case) for pool in pools]
    return None if None in found or not found else sum(each or 0 for each in found)


def _most_of(pool: Pool, case: Case) -> int | None:
    limits = [(node, node_limit(pool, node)) for node in case.nodes(pool)]
    if any(limit is None or GPU in node.unsaid or not node.device_managers for node, limit in limits):
        return None
    return max((node.most.get(GPU, 0) * (limit or 0) for node, limit in limits), default=0)
