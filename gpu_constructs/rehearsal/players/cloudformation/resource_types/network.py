"""Networks of EC2.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_EC2.html, and of every
call: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_Operations.html (2026-11)
"""

from __future__ import annotations

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping


def vpc(creation: Creation) -> Made:
    """Make a VPC; names in DNS are switched by calls of their own."""
    switches = {name: creation.take(name) for name in ("EnableDnsSupport", "EnableDnsHostnames")}
    found = creation.call("ec2", "CreateVpc", Shaping(tagged="vpc"))["Vpc"]
    vpc_id = found["VpcId"]
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
    creation.initiated(gateway)

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


def is_true(value: object) -> bool:
    """Whether a boolean property is on, which templates also write as a text."""
    return value is True or value == "true"
