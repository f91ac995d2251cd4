"""Security groups, routes, gateways and endpoints decide whether a node or function reaches the API server and AWS."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_rehearsal.aws.reachability import create_existing_network
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.credentials import Source
from tests.rehearsal.aws.conftest import Role

EVERYWHERE = "0.0.0.0/0"
_NUMBERS = count()


class Network:
    """A VPC with a public subnet, and two private ones behind a NAT gateway.

    Attributes:
        private: The private subnets.
        table: Route table of the private ones.
        public: The public subnet.
        public_table: Its route table.
        vpc: Id of the VPC.
    """

    def __init__(self, aws: Aws) -> None:
        self.ec2 = ec2 = aws.client("ec2")
        self.vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
        self.public, *self.private = (self._subnet(each) for each in range(3))
        self.gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(VpcId=self.vpc, InternetGatewayId=self.gateway)
        self.public_table = self._table(self.public, GatewayId=self.gateway)
        address = ec2.allocate_address(Domain="vpc")
        self.address = address["PublicIp"]
        nat = ec2.create_nat_gateway(SubnetId=self.public, AllocationId=address["AllocationId"])["NatGateway"]
        self.table = self._table(*self.private, NatGatewayId=nat["NatGatewayId"])

    def _subnet(self, number: int) -> str:
        zone = f"us-east-1{'ab'[number % 2]}"
        made = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.1.{number}.0/24", AvailabilityZone=zone)
        return str(made["Subnet"]["SubnetId"])

    def _table(self, *subnets: str, **to: str) -> str:
        table = self.ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self.ec2.create_route(RouteTableId=table, DestinationCidrBlock=EVERYWHERE, **to)
        for each in subnets:
            self.ec2.associate_route_table(RouteTableId=table, SubnetId=each)
        return str(table)

    def group(self, *, out: bool = True) -> str:
        """Create a security group without inbound rules."""
        made = self.ec2.create_security_group(GroupName=f"g-{next(_NUMBERS)}", Description="one", VpcId=self.vpc)
        if not out:
            everything = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": EVERYWHERE}]}]
            self.ec2.revoke_security_group_egress(GroupId=made["GroupId"], IpPermissions=everything)
        return str(made["GroupId"])

    def cut(self, table: str) -> None:
        """Take the way out of a route table."""
        self.ec2.delete_route(RouteTableId=table, DestinationCidrBlock=EVERYWHERE)

    def endpoint(self, service: str, *groups: str, kind: str = "Interface") -> None:
        """Make an endpoint."""
        where = (
            {"SubnetIds": self.private, "SecurityGroupIds": list(groups), "PrivateDnsEnabled": True}
            if kind == "Interface"
            else {"RouteTableIds": [self.table]}
        )
        self.ec2.create_vpc_endpoint(
            VpcId=self.vpc, ServiceName=f"com.amazonaws.us-east-1.{service}", VpcEndpointType=kind, **where
        )

    def allow_inbound(self, group: str, source: str, port: int) -> None:
        """Allow inbound traffic from a security group."""
        self.ec2.authorize_security_group_ingress(
            GroupId=group,
            IpPermissions=[
                {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "UserIdGroupPairs": [{"GroupId": source}]}
            ],
        )


@pytest.fixture
def network(aws: Aws) -> Network:
    return Network(aws)


class Served:
    """A cluster in a network, with a node.

    Attributes:
        name: Name of the cluster.
        group: Its security group.
        node: A node with that group.
    """

    def __init__(self, aws: Aws, network: Network, role: Role, **endpoint: Any) -> None:
        self._aws, self.name = aws, f"net-{next(_NUMBERS)}"
        descriptions = aws.client("eks").create_cluster(
            name=self.name,
            version="1.36",
            roleArn=role("Cluster", trusts="eks.amazonaws.com"),
            resourcesVpcConfig={"subnetIds": network.private, "endpointPrivateAccess": True} | endpoint,
        )["cluster"]
        aws.serve_cluster(self.name, endpoint="https://127.0.0.1:6443", certificate_authority=b"the authority")
        self.group = str(descriptions["resourcesVpcConfig"]["clusterSecurityGroupId"])
        self.node = Source(name="i-1", subnet=network.private[0], groups=(self.group,))

    def why(self, *services: str, **changes: Any) -> str:
        """Return why the node, with changes, doesn't reach the cluster or services."""
        return self._aws.unreachable(replace(self.node, **changes), self.name, *services)


@pytest.fixture
def served(aws: Aws, network: Network, role: Role) -> Served:
    return Served(aws, network, role)


def test_a_node_with_the_group_of_the_cluster_reaches_everything(served: Served) -> None:
    assert served.why("ec2", "ecr", "sts") == ""


def test_a_node_with_another_group_does_not_reach_the_control_plane(served: Served, network: Network) -> None:
    other = network.group()

    why = served.why(groups=(other,))

    assert why.startswith("i-1 doesn't reach the API server: no security group of the control plane")
    assert f"allows inbound port 443 from {other}" in why
    network.allow_inbound(served.group, other, 443)
    assert served.why(groups=(other,)) == ""


def test_a_group_must_let_out_too(served: Served, network: Network) -> None:
    other = network.group(out=False)
    network.allow_inbound(served.group, other, 443)

    assert f"no security group of {other} allows outbound port 443 to the control plane" in served.why(groups=(other,))


def test_without_a_route_to_the_internet_no_api_is_reached(served: Served, network: Network) -> None:
    network.cut(network.table)

    where = f"route table {network.table} of subnet {network.private[0]} has no route to the internet"
    assert served.why("ec2") == f"i-1 doesn't reach ec2: {where}, and the VPC has no endpoint for it"
    assert served.why() == ""


def test_the_nat_gateway_needs_a_way_out_itself(served: Served, network: Network) -> None:
    network.cut(network.public_table)

    assert "has no way out" in served.why("ec2")


def test_an_internet_gateway_serves_public_addresses_only(served: Served, network: Network) -> None:
    assert "leads to an internet gateway, and it has no public address" in served.why("ec2", subnet=network.public)
    assert served.why("ec2", subnet=network.public, address="198.51.100.7") == ""


def test_a_gateway_that_is_not_attached_leads_nowhere(served: Served, network: Network) -> None:
    network.ec2.detach_internet_gateway(InternetGatewayId=network.gateway, VpcId=network.vpc)

    assert f"the internet gateway {network.gateway} isn't attached to {network.vpc}" in served.why("ec2")


def test_endpoints_stand_for_the_internet(served: Served, network: Network) -> None:
    network.cut(network.table)
    for each in ("ec2", "ecr.api", "ecr.dkr"):
        network.endpoint(each, served.group)

    assert served.why("ec2") == ""
    assert "i-1 doesn't reach s3: " in served.why("ecr")
    network.endpoint("s3", kind="Gateway")
    assert served.why("ecr") == ""


def test_the_group_of_an_endpoint_must_allow_inbound_traffic(served: Served, network: Network) -> None:
    closed = network.group()
    network.endpoint("ec2", closed)

    assert f"({closed}) allows inbound port 443 from {served.group}" in served.why("ec2")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_public_endpoint_sees_the_address_of_the_nat_gateway(
    aws: Aws, network: Network, role: Role, allowed: bool
) -> None:
    block = f"{network.address}/32" if allowed else "203.0.113.0/24"
    served = Served(aws, network, role, endpointPrivateAccess=False, publicAccessCidrs=[block])

    expected = (
        "" if allowed else f"it comes from address {network.address}, and the public endpoint accepts {block} only"
    )
    assert served.why().endswith(expected)
    assert bool(served.why()) is not allowed


def test_a_function_outside_of_the_vpc_needs_an_open_public_endpoint(aws: Aws, network: Network, role: Role) -> None:
    function = Source(name="function kubectl")

    assert aws.unreachable(function, Served(aws, network, role).name) == ""
    private = Served(aws, network, role, endpointPublicAccess=False)
    assert "the endpoint is private and it isn't in the VPC" in aws.unreachable(function, private.name)
    office = Served(aws, network, role, publicAccessCidrs=["203.0.113.0/24"])
    assert "it comes from an address of AWS" in aws.unreachable(function, office.name)


def test_the_api_server_reaches_kubelets(aws: Aws, served: Served, network: Network) -> None:
    assert aws.unreachable_kubelet(served.node, served.name) == ""

    other = network.group()
    why = aws.unreachable_kubelet(replace(served.node, groups=(other,)), served.name)

    assert why.startswith("the API server doesn't reach the kubelet of i-1: ")
    assert "allows inbound port 10250" in why
    network.allow_inbound(other, served.group, 10250)
    assert aws.unreachable_kubelet(replace(served.node, groups=(other,)), served.name) == ""


def test_calls_from_a_place_without_a_way_fail(aws: Aws, network: Network, role: Role) -> None:
    may = {"Effect": "Allow", "Action": "ec2:DescribeInstances", "Resource": "*"}
    lambda_role = role("Function", may, trusts="lambda.amazonaws.com")
    source = Source(name="function f", subnet=network.private[0], groups=(network.group(),))
    own = aws.assume(lambda_role, service="lambda.amazonaws.com", source=source)
    aws.client("ec2", credentials=own).describe_instances()

    closed = replace(source, groups=(network.group(out=False),))
    other = aws.assume(lambda_role, service="lambda.amazonaws.com", source=closed)
    with pytest.raises(ClientError, match=r"function f doesn't reach ec2: .* allows outbound port 443"):
        aws.client("ec2", credentials=other).describe_instances()
    assert (aws.calls[-1].allowed, aws.calls[-1].error) == (False, "ConnectTimeout")


def test_an_existing_network_has_a_way_out(aws: Aws) -> None:
    vpc, subnet = "vpc-0123456789abcdef0", "subnet-0123456789abcdef0"
    create_existing_network(aws._region, vpc=vpc, in_zones=[subnet])
    group = aws.client("ec2").create_security_group(GroupName="own", Description="own", VpcId=vpc)["GroupId"]

    assert aws._reachability.service(Source(name="i-1", subnet=subnet, groups=(group,)), "ec2") == ""
