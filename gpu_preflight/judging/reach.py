"""Which pools launch no node, and which pods never start, while a part of their cluster is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TypeVar

from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import certain_associations
from gpu_preflight.cluster.kueue import QueuedJob, quotas
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.reading.unread import Dangling
from gpu_preflight.rule import Subject

_CLAIMS = {"ResourceClaim": "claim", "ResourceClaimTemplate": "template"}

Key = TypeVar("Key")
Part = TypeVar("Part")


class Reach:
    """Finds the pools and workloads that depend on a part of a cluster, by the place of the part.

    Args:
        case: The cluster.
    """

    def __init__(self, case: Case) -> None:
        self._case = case

    def pools(self, subject: Subject) -> Iterable[Pool]:
        """Return the pools that launch no node for a GPU pod while something is broken."""
        cluster, origin = self._case.cluster, subject.origin
        if cluster.resource is not None and cluster.resource.origin == origin:
            return cluster.pools
        if isinstance(subject, Dangling):
            # CloudFormation creates nothing of the template.
            return [each for each in cluster.pools if each.origin.file == origin.file]
        found = [*self._pools_by_origin.get(origin, ()), *self._pools_by_device_manager.get(origin, ())]
        found += self._pools_by_autoscaler.get(origin, ())
        return {id(each): each for each in found}.values()

    def workloads(self, subject: Subject) -> Iterable[Workload]:
        """Return the workloads whose pods never start while something is broken."""
        found = list(self._workloads_by_origin.get(subject.origin, ()))
        if isinstance(subject, Workload) and not all(each.together for each in found):
            return [each for each in found if each.name == subject.name]
        if isinstance(subject, Object):
            found += self._claiming.get((subject.kind, subject.namespace, subject.name), ())
            found += self._waiting.get((subject.kind, subject.origin), ())
        return {id(each): each for each in found}.values()

    @cached_property
    def _pools_by_origin(self) -> dict[Origin, list[Pool]]:
        return _grouped((origin, pool) for pool in self._case.cluster.pools for origin in _origins(pool))

    @cached_property
    def _pools_by_device_manager(self) -> dict[Origin, list[Pool]]:
        """Pools by the DaemonSets that advertise their nodes' GPUs."""
        case = self._case
        managers = {each.name: each.origin for each in case.cluster.daemon_sets if each.advertises}
        return _grouped(
            (managers[name], pool)
            for pool in case.cluster.pools
            for name in {name for node in case.nodes(pool) for name in node.device_managers}
            if name in managers
        )

    @cached_property
    def _pools_by_autoscaler(self) -> dict[Origin, list[Pool]]:
        """Pools without running nodes, by their autoscaler and by the objects that set its role."""
        cluster = self._case.cluster
        return _grouped(
            (part.origin, pool)
            for each in cluster.autoscalers
            for part in _with_associations(each, cluster)
            for pool in cluster.pools
            if each.kind == pool.autoscaler and not pool.min_nodes
        )

    @cached_property
    def _workloads_by_origin(self) -> dict[Origin, list[Workload]]:
        return _grouped((each.origin, each) for each in self._case.cluster.workloads)

    @cached_property
    def _claiming(self) -> dict[tuple[str, str, str | None], list[Workload]]:
        """Workloads by kind, namespace and name of the claims that their pods name."""
        return _grouped(
            ((kind, each.namespace, known_text(getattr(claim, part))), each)
            for each in self._case.cluster.workloads
            for claim in each.pod.claims
            for kind, part in _CLAIMS.items()
        )

    @cached_property
    def _waiting(self) -> dict[tuple[str, Origin], list[Workload]]:
        """Workloads by their queues, and by the flavor of a queue that has only one."""
        cluster = self._case.cluster
        flavors = {each.name: each for each in cluster.objects_of_kind("ResourceFlavor")}
        return _grouped(
            ((each.kind, each.origin), part)
            for job in self._case.queued_jobs
            for each in _ways(job, flavors)
            for part in job.parts
        )


def _with_associations(autoscaler: Autoscaler, cluster: Cluster) -> list[Autoscaler | Resource]:
    return [autoscaler, *certain_associations(autoscaler.service_account, cluster)]


def _grouped(pairs: Iterable[tuple[Key, Part]]) -> dict[Key, list[Part]]:
    found: dict[Key, list[Part]] = {}
    for key, part in pairs:
        found.setdefault(key, []).append(part)
    return found


def _origins(pool: Pool) -> set[Origin]:
    """Return the places of all parts of a pool."""
    parts = [pool.resource, pool.launch_resource]
    return {pool.origin, *(each.origin for each in (*parts, pool.node_class) if each is not None)}


def _ways(job: QueuedJob, flavors: dict[str, Object]) -> Iterator[Object]:
    """Yield the objects that a job requires: its queues, and the flavor if there is only one."""
    queue = job.cluster_queue
    yield from (each for each in (job.local, queue) if each is not None)
    names = {name for group in quotas(queue) for name in group.flavors} if queue else set()
    if len(names) == 1:
        yield from (flavors[name] for name in names if name in flavors)
