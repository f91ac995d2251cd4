"""A node group of your own: an Auto Scaling group whose nodes join the cluster by themselves."""

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
from gpu_constructs.nodes.gpu_nodes import GpuNodes
from gpu_constructs.nodes.group_arguments import check_group, refuse_unless_values
from gpu_constructs.nodes.launch_template import NodeTags, launch_template_data, network, reserved_capacity
from gpu_constructs.nodes.node_role import make_node_role, open_to_session_manager, refuse_session_manager
from gpu_constructs.nodes.node_termination_handler import DRAIN_SECONDS, MANAGED_TAG, NodeTerminationHandler
from gpu_constructs.nodes.user_data import joining_user_data
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand, Reservation, Spot
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.image_releases import TAKE_WITH_BOTH
from gpu_facts.labels import (
    AUTOSCALED_BY_TAG,
    AUTOSCALED_TAG,
    CLUSTER_TAG,
    LABEL_TAG,
    RESOURCE_TAG,
    TAINT_TAG,
)
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_role


@named_arguments
class SelfManagedNodeGroup(GpuNodes):
    """GPU nodes in an Auto Scaling group that CloudFormation owns.

    For what managed groups do not offer: your own Auto Scaling settings, several types on spot with your own
    allocation. The group carries every tag from which cluster autoscaler scales it up from zero. With a termination
    handler each node is drained before it goes. EKS neither updates nor repairs the nodes: a new image or setting
    reaches a node when it is replaced.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-node-ami.html

    Args:
        cluster: Cluster the nodes join; created here, or imported with endpoint and certificate authority.
        name: Value of the nodes' label ``gpu-constructs.io/pool``.
        shape: What every node looks like.
        max_nodes: Most nodes the group may have.
        min_nodes: Nodes that always run.
        capacity: How the instances are bought.
        subnets: Where nodes may start. Cluster autoscaler takes the first one's zone for all of them, so pods that
            are bound to a zone want one group a zone. Default: the private subnets of the cluster's VPC.
        node_role: Role of the nodes, with an access entry of type EC2_LINUX; not one of a managed group.
            Default: one role and entry shared by the self-managed groups of the cluster.
        bootstrap: What an imported cluster does not tell. Default: all from the cluster.
        termination_handler: What drains the nodes: a `NodeTerminationHandler` of this app, or ``installed`` where the
            cluster runs aws-node-termination-handler in queue mode already. Spot asks for it.
            Default: nothing drains them.
        scaling_options: What cluster autoscaler does otherwise for this group. Default: as its flags say.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The nodes could not join, or the autoscaler would misjudge them.
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
        refuse_unless_handled(who, capacity, termination_handler)
        joins = membership(ref, bootstrap, shape=shape, who=who)
        shape.refuse_undriven(who, joins.ami_release, joins.kubernetes_version, take=TAKE_WITH_BOTH[shape.os])
        refuse_session_manager(who, shape, node_role)
        placed = network(who, shape, ref, joins_by_itself=True)

        self.name = name
        self.shape = shape
        self.max_nodes = max_nodes
        self.subnets = chosen
        self._take_name(ref)
        self._bring_storage(ref)
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
            tags=group_tags(ref.name, name, shape, drained=termination_handler is not None, options=scaling_options),
            # A hook inside the group is there before its first instance.
            lifecycle_hook_specification_list=_hooks(termination_handler),
            **instances(shape, capacity, version),
        )
        if isinstance(termination_handler, NodeTerminationHandler):
            # On the way down the nodes are drained, and then the handler goes.
            self.resource.node.add_dependency(termination_handler.chart)
        if isinstance(capacity, CapacityBlock):
            self._schedule(capacity)

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the name of the group's Auto Scaling group."""
        return f"^{self.resource.ref}$"

    def _size(self, cluster: ClusterRef, capacity: Capacity, max_nodes: int) -> DesiredSize | None:
        """Return what is asked for the sizes that the window of a Capacity Block has at deployment."""
        if not isinstance(capacity, CapacityBlock):
            return None
        # Unlike EKS, Auto Scaling takes a group that can have no node.
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


def instances(shape: NodeShape, capacity: Capacity, version: dict[str, Any]) -> dict[str, Any]:
    """Return how the group picks instances: one type from the template, or several in the order of the shape."""
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
    """Return what holds an instance until its node is drained."""
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


def refuse_unless_handled(who: object, capacity: Capacity, handler: object) -> None:
    """Refuse spot nodes that nothing drains.

    Raises:
        TypeError: ``handler`` is something else.
        ValueError: The nodes are spot and there is no handler.
    """
    if handler is not None and handler != "installed" and not isinstance(handler, NodeTerminationHandler):
        raise TypeError(f"{who}: termination_handler must be a NodeTerminationHandler or 'installed', got {handler!r}")
    if handler is None and isinstance(capacity, Spot):
        raise ValueError(
            f"{who}: termination_handler must be given with Spot(), got None; EC2 takes a node back with two minutes' "
            "notice and nothing would drain it"
        )


def _refuse_two_effects(who: object, shape: NodeShape) -> None:
    # The autoscaler would scale up for pods that the taint without a tag keeps off the node.
    keys = [taint.key for taint in shape.node_taints]
    for key in keys:
        if keys.count(key) > 1:
            effects = ", ".join(taint.effect for taint in shape.node_taints if taint.key == key)
            raise ValueError(
                f"{who}: shape must have one taint a key, got {key!r} with {effects}; cluster autoscaler reads one "
                "effect from the tag of a key, make it a ManagedNodeGroup or use another key"
            )


def group_tags(
    cluster_name: str,
    pool: str,
    shape: NodeShape,
    *,
    drained: bool = False,
    options: ScalingOptions | None = None,
) -> list[dict[str, Any]]:
    """Return the tags by which nodes belong to the cluster and cluster autoscaler knows an empty group.

    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/cloudprovider/aws/README.md
    """
    told = {
        AUTOSCALED_TAG: "true",
        f"{AUTOSCALED_BY_TAG}{cluster_name}": "owned",
        **{f"{LABEL_TAG}{key}": value for key, value in shape.node_labels(pool).items()},
        # Without the effect cluster autoscaler ignores the tag. Startup taints are gone before a pod comes: none here.
        **{f"{TAINT_TAG}{taint.key}": f"{taint.value}:{taint.effect}" for taint in shape.node_taints},
        **{f"{RESOURCE_TAG}{key}": value for key, value in shape.resources().items()},
        **(options.tags() if options is not None else {}),
    }
    on_nodes = {f"{CLUSTER_TAG}{cluster_name}": "owned"} | ({MANAGED_TAG: "true"} if drained else {})
    launched = [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in on_nodes.items()]
    return [*launched, *({"key": key, "value": value, "propagateAtLaunch": False} for key, value in told.items())]


def _shared(scope: Construct, cluster: ClusterRef) -> SelfManagedNodes:
    """Return the role of self-managed nodes and its profile, made once in each stack with an access entry.

    A role of their own: EKS makes the access entry of a role that a managed group uses, and then a second one fails.
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
    # Nodes start after they are let in, and are gone before they are locked out.
    profile.node.add_dependency(entry)
    return SelfManagedNodes(role=role, profile=profile)
