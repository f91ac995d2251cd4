"""Networks of EC2.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html, and of every
call: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Operations.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_rehearsal.players.cloudformation.creation import Creation, Made
from gpu_rehearsal.players.cloudformation.shaping import Shaping


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
            "ec2",
            "ModifySubnetAttribute",
            SubnetId=found["SubnetId"],
            MapPublicIpOnLaunch={"Value": is_true(public)},
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
