"""A pool of GPU nodes that EKS Auto Mode launches."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.autoscaling import auto_mode_manifests as manifests
from gpu_constructs.autoscaling.karpenter_node_pool import default_disruption
from gpu_constructs.autoscaling.node_pool_spec import (
    Network,
    NodePoolSpec,
    capacities_of,
    refuse_unless_launchable,
    security_groups,
)
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, PathOf, cluster_ref, refuse_unless_role
from gpu_constructs.installing.delivery import apply_manifests
from gpu_constructs.nodes.addresses import check_addresses
from gpu_constructs.nodes.node_role import make_auto_mode_role
from gpu_constructs.nodes.zones import refuse_unless_one_zone
from gpu_constructs.pools.capacity import Capacity, OnDemand
from gpu_constructs.pools.disruption import Disruption
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.sharing import Exclusive

_ACCESS_POLICY = "AmazonEKSAutoNodePolicy"


class AutoModeNodePool(Construct):
    """A NodeClass and NodePool for GPU nodes of a cluster in EKS Auto Mode, up to a number of GPUs.

    Driver, device plugin, EFA and monitoring are in Auto Mode's image: install none of them for these nodes. A node
    lives 21 days at most, and a new image replaces it when it has become empty.

    Args:
        cluster: Cluster in Auto Mode; needs a kubectl provider.
        name: Name of both objects, and value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like, with ``operating_system="bottlerocket"``, which Auto Mode's image is.
        max_gpus: Most GPUs alive in the pool, in whole devices. Default: none, for a static pool.
        replicas: Nodes of a static pool, which are there with or without pods. Default: the nodes follow the pods.
        spare_nodes: Nodes that a static pool may have above ``replicas`` while one is replaced. Default: none of a
            reservation, whose instances are counted, else one.
        capacity: How the instances are bought; of several ways Auto Mode takes reserved instances first, then spot,
            then on-demand.
        weight: Preference among pools that fit a pod, 1 to 100, higher first. Default: none.
        disruption: When nodes are removed or replaced. Default: by the shape's purpose; without one, as for training.
        node_role: Role of the nodes, with an access entry of type EC2. Default: one role and entry shared by the Auto
            Mode pools of the cluster.
        subnets: Where nodes may start. Default: the private subnets of the cluster's VPC.
        security_group_ids: Security groups of the nodes. Default: the cluster's own security group.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster is not in Auto Mode, or Auto Mode cannot launch such nodes.
    """

    # Karpenter knows no huge pages.
    counts_huge_pages = False

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        max_gpus: int | None = None,
        replicas: int | None = None,
        spare_nodes: int | None = None,
        capacity: Capacity | Sequence[Capacity] = OnDemand(),  # noqa: B008 - frozen value
        weight: int | None = None,
        disruption: Disruption | None = None,
        node_role: iam.IRole | None = None,
        subnets: Sequence[ec2.ISubnet] | None = None,
        security_group_ids: Sequence[str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        spec = NodePoolSpec(
            name=name,
            shape=shape,
            capacities=capacities_of(who, capacity),
            max_gpus=max_gpus,
            replicas=replicas,
            spare_nodes=spare_nodes,
            weight=weight,
            disruption=disruption if disruption is not None else default_disruption(shape, static=replicas is not None),
        )
        refuse_unless_launchable(who, spec)
        _refuse_what_auto_mode_cannot(who, ref, name, shape)
        refuse_unless_role(who, "node_role", node_role)
        chosen = spec.subnets(ref, subnets, who=who)
        refuse_unless_one_zone(who, shape, chosen)
        check_addresses(self, who=who, cluster=ref, shape=shape, subnets=chosen, max_nodes=spec.max_nodes)
        network = Network(
            subnet_ids=[each.subnet_id for each in chosen],
            security_group_ids=security_groups(who, ref, security_group_ids),
        )
        ref.claim(who, f"NodePool named {name!r}", why="they are the same Kubernetes object")

        self.name = name
        self.shape = shape
        self.max_nodes = spec.max_nodes
        self.node_role = node_role if node_role is not None else _shared_role(self, ref)
        role_name = self.node_role.role_name
        made = manifests.node_class(spec=spec, role_name=role_name, network=network)
        self.node_class = apply_manifests(self, "NodeClass", cluster=ref, manifests=[made])
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[manifests.node_pool(spec)])
        # On the way down: pool, class (which waits until the nodes are gone), access of the nodes.
        self.resource.node.add_dependency(self.node_class)
        if node_role is None:
            self.node_class.node.add_dependency(self.node_role)


def _refuse_what_auto_mode_cannot(who: object, cluster: ClusterRef, name: str, shape: NodeShape) -> None:
    if cluster.auto_mode is False:
        raise ValueError(f"{who}: cluster must be in EKS Auto Mode, got one with node groups; use KarpenterNodePool")
    if name == "default":
        raise ValueError(f"{who}: name must not be 'default', which is Auto Mode's own NodeClass, got 'default'")
    if shape.operating_system != "bottlerocket":
        raise ValueError(
            f"{who}: shape must have operating_system='bottlerocket', which Auto Mode's image is, got "
            f"{shape.operating_system!r}"
        )
    if shape.placement_group is not None:
        raise ValueError(
            f"{who}: shape must be without placement_group, got {shape.placement_group!r}; Auto Mode has none"
        )
    uncounted = [each.name for each in shape.types if each.ec2_gpus == 0]
    if uncounted:
        raise ValueError(
            f"{who}: shape must have instance types whose GPUs EC2 counts, got {', '.join(uncounted)}; Auto Mode takes "
            "a fraction of a GPU for none and never launches it, use a KarpenterNodePool or a ManagedNodeGroup"
        )
    own: dict[str, object] = {
        "image": shape.image,
        "kubelet": shape.kubelet.config() | shape.kubelet.pulls(),
        "tags": dict(shape.tags),
    }
    own |= {"soci": shape.soci, "disk.snapshot_id": shape.disk.snapshot_id}
    own["device_manager"] = shape.claims_gpus and shape.device_manager
    for argument, value in own.items():
        if value:
            raise ValueError(f"{who}: shape must be without {argument}, got {value!r}; Auto Mode's nodes take none")
    if not isinstance(shape.sharing, Exclusive):
        raise ValueError(f"{who}: shape must have sharing=Exclusive(), got {shape.sharing!r}; Auto Mode shares no GPU")
    if not shape.raid0:
        raise ValueError(f"{who}: shape must have raid0=True, got False; Auto Mode always joins the local disks")


def _shared_role(scope: Construct, cluster: ClusterRef) -> iam.Role:
    """Return the role of Auto Mode pools with its access entry, made once in each stack."""
    shared = cluster.shared(cdk.Stack.of(scope))
    if shared.auto_mode_role is None:
        shared.auto_mode_role = _make_role(shared, cluster)
    return shared.auto_mode_role


def _make_role(scope: Construct, cluster: ClusterRef) -> iam.Role:
    role = make_auto_mode_role(scope, "AutoModeNodeRole")
    partition = cdk.Stack.of(scope).partition
    eks.CfnAccessEntry(
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
