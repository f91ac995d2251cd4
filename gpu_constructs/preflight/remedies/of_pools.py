"""What could be changed in a pool so that it takes a workload."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpu_constructs.facts.hardware.catalogue import InstanceType, catalogue
from gpu_constructs.facts.hardware.prices import price_list, price_text, usd_per_hour
from gpu_constructs.facts.hardware.regions import is_unseen
from gpu_constructs.facts.labels import RESOURCE_TAG
from gpu_constructs.facts.resources import DEVICE_CLASS, GPU
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.subnets import region_of
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.node.nodes import NodeToBe, nodes_to_be
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.eksctl.resources import TYPES_AS, is_of_eksctl
from gpu_constructs.preflight.reading.unknown import Unknown, dig, mapping
from gpu_constructs.preflight.remedies.change import Change, written
from gpu_constructs.preflight.scheduling.demand import Demand
from gpu_constructs.preflight.scheduling.fitting import by_resources
from gpu_constructs.preflight.scheduling.smallest_type import smallest_first
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict

_TYPES = ("InstanceTypes",)


def more_nodes(judged: PoolVerdict, missing: int, case: Case) -> Iterator[Change]:
    """Yield what raises the maximum of a pool by the nodes that some pods need."""
    pool, nodes = judged.pool, -(-missing // max(judged.per_node or 1, 1))
    if pool.is_group and pool.max_nodes is not None and pool.resource is not None:
        most = pool.max_nodes + nodes
        size = ("ScalingConfig", "MaxSize") if pool.kind == "managed" else ("MaxSize",)
        yield _of_resource(pool.resource, size, most, case)
    elif limit := pool.limits.get(GPU):
        per_node = max((each.row.ec2_gpus for each in judged.nodes_taking if each.row), default=0)
        most = limit + nodes * per_node
        yield Change(
            f"raise limit {GPU} of NodePool {pool.name} to {most}",
            pool.origin,
            ("spec", "limits"),
            {**mapping(pool.properties.get("limits")), GPU: most},
            of_pool=True,
        )


def _of_resource(resource: Resource, size: tuple[str, ...], most: int, case: Case) -> Change:
    """Return the change of a size; one that a function is asked for at deployment is set where it is told."""
    written = dig(dict(resource.properties), *size)
    if isinstance(written, Unknown) and written.resource in case.cluster.resources:
        resource, size = case.cluster.resources[str(written.resource)], ("Max",)
    names = _of_eksctl(resource, "maxSize")
    text = f"raise {(names or size)[-1]} of {resource.path} to {most}"
    return Change(text, resource.origin, size, most, key=resource.key, of_pool=True, written=names)


def _of_eksctl(resource: Resource, name: str) -> tuple[str, ...]:
    """Return where a property of a group stands in the file of eksctl; nothing for one that eksctl does not make."""
    if not is_of_eksctl(resource):
        return ()
    return ("managedNodeGroups" if resource.type == "AWS::EKS::Nodegroup" else "nodeGroups", name)


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
        names = _of_eksctl(resource, "tags")
        text = f"tag {resource.path} with {', '.join(f'{key}={value}' for key, value in added.items())}"
        yield Change(text, resource.origin, ("Tags",), {**tags, **added}, key=resource.key, of_pool=True, written=names)


def other_type(wanted: Demand, pool: Pool, case: Case) -> Iterator[Change]:
    """Yield the smallest type, in the place of those of a managed group, whose nodes have what a pod asks for."""
    resource = pool.resource
    if pool.kind != "managed" or resource is None or "InstanceTypes" not in resource.properties:
        return
    if is_of_eksctl(resource) and resource.metadata.get(TYPES_AS) is None:
        return
    region = region_of(pool, case.cluster)
    architectures = {catalogue()[name].architecture for name in pool.instance_types if name in catalogue()}
    for row in smallest_first():
        if row.architecture not in (architectures or {"x86_64"}) or not row.is_driven or is_unseen(row.name, region):
            continue
        like = replace(pool, instance_types=(row.name,))
        if not any(by_resources(wanted, node, like).reasons for node in nodes_to_be(like, case.cluster)):
            yield _of_type(resource, row.name, _price(row, region))
            return


def _of_type(resource: Resource, name: str, price: str) -> Change:
    """Return the change of a group to another type, as its types are written."""
    word = resource.metadata.get(TYPES_AS)
    names = _of_eksctl(resource, word) if word else ()
    text = f"set {(names or _TYPES)[-1]} of {resource.path} to {name} ({price})"
    told = name if word == "instanceType" else None
    return Change(text, resource.origin, _TYPES, [name], resource.key, True, names, told)


def _price(row: InstanceType, region: str | None) -> str:
    return price_text(usd_per_hour(row, region), price_list(region))
