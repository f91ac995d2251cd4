"""How large a Karpenter or Auto Mode pool may become, and when cluster autoscaler removes nodes of a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import OPTION_TAG
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_instance, refuse_unless_whole_number

_MAX_WEIGHT = 100


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class UpTo:
    """As many nodes as pods ask for, none where none asks, up to a number of GPUs.

    Source: https://karpenter.sh/docs/concepts/nodepools/

    Attributes:
        gpus: Most GPUs alive in the pool, in whole devices. Karpenter has no such limit of its own.
        vcpus: Most virtual CPUs alive in the pool. Default: as many as the GPUs come with.
        memory_gib: Most memory alive in the pool, in GiB. Default: as much as the GPUs come with.
        weight: Preference among pools that fit a pod, 1 to 100, higher first. Default: none.

    Raises:
        TypeError: A number is no whole number.
        ValueError: A number is out of its range, or known at deployment only.
    """

    gpus: int
    vcpus: int | None = None
    memory_gib: int | None = None
    weight: int | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number("size", "gpus", self.gpus, least=1, fix="delete the pool to switch it off")
        for argument, least in (("vcpus", 0), ("memory_gib", 0), ("weight", 1)):
            if getattr(self, argument) is not None:
                refuse_unless_whole_number("size", argument, getattr(self, argument), least=least)
        if self.weight is not None and self.weight > _MAX_WEIGHT:
            raise ValueError(f"size: weight must be at most {_MAX_WEIGHT}, got {self.weight}")

    def max_nodes(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the most nodes, if each is of the smallest type."""
        return self.gpus // shape.gpus

    def nodes_for_pods(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the most nodes on which pods run at once."""
        return self.max_nodes(shape, capacities)

    def refuse_unless_launchable(self, who: object, shape: NodeShape, capacities: Sequence[Capacity]) -> None:
        """Refuse limits that leave room for no node, or under which the last GPUs could never be launched.

        Raises:
            ValueError: They do.
        """
        least, names = shape.gpus, ", ".join(shape.names)
        refuse_unless_whole_number(who, "size.gpus", self.gpus, least=least, fix=f"the smallest of {names} has {least}")
        most = [(row, self.gpus // row.gpus) for row in shape.rows]
        for argument, given, needed in (
            ("vcpus", self.vcpus, max((row.vcpus or 0) * nodes for row, nodes in most)),
            ("memory_gib", self.memory_gib, max(int((row.memory_gib or 0) * nodes) for row, nodes in most)),
        ):
            if given is not None:
                refuse_unless_whole_number(
                    who, f"size.{argument}", given, least=needed, fix=f"{self.gpus} GPUs of the pool come with so much"
                )

    def to_manifest(self, shape: NodeShape, capacities: Sequence[Capacity]) -> dict[str, Any]:
        """Return what a NodePool's ``spec`` says of it."""
        # Karpenter counts what nodes advertise: of shared GPUs, the shares.
        limits = {resource: str(amount) for resource, amount in shape.gpu_resources(self.gpus).items()}
        if self.vcpus is not None:
            limits["cpu"] = str(self.vcpus)
        if self.memory_gib is not None:
            limits["memory"] = f"{self.memory_gib}Gi"
        return {"limits": limits} | ({"weight": self.weight} if self.weight is not None else {})


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Static:
    """A number of nodes that are there with or without pods.

    The API server takes no weight for it, and no limit but one of nodes. It never changes a NodePool that scales into
    a static one, or back. So the NodePool's name ends in ``-static``: another kind of size creates another NodePool,
    and the nodes of the old one are drained after everything else has succeeded.
    Source: karpenter v1.14.1 pkg/apis/v1/nodepool.go

    Attributes:
        nodes: How many.
        spare: Nodes that may be there above them while one is replaced. Default: none of a reservation, whose
            instances are counted, else one.

    Raises:
        TypeError: A number is no whole number.
        ValueError: A number is below 0.
    """

    nodes: int
    spare: int | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number("size", "nodes", self.nodes, least=0)
        if self.spare is not None:
            refuse_unless_whole_number("size", "spare", self.spare, least=0)

    def max_nodes(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the most nodes, spare ones included."""
        if self.spare is not None:
            return self.nodes + self.spare
        reserved = all(isinstance(each, (Reservation, CapacityBlock)) for each in capacities)
        return self.nodes + (0 if reserved else 1)

    def nodes_for_pods(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return how many nodes there are, except while one is replaced: pods that wait add none."""
        return self.nodes

    def refuse_unless_launchable(self, who: object, shape: NodeShape, capacities: Sequence[Capacity]) -> None:
        """Refuse more nodes than a Capacity Block has.

        Raises:
            ValueError: There are more.
        """
        blocks = [each.instances for each in capacities if isinstance(each, CapacityBlock)]
        most = self.max_nodes(shape, capacities)
        if len(blocks) == len(capacities) and most > sum(blocks):
            raise ValueError(
                f"{who}: size must be at most the {sum(blocks)} instances of the Capacity Block, spare nodes included, "
                f"got {most}"
            )

    def to_manifest(self, shape: NodeShape, capacities: Sequence[Capacity]) -> dict[str, Any]:
        """Return what a NodePool's ``spec`` says of it."""
        return {"replicas": self.nodes, "limits": {"nodes": str(self.max_nodes(shape, capacities))}}


Size = UpTo | Static


def refuse_unless_size(who: object, size: object) -> None:
    """Refuse what is no size.

    Raises:
        TypeError: ``size`` is something else.
    """
    refuse_unless_instance(who, "size", size, get_args(Size), "UpTo(gpus=8) or Static(nodes=2)")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingOptions:
    """Options of one node group, in place of cluster autoscaler's flags. It reads these five and no others.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go

    Attributes:
        unneeded_minutes: How long a node must be unneeded before it is removed.
        unready_minutes: How long an unready node must be unneeded before it is removed.
        gpu_utilization: A node whose GPUs are requested to a smaller share than this is unneeded, 0 to 1.
        utilization: The same for vCPU and memory of a node that advertises no GPU, 0 to 1.
        ignore_daemonsets: Leave DaemonSets out of the utilization.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Cluster autoscaler would ignore a value, or none is given.
    """

    unneeded_minutes: int | None = None
    unready_minutes: int | None = None
    gpu_utilization: float | None = None
    utilization: float | None = None
    ignore_daemonsets: bool | None = None

    def __post_init__(self) -> None:
        who = "scaling options"
        for argument in ("unneeded_minutes", "unready_minutes"):
            if getattr(self, argument) is not None:
                refuse_unless_whole_number(who, argument, getattr(self, argument), least=0)
        for argument in ("gpu_utilization", "utilization"):
            share = getattr(self, argument)
            if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float))):
                raise TypeError(f"{who}: {argument} must be a number, got {share!r}")
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{who}: {argument} must be between 0 and 1, got {share}")
        if self.ignore_daemonsets is not None:
            refuse_unless_bool(who, "ignore_daemonsets", self.ignore_daemonsets)
        if not self.tags():
            raise ValueError(f"{who}: at least one option must be given, got none")

    def tags(self) -> dict[str, str]:
        """Return them as tags of the Auto Scaling group."""
        told = {
            "scaledownunneededtime": _minutes(self.unneeded_minutes),
            "scaledownunreadytime": _minutes(self.unready_minutes),
            "scaledowngpuutilizationthreshold": _number(self.gpu_utilization),
            "scaledownutilizationthreshold": _number(self.utilization),
            "ignoredaemonsetsutilization": None
            if self.ignore_daemonsets is None
            else str(self.ignore_daemonsets).lower(),
        }
        return {f"{OPTION_TAG}{key}": value for key, value in told.items() if value is not None}


def _minutes(number: int | None) -> str | None:
    return None if number is None else f"{number}m0s"


def _number(share: float | None) -> str | None:
    return None if share is None else str(share)
