"""The allowed instances, size and disruption of a NodePool, for Karpenter and for the Karpenter in Auto Mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.launch_template import check_subnets
from gpu_constructs.pools.capacity import (
    Capacity,
    CapacityBlock,
    Reservation,
    refuse_spot_for_training,
    refuse_unless_capacity,
    refuse_unless_sold,
)
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.kubelet import Taint
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.size import Size, Static, refuse_unless_size
from gpu_facts.kubernetes import ARCHITECTURES, refuse_unless_object_name
from gpu_facts.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, KARPENTER_DOMAIN, ZONE
from gpu_facts.named_arguments import named_arguments

# Max length of a label value: nodes have the name as a label.
_MAX_NAME = 63
_STATIC = "-static"


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """Subnets and security groups of nodes.

    Attributes:
        subnet_ids: Ids of the subnets.
        security_group_ids: Ids of the nodes' security groups.
        subnets: The subnets themselves.
    """

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]
    # Constructs of the app for the same subnets. They aren't compared, because the ids are.
    subnets: Sequence[ec2.ISubnet] = field(default=(), compare=False)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class NodePool:
    """A pool of Karpenter, or of the Karpenter in Auto Mode.

    Attributes:
        name: Name of its objects.
        shape: Hardware and software of its nodes.
        size: Its max size, or its fixed number of nodes.
        capacities: Purchase options of the instances.
        disruption: Rules for the removal and replacement of nodes.
    """

    name: str
    shape: NodeShape
    size: Size
    capacities: tuple[Capacity, ...]
    disruption: Disruption

    @classmethod
    def from_arguments(
        cls,
        who: object,
        *,
        name: str,
        shape: NodeShape,
        size: Size,
        capacity: Capacity | Sequence[Capacity],
        disruption: Disruption | None,
    ) -> NodePool:
        """Return the pool that the arguments of a construct describe.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: EC2 doesn't sell the nodes this way, or the size leaves no room for a node.
        """
        capacities = _ways_of_buying(who, capacity)
        refuse_unless_object_name(who, "name", name)
        if not isinstance(shape, NodeShape):
            raise TypeError(f"{who}: shape must be a NodeShape, got {shape!r}; write NodeShape(instance_types=(...,))")
        if disruption is not None and not isinstance(disruption, Disruption):
            raise TypeError(f"{who}: disruption must be a Disruption, got {disruption!r}; write Disruption.training()")
        refuse_unless_size(who, size)
        _refuse_unless_launchable(who, shape, capacities)
        size.refuse_unless_launchable(who, shape, capacities)
        suited = Disruption.suited_to(shape.purpose, static=isinstance(size, Static))
        made = cls(name=name, shape=shape, size=size, capacities=capacities, disruption=disruption or suited)
        if len(made.object_name) > _MAX_NAME:
            most = _MAX_NAME - len(_STATIC)
            raise ValueError(
                f"{who}: name must be at most {most} characters with Static(...), got {name!r}; shorten it"
            )
        return made

    @property
    def object_name(self) -> str:
        """Name of the NodePool. It shows whether the pool is static, because Kubernetes never changes that."""
        return f"{self.name}{_STATIC}" if isinstance(self.size, Static) else self.name

    @property
    def zone(self) -> str | None:
        """The only zone of its nodes, if all capacity is reserved there."""
        zones = {each.availability_zone for each in self.capacities}
        return zones.pop() if len(zones) == 1 else None

    @property
    def max_nodes(self) -> int:
        """Max number of nodes, if each is of the smallest type."""
        return self.size.max_nodes(self.shape, self.capacities)

    @property
    def nodes_for_pods(self) -> int:
        """Max number of nodes on which pods run at once, without the spare ones of a static pool."""
        return self.size.nodes_for_pods(self.shape, self.capacities)

    @property
    def reservations(self) -> list[dict[str, str]]:
        """Selector terms of the reservations. Without them Karpenter uses none, independent of the capacity type."""
        return [
            {"id": each.id}
            for each in self.capacities
            if isinstance(each, (Reservation, CapacityBlock)) and each.id is not None
        ]

    def requirements(self) -> list[dict[str, Any]]:
        """Return all requirements of instances, because Karpenter's own defaults include arm64 and spot."""
        bought = list(dict.fromkeys(each.karpenter_capacity_type for each in self.capacities))
        return [
            label_requirement(INSTANCE_TYPE, self.shape.names),
            label_requirement(ARCH, (ARCHITECTURES[self.shape.architecture],)),
            label_requirement(CAPACITY_TYPE, bought),
            *([label_requirement(ZONE, (self.zone,))] if self.zone else []),
        ]

    def to_size(self) -> dict[str, Any]:
        """Return the size limits of the pool, and its rank among pools."""
        return self.size.to_manifest(self.shape, self.capacities)

    def to_manifest(self, *, labels: Mapping[str, str], nodes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the NodePool, for nodes with some labels and fields."""
        return {
            "apiVersion": f"{KARPENTER_DOMAIN}/v1",
            "kind": "NodePool",
            "metadata": {"name": self.object_name},
            "spec": {
                "template": {"metadata": {"labels": labels}, "spec": nodes},
                **self.to_size(),
                "disruption": self.disruption.to_manifest(),
            },
        }


def label_requirement(key: str, values: Sequence[str]) -> dict[str, Any]:
    """Return a requirement that a label has one of some values."""
    return {"key": key, "operator": "In", "values": list(values)}


def node_taints(shape: NodeShape) -> dict[str, list[dict[str, str]]]:
    """Return the taints of a node in the form of a NodePool: permanent taints and startup taints."""
    startup = _spelled(shape.startup_taints)
    return {"taints": _spelled(shape.node_taints)} | ({"startupTaints": startup} if startup else {})


def _spelled(taints: Iterable[Taint]) -> list[dict[str, str]]:
    return [{"key": each.key, "value": each.value, "effect": each.effect} for each in taints]


def place(
    construct: Construct,
    pool: NodePool,
    *,
    who: object,
    cluster: ClusterRef,
    subnets: Sequence[ec2.ISubnet] | None,
    security_group_ids: Sequence[str] | None,
) -> Network:
    """Reject a pool without suitable subnets in the cluster, and return the network of its nodes.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The subnets don't fit the nodes, or the security group is unknown.
    """
    # Each reservation must have its zone among the subnets.
    for zone in {each.availability_zone for each in pool.capacities} - {None, pool.zone}:
        cluster.subnets(subnets, who=who, zone=zone)
    chosen = cluster.subnets(subnets, who=who, zone=pool.zone)
    check_subnets(construct, who=who, cluster=cluster, shape=pool.shape, subnets=chosen, max_nodes=pool.max_nodes)
    return Network(
        subnet_ids=[each.subnet_id for each in chosen],
        subnets=chosen,
        security_group_ids=list(
            dict.fromkeys(
                [*cluster.security_group_ids(who, security_group_ids), *pool.shape.host.security_group_ids],
            )
        ),
    )


def _ways_of_buying(who: object, capacity: object) -> tuple[Capacity, ...]:
    found = tuple(capacity) if isinstance(capacity, (list, tuple)) else (capacity,)
    for each in found:
        refuse_unless_capacity(who, each)
    if not found:
        raise ValueError(f"{who}: capacity must name at least one purchase option, got none; write OnDemand()")
    if len(set(found)) < len(found):
        raise ValueError(f"{who}: capacity must differ, got {found!r}; remove the duplicates")
    return cast("tuple[Capacity, ...]", found)


def _refuse_unless_launchable(who: object, shape: NodeShape, capacities: Sequence[Capacity]) -> None:
    refuse_unless_sold(who, shape.rows, capacities)
    for each in capacities:
        refuse_spot_for_training(who, shape.purpose, each)
        if isinstance(each, Reservation) and each.id is None:
            raise ValueError(
                f"{who}: capacity must be a Reservation with id, got a resource group; write the id, because Karpenter "
                "selects by id"
            )
    if any(each.ultraserver_only for each in shape.rows):
        raise ValueError(
            f"{who}: shape must have no UltraServer type, got {shape.names[0]!r}; use a ManagedNodeGroup, because "
            "Karpenter doesn't support UltraServers"
        )
