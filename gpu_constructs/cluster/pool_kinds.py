"""The kind of pool that a cluster runs, and what a pool of it cannot do without."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from constructs import Construct

# Their names load when a cluster runs that kind.
from gpu_constructs import autoscaling, devices, nodes
from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.sharing import DeviceManagerName
from gpu_constructs.pools.size import UpTo
from gpu_facts.charts import GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.refusals import refuse_unless_whole_number
from gpu_facts.versions import autoscaler_image

# What to write where a kind has not the argument.
_INSTEAD = {
    "min_nodes": "nodes that always run are size=Static(nodes=2) here",
    "node_repair": "it belongs to a ManagedNodeGroup",
    "scaling_options": "they belong to a ManagedNodeGroup, which cluster autoscaler scales",
    "size": "a ManagedNodeGroup has max_nodes and min_nodes",
    "disruption": "it belongs to Karpenter; make Karpenter(stack, 'Karpenter', cluster=gpu) before the first pool",
    "security_group_ids": "nodes of a ManagedNodeGroup have the cluster's own security group",
    "ami_release": "Auto Mode chooses the image of its nodes",
}


def make_pool(
    scope: Construct, who: object, cluster: ClusterRef, *, name: str, shape: NodeShape, given: Mapping[str, Any]
) -> GpuNodes:
    """Make a pool of the kind that a cluster runs.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The kind has not such an argument, or no such pool can exist.
    """
    holder = cluster.holder(registry.pool_named(name))
    if holder is not None:
        raise ValueError(
            f"{who}: name must be one that no pool of the cluster has, got {name!r}, which is {holder.node.path!r}; "
            "pods select their nodes by it"
        )
    kind, fixed = _kind(who, cluster)
    takes = inspect.signature(kind.__init__).parameters
    sized = _sized(who, shape, given) if "size" in takes else dict(given)
    for argument in (each for each in sized if each not in takes):
        raise ValueError(
            f"{who}: add_pool must be given arguments of the kind that this cluster runs, {kind.__name__}, got "
            f"{argument!r}; {_INSTEAD[argument]}"
        )
    if "max_nodes" not in given and "size" not in sized:
        raise ValueError(f"{who}: max_nodes must be given, got none; it is the most nodes of pool {name!r}")
    made: GpuNodes = kind(scope, f"Pool-{name}", cluster=cluster.cluster, name=name, shape=shape, **sized, **fixed)
    return made


def to_node_shape(who: object, given: object) -> NodeShape:
    """Return a shape, or the usual shape of some instance types.

    Raises:
        TypeError: ``given`` is neither.
        ValueError: No such node can exist.
    """
    if isinstance(given, NodeShape):
        return given
    if not isinstance(given, (str, list, tuple, InstanceType)) and not hasattr(given, "to_string"):
        raise TypeError(f"{who}: shape must be a NodeShape or instance types such as 'g6.xlarge', got {given!r}")
    return NodeShape(instance_types=given if isinstance(given, (list, tuple)) else (given,))


def _kind(who: object, cluster: ClusterRef) -> tuple[type[Any], dict[str, Any]]:
    """Return the kind of pool, and what every pool of it gets here."""
    if cluster.auto_mode:
        return autoscaling.AutoModeNodePool, {}
    karpenter = cluster.holder(registry.KARPENTER)
    if karpenter is not None:
        if cdk.Stack.of(karpenter) is not cluster.stack:
            raise ValueError(
                f"{who}: Karpenter must be in the stack of the cluster for add_pool, got {karpenter.node.path!r}; two "
                "stacks cannot wait for each other, make a KarpenterNodePool beside it"
            )
        return autoscaling.KarpenterNodePool, {"karpenter": karpenter}
    version = cluster.stated_version
    if version and cluster.holder(registry.CLUSTER_AUTOSCALER) is None:
        autoscaler_image(version, who=who)
    return nodes.ManagedNodeGroup, {}


def _sized(who: object, shape: NodeShape, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with a size: for a number of nodes, as many GPUs as these have."""
    if ("max_nodes" in given) == ("size" in given):
        got = f"{given['max_nodes']} and {given['size']}" if "size" in given else "neither"
        raise ValueError(f"{who}: either max_nodes or size must be given, got {got}")
    if "size" in given:
        return dict(given)
    most = given["max_nodes"]
    refuse_unless_whole_number(who, "max_nodes", most, least=1, fix="delete the pool to switch it off")
    gpus = {row.name: row.gpus for row in shape.rows}
    if len(set(gpus.values())) > 1:
        raise ValueError(
            f"{who}: size must be given instead of max_nodes where types differ in GPUs, got {gpus}; write "
            f"size=UpTo(gpus={most * max(gpus.values())})"
        )
    others = {argument: value for argument, value in given.items() if argument != "max_nodes"}
    return others | {"size": UpTo(gpus=most * shape.gpus)}


# Who is brought: what the cluster has one of, and the folder of the class.
_BROUGHT = {
    "DevicePlugin": (registry.DEVICE_MANAGER, devices),
    "GpuOperator": (registry.DEVICE_MANAGER, devices),
    "DraDriver": (registry.DRA_DRIVER, devices),
    "EfaDevicePlugin": (registry.EFA_PLUGIN, devices),
    "ClusterAutoscaler": (registry.CLUSTER_AUTOSCALER, autoscaling),
}
_MANAGERS: dict[DeviceManagerName, str] = {
    "device-plugin": "DevicePlugin",
    GPU_OPERATOR: "GpuOperator",
    "dra": "DraDriver",
}


def bring_what_it_needs(scope: Construct, cluster: ClusterRef, shape: NodeShape) -> None:
    """Make what tells Kubernetes of a shape's devices, and what launches its nodes, where it is not there yet."""
    if cluster.auto_mode:
        return
    needed = [_MANAGERS[shape.managed_by.name]] if shape.managed_by.name in _MANAGERS else []
    needed += ["EfaDevicePlugin"] if shape.efa else []
    needed += ["ClusterAutoscaler"] if cluster.holder(registry.KARPENTER) is None else []
    for name in needed:
        what, folder = _BROUGHT[name]
        if cluster.holder(what) is None:
            getattr(folder, name)(scope, name, cluster=cluster.cluster)
            cluster.bring(what)


def refuse_other_manager(who: object, cluster: ClusterRef, shape: NodeShape) -> None:
    """Refuse a shape whose GPUs another tells Kubernetes of than who does in this cluster.

    Raises:
        ValueError: It is another.
    """
    there = getattr(cluster.holder(registry.DEVICE_MANAGER), "manages", None)
    if shape.managed_by.cluster_plugin and there not in (None, shape.managed_by.name):
        raise ValueError(
            f"{who}: shape must have device_manager={there!r}, which the cluster has, got {shape.managed_by.name!r}; "
            "two of them would advertise every GPU twice"
        )
