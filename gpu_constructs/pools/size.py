"""Size limits of a Karpenter or Auto Mode pool, and cluster autoscaler's options for node removal."""

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
    """As many nodes as pods request, from zero, up to a number of GPUs.

    Source: https://karpenter.sh/docs/concepts/nodepools/

    Attributes:
        gpus: Max GPUs in the pool, in whole devices. Karpenter itself sets no such limit.
        vcpus: Max virtual CPUs in the pool. Default: as many as the nodes with these GPUs have.
        memory_gib: Max memory in the pool, in GiB. Default: as much as the nodes with these GPUs have.
        weight: Preference among pools that fit a pod, 1 to 100, higher first. Default: none.

    Raises:
        TypeError: A number isn't an integer.
        ValueError: A number is out of its range, or known only at deployment.
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
            raise ValueError(f"size: weight must be at most {_MAX_WEIGHT}, got {self.weight}; lower it")

    def max_nodes(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the max number of nodes, if each is of the smallest type."""
        return self.gpus // shape.gpus

    def nodes_for_pods(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the max number of nodes on which pods run at once."""
        return self.max_nodes(shape, capacities)

    def refuse_unless_launchable(self, who: object, shape: NodeShape, capacities: Sequence[Capacity]) -> None:
        """Reject limits that leave no room for a node, or with which the last GPUs could never be launched.

        Raises:
            ValueError: The limits are too low.
        """
        least, names = shape.gpus, ", ".join(shape.names)
        refuse_unless_whole_number(
            who, "size.gpus", self.gpus, least=least, fix=f"raise it, because the smallest of {names} has {least}"
        )
        most = [(row, self.gpus // row.gpus) for row in shape.rows]
        for argument, given, needed in (
            ("vcpus", self.vcpus, max((row.vcpus or 0) * nodes for row, nodes in most)),
            ("memory_gib", self.memory_gib, max(int((row.memory_gib or 0) * nodes) for row, nodes in most)),
        ):
            if given is not None:
                refuse_unless_whole_number(
                    who,
                    f"size.{argument}",
                    given,
                    least=needed,
                    fix=f"raise it, because {self.gpus} GPUs of the pool need it",
                )

    def to_manifest(self, shape: NodeShape, capacities: Sequence[Capacity]) -> dict[str, Any]:
        """Return the fields of a NodePool's ``spec`` for the size."""
        # Karpenter counts the advertised resources of nodes. For shared GPUs these are the shares.
        limits = {resource: str(amount) for resource, amount in shape.gpu_resources(self.gpus).items()}
        if self.vcpus is not None:
            limits["cpu"] = str(self.vcpus)
        if self.memory_gib is not None:
            limits["memory"] = f"{self.memory_gib}Gi"
        return {"limits": limits} | ({"weight": self.weight} if self.weight is not None else {})


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Static:
    """A fixed number of nodes, with or without pods.

    The API server accepts no weight for it, and only a limit of nodes. It never changes a NodePool that scales into a
    static one, or back. So the NodePool's name ends with ``-static``. If you change the kind of size, CloudFormation
    creates another NodePool, and the nodes of the old one are drained after everything else has succeeded.
    Source: karpenter v1.14.1 pkg/apis/v1/nodepool.go

    Attributes:
        nodes: Number of nodes.
        spare: Max additional nodes while one is replaced. Default: none for a reservation, which has a fixed number of
            instances, otherwise one.

    Raises:
        TypeError: A number isn't an integer.
        ValueError: A number is below 0.
    """

    nodes: int
    spare: int | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number("size", "nodes", self.nodes, least=0)
        if self.spare is not None:
            refuse_unless_whole_number("size", "spare", self.spare, least=0)

    def max_nodes(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the max number of nodes, including spare ones."""
        if self.spare is not None:
            return self.nodes + self.spare
        reserved = all(isinstance(each, (Reservation, CapacityBlock)) for each in capacities)
        return self.nodes + (0 if reserved else 1)

    def nodes_for_pods(self, shape: NodeShape, capacities: Sequence[Capacity]) -> int:
        """Return the number of nodes, except while one is replaced. Pending pods add none."""
        return self.nodes

    def refuse_unless_launchable(self, who: object, shape: NodeShape, capacities: Sequence[Capacity]) -> None:
        """Reject more nodes than a Capacity Block has.

        Raises:
            ValueError: There are more.
        """
        blocks = [each.instances for each in capacities if isinstance(each, CapacityBlock)]
        most = self.max_nodes(shape, capacities)
        if len(blocks) == len(capacities) and most > sum(blocks):
            raise ValueError(
                f"{who}: size must be at most the {sum(blocks)} instances of the Capacity Block, spare nodes included, "
                f"got {most}; lower it"
            )

    def to_manifest(self, shape: NodeShape, capacities: Sequence[Capacity]) -> dict[str, Any]:
        """Return the fields of a NodePool's ``spec`` for the size."""
        return {"replicas": self.nodes, "limits": {"nodes": str(self.max_nodes(shape, capacities))}}


Size = UpTo | Static


def refuse_unless_size(who: object, size: object) -> None:
    """Reject a value that isn't a size.

    Raises:
        TypeError: ``size`` has another type.
    """
    refuse_unless_instance(who, "size", size, get_args(Size), "UpTo(gpus=8) or Static(nodes=2)")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingOptions:
    """Options of one node group, in place of cluster autoscaler's flags. It reads only these five.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go

    Attributes:
        unneeded_minutes: Time for which a node must be unneeded before its removal, in minutes.
        unready_minutes: Time for which an unready node must be unneeded before its removal, in minutes.
        gpu_utilization: Min fraction of requested GPUs, 0 to 1. A node below it is unneeded.
        utilization: Min fraction of requested vCPU and memory of a node that advertises no GPU, 0 to 1.
        ignore_daemonsets: Whether to exclude DaemonSets from the utilization.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Cluster autoscaler would ignore a value, or no option is set.
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
                raise TypeError(f"{who}: {argument} must be a number, got {share!r}; write one such as 0.5")
            if share is not None and not 0 <= share <= 1:
                raise ValueError(
                    f"{who}: {argument} must be between 0 and 1, got {share}; write a fraction such as 0.5"
                )
        if self.ignore_daemonsets is not None:
            refuse_unless_bool(who, "ignore_daemonsets", self.ignore_daemonsets)
        if not self.tags():
            raise ValueError(f"{who}: at least one option must be given, got none; leave the options out")

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
