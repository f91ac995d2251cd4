"""The simulated resource types: for each, the calls that create, delete and update a resource. EKS's types are here.

An update fails if its type has no update here, or if no call of the update accepts a changed property.
Source of every EKS type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EKS.html, and of
every call: https://docs.aws.amazon.com/eks/latest/APIReference/API_Operations.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_rehearsal.cloudformation import instances, lambdas, network
from gpu_rehearsal.cloudformation.changes import SAME_NAMES, Created, Creation

CREATING = frozenset({"CREATING"})
_NO_LOGGING: dict[str, Any] = {"ClusterLogging": {}}


def cluster(creation: Creation) -> Created:
    """Create a cluster, and wait until it is active."""
    name = creation.named("Name", 100)
    logging = {"logging": _logging(declared)} if (declared := creation.take("Logging")) else {}
    creation.call("eks", "CreateCluster", SAME_NAMES, name=name, **logging)
    creation.physical_id = name

    def look() -> dict[str, Any]:
        found: dict[str, Any] = creation.send("eks", "DescribeCluster", name=name)["cluster"]
        return found

    creation.wait(lambda: str(look()["status"]), until="ACTIVE", while_=CREATING)
    found = look()
    return Created(
        ref=name,
        attributes={
            "Arn": found["arn"],
            "CertificateAuthorityData": found["certificateAuthority"]["data"],
            "ClusterSecurityGroupId": found["resourcesVpcConfig"].get("clusterSecurityGroupId", ""),
            "Endpoint": found["endpoint"],
            "OpenIdConnectIssuerUrl": found.get("identity", {}).get("oidc", {}).get("issuer", ""),
        },
    )


def node_group(creation: Creation) -> Created:
    """Create a managed node group, and wait until it is active."""
    cluster_name = creation.properties["ClusterName"]
    name = creation.named("NodegroupName", 63)
    found = creation.call("eks", "CreateNodegroup", nodegroupName=name)["nodegroup"]
    creation.physical_id = f"{cluster_name}/{name}"

    def look() -> str:
        answer = creation.send("eks", "DescribeNodegroup", clusterName=cluster_name, nodegroupName=name)["nodegroup"]
        if answer["status"] == "CREATE_FAILED":
            issues = "; ".join(f"{each['code']}: {each['message']}" for each in answer["health"]["issues"])
            creation.fail(f"Nodegroup {name} failed to stabilize: {issues}")
        return str(answer["status"])

    creation.wait(look, until="ACTIVE", while_=CREATING)
    return Created(
        ref=f"{cluster_name}/{name}",
        attributes={
            "Arn": found["nodegroupArn"],
            "ClusterName": cluster_name,
            "Id": f"{cluster_name}/{name}",
            "NodegroupName": name,
        },
    )


def _delete_node_group(creation: Creation) -> None:
    """Delete a managed node group. If its creation failed, it has no attributes."""
    cluster, _, name = creation.physical_id.rpartition("/")
    creation.send("eks", "DeleteNodegroup", clusterName=cluster, nodegroupName=name)


def addon(creation: Creation) -> Created:
    """Install an add-on, and wait until its workloads run."""
    cluster_name, name = creation.properties["ClusterName"], creation.properties["AddonName"]
    found = creation.call("eks", "CreateAddon")["addon"]
    creation.physical_id = f"{cluster_name}|{name}"

    def look() -> str:
        answer = creation.send("eks", "DescribeAddon", clusterName=cluster_name, addonName=name)
        return str(answer["addon"]["status"])

    # An add-on is degraded until its pods run, and may become active.
    creation.wait(look, until="ACTIVE", while_=CREATING | {"DEGRADED"})
    return Created(ref=f"{cluster_name}|{name}", attributes={"Arn": found["addonArn"]})


def _access_entry(creation: Creation) -> Created:
    """Create an access entry, then associate access policies."""
    policies = creation.take("AccessPolicies", [])
    who = {name: creation.properties[name] for name in ("ClusterName", "PrincipalArn")}
    found = creation.call("eks", "CreateAccessEntry")["accessEntry"]
    creation.physical_id = f"{who['PrincipalArn']}|{who['ClusterName']}"
    for policy in policies:
        creation.send("eks", "AssociateAccessPolicy", **creation.shaped("eks", "AssociateAccessPolicy", who | policy))
    return Created(ref=creation.physical_id, attributes={"AccessEntryArn": found["accessEntryArn"]})


def _pod_identity_association(creation: Creation) -> Created:
    """Create a Pod Identity association."""
    found = creation.call("eks", "CreatePodIdentityAssociation")["association"]
    return Created(
        ref=found["associationArn"],
        attributes={"AssociationArn": found["associationArn"], "AssociationId": found["associationId"]},
    )


def _logging(declared: dict[str, Any]) -> dict[str, Any]:
    """Return the API's logging setting. CloudFormation has an object for each type."""
    types = [each["Type"] for each in declared["ClusterLogging"].get("EnabledTypes", [])]
    return {"clusterLogging": [{"types": types, "enabled": True}] if types else []}


# Settings that need separate calls.
_SETTINGS = {"AccessConfig", "DeletionProtection", "ResourcesVpcConfig", "UpgradePolicy", "ZonalShiftConfig"}


def _update_cluster(creation: Creation) -> Created:
    """Change version, logging, access and network of a cluster, with one EKS call after another.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html (2026-11)
    """
    name = creation.physical_id
    if (version := creation.take("Version")) is not None:
        creation.send("eks", "UpdateClusterVersion", name=name, version=str(version))
    if "Logging" in creation.properties:
        creation.send("eks", "UpdateClusterConfig", name=name, logging=_logging(creation.take("Logging", _NO_LOGGING)))
    for key in sorted(_SETTINGS & creation.properties.keys()):
        parameters = creation.shaped("eks", "UpdateClusterConfig", {key: creation.take(key)})
        creation.send("eks", "UpdateClusterConfig", name=name, **parameters)
    return creation.retag("eks", creation.value("Arn"))


def _update_node_group(creation: Creation) -> Created:
    """Change a node group with one EKS call. CloudFormation rejects a change that needs several calls.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html,
    https://github.com/aws/aws-cdk/issues/16644, https://github.com/eksctl-io/eksctl/issues/2565 (message), read 2026-11
    """
    group = {"clusterName": creation.value("ClusterName"), "nodegroupName": creation.value("NodegroupName")}
    versions = {"Version", "ReleaseVersion"} & creation.properties.keys()
    launch = {"LaunchTemplate"} & creation.properties.keys()
    others = creation.properties.keys() - {"Version", "ReleaseVersion", "LaunchTemplate"}
    if len([each for each in (versions, launch, others) if each]) > 1 and (versions or launch):
        creation.fail("Version and ReleaseVersion updates cannot be combined with other updates")
    if versions or launch:
        taken = {name: creation.take(name) for name in sorted(versions | launch)}
        given = {name: each for name, each in taken.items() if each is not None}
        creation.send(
            "eks", "UpdateNodegroupVersion", **group, **creation.shaped("eks", "UpdateNodegroupVersion", given)
        )
    sizes = {key: creation.take(key) for key in ("ScalingConfig", "UpdateConfig", "NodeRepairConfig")}
    given = {name: each for name, each in sizes.items() if each is not None}
    labels, taints = _labels(creation), _taints(creation)
    if given or labels or taints:
        shaped = creation.shaped("eks", "UpdateNodegroupConfig", given)
        creation.send("eks", "UpdateNodegroupConfig", **group, **shaped, **labels, **taints)
    creation.take("ForceUpdateEnabled", False)
    return creation.retag("eks", creation.value("Arn"))


def _update_addon(creation: Creation) -> Created:
    """Change version, configuration and roles of an add-on."""
    physical = creation.retag("eks", creation.value("Arn"))
    if creation.properties:
        creation.properties = {key: each for key, each in creation.declared.items() if key != "Tags"}
        creation.call("eks", "UpdateAddon")
    return physical


def _update_access_entry(creation: Creation) -> Created:
    """Change groups, user name and access policies of an access entry."""
    who = {"clusterName": creation.value("ClusterName"), "principalArn": creation.value("PrincipalArn")}
    added, removed = creation.items("AccessPolicies")
    for policy in removed:
        creation.send("eks", "DisassociateAccessPolicy", **who, policyArn=policy["PolicyArn"])
    for policy in added:
        creation.send("eks", "AssociateAccessPolicy", **who, **creation.shaped("eks", "AssociateAccessPolicy", policy))
    if {"KubernetesGroups", "Username"} & creation.properties.keys():
        new = {"KubernetesGroups": creation.take("KubernetesGroups", creation.declared.get("KubernetesGroups", []))}
        if "Username" in creation.properties:
            new["Username"] = creation.take("Username")
        creation.send("eks", "UpdateAccessEntry", **who, **creation.shaped("eks", "UpdateAccessEntry", new))
    return creation.retag("eks", creation.value("AccessEntryArn"))


def _update_pod_identity_association(creation: Creation) -> Created:
    """Change the role of a Pod Identity association."""
    physical = creation.retag("eks", creation.value("AssociationArn"))
    if creation.properties:
        which = {"clusterName": creation.value("ClusterName"), "associationId": creation.value("AssociationId")}
        creation.call("eks", "UpdatePodIdentityAssociation", **which)
    return physical


def _labels(creation: Creation) -> dict[str, Any]:
    if "Labels" not in creation.properties:
        return {}
    new, old = creation.take("Labels", {}), creation.old.properties.get("Labels", {})
    return {"labels": {"addOrUpdateLabels": new, "removeLabels": sorted(old.keys() - new.keys())}}


def _taints(creation: Creation) -> dict[str, Any]:
    if "Taints" not in creation.properties:
        return {}
    added, removed = creation.items("Taints")
    shaped = creation.shaped(
        "eks", "UpdateNodegroupConfig", {"Taints": {"AddOrUpdateTaints": added, "RemoveTaints": removed}}
    )
    return dict(shaped)


Create = Callable[[Creation], Created]
Delete = Callable[[Creation], None]


@dataclass(frozen=True, slots=True)
class Type:
    """The simulation of a resource type.

    Attributes:
        create: Creates a resource.
        delete: Deletes a resource.
        update: Changes a resource in place; ``None`` if that isn't simulated.
    """

    create: Create
    delete: Delete
    update: Create | None = None


def find_type(kind: str) -> Type | None:
    """Return the entry of a resource type; ``None`` if it isn't simulated."""
    return CUSTOM if kind.startswith("Custom::") else TYPES.get(kind)


def _deletion_call(service: str, operation: str, *names: str, ref: str = "", refs: str = "", **given: Any) -> Delete:
    """Return a deletion with one call.

    Args:
        service: Name of the boto3 client.
        operation: Operation, e.g. ``DeleteVpc``.
        names: Parameters with the value of an attribute or property of the same name.
        ref: The parameter for its ``Ref``.
        refs: The parameter for a list with its ``Ref``.
        given: Other parameters.
    """

    def delete(creation: Creation) -> None:
        found = {name: creation.value(name) for name in names}
        found |= {ref: creation.physical_id} if ref else {}
        found |= {refs: [creation.physical_id]} if refs else {}
        creation.send(service, operation, **{key: each for key, each in found.items() if each is not None}, **given)

    return delete


def again(create: Create) -> Create:
    """Return an update with the calls of the creation, for APIs that overwrite."""

    def update(creation: Creation) -> Created:
        creation.properties = dict(creation.declared)
        return create(creation)

    return update


def _nothing(_: Creation) -> None:
    """Delete a resource that no call created."""


CUSTOM = Type(lambdas.create_custom, lambdas.delete_custom, lambdas.update_custom)
TYPES: Mapping[str, Type] = {
    "AWS::AutoScaling::AutoScalingGroup": Type(
        instances.auto_scaling_group,
        _deletion_call("autoscaling", "DeleteAutoScalingGroup", ref="AutoScalingGroupName", ForceDelete=True),
        instances.update_auto_scaling_group,
    ),
    "AWS::CDK::Metadata": Type(network.metadata, _nothing, again(network.metadata)),
    "AWS::CloudWatch::Alarm": Type(
        network.alarm, _deletion_call("cloudwatch", "DeleteAlarms", refs="AlarmNames"), again(network.alarm)
    ),
    "AWS::CloudFormation::CustomResource": CUSTOM,
    "AWS::EC2::EIP": Type(network.elastic_ip, _deletion_call("ec2", "ReleaseAddress", "AllocationId"), network.retag),
    "AWS::EC2::FlowLog": Type(
        network.flow_log, _deletion_call("ec2", "DeleteFlowLogs", refs="FlowLogIds"), network.retag
    ),
    "AWS::EC2::InternetGateway": Type(
        network.internet_gateway, _deletion_call("ec2", "DeleteInternetGateway", "InternetGatewayId"), network.retag
    ),
    "AWS::EC2::LaunchTemplate": Type(
        instances.launch_template,
        _deletion_call("ec2", "DeleteLaunchTemplate", "LaunchTemplateId"),
        instances.update_launch_template,
    ),
    "AWS::EC2::NatGateway": Type(
        network.nat_gateway, _deletion_call("ec2", "DeleteNatGateway", "NatGatewayId"), network.retag
    ),
    "AWS::EC2::PlacementGroup": Type(
        instances.placement_group, _deletion_call("ec2", "DeletePlacementGroup", "GroupName")
    ),
    "AWS::EC2::Route": Type(
        network.route,
        _deletion_call("ec2", "DeleteRoute", "RouteTableId", "DestinationCidrBlock", "DestinationIpv6CidrBlock"),
        network.update_route,
    ),
    "AWS::EC2::RouteTable": Type(
        network.route_table, _deletion_call("ec2", "DeleteRouteTable", "RouteTableId"), network.retag
    ),
    "AWS::EC2::SecurityGroup": Type(
        network.security_group, _deletion_call("ec2", "DeleteSecurityGroup", "GroupId"), network.update_security_group
    ),
    "AWS::EC2::SecurityGroupIngress": Type(
        network.security_group_ingress,
        _deletion_call("ec2", "RevokeSecurityGroupIngress", "GroupId", refs="SecurityGroupRuleIds"),
    ),
    "AWS::EC2::Subnet": Type(network.subnet, _deletion_call("ec2", "DeleteSubnet", "SubnetId"), network.update_subnet),
    "AWS::EC2::SubnetRouteTableAssociation": Type(
        network.route_table_association, _deletion_call("ec2", "DisassociateRouteTable", ref="AssociationId")
    ),
    "AWS::EC2::VPC": Type(network.vpc, _deletion_call("ec2", "DeleteVpc", "VpcId"), network.update_vpc),
    "AWS::EC2::VPCEndpoint": Type(
        network.vpc_endpoint, _deletion_call("ec2", "DeleteVpcEndpoints", refs="VpcEndpointIds"), network.retag
    ),
    "AWS::EC2::VPCGatewayAttachment": Type(
        network.gateway_attachment, _deletion_call("ec2", "DetachInternetGateway", "InternetGatewayId", "VpcId")
    ),
    "AWS::EKS::AccessEntry": Type(
        _access_entry,
        _deletion_call("eks", "DeleteAccessEntry", "clusterName", "principalArn"),
        _update_access_entry,
    ),
    "AWS::EKS::Addon": Type(addon, _deletion_call("eks", "DeleteAddon", "clusterName", "addonName"), _update_addon),
    "AWS::EKS::Cluster": Type(cluster, _deletion_call("eks", "DeleteCluster", ref="name"), _update_cluster),
    "AWS::EKS::Nodegroup": Type(node_group, _delete_node_group, _update_node_group),
    "AWS::EKS::PodIdentityAssociation": Type(
        _pod_identity_association,
        _deletion_call("eks", "DeletePodIdentityAssociation", "clusterName", "associationId"),
        _update_pod_identity_association,
    ),
    "AWS::Events::Rule": Type(instances.rule, instances.delete_rule, instances.update_rule),
    "AWS::FSx::FileSystem": Type(network.file_system, _deletion_call("fsx", "DeleteFileSystem", ref="FileSystemId")),
    "AWS::IAM::InstanceProfile": Type(instances.instance_profile, instances.delete_instance_profile),
    "AWS::IAM::ManagedPolicy": Type(
        instances.managed_policy, instances.delete_managed_policy, instances.update_managed_policy
    ),
    "AWS::IAM::Policy": Type(instances.policy, instances.delete_policy, instances.update_policy),
    "AWS::IAM::Role": Type(instances.role, instances.delete_role, instances.update_role),
    "AWS::IAM::RolePolicy": Type(
        instances.role_policy,
        _deletion_call("iam", "DeleteRolePolicy", "RoleName", "PolicyName"),
        again(instances.role_policy),
    ),
    "AWS::KMS::Alias": Type(network.alias, _deletion_call("kms", "DeleteAlias", "AliasName"), network.update_alias),
    "AWS::KMS::Key": Type(network.key, network.delete_key, network.update_key),
    "AWS::Lambda::Function": Type(lambdas.function, lambdas.delete_function, again(lambdas.function)),
    "AWS::Lambda::LayerVersion": Type(lambdas.layer_version, lambdas.delete_layer_version),
    "AWS::Lambda::Permission": Type(lambdas.permission, _nothing),
    "AWS::Logs::LogGroup": Type(
        network.log_group, _deletion_call("logs", "DeleteLogGroup", ref="logGroupName"), network.update_log_group
    ),
    "AWS::S3::Bucket": Type(network.bucket, _deletion_call("s3", "DeleteBucket", ref="Bucket")),
    "AWS::S3::BucketPolicy": Type(
        network.bucket_policy, _deletion_call("s3", "DeleteBucketPolicy", "Bucket"), again(network.bucket_policy)
    ),
    "AWS::SQS::Queue": Type(instances.queue, _deletion_call("sqs", "DeleteQueue", "QueueUrl"), instances.update_queue),
    "AWS::SQS::QueuePolicy": Type(instances.queue_policy, instances.delete_queue_policy, again(instances.queue_policy)),
    "AWS::SSM::Parameter": Type(
        network.parameter, _deletion_call("ssm", "DeleteParameter", ref="Name"), network.update_parameter
    ),
    "AWS::Scheduler::Schedule": Type(
        instances.schedule, _deletion_call("scheduler", "DeleteSchedule", ref="Name"), instances.update_schedule
    ),
}
