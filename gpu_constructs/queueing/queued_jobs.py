"""What jobs in a queue wait for, and whether the queue can ever admit them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from constructs import Construct

from gpu_constructs.installing.delivery import apply_before
from gpu_constructs.installing.once import Applied
from gpu_constructs.pools.pool import Pool
from gpu_constructs.queueing.kueue_manifests import quota
from gpu_constructs.queueing.team_queue import TeamQueue
from gpu_facts.labels import POOL
from gpu_facts.quantities import Resources, pod_requests, quantity, show

# A cohort of one queue may have others that another app makes, from which the queue borrows.
_WHOLE_COHORT = 2


def put_jobs_after(needed: Construct) -> Callable[[Applied], None]:
    """Return what applies a job after ``needed``."""
    put_after = apply_before(needed)
    return lambda job: put_after(job.construct)


def admit_to(queue: Construct, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> Callable[[Applied], None]:
    """Return what applies a job after its queue, and refuses a job that no queue of the teams ever admits."""
    put_after = put_jobs_after(queue)

    def admit(job: Applied) -> None:
        _refuse_larger_than_cohort(job, pools, teams)
        put_after(job)

    return admit


def _refuse_larger_than_cohort(job: Applied, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> None:
    """Refuse a job that requests more than all teams have together of its pool: a queue can't borrow more.

    Kueue admits all pods of a Job together, on the flavor of the pool that they select.

    Raises:
        ValueError: The job never starts.
    """
    if len(teams) < _WHOLE_COHORT:
        return
    by_name = {pool.name: pool for pool in pools}
    for pod, number in _pods_at_once(job.manifests):
        pool = by_name.get((pod.get("nodeSelector") or {}).get(POOL, ""))
        if pool is None:
            continue
        nodes = sum(team.nodes.get(pool.name, 0) for team in teams)
        if (found := _shortage(pod_requests(pod), number, quota(pool, nodes))) is not None:
            most, requested = found
            raise ValueError(
                f"{job.construct.node.path.removesuffix('/Resource')}: pods must ask at once for at most the {most} of "
                f"the {nodes} nodes that the teams have of pool {pool.name!r}, got {requested}; give the teams more of "
                "its nodes, or run fewer pods [GPU203]"
            )


def _shortage(requests: Resources, pods: int, quotas: Mapping[str, str]) -> tuple[str, str] | None:
    """Return how much there is of a resource and how much pods request of it, if that is more."""
    for resource in sorted(requests.keys() & quotas.keys(), key=_devices_first):
        limit, requested = quantity(resource, quotas[resource]) or 0, requests[resource] * pods
        if requested > limit:
            return f"{show(resource, limit)} {resource}", show(resource, requested)
    return None


def _devices_first(resource: str) -> tuple[bool, str]:
    """Return a key that sorts GPUs and EFA interfaces before CPU and memory, which are often short as well."""
    return "/" not in resource, resource


def _pods_at_once(manifests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the pods of each role, and how many of them Kueue admits together."""
    for each in manifests:
        spec = each.get("spec") or {}
        if each["kind"] == "Job":
            yield spec["template"]["spec"], spec.get("parallelism", 1)
        if each["kind"] == "MPIJob":
            for role in spec["mpiReplicaSpecs"].values():
                yield role["template"]["spec"], role["replicas"]
