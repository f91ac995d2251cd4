"""The launch template of a node group: disks, metadata service, tags, user data."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import aws_cdk as cdk
import constructs
import jsii
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.gitops import with_outputs
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import CLUSTER_TAG, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token

# What EC2 launches with a node; a tag policy may ask for tags on each.
_LAUNCHED = ("instance", "volume", "network-interface")
# Source: EC2NodeClass CRD of karpenter-provider-aws v1.14.1 (spec.tags)
_RESERVED = ("eks:eks-cluster-name", NODE_POOL, f"{KARPENTER_DOMAIN}/nodeclaim", f"{KARPENTER_AWS_DOMAIN}/ec2nodeclass")
# `Tags.of(...)` of the CDK has 100.
_ABOVE_THE_SCOPES = 1_000_000
_NO_TAGS: Mapping[str, str] = MappingProxyType({})
# IMDSv2 only, and one hop is unreachable from pods, which get credentials by Pod Identity instead.
_METADATA = {"httpEndpoint": "enabled", "httpTokens": "required"}


@jsii.implements(cdk.ITaggable, constructs.IValidation)
@named_arguments
class NodeTags(Construct):
    """Where tags of a scope end that are meant for its nodes; no resource of its own.

    EKS keeps the tags of a managed group to itself, and Auto Scaling puts those of a group on instances alone: volumes
    and network interfaces get what the launch template says.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)

    Args:
        name: Value of the tag ``Name``, unless the scope has one; volumes and network interfaces have it, too.
        own: Tags that the nodes have whatever the scope's are.
        in_file: Whether they are written to a file, which knows nothing of a deployment.
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, own: Mapping[str, str] = _NO_TAGS, in_file: bool = False
    ) -> None:
        named = {"Name": name}
        if in_file:
            path = f"{scope.node.path.removeprefix(cdk.Stack.of(scope).node.path).strip('/')}/NodeClass/spec/tags"
            named, own = with_outputs(scope, named, path), with_outputs(scope, dict(own), path)
        initial = [{"key": key, "value": value} for key, value in named.items()]
        # The CDK asks a construct for its tags as soon as it is there.
        self._manager = cdk.TagManager(cdk.TagType.STANDARD, "AWS::EC2::Instance", initial)
        for key, value in own.items():
            self._manager.set_tag(key, value, _ABOVE_THE_SCOPES)
        super().__init__(scope, id)
        if in_file:
            self.node.add_validation(self)

    @property
    def tags(self) -> cdk.TagManager:
        """What `Tags.of(...)` talks to, by the resource type ``AWS::EC2::Instance``."""
        return self._manager

    def validate(self) -> list[str]:
        """Return what only deployment tells, which no file can have."""
        late = [key for key, value in self.node_class_tags().items() if has_token(value)]
        return [
            f"{self.node.path}: tag {key!r} must be known at synth to be written to a file, got one that only "
            "deployment tells; leave AWS::EC2::Instance out with exclude_resource_types"
            for key in late
        ]

    @cached_property
    def specifications(self) -> cdk.IResolvable:
        """``TagSpecifications`` of a launch template, rendered by the CDK with what is known when it is written."""
        tags = self._manager.rendered_tags
        return cdk.Token.as_any([{"resourceType": kind, "tags": tags} for kind in _LAUNCHED])

    def node_class_tags(self) -> dict[str, str]:
        """Return ``tags`` of an EC2NodeClass, without those that Karpenter keeps for itself and refuses."""
        cluster = CLUSTER_TAG.rstrip("/")
        return {
            key: value
            for key, value in self._manager.tag_values().items()
            if key not in _RESERVED and not key.startswith(cluster)
        }

    @property
    def late_of_node_class(self) -> cdk.IResolvable:
        """``tags`` of an EC2NodeClass with what is known when the template is written."""
        return cdk.Lazy.uncached_any(_Late(self.node_class_tags))


@jsii.implements(cdk.IAnyProducer)
class _Late:
    def __init__(self, produce: Any) -> None:
        self._produce = produce

    def produce(self, context: cdk.IResolveContext) -> Any:
        """Return it as it is just then."""
        return self._produce()


def launch_template_data(
    *,
    tags: NodeTags,
    volumes: Sequence[Volume],
    user_data: str | None = None,
    hop_limit: int = 1,
) -> dict[str, Any]:
    """Return ``LaunchTemplateData`` for a managed node group.

    It names no subnet, security group, instance profile or image: EKS adds those, and refuses some of them.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    data: dict[str, Any] = {
        "blockDeviceMappings": [block_device(volume) for volume in volumes],
        "metadataOptions": _METADATA | {"httpPutResponseHopLimit": hop_limit},
        "tagSpecifications": tags.specifications,
    }
    if user_data is not None:
        # What only deployment tells is no text yet.
        late = "${Token[" in user_data
        data["userData"] = cdk.Fn.base64(user_data) if late else base64.b64encode(user_data.encode()).decode()
    return data


def reserved_capacity(capacity: Capacity, instance_type: str) -> dict[str, Any]:
    """Return what a launch template says of reserved capacity; nothing for what is bought at the moment.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
    """
    if isinstance(capacity, Reservation):
        target = {
            "capacityReservationId": capacity.id,
            "capacityReservationResourceGroupArn": capacity.resource_group_arn,
        }
        named = {key: value for key, value in target.items() if value is not None}
        return {"capacityReservationSpecification": {"capacityReservationTarget": named}}
    if isinstance(capacity, CapacityBlock):
        # EKS wants the type here, and then not in the node group.
        return {
            "instanceType": instance_type,
            "instanceMarketOptions": {"marketType": "capacity-block"},
            "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": capacity.id}},
        }
    return {}


def network(who: object, shape: NodeShape, cluster: ClusterRef, *, joins_by_itself: bool = False) -> dict[str, Any]:
    """Return interfaces, security groups and placement; nothing where EKS' own will do.

    With interfaces or security groups of its own a launch template has to name the cluster's group too, which EKS then
    leaves out. The cluster's allows all traffic among its members both ways, as EFA needs, on every supported
    Kubernetes version.

    Raises:
        ValueError: The cluster was imported without its security group.
    """
    data: dict[str, Any] = {}
    if shape.placement_group is not None:
        data["placement"] = {"groupName": shape.placement_group}
    if not (shape.efa or shape.host.security_group_ids or joins_by_itself):
        return data
    groups = list(dict.fromkeys([_cluster_group(who, shape, cluster), *shape.host.security_group_ids]))
    if shape.efa:
        data["networkInterfaces"] = [
            {
                "networkCardIndex": each.card,
                "deviceIndex": each.device,
                "interfaceType": each.kind,
                "groups": groups,
                "deleteOnTermination": True,
            }
            for each in shape.rows[0].efa_interfaces
        ]
    else:
        # EC2 takes groups of the instance or of its interfaces, not both.
        data["securityGroupIds"] = groups
    return data


def _cluster_group(who: object, shape: NodeShape, cluster: ClusterRef) -> str:
    if cluster.security_group_id is not None:
        return cluster.security_group_id
    without = "cluster was imported without cluster_security_group_id"
    fix = "pass the id to from_cluster_attributes"
    if shape.efa:
        raise ValueError(f"{who}: shape must be without efa when the {without}, got efa=True; {fix}")
    if shape.host.security_group_ids:
        raise ValueError(
            f"{who}: shape must be without host.security_group_ids when the {without}, got "
            f"{shape.host.security_group_ids!r}; {fix}"
        )
    raise ValueError(
        f"{who}: cluster must be imported with cluster_security_group_id, got none; the nodes talk to the control "
        "plane through it"
    )


def block_device(volume: Volume) -> dict[str, Any]:
    """Return one encrypted gp3 volume as a launch template names it."""
    disk = volume.disk
    ebs: dict[str, Any] = {
        "volumeSize": volume.size_gib,
        "volumeType": "gp3",
        "iops": disk.iops,
        "throughput": disk.throughput_mib_s,
        "encrypted": True,
        "deleteOnTermination": True,
    }
    optional = {
        "kmsKeyId": disk.kms_key_arn,
        "snapshotId": disk.snapshot_id,
        "volumeInitializationRate": disk.initialization_mib_s,
    }
    ebs |= {key: value for key, value in optional.items() if value is not None}
    return {"deviceName": volume.device, "ebs": ebs}
