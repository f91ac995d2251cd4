"""Managed node groups with NVIDIA GPUs, one or one in each zone, and the schedule of a Capacity Block."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.context import owning_stack
from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import subnet_zone
from gpu_constructs.nodes.ami_type import LATEST, Release, nvidia_ami_type, pinned_release
from gpu_constructs.nodes.bootstrap import Bootstrap, membership
from gpu_constructs.nodes.desired_size import DesiredSize, NodeGroup, size_handler
from gpu_constructs.nodes.gpu_nodes import GpuNodes, open_to_session_manager, refuse_session_manager, shared_node_role
from gpu_constructs.nodes.group_arguments import CLOSED_MAX, NodeUpdate, check_group, refuse_unless_values
from gpu_constructs.nodes.launch_template import NodeTags, launch_template_data, network, reserved_capacity
from gpu_constructs.nodes.user_data import joining_user_data, registered_taints, user_data
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, OnDemand, Reservation
from gpu_constructs.pools.disruption import NodeRepair
from gpu_constructs.pools.kubelet import Taint
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.pool import Autoscaler
from gpu_constructs.pools.sharing import Mig
from gpu_constructs.pools.size import ScalingOptions
from gpu_facts.labels import RESOURCE_TAG, TAGS_RESOURCE
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_number_token, refuse_unless_bool, refuse_unless_role, refuse_unless_whole_number

_MANAGED_EFFECT = {"NoSchedule": "NO_SCHEDULE", "PreferNoSchedule": "PREFER_NO_SCHEDULE", "NoExecute": "NO_EXECUTE"}
_EKS_CHOOSES = Release()


@named_arguments
class ManagedGroupTags(Construct):
    """Tags the Auto Scaling group of a managed node group, because EKS doesn't propagate the group's own tags to it.

    It is one resource for each group. The function and the policy belong to the cluster. If tags leave the template,
    the function removes them from the group.

    Source: https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateOrUpdateTags.html

    Args:
        group: Managed node group.
        cluster: Its cluster.
        tags: The tags.
    """

    def __init__(
        self, scope: Construct, id: str, *, group: eks.CfnNodegroup, cluster: ClusterRef, tags: Mapping[str, str]
    ) -> None:
        super().__init__(scope, id)
        handler = size_handler(scope, cluster)
        resource = cdk.CfnResource(
            self,
            "Resource",
            type=TAGS_RESOURCE,
            properties={
                "ServiceToken": handler.arn,
                "Cluster": cluster.name_token,
                "Name": group.attr_nodegroup_name,
                "Tags": dict(tags),
            },
        )
        resource.node.add_dependency(handler.tagging)


@named_arguments
class ManagedNodeGroup(GpuNodes):
    """GPU nodes that EKS creates, joins to the cluster, updates and repairs.

    The group has all tags that cluster autoscaler needs to scale it up from zero.

    Args:
        cluster: Cluster that the nodes join, created here or imported.
        name: Value of the nodes' label ``gpu-constructs.io/pool``.
        shape: Hardware and software of its nodes.
        max_nodes: Max number of nodes.
        min_nodes: Number of nodes that always run.
        capacity: Purchase option of the instances.
        subnets: Subnets of the nodes. Default: the private subnets of the cluster's VPC.
        node_role: Role of the nodes. Default: one role that all node groups of the cluster share.
        ami_release: Release name of EKS for the image, ``1.36.3-20260903`` for AL2023 or ``1.34.0-18d04e52`` for
            Bottlerocket. With ``latest``, EKS installs its newest release whenever the launch template changes. A
            release of AL2023 for an older Kubernetes keeps an existing group on its version when its cluster is
            upgraded, by three minor versions at most. EKS rejects it for a new group. EKS images have NVIDIA driver
            580. AL2023 from v20260917 and most variants of Bottlerocket from 1.68.0 also have 595, which only g7 needs.
            Default: for AL2023 in a cluster of this app, the release pinned in `gpu_facts.versions`, if it has a driver
            for every type of the shape. Otherwise as with ``latest``.
        bootstrap: Attributes of an imported cluster that a node with your own image needs to join. Default: the
            attributes of the cluster.
        node_repair: Rules for reboots and replacements of broken nodes.
        update: Number of nodes that an update replaces at once, and the order of termination and launch.
        force_update: Whether an update deletes pods that a PodDisruptionBudget protects, including training runs.
            Without it an update that can't drain a node fails, and so does the deployment.
            Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
        scaling_options: Options of cluster autoscaler for this group. They need a Lambda function that tags the group's
            Auto Scaling group. Default: the autoscaler's flags.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would reject the group, or the autoscaler would make wrong assumptions about its nodes.
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
        ami_release: str | None = None,
        bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 - frozen value
        node_repair: NodeRepair = NodeRepair(),  # noqa: B008 - frozen value
        update: NodeUpdate = NodeUpdate(),  # noqa: B008 - frozen value
        force_update: bool = False,
        scaling_options: ScalingOptions | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        refuse_unless_role(who, "node_role", node_role)
        refuse_unless_values(
            who, bootstrap=bootstrap, update=update, node_repair=node_repair, scaling_options=scaling_options
        )
        refuse_unless_bool(who, "force_update", force_update)
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
        refuse_session_manager(who, shape, node_role)
        update.refuse_beside(who, capacity)
        placed = network(who, shape, ref)
        boots = _image(who, ref, shape, name, ami_release, bootstrap)

        self._register(ref, name=name, shape=shape, max_nodes=max_nodes, subnets=chosen)
        ref.serve_gpus(shape)
        self.node_role = node_role if node_role is not None else shared_node_role(self, ref)
        open_to_session_manager(shape.host, self.node_role)
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=launch_template_data(
                tags=NodeTags(self, "NodeTags", name=f"{ref.name}-{name}", own=shape.tags),
                volumes=shape.volumes,
                user_data=boots.user_data,
                hop_limit=shape.host.metadata_hop_limit,
            )
            | dict(boots.template)
            | reserved_capacity(capacity, shape.names[0])
            | placed,
        )
        # L1 on purpose: aws_eks_v2.Nodegroup (aws-cdk-lib 2.275) treats p5 and g6f as CPU types and can't parse
        # "p6-b200". No name: replacing a named group fails, because the old one still holds the name.
        block = capacity if isinstance(capacity, CapacityBlock) else None
        size = DesiredSize(
            self,
            "Size",
            cluster=ref,
            min_nodes=min_nodes,
            max_nodes=max_nodes,
            block=block,
            reserved=isinstance(capacity, Reservation),
        )
        self.resource = NodeGroup.create(
            self,
            "Resource",
            size=size,
            cluster_name=ref.name_token,
            node_role=self.node_role,
            subnets=chosen,
            ami_type=boots.ami_type,
            version=boots.release.kubernetes_version,
            release_version=boots.release.ami_release,
            capacity_type=capacity.managed_capacity_type,
            instance_types=None if block is not None else list(shape.names),
            launch_template={"id": template.ref, "version": template.attr_latest_version_number},
            labels=shape.node_labels(name),
            taints=[_managed_taint(taint) for taint in _group_taints(shape)],
            tags=_scale_from_zero_tags(shape),
            scaling_config=size.scaling_config,
            update_config=update.to_properties(),
            force_update_enabled=force_update or None,
            node_repair_config=node_repair.to_properties(),
        )
        own = _identity(shape, name, block)
        self.resource.override_logical_id(f"{owning_stack(self).get_logical_id(self.resource)}{own}")
        if scaling_options is not None:
            ManagedGroupTags(self, "Tags", group=self.resource, cluster=ref, tags=scaling_options.tags())
        if block is not None:
            CapacityBlockSchedule(self, "Schedule", group=self.resource, cluster_name=ref.name_token, block=block)

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the name of the group's Auto Scaling group, which EKS sets: ``eks-<name>-<uuid>``."""
        return f"^eks-{self.resource.attr_nodegroup_name}-[0-9a-f]{{8}}-"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Image:
    """The image of a group, as fields of the group, the launch template and the user data."""

    ami_type: str | None = None
    release: Release = _EKS_CHOOSES
    template: Mapping[str, str] = field(default_factory=dict)
    user_data: str | None = None


def _image(
    who: object, cluster: ClusterRef, shape: NodeShape, name: str, ami_release: object, bootstrap: Bootstrap
) -> _Image:
    if shape.image is not None:
        if ami_release is not None:
            raise ValueError(
                f"{who}: ami_release must be left out if the shape has its own image, got {ami_release!r}; remove one"
            )
        joins = membership(cluster, bootstrap, shape=shape, who=who)
        # EKS doesn't change the user data of your own image, and taints its nodes late.
        told = cdk.Fn.base64(joining_user_data(shape, name, joins))
        return _Image(template={"imageId": shape.image.id, "userData": told})
    release = pinned_release(who, cluster, shape.os, ami_release)
    if ami_release is None and not shape.is_driven_by(release.ami_release, release.kubernetes_version):
        release = Release(kubernetes_version=release.kubernetes_version)
    boots = LATEST if release.ami_release is None else release.ami_release
    shape.refuse_undriven(who, boots, release.kubernetes_version, take=f"'{LATEST}'")
    return _Image(ami_type=nvidia_ami_type(shape.os, shape.architecture), release=release, user_data=user_data(shape))


def _identity(shape: NodeShape, name: str, block: CapacityBlock | None) -> str:
    """Return a hash of the settings that change the launch template of a group and the group itself.

    CloudFormation rejects both changes in one update of a group, so a change of these creates another group. The old
    one is drained and deleted after everything else has succeeded.
    """
    both: list[Any] = [name, None if shape.uses_raid0 else shape.disk.size_gib, shape.kubelet.max_pods, shape.efa]
    if shape.os == "bottlerocket" or isinstance(shape.sharing, Mig):
        both.append(shape.sharing.profile)
    if shape.image is not None:
        # The user data of your own image also sets labels and taints.
        taints = [[taint.key, taint.value, taint.effect] for taint in shape.node_taints]
        both += [shape.node_labels(name), taints, shape.resources()]
    if block is not None:
        # The launch template names the block, and its period determines the sizes.
        both.append(block.id)
    return hashlib.sha256(json.dumps(both, sort_keys=True).encode()).hexdigest()[:8]


def _group_taints(shape: NodeShape) -> tuple[Taint, ...]:
    """Return the taints that EKS sets on the nodes of a group.

    For your own image, EKS sets them after the nodes joined. A driver may have read the taints before that. So the user
    data of these nodes sets the startup taints, and they register with them.
    """
    return shape.node_taints if shape.image is not None else registered_taints(shape)


def _managed_taint(taint: Taint) -> dict[str, str]:
    """Return a taint in the form of the EKS API."""
    return {"key": taint.key, "value": taint.value, "effect": _MANAGED_EFFECT[taint.effect]}


def _scale_from_zero_tags(shape: NodeShape) -> dict[str, str]:
    """Return the group's own tags. Cluster autoscaler reads them through DescribeNodegroup while the group has no node.

    It reads labels and taints from the group itself, vCPU and memory from EC2. It can't read the disk, EFA, huge pages,
    or GPUs that EC2 counts as 0 (g6f, gr6f).
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cloudprovider/aws/aws_manager.go, aws_wrapper.go
    """
    return {f"{RESOURCE_TAG}{resource}": amount for resource, amount in shape.resources().items()}


@named_arguments
class ZonalNodeGroups(GpuNodes):
    """The same managed node group once in every zone, with one pool name.

    If a group spans several zones, cluster autoscaler considers only the first zone. A pod that is bound to another
    zone by its volume or a spread constraint stays Pending. In addition, Auto Scaling terminates running nodes to
    balance the zones of one group.

    Args:
        cluster: Cluster that the nodes join, created here or imported.
        name: Value of the nodes' label ``gpu-constructs.io/pool``, the same in each zone.
        shape: Hardware and software of the nodes.
        max_nodes_per_zone: Max number of nodes in each zone.
        min_nodes_per_zone: Number of nodes that always run in each zone.
        subnets: One subnet for each zone. Default: the private subnets of the cluster's VPC.
        capacity: As for a `ManagedNodeGroup`. This and the following arguments apply to each group.
        node_role: As for a `ManagedNodeGroup`.
        ami_release: As for a `ManagedNodeGroup`.
        bootstrap: As for a `ManagedNodeGroup`.
        node_repair: As for a `ManagedNodeGroup`.
        update: As for a `ManagedNodeGroup`, in each zone.
        force_update: As for a `ManagedNodeGroup`.
        scaling_options: As for a `ManagedNodeGroup`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Two subnets are in one zone, or EKS would reject a group.

    Attributes:
        groups: The groups, in the order of the subnets.
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
        max_nodes_per_zone: int,
        min_nodes_per_zone: int = 0,
        subnets: Sequence[ec2.ISubnet] | None = None,
        capacity: Capacity = OnDemand(),  # noqa: B008 - frozen value
        node_role: iam.IRole | None = None,
        ami_release: str | None = None,
        bootstrap: Bootstrap = Bootstrap(),  # noqa: B008 - frozen value
        node_repair: NodeRepair = NodeRepair(),  # noqa: B008 - frozen value
        update: NodeUpdate = NodeUpdate(),  # noqa: B008 - frozen value
        force_update: bool = False,
        scaling_options: ScalingOptions | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster)
        chosen = ref.subnets(subnets, who=who)
        zones = [subnet_zone(subnet) or f"Zone{number}" for number, subnet in enumerate(chosen, start=1)]
        if len(set(zones)) < len(zones):
            raise ValueError(f"{who}: subnets must be in different zones, got {', '.join(zones)}; pass one of each")
        self.name = name
        self.shape = shape
        _refuse_unless_number(who, "max_nodes_per_zone", max_nodes_per_zone, least=1)
        _refuse_unless_number(who, "min_nodes_per_zone", min_nodes_per_zone, least=0)
        # The max can't be multiplied if it is known only at deployment.
        several = 1 if is_number_token(max_nodes_per_zone) else len(chosen)
        self.max_nodes = max_nodes_per_zone * several
        self.subnets = chosen
        self._take_name(ref)
        self.groups = [
            ManagedNodeGroup(
                self,
                zone,
                cluster=cluster,
                name=name,
                shape=shape,
                min_nodes=min_nodes_per_zone,
                max_nodes=max_nodes_per_zone,
                subnets=[subnet],
                capacity=capacity,
                node_role=node_role,
                ami_release=ami_release,
                bootstrap=bootstrap,
                node_repair=node_repair,
                update=update,
                force_update=force_update,
                scaling_options=scaling_options,
            )
            for zone, subnet in zip(zones, chosen, strict=True)
        ]
        self.node_role = self.groups[0].node_role

    @property
    def auto_scaling_group_pattern(self) -> str:
        """Regular expression of the names of the groups' Auto Scaling groups."""
        return "|".join(each.auto_scaling_group_pattern for each in self.groups)


def _refuse_unless_number(who: object, argument: str, number: object, *, least: int) -> None:
    if not is_number_token(number):
        refuse_unless_whole_number(who, argument, number, least=least)


def _trust(account: str) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "scheduler.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"StringEquals": {"aws:SourceAccount": account}},
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


@named_arguments
class CapacityBlockSchedule(Construct):
    """Scales up a node group when its Capacity Block starts, and drains it before the block ends.

    Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html

    Args:
        group: Managed node group that uses the block.
        cluster_name: Name of its cluster.
        block: The block.
    """

    def __init__(
        self, scope: Construct, id: str, *, group: eks.CfnNodegroup, cluster_name: str, block: CapacityBlock
    ) -> None:
        super().__init__(scope, id)
        # Imported here because few groups need it, and it takes 15 ms of a synth.
        from aws_cdk import aws_scheduler as scheduler

        stack = cdk.Stack.of(self)
        role = iam.CfnRole(
            self,
            "Role",
            assume_role_policy_document=_trust(stack.account),
            policies=[
                {
                    "policyName": "ScaleGroup",
                    "policyDocument": {
                        "Version": "2012-10-17",
                        "Statement": [
                            {"Effect": "Allow", "Action": "eks:UpdateNodegroupConfig", "Resource": group.attr_arn}
                        ],
                    },
                }
            ],
        )
        target = {
            "arn": f"arn:{stack.partition}:scheduler:::aws-sdk:eks:updateNodegroupConfig",
            "roleArn": role.attr_arn,
        }
        name = group.attr_nodegroup_name
        for step, moment, nodes in block.steps:
            # EKS rejects a max size of 0. With a larger max size than this, cluster autoscaler would start nodes again
            # while the block is drained.
            sizes = {"MinSize": 0, "MaxSize": max(nodes, CLOSED_MAX), "DesiredSize": nodes}
            asked: dict[str, Any] = {"ClusterName": cluster_name, "NodegroupName": name, "ScalingConfig": sizes}
            scheduler.CfnSchedule(
                self,
                step,
                schedule_expression=f"at({_utc(moment)})",
                schedule_expression_timezone="UTC",
                flexible_time_window={"mode": "OFF"},
                target=target | {"input": json.dumps(asked)},
            )


def _utc(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
