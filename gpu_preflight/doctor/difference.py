"""A difference between the plan and the cluster: its texts, its fix, and how to try the planned value on a dump."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import decimal_value
from gpu_preflight.doctor.dump import Dump
from gpu_preflight.doctor.fields import EXACT, FieldDifference, Path, parsed, path_text, with_value
from gpu_preflight.doctor.live import Live
from gpu_preflight.judging.deployed import leaf_changes, value_texts
from gpu_preflight.model.taints import node_group_taints
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

Repair = Callable[[Dump], Dump]
# Changes of a workload reach its pods through these kinds.
_TEMPLATE = ("spec", "template")
_MAX_CHANGES = 3
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of the cluster that differs from the plan.

    Attributes:
        object: Title of the object, node group or nodes.
        field: The field; empty if the object itself is missing.
        planned: The planned value; ``none`` without one.
        live: The value in the cluster; ``none`` without one.
        message: The difference in one sentence without a period.
        autoscaler: Status of the autoscaler of these nodes; empty if the dump doesn't have it.
        changed_by: The field manager that last wrote the field, such as ``kubectl-edit``; empty if it isn't known.
        changed_at: When that was, in UTC, as RFC 3339; empty if it isn't known.
        stops: Pods that don't run, and that run in the simulation with the planned value.
        fix: One action that restores the plan.
        command: A command that does this; empty if there is no single command.
    """

    object: str
    field: str
    planned: str
    live: str
    message: str
    autoscaler: str
    changed_by: str
    changed_at: str
    stops: tuple[str, ...]
    fix: str
    command: str


@dataclass(frozen=True, slots=True)
class Found:
    """A difference, and the function that sets the planned value in a dump; ``None`` if the simulation can't use it."""

    difference: Difference
    repair: Repair | None = None


def make_difference(
    title: str,
    found: FieldDifference,
    *,
    autoscaler: str = "",
    by: str = "",
    when: str = "",
    command: str = "",
    applied: bool = True,
) -> Difference:
    """Return a difference of a field.

    Args:
        title: Title of the object.
        found: The field.
        autoscaler: Status of the autoscaler.
        by: The field manager that last wrote the field.
        when: When that was.
        command: The command that sets the planned value.
        applied: Whether a custom resource of a template applies the object.
    """
    planned, live = _texts(found)
    field = path_text(found.path)
    again = "; a deployment of an unchanged template doesn't restore it" if applied else ""
    is_short = not isinstance(found.planned, (dict, list)) and not planned.endswith("...")
    fix = f"Set {field} of {title} to {planned}" if is_short else f"Restore {field} of {title}"
    if found.planned in (None, [], {}) and found.live is not None:
        fix = f"Remove {field} of {title}"
    fix = f"{fix}, or change the plan{again}"
    message = _sentence(title, field, found, planned, live)
    return Difference(title, field, planned, live, message, autoscaler, by, when, (), fix, command)


def _texts(found: FieldDifference) -> tuple[str, str]:
    if found.path and found.path[-1] in EXACT:
        planned, live = _member_texts(found)
        return ", ".join(planned) or "none", ", ".join(live) or "none"
    texts = value_texts(found.planned, found.live)
    return texts[0] or json.dumps(found.planned), texts[1] or json.dumps(found.live)


def _member_texts(found: FieldDifference) -> tuple[list[str], list[str]]:
    return [_member_text(each) for each in mappings(found.planned)], [
        _member_text(each) for each in mappings(found.live)
    ]


def _member_text(each: Mapping[str, Any]) -> str:
    """Return a taint, toleration or requirement as text."""
    if "effect" not in each and "Effect" not in each and each.get("operator") in _OPERATORS:
        values = ", ".join(sorted(map(str, each.get("values") or ())))
        return f"{each.get('key')} {each['operator']}{f' ({values})' if values else ''}"
    if "Effect" in each:
        return str(node_group_taints({"Taints": [dict(each)]})[0])
    operator = f" {each['operator']}" if "operator" in each and not each.get("value") else ""
    value = f"={each['value']}" if each.get("value") else ""
    return f"{each.get('key') or '*'}{operator}{value}:{each.get('effect') or '*'}"


def _sentence(title: str, field: str, found: FieldDifference, planned: str, live: str) -> str:
    if found.path[-1] in EXACT:
        own, other = _member_texts(found)
        noun = {"startupTaints": "startup taints", "Taints": "taints"}.get(str(found.path[-1]), str(found.path[-1]))
        more = ", ".join(each for each in other if each not in own)
        less = ", ".join(each for each in own if each not in other)
        parts = [f"has {noun} that aren't planned: {more}"] * bool(more) + [f"lacks planned {noun}: {less}"] * bool(
            less
        )
        return f"{title} {'; it '.join(parts) or f'has other {noun} than planned'}"
    if found.path[0] == "data" and found.live is not None and found.planned is not None:
        sides = parsed(str(found.planned)), parsed(str(found.live))
        changes = [] if sides[0] is None or sides[1] is None else leaf_changes("", *sides)
        if changes:
            return f"{title}: {field} differs, planned value -> live value: {'; '.join(changes[:_MAX_CHANGES])}"
    if found.live is None:
        return f"{title} has no {field}, planned {planned}"
    if found.planned is None:
        return f"{title} has {field} {live}, which isn't planned"
    amounts = [decimal_value(str(each)) for each in (found.planned, found.live)]
    if amounts[0] is not None and amounts[1] is not None and not isinstance(found.live, bool):
        return f"{title}: {field} is {'lowered' if amounts[1] < amounts[0] else 'raised'} to {live}, planned {planned}"
    return f"{title}: {field} is {live}, planned {planned}"


def set_field(live: Live, owner: Object, path: Path, value: Any) -> Repair:
    """Return a function that sets a field of an object in a dump, and in the pods that are made from its template."""
    changes = {id(owner): path}
    if path[:2] == _TEMPLATE:
        inner = [*live.owned(owner, "ReplicaSet")]
        pods = [pod for each in (owner, *inner) for pod in live.owned(each, "Pod")]
        changes |= {id(each): path for each in inner} | {id(each): path[2:] for each in pods}
    return lambda dump: replace(
        dump,
        objects=[
            replace(each, content=with_value(each.content, changes[id(each)], value)) if id(each) in changes else each
            for each in dump.objects
        ],
    )


def autoscaler_view(live: Live, pool: str, scaling_group: str) -> str:
    """Return what the autoscaler of a pool reports; empty if the dump doesn't have it.

    Args:
        live: The cluster.
        pool: Name of its NodePool; empty for a node group.
        scaling_group: Name of its Auto Scaling group.
    """
    if pool:
        have = live.object("NodePool", pool)
        status = mapping(have.content.get("status")) if have is not None else {}
        used = ", ".join(f"{name} {amount}" for name, amount in mapping(status.get("resources")).items())
        ready = live.condition(have, "Ready") if have is not None else None
        parts = [f"in use: {used}"] * bool(used) + [
            f"Ready is {ready.status}" for ready in [ready] if ready is not None
        ]
        return f"Karpenter reports {'; '.join(parts)}" if parts else ""
    health = mapping(dig(scaling_group_status(live, scaling_group), "health"))
    own = {"min": health.get("minSize"), "max": health.get("maxSize"), "target": health.get("cloudProviderTarget")}
    parts = [f"{name} {value}" for name, value in own.items() if value is not None]
    return f"Cluster Autoscaler reports {', '.join(parts)}" if parts else ""


def scaling_group_status(live: Live, name: str) -> Mapping[str, Any]:
    """Return the status that Cluster Autoscaler reports about an Auto Scaling group; empty without one."""
    groups = mappings(live.autoscaler_status.get("nodeGroups"))
    return next((each for each in groups if each.get("name") == name), {})
