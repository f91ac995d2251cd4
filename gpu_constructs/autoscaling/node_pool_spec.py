"""What a NodePool may launch and keep, for Karpenter and for the Karpenter inside Auto Mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.facts.kubernetes import ARCHITECTURES, refuse_unless_object_name
from gpu_constructs.facts.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.suitable_subnets import check_subnets
from gpu_constructs.pools.capacity import (
    Capacity,
    CapacityBlock,
    Reservation,
    refuse_spot_for_training,
    refuse_unless_capacity,
    refuse_unless_sold,
)
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.refusals import refuse_unless_whole_number, words

_MAX_WEIGHT = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Network:
    """Where nodes start.

    Attributes:
        subnet_ids: Ids of the subnets.
        security_group_ids: Ids of the nodes' security groups.
    """

    subnet_ids: Sequence[str]
    security_group_ids: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodePoolSpec:
    """A pool that Karpenter, or the Karpenter inside Auto Mode, can launch nodes for.

    Attributes:
        who: Path of the pool, for messages. The others are the arguments of a `KarpenterNodePool` with their names.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EC2 does not sell the nodes so, or the limits leave room for none.
    """

    who: object = field(compare=False)
    name: str
    shape: NodeShape
    max_gpus: int | None = None
    replicas: int | None = None
    spare_nodes: int | None = None
    capacity: Capacity | Sequence[Capacity]
    weight: int | None = None
    max_vcpus: int | None = None
    max_memory_gib: int | None = None
    disruption: Disruption | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", _ways_of_buying(self.who, self.capacity))
        refuse_unless_object_name(self.who, "name", self.name)
        if not isinstance(self.shape, NodeShape):
            raise TypeError(f"{self.who}: shape must be a NodeShape, got {self.shape!r}")
        if self.disruption is not None and not isinstance(self.disruption, Disruption):
            raise TypeError(f"{self.who}: disruption must be a Disruption, got {self.disruption!r}")
        _refuse_unless_launchable(self)
        _refuse_unless_sized(self)

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        """How instances may be bought."""
        return cast("tuple[Capacity, ...]", self.capacity)

    @property
    def profile(self) -> Disruption:
        """When nodes are removed or replaced: as told, or as suits what runs on them."""
        if self.disruption is not None:
            return self.disruption
        return Disruption.suited_to(self.shape.purpose, static=self.replicas is not None)

    @property
    def zone(self) -> str | None:
        """The one zone of its nodes, where all capacity is reserved there."""
        zones = {each.availability_zone for each in self.capacities}
        return zones.pop() if len(zones) == 1 else None

    @property
    def spare(self) -> int:
        """Nodes above ``replicas`` that may be there while one is replaced."""
        if self.spare_nodes is not None:
            return self.spare_nodes
        return 0 if all(isinstance(each, (Reservation, CapacityBlock)) for each in self.capacities) else 1

    @property
    def max_nodes(self) -> int:
        """Most nodes, if each is of the smallest type."""
        if self.replicas is not None:
            return self.replicas + self.spare
        return (self.max_gpus or 0) // self.shape.gpus

    @property
    def reservations(self) -> list[dict[str, str]]:
        """Selector terms of the reservations; without them none is taken, however the capacity type reads."""
        return [
            {"id": each.id}
            for each in self.capacities
            if isinstance(each, (Reservation, CapacityBlock)) and each.id is not None
        ]

    def requirements(self) -> list[dict[str, Any]]:
        """Return what an instance must be. All of it, because Karpenter's own choice would be arm64 and spot."""
        bought = list(dict.fromkeys(each.karpenter_capacity_type for each in self.capacities))
        return [
            is_in(INSTANCE_TYPE, self.shape.names),
            is_in(ARCH, (ARCHITECTURES[self.shape.architecture],)),
            is_in(CAPACITY_TYPE, bought),
            *([is_in(ZONE, (self.zone,))] if self.zone else []),
        ]

    def size(self) -> dict[str, Any]:
        """Return how large the pool may become, and its rank among pools."""
        if self.replicas is not None:
            return {"replicas": self.replicas, "limits": {"nodes": str(self.replicas + self.spare)}}
        # Karpenter counts what nodes advertise: of shared GPUs, the shares.
        shares = self.shape.gpu_resources(self.max_gpus or 0)
        limits = {resource: str(amount) for resource, amount in shares.items()}
        if self.max_vcpus is not None:
            limits["cpu"] = str(self.max_vcpus)
        if self.max_memory_gib is not None:
            limits["memory"] = f"{self.max_memory_gib}Gi"
        return {"limits": limits} | ({"weight": self.weight} if self.weight is not None else {})

    def subnets(self, cluster: ClusterRef, given: Sequence[ec2.ISubnet] | None) -> list[ec2.ISubnet]:
        """Return the subnets of the nodes; each reservation has to find its zone among them.

        Raises:
            ValueError: There is none, or none in the zone of a reservation.
        """
        for zone in {each.availability_zone for each in self.capacities} - {None, self.zone}:
            cluster.subnets(given, who=self.who, zone=zone)
        return cluster.subnets(given, who=self.who, zone=self.zone)


def is_in(key: str, values: Sequence[str]) -> dict[str, Any]:
    """Return a requirement that a label has one of some values."""
    return {"key": key, "operator": "In", "values": list(values)}


def node_taints(shape: NodeShape) -> list[dict[str, str]]:
    """Return the taints of a node as Kubernetes spells them."""
    return [{"key": each.key, "value": each.value, "effect": each.effect} for each in shape.taints]


def place(
    pool: Construct,
    *,
    cluster: ClusterRef,
    spec: NodePoolSpec,
    subnets: Sequence[ec2.ISubnet] | None,
    security_group_ids: Sequence[str] | None,
) -> Network:
    """Refuse a pool that finds no place in the cluster, and return where its nodes start. Its name is taken then.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The subnets do not suit the nodes, no security group is known, or another pool has the name.
    """
    who = spec.who
    chosen = spec.subnets(cluster, subnets)
    check_subnets(pool, who=who, cluster=cluster, shape=spec.shape, subnets=chosen, max_nodes=spec.max_nodes)
    network = Network(
        subnet_ids=[each.subnet_id for each in chosen],
        security_group_ids=_security_groups(who, cluster, security_group_ids),
    )
    cluster.claim(who, f"NodePool named {spec.name!r}", why="they are the same Kubernetes object")
    return network


def _ways_of_buying(who: object, capacity: object) -> tuple[object, ...]:
    found = tuple(capacity) if isinstance(capacity, (list, tuple)) else (capacity,)
    for each in found:
        refuse_unless_capacity(who, each)
    if not found:
        raise ValueError(f"{who}: capacity must name at least one way of buying, got none")
    if len(set(found)) < len(found):
        raise ValueError(f"{who}: capacity must differ, got {found!r}")
    return found


def _refuse_unless_launchable(spec: NodePoolSpec) -> None:
    who = spec.who
    refuse_unless_sold(who, spec.shape.rows, spec.capacities)
    for each in spec.capacities:
        refuse_spot_for_training(who, spec.shape.purpose, each)
        if isinstance(each, Reservation) and each.id is None:
            raise ValueError(
                f"{who}: capacity must be a Reservation with id, got a resource group; Karpenter selects by id"
            )
    if any(each.ultraserver_only for each in spec.shape.rows):
        raise ValueError(
            f"{who}: shape must not be {spec.shape.names[0]!r}; Karpenter knows no UltraServers, use a ManagedNodeGroup"
        )


def _refuse_unless_sized(spec: NodePoolSpec) -> None:
    who = spec.who
    if (spec.max_gpus is None) == (spec.replicas is None):
        raise ValueError(
            f"{who}: either max_gpus or replicas must be given, got {spec.max_gpus} and {spec.replicas}; max_gpus for "
            "a pool that follows the pods, replicas for a static one"
        )
    if spec.replicas is not None:
        refuse_unless_whole_number(who, "replicas", spec.replicas, least=0)
        refuse_unless_whole_number(who, "spare_nodes", spec.spare, least=0)
        _refuse_more_than_reserved(spec)
        for argument in ("weight", "max_vcpus", "max_memory_gib"):
            if getattr(spec, argument) is not None:
                raise ValueError(
                    f"{who}: {argument} must be left out with replicas, got {getattr(spec, argument)}; the API server "
                    "takes a static pool's number of nodes and nothing else"
                )
        return
    if spec.spare_nodes is not None:
        raise ValueError(f"{who}: spare_nodes must go with replicas, got {spec.spare_nodes} without")
    _refuse_unless_max_gpus(spec)
    if spec.weight is not None:
        refuse_unless_whole_number(who, "weight", spec.weight, least=1)
        if spec.weight > _MAX_WEIGHT:
            raise ValueError(f"{who}: weight must be at most {_MAX_WEIGHT}, got {spec.weight}")
    _refuse_limits_that_bind_first(spec)


def _refuse_more_than_reserved(spec: NodePoolSpec) -> None:
    blocks = [each.instances for each in spec.capacities if isinstance(each, CapacityBlock)]
    if len(blocks) == len(spec.capacities) and spec.max_nodes > sum(blocks):
        raise ValueError(
            f"{spec.who}: replicas must be at most the {sum(blocks)} instances of the Capacity Block, spare nodes "
            f"included, got {spec.max_nodes}"
        )


def _refuse_unless_max_gpus(spec: NodePoolSpec) -> None:
    who = spec.who
    if isinstance(spec.max_gpus, float) and math.isfinite(spec.max_gpus) and cdk.Token.is_unresolved(spec.max_gpus):
        raise ValueError(f"{who}: max_gpus must be known at synth, got a token; a NodePool limit is part of a manifest")
    least = spec.shape.gpus
    names = ", ".join(spec.shape.names)
    refuse_unless_whole_number(who, "max_gpus", spec.max_gpus, least=least, fix=f"the smallest of {names} has {least}")


def _refuse_limits_that_bind_first(spec: NodePoolSpec) -> None:
    """Refuse limits on vCPUs and memory under which the last GPUs could never be launched."""
    gpus = spec.max_gpus or 0
    for argument, given, needed in (
        ("max_vcpus", spec.max_vcpus, [(each.vcpus or 0) * (gpus // each.gpus) for each in spec.shape.rows]),
        (
            "max_memory_gib",
            spec.max_memory_gib,
            [int((each.memory_gib or 0) * (gpus // each.gpus)) for each in spec.shape.rows],
        ),
    ):
        if given is not None:
            refuse_unless_whole_number(
                spec.who, argument, given, least=max(needed), fix=f"{gpus} GPUs of the pool come with so much"
            )


def _security_groups(who: object, cluster: ClusterRef, given: Sequence[str] | None) -> list[str]:
    """Return the ids of the nodes' security groups: as given, or the cluster's own.

    Raises:
        TypeError: ``given`` is no list of ids.
        ValueError: It is empty, or the cluster was imported without its group.
    """
    if given is not None:
        ids = words(who, "security_group_ids", given)
        if not ids:
            raise ValueError(f"{who}: security_group_ids must name at least one group, got none")
        return list(ids)
    if cluster.security_group_id is None:
        raise ValueError(
            f"{who}: security_group_ids must be given when the cluster was imported without "
            "cluster_security_group_id, got None"
        )
    return [cluster.security_group_id]
