"""The simulated resource types: for each, the calls that create, delete and update a resource.

A type without an update, and a property that no call of the update takes, make an update fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_rehearsal.cloudformation.creation import Creation, Made
from gpu_rehearsal.cloudformation.resource_types import clusters, instances, lambdas, network

Create = Callable[[Creation], Made]
Delete = Callable[[Creation], None]


@dataclass(frozen=True, slots=True)
class Type:
    """What a resource type does.

    Attributes:
        create: Creates a resource.
        delete: Deletes one.
        update: Changes one in place; ``None`` if nothing here does.
    """

    create: Create
    delete: Delete
    update: Create | None = None


def find_type(kind: str) -> Type | None:
    """Return the entry of a resource type; ``None`` if it isn't simulated."""
    return CUSTOM if kind.startswith("Custom::") else TYPES.get(kind)


def deletion_call(service: str, operation: str, *names: str, ref: str = "", refs: str = "", **given: Any) -> Delete:
    """Return a deletion by one call.

    Args:
        service: Client of boto3.
        operation: E.g. ``DeleteVpc``.
        names: Parameters that an attribute or a property of the resource has the value of.
        ref: The parameter that takes its ``Ref``.
        refs: The same for a list.
        given: Other parameters.
    """

    def delete(creation: Creation) -> None:
        found = {name: creation.value(name) for name in names}
        found |= {ref: creation.physical_id} if ref else {}
        found |= {refs: [creation.physical_id]} if refs else {}
        creation.ask(service, operation, **{key: each for key, each in found.items() if each is not None}, **given)

    return delete


def again(create: Create) -> Create:
    """Return an update by the calls of the creation, for APIs that overwrite."""

    def update(creation: Creation) -> Made:
        creation.properties = dict(creation.declared)
        return create(creation)

    return update


def _nothing(_: Creation) -> None:
    """Delete what no call created."""


CUSTOM = Type(lambdas.create_custom, lambdas.delete_custom, lambdas.update_custom)
TYPES: Mapping[str, Type] = {
    "AWS::AutoScaling::AutoScalingGroup": Type(
        instances.auto_scaling_group,
        deletion_call("autoscaling", "DeleteAutoScalingGroup", ref="AutoScalingGroupName", ForceDelete=True),
        instances.update_auto_scaling_group,
    ),
    "AWS::CDK::Metadata": Type(network.metadata, _nothing, again(network.metadata)),
    "AWS::CloudWatch::Alarm": Type(
        network.alarm, deletion_call("cloudwatch", "DeleteAlarms", refs="AlarmNames"), again(network.alarm)
    ),
    "AWS::CloudFormation::CustomResource": CUSTOM,
    "AWS::EC2::EIP": Type(network.elastic_ip, deletion_call("ec2", "ReleaseAddress", "AllocationId"), network.retag),
    "AWS::EC2::FlowLog": Type(
        network.flow_log, deletion_call("ec2", "DeleteFlowLogs", refs="FlowLogIds"), network.retag
    ),
    "AWS::EC2::InternetGateway": Type(
        network.internet_gateway, deletion_call("ec2", "DeleteInternetGateway", "InternetGatewayId"), network.retag
    ),
    "AWS::EC2::LaunchTemplate": Type(
        instances.launch_template,
        deletion_call("ec2", "DeleteLaunchTemplate", "LaunchTemplateId"),
        instances.update_launch_template,
    ),
    "AWS::EC2::NatGateway": Type(
        network.nat_gateway, deletion_call("ec2", "DeleteNatGateway", "NatGatewayId"), network.retag
    ),
    "AWS::EC2::PlacementGroup": Type(
        instances.placement_group, deletion_call("ec2", "DeletePlacementGroup", "GroupName")
    ),
    "AWS::EC2::Route": Type(
        network.route,
        deletion_call("ec2", "DeleteRoute", "RouteTableId", "DestinationCidrBlock", "DestinationIpv6CidrBlock"),
        network.update_route,
    ),
    "AWS::EC2::RouteTable": Type(
        network.route_table, deletion_call("ec2", "DeleteRouteTable", "RouteTableId"), network.retag
    ),
    "AWS::EC2::SecurityGroup": Type(
        network.security_group, deletion_call("ec2", "DeleteSecurityGroup", "GroupId"), network.update_security_group
    ),
    "AWS::EC2::SecurityGroupIngress": Type(
        network.security_group_ingress,
        deletion_call("ec2", "RevokeSecurityGroupIngress", "GroupId", refs="SecurityGroupRuleIds"),
    ),
    "AWS::EC2::Subnet": Type(network.subnet, deletion_call("ec2", "DeleteSubnet", "SubnetId"), network.update_subnet),
    "AWS::EC2::SubnetRouteTableAssociation": Type(
        network.route_table_association, deletion_call("ec2", "DisassociateRouteTable", ref="AssociationId")
    ),
    "AWS::EC2::VPC": Type(network.vpc, deletion_call("ec2", "DeleteVpc", "VpcId"), network.update_vpc),
    "AWS::EC2::VPCEndpoint": Type(
        network.vpc_endpoint, deletion_call("ec2", "DeleteVpcEndpoints", refs="VpcEndpointIds"), network.retag
    ),
    "AWS::EC2::VPCGatewayAttachment": Type(
        network.gateway_attachment, deletion_call("ec2", "DetachInternetGateway", "InternetGatewayId", "VpcId")
    ),
    "AWS::EKS::AccessEntry": Type(
        clusters.access_entry,
        deletion_call("eks", "DeleteAccessEntry", "clusterName", "principalArn"),
        clusters.update_access_entry,
    ),
    "AWS::EKS::Addon": Type(
        clusters.addon, deletion_call("eks", "DeleteAddon", "clusterName", "addonName"), clusters.update_addon
    ),
    "AWS::EKS::Cluster": Type(
        clusters.cluster, deletion_call("eks", "DeleteCluster", ref="name"), clusters.update_cluster
    ),
    "AWS::EKS::Nodegroup": Type(clusters.node_group, clusters.delete_node_group, clusters.update_node_group),
    "AWS::EKS::PodIdentityAssociation": Type(
        clusters.pod_identity_association,
        deletion_call("eks", "DeletePodIdentityAssociation", "clusterName", "associationId"),
        clusters.update_pod_identity_association,
    ),
    "AWS::Events::Rule": Type(instances.rule, instances.delete_rule, instances.update_rule),
    "AWS::FSx::FileSystem": Type(network.file_system, deletion_call("fsx", "DeleteFileSystem", ref="FileSystemId")),
    "AWS::IAM::InstanceProfile": Type(instances.instance_profile, instances.delete_instance_profile),
    "AWS::IAM::ManagedPolicy": Type(
        instances.managed_policy, instances.delete_managed_policy, instances.update_managed_policy
    ),
    "AWS::IAM::Policy": Type(instances.policy, instances.delete_policy, instances.update_policy),
    "AWS::IAM::Role": Type(instances.role, instances.delete_role, instances.update_role),
    "AWS::IAM::RolePolicy": Type(
        instances.role_policy,
        deletion_call("iam", "DeleteRolePolicy", "RoleName", "PolicyName"),
        again(instances.role_policy),
    ),
    "AWS::KMS::Alias": Type(network.alias, deletion_call("kms", "DeleteAlias", "AliasName"), network.update_alias),
    "AWS::KMS::Key": Type(network.key, network.delete_key, network.update_key),
    "AWS::Lambda::Function": Type(lambdas.function, lambdas.delete_function, again(lambdas.function)),
    "AWS::Lambda::LayerVersion": Type(lambdas.layer_version, lambdas.delete_layer_version),
    "AWS::Lambda::Permission": Type(lambdas.permission, _nothing),
    "AWS::Logs::LogGroup": Type(
        network.log_group, deletion_call("logs", "DeleteLogGroup", ref="logGroupName"), network.update_log_group
    ),
    "AWS::S3::Bucket": Type(network.bucket, deletion_call("s3", "DeleteBucket", ref="Bucket")),
    "AWS::S3::BucketPolicy": Type(
        network.bucket_policy, deletion_call("s3", "DeleteBucketPolicy", "Bucket"), again(network.bucket_policy)
    ),
    "AWS::SQS::Queue": Type(instances.queue, deletion_call("sqs", "DeleteQueue", "QueueUrl"), instances.update_queue),
    "AWS::SQS::QueuePolicy": Type(instances.queue_policy, instances.delete_queue_policy, again(instances.queue_policy)),
    "AWS::SSM::Parameter": Type(
        network.parameter, deletion_call("ssm", "DeleteParameter", ref="Name"), network.update_parameter
    ),
    "AWS::Scheduler::Schedule": Type(
        instances.schedule, deletion_call("scheduler", "DeleteSchedule", ref="Name"), instances.update_schedule
    ),
}
