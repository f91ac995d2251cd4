"""A pool of GPU nodes that EKS Auto Mode launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling.node_pool import Network, NodePool, node_taints, place
from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.nodes.gpu_nodes import GpuNodes, make_auto_mode_role
from gpu_constructs.nodes.user_data import node_class_surroundings
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.sharing import Exclusive
from gpu_constructs.pools.size import Size, Static
from gpu_facts.image_releases import LTS
from gpu_facts.labels import DEVICE_MANAGER, EKS_DOMAIN, POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_role

# Auto Mode replaces every node after 21 days, independent of the pool's settings.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
_MAX_AGE_HOURS = 504
_ACCESS_POLICY = "AmazonEKSAutoNodePolicy"


def node_class(*, pool: NodePool, role_name: str, network: Network) -> dict[str, Any]:
    """Return the NodeClass.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
    """
    disk = pool.shape.disk
    storage: dict[str, Any] = {"size": f"{disk.size_gib}Gi", "iops": disk.iops, "throughput": disk.throughput_mib_s}
    if disk.kms_key_arn is not None:
        storage["kmsKeyID"] = disk.kms_key_arn
    found: dict[str, Any] = {
        "role": role_name,
        "subnetSelectorTerms": [{"id": id} for id in network.subnet_ids],
        "securityGroupSelectorTerms": [{"id": id} for id in network.security_group_ids],
        "ephemeralStorage": storage,
        **node_class_surroundings(pool.shape.host),
    }
    if pool.reservations:
        found["capacityReservationSelectorTerms"] = pool.reservations
    return {"apiVersion": f"{EKS_DOMAIN}/v1", "kind": "NodeClass", "metadata": {"name": pool.name}, "spec": found}


def node_pool(pool: NodePool) -> dict[str, Any]:
    """Return the NodePool.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
    """
    # Auto Mode's nodes advertise their GPUs themselves, so they have no label that selects a device plugin.
    labels = {POOL: pool.name, DEVICE_MANAGER: "auto-mode"} | dict(pool.shape.labels)
    nodes = {
        "nodeClassRef": {"group": EKS_DOMAIN, "kind": "NodeClass", "name": pool.name},
        "requirements": pool.requirements(),
        **node_taints(pool.shape),
        **pool.disruption.node_lifetime(longest_hours=_MAX_AGE_HOURS),
    }
    return pool.to_manifest(labels=labels, nodes=nodes)


@named_arguments
class AutoModeNodePool(GpuNodes):
    """A NodeClass and NodePool for GPU nodes of a cluster in EKS Auto Mode.

    Driver, device plugin, EFA and monitoring are in Auto Mode's image. Don't install them for these nodes. A node
    exists for 21 days at most, and a new image replaces it when it is empty.

    Args:
        cluster: Cluster in Auto Mode. It needs a kubectl provider.
        name: Name of both objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes. They boot Auto Mode's own Bottlerocket.
        size: Max size of the pool, as for a `KarpenterNodePool`.
        capacity: Purchase options of the instances, as for a `KarpenterNodePool`.
        disruption: Rules for the removal and replacement of nodes, as for a `KarpenterNodePool`.
        node_role: Role of the nodes, with an access entry of type EC2. Default: one role and entry that the Auto Mode
            pools of the cluster share.
        subnets: Subnets of the nodes. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster doesn't use Auto Mode, or Auto Mode can't launch such nodes.
    """

    autoscaler: Autoscaler = "karpenter"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        size: Size,
        capacity: Capacity | Sequence[Capacity] = OnDemand(),  # noqa: B008 - frozen value
        disruption: Disruption | None = None,
        node_role: iam.IRole | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        security_group_ids: Sequence[str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if isinstance(shape, NodeShape):
            _refuse_what_auto_mode_cannot(who, ref, name, shape)
            shape = replace(shape, operating_system="bottlerocket")
        pool = NodePool.from_arguments(who, name=name, shape=shape, size=size, capacity=capacity, disruption=disruption)
        if pool.disruption.bounds_repair:
            raise ValueError(
                f"{who}: disruption must have no budget for 'Unhealthy', got one; leave it out, because EKS Auto Mode "
                "isn't known to support it"
            )
        refuse_unless_role(who, "node_role", node_role)
        network = place(self, pool, who=who, cluster=ref, subnets=subnets, security_group_ids=security_group_ids)

        self.expects_less_memory = not isinstance(size, Static)
        self._register(ref, name=name, shape=pool.shape, max_nodes=pool.nodes_for_pods, subnets=network.subnets)
        self.node_role = node_role if node_role is not None else _shared_role(self, ref)
        role_name = self.node_role.role_name
        made = node_class(pool=pool, role_name=role_name, network=network)
        self.node_class = apply_manifests(self, "NodeClass", cluster=ref, manifests=[made])
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[node_pool(pool)])
        # Order of deletion: the pool, the class (which waits until the nodes are deleted), the access of the nodes.
        self.resource.node.add_dependency(self.node_class)
        if node_role is None:
            self.node_class.node.add_dependency(self.node_role)


def _refuse_what_auto_mode_cannot(who: object, cluster: ClusterRef, name: str, shape: NodeShape) -> None:
    if cluster.auto_mode is False:
        raise ValueError(f"{who}: cluster must use EKS Auto Mode, got one with node groups; use KarpenterNodePool")
    if name == "default":
        raise ValueError(
            f"{who}: name must not be 'default', which is Auto Mode's own NodeClass, got 'default'; rename the pool"
        )
    _refuse_unless_its_nodes(who, shape)
    if "ebs" in shape.storage_drivers:
        raise ValueError(
            f"{who}: shape must be without 'ebs' in storage_drivers, got {tuple(shape.storage_drivers)!r}; remove it, "
            "because Auto Mode attaches EBS volumes itself, and the driver that removes the taint doesn't run on its "
            "nodes"
        )


def _refuse_unless_its_nodes(who: object, shape: NodeShape) -> None:
    if shape.operating_system not in (None, "bottlerocket"):
        raise ValueError(
            f"{who}: shape must have operating_system 'bottlerocket', which Auto Mode uses, or none, got "
            f"{shape.operating_system!r}; leave it out"
        )
    if any(each.ultraserver_only for each in shape.rows):
        raise ValueError(
            f"{who}: shape must have no UltraServer type, got {shape.names[0]!r}; use a ManagedNodeGroup, because Auto "
            "Mode doesn't support UltraServers"
        )
    undriven = [each for each in shape.rows if not each.supports_driver((LTS,))]
    if undriven:
        raise ValueError(
            f"{who}: shape must have instance types that NVIDIA driver {LTS} supports, got "
            f"{', '.join(each.name for each in undriven)}; use a KarpenterNodePool, because no document states that "
            "Auto Mode's image has a newer driver"
        )
    if shape.placement_group is not None:
        raise ValueError(
            f"{who}: shape must be without placement_group, got {shape.placement_group!r}; remove it, because Auto "
            "Mode doesn't support it"
        )
    uncounted = [each.name for each in shape.rows if each.ec2_gpus == 0]
    if uncounted:
        raise ValueError(
            f"{who}: shape must have instance types whose GPUs EC2 counts, got {', '.join(uncounted)}; use a "
            "KarpenterNodePool or a ManagedNodeGroup, because Auto Mode counts a fraction of a GPU as none and never "
            "launches it"
        )
    own: dict[str, object] = {
        "image": shape.image,
        "kubelet": shape.kubelet.config() | shape.kubelet.pulls(),
        "tags": dict(shape.tags),
    }
    own |= shape.host.beyond_auto_mode()
    own |= {"soci": shape.soci, "disk.snapshot_id": shape.disk.snapshot_id}
    own["device_manager"] = shape.device_manager != "bottlerocket" and shape.device_manager
    for argument, value in own.items():
        if value:
            raise ValueError(
                f"{who}: shape must be without {argument}, got {value!r}; remove it, because Auto Mode doesn't support "
                "it"
            )
    if not isinstance(shape.sharing, Exclusive):
        raise ValueError(
            f"{who}: shape must have sharing=Exclusive(), got {shape.sharing!r}; change it, because Auto Mode can't "
            "share GPUs"
        )
    if not shape.raid0:
        raise ValueError(
            f"{who}: shape must have raid0=True, got False; set it, because Auto Mode always joins the local disks"
        )


def _shared_role(scope: Construct, cluster: ClusterRef) -> iam.Role:
    """Return the role of Auto Mode pools with its access entry. They are created once in each stack."""
    shared = cluster.shared(cdk.Stack.of(scope))
    return shared.auto_mode_role.get_or_make(lambda: _make_role(shared, cluster))


def _make_role(scope: Construct, cluster: ClusterRef) -> iam.Role:
    role = make_auto_mode_role(scope, "AutoModeNodeRole")
    partition = cdk.Stack.of(scope).partition
    eks_resources.CfnAccessEntry(
        role,
        "Access",
        cluster_name=cluster.name_token,
        principal_arn=role.role_arn,
        type="EC2",
        access_policies=[
            {
                "policyArn": f"arn:{partition}:eks::aws:cluster-access-policy/{_ACCESS_POLICY}",
                "accessScope": {"type": "cluster"},
            }
        ],
    )
    return role
