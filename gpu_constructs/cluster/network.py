"""The VPC of a cluster whose nodes have no public addresses."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from gpu_constructs.cluster.control_plane_subnets import offer_control_plane_subnets
from gpu_constructs.cluster.log_key import arn_of
from gpu_constructs.cluster.pod_subnets import PodSubnets
from gpu_constructs.cluster.pod_subnets import pod_block as pod_block_of
from gpu_constructs.cluster.private_endpoints import PrivateEndpoints
from gpu_constructs.cluster.zone_lookup import zones_without_lookup
from gpu_constructs.installing.own_stack import place_of
from gpu_constructs.installing.subnets import node_subnets
from gpu_facts.hardware.regions import refuse_misspelt_region
from gpu_facts.named_arguments import named_call
from gpu_facts.refusals import (
    address_block,
    has_token,
    refuse_unless_key,
    refuse_unless_one_of,
    refuse_unless_whole_number,
    refuse_unless_zone,
    words,
)

# Source: RFC 1918
PRIVATE = tuple(IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# Explicit, because EKS picks one of two and CloudFormation cannot read which.
SERVICE_CIDR = "172.20.0.0/16"
# Of a block's length: the subnets of nodes are an eighth of it each, because every pod takes an address.
_NODES, _PUBLIC = 3, 8
_SHORTEST, _LONGEST = 16, 19
_ZONES_WITHOUT_NAMES = 2


@named_call
def gpu_vpc(
    scope: Construct,
    id: str,
    *,
    block: str = "10.0.0.0/16",
    pod_block: str | None = None,
    availability_zones: Sequence[str] | None = None,
    nat_gateways: int = 1,
    ip_family: str = "ipv4",
    log_key: kms.IKey | None = None,
) -> ec2.IVpc:
    """Make a VPC with private subnets for nodes and public ones for load balancers.

    Images come from ECR through a gateway endpoint for S3, which costs nothing, and not through the NAT gateway,
    which costs by the gigabyte. Refused connections are logged for a month. In us-east-1, us-west-1 and ca-central-1
    the control plane of a cluster gets two small subnets of its own, in zones that EKS takes; the zones of nodes stay.
    With the built-in pools of Auto Mode, which start nodes where the control plane is, all subnets are in such zones,
    unless you name their zones.

    Args:
        block: Its address block, private, of a length of /16 to /19.
        pod_block: A second one for pods alone, where companies route few private addresses: ``100.64.0.0/16``. Each
            zone gets a subnet of it, and a `GpuCluster` in this VPC gives its pods addresses from there.
        availability_zones: Zone names, as many as the VPC is to have. GPU types are sold in few zones of a region, so
            name those that sell yours:
            ``aws ec2 describe-instance-type-offerings --location-type availability-zone``.
            Default: two, chosen at deployment; in an app whose ``cdk.context.json`` has the zones of the stack's
            account and region, the first two there.
        nat_gateways: NAT gateways; one a zone survives the loss of a zone. 0 makes isolated subnets and the
            `PrivateEndpoints` through which their nodes reach AWS, and no way to the internet.
        log_key: Key for the log of refused connections. Default: one of CloudWatch's own.
        ip_family: ``ipv6`` gives the subnets both kinds of addresses, for a cluster of that family.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would refuse the network.
    """
    who = f"{scope.node.path}/{id}"
    refuse_unless_whole_number(who, "nat_gateways", nat_gateways, least=0)
    refuse_unless_one_of(who, "ip_family", ip_family, ("ipv4", "ipv6"))
    refuse_unless_key(who, "log_key", log_key)
    refuse_misspelt_region(who, place_of(scope).region)
    network = _block(who, block)
    pods = pod_block_of(who, "pod_block", pod_block) if pod_block is not None else None
    zones = _zones(who, scope, availability_zones)
    if pods is not None and ip_family == "ipv6":
        raise ValueError(
            f"{who}: pod_block must be left out with ip_family 'ipv6', which has addresses enough, got {pod_block!r}"
        )
    if pods is not None and zones is None:
        raise ValueError(
            f"{who}: availability_zones must be given with pod_block, whose subnets nodes find by them, got None; name "
            "those of the region"
        )
    most = len(zones) if zones else _ZONES_WITHOUT_NAMES
    if nat_gateways > most:
        raise ValueError(f"{who}: nat_gateways must be at most {most}, one a zone, got {nat_gateways}")
    isolated = nat_gateways == 0
    with zones_without_lookup(scope, zones or _zones_at_deployment()):
        vpc = ec2.Vpc(
            scope,
            id,
            ip_addresses=ec2.IpAddresses.cidr(str(network)),
            availability_zones=list(zones) if zones else None,
            max_azs=None if zones else _ZONES_WITHOUT_NAMES,
            nat_gateways=nat_gateways,
            restrict_default_security_group=True,
            ip_protocol=ec2.IpProtocol.DUAL_STACK if ip_family == "ipv6" else None,
            subnet_configuration=_subnets(network, isolated=isolated),
            gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
            flow_logs={"Rejected": _rejected_traffic(scope, f"{id}FlowLogs", log_key)},
        )
    for subnet in vpc.isolated_subnets:
        # As the CDK tags private ones. Without it AWS Load Balancer Controller chooses among all subnets of the VPC,
        # those of the control plane too, whose few addresses EKS needs for upgrades.
        # Source: https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/deploy/subnet_discovery/
        cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")
    offer_control_plane_subnets(vpc, block=network, ipv6=ip_family == "ipv6", zones_chosen=zones is not None)
    if pods is not None:
        PodSubnets(vpc, block=pods, beside=node_subnets(cast("ec2.IVpc", vpc)))
    if isolated:
        let_in = [str(pods)] if pods is not None else []
        PrivateEndpoints(vpc, "Endpoints", vpc=cast("ec2.IVpc", vpc), s3_gateway=False, pod_blocks=let_in)
    return cast("ec2.IVpc", vpc)


def _zones(who: object, scope: Construct, given: object) -> tuple[str, ...] | None:
    if given is None:
        return None
    zones = words(who, "availability_zones", given)
    if len(zones) < _ZONES_WITHOUT_NAMES:
        raise ValueError(f"{who}: availability_zones must name at least two zones, which EKS asks for, got {zones!r}")
    for zone in zones:
        refuse_unless_zone(who, "availability_zones", zone)
    if len({zone[:-1] for zone in zones}) > 1:
        raise ValueError(f"{who}: availability_zones must lie in one region, got {zones!r}; EKS has a cluster in each")
    region = place_of(scope).region
    if not has_token(region) and not zones[0].startswith(region):
        raise ValueError(f"{who}: availability_zones must lie in {region!r}, the region of the stack, got {zones!r}")
    if len(set(zones)) < len(zones):
        raise ValueError(f"{who}: availability_zones must differ, got {zones!r}; leave one of each")
    return zones


def _zones_at_deployment() -> list[str]:
    return [cdk.Fn.select(number, cdk.Fn.get_azs()) for number in range(_ZONES_WITHOUT_NAMES)]


def _block(who: object, block: object) -> IPv4Network:
    if not isinstance(block, str):
        raise TypeError(f"{who}: block must be an address block such as '10.0.0.0/16', got {block!r}")
    found = address_block(who, "block", block, example="10.0.0.0/16")
    if not isinstance(found, IPv4Network) or not any(found.subnet_of(each) for each in PRIVATE):
        named = ", ".join(map(str, PRIVATE))
        raise ValueError(f"{who}: block must lie in one of {named}, got {block!r}")
    if not _SHORTEST <= found.prefixlen <= _LONGEST:
        raise ValueError(f"{who}: block must have a length of /{_SHORTEST} to /{_LONGEST}, got {block!r}")
    if found.overlaps(IPv4Network(SERVICE_CIDR)):
        raise ValueError(f"{who}: block must not overlap {SERVICE_CIDR}, of the cluster's services, got {block!r}")
    return found


def _subnets(block: IPv4Network, *, isolated: bool) -> list[ec2.SubnetConfiguration]:
    """Return the subnets of a zone.

    Isolated networks reserve the blocks of public subnets, so that the subnets of nodes keep theirs if the network gets
    its first NAT gateway, or loses the last one. Other blocks would overlap those of the old subnets.
    """
    public = ec2.SubnetConfiguration(
        name="Public",
        subnet_type=ec2.SubnetType.PUBLIC,
        cidr_mask=block.prefixlen + _PUBLIC,
        reserved=isolated,
        # Load balancers and NAT gateways bring addresses of their own.
        map_public_ip_on_launch=False,
    )
    kind = ec2.SubnetType.PRIVATE_ISOLATED if isolated else ec2.SubnetType.PRIVATE_WITH_EGRESS
    nodes = ec2.SubnetConfiguration(name="Private", subnet_type=kind, cidr_mask=block.prefixlen + _NODES)
    return [public, nodes]


def _rejected_traffic(scope: Construct, id: str, key: kms.IKey | None) -> ec2.FlowLogOptions:
    group = logs.LogGroup(
        scope, id, retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    )
    if arn := arn_of(key, scope):
        cast("logs.CfnLogGroup", group.node.default_child).kms_key_id = arn
    return ec2.FlowLogOptions(
        destination=ec2.FlowLogDestination.to_cloud_watch_logs(group), traffic_type=ec2.FlowLogTrafficType.REJECT
    )
