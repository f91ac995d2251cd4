"""The launch template of a node group (disks, metadata service, tags, user data), and checks of the group's subnets."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import aws_cdk as cdk
import constructs
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.gitops import with_outputs
from gpu_constructs.installing.subnets import PodNetwork, refuse_zones_without_pods, subnet_ipv4_block, subnet_zone
from gpu_constructs.pools.capacity import Capacity, CapacityBlock, Reservation
from gpu_constructs.pools.disk import Volume
from gpu_constructs.pools.node_shape import NodeShape
from gpu_facts.labels import CLUSTER_TAG, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, NODE_POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import has_token

# AWS reserves the first four addresses of a subnet and the last one.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_KEPT_BY_AWS = 5
# The network plugin assigns all addresses to the first interface of a node, and to a second one as a reserve for pods.
# EFA-only interfaces have none.
# Source: https://github.com/aws/amazon-vpc-cni-k8s/blob/v1.23.0/docs/eni-and-ip-target.md
_FILLED_INTERFACES = 2
# Resources that EC2 launches with a node. A tag policy may require tags on each.
_LAUNCHED = ("instance", "volume", "network-interface")
# Source: EC2NodeClass CRD of karpenter-provider-aws v1.14.1 (spec.tags)
_RESERVED = ("eks:eks-cluster-name", NODE_POOL, f"{KARPENTER_DOMAIN}/nodeclaim", f"{KARPENTER_AWS_DOMAIN}/ec2nodeclass")
# `Tags.of(...)` of the CDK has priority 100.
_ABOVE_THE_SCOPES = 1_000_000
_NO_TAGS: Mapping[str, str] = MappingProxyType({})
# IMDSv2 only. With one hop, pods can't reach it, and they get credentials through Pod Identity instead.
_METADATA = {"httpEndpoint": "enabled", "httpTokens": "required"}


@jsii.implements(cdk.ITaggable, constructs.IValidation)
@named_arguments
class NodeTags(Construct):
    """Collects the tags of a scope for its nodes. It creates no resource.

    EKS doesn't propagate the tags of a managed node group, and Auto Scaling propagates the tags of a group only to
    instances. Volumes and network interfaces get the tags in the launch template.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (2026-11)

    Args:
        name: Value of the tag ``Name``, unless the scope has one. Volumes and network interfaces have it, too.
        own: Tags of the nodes that override the tags of the scope.
        in_file: Whether the tags are written to a file, which can't contain values of a deployment.
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, own: Mapping[str, str] = _NO_TAGS, in_file: bool = False
    ) -> None:
        named = {"Name": name}
        if in_file:
            path = f"{scope.node.path.removeprefix(cdk.Stack.of(scope).node.path).strip('/')}/NodeClass/spec/tags"
            named, own = with_outputs(scope, named, path), with_outputs(scope, dict(own), path)
        initial = [{"key": key, "value": value} for key, value in named.items()]
        # The CDK reads the tags of a construct as soon as it exists.
        self._manager = cdk.TagManager(cdk.TagType.STANDARD, "AWS::EC2::Instance", initial)
        for key, value in own.items():
            self._manager.set_tag(key, value, _ABOVE_THE_SCOPES)
        super().__init__(scope, id)
        if in_file:
            self.node.add_validation(self)

    @property
    def tags(self) -> cdk.TagManager:
        """Tag manager that `Tags.of(...)` uses, for the resource type ``AWS::EC2::Instance``."""
        return self._manager

    def validate(self) -> list[str]:
        """Return errors for tags that are known only at deployment, which no file can contain."""
        late = [key for key, value in self.node_class_tags().items() if has_token(value)]
        return [
            f"{self.node.path}: tag {key!r} must be known at synth to be written to a file, got one that is known only "
            "at deployment; leave AWS::EC2::Instance out with exclude_resource_types"
            for key in late
        ]

    @cached_property
    def specifications(self) -> cdk.IResolvable:
        """``TagSpecifications`` of a launch template, with all tags when the CDK writes the template."""
        tags = self._manager.rendered_tags
        return cdk.Token.as_any([{"resourceType": kind, "tags": tags} for kind in _LAUNCHED])

    def node_class_tags(self) -> dict[str, str]:
        """Return ``tags`` of an EC2NodeClass, without the tags that Karpenter reserves and rejects."""
        cluster = CLUSTER_TAG.rstrip("/")
        return {
            key: value
            for key, value in self._manager.tag_values().items()
            if key not in _RESERVED and not key.startswith(cluster)
        }

    @property
    def late_of_node_class(self) -> cdk.IResolvable:
        """``tags`` of an EC2NodeClass, with all tags when the CDK writes the template."""
        return cdk.Lazy.uncached_any(_Late(self.node_class_tags))


@jsii.implements(cdk.IAnyProducer)
class _Late:
    def __init__(self, produce: Any) -> None:
        self._produce = produce

    def produce(self, context: cdk.IResolveContext) -> Any:
        """Return its current value."""
        return self._produce()


def launch_template_data(
    *,
    tags: NodeTags,
    volumes: Sequence[Volume],
    user_data: str | None = None,
    hop_limit: int = 1,
) -> dict[str, Any]:
    """Return ``LaunchTemplateData`` for a managed node group.

    It has no subnet, security group, instance profile or image. EKS adds those, and rejects some of them.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    data: dict[str, Any] = {
        "blockDeviceMappings": [block_device(volume) for volume in volumes],
        "metadataOptions": _METADATA | {"httpPutResponseHopLimit": hop_limit},
        "tagSpecifications": tags.specifications,
    }
    if user_data is not None:
        # A value that is known only at deployment isn't a string yet.
        late = "${Token[" in user_data
        data["userData"] = cdk.Fn.base64(user_data) if late else base64.b64encode(user_data.encode()).decode()
    return data


def reserved_capacity(capacity: Capacity, instance_type: str) -> dict[str, Any]:
    """Return the fields of a launch template for reserved capacity, or nothing for other capacity.

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
        # EKS requires the type here, and then rejects it in the node group.
        return {
            "instanceType": instance_type,
            "instanceMarketOptions": {"marketType": "capacity-block"},
            "capacityReservationSpecification": {"capacityReservationTarget": {"capacityReservationId": capacity.id}},
        }
    return {}


def network(who: object, shape: NodeShape, cluster: ClusterRef, *, joins_by_itself: bool = False) -> dict[str, Any]:
    """Return interfaces, security groups and placement, or nothing if EKS' own are sufficient.

    If a launch template has its own interfaces or security groups, EKS doesn't add the cluster's group, so the template
    must name it. The cluster's group allows all traffic among its members in both directions, as EFA requires, on every
    supported Kubernetes version.

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
        # EC2 accepts groups of the instance or of its interfaces, not both.
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
        f"{who}: cluster must be imported with cluster_security_group_id, got none; pass it, because the nodes need it "
        "to connect to the control plane"
    )


def block_device(volume: Volume) -> dict[str, Any]:
    """Return one encrypted gp3 volume in the form of a launch template."""
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


def check_subnets(
    pool: Construct,
    *,
    who: object,
    cluster: ClusterRef,
    shape: NodeShape,
    subnets: Sequence[ec2.ISubnet],
    max_nodes: object,
) -> None:
    """Reject subnets in which the nodes of a pool can't start or connect to each other. Warn about small ones.

    It doesn't check addresses if the size of a subnet, or the number of nodes, is known only at deployment.

    Raises:
        ValueError: The last node could not start, or a zone has no subnet for pods. Or with EFA, the subnets are in
            several zones, may be in several zones, or one is public.
    """
    refuse_zones_without_pods(who, cluster.pod_network, subnets)
    if shape.efa:
        _refuse_unless_one_zone(who, subnets)
    if cluster.ip_family != "ipv6" and isinstance(max_nodes, int):
        _check_addresses(pool, who, shape, subnets, max_nodes, cluster.pod_network)


def _refuse_unless_one_zone(who: object, subnets: Sequence[ec2.ISubnet]) -> None:
    # EC2 assigns no public address to a node with several interfaces.
    public = [each.node.path for each in subnets if isinstance(each, ec2.PublicSubnet)]
    if public:
        raise ValueError(
            f"{who}: subnets must be private with efa, got {', '.join(public)}; pass one of private_subnets"
        )
    if len(subnets) == 1:
        return
    # EFA traffic stays in its Availability Zone.
    zones = {subnet_zone(subnet) for subnet in subnets}
    if len(zones) > 1 or None in zones:
        named = ", ".join(sorted(zone or "a zone known only at deployment" for zone in zones))
        raise ValueError(f"{who}: subnets must be in one zone with efa, got {named}; pass one subnet")


def _check_addresses(
    pool: Construct,
    who: object,
    shape: NodeShape,
    subnets: Sequence[ec2.ISubnet],
    max_nodes: int,
    network: PodNetwork | None,
) -> None:
    """Reject more nodes than addresses, and warn about more than the addresses without the plugin's reserve."""
    blocks = [subnet_ipv4_block(subnet) for subnet in subnets]
    known = [ipaddress.ip_network(block).num_addresses - _KEPT_BY_AWS for block in blocks if block is not None]
    if len(known) < len(blocks):
        return
    free = sum(known)
    if max_nodes > free:
        raise ValueError(
            f"{who}: subnets must have an address for each of {max_nodes} nodes, got {free}; pass larger ones"
        )
    each = addresses_per_node(shape) if network is None or network.is_usual else None
    if each is not None and max_nodes * each > free:
        cdk.Annotations.of(pool).add_warning_v2(
            "gpu-constructs:addresses",
            f"{max_nodes} nodes of {shape.names[0]} use up to {max_nodes * each} addresses, {each} each, and the "
            f"subnets have {free}: the last nodes or their pods would wait for an address. Use larger subnets, or set "
            "WARM_IP_TARGET of the add-on vpc-cni",
        )


def addresses_per_node(shape: NodeShape) -> int | None:
    """Return how many IPv4 addresses a node of the largest type uses, or ``None`` if no source states it."""
    stated = [each.ipv4_per_interface for each in shape.rows]
    counts = [count for count in stated if count is not None]
    return max(counts) * _FILLED_INTERFACES if len(counts) == len(stated) else None
