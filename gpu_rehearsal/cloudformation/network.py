"""Networks of EC2, KMS keys, log groups, alarms, parameters, buckets, file systems, and the metadata of the CDK.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html, and of every
call: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Operations.html (2026-11)
Source of the other types: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_KMS.html,
AWS_FSx.html, AWS_CloudWatch.html, AWS_Logs.html, AWS_S3.html and AWS_SSM.html there (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_rehearsal.cloudformation.changes import Created, Creation
from gpu_rehearsal.cloudformation.intrinsics import Shaping
from gpu_rehearsal.cloudformation.template import region_partition

# A rule of CloudFormation has one source. The API has a list of sources, each with the description.
_SOURCES: Mapping[str, tuple[str, str]] = {
    "CidrIp": ("IpRanges", "CidrIp"),
    "CidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
    "DestinationPrefixListId": ("PrefixListIds", "PrefixListId"),
    "DestinationSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    "SourcePrefixListId": ("PrefixListIds", "PrefixListId"),
    "SourceSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
}
_PORTS = ("FromPort", "ToPort")
# The egress rule of a new group.
_EVERYTHING = {"IpProtocol": "-1", "CidrIp": "0.0.0.0/0"}


def vpc(creation: Creation) -> Created:
    """Create a VPC. Its DNS settings need separate calls."""
    dns_settings = {name: creation.take(name) for name in ("EnableDnsSupport", "EnableDnsHostnames")}
    found = creation.call("ec2", "CreateVpc", Shaping(tagged="vpc"))["Vpc"]
    vpc_id = creation.physical_id = found["VpcId"]
    for name, on in dns_settings.items():
        if on is not None:
            creation.send("ec2", "ModifyVpcAttribute", VpcId=vpc_id, **{name: {"Value": is_true(on)}})
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "group-name", "Values": ["default"]}]
    [default] = creation.send("ec2", "DescribeSecurityGroups", Filters=filters)["SecurityGroups"]
    return Created(
        ref=vpc_id,
        attributes={"VpcId": vpc_id, "CidrBlock": found["CidrBlock"], "DefaultSecurityGroup": default["GroupId"]},
    )


def subnet(creation: Creation) -> Created:
    """Create a subnet. Its setting of public addresses needs a separate call."""
    public = creation.take("MapPublicIpOnLaunch")
    found = creation.call("ec2", "CreateSubnet", Shaping(tagged="subnet"))["Subnet"]
    creation.physical_id = found["SubnetId"]
    if public is not None:
        creation.send(
            "ec2", "ModifySubnetAttribute", SubnetId=found["SubnetId"], MapPublicIpOnLaunch={"Value": is_true(public)}
        )
    names = ("AvailabilityZone", "AvailabilityZoneId", "CidrBlock", "SubnetId", "VpcId")
    return Created(ref=found["SubnetId"], attributes={name: found[name] for name in names if name in found})


def internet_gateway(creation: Creation) -> Created:
    """Create an internet gateway."""
    found = creation.call("ec2", "CreateInternetGateway", Shaping(tagged="internet-gateway"))["InternetGateway"]
    return Created(ref=found["InternetGatewayId"], attributes={"InternetGatewayId": found["InternetGatewayId"]})


def gateway_attachment(creation: Creation) -> Created:
    """Attach an internet gateway. VPN gateways aren't simulated."""
    vpc_id = creation.properties["VpcId"]
    creation.call("ec2", "AttachInternetGateway")
    return Created(ref=f"IGW|{vpc_id}")


def elastic_ip(creation: Creation) -> Created:
    """Allocate an address."""
    found = creation.call("ec2", "AllocateAddress", Shaping(tagged="elastic-ip"))
    return Created(
        ref=found["PublicIp"], attributes={"AllocationId": found["AllocationId"], "PublicIp": found["PublicIp"]}
    )


def nat_gateway(creation: Creation) -> Created:
    """Create a NAT gateway, and wait until it is available."""
    gateway = creation.call("ec2", "CreateNatGateway", Shaping(tagged="natgateway"))["NatGateway"]["NatGatewayId"]
    creation.physical_id = gateway

    def look() -> str:
        [found] = creation.send("ec2", "DescribeNatGateways", NatGatewayIds=[gateway])["NatGateways"]
        return str(found["State"])

    creation.wait(look, until="available", while_=frozenset({"pending"}))
    return Created(ref=gateway, attributes={"NatGatewayId": gateway})


def route_table(creation: Creation) -> Created:
    """Create a route table."""
    found = creation.call("ec2", "CreateRouteTable", Shaping(tagged="route-table"))["RouteTable"]
    return Created(ref=found["RouteTableId"], attributes={"RouteTableId": found["RouteTableId"]})


def route(creation: Creation) -> Created:
    """Create a route."""
    properties = creation.properties
    target = properties.get("DestinationCidrBlock") or properties.get("DestinationIpv6CidrBlock")
    ref = f"{properties['RouteTableId']}|{target}"
    creation.call("ec2", "CreateRoute")
    return Created(ref=ref)


def route_table_association(creation: Creation) -> Created:
    """Associate a route table with a subnet."""
    found = creation.call("ec2", "AssociateRouteTable")["AssociationId"]
    return Created(ref=found, attributes={"Id": found})


def vpc_endpoint(creation: Creation) -> Created:
    """Create a VPC endpoint, and wait until it is available."""
    shaping = Shaping(tagged="vpc-endpoint", documents=frozenset({"PolicyDocument"}))
    endpoint = creation.call("ec2", "CreateVpcEndpoint", shaping)["VpcEndpoint"]["VpcEndpointId"]
    creation.physical_id = endpoint

    def look() -> str:
        [found] = creation.send("ec2", "DescribeVpcEndpoints", VpcEndpointIds=[endpoint])["VpcEndpoints"]
        return str(found["State"]).lower()

    creation.wait(look, until="available", while_=frozenset({"pending"}))
    return Created(ref=endpoint, attributes={"Id": endpoint})


def flow_log(creation: Creation) -> Created:
    """Create a flow log of one resource.

    Raises:
        CreationFailed: The response of EC2 has an error.
    """
    resource = creation.take("ResourceId")
    answer = creation.call("ec2", "CreateFlowLogs", Shaping(tagged="vpc-flow-log"), ResourceIds=[resource])
    for failure in answer.get("Unsuccessful", ()):
        creation.fail(failure["Error"]["Message"])
    [found] = answer["FlowLogIds"]
    return Created(ref=found, attributes={"Id": found})


def retag(creation: Creation) -> Created:
    """Change the tags of an EC2 resource."""
    if "Tags" in creation.properties:
        new, removed = creation.tags()
        resource = creation.value("AllocationId") if creation.type == "AWS::EC2::EIP" else creation.physical_id
        if removed:
            creation.send("ec2", "DeleteTags", Resources=[resource], Tags=[{"Key": each} for each in removed])
        if new:
            creation.send("ec2", "CreateTags", Resources=[resource], Tags=new)
    return creation.old.physical


def update_vpc(creation: Creation) -> Created:
    """Change DNS settings and tags of a VPC."""
    # Source of the defaults: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html (2026-11)
    for name, default in (("EnableDnsSupport", True), ("EnableDnsHostnames", False)):
        if name in creation.properties:
            on = {"Value": is_true(creation.take(name, default))}
            creation.send("ec2", "ModifyVpcAttribute", VpcId=creation.physical_id, **{name: on})
    return retag(creation)


def update_subnet(creation: Creation) -> Created:
    """Change tags and the setting of public addresses of a subnet."""
    if "MapPublicIpOnLaunch" in creation.properties:
        on = {"Value": is_true(creation.take("MapPublicIpOnLaunch", False))}
        creation.send("ec2", "ModifySubnetAttribute", SubnetId=creation.physical_id, MapPublicIpOnLaunch=on)
    return retag(creation)


def update_route(creation: Creation) -> Created:
    """Change the target of a route."""
    creation.properties = dict(creation.declared)
    creation.call("ec2", "ReplaceRoute")
    return creation.old.physical


def is_true(value: object) -> bool:
    """Whether a boolean property is true. Templates may have it as text."""
    return value is True or value == "true"


def security_group(creation: Creation) -> Created:
    """Create a security group. Declared egress rules replace the default rule, which allows everything."""
    ingress, egress = creation.take("SecurityGroupIngress"), creation.take("SecurityGroupEgress")
    name, vpc_id = creation.named("GroupName", 255), creation.properties["VpcId"]
    shaping = Shaping(renamed={"GroupDescription": "Description"}, tagged="security-group")
    group = creation.call("ec2", "CreateSecurityGroup", shaping, GroupName=name)["GroupId"]
    creation.physical_id = group
    if egress:
        creation.send("ec2", "RevokeSecurityGroupEgress", GroupId=group, IpPermissions=[permission(_EVERYTHING)])
        _authorize(creation, "AuthorizeSecurityGroupEgress", group, egress)
    if ingress:
        _authorize(creation, "AuthorizeSecurityGroupIngress", group, ingress)
    return Created(ref=group, attributes={"GroupId": group, "Id": group, "VpcId": vpc_id})


def update_security_group(creation: Creation) -> Created:
    """Change rules and tags of a security group, new rules first."""
    for way in ("Ingress", "Egress"):
        if f"SecurityGroup{way}" not in creation.properties:
            continue
        new, removed = creation.items(f"SecurityGroup{way}")
        if way == "Egress":
            new += [] if creation.declared.get("SecurityGroupEgress") else [_EVERYTHING]
            removed += [] if creation.old.properties.get("SecurityGroupEgress") else [_EVERYTHING]
        for verb, rules in (("Authorize", new), ("Revoke", removed)):
            if rules:
                _authorize(creation, f"{verb}SecurityGroup{way}", creation.physical_id, rules)
    return retag(creation)


def security_group_ingress(creation: Creation) -> Created:
    """Create an ingress rule of a security group."""
    group = creation.take("GroupId")
    rule, creation.properties = creation.properties, {}
    answer = _authorize(creation, "AuthorizeSecurityGroupIngress", group, [rule])
    physical = answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]
    return Created(ref=physical, attributes={"Id": physical})


def _authorize(creation: Creation, operation: str, group: str, rules: list[Mapping[str, Any]]) -> dict[str, Any]:
    return creation.send("ec2", operation, GroupId=group, IpPermissions=[permission(rule) for rule in rules])


def permission(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in the API's format.

    Raises:
        ValueError: A property isn't simulated.
    """
    if others := sorted(set(rule) - {"Description", "IpProtocol", *_PORTS, *_SOURCES}):
        raise ValueError(f"rule of a security group: properties must be simulated, got {others}")
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    ports = {name: int(rule[name]) for name in _PORTS if name in rule}
    sources = {many: [{one: rule[name], **described}] for name, (many, one) in _SOURCES.items() if name in rule}
    return {"IpProtocol": str(rule["IpProtocol"]), **ports, **sources}


def key(creation: Creation) -> Created:
    """Create a key. Its rotation needs a separate call, and its pending window is a setting of the deletion."""
    rotates = creation.take("EnableKeyRotation", False)
    creation.take("PendingWindowInDays")
    shaping = Shaping(renamed={"KeyPolicy": "Policy"}, documents=frozenset({"KeyPolicy"}))
    found = creation.call("kms", "CreateKey", shaping)["KeyMetadata"]
    creation.physical_id = found["KeyId"]
    if is_true(rotates):
        creation.send("kms", "EnableKeyRotation", KeyId=found["KeyId"])
    return Created(ref=found["KeyId"], attributes={"Arn": found["Arn"], "KeyId": found["KeyId"]})


def update_key(creation: Creation) -> Created:
    """Change policy, description and rotation of a key."""
    key = creation.physical_id
    if (document := creation.take("KeyPolicy")) is not None:
        creation.send("kms", "PutKeyPolicy", KeyId=key, PolicyName="default", Policy=json.dumps(document))
    if "Description" in creation.properties:
        creation.send("kms", "UpdateKeyDescription", KeyId=key, Description=creation.take("Description", ""))
    if "EnableKeyRotation" in creation.properties:
        verb = "Enable" if is_true(creation.take("EnableKeyRotation", False)) else "Disable"
        creation.send("kms", f"{verb}KeyRotation", KeyId=key)
    creation.properties.pop("PendingWindowInDays", None)
    return creation.retag("kms", key)


def delete_key(creation: Creation) -> None:
    """Schedule the deletion of a key.

    Source: https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html (2026-11)
    """
    days = int(creation.old.properties.get("PendingWindowInDays", 30))
    creation.send("kms", "ScheduleKeyDeletion", KeyId=creation.physical_id, PendingWindowInDays=days)


def alias(creation: Creation) -> Created:
    """Create an alias of a key."""
    name = creation.properties["AliasName"]
    creation.call("kms", "CreateAlias")
    return Created(ref=name)


def update_alias(creation: Creation) -> Created:
    """Change the key of an alias."""
    name, key = creation.physical_id, creation.take("TargetKeyId")
    creation.send("kms", "UpdateAlias", AliasName=name, TargetKeyId=key)
    return creation.old.physical


def log_group(creation: Creation) -> Created:
    """Create a log group, then set its retention."""
    name, days = creation.named("LogGroupName", 512), creation.take("RetentionInDays")
    creation.call("logs", "CreateLogGroup", logGroupName=name)
    creation.physical_id = name
    if days is not None:
        creation.send("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return Created(ref=name, attributes={"Arn": creation.arn("logs", f"log-group:{name}:*")})


def update_log_group(creation: Creation) -> Created:
    """Change the retention of a log group."""
    if "RetentionInDays" in creation.properties:
        name, days = creation.physical_id, creation.properties.pop("RetentionInDays")
        if days is None:
            creation.send("logs", "DeleteRetentionPolicy", logGroupName=name)
        else:
            creation.send("logs", "PutRetentionPolicy", logGroupName=name, retentionInDays=int(days))
    return creation.retag("logs", creation.arn("logs", f"log-group:{creation.physical_id}"))


def parameter(creation: Creation) -> Created:
    """Create a parameter."""
    kind, value = creation.properties["Type"], creation.properties["Value"]
    name = creation.named("Name", 1011)
    creation.call("ssm", "PutParameter", Name=name)
    return Created(ref=name, attributes={"Type": kind, "Value": value})


def update_parameter(creation: Creation) -> Created:
    """Change value and tags of a parameter."""
    new, removed = creation.tags()
    which = {"ResourceType": "Parameter", "ResourceId": creation.physical_id}
    if new:
        creation.send("ssm", "AddTagsToResource", **which, Tags=new)
    if removed:
        creation.send("ssm", "RemoveTagsFromResource", **which, TagKeys=removed)
    kind, value = creation.declared["Type"], creation.declared["Value"]
    if creation.properties:
        creation.properties = {key: each for key, each in creation.declared.items() if key not in ("Name", "Tags")}
        creation.call("ssm", "PutParameter", Name=creation.physical_id, Overwrite=True)
    return Created(ref=creation.physical_id, attributes={"Type": kind, "Value": value})


def file_system(creation: Creation) -> Created:
    """Create an FSx file system. Its names for mounts are invented, because nothing is mounted here."""
    found = creation.call("fsx", "CreateFileSystem")["FileSystem"]
    physical = found["FileSystemId"]
    names = {"DNSName": f"{physical}.fsx.amazonaws.com", "LustreMountName": "played"}
    return Created(ref=physical, attributes=names | {"ResourceARN": found["ResourceARN"]})


def bucket(creation: Creation) -> Created:
    """Create a bucket. Its versioning needs a separate call."""
    name = creation.named("BucketName", 63, lower=True)
    versioning = creation.take("VersioningConfiguration")
    # us-east-1 is the default, and isn't a valid constraint.
    if creation.aws.region != "us-east-1":
        creation.properties["CreateBucketConfiguration"] = {"LocationConstraint": creation.aws.region}
    creation.call("s3", "CreateBucket", Bucket=name)
    creation.physical_id = name
    if versioning is not None:
        creation.send("s3", "PutBucketVersioning", Bucket=name, VersioningConfiguration=versioning)
    return Created(ref=name, attributes={"Arn": f"arn:{region_partition(creation.aws.region)}:s3:::{name}"})


def bucket_policy(creation: Creation) -> Created:
    """Set the policy of a bucket."""
    name, document = creation.take("Bucket"), json.dumps(creation.take("PolicyDocument"))
    creation.call("s3", "PutBucketPolicy", Bucket=name, Policy=document)
    return Created(ref=name)


def alarm(creation: Creation) -> Created:
    """Create a CloudWatch alarm."""
    name = creation.named("AlarmName", 255)
    creation.call("cloudwatch", "PutMetricAlarm", AlarmName=name)
    return Created(ref=name, attributes={"Arn": creation.arn("cloudwatch", f"alarm:{name}")})


def metadata(creation: Creation) -> Created:
    """Create nothing: the type is metadata for AWS."""
    creation.properties = {}
    return Created(ref=creation.name(64))
