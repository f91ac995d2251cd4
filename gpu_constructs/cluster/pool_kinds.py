"""Creates a pool of the kind that fits a cluster, and installs its dependencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

# Imported as packages, whose names load only when a cluster uses that kind.
from gpu_constructs import autoscaling, devices, nodes
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import Disruption, NodeRepair
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.size import ScalingOptions, Size, UpTo
from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.versions import autoscaler_image

if TYPE_CHECKING:
    from gpu_constructs.autoscaling import AutoModeNodePool, Karpenter, KarpenterNodePool
    from gpu_constructs.nodes import ManagedNodeGroup

_Value = TypeVar("_Value")
# Fixes for arguments that a kind of pool doesn't have.
_INSTEAD = {
    "min_nodes": "write size=Static(nodes=2) for nodes that always run",
    "node_repair": "use it with a ManagedNodeGroup",
    "scaling_options": "use them with a ManagedNodeGroup, which cluster autoscaler scales",
    "size": "write max_nodes and min_nodes for a ManagedNodeGroup",
    "disruption": "create Karpenter(stack, 'Karpenter', cluster=gpu) before the first pool",
    "security_group_ids": "remove them, because nodes of a ManagedNodeGroup have the cluster's own security group",
    "ami_release": "remove it, because Auto Mode chooses the image of its nodes",
}
# The arguments that each kind doesn't have.
UNSUPPORTED_BY_MANAGED_GROUPS = ("size", "disruption", "security_group_ids")
UNSUPPORTED_BY_KARPENTER = ("min_nodes", "node_repair", "scaling_options")
UNSUPPORTED_BY_AUTO_MODE = (*UNSUPPORTED_BY_KARPENTER, "ami_release")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PoolRequest:
    """The arguments of ``GpuCluster.add_pool``. ``None`` means that an argument isn't given."""

    name: str
    shape: NodeShape
    max_nodes: int | None = None
    size: Size | None = None
    min_nodes: int | None = None
    capacity: Capacity | Sequence[Capacity] | None = None
    subnets: Sequence[ec2.ISubnet] | None = None
    node_role: iam.IRole | None = None
    ami_release: str | None = None
    node_repair: NodeRepair | None = None
    scaling_options: ScalingOptions | None = None
    disruption: Disruption | None = None
    security_group_ids: Sequence[str] | None = None

    @property
    def id(self) -> str:
        """The construct id of the pool."""
        return f"Pool-{self.name}"

    @property
    def purchase(self) -> Capacity | Sequence[Capacity]:
        """Purchase option of the instances."""
        return OnDemand() if self.capacity is None else self.capacity

    def refuse_arguments(self, who: object, kind: str, arguments: Sequence[str]) -> None:
        """Reject arguments that a kind of pool doesn't have.

        Raises:
            ValueError: One of them is given.
        """
        for argument in (each.name for each in fields(self) if each.name in arguments):
            if getattr(self, argument) is not None:
                raise ValueError(
                    f"{who}: add_pool must have only arguments of {kind}, the kind of this cluster, got {argument!r}; "
                    f"{_INSTEAD[argument]}"
                )

    def requested_size(self, who: object) -> Size:
        """Return the size of a Karpenter or Auto Mode pool. ``max_nodes`` nodes count as the GPUs that they have.

        Raises:
            TypeError: ``max_nodes`` isn't an integer.
            ValueError: Both or neither are given, the types differ in GPUs, or max_nodes is below 1 or a token.
        """
        if self.max_nodes is None and self.size is not None:
            return self.size
        if self.max_nodes is None or self.size is not None:
            got = "neither" if self.max_nodes is None else f"{self.max_nodes} and {self.size}"
            raise ValueError(f"{who}: either max_nodes or size must be given, got {got}; set exactly one")
        max_nodes = self.max_nodes
        refuse_unless_whole_number(who, "max_nodes", max_nodes, least=1, fix="delete the pool to switch it off")
        gpus = {row.name: row.gpus for row in self.shape.rows}
        if len(set(gpus.values())) > 1:
            raise ValueError(
                f"{who}: size must be given instead of max_nodes if types differ in GPUs, got {gpus}; write "
                f"size=UpTo(gpus={max_nodes * max(gpus.values())})"
            )
        return UpTo(gpus=max_nodes * self.shape.gpus)


def make_pool(scope: Construct, who: object, cluster: ClusterRef, request: PoolRequest) -> GpuNodes:
    """Create a pool of the kind that fits a cluster.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The kind of pool doesn't have an argument that is given, or the pool is impossible.
    """
    holder = cluster.holder(registry.pool_named(request.name))
    if holder is not None:
        raise ValueError(
            f"{who}: name must be unique among the pools of the cluster, got {request.name!r}, which "
            f"{holder.node.path!r} has; rename it, because pods select their nodes by it"
        )
    if cluster.auto_mode:
        return _auto_mode_pool(scope, who, cluster, request)
    karpenter = cluster.holder(registry.KARPENTER)
    if karpenter is not None:
        return _karpenter_pool(scope, who, cluster, request, cast("Karpenter", karpenter))
    return _managed_group(scope, who, cluster, request)


def _auto_mode_pool(scope: Construct, who: object, cluster: ClusterRef, request: PoolRequest) -> AutoModeNodePool:
    size = request.requested_size(who)
    request.refuse_arguments(who, "AutoModeNodePool", UNSUPPORTED_BY_AUTO_MODE)
    return autoscaling.AutoModeNodePool(
        scope,
        request.id,
        cluster=cluster.cluster,
        name=request.name,
        shape=request.shape,
        size=size,
        capacity=request.purchase,
        disruption=request.disruption,
        node_role=request.node_role,
        subnets=request.subnets,
        security_group_ids=request.security_group_ids,
    )


def _karpenter_pool(
    scope: Construct, who: object, cluster: ClusterRef, request: PoolRequest, karpenter: Karpenter
) -> KarpenterNodePool:
    if cdk.Stack.of(karpenter) is not cluster.stack:
        raise ValueError(
            f"{who}: Karpenter must be in the stack of the cluster for add_pool, got {karpenter.node.path!r}; create a "
            "KarpenterNodePool next to it, because two stacks can't depend on each other"
        )
    size = request.requested_size(who)
    request.refuse_arguments(who, "KarpenterNodePool", UNSUPPORTED_BY_KARPENTER)
    return autoscaling.KarpenterNodePool(
        scope,
        request.id,
        cluster=cluster.cluster,
        name=request.name,
        shape=request.shape,
        size=size,
        capacity=request.purchase,
        disruption=request.disruption,
        karpenter=karpenter,
        node_role=request.node_role,
        subnets=request.subnets,
        security_group_ids=request.security_group_ids,
        ami_release=request.ami_release,
    )


def _managed_group(scope: Construct, who: object, cluster: ClusterRef, request: PoolRequest) -> ManagedNodeGroup:
    version = cluster.stated_version
    if version and cluster.holder(registry.CLUSTER_AUTOSCALER) is None:
        autoscaler_image(version, who=who)
    request.refuse_arguments(who, "ManagedNodeGroup", UNSUPPORTED_BY_MANAGED_GROUPS)
    if request.max_nodes is None:
        raise ValueError(
            f"{who}: max_nodes must be given, got None; set the max number of nodes of pool {request.name!r}"
        )
    return nodes.ManagedNodeGroup(
        scope,
        request.id,
        cluster=cluster.cluster,
        name=request.name,
        shape=request.shape,
        max_nodes=request.max_nodes,
        min_nodes=_value_or_default(request.min_nodes, 0),
        # The group rejects a list.
        capacity=cast("Capacity", request.purchase),
        subnets=request.subnets,
        node_role=request.node_role,
        ami_release=request.ami_release,
        node_repair=_value_or_default(request.node_repair, NodeRepair()),
        scaling_options=request.scaling_options,
    )


def _value_or_default(value: _Value | None, default: _Value) -> _Value:
    return default if value is None else value


def to_node_shape(who: object, given: object) -> NodeShape:
    """Return a shape, or the default shape of some instance types.

    Raises:
        TypeError: ``given`` is neither.
        ValueError: The node is impossible.
    """
    if isinstance(given, NodeShape):
        return given
    if not isinstance(given, (str, list, tuple, InstanceType)) and not hasattr(given, "to_string"):
        raise TypeError(
            f"{who}: shape must be a NodeShape or instance types, got {given!r}; write ones such as 'g6.xlarge'"
        )
    return NodeShape(instance_types=given if isinstance(given, (list, tuple)) else (given,))


def install_dependencies(scope: Construct, cluster: ClusterRef, shape: NodeShape) -> None:
    """Install the device manager of a shape and the autoscaler of its nodes, unless the cluster has them."""
    if cluster.auto_mode:
        return
    manager, to = shape.managed_by.name, cluster.cluster
    if manager == "device-plugin":
        _install(cluster, registry.DEVICE_MANAGER, lambda: devices.DevicePlugin(scope, "DevicePlugin", cluster=to))
    elif manager == GPU_OPERATOR:
        _install(cluster, registry.DEVICE_MANAGER, lambda: devices.GpuOperator(scope, "GpuOperator", cluster=to))
    elif manager == "dra":
        _install(cluster, registry.DRA_DRIVER, lambda: devices.DraDriver(scope, "DraDriver", cluster=to))
    if shape.efa:
        _install(cluster, registry.EFA_PLUGIN, lambda: devices.EfaDevicePlugin(scope, "EfaDevicePlugin", cluster=to))
    if cluster.holder(registry.KARPENTER) is None:
        _install(
            cluster,
            registry.CLUSTER_AUTOSCALER,
            lambda: autoscaling.ClusterAutoscaler(scope, "ClusterAutoscaler", cluster=to),
        )


def _install(cluster: ClusterRef, what: str, make: Callable[[], Construct]) -> None:
    if cluster.holder(what) is None:
        make()
        cluster.bring(what)


def refuse_other_manager(who: object, cluster: ClusterRef, shape: NodeShape) -> None:
    """Reject a shape whose device manager isn't the device manager of the cluster.

    Raises:
        ValueError: They differ.
    """
    there = getattr(cluster.holder(registry.DEVICE_MANAGER), "manages", None)
    if shape.managed_by.cluster_plugin and there not in (None, shape.managed_by.name):
        raise ValueError(
            f"{who}: shape must have device_manager={there!r} of the cluster, got {shape.managed_by.name!r}; change "
            "it, because two device managers would advertise every GPU twice"
        )
