"""A node group that you manage: an Auto Scaling group whose nodes join the cluster by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from typing import Any, Literal

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing import eks_resources
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.registry import PathOf, SelfManagedNodes
from gpu_constructs.nodes.bootstrap import Bootstrap, membership
from gpu_constructs.nodes.desired_size import DesiredSize, ScalingGroup
from gpu_constructs.nodes.gpu_nodes import GpuNodes, make_node_role, open_to_session_manager, refuse_session_manager
from gpu_constructs.nodes.group_arguments import check_group, refuse_unless_values
from gpu_constructs.nodes.launch_template import NodeTags, launch_template_data, network, reserved_capacity
from gpu_constructs.nodes.node_termination_handler import DRAIN_SECONDS, MANAGED_TAG, NodeTerminationHandler
from gpu_constructs.nodes.user_data import joining_user_data
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand, Reservation, Spot
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.image_releases import TAKE_WITH_BOTH
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG, CLUSTER_TAG, LABEL_TAG, RESOURCE_TAG, TAINT_TAG
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_role


@named_arguments
class SelfManagedNodeGroup(GpuNodes):
    """GPU nodes in an Auto Scaling group that CloudFormation owns.

    Use it for options that managed node groups don't have: your own Auto Scaling settings, or several types on spot
    with your own allocation strategy. The group has all tags that cluster autoscaler needs to scale it up from zero.
    With a termination handler, each node is drained before its termination. EKS neither updates nor repairs the nodes.
    A new image or setting applies to a node when it is replaced.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-node-ami.html

    Args:
        cluster: Cluster that the nodes join, created here, or imported with endpoint and certificate authority.
        name: Value of the nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes.
        max_nodes: Max number of nodes.
        min_nodes: Number of nodes that always run.
        capacity: Purchase option of the instances.
        subnets: Subnets of the nodes. Cluster autoscaler assumes the zone of the first one for all of them. So use one
            group per zone for pods that are bound to a zone. Default: the private subnets of the cluster's VPC.
        node_role: Role of the nodes, with an access entry of type EC2_LINUX. It must not be the role of a managed node
            group. Default: one role and entry that all self-managed groups of the cluster share.
        bootstrap: Attributes of an imported cluster that its reference doesn't have. Default: the attributes of the
            cluster.
        termination_handler: Component that drains the nodes: a `NodeTerminationHandler` of this app, or ``installed``
            if the cluster already runs aws-node-termination-handler in queue mode. Spot requires it. Default: nodes
            aren't drained.
        scaling_options: Options of cluster autoscaler for this group. Default: the autoscaler's flags.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The nodes could not join, or the autoscaler would make wrong assumptions about them.
    """

    autoscaler: Autoscaler = "cluster-autoscaler"

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        name: str,
        shape: NodeShape,
        max_nodes: int,
        min_nodes: int = 0,
        capacity: Capacity = OnDemand(),  # noqa: B008 - frozen value
        subnets: Sequence[ec2.ISubnet] | None = None,
        node_role: iam.IRole | None = None,
        bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 - frozen value
        termination_handler: NodeTerminationHandler | Literal["installed"] | None = None,
        scaling_options: ScalingOptions | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        refuse_unless_role(who, "node_role", node_role)
        refuse_unless_values(who, bootstrap=bootstrap, scaling_options=scaling_options)
        chosen = check_group(
            self,
            who=who,
            cluster=ref,
            name=name,
            shape=shape,
            capacity=capacity,
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            subnets=subnets,
        )
        _refuse_two_effects(who, shape)
        _refuse_unless_handled(who, capacity, termination_handler)
        joins = membership(ref, bootstrap, shape=shape, who=who)
        shape.refuse_undriven(who, joins.ami_release, joins.kubernetes_version, take=TAKE_WITH_BOTH[shape.os])
        refuse_session_manager(who, shape, node_role)
        placed = network(who, shape, ref, joins_by_itself=True)

        self._register(ref, name=name, shape=shape, max_nodes=max_nodes, subnets=chosen)
        ref.serve_gpus(shape)
        if node_role is None:
            joining = _shared(self, ref)
        else:
            profile = iam.CfnInstanceProfile(self, "Profile", roles=[node_role.role_name])
            joining = SelfManagedNodes(role=node_role, profile=profile)
        self.node_role = joining.role
        open_to_session_manager(shape.host, self.node_role)
        data = (
            launch_template_data(
                tags=NodeTags(self, "NodeTags", name=f"{ref.name}-{name}", own=shape.tags),
                volumes=shape.volumes,
                hop_limit=shape.host.metadata_hop_limit,
            )
            | reserved_capacity(capacity, shape.names[0])
            | placed
            | {
                "imageId": shape.image.id if shape.image else f"{{{{resolve:ssm:{joins.image_parameter}}}}}",
                "instanceType": shape.names[0],
                "iamInstanceProfile": {"arn": joining.profile.attr_arn},
                "userData": cdk.Fn.base64(joining_user_data(shape, name, joins)),
            }
        )
        template = ec2.CfnLaunchTemplate(self, "LaunchTemplate", launch_template_data=data)
        version = {"launchTemplateId": template.ref, "version": template.attr_latest_version_number}
        size = self._size(ref, capacity, max_nodes)
        self.resource = ScalingGroup.create(
            self,
            "Resource",
            size=size,
            min_size=size.answer("MinSize") if size is not None else str(min_nodes),
            max_size=size.answer("MaxSize") if size is not None else str(max_nodes),
            desired_capacity=size.answer("DesiredSize") if size is not None else None,
            vpc_zone_identifier=[each.subnet_id for each in chosen],
            capacity_rebalance=True if isinstance(capacity, Spot) else None,
            tags=_group_tags(ref.name, name, shape, drained=termination_handler is not None, options=scaling_options),
            # A lifecycle hook inside the group exists before its first instance.
            lifecycle_hook_specification_list=_hooks(termination_handler),
            **_instances(shape, capacity, version),
        )
        if isinstance(termination_handler, NodeTerminationHandler):
            # When the stack is deleted, the nodes are drained before the handler is deleted.
            self.resource.node.add_dependency(termination_handler.chart)
        if isinstance(capacity, CapacityBlock):
            self._schedule(capacity)

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the name of the group's Auto Scaling group."""
        return f"^{self.resource.ref}$"

    def _size(self, cluster: ClusterRef, capacity: Capacity, max_nodes: int) -> DesiredSize | None:
        """Return the `DesiredSize` that reads the sizes for the current period of a Capacity Block at deployment."""
        if not isinstance(capacity, CapacityBlock):
            return None
        # Unlike EKS, Auto Scaling accepts a max size of 0.
        return DesiredSize(
            self, "Size", cluster=cluster, min_nodes=0, max_nodes=max_nodes, block=capacity, closed_max=0
        )

    def _schedule(self, block: CapacityBlock) -> None:
        """Scale up when the block starts, and to zero before it ends."""
        for step, moment, nodes in block.steps:
            autoscaling.CfnScheduledAction(
                self,
                step,
                auto_scaling_group_name=self.resource.ref,
                start_time=moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                desired_capacity=nodes,
                min_size=0,
                max_size=nodes,
            )


def _instances(shape: NodeShape, capacity: Capacity, version: dict[str, Any]) -> dict[str, Any]:
    """Return the instance types of the group: one in the template, or several in the order of the shape."""
    if isinstance(capacity, (Reservation, CapacityBlock)) or (len(shape.rows) == 1 and not isinstance(capacity, Spot)):
        return {"launch_template": version}
    spot = isinstance(capacity, Spot)
    return {
        "mixed_instances_policy": {
            "launchTemplate": {
                "launchTemplateSpecification": version,
                "overrides": [{"instanceType": name} for name in shape.names],
            },
            "instancesDistribution": {
                "onDemandPercentageAboveBaseCapacity": 0 if spot else 100,
                "onDemandAllocationStrategy": "prioritized",
                "spotAllocationStrategy": "price-capacity-optimized",
            },
        }
    }


def _hooks(handler: NodeTerminationHandler | Literal["installed"] | None) -> list[dict[str, Any]] | None:
    """Return the lifecycle hook that holds an instance until its node is drained."""
    if handler is None:
        return None
    seconds = handler.drain_seconds if isinstance(handler, NodeTerminationHandler) else DRAIN_SECONDS
    hook = {
        "lifecycleHookName": "drain",
        "lifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING",
        "heartbeatTimeout": seconds,
        "defaultResult": "CONTINUE",
    }
    return [hook]


def _refuse_unless_handled(who: object, capacity: Capacity, handler: object) -> None:
    """Reject spot nodes without a handler that drains them.

    Raises:
        TypeError: ``handler`` has the wrong type.
        ValueError: The nodes are spot and there is no handler.
    """
    if handler is not None and handler != "installed" and not isinstance(handler, NodeTerminationHandler):
        raise TypeError(
            f"{who}: termination_handler must be a NodeTerminationHandler or 'installed', got {handler!r}; pass one of "
            "them"
        )
    if handler is None and isinstance(capacity, Spot):
        raise ValueError(
            f"{who}: termination_handler must be given with Spot(), got None; pass one, because EC2 reclaims a node "
            "with two minutes' notice and it would not be drained"
        )


def _refuse_two_effects(who: object, shape: NodeShape) -> None:
    # The autoscaler would scale up for pods that don't tolerate the taint without a tag.
    keys = [taint.key for taint in shape.node_taints]
    for key in keys:
        if keys.count(key) > 1:
            effects = ", ".join(taint.effect for taint in shape.node_taints if taint.key == key)
            raise ValueError(
                f"{who}: shape must have one taint for each key, got {key!r} with {effects}; use a ManagedNodeGroup or "
                "another key, because cluster autoscaler reads one effect from the tag of a key"
            )


def _group_tags(
    cluster_name: str,
    pool: str,
    shape: NodeShape,
    *,
    drained: bool = False,
    options: ScalingOptions | None = None,
) -> list[dict[str, Any]]:
    """Return the tags that assign nodes to the cluster and describe an empty group to cluster autoscaler.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/README.md
    """
    told = {
        AUTOSCALED_TAG: "true",
        f"{AUTOSCALED_BY_TAG}{cluster_name}": "owned",
        **{f"{LABEL_TAG}{key}": value for key, value in shape.node_labels(pool).items()},
        # Cluster autoscaler ignores a tag without the effect. Startup taints are removed before a pod starts, so none
        # is here.
        **{f"{TAINT_TAG}{taint.key}": f"{taint.value}:{taint.effect}" for taint in shape.node_taints},
        **{f"{RESOURCE_TAG}{key}": value for key, value in shape.resources().items()},
        **(options.tags() if options is not None else {}),
    }
    on_nodes = {f"{CLUSTER_TAG}{cluster_name}": "owned"} | ({MANAGED_TAG: "true"} if drained else {})
    launched = [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in on_nodes.items()]
    return [*launched, *({"key": key, "value": value, "propagateAtLaunch": False} for key, value in told.items())]


def _shared(scope: Construct, cluster: ClusterRef) -> SelfManagedNodes:
    """Return the role of self-managed nodes and its profile. They are created once in each stack, with an access entry.

    It is a separate role, because EKS itself creates the access entry of a managed node group's role, and a second one
    fails.
    """
    shared = cluster.shared(cdk.Stack.of(scope))
    return shared.self_managed_nodes.get_or_make(lambda: _make_shared(shared, cluster))


def _make_shared(scope: Construct, cluster: ClusterRef) -> SelfManagedNodes:
    role = make_node_role(scope, "SelfManagedNodeRole", cluster)
    arn = role.role_arn
    entry = eks_resources.CfnAccessEntry(
        scope, "SelfManagedAccess", cluster_name=cluster.name_token, principal_arn=arn, type="EC2_LINUX"
    )
    profile = iam.CfnInstanceProfile(scope, "SelfManagedProfile", roles=[role.role_name])
    # Nodes start after they have access, and are deleted before they lose it.
    profile.node.add_dependency(entry)
    return SelfManagedNodes(role=role, profile=profile)
