"""Quotas of Kueue beside what the pools can ever have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_constructs.facts.quantities import quantity
from gpu_constructs.facts.resources import GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.kueue import kueue_objects
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import mappings
from gpu_constructs.preflight.rules.rule import Problem, rule
from gpu_constructs.preflight.scheduling.pool_limits import node_limit


@rule("GPU456", "warning", source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/")
def quota_of_more_gpus_than_the_pools_can_have(case: Case) -> Iterator[Problem]:
    """Quota of more GPUs than the pools can have.

    Kueue admits jobs by its quota alone: the pods beyond what the pools can have stay Pending, and hold what others
    of their job got.

    Fix: Lower nominalQuota to what the pools can have, or raise their maximum.
    """
    cluster = case.cluster
    most = _most(case)
    if most is None or not cluster.whole or cluster.hidden:
        return
    for queue in kueue_objects(cluster, "ClusterQueue"):
        quota = sum(_nominal(queue))
        if quota > most:
            text = f"has a quota of {quota} {GPU}, and all pools together have at most {most}"
            yield Problem(queue, f"ClusterQueue {queue.name}: {text}")


def _nominal(queue: Object) -> Iterable[int]:
    """Return the quota of GPUs of each flavor, where it is known."""
    for group in mappings(queue.spec.get("resourceGroups")):
        for flavor in mappings(group.get("flavors")):
            for each in mappings(flavor.get("resources")):
                if each.get("name") == GPU:
                    yield quantity(GPU, each.get("nominalQuota")) or 0


def _most(case: Case) -> int | None:
    """Return the most GPUs by that name that all pools can have, ``None`` without bound or where it is not known."""
    found = [_most_of(pool, case) for pool in case.gpu_pools]
    return None if None in found or not found else sum(each or 0 for each in found)


def _most_of(pool: Pool, case: Case) -> int | None:
    limits = [(node, node_limit(pool, node)) for node in case.nodes(pool)]
    if any(limit is None or GPU in node.unsaid or not node.device_managers for node, limit in limits):
        return None
    return max((node.most.get(GPU, 0) * (limit or 0) for node, limit in limits), default=0)
