"""What could be changed in a pool so that it takes a workload: its size, its limits, its disk and its labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from gpu_facts.labels import ACCELERATOR, KARPENTER_DOMAIN, RESOURCE_TAG
from gpu_facts.quantities import GIB, MIB
from gpu_facts.resources import DEVICE_CLASS, DISK, GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.pools import desired_nodes
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.launch import class_launch, template_launch
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.daemon_miss import miss
from gpu_preflight.node.node_size import allocatable, root_device
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.resources import is_of_eksctl, written_at
from gpu_preflight.reading.unknown import Unknown, dig, mapping, mappings
from gpu_preflight.remedies.change import Change, written
from gpu_preflight.remedies.of_types import has_local_disk
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.verdict import PoolVerdict

# Volumes are suggested in steps, up to the largest that EBS has.
_STEP_GIB, _MOST_GIB = 10, 16_384
# Images with CUDA need it (GPU048).
_LEAST_GIB = 100
# Labels in these domains are set by Kubernetes, Karpenter, EKS and NVIDIA, and not by who makes a pool.
_RESERVED = ("kubernetes.io", "k8s.io", "amazonaws.com", "k8s.aws", KARPENTER_DOMAIN, "eksctl.io", "nvidia.com")


def more_nodes(judged: PoolVerdict, missing: int, case: Case) -> Iterator[Change]:
    """Yield what raises the most nodes of a pool by those that some pods need."""
    pool, nodes = judged.pool, -(-missing // max(judged.per_node or 1, 1))
    if pool.is_group and pool.max_nodes is not None and pool.resource is not None:
        yield from _larger_group(judged, pool.resource, pool.max_nodes + nodes, case)
    elif not pool.is_group:
        yield from _larger_node_pool(judged, nodes, case)


def _larger_group(judged: PoolVerdict, group: Resource, most: int, case: Case) -> Iterator[Change]:
    managed = judged.pool.kind == "managed"
    yield _of_size(group, ("ScalingConfig", "MaxSize") if managed else ("MaxSize",), "maxSize", most, case)
    # Without an autoscaler nothing else starts the nodes.
    if case.cluster.runs("cluster-autoscaler") is not Answer.YES and desired_nodes(judged.pool) is not None:
        size = ("ScalingConfig", "DesiredSize") if managed else ("DesiredCapacity",)
        yield _of_size(group, size, "desiredCapacity", most, case)


def _of_size(group: Resource, size: tuple[str, ...], name: str, most: int, case: Case) -> Change:
    """Return the change of a size; one that a function is asked for at deployment is set where it is told."""
    said, resource = dig(dict(group.properties), *size), group
    if isinstance(said, Unknown) and said.resource in case.cluster.resources:
        resource, size = case.cluster.resources[str(said.resource)], ("Max",)
    names = written_at(resource, name)
    value = str(most) if isinstance(said, str) else most
    text = f"raise {(names or size)[-1]} of {resource.path} to {most}"
    return Change(text, resource.origin, size, value, key=resource.key, of_pool=True, written=names)


def _larger_node_pool(judged: PoolVerdict, nodes: int, case: Case) -> Iterator[Change]:
    """Yield the change of every limit of a NodePool that leaves no room for some more nodes."""
    pool = judged.pool
    rows = [each.row for each in judged.nodes_taking or case.nodes(pool) if each.row]
    of_node = {
        GPU: max((each.ec2_gpus for each in rows), default=0),
        "cpu": max((each.vcpus or 0 for each in rows), default=0) * 1000,
        "memory": max((each.memory_mib or 0 for each in rows), default=0) * MIB,
    }
    # Nodes that the limits already allow count as room, so only what is missing is added.
    allowed = {name: pool.limits[name] // size for name, size in of_node.items() if size and name in pool.limits}
    if pool.max_nodes is not None:
        allowed["nodes"], of_node["nodes"] = pool.max_nodes, 1
    needed = min(allowed.values(), default=0) + nodes
    raised = {name: written(name, needed * of_node[name], up=True) for name, many in allowed.items() if many < needed}
    if raised:
        to = ", ".join(f"{name} to {value}" for name, value in raised.items())
        text = f"raise limit {to} of NodePool {pool.name}"
        limits = {**mapping(pool.properties.get("limits")), **raised}
        yield Change(text, pool.origin, ("spec", "limits"), limits, of_pool=True)


def told_of(wanted: Demand, judged: PoolVerdict, node: NodeToBe) -> Iterator[Change]:
    """Yield tags by which an autoscaler learns what the nodes of a managed group have that it does not expect."""
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
        names = written_at(resource, "tags")
        yield Change(text, resource.origin, ("Tags",), {**tags, **added}, key=resource.key, of_pool=True, written=names)


def larger_disk(wanted: Demand, pool: Pool, node: NodeToBe) -> Iterator[Change]:
    """Yield the change to the smallest volume on which a pod has the disk that it requests."""
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
    """Return a pool with a volume of another size for images and pods, and the change that leads to it."""
    if pool.is_group:
        return _group_with_disk(pool, gib)
    if pool.node_class is None:
        return None
    said = pool.launch.written
    on = f"{pool.node_class.kind} {pool.node_class.name}"
    if pool.kind == "auto-mode":
        changed: dict[str, Any] = {"ephemeralStorage": {**mapping(said.get("ephemeralStorage")), "size": f"{gib}Gi"}}
    else:
        keys = ("deviceName", "ebs", "volumeSize")
        disks = _resized(said.get("blockDeviceMappings"), root_device(pool), f"{gib}Gi", keys)
        changed = {"blockDeviceMappings": disks}
    [(name, value)] = changed.items()
    launch = class_launch({**said, **changed})
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
    said = pool.launch.written
    keys = ("DeviceName", "Ebs", "VolumeSize")
    disks = _resized(said.get("BlockDeviceMappings"), root_device(pool), gib, keys)
    launch = template_launch({**said, "BlockDeviceMappings": disks})
    place = ("LaunchTemplateData", "BlockDeviceMappings")
    own = is_of_eksctl(template)
    text = f"set volumeSize of {group.path} to {gib}" if own else f"set the volume of {template.path} to {gib} GiB"
    on = group if own else template
    names = written_at(group, "volumeSize")
    change = Change(text, on.origin, place, disks, template.key, True, names, gib if own else None)
    return replace(pool, launch=launch), change


def _resized(said: Any, device: str, size: Any, keys: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Return block device mappings in which the volume for images and pods has another size."""
    name, ebs, volume = keys
    listed = mappings(said)
    root = next((each for each in listed if each.get("rootVolume") is True), None)
    root = root or next((each for each in listed if each.get(name) == device), None)
    if root is None:
        small = name[0].islower()
        new = {volume: size, **({"volumeType": "gp3", "encrypted": True} if small else {"VolumeType": "gp3"})}
        return [*listed, {name: device, ebs: new}]
    return [{**each, ebs: {**mapping(each.get(ebs)), volume: size}} if each is root else each for each in listed]


def labelled(wanted: Demand, pool: Pool, node: NodeToBe) -> Iterator[Change]:
    """Yield the change that gives the nodes of a pool the labels that a pod selects and no requirement names."""
    added = dict(missing_labels(wanted, node))
    resource = pool.resource
    if not added or (resource is not None and pool.kind != "managed"):
        return
    text = ", ".join(f"{key}={value}" for key, value in added.items())
    if resource is not None:
        labels = {**mapping(resource.properties.get("Labels")), **added}
        told = f"label the nodes of {resource.path} with {text}"
        names = written_at(resource, "labels")
        yield Change(told, resource.origin, ("Labels",), labels, key=resource.key, of_pool=True, written=names)
        return
    path = ("template", "metadata", "labels")
    labels = {**mapping(dig(pool.properties, *path)), **added}
    yield Change(
        f"label the nodes of NodePool {pool.name} with {text}", pool.origin, ("spec", *path), labels, None, True
    )


def missing_labels(wanted: Demand, node: NodeToBe) -> Iterator[tuple[str, str]]:
    """Yield the labels with a value that a pod selects, that a node doesn't have, and that who makes a pool chooses."""
    for each, answer in wanted.pod.selection.unmet(node.labels):
        chosen = each.operator == "In" and len(each.values or ()) == 1 and each.key not in node.labels
        chosen = chosen and (each.key == ACCELERATOR or not each.key.rpartition("/")[0].endswith(_RESERVED))
        if answer is Answer.NO and chosen:
            yield each.key, (each.values or ("",))[0]


def tolerating_plugins(pool: Pool, taints: tuple[Taint, ...], case: Case) -> Iterator[Change]:
    """Yield the tolerations without which a device plugin that is in the input doesn't run on the nodes of a pool."""
    plugins = [each for each in case.cluster.daemon_sets if GPU in each.advertises]
    missing = [(each, miss(each, taints, case.nodes(pool))) for each in plugins]
    if any(not each.taints and not each.unselected for _, each in missing):
        return
    for daemon, why in missing:
        owner = next((each for each in case.cluster.of_kind("DaemonSet") if each.origin == daemon.origin), None)
        if owner is None or not why.taints:
            continue
        path = ("spec", "template", "spec", "tolerations")
        added = [{"key": each.key, "operator": "Exists", "effect": each.effect} for each in why.taints]
        value = [*mappings(dig(owner.content, *path)), *added]
        text = f"let DaemonSet {owner.namespace}/{owner.name} tolerate {', '.join(map(str, why.taints))}"
        yield Change(text, owner.origin, path, value, of_pool=True)
