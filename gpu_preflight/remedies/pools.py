"""Possible changes to a pool so that it accepts a workload: its size, its limits, its disk and its labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.regions import is_unseen, price_list, price_text, usd_per_hour
from gpu_facts.labels import ACCELERATOR, CAPACITY_TYPE, INSTANCE_TYPE, KARPENTER_DOMAIN, RESOURCE_TAG, ZONE
from gpu_facts.quantities import GIB
from gpu_facts.resources import DEVICE_CLASS, DISK, GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.cluster.pools import desired_nodes
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import Labels, LabelValues, Requirement, exactly, requirement
from gpu_preflight.model.launch import class_launch, template_launch
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.instance_types import (
    allocatable,
    autoscaler_labels,
    kubelet_labels,
    root_device,
    uses_local_disks,
)
from gpu_preflight.node.nodes import NodeToBe, miss, nodes_to_be
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.groups import eksctl_field_path
from gpu_preflight.reading.eksctl.recognition import TYPES_AS, is_of_eksctl
from gpu_preflight.reading.unknown import Unknown, dig, mapping, mappings
from gpu_preflight.remedies.change import Change, written
from gpu_preflight.scheduling.demand import Demand, smallest_first
from gpu_preflight.scheduling.pool_limits import node_capacity, nodes_needed, pods_per_node
from gpu_preflight.scheduling.verdict import PoolVerdict

# Requirements of a NodePool, other than instance types, that a pod's selector may extend.
_WIDENED = (CAPACITY_TYPE, ZONE)
_REQUIREMENTS = ("spec", "template", "spec", "requirements")
# Limits of a NodePool, the most important first.
_LIMITED = (GPU, "cpu", "memory", "nodes")
# Suggested sizes of volumes: steps up to the largest size of EBS.
_STEP_GIB, _MOST_GIB = 10, 16_384
# Images with CUDA need it (GPU048).
_LEAST_GIB = 100
# Kubernetes, Karpenter, EKS and NVIDIA set labels in these domains. The author of a pool doesn't.
_RESERVED = ("kubernetes.io", "k8s.io", "amazonaws.com", "k8s.aws", KARPENTER_DOMAIN, "eksctl.io", "nvidia.com")


def lacking(wanted: Demand, node: NodeToBe) -> list[str]:
    """Return the resources that a pod requests beyond a node's min amount, or beyond the autoscaler's view of it."""
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
    """Yield the change that allows a pool to launch another type, if none of its types has the pod's requests.

    Args:
        wanted: The requests of one pod.
        pool: The pool.
        node: The existing kind of node that a pod must fit on.
        case: The cluster.
        more_memory: MiB that each GPU must exceed, for a model that doesn't fit the GPUs of the pool. Default: any.
    """
    short = [name for name in lacking(wanted, node) if name != DISK or has_local_disk(pool, node)]
    needed = short or more_memory is not None or not _selects(wanted, pool, node.row)
    row = _fitting(wanted, pool, case, more_memory or 0) if needed else None
    if row is None and more_memory is not None:
        return
    if pool.is_group:
        if row is not None and (change := _instance_type_change(pool, row, _described(row, pool, case), case)):
            yield change
    elif (change := _node_pool_change(wanted, pool, row, case, alone=more_memory is not None)) is not None:
        yield change


def max_gpu_memory(pool: Pool, case: Case) -> int:
    """Return the max GPU memory of a pool, in MiB; 0 if it isn't known."""
    return max((each.gpu_memory_mib or 0 for each in _rows(pool, case)), default=0)


def _fitting(wanted: Demand, pool: Pool, case: Case, more_memory: int) -> InstanceType | None:
    """Return the best type: with the pool's GPU model, else similar in NVSwitch and GPU memory; then the cheapest."""
    now = _rows(pool, case)
    models, memory = {each.gpu_model for each in now}, max_gpu_memory(pool, case)
    architectures = {each.architecture for each in now} or {"x86_64"}
    region = pool_region(pool, case.cluster)

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
    """Return the types with GPUs that a pool may launch now."""
    return [each.row for each in case.nodes(pool) if each.row is not None]


def _has_all(wanted: Demand, pool: Pool, row: InstanceType, case: Case) -> bool:
    """Whether a pool that launches only one type has the pod's requests, if its volume is large enough."""
    only = (Requirement(INSTANCE_TYPE, "In", (row.name,)),)
    like = replace(pool, instance_types=(row.name,), requirements=() if pool.is_group else only)
    for node in nodes_to_be(like, case.cluster):
        # Cluster Autoscaler uses the amounts in tags, which another change sets.
        believed = {} if pool.is_group else node.believed
        for name, asked in wanted.requests.items():
            if name in (*node.unsaid, "pods") or (name == DISK and not has_local_disk(like, node)):
                continue
            if asked > min(node.least.get(name, 0), believed.get(name, asked)):
                return False
    return True


def _selects(wanted: Demand, pool: Pool, row: InstanceType | None) -> bool:
    """Whether a pod may run on a type, as far as the type's labels decide. The pool may have any other label."""
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
    """Return a type's GPUs and price, and a warning if a pod would get GPUs of another model or memory."""
    region = pool_region(pool, case.cluster)
    price = price_text(usd_per_hour(row, region), price_list(region))
    now = {_gpu(each): each for each in _rows(pool, case)}
    changed = f"; GPUs change from {' or '.join(now)} to {_gpu(row)}" if now and _gpu(row) not in now else ""
    return f"{row.ec2_gpus} {_gpu(row)}, {price}{changed}"


def _gpu(row: InstanceType) -> str:
    memory = "" if row.gpu_memory_mib is None else f" of {row.gpu_memory_mib / 1024:.1f} GiB"
    return f"{row.gpu_model}{memory}"


def _instance_type_change(pool: Pool, row: InstanceType, described: str, case: Case) -> Change | None:
    """Return the change of a group to another type, if its types are written; ``None`` if the place isn't known."""
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
        return Change(text, group.origin, place, value, on.key, True, eksctl_field_path(group, word), written_value)
    on, place, value = _where(pool, group, template, row.name)
    if isinstance(dig(dict(on.properties), *place), Unknown):
        return None
    return Change(
        f"set {place[-1]} of {on.path} to {row.name} ({described})", on.origin, place, value, key=on.key, of_pool=True
    )


def _where(pool: Pool, group: Resource, template: Resource | None, name: str) -> tuple[Resource, tuple[str, ...], Any]:
    """Return the resource that sets the types of a group, its path, and the value for one type."""
    overrides = ("MixedInstancesPolicy", "LaunchTemplate", "Overrides")
    if dig(dict(group.properties), *overrides):
        return group, overrides, [{"InstanceType": name}]
    if template is not None and not group.properties.get("InstanceTypes"):
        return template, ("LaunchTemplateData", "InstanceType"), name
    return group, ("InstanceTypes",), [name]


def _node_pool_change(
    wanted: Demand, pool: Pool, row: InstanceType | None, case: Case, *, alone: bool
) -> Change | None:
    """Return the change of a NodePool's requirements that allows a type, and other labels that a pod selects.

    With ``alone`` the type replaces the other types, because Karpenter would launch a cheaper one.
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
    launch = f"allow NodePool {pool.name} to launch{what}: " if what else f"in NodePool {pool.name} "
    return Change(launch + ", ".join(edits), pool.origin, _REQUIREMENTS, value, of_pool=True)


def _selected(wanted: Demand, pool: Pool) -> Labels:
    """Return the values that a pod selects for labels that a NodePool's requirements restrict."""
    restricted = {each.key for each in pool.requirements} & set(_WIDENED)
    terms = wanted.pod.selection.terms or ()
    asked = (*wanted.pod.selection.selector, *(terms[0].labels if len(terms) == 1 else ()))
    return {
        each.key: exactly(each.values[0])
        for each in asked
        if each.key in restricted and each.operator == "In" and each.values
    }


def _widened(written: dict[str, Any], labels: Labels, *, alone: bool) -> dict[str, Any] | None:
    """Return a requirement that a node with such labels meets; ``None`` if it must be removed."""
    wanted = requirement(written)
    value = labels.get(wanted.key)
    only = value.only if isinstance(value, LabelValues) else None
    if wanted.matches(labels if wanted.key in labels else {}) is not Answer.NO or wanted.key not in labels:
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
            yield f"remove requirement {requirement(before)}"
        elif after is not before and after.get("operator") == "In" and len(after["values"]) == 1:
            yield f"set {after['key']} to {after['values'][0]}"
        elif after is not before and after.get("operator") == "In":
            yield f"add {after['values'][-1]} to {after['key']}"
        elif after is not before:
            yield f"require {requirement(after)} instead of {requirement(before)}"


def more_nodes(wanted: Demand, judged: PoolVerdict, missing: int, case: Case) -> Iterator[Change]:
    """Yield the change that raises the max number of nodes of a pool by the number that some pods need.

    Args:
        wanted: The requests of one pod.
        judged: The pool.
        missing: The number of pods that the pool has no room for.
        case: The cluster.
    """
    pool = judged.pool
    if pool.is_group and pool.max_nodes is not None and pool.resource is not None:
        nodes = nodes_needed(missing, max(judged.per_node or 1, 1))
        yield from _larger_group(judged, pool.resource, pool.max_nodes + nodes, case)
    elif not pool.is_group:
        yield from _larger_node_pool(wanted, judged, missing, case)


def _larger_group(judged: PoolVerdict, group: Resource, most: int, case: Case) -> Iterator[Change]:
    managed = judged.pool.kind == "managed"
    yield _size_change(group, ("ScalingConfig", "MaxSize") if managed else ("MaxSize",), "maxSize", most, case)
    # Without an autoscaler, only the desired size starts nodes.
    if case.cluster.runs("cluster-autoscaler") is not Answer.YES and desired_nodes(judged.pool) is not None:
        size = ("ScalingConfig", "DesiredSize") if managed else ("DesiredCapacity",)
        yield _size_change(group, size, "desiredCapacity", most, case)


def _size_change(group: Resource, size: tuple[str, ...], name: str, most: int, case: Case) -> Change:
    """Return the change of a size. If a custom resource computes the size at deployment, change the custom resource."""
    current, resource = dig(dict(group.properties), *size), group
    if isinstance(current, Unknown) and current.resource in case.cluster.resources:
        resource, size = case.cluster.resources[str(current.resource)], ("Max",)
    names = eksctl_field_path(resource, name)
    value = str(most) if isinstance(current, str) else most
    text = f"raise {(names or size)[-1]} of {resource.path} to {most}"
    return Change(text, resource.origin, size, value, key=resource.key, of_pool=True, written=names)


def _larger_node_pool(wanted: Demand, judged: PoolVerdict, missing: int, case: Case) -> Iterator[Change]:
    """Yield the change of every limit of a NodePool that leaves no room for some more pods.

    Nodes of different types need different limits for the same pods. The limits are the lowest that one type needs.

    Example: 3 pods of 3 GPUs need 3 nodes of 4 GPUs, so a limit of 12, or 2 nodes of 8 GPUs, so a limit of 16.
    """
    pool = judged.pool
    nodes = list(judged.nodes_taking or case.nodes(pool))
    nodes = [each for each in nodes if not lacking(wanted, each)] or nodes
    needed = [_needed_limits(wanted, node, (judged.holds or 0) + missing, pool) for node in nodes if node.row]
    least = min(needed, key=lambda each: [each.get(name, 0) for name in _LIMITED], default={})
    now = {**pool.limits, "nodes": pool.max_nodes or 0}
    raised = {name: written(name, amount, up=True) for name, amount in least.items() if amount > now[name]}
    if raised:
        to = ", ".join(f"{name} to {value}" for name, value in raised.items())
        text = f"raise limit {to} of NodePool {pool.name}"
        limits = {**mapping(pool.properties.get("limits")), **raised}
        yield Change(text, pool.origin, ("spec", "limits"), limits, of_pool=True)


def _needed_limits(wanted: Demand, node: NodeToBe, pods: int, pool: Pool) -> dict[str, int]:
    """Return the limits of a NodePool that pods need if all of its nodes have one type, with nodes that run."""
    count = nodes_needed(pods, pods_per_node(wanted, node))
    limited = [*pool.limits, *(["nodes"] if pool.max_nodes is not None else [])]
    sizes = {name: 1 if name == "nodes" else node_capacity(name, node) for name in limited}
    return {name: count * size + pool.in_use.get(name, 0) for name, size in sizes.items() if size}


def tag_node_group(wanted: Demand, judged: PoolVerdict, node: NodeToBe) -> Iterator[Change]:
    """Yield tags that add missing resources or labels of a managed group's nodes to the autoscaler's view."""
    resource = judged.pool.resource
    tags = dict(resource.properties).get("Tags", {}) if resource is not None else None
    if judged.pool.kind != "managed" or resource is None or not isinstance(tags, dict):
        return
    added = {
        f"{RESOURCE_TAG}{name}": str(written(name, node.least[name]))
        for name, asked in wanted.requests.items()
        if name != DEVICE_CLASS and node.believed.get(name, 0) < asked <= node.least.get(name, 0)
    }
    if added and not any(isinstance(each, Unknown) for each in tags.values()):
        text = f"tag {resource.path} with {', '.join(f'{key}={value}' for key, value in added.items())}"
        names = eksctl_field_path(resource, "tags")
        yield Change(text, resource.origin, ("Tags",), {**tags, **added}, key=resource.key, of_pool=True, written=names)


def larger_disk(wanted: Demand, pool: Pool, node: NodeToBe) -> Iterator[Change]:
    """Yield the change to the smallest volume that has the disk that a pod requests."""
    asked = wanted.requests.get(DISK, 0)
    if node.row is None or asked <= node.least.get(DISK, 0) or has_local_disk(pool, node):
        return
    first = max(-(-asked // (GIB * _STEP_GIB)) * _STEP_GIB, _LEAST_GIB)
    for gib in range(first, _MOST_GIB + 1, _STEP_GIB):
        found = _with_disk(pool, gib)
        if found is None:
            return
        if allocatable(found[0], node.row)[0].get(DISK, 0) >= asked:
            yield found[1]
            return


def _with_disk(pool: Pool, gib: int) -> tuple[Pool, Change] | None:
    """Return a pool with a volume of another size for images and pods, and the change for it."""
    if pool.is_group:
        return _group_with_disk(pool, gib)
    if pool.node_class is None:
        return None
    written = pool.launch.written
    on = f"{pool.node_class.kind} {pool.node_class.name}"
    if pool.kind == "auto-mode":
        changed: dict[str, Any] = {"ephemeralStorage": {**mapping(written.get("ephemeralStorage")), "size": f"{gib}Gi"}}
    else:
        keys = ("deviceName", "ebs", "volumeSize")
        disks = _resized(written.get("blockDeviceMappings"), root_device(pool), f"{gib}Gi", keys)
        changed = {"blockDeviceMappings": disks}
    [(name, value)] = changed.items()
    launch = class_launch({**written, **changed})
    text = f"set the volume of {on} to {gib} GiB"
    return replace(pool, launch=launch), Change(text, pool.node_class.origin, ("spec", name), value, of_pool=True)


def _group_with_disk(pool: Pool, gib: int) -> tuple[Pool, Change] | None:
    group, template = pool.resource, pool.launch_resource
    if group is None:
        return None
    if template is None:
        text = f"set DiskSize of {group.path} to {gib} GiB"
        change = Change(text, group.origin, ("DiskSize",), gib, key=group.key, of_pool=True)
        return replace(pool, properties={**pool.properties, "DiskSize": gib}), change
    written = pool.launch.written
    keys = ("DeviceName", "Ebs", "VolumeSize")
    disks = _resized(written.get("BlockDeviceMappings"), root_device(pool), gib, keys)
    launch = template_launch({**written, "BlockDeviceMappings": disks})
    place = ("LaunchTemplateData", "BlockDeviceMappings")
    own = is_of_eksctl(template)
    text = f"set volumeSize of {group.path} to {gib}" if own else f"set the volume of {template.path} to {gib} GiB"
    on = group if own else template
    names = eksctl_field_path(group, "volumeSize")
    change = Change(text, on.origin, place, disks, template.key, True, names, gib if own else None)
    return replace(pool, launch=launch), change


def _resized(disks: Any, device: str, size: Any, keys: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return block device mappings with another size for the volume of images and pods."""
    name, ebs, volume = keys
    listed = mappings(disks)
    root = next((each for each in listed if each.get("rootVolume") is True), None)
    root = root or next((each for each in listed if each.get(name) == device), None)
    if root is None:
        small = name[0].islower()
        new = {volume: size, **({"volumeType": "gp3", "encrypted": True} if small else {"VolumeType": "gp3"})}
        return [*listed, {name: device, ebs: new}]
    return [{**each, ebs: {**mapping(each.get(ebs)), volume: size}} if each is root else each for each in listed]


def labelled(wanted: Demand, pool: Pool, node: NodeToBe) -> Iterator[Change]:
    """Yield the change that sets the labels on a pool's nodes that a pod selects and no requirement names."""
    added = dict(missing_labels(wanted, node))
    resource = pool.resource
    if not added or (resource is not None and pool.kind != "managed"):
        return
    text = ", ".join(f"{key}={value}" for key, value in added.items())
    if resource is not None:
        labels = {**mapping(resource.properties.get("Labels")), **added}
        change = f"label the nodes of {resource.path} with {text}"
        names = eksctl_field_path(resource, "labels")
        yield Change(change, resource.origin, ("Labels",), labels, key=resource.key, of_pool=True, written=names)
        return
    path = ("template", "metadata", "labels")
    labels = {**mapping(dig(pool.properties, *path)), **added}
    yield Change(
        f"label the nodes of NodePool {pool.name} with {text}", pool.origin, ("spec", *path), labels, None, True
    )


def missing_labels(wanted: Demand, node: NodeToBe) -> Iterator[tuple[str, str]]:
    """Yield labels with a value that a pod selects, that a node lacks, and that the author of a pool may set."""
    for each, answer in wanted.pod.selection.unmet(node.labels):
        chosen = each.operator == "In" and len(each.values or ()) == 1 and each.key not in node.labels
        chosen = chosen and (each.key == ACCELERATOR or not each.key.rpartition("/")[0].endswith(_RESERVED))
        if answer is Answer.NO and chosen:
            yield each.key, (each.values or ("",))[0]


def tolerating_plugins(pool: Pool, taints: tuple[Taint, ...], case: Case) -> Iterator[Change]:
    """Yield the tolerations that a device plugin in the input needs to run on the nodes of a pool."""
    plugins = [each for each in case.cluster.daemon_sets if GPU in each.advertises]
    missing = [(each, miss(each, taints, case.nodes(pool))) for each in plugins]
    if any(not each.taints and not each.unselected for _, each in missing):
        return
    for daemon, why in missing:
        owner = next((each for each in case.cluster.objects_of_kind("DaemonSet") if each.origin == daemon.origin), None)
        if owner is None or not why.taints:
            continue
        path = ("spec", "template", "spec", "tolerations")
        added = [{"key": each.key, "operator": "Exists", "effect": each.effect} for each in why.taints]
        value = [*mappings(dig(owner.content, *path)), *added]
        text = f"add tolerations of {', '.join(map(str, why.taints))} to DaemonSet {owner.namespace}/{owner.name}"
        yield Change(text, owner.origin, path, value, of_pool=True)
