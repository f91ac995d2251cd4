"""The share of a team in the GPU pools of an app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from gpu_constructs.pools.pool import Pool, refuse_unless_pool
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import did_you_mean, refuse_unless_whole_number


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class TeamQueue:
    """Guaranteed nodes of one team. It may also borrow unused nodes of other teams.

    Attributes:
        name: Name of its queues. Jobs refer to it in ``GpuJob(queue=...)``.
        namespace: Existing namespace of its jobs.
        nodes: Guaranteed number of nodes by pool.
        weight: Share of borrowed nodes relative to other teams. It has an effect only with fair sharing.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is invalid, or a number is below 0.
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
            raise TypeError(f"{who}: nodes must map pools to numbers, got {self.nodes!r}; write {{'pool': 2}}")
        for pool, number in self.nodes.items():
            refuse_unless_whole_number(who, f"nodes[{pool!r}]", number, least=0)
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))


def refuse_unless_pools(who: object, pools: object) -> None:
    """Reject pools whose GPUs a quota can't count.

    Raises:
        TypeError: The value isn't a list of pools.
        ValueError: A size isn't known at synth, GPUs are claimed, or two pools have one name.
    """
    if not isinstance(pools, (list, tuple)) or not pools:
        raise TypeError(f"{who}: pools must be a list of pools, got {pools!r}; write [pool]")
    for pool in pools:
        refuse_unless_pool(who, pool)
        if pool.shape.managed_by.by_claim:
            raise ValueError(
                f"{who}: pools must offer GPUs as a resource, because a quota counts it, got {pool.name!r} with "
                "device_manager='dra'; remove it"
            )
        if not isinstance(pool.max_nodes, int):
            raise ValueError(
                f"{who}: pools must have a size known at synth, got {pool.name!r} with a token; write a number"
            )
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: pools must differ in name, got {', '.join(names)}; remove the duplicates")


def refuse_unless_teams(who: object, teams: object) -> None:
    """Reject a value that isn't a list of teams.

    Raises:
        TypeError: The value isn't a list of teams.
        ValueError: Two teams have one name.
    """
    if not isinstance(teams, (list, tuple)) or not teams or not all(isinstance(each, TeamQueue) for each in teams):
        raise TypeError(f"{who}: teams must be a list of TeamQueue, got {teams!r}; write [TeamQueue(...)]")
    names = [team.name for team in teams]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: teams must differ in name, got {', '.join(names)}; rename one")


def refuse_more_than_there_is(who: object, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> None:
    """Reject teams with more nodes than the pools have.

    Raises:
        ValueError: The teams have more nodes.
    """
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
                f"{who}: teams must have at most the {most[name]} nodes of pool {name!r}, got {number}; reduce them, "
                "because admitted jobs would stay Pending"
            )
