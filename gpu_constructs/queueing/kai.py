"""KAI Scheduler: a separate scheduler for GPU jobs, with queues of teams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests, install_helm_chart
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.pools.pool import Pool
from gpu_constructs.queueing.gpu_queues import (
    TeamQueue,
    order_jobs_after,
    refuse_more_than_there_is,
    refuse_unless_pools,
    refuse_unless_teams,
)
from gpu_constructs.workloads.placement import KaiQueue
from gpu_facts.charts import NAMESPACES
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.resources import GPU
from gpu_facts.versions import KAI_SCHEDULER

_NAMESPACE = NAMESPACES[KAI_SCHEDULER.name]
_UNLIMITED = -1


@named_arguments
class KaiScheduler(Construct):
    """The scheduler. It schedules only the pods of jobs in its queues.

    Use either it or `Kueue`, because both decide when a job may start.

    Source: https://github.com/kai-scheduler/KAI-Scheduler/tree/v0.17.0

    Args:
        cluster: Cluster to install into. It needs a kubectl provider.
        values: Values of the chart that override the library's values.

    Raises:
        TypeError: ``cluster`` isn't a cluster of ``aws_eks_v2``.
        ValueError: The cluster already has a queueing system from this library, or has no kubectl provider.

    Attributes:
        chart: The Helm release. Queues depend on it.
    """

    def __init__(
        self, scope: Construct, id: str, *, cluster: AnyCluster, values: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        ref.claim(who, "queueing system", why="both decide when a job may start")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KAI_SCHEDULER,
            namespace=_NAMESPACE,
            create_namespace=True,
            values=kai_values(),
            user_values=values,
        )
        ref.queue(KAI_SCHEDULER.name).serve(order_jobs_after(self.chart))


def kai_values() -> Mapping[str, Any]:
    """Return the values of the chart, with which helm waits for the scheduler, not only for its operator.

    The operator creates the scheduler from a ``Config``, and reports its status there. By default a hook applies that
    object after helm has already reported success.

    Source: kai-scheduler/KAI-Scheduler v0.17.0 deployments/kai-scheduler/values.yaml, docs/gitops/README.md
    """
    return {"kaiConfigDeployer": {"enabled": False}, "kaiConfig": {"render": True}}


@named_arguments
class KaiQueues(Construct):
    """A queue for each team with the GPUs of its nodes, under one department with all of them.

    Quotas are in GPUs. CPU and memory aren't limited. Teams can borrow unused GPUs of other teams by weight, and return
    them when the owner needs them.

    Args:
        cluster: Cluster of the pools. It needs a kubectl provider.
        scheduler: Scheduler of this app.
        pools: Pools that jobs may run on.
        teams: The teams.
        department: Name of the department.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Teams have more nodes than a pool can have, or a pool has no whole GPUs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        scheduler: KaiScheduler,
        pools: Sequence[Pool],
        teams: Sequence[TeamQueue],
        department: str = "gpus",
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(scheduler, KaiScheduler):
            raise TypeError(
                f"{who}: scheduler must be a KaiScheduler, got {scheduler!r}; create KaiScheduler(stack, ...)"
            )
        refuse_unless_pools(who, pools)
        _refuse_parts_of_gpus(who, pools)
        refuse_unless_teams(who, teams)
        refuse_more_than_there_is(who, pools, teams)
        refuse_unless_object_name(who, "department", department)
        if department in {team.name for team in teams}:
            raise ValueError(f"{who}: department must differ from every team, got {department!r}; rename it")

        gpus = {team.name: sum(pool.shape.gpus * team.nodes.get(pool.name, 0) for pool in pools) for team in teams}
        self._teams = frozenset(gpus)
        parent = apply_manifests(self, "Department", cluster=ref, manifests=[queue(department, sum(gpus.values()), 1)])
        parent.node.add_dependency(scheduler.chart)
        for team in teams:
            leaf = queue(team.name, gpus[team.name], team.weight, parent=department)
            applied = apply_manifests(self, f"Queue-{team.name}", cluster=ref, manifests=[leaf])
            applied.node.add_dependency(parent)
            ref.queue(KAI_SCHEDULER.name, team.name).serve(order_jobs_after(applied))

    def queue(self, team: str) -> KaiQueue:
        """Return the queue of a team, for ``GpuJob(queue=...)``.

        Raises:
            ValueError: The team has none.
        """
        if team not in self._teams:
            raise ValueError(
                f"{PathOf(self)}: team must be one of {', '.join(sorted(self._teams))}, got {team!r}; choose one"
            )
        return KaiQueue(team)


def queue(name: str, gpus: int, weight: int, *, parent: str | None = None) -> dict[str, Any]:
    """Return a queue with a number of guaranteed GPUs.

    Source: kai-scheduler/KAI-Scheduler v0.17.0 pkg/apis/scheduling/v2/queue_types.go
    """
    free = {"quota": _UNLIMITED, "limit": _UNLIMITED, "overQuotaWeight": weight}
    resources = {"cpu": free, "memory": free, "gpu": free | {"quota": gpus}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": ({"parentQueue": parent} if parent is not None else {}) | {"resources": resources},
    }


def _refuse_parts_of_gpus(who: object, pools: Sequence[Pool]) -> None:
    for pool in pools:
        if set(pool.shape.gpu_resources(1)) != {GPU}:
            raise ValueError(
                f"{who}: pools must have whole GPUs, because a queue counts them, got {pool.name!r} with "
                f"{pool.shape.sharing!r}; remove it"
            )
