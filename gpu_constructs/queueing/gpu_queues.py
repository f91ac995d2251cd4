"""Queues of teams over the GPU pools of an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from constructs import Construct

from gpu_constructs.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.delivery import apply_manifests
from gpu_constructs.pools.kubernetes_names import refuse_unless_object_name
from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_constructs.queueing import kueue_manifests as manifests
from gpu_constructs.queueing.kueue import Kueue
from gpu_constructs.refusals import did_you_mean, refuse_unless_whole_number, words


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamQueue:
    """What one team has for itself; what others do not use it may borrow.

    Attributes:
        name: Name of its queues: jobs name it in ``GpuJob(queue=...)``.
        namespace: Existing namespace of its jobs.
        nodes: Nodes that are its own, by pool.
        weight: Part in what is borrowed, against that of the others; only with fair sharing.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is none, or a number is below 0.
    """

    name: str
    namespace: str
    nodes: Mapping[str, int]
    weight: int = 1

    def __post_init__(self) -> None:
        refuse_unless_object_name("team queue", "name", self.name)
        who = f"team queue {self.name!r}"
        refuse_unless_object_name(who, "namespace", self.namespace)
        refuse_unless_whole_number(who, "weight", self.weight, least=1)
        if not isinstance(self.nodes, Mapping):
            raise TypeError(f"{who}: nodes must map pools to numbers, got {self.nodes!r}")
        for pool, number in self.nodes.items():
            refuse_unless_whole_number(who, f"nodes[{pool!r}]", number, least=0)
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))


class GpuQueues(Construct):
    """A flavor for each pool, and for each team a queue with its part of the pools' nodes.

    Quotas follow from the pools: CPU, memory, GPUs by the names that the nodes advertise, and EFA interfaces. All teams
    are of one cohort, so that nodes nobody uses are lent.

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
        ValueError: Teams have more nodes than a pool may have, or of a pool that is not there.
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
        _refuse_unless_pools(who, pools)
        _refuse_unless_teams(who, teams)
        _refuse_more_than_there_is(who, pools, teams)
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
        self._apply(ref, kueue, objects, pools)

    def _apply(self, cluster: Any, kueue: Kueue, objects: Mapping[str, dict[str, Any]], pools: Sequence[Pool]) -> None:
        """Apply each after the one before it: a queue whose flavor is missing admits nothing."""
        before: Construct = kueue.chart
        for id, made in objects.items():
            applied = apply_manifests(self, id, cluster=cluster, manifests=[made])
            applied.node.add_dependency(before)
            before = applied
        for pool in pools:
            before.node.add_dependency(pool)


def _refuse_unless_pools(who: object, pools: object) -> None:
    if not isinstance(pools, (list, tuple)) or not pools:
        raise TypeError(f"{who}: pools must be a list of pools, got {pools!r}")
    for pool in pools:
        refuse_unless_pool(who, pool)
        if pool.shape.claims_gpus:
            raise ValueError(
                f"{who}: pools must offer GPUs as a resource, which a quota counts, got {pool.name!r} with "
                "device_manager='dra'"
            )
        if not isinstance(pool.max_nodes, int):
            raise ValueError(f"{who}: pools must have a size known at synth, got {pool.name!r} with a token")
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: pools must differ in name, got {', '.join(names)}")


def _refuse_unless_teams(who: object, teams: object) -> None:
    if not isinstance(teams, (list, tuple)) or not teams or not all(isinstance(each, TeamQueue) for each in teams):
        raise TypeError(f"{who}: teams must be a list of TeamQueue, got {teams!r}")
    names = [team.name for team in teams]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: teams must differ in name, got {', '.join(names)}")


def _refuse_more_than_there_is(who: object, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> None:
    most = {pool.name: pool.max_nodes for pool in pools}
    given = dict.fromkeys(most, 0)
    for team in teams:
        for name, number in team.nodes.items():
            if name not in most:
                raise ValueError(
                    f"{who}: team {team.name!r} must have nodes of {', '.join(most)}, got {name!r}"
                    f"{did_you_mean(name, most)}"
                )
            given[name] += number
    for name, number in given.items():
        if number > most[name]:
            raise ValueError(
                f"{who}: teams must have at most the {most[name]} nodes of pool {name!r}, got {number}; admitted jobs "
                "would stay Pending"
            )
