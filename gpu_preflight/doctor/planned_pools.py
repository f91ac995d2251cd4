"""Differences of node groups and of the labels and taints of running nodes from the planned pools."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.labels import AUTOSCALED_BY_TAG, NODE_GROUP, NODE_POOL
from gpu_preflight.doctor.difference import (
    Found,
    Repair,
    autoscaler_view,
    make_difference,
    scaling_group_status,
    set_field,
)
from gpu_preflight.doctor.dump import Dump, NotLooked
from gpu_preflight.doctor.fields import (
    FieldDifference,
    field_differences,
    field_value,
    last_writer,
    unknown_fields,
    with_value,
)
from gpu_preflight.doctor.live import PASSING_TAINTS, Live, titles
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import LabelValues
from gpu_preflight.model.taints import Taint, node_group_taints, object_taints
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mapping, mappings

_GROUP = "AWS::EKS::Nodegroup"
_GROUP_FIELDS = (
    *("ScalingConfig", "InstanceTypes", "Labels", "Taints", "CapacityType", "AmiType", "DiskSize"),
    *("Version", "ReleaseVersion"),
)
# They identify a group, or don't change its nodes.
_IDENTITY = ("ClusterName", "NodegroupName", "AutoScalingGroupName", "Tags")
_SCALING = "ScalingConfig"
# Sizes of a managed group, with the names that an Auto Scaling group and Cluster Autoscaler use.
_SIZES = {"MinSize": ("MinSize", "minSize"), "MaxSize": ("MaxSize", "maxSize")}
_SCALING_FIELDS = ("MinSize", "MaxSize", "DesiredCapacity")
_LOGICAL_ID, _STACK = "aws:cloudformation:logical-id", "aws:cloudformation:stack-name"
# eksctl adds labels with this prefix.
_EKSCTL = "alpha.eksctl.io/"
_UNREGISTERED = "karpenter.sh/unregistered"
_MOST_NODES = 10


def pool_differences(live: Live, cluster: Cluster, skipped: list[NotLooked], compared: list[str]) -> Iterator[Found]:
    """Yield the differences of node groups, and of nodes from the pool that created them.

    Args:
        live: The cluster.
        cluster: The planned cluster.
        skipped: List to which this adds the parts that aren't compared.
        compared: List to which this adds the groups that are compared.
    """
    if cluster.pools and live.certainty("Node") is None:
        skipped.append(NotLooked("labels and taints of nodes", "the list of kind Node isn't in the dump"))
    for pool in cluster.pools:
        if pool.kind in ("karpenter", "auto-mode"):
            have = live.object("NodePool", pool.name)
            template = mapping(dig(have.content, "spec", "template")) if have is not None else {}
            own = mapping(dig(template, "metadata", "labels")), object_taints(dig(template, "spec", "taints"))
            labels = {key: str(each) for key, each in pool.template_labels.items() if not isinstance(each, Unknown)}
            view = autoscaler_view(live, pool.name, "")
            yield from _node_differences(live, pool, (NODE_POOL, pool.name), labels, own, view)
        elif pool.kind == "managed" and pool.resource is not None:
            yield from _group_differences(live, cluster, pool, pool.resource, skipped, compared)
        elif pool.kind == "self-managed" and pool.resource is not None:
            yield from _scaling_group_differences(live, cluster, pool, pool.resource, skipped, compared)


# Node groups.


def _group_differences(
    live: Live, cluster: Cluster, pool: Pool, resource: Resource, skipped: list[NotLooked], compared: list[str]
) -> Iterator[Found]:
    groups = [each for each in live.input.resources.values() if each.type == _GROUP]
    names = [str(each.properties.get("NodegroupName")) for each in groups]
    tags = [mapping(each.properties.get("Tags")) for each in groups]
    place = _place(resource, pool.properties.get("NodegroupName"), names, tags)
    if place is None:
        why = (
            "'aws eks describe-nodegroup' of it isn't in the dump" if not groups else f"isn't one of {', '.join(names)}"
        )
        skipped.append(NotLooked(f"node group {resource.path}", why))
        return
    have, name = groups[place], names[place]
    compared.append(f"node group {name}")
    scaling = [str(each.get("name")) for each in mappings(dig(dict(have.properties), "Resources", "autoScalingGroups"))]
    planned = _planned_fields(f"node group {name}", pool, _GROUP_FIELDS, skipped)
    view = next((text for one in scaling if (text := autoscaler_view(live, "", one))), "")
    differs = set()
    for each in field_differences(planned, have.properties, _GROUP):
        if str(each.path[-1]).startswith(_EKSCTL):
            continue
        if each.path[-1] == "DesiredSize" and _may_be_autoscaled(live, cluster, f"node group {name}", scaling, skipped):
            continue
        differs.add(each.path[-1])
        command = _group_command(have, each)
        yield Found(
            make_difference(f"node group {name}", each, autoscaler=view, command=command), _set_in_group(name, each)
        )
    yield from _sizes_behind(live, mapping(planned.get(_SCALING)), scaling, differs)
    own = (
        {key: str(value) for key, value in mapping(have.properties.get("Labels")).items()},
        node_group_taints(have.properties),
    )
    sure = {key: each for key, each in pool.labels.items() if isinstance(each, LabelValues) and not each.unsure}
    labels = {key: each.only for key, each in sure.items() if each.only is not None and not each.may_be_absent}
    yield from _node_differences(live, pool, (NODE_GROUP, name), labels, own, view)


def _place(resource: Resource, name: Any, names: list[str], tags: list[dict[str, Any]]) -> int | None:
    """Return the place of the deployed group of a resource: by its name, by CloudFormation's tags, or by its id."""
    if isinstance(name, str):
        return names.index(name) if name in names else None
    own = resource.key.partition("/")[0], resource.logical_id
    for place, each in enumerate(tags):
        if own == (each.get(_STACK), each.get(_LOGICAL_ID)):
            return place
    # CloudFormation makes the name from the logical id, and for an Auto Scaling group from the stack too.
    alike = [place for place, each in enumerate(names) if own[1] and f"-{own[1]}-" in f"-{each}"]
    return alike[0] if len(alike) == 1 else None


def _planned_fields(title: str, pool: Pool, fields: Iterable[str], skipped: list[NotLooked]) -> dict[str, Any]:
    """Return the properties of a planned group that are compared, and list the others in `skipped`."""
    planned = {key: pool.properties[key] for key in fields if key in pool.properties}
    if unknown := list(unknown_fields(planned)):
        skipped.append(NotLooked(title, f"{', '.join(unknown)}: the value is known at deployment only"))
    if others := sorted({*pool.properties} - {*planned, *_IDENTITY}):
        skipped.append(NotLooked(title, f"these properties aren't compared: {', '.join(others)}"))
    return planned


def _may_be_autoscaled(live: Live, cluster: Cluster, title: str, scaling: list[str], skipped: list[NotLooked]) -> bool:
    """Whether Cluster Autoscaler sets the desired size of a group, or may set it, which is listed in `skipped`."""
    if _is_autoscaled(live, cluster, scaling):
        return True
    if live.certainty("Deployment") is None:
        why = "without the list of kind Deployment, Cluster Autoscaler may set the desired size"
        skipped.append(NotLooked(title, why))
        return True
    return False


def _is_autoscaled(live: Live, cluster: Cluster, scaling: Iterable[str]) -> bool:
    """Whether Cluster Autoscaler sets the desired size of a group."""
    names = set(scaling)
    tagged = (
        any(str(tag.get("Key")).startswith(AUTOSCALED_BY_TAG) for tag in mappings(each.get("Tags")))
        for each in live.aws("AutoScalingGroups")
        if str(mapping(each).get("AutoScalingGroupName")) in names
    )
    planned = any(each.kind == "cluster-autoscaler" for each in (*cluster.autoscalers, *live.case.cluster.autoscalers))
    return planned or any(tagged) or any(scaling_group_status(live, each) for each in names)


def _group_command(have: Resource, found: FieldDifference) -> str:
    """Return the command that sets a planned value of a node group; empty if EKS has none for it."""
    key, planned = str(found.path[0]), found.planned
    if key == _SCALING:
        size = known_number(planned)
        value: Any = {} if size is None else _lowered({str(found.path[-1]): size})
        option = "--scaling-config"
    elif key == "Labels" and len(found.path) == 2:
        option = "--labels"
        value = (
            {"removeLabels": [found.path[1]]} if planned is None else {"addOrUpdateLabels": {found.path[1]: planned}}
        )
    elif key == "Taints":
        option = "--taints"
        was, now = (_lowered(each or []) for each in (planned, found.live))
        more, less = [each for each in was if each not in now], [each for each in now if each not in was]
        value = {"addOrUpdateTaints": more} if more else {}
        value |= {"removeTaints": less} if less else {}
    else:
        return ""
    names = (str(have.properties.get(each)) for each in ("ClusterName", "NodegroupName"))
    cluster, group = map(shlex.quote, names)
    text = shlex.quote(json.dumps(value, separators=(",", ":")))
    call = f"aws eks update-nodegroup-config --cluster-name {cluster} --nodegroup-name {group} {option} {text}"
    return call if value and not any(unknown_fields(value, "-")) else ""


def _lowered(value: Any) -> Any:
    """Return properties of CloudFormation with the names that EKS uses."""
    if isinstance(value, dict):
        return {f"{key[:1].lower()}{key[1:]}": each for key, each in value.items()}
    return [_lowered(each) for each in value] if isinstance(value, list) else value


def _set_in_group(name: str, found: FieldDifference) -> Repair:
    first, *rest = map(str, found.path)
    inner = [f"{each[:1].lower()}{each[1:]}" for each in rest] if first == _SCALING else rest
    path = (f"{first[:1].lower()}{first[1:]}", *inner)
    value = _lowered(found.planned) if first == "Taints" else found.planned

    def repair(dump: Dump) -> Dump:
        """Return a dump in which AWS describes the group with the planned value."""
        groups = [
            (file, with_value(each, path, value) if mapping(each).get("nodegroupName") == name else each)
            for file, each in dump.aws.get("nodegroup", ())
        ]
        return replace(dump, aws={**dump.aws, "nodegroup": groups})

    return repair


def _sizes_behind(live: Live, planned: Mapping[str, Any], scaling: list[str], differs: set[Any]) -> Iterator[Found]:
    """Yield sizes that only the Auto Scaling group of a managed group has, or only Cluster Autoscaler."""
    groups = {str(mapping(each).get("AutoScalingGroupName")): mapping(each) for each in live.aws("AutoScalingGroups")}
    for name, (own, reported) in _SIZES.items():
        want = planned.get(name)
        if want is None or isinstance(want, Unknown) or name in differs:
            continue
        for group in scaling:
            has = mapping(groups.get(group)).get(own)
            seen = dig(scaling_group_status(live, group), "health", reported)
            if has is not None and str(has) != str(want):
                yield _other_size(live, group, own, want, has)
            elif seen is not None and str(seen) != str(want):
                found = FieldDifference(("health", reported), want, seen)
                made = make_difference(f"Cluster Autoscaler's view of {group}", found)
                fix = f"Check the flags of Cluster Autoscaler that set the size of {group}, such as --nodes"
                yield Found(replace(made, fix=fix, autoscaler=autoscaler_view(live, "", group)))


def _other_size(live: Live, group: str, field: str, want: Any, has: Any) -> Found:
    option = dict(zip(_SCALING_FIELDS, ("min-size", "max-size", "desired-capacity"), strict=True))[field]
    name = shlex.quote(group)
    command = f"aws autoscaling update-auto-scaling-group --auto-scaling-group-name {name} --{option} {want}"
    view = autoscaler_view(live, "", group)
    found = FieldDifference((field,), want, has)
    return Found(make_difference(f"Auto Scaling group {group}", found, autoscaler=view, command=command))


def _scaling_group_differences(
    live: Live, cluster: Cluster, pool: Pool, resource: Resource, skipped: list[NotLooked], compared: list[str]
) -> Iterator[Found]:
    groups = [mapping(each) for each in live.aws("AutoScalingGroups")]
    names = [str(each.get("AutoScalingGroupName")) for each in groups]
    tags = [{str(one.get("Key")): one.get("Value") for one in mappings(each.get("Tags"))} for each in groups]
    place = _place(resource, pool.properties.get("AutoScalingGroupName"), names, tags)
    if place is None:
        why = (
            f"isn't one of {', '.join(names)}"
            if names
            else "'aws autoscaling describe-auto-scaling-groups' isn't in the dump"
        )
        skipped.append(NotLooked(f"Auto Scaling group {resource.path}", why))
        return
    name = names[place]
    title = f"Auto Scaling group {name}"
    compared.append(title)
    skipped.append(NotLooked(f"nodes of {title}", "no label shows which nodes these are"))
    for field, want in _planned_fields(title, pool, _SCALING_FIELDS, skipped).items():
        has = groups[place].get(field)
        if want is None or isinstance(want, Unknown) or str(want) == str(has):
            continue
        if field != "DesiredCapacity" or not _may_be_autoscaled(live, cluster, title, [name], skipped):
            yield _other_size(live, name, field, want, has)


# Nodes.


def _node_differences(
    live: Live,
    pool: Pool,
    selected: tuple[str, str],
    labels: Mapping[str, str],
    own: tuple[Mapping[str, Any], tuple[Taint, ...]],
    view: str,
) -> Iterator[Found]:
    """Yield planned labels and taints that nodes lack, and taints that only nodes have.

    Args:
        live: The cluster.
        pool: The planned pool.
        selected: The label of its nodes, and its value.
        labels: Labels that the plan sets.
        own: Labels and taints of the deployed pool. Its own differences aren't repeated for each node.
        view: Status of its autoscaler.
    """
    key, value = selected
    nodes = [each for each in live.nodes if known_text(each.labels.get(key)) == value]
    nodes = [each for each in nodes if all(one.key != _UNREGISTERED for one in live.taints(each))]
    for name, text in labels.items():
        lacking = [each for each in nodes if each.labels.get(name) != text]
        if lacking and str(own[0].get(name, text)) == text:
            yield _other_label(live, lacking, name, text, view)
    planned = {*pool.taints, *pool.startup_taints}
    extra = {each for node in nodes for each in live.taints(node) if not each.key.startswith(PASSING_TAINTS)}
    for taint in sorted(extra, key=str):
        if not any(_is_same(one, taint) for one in (*planned, *own[1])):
            yield _other_taint(live, [each for each in nodes if taint in live.taints(each)], taint, view, added=True)
    for taint in pool.taints:
        lacking = [each for each in nodes if not any(_is_same(taint, one) for one in live.taints(each))]
        if lacking and taint.value is not None and any(_is_same(taint, one) for one in own[1]):
            yield _other_taint(live, lacking, taint, view, added=False)


def _is_same(planned: Taint, taint: Taint) -> bool:
    same_value = planned.value is None or taint.value is None or planned.value == taint.value
    return same_value and (planned.key, planned.effect) == (taint.key, taint.effect)


def _who(nodes: list[Object]) -> str:
    return f"Node {nodes[0].name}" if len(nodes) == 1 else titles(nodes)


def _nodes_command(nodes: list[Object], arguments: str, verb: str) -> str:
    names = " ".join(shlex.quote(each.name) for each in nodes)
    return f"kubectl {verb} nodes {names} {arguments}" if len(nodes) <= _MOST_NODES else ""


def _other_label(live: Live, nodes: list[Object], name: str, value: str, view: str) -> Found:
    path = ("metadata", "labels", name)
    found = FieldDifference(path, value, field_value(nodes[0].content, path))
    by, when = last_writer(nodes[0].content, path)
    command = _nodes_command(nodes, f"{shlex.quote(f'{name}={value}')} --overwrite", "label")
    made = make_difference(_who(nodes), found, autoscaler=view, by=by, when=when, command=command, applied=False)
    return Found(made, _joined(set_field(live, each, path, value) for each in nodes))


def _other_taint(live: Live, nodes: list[Object], taint: Taint, view: str, *, added: bool) -> Found:
    path = ("spec", "taints")
    raw = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    one, none = ([raw], []) if not added else ([], [raw])
    by, when = last_writer(nodes[0].content, path)
    command = _nodes_command(nodes, shlex.quote(f"{taint}{'-' if added else ''}"), "taint")
    found = FieldDifference(path, one, none)
    made = make_difference(_who(nodes), found, autoscaler=view, by=by, when=when, command=command, applied=False)
    fix = f"{'Remove' if added else 'Add'} taint {taint}{' of' if added else ' to'} {made.object}, or change the plan"

    def planned(node: Object) -> list[dict[str, Any]]:
        """Return the taints of a node without the taint, or with it."""
        kept = [each for each in mappings(node.spec.get("taints")) if object_taints([each])[0] != taint]
        return kept if added else [*kept, raw]

    repairs = (set_field(live, each, path, planned(each)) for each in nodes)
    return Found(replace(made, fix=fix), _joined(repairs))


def _joined(repairs: Iterable[Repair]) -> Repair:
    every = list(repairs)

    def repair(dump: Dump) -> Dump:
        """Return a dump after all repairs."""
        for each in every:
            dump = each(dump)
        return dump

    return repair
