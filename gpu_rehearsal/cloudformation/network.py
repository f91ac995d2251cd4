"""Networks of EC2.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html, and of every
call: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Operations.html (2026-11)

Keys, logs, alarms, parameters, buckets, file systems, and what the CDK notes of itself.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_KMS.html, AWS_FSx.html,
AWS_CloudWatch.html, AWS_Logs.html, AWS_S3.html and AWS_SSM.html there (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_rehearsal.cloudformation.changes import Creation, Made
from gpu_rehearsal.cloudformation.intrinsics import Shaping
from gpu_rehearsal.cloudformation.template import region_partition

# Where a rule of CloudFormation names one source, the API has a list of them, each with the description.
_SOURCES: Mapping[str, tuple[str, str]] = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}
_PORTS = ("FromPort", "ToPort")
# The rule for egress of a new group.
_EVERYTHING = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def vpc(creation: Creation) -> Made:
    """Make a VPC; names in DNS are switched by calls of their own."""
    switches = {name: creation.take(name) for name in ("EnableDnsSupport", "EnableDnsHostnames")}
    found = creation.call("ec2", "CreateVpc", Shaping(tagged="vpc"))["Vpc"]
    vpc_id = creation.physical_id = found["VpcId"]
    for name, on in switches.items():
        if on is not None:
            creation.ask("ec2", "ModifyVpcAttribute", VpcId=vpc_id, **{name: {"Value": is_true(on)}})
    of_it = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "group-name", "Values": ["default"]}]
    [default] = creation.ask("ec2", "DescribeSecurityGroups", Filters=of_it)["SecurityGroups"]
    return Made(
        ref=vpc_id,
        attributes={"VpcId": vpc_id, "CidrBlock": found["CidrBlock"], "DefaultSecurityGroup": default["GroupId"]},
    )


def subnet(creation: Creation) -> Made:
    """Make a subnet; public addresses are switched by a call of their own."""
    public = creation.take("MapPublicIpOnLaunch")
    found = creation.call("ec2", "CreateSubnet", Shaping(tagged="subnet"))["Subnet"]
    creation.physical_id = found["SubnetId"]
    if public is not None:
        creation.ask(
            "ec2", "ModifySubnetAttribute", SubnetId=found["SubnetId"], MapPublicIpOnLaunch={"Value": is_true(public)}
        )
    names = ("AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "SubnetId", "VpcId")
    return Made(ref=found["SubnetId"], attributes={name: found[name] for name in names if name in found})


def internet_gateway(creation: Creation) -> Made:
    """Make an internet gateway."""
    found = creation.call("ec2", "CreateInternetGateway", Shaping(tagged="internet-gateway"))["InternetGateway"]
    return Made(ref=found["InternetGatewayId"], attributes={"InternetGatewayId": found["InternetGatewayId"]})


def gateway_attachment(creation: Creation) -> Made:
    """Attach an internet gateway; one of a VPN is not played."""
    vpc_id = creation.properties["VpcId"]
    creation.call("ec2", "AttachInternetGateway")
    return Made(ref=f"IGW|{vpc_id}")


def elastic_ip(creation: Creation) -> Made:
    """Allocate an address."""
    found = creation.call("ec2", "AllocateAddress", Shaping(tagged="elastic-ip"))
    return Made(
        ref=found["PublicIp"], attributes={"AllocationId": found["AllocationId"], "PublicIp": found["PublicIp"]}
    )


def nat_gateway(creation: Creation) -> Made:
    """Make a NAT gateway, and wait until it forwards."""
    gateway = creation.call("ec2", "CreateNatGateway", Shaping(tagged="natgateway"))["NatGateway"]["NatGatewayId"]
    creation.physical_id = gateway

    def look() -> str:
        [found] = creation.ask("ec2", "DescribeNatGateways", NatGatewayIds=[gateway])["NatGateways"]
        return str(found["State"])

    creation.wait(look, until="available", while_=frozenset({"pending"}))
    return Made(ref=gateway, attributes={"NatGatewayId": gateway})


def route_table(creation: Creation) -> Made:
    """Make a route table."""
    found = creation.call("ec2", "CreateRouteTable", Shaping(tagged="route-table"))["RouteTable"]
    return Made(ref=found["RouteTableId"], attributes={"RouteTableId": found["RouteTableId"]})


def route(creation: Creation) -> Made:
    """Make a route."""
    said = creation.properties
    target = said.get("DestinationCidrBlock") or said.get("DestinationIpv6CidrBlock")
    ref = f"{said['RouteTableId']}|{target}"
    creation.call("ec2", "CreateRoute")
    return Made(ref=ref)


def route_table_association(creation: Creation) -> Made:
    """Give a subnet its route table."""
    found = creation.call("ec2", "AssociateRouteTable")["AssociationId"]
    return Made(ref=found, attributes={"Id": found})


def vpc_endpoint(creation: Creation) -> Made:
    """Make an endpoint of a VPC, and wait until it is there."""
    shaping = Shaping(tagged="vpc-endpoint", documents=frozenset({"PolicyDocument"}))
    endpoint = creation.call("ec2", "CreateVpcEndpoint", shaping)["VpcEndpoint"]["VpcEndpointId"]
    creation.physical_id = endpoint

    def look() -> str:
        [found] = creation.ask("ec2", "DescribeVpcEndpoints", VpcEndpointIds=[endpoint])["VpcEndpoints"]
        return str(found["State"]).lower()

    creation.wait(look, until="available", while_=frozenset({"pending"}))
    return Made(ref=endpoint, attributes={"Id": endpoint})


def flow_log(creation: Creation) -> Made:
    """Make a flow log of one resource.

    Raises:
        CreationFailed: EC2 refused it in its answer.
    """
    resource = creation.take("ResourceId")
    answer = creation.call("ec2", "CreateFlowLogs", Shaping(tagged="vpc-flow-log"), ResourceIds=[resource])
    for refused in answer.get("Unsuccessful", ()):
        creation.fail(refused["Error"]["Message"])
    [found] = answer["FlowLogIds"]
    return Made(ref=found, attributes={"Id": found})


def retag(creation: Creation) -> Made:
    """Change the tags of a resource of EC2."""
    if "Tags" in creation.properties:
        new, gone = creation.tags()
        resource = creation.value("AllocationId") if creation.type == "AWS::EC2::EIP" else creation.physical_id
        if gone:
            creation.ask("ec2", "DeleteTags", Resources=[resource], Tags=[{"Key": each} for each in gone])
        if new:
            creation.ask("ec2", "CreateTags", Resources=[resource], Tags=new)
    return creation.old.made


def update_vpc(creation: Creation) -> Made:
    """Change DNS and the tags of a VPC."""
    # Source of the defaults: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html (2026-11)
    for name, default in (("EnableDnsSupport", True), ("EnableDnsHostnames", False)):
        if name in creation.properties:
            on = {"Value": is_true(creation.take(name, default))}
            creation.ask("ec2", "ModifyVpcAttribute", VpcId=creation.physical_id, **{name: on})
    return retag(creation)


def update_subnet(creation: Creation) -> Made:
    """Change public addresses and the tags of a subnet."""
    if "MapPublicIpOnLaunch" in creation.properties:
        on = {"Value": is_true(creation.take("MapPublicIpOnLaunch", False))}
        creation.ask("ec2", "ModifySubnetAttribute", SubnetId=creation.physical_id, MapPublicIpOnLaunch=on)
    return retag(creation)


def update_route(creation: Creation) -> Made:
    """Give a route another target."""
    creation.properties = dict(creation.declared)
    creation.call("ec2", "ReplaceRoute")
    return creation.old.made


def is_true(value: object) -> bool:
    """Whether a boolean property is on, which templates also write as a text."""
    return value is True or value == "true"


def security_group(creation: Creation) -> Made:
    """Make a security group; rules for egress that are said replace the one that lets everything out."""
    ingress, egress = creation.take("SecurityGroupIngress"), creation.take("SecurityGroupEgress")
    name, vpc_id = creation.named("GroupName", 255), creation.properties["VpcId"]
    shaping = Shaping(renamed={"GroupDescription": "Description"}, tagged="security-group")
    group = creation.call("ec2", "CreateSecurityGroup", shaping, GroupName=name)["GroupId"]
    creation.physical_id = group
    if egress:
        creation.ask("ec2", "RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[permission(_EVERYTHING)])
        _authorize(creation, "AuthorizeSecurityGroupEgress", group, egress)
    if ingress:
        _authorize(creation, "AuthorizeSecurityGroupIngress", group, ingress)
    return Made(ref=group, attributes={"GroupId": group, "Id": group, "VpcId": vpc_id})


def update_security_group(creation: Creation) -> Made:
    """Change the rules and tags of a security group: new rules first."""
    for way in ("Ingress", "Egress"):
        if f"SecurityGroup{way}" not in creation.properties:
            continue
        new, gone = creation.items(f"SecurityGroup{way}")
        if way == "Egress":
            new += [] if creation.declared.get("SecurityGroupEgress") else [_EVERYTHING]
            gone += [] if creation.old.properties.get("SecurityGroupEgress") else [_EVERYTHING]
        for verb, rules in (("Authorize", new), ("Revoke", gone)):
            if rules:
                _authorize(creation, f"{verb}SecurityGroup{way}", creation.physical_id, rules)
    return retag(creation)


def security_group_ingress(creation: Creation) -> Made:
    """Let somebody into a security group."""
    group = creation.take("GroupId")
    rule, creation.properties = creation.properties, {}
    answer = _authorize(creation, "AuthorizeSecurityGroupIngress", group, [rule])
    made = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
    return Made(ref=made, attributes={"Id": made})


def _authorize(creation: Creation, operation: str, group: str, rules: list[Mapping[str, Any]]) -> dict[str, Any]:
    return creation.ask("ec2", operation, GroupId=group, IpPermissions=[permission(rule) for rule in rules])


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in the API's form.

    Raises:
        ValueError: It has a property that is not played.
    """
    if others := sorted(set(rule) - {"Description", "IpProtocol", *_PORTS, *_SOURCES}):
        raise ValueError(f"rule of a security group: properties must be among those played, got {others}")
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    ports = {name: int(rule[name]) for name in _PORTS if name in rule}
    sources = {many: [{one: rule[name], **described}] for name, (many, one) in _SOURCES.items() if name in rule}
    return {"IpProtocol": str(rule["IpProtocol"]), **ports, **sources}


def key(creation: Creation) -> Made:
    """Make a key; its rotation is switched by a call of its own, and a waiting time is of its deletion."""
    rotates = creation.take("EnableKeyRotation", False)
    creation.take("PendingWindowInDays")
    shaping = Shaping(renamed={"KeyPolicy": "Policy"}, documents=frozenset({"KeyPolicy"}))
    found = creation.call("kms", "CreateKey", shaping)["KeyMetadata"]
    creation.physical_id = found["KeyId"]
    if is_true(rotates):
        creation.ask("kms", "EnableKeyRotation", KeyId=found["KeyId"])
    return Made(ref=found["KeyId"], attributes={"Arn": found["Arn"], "KeyId": found["KeyId"]})


def update_key(creation: Creation) -> Made:
    """Change the policy, the description and the rotation of a key."""
    key = creation.physical_id
    if (document := creation.take("KeyPolicy")) is not None:
        creation.ask("kms", "PutKeyPolicy", KeyId=key, PolicyName="default", Policy=json.dumps(document))
    if "Description" in creation.properties:
        creation.ask("kms", "UpdateKeyDescription", KeyId=key, Description=creation.take("Description", ""))
    if "EnableKeyRotation" in creation.properties:
        verb = "Enable" if is_true(creation.take("EnableKeyRotation", False)) else "Disable"
        creation.ask("kms", f"{verb}KeyRotation", KeyId=key)
    creation.properties.pop("PendingWindowInDays", None)
    return creation.retag("kms", key)


def delete_key(creation: Creation) -> None:
    """Schedule the deletion of a key.

    Source: https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html (2026-11)
    """
    days = int(creation.old.properties.get("PendingWindowInDays", 30))
    creation.ask("kms", "ScheduleKeyDeletion", KeyId=creation.physical_id, PendingWindowInDays=days)


def alias(creation: Creation) -> Made:
    """Give a key another name."""
    name = creation.properties["AliasName"]
    creation.call("kms", "CreateAlias")
    return Made(ref=name)


def update_alias(creation: Creation) -> Made:
    """Give the name to another key."""
    name, key = creation.physical_id, creation.take("TargetKeyId")
    creation.ask("kms", "UpdateAlias", AliasName=name, TargetKeyId=key)
    return creation.old.made


def log_group(creation: Creation) -> Made:
    """Make a log group, then say how long it keeps."""
    name, days = creation.named("LogGroupName", 512), creation.take("RetentionInDays")
    creation.call("logs", "CreateLogGroup", logGroupName=name)
    creation.physical_id = name
    if days is not None:
        creation.ask("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return Made(ref=name, attributes={"Arn": creation.arn("logs", f"log-group:{name}:*")})


def update_log_group(creation: Creation) -> Made:
    """Change how long a log group keeps events."""
    if "RetentionInDays" in creation.properties:
        name, days = creation.physical_id, creation.properties.pop("RetentionInDays")
        if days is None:
            creation.ask("logs", "DeleteRetentionPolicy", logGroupName=name)
        else:
            creation.ask("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return creation.retag("logs", creation.arn("logs", f"log-group:{creation.physical_id}"))


def parameter(creation: Creation) -> Made:
    """Store a parameter."""
    kind, value = creation.properties["Type"], creation.properties["Value"]
    name = creation.named("Name", 1011)
    creation.call("ssm", "PutParameter", Name=name)
    return Made(ref=name, attributes={"Type": kind, "Value": value})


def update_parameter(creation: Creation) -> Made:
    """Store another value."""
    new, gone = creation.tags()
    which = {"ResourceType": "Parameter", "ResourceId": creation.physical_id}
    if new:
        creation.ask("ssm", "AddTagsToResource", **which, Tags=new)
    if gone:
        creation.ask("ssm", "RemoveTagsFromResource", **which, TagKeys=gone)
    kind, value = creation.declared["Type"], creation.declared["Value"]
    if creation.properties:
        creation.properties = {key: each for key, each in creation.declared.items() if key not in ("Name", "Tags")}
        creation.call("ssm", "PutParameter", Name=creation.physical_id, Overwrite=True)
    return Made(ref=creation.physical_id, attributes={"Type": kind, "Value": value})


def file_system(creation: Creation) -> Made:
    """Make a file system of FSx; the names by which it is mounted are made up, for nothing is mounted here."""
    found = creation.call("fsx", "CreateFileSystem")["FileSystem"]
    made = found["FileSystemId"]
    names = {"DNSName": f"{made}.fsx.amazonaws.com", "LustreMountName": "played"}
    return Made(ref=made, attributes=names | {"ResourceARN": found["ResourceARN"]})


def bucket(creation: Creation) -> Made:
    """Make a bucket; what it is like is said by calls of its own."""
    name = creation.named("BucketName", 63, lower=True)
    versioning = creation.take("VersioningConfiguration")
    # The only region that is not said.
    if creation.aws.region != "us-east-1":
        creation.properties["CreateBucketConfiguration"] = {"LocationConstraint": creation.aws.region}
    creation.call("s3", "CreateBucket", Bucket=name)
    creation.physical_id = name
    if versioning is not None:
        creation.ask("s3", "PutBucketVersioning", Bucket=name, VersioningConfiguration=versioning)
    return Made(ref=name, attributes={"Arn": f"arn:{region_partition(creation.aws.region)}:s3:::{name}"})


def bucket_policy(creation: Creation) -> Made:
    """Write the policy of a bucket."""
    name, document = creation.take("Bucket"), json.dumps(creation.take("PolicyDocument"))
    creation.call("s3", "PutBucketPolicy", Bucket=name, Policy=document)
    return Made(ref=name)


def alarm(creation: Creation) -> Made:
    """Make an alarm of CloudWatch."""
    name = creation.named("AlarmName", 255)
    creation.call("cloudwatch", "PutMetricAlarm", AlarmName=name)
    return Made(ref=name, attributes={"Arn": creation.arn("cloudwatch", f"alarm:{name}")})


def metadata(creation: Creation) -> Made:
    """Make nothing: the type is a note for AWS."""
    creation.properties = {}
    return Made(ref=creation.name(64))
