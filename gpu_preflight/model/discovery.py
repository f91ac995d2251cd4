"""Which groups Cluster Autoscaler is configured to scale.

Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/auto_scaling_groups.go
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_facts.light import dataclass, regex
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.unknown import Unknown, is_expression, known_number, known_text

DISCOVERY = "node-group-auto-discovery"
EXPLICIT = "nodes"
_TAGS = regex(r"(?:^|\s)asg:tag=(\S+)")
_BLANK = regex(r"<[^<>]*>")
# EKS names the Auto Scaling group of a managed node group eks-<node group>-<uuid>.
_OF_EKS = "eks-"


@dataclass(frozen=True, slots=True)
class Named:
    """A group that a flag names.

    Attributes:
        name: Name of the Auto Scaling group.
        most: Max number of nodes according to the flag; ``None`` if it isn't known.
    """

    name: str
    most: int | None


def discovery_tags(autoscaler: Autoscaler) -> list[dict[str, str]]:
    """Return the tags that each discovery flag requires."""
    # A placeholder such as <your cluster> isn't a tag.
    written = _BLANK.sub("${}", str(autoscaler.flags.get(DISCOVERY) or ""))
    specs = _TAGS.findall(written)
    return [dict(pair.partition("=")[::2] for pair in each.split(",") if pair) for each in specs]


def named_groups(autoscaler: Autoscaler) -> list[Named]:
    """Return the groups that ``--nodes=<min>:<max>:<name>`` names."""
    parts = [each.split(":", 2) for each in str(autoscaler.flags.get(EXPLICIT) or "").split()]
    return [Named(each[2], known_number(each[1])) for each in parts if len(each) == 3]


def is_named(pool: Pool, named: Iterable[Named]) -> bool | None:
    """Whether a flag names a group; ``None`` if the group's name is known at deployment only."""
    if pool.kind == "managed":
        return None if any(is_expression(each.name) or each.name.startswith(_OF_EKS) for each in named) else False
    name = pool.properties.get("AutoScalingGroupName")
    if known_text(name) is not None:
        return True if any(each.name == name for each in named) else _may_be(named)
    own = pool.resource.ref() if pool.resource else None
    same = any(each.name in (str(name), str(own)) for each in named if name is not None or own is not None)
    return True if same else None


def _may_be(named: Iterable[Named]) -> bool | None:
    return None if any(is_expression(each.name) for each in named) else False


def bounded(pools: Iterable[Pool], autoscalers: Iterable[Autoscaler]) -> tuple[Pool, ...]:
    """Return pools with the max number of nodes of their flags, if it is lower than the max of the group."""
    named = [one for each in autoscalers if each.kind == "cluster-autoscaler" for one in named_groups(each)]
    return tuple(_bounded(each, named) for each in pools)


def _bounded(pool: Pool, named: list[Named]) -> Pool:
    if pool.kind != "self-managed" or not named:
        return pool
    names = (pool.properties.get("AutoScalingGroupName"), str(pool.resource.ref()) if pool.resource else None)
    most = [
        one.most
        for one in named
        if one.most is not None and one.name in [_format_value(each) for each in names if each]
    ]
    return replace(pool, max_nodes=min(most + ([] if pool.max_nodes is None else [pool.max_nodes]))) if most else pool


def _format_value(value: object) -> str:
    return value.expression if isinstance(value, Unknown) else str(value)
