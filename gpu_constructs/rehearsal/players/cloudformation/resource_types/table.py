"""The types of resources that are played: one table, and by family the calls that make each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.resource_types import (
    clusters,
    custom,
    identities,
    instances,
    lambdas,
    messages,
    network,
    security_groups,
    stores,
)

Creator = Callable[[Creation], Made]


def creator(kind: str) -> Creator | None:
    """Return what makes a resource of a type; nothing where the type is not played."""
    return custom.custom_resource if kind.startswith("Custom::") else CREATORS.get(kind)


CREATORS: Mapping[str, Creator] = {
    "AWS::AutoScaling::AutoScalingGroup": instances.auto_scaling_group,
    "AWS::AutoScaling::ScheduledAction": instances.scheduled_action,
    "AWS::CDK::Metadata": stores.metadata,
    "AWS::CloudWatch::Alarm": stores.alarm,
    "AWS::CloudFormation::CustomResource": custom.custom_resource,
    "AWS::EC2::EIP": network.elastic_ip,
    "AWS::EC2::FlowLog": network.flow_log,
    "AWS::EC2::InternetGateway": network.internet_gateway,
    "AWS::EC2::LaunchTemplate": instances.launch_template,
    "AWS::EC2::NatGateway": network.nat_gateway,
    "AWS::EC2::PlacementGroup": instances.placement_group,
    "AWS::EC2::Route": network.route,
    "AWS::EC2::RouteTable": network.route_table,
    "AWS::EC2::SecurityGroup": security_groups.security_group,
    "AWS::EC2::SecurityGroupIngress": security_groups.security_group_ingress,
    "AWS::EC2::Subnet": network.subnet,
    "AWS::EC2::SubnetRouteTableAssociation": network.route_table_association,
    "AWS::EC2::VPC": network.vpc,
    "AWS::EC2::VPCEndpoint": network.vpc_endpoint,
    "AWS::EC2::VPCGatewayAttachment": network.gateway_attachment,
    "AWS::EKS::AccessEntry": clusters.access_entry,
    "AWS::EKS::Addon": clusters.addon,
    "AWS::EKS::Cluster": clusters.cluster,
    "AWS::EKS::Nodegroup": clusters.node_group,
    "AWS::EKS::PodIdentityAssociation": clusters.pod_identity_association,
    "AWS::Events::Rule": messages.rule,
    "AWS::FSx::DataRepositoryAssociation": stores.data_repository,
    "AWS::FSx::FileSystem": stores.file_system,
    "AWS::IAM::InstanceProfile": identities.instance_profile,
    "AWS::IAM::ManagedPolicy": identities.managed_policy,
    "AWS::IAM::Policy": identities.policy,
    "AWS::IAM::Role": identities.role,
    "AWS::IAM::RolePolicy": identities.role_policy,
    "AWS::KMS::Alias": stores.alias,
    "AWS::KMS::Key": stores.key,
    "AWS::Lambda::Function": lambdas.function,
    "AWS::Lambda::LayerVersion": lambdas.layer_version,
    "AWS::Lambda::Permission": lambdas.permission,
    "AWS::Logs::LogGroup": stores.log_group,
    "AWS::S3::Bucket": stores.bucket,
    "AWS::S3::BucketPolicy": stores.bucket_policy,
    "AWS::SQS::Queue": messages.queue,
    "AWS::SQS::QueuePolicy": messages.queue_policy,
    "AWS::SSM::Parameter": stores.parameter,
    "AWS::Scheduler::Schedule": messages.schedule,
}
