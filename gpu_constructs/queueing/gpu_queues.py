"""Queues of teams over the GPU pools of an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.pools.pool import Pool
from gpu_constructs.queueing import kueue_manifests as manifests
from gpu_constructs.queueing.kueue import Kueue
from gpu_constructs.queueing.queued_jobs import admit_to
from gpu_constructs.queueing.team_queue import (
    TeamQueue,
    refuse_more_than_there_is,
    refuse_unless_pools,
    refuse_unless_teams,
)
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import words


@named_arguments
class GpuQueues(Construct):
    """A flavor for each pool, and for each team a queue with its part of the pools' nodes.

    Quotas follow from the pools: CPU, memory, disk, GPUs by the names that the nodes advertise, and EFA interfaces. All
    teams are of one cohort, so that nodes nobody uses are lent.

    Args:
        cluster: Cluster of the pools; needs a kubectl provider.
        kueue: Controller of this app.
        pools: Pools that jobs may run on, the first choice first.
        teams: The teams.
        cohort: Name of the cohort.
        topology_levels: Node labels from the widest to the narrowest part of the network, by which jobs that ask for it
            are kept together. Default: none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Teams have more nodes than a pool may have, or of a pool that is not there, or a job in one of their
            queues asks for more than they have together.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        kueue: Kueue,
        pools: Sequence[Pool],
        teams: Sequence[TeamQueue],
        cohort: str = "gpus",
        topology_levels: Sequence[str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(kueue, Kueue):
            raise TypeError(f"{who}: kueue must be a Kueue, got {kueue!r}")
        refuse_unless_pools(who, pools)
        refuse_unless_teams(who, teams)
        _refuse_where_kueue_does_not_look(who, kueue, teams)
        refuse_more_than_there_is(who, pools, teams)
        refuse_unless_object_name(who, "cohort", cohort)
        levels = words(who, "topology_levels", topology_levels) if topology_levels is not None else ()

        objects: dict[str, dict[str, Any]] = {}
        if levels:
            objects["Topology"] = manifests.topology(cohort, levels)
        for pool in pools:
            objects[f"Flavor-{pool.name}"] = manifests.flavor(pool, cohort if levels else None)
        for team in teams:
            shares = [(pool, team.nodes.get(pool.name, 0)) for pool in pools]
            queue = manifests.cluster_queue(
                name=team.name, namespace=team.namespace, cohort=cohort, shares=shares, weight=team.weight
            )
            objects[f"ClusterQueue-{team.name}"] = queue
            objects[f"LocalQueue-{team.name}"] = manifests.local_queue(team.name, team.namespace)
        applied = self._apply(ref, kueue, objects, pools)
        for team in teams:
            ref.queue(team.namespace, team.name).serve(admit_to(applied[f"LocalQueue-{team.name}"], pools, teams))

    def _apply(
        self, cluster: ClusterRef, kueue: Kueue, objects: Mapping[str, dict[str, Any]], pools: Sequence[Pool]
    ) -> dict[str, Construct]:
        """Apply each after the one before it: a queue whose flavor is missing admits nothing."""
        before: Construct = kueue.chart
        applied = {}
        for id, made in objects.items():
            applied[id] = apply_manifests(self, id, cluster=cluster, manifests=[made])
            applied[id].node.add_dependency(before)
            before = applied[id]
        for pool in pools:
            before.node.add_dependency(pool)
        return applied


def _refuse_where_kueue_does_not_look(who: object, kueue: Kueue, teams: Sequence[TeamQueue]) -> None:
    for team in teams:
        if team.namespace in kueue.unmanaged:
            raise ValueError(
                f"{who}: team {team.name!r} must have a namespace where Kueue looks at jobs, got {team.namespace!r}; "
                "jobs there would start without quota"
            )
