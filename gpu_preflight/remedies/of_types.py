"""Another instance type for a pool: of the same GPU model first, and of those the cheapest that fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.prices import price_list, price_text, usd_per_hour
from gpu_facts.hardware.regions import is_unseen
from gpu_facts.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from gpu_facts.resources import DISK
from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import region_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import Labels, LabelValues, Requirement, exactly, requirement
from gpu_preflight.node.instance_labels import autoscaler_labels, kubelet_labels
from gpu_preflight.node.node_size import uses_local_disks
from gpu_preflight.node.nodes import NodeToBe, nodes_to_be
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.resources import TYPES_AS, is_of_eksctl, written_at
from gpu_preflight.reading.unknown import Unknown, dig, mappings
from gpu_preflight.remedies.change import Change
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.smallest_type import smallest_first

# Requirements of a NodePool beside those of instance types that a pod's selector may widen.
_WIDENED = (CAPACITY_TYPE, ZONE)
_REQUIREMENTS = ("spec", "template", "spec", "requirements")


def lacking(wanted: Demand, node: NodeToBe) -> list[str]:
    """Return the resources of which a pod requests more than a node surely has, or its autoscaler expects of it."""
    return [
        name
        for name, asked in wanted.requests.items()
        if asked > node.least.get(name, 0) and name not in (*node.unsaid, "pods")
    ]


def has_local_disk(pool: Pool, node: NodeToBe) -> bool:
    """Whether the local NVMe of a node's type holds images and pods."""
    return uses_local_disks(pool) and node.row is not None and bool(node.row.nvme_gb)


def other_type(
    wanted: Demand, pool: Pool, node: NodeToBe, case: Case, more_memory: int | None = None
) -> Iterator[Change]:
    """Yield the change that lets a pool launch a type for a pod, where none of its types has what the pod requests.

    Args:
        wanted: What one pod requests.
        pool: The pool.
        node: The node that a pod has to fit today.
        case: The cluster.
        more_memory: MiB that each GPU must exceed, for a model that doesn't fit the GPUs of the pool. Default: any.
    """
    short = [name for name in lacking(wanted, node) if name != DISK or has_local_disk(pool, node)]
    needed = short or more_memory is not None or not _selects(wanted, pool, node.row)
    row = _fitting(wanted, pool, case, more_memory or 0) if needed else None
    if row is None and more_memory is not None:
        return
    if pool.is_group:
        if row is not None and (change := _of_group(pool, row, _described(row, pool, case), case)):
            yield change
    elif (change := _of_node_pool(wanted, pool, row, case, alone=more_memory is not None)) is not None:
        yield change


def gpu_memory_of(pool: Pool, case: Case) -> int:
    """Return the most memory that a GPU of a pool has, MiB; 0 where it isn't known."""
    return max((each.gpu_memory_mib or 0 for each in _rows(pool, case)), default=0)


def _fitting(wanted: Demand, pool: Pool, case: Case, more_memory: int) -> InstanceType | None:
    """Return the best type: of the pool's GPU model, else like it in NVSwitch and GPU memory; then the cheapest."""
    now = _rows(pool, case)
    models, memory = {each.gpu_model for each in now}, gpu_memory_of(pool, case)
    architectures = {each.architecture for each in now} or {"x86_64"}
    region = region_of(pool, case.cluster)

    joined = bool(now) and all(each.nvswitch for each in now)

    def rank(row: InstanceType) -> tuple[bool, ...]:
        other = bool(models) and row.gpu_model not in models
        return other, other and joined and not row.nvswitch, other and (row.gpu_memory_mib or 0) < memory

    return next(
        (
            row
            for row in sorted(smallest_first(), key=rank)
            if row.architecture in architectures and row.is_driven and not is_unseen(row.name, region)
            if (row.gpu_memory_mib or 0) > more_memory
            if _selects(wanted, pool, row) and _has_all(wanted, pool, row, case)
        ),
        None,
    )


def _rows(pool: Pool, case: Case) -> list[InstanceType]:
    """Return the types with GPUs that a pool may launch today."""
    return [each.row for each in case.nodes(pool) if each.row is not None]


def _has_all(wanted: Demand, pool: Pool, row: InstanceType, case: Case) -> bool:
    """Whether the nodes of a pool that launches only one type have what a pod requests, but for a larger volume."""
    only = (Requirement(INSTANCE_TYPE, "In", (row.name,)),)
    like = replace(pool, instance_types=(row.name,), requirements=() if pool.is_group else only)
    for node in nodes_to_be(like, case.cluster):
        # Cluster autoscaler expects what tags tell it, which is another change.
        believed = {} if pool.is_group else node.believed
        for name, asked in wanted.requests.items():
            if name in (*node.unsaid, "pods") or (name == DISK and not has_local_disk(like, node)):
                continue
            if asked > min(node.least.get(name, 0), believed.get(name, asked)):
                return False
    return True


def _selects(wanted: Demand, pool: Pool, row: InstanceType | None) -> bool:
    """Whether a pod may run on a type, as far as labels of the type say; any other label may be on the pool."""
    if row is None:
        return True
    labels: Labels = {key: Unknown(f"${{{key}}}") for key in wanted.keys}
    named = set(_named_models(wanted, pool))
    meant = not named or _normalized_model(row.gpu_model) in named
    return meant and wanted.pod.selection.takes({**labels, **_labels(row, pool)}) is not Answer.NO


def _named_models(wanted: Demand, pool: Pool) -> Iterator[str]:
    """Yield the GPU models that a pod selects by labels of any name, such as ``gpu-type: h100``."""
    models = {_normalized_model(each.gpu_model) for each in catalogue().values()}
    for each in wanted.pod.selection.selector:
        value = _normalized_model((each.values or ("",))[0])
        if each.operator == "In" and value in models and each.key not in pool.labels:
            yield value


def _normalized_model(model: str) -> str:
    return model.lower().replace(" ", "-").removeprefix("nvidia-")


def _labels(row: InstanceType, pool: Pool) -> dict[str, LabelValues | Unknown]:
    return {**autoscaler_labels(row.name, pool.kind), **kubelet_labels(row.name)}


def _described(row: InstanceType, pool: Pool, case: Case) -> str:
    """Return a type's GPUs and price, and a warning where a pod would get GPUs of another model or memory."""
    region = region_of(pool, case.cluster)
    price = price_text(usd_per_hour(row, region), price_list(region))
    now = {_gpu(each): each for each in _rows(pool, case)}
    changed = f"; GPUs change from {' or '.join(now)} to {_gpu(row)}" if now and _gpu(row) not in now else ""
    return f"{row.ec2_gpus} {_gpu(row)}, {price}{changed}"


def _gpu(row: InstanceType) -> str:
    memory = "" if row.gpu_memory_mib is None else f" of {row.gpu_memory_mib / 1024:.1f} GiB"
    return f"{row.gpu_model}{memory}"


def _of_group(pool: Pool, row: InstanceType, described: str, case: Case) -> Change | None:
    """Return the change of a group to another type where its types are written; ``None`` where that isn't known."""
    group, template = pool.resource, pool.launch_resource
    if group is None:
        return None
    if is_of_eksctl(group):
        word = group.metadata.get(TYPES_AS)
        if word is None:
            return None
        written_value = row.name if word == "instanceType" else None
        text = f"set {word} of {group.path} to {row.name} ({described})"
        on, place, value = _where(pool, group, template, row.name)
        return Change(text, group.origin, place, value, on.key, True, written_at(group, word), written_value)
    on, place, value = _where(pool, group, template, row.name)
    if isinstance(dig(dict(on.properties), *place), Unknown):
        return None
    return Change(
        f"set {place[-1]} of {on.path} to {row.name} ({described})", on.origin, place, value, key=on.key, of_pool=True
    )


def _where(pool: Pool, group: Resource, template: Resource | None, name: str) -> tuple[Resource, tuple[str, ...], Any]:
    """Return the resource that names the types of a group, where it does, and the value that names one type."""
    overrides = ("MixedInstancesPolicy", "LaunchTemplate", "Overrides")
    if dig(dict(group.properties), *overrides):
        return group, overrides, [{"InstanceType": name}]
    if template is not None and not group.properties.get("InstanceTypes"):
        return template, ("LaunchTemplateData", "InstanceType"), name
    return group, ("InstanceTypes",), [name]


def _of_node_pool(wanted: Demand, pool: Pool, row: InstanceType | None, case: Case, *, alone: bool) -> Change | None:
    """Return the change of a NodePool's requirements that lets it launch a type, and what else a pod selects.

    With ``alone`` the type takes the place of the others: Karpenter would launch a cheaper one.
    """
    written = dig(pool.properties, *_REQUIREMENTS[1:])
    if isinstance(written, Unknown) or any(isinstance(each.values, Unknown) for each in pool.requirements):
        return None
    of_type: Labels = {} if row is None else _labels(row, pool)
    labels = {**of_type, **_selected(wanted, pool)}
    edited = [(each, _widened(each, labels, alone=alone)) for each in mappings(written)]
    edits = list(_described_edits(edited))
    if not edits:
        return None
    value = [after for _, after in edited if after is not None]
    what = "" if row is None else f" {row.name} ({_described(row, pool, case)})"
    launch = f"let NodePool {pool.name} launch{what}: " if what else f"in NodePool {pool.name} "
    return Change(launch + ", ".join(edits), pool.origin, _REQUIREMENTS, value, of_pool=True)


def _selected(wanted: Demand, pool: Pool) -> Labels:
    """Return the values that a pod selects of labels that a NodePool's requirements restrict."""
    restricted = {each.key for each in pool.requirements} & set(_WIDENED)
    terms = wanted.pod.selection.terms or ()
    asked = (*wanted.pod.selection.selector, *(terms[0].labels if len(terms) == 1 else ()))
    return {
        each.key: exactly(each.values[0])
        for each in asked
        if each.key in restricted and each.operator == "In" and each.values
    }


def _widened(written: dict[str, Any], labels: Labels, *, alone: bool) -> dict[str, Any] | None:
    """Return a requirement that a node with such labels meets; ``None`` where it has to go."""
    wanted = requirement(written)
    value = labels.get(wanted.key)
    only = value.only if isinstance(value, LabelValues) else None
    if wanted.met_by(labels if wanted.key in labels else {}) is not Answer.NO or wanted.key not in labels:
        return written
    if only is None or wanted.operator == "DoesNotExist":
        return None
    values = list(wanted.values or ())
    new = {
        "In": [only] if alone else [*values, only],
        "NotIn": [each for each in values if each != only],
        "Gte": [only],
        "Lte": [only],
        **({"Gt": [str(int(only) - 1)], "Lt": [str(int(only) + 1)]} if only.isdigit() else {}),
    }.get(wanted.operator)
    return {**written, "values": new} if new else None


def _described_edits(edited: Iterable[tuple[dict[str, Any], dict[str, Any] | None]]) -> Iterator[str]:
    for before, after in edited:
        if after is None:
            yield f"leave out requirement {requirement(before)}"
        elif after is not before and after.get("operator") == "In" and len(after["values"]) == 1:
            yield f"set {after['key']} to {after['values'][0]}"
        elif after is not before and after.get("operator") == "In":
            yield f"add {after['values'][-1]} to {after['key']}"
        elif after is not before:
            yield f"require {requirement(after)} instead of {requirement(before)}"
