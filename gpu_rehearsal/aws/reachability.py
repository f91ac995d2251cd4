"""Whether a node, pod or function reaches the API server of a cluster or an AWS API, given the created network.

A connection needs a rule of a security group out of its source, a rule into its target, and a route between them.
Worked example: a node in subnet A calls EC2.

1. The VPC has no endpoint for ``ec2``, so the target is in the internet: a group of the node must allow 443 outbound.
2. The route table of A (or the main one) must send 0.0.0.0/0 to a NAT gateway, or to an internet gateway if the node
   has a public address.
3. The route table of the NAT gateway's own subnet must send it to an internet gateway that is attached to the VPC.

Not checked: network ACLs, DNS options of the VPC, policies of endpoints, transit gateways, peering and firewalls; a
route to one of those counts as a way out.
Sources: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html,
https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html,
https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html,
https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html (2026-11)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any
from unittest.mock import patch

from moto.ec2.models import subnets, vpcs

from gpu_rehearsal.aws.region import Region
from gpu_rehearsal.credentials import Source

_HTTPS_PORT, _KUBELET_PORT = 443, 10250
# How long a found path is cached: programs call often, and networks change rarely.
_REMEMBERED_SECONDS = 10.0
_EVERYWHERE = "0.0.0.0/0"
# Services in the names of endpoints, if they differ from the client's name. ECR stores layers in S3.
# Source: https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html (2026-11)
_ENDPOINTS: Mapping[str, tuple[str, ...]] = {
    "cloudwatch": ("monitoring",),
    "ecr": ("ecr.api", "ecr.dkr", "s3"),
    "elbv2": ("elasticloadbalancing",),
    "pricing": ("pricing.api",),
}


class Reachability:
    """The network of a region."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._reached: dict[tuple[Source, str], float] = {}

    def api_server(self, source: Source, cluster: Mapping[str, Any]) -> str:
        """Return why a source doesn't reach the API server of a cluster; empty if it does.

        Args:
            source: The source.
            cluster: The cluster, as DescribeCluster returns it.
        """
        who, network = f"{source.name} doesn't reach the API server", cluster["resourcesVpcConfig"]
        if network["endpointPrivateAccess"] and self._vpc(source) == network["vpcId"]:
            why = self._between(source, self._control_plane(network), _HTTPS_PORT, "the control plane")
        elif not network["endpointPublicAccess"]:
            why = "the endpoint is private and it isn't in the VPC of the cluster"
        else:
            why, address = self._out(source)
            if not why and (address or not source.subnet):
                why = _not_allowed(address, network["publicAccessCidrs"])
        return why and f"{who}: {why}"

    def kubelet(self, node: Source, cluster: Mapping[str, Any]) -> str:
        """Return why the API server doesn't reach the kubelet of a node; empty if it does."""
        network = cluster["resourcesVpcConfig"]
        target = _Target(groups=node.groups, subnets=(node.subnet,))
        for subnet in network["subnetIds"]:
            source = Source(name="control plane", subnet=subnet, groups=self._control_plane(network).groups)
            if why := self._between(source, target, _KUBELET_PORT, node.name):
                return f"the API server doesn't reach the kubelet of {node.name}: {why}"
        return ""

    def service(self, source: Source, service: str) -> str:
        """Return why a source doesn't reach an AWS API; empty if it does."""
        if not source.subnet:
            return ""
        at = time.monotonic()
        if at - self._reached.get((source, service), float("-inf")) < _REMEMBERED_SECONDS:
            return ""
        for name in _ENDPOINTS.get(service, (service,)):
            if why := self._endpoint(source, name):
                return f"{source.name} doesn't reach {name}: {why}"
        self._reached[source, service] = at
        return ""

    def _endpoint(self, source: Source, service: str) -> str:
        """Return why neither an endpoint nor the internet reaches a service. Private DNS prefers the endpoint."""
        table = self._route_table(source.subnet)
        for each in self._endpoints(self._vpc(source), service):
            groups = tuple(group["GroupId"] for group in each["Groups"])
            if each["VpcEndpointType"] == "Gateway" and table["RouteTableId"] in each["RouteTableIds"]:
                return ""
            if each["VpcEndpointType"] == "Interface" and each["PrivateDnsEnabled"]:
                target = _Target(groups=groups, subnets=tuple(each["SubnetIds"]))
                return self._between(source, target, _HTTPS_PORT, f"endpoint {each['VpcEndpointId']}")
        why, _ = self._out(source)
        return why and f"{why}, and the VPC has no endpoint for it"

    def _endpoints(self, vpc: str, service: str) -> Iterator[dict[str, Any]]:
        name = f"com.amazonaws.{self._region.name}.{service}"
        found = self._ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["VpcEndpoints"]
        yield from (each for each in found if each["ServiceName"] == name)

    def _out(self, source: Source) -> tuple[str, str]:
        """Return why a source doesn't reach the internet, and its public address, which is empty if unknown."""
        if not source.subnet:
            return "", ""
        if not self._allows_https_out(source.groups):
            return (
                f"no security group of {', '.join(source.groups)} allows outbound port {_HTTPS_PORT} to the internet",
                "",
            )
        table = self._route_table(source.subnet)
        route = _default(table)
        where = f"route table {table['RouteTableId']} of subnet {source.subnet}"
        if route is None:
            return f"{where} has no route to the internet", ""
        if nat := route.get("NatGatewayId"):
            return self._through(nat, where)
        if str(route.get("GatewayId", "")).startswith("igw-"):
            if not source.address:
                return f"{where} leads to an internet gateway, and it has no public address", ""
            return self._detached(route["GatewayId"], self._vpc(source)), source.address
        return "", ""

    def _through(self, nat: str, where: str) -> tuple[str, str]:
        found = self._ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"]
        if not found or found[0]["State"] != "available":
            return f"{where} leads to the NAT gateway {nat}, which isn't there", ""
        table = self._route_table(found[0]["SubnetId"])
        gateway = str((_default(table) or {}).get("GatewayId", ""))
        if not gateway.startswith("igw-"):
            own = f"route table {table['RouteTableId']} of subnet {found[0]['SubnetId']}"
            return f"the NAT gateway {nat} has no way out: {own} has no route to an internet gateway", ""
        address = next((each["PublicIp"] for each in found[0]["NatGatewayAddresses"] if "PublicIp" in each), "")
        return self._detached(gateway, found[0]["VpcId"]), address

    def _detached(self, gateway: str, vpc: str) -> str:
        found = self._ec2.describe_internet_gateways(InternetGatewayIds=[gateway])["InternetGateways"]
        attached = any(each["VpcId"] == vpc for one in found for each in one["Attachments"])
        return "" if attached else f"the internet gateway {gateway} isn't attached to {vpc}"

    def _between(self, source: Source, target: _Target, port: int, name: str) -> str:
        """Return why security groups stop a connection within a VPC; empty if they don't."""
        own, others = _list(source.groups), _list(target.groups)
        into = [rule for group in self._groups(target.groups) for rule in group["IpPermissions"]]
        out = [rule for group in self._groups(source.groups) for rule in group["IpPermissionsEgress"]]
        if not _allows(out, port, target.groups, [self._cidr(each) for each in target.subnets]):
            return f"no security group of {own} allows outbound port {port} to {name} ({others})"
        if not _allows(into, port, source.groups, [self._cidr(source.subnet)]):
            return f"no security group of {name} ({others}) allows inbound port {port} from {own}"
        return ""

    def _allows_https_out(self, groups: Iterable[str]) -> bool:
        """Whether a rule allows outbound HTTPS to some addresses of the internet. The needed addresses are unknown."""
        rules = [rule for group in self._groups(groups) for rule in group["IpPermissionsEgress"]]
        open_to = [each for rule in rules if _matches_port(rule, _HTTPS_PORT) for each in rule["IpRanges"]]
        return any(each["CidrIp"] == _EVERYWHERE or not ip_network(each["CidrIp"]).is_private for each in open_to)

    def _control_plane(self, network: Mapping[str, Any]) -> _Target:
        groups = (network["clusterSecurityGroupId"], *network.get("securityGroupIds", ()))
        return _Target(groups=groups, subnets=tuple(network["subnetIds"]))

    def _groups(self, ids: Iterable[str]) -> list[dict[str, Any]]:
        wanted = list(ids)
        found = self._ec2.describe_security_groups(GroupIds=wanted)["SecurityGroups"] if wanted else []
        return list(found)

    def _route_table(self, subnet: str) -> dict[str, Any]:
        """Return the route table of a subnet: the associated one, or else the main table of its VPC."""
        vpc = self._subnet(subnet)["VpcId"]
        found = self._ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["RouteTables"]
        own = [each for each in found if any(one.get("SubnetId") == subnet for one in each["Associations"])]
        main = [each for each in found if any(one.get("Main") for one in each["Associations"])]
        return dict((own or main)[0])

    def _vpc(self, source: Source) -> str:
        return str(self._subnet(source.subnet)["VpcId"]) if source.subnet else ""

    def _cidr(self, subnet: str) -> str:
        return str(self._subnet(subnet)["CidrBlock"])

    def _subnet(self, id: str) -> dict[str, Any]:
        return dict(self._ec2.describe_subnets(SubnetIds=[id])["Subnets"][0])

    @property
    def _ec2(self) -> Any:
        return self._region.moto_client("ec2")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Target:
    groups: tuple[str, ...]
    subnets: tuple[str, ...]


def _default(table: Mapping[str, Any]) -> dict[str, Any] | None:
    return next((each for each in table["Routes"] if each.get("DestinationCidrBlock") == _EVERYWHERE), None)


def _matches_port(rule: Mapping[str, Any], port: int) -> bool:
    if rule["IpProtocol"] == "-1":
        return True
    return rule["IpProtocol"] in ("tcp", "6") and int(rule["FromPort"]) <= port <= int(rule["ToPort"])


def _allows(rules: Iterable[Mapping[str, Any]], port: int, groups: Iterable[str], blocks: list[str]) -> bool:
    """Whether a rule allows a port, for one of the groups or for a block that overlaps one of the blocks."""
    wanted = set(groups)
    for rule in (each for each in rules if _matches_port(each, port)):
        if wanted & {each["GroupId"] for each in rule["UserIdGroupPairs"]} or rule["PrefixListIds"]:
            return True
        ranges = [ip_network(each["CidrIp"], strict=False) for each in rule["IpRanges"]]
        if any(each.overlaps(ip_network(block)) for each in ranges for block in blocks):
            return True
    return False


def _not_allowed(address: str, allowed: list[str]) -> str:
    """Return why the public endpoint doesn't accept an address. An empty address is an unknown one of AWS."""
    networks = [ip_network(each) for each in allowed]
    if any(each.prefixlen == 0 or (address and ip_address(address) in each) for each in networks):
        return ""
    seen = f"address {address}" if address else "an address of AWS"
    return f"it comes from {seen}, and the public endpoint accepts {_list(allowed)} only"


def _list(values: Iterable[str]) -> str:
    return ", ".join(values) or "none"


_VPC_CIDR = ip_network("10.96.0.0/16")
_SUBNET_PREFIX = 20


def create_existing_network(region: Region, *, vpc: str, in_zones: Sequence[str]) -> None:
    """Create a VPC with private subnets in successive Availability Zones, and a NAT gateway for all of them.

    The API doesn't accept ids, so moto's function for ids is patched. Call this before any other thread uses moto.
    The routes of the real subnets are unknown: here, all subnets reach the internet.
    """
    ec2 = region.moto_client("ec2")
    zones = sorted(
        each["ZoneName"]
        for each in ec2.describe_availability_zones()["AvailabilityZones"]
        if each["ZoneType"] == "availability-zone"
    )
    with patch.object(vpcs, "random_vpc_id", return_value=vpc):
        ec2.create_vpc(CidrBlock=str(_VPC_CIDR))
    for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
    public, *blocks = _VPC_CIDR.subnets(new_prefix=_SUBNET_PREFIX)
    _create_internet_route(ec2, vpc, str(public), zones[0])
    for number, (subnet, block) in enumerate(zip(in_zones, blocks, strict=False)):
        with patch.object(subnets, "random_subnet_id", return_value=subnet):
            ec2.create_subnet(VpcId=vpc, CidrBlock=str(block), AvailabilityZone=zones[number % len(zones)])


def _create_internet_route(ec2: Any, vpc: str, block: str, zone: str) -> None:
    """Route subnets without their own route table through a NAT gateway."""
    everywhere = {"DestinationCidrBlock": "0.0.0.0/0"}
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(VpcId=vpc, InternetGatewayId=gateway)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=block, AvailabilityZone=zone)["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    ec2.create_route(RouteTableId=table, GatewayId=gateway, **everywhere)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]["NatGatewayId"]
    main_table = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    [main] = ec2.describe_route_tables(Filters=main_table)["RouteTables"]
    ec2.create_route(RouteTableId=main["RouteTableId"], NatGatewayId=nat, **everywhere)
