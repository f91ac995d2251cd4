"""The VPC of a cluster: subnets of nodes and control plane, zones, and access to the API endpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Network
from typing import cast

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, Node

from gpu_constructs.cluster.log_groups import granted_key_arn
from gpu_constructs.cluster.pod_subnets import PodSubnets
from gpu_constructs.cluster.pod_subnets import pod_block as pod_block_of
from gpu_constructs.cluster.private_endpoints import PrivateEndpoints
from gpu_constructs.installing.own_stack import stack_place
from gpu_constructs.installing.registry import Singleton
from gpu_constructs.installing.subnets import move_to_zone_id, node_subnets
from gpu_facts.hardware.regions import ACCEPTED_ZONE_IDS, refuse_misspelt_region
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import (
    address_block,
    has_token,
    refuse_unless_choice,
    refuse_unless_key,
    refuse_unless_whole_number,
    refuse_unless_zone,
    words,
)

_ID = "ControlPlane"
# EKS asks for 6 free addresses in each.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_LENGTH = 28
# The last of the parts that are as large as a public subnet: no subnet of nodes reaches there.
_PARTS = 8
# Of the 256 that a VPC has, by the same thought.
_IPV6_BLOCKS = (254, 255)
_IPV6_BITS = 64
# Source: RFC 1918
PRIVATE = tuple(IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# Explicit, because EKS picks one of two and CloudFormation cannot read which.
SERVICE_CIDR = "172.20.0.0/16"
# Of a block's length: the subnets of nodes are an eighth of it each, because every pod takes an address.
_NODES, _PUBLIC = 3, 8
_SHORTEST, _LONGEST = 16, 19
_ZONES_WITHOUT_NAMES = 2
_LOOPBACK = IPv4Network("127.0.0.0/8")


@contextmanager
def zones_without_lookup(scope: Construct, zones: Sequence[str]) -> Iterator[None]:
    """Answer `Stack.availability_zones` with these zones, as if CDK had looked them up.

    `ec2.Vpc` reads that property also if it gets the names of its zones. In a stack with an account and a region, the
    property reports a missing context value, and the CDK CLI then asks AWS for it, which takes credentials. Only the
    context of the stack or a parent can answer instead. It is reset at the end, so that other networks of the stack
    still look up their own zones.

    Zones that the context already has are used as they are: a network that was deployed with them stays in them.

    Source: aws-cdk-lib 2.275.0, aws-ec2/lib/vpc.ts and core/lib/stack.ts (2026-11)
    """
    stack = cdk.Stack.of(scope)
    if cdk.Token.is_unresolved(stack.account) or cdk.Token.is_unresolved(stack.region):
        yield
        return
    key = cdk.ContextProvider.get_key(stack, provider="availability-zones").key
    if stack.node.try_get_context(key) is not None:
        yield
        return
    _set_context(stack, key, list(zones))
    try:
        yield
    finally:
        _set_context(stack, key, None)


def _set_context(scope: Construct, key: str, value: list[str] | None) -> None:
    """Set a context value of a construct that may have children.

    `Node.set_context` rejects that, because children may have read the old value. So the children leave the tree for
    the call, and return in their order: a new `Node` adds its construct to its parent, and the construct keeps the one
    it has. `Node(...)` itself rejects children that were made in JavaScript, for which Python has no class.

    Source: constructs 10.8.1, src/construct.ts (2026-11)
    """
    children = {each.node.id: each for each in scope.node.children}
    for id in children:
        scope.node.try_remove_child(id)
    try:
        scope.node.set_context(key, value)
    finally:
        for id, each in children.items():
            jsii.create(Node, Node.__new__(Node), [each, scope, id])


@named_arguments
class ControlPlaneSubnets(Construct):
    """Two subnets in zones that EKS takes, in a VPC of `gpu_vpc`; made when a cluster asks for them.

    They have no way out: the network interfaces of the control plane in them need none.

    Args:
        vpc: The network.
        block: Its address block.
        zone_ids: Zones of the subnets.
        ipv6: Whether they have both kinds of addresses.
        zones_chosen: Whether you named the zones of the other subnets.
    """

    def __init__(
        self, vpc: ec2.Vpc, *, block: IPv4Network, zone_ids: Sequence[str], ipv6: bool, zones_chosen: bool
    ) -> None:
        super().__init__(vpc, _ID)
        self._vpc = vpc
        *_, last = block.subnets(prefixlen_diff=_PARTS)
        self._blocks = [str(each) for each in last.subnets(new_prefix=_LENGTH)]
        self._zone_ids = zone_ids
        self._ipv6 = ipv6
        self._zones_chosen = zones_chosen
        self._made: Singleton[list[ec2.CfnSubnet]] = Singleton()

    @property
    def subnets(self) -> list[ec2.CfnSubnet]:
        """The subnets."""
        return self._made.get_or_make(lambda: [self._make(number, zone) for number, zone in enumerate(self._zone_ids)])

    def move_others(self) -> None:
        """Put the other subnets of the network into zones that EKS takes, unless you named their zones."""
        if self._zones_chosen:
            return
        for subnets in (self._vpc.public_subnets, self._vpc.private_subnets, self._vpc.isolated_subnets):
            for subnet, zone_id in zip(subnets, self._zone_ids, strict=False):
                move_to_zone_id(subnet, zone_id)

    def _make(self, number: int, zone_id: str) -> ec2.CfnSubnet:
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet{number + 1}",
            vpc_id=self._vpc.vpc_id,
            availability_zone_id=zone_id,
            cidr_block=self._blocks[number],
            assign_ipv6_address_on_creation=self._ipv6 or None,
            ipv6_cidr_block=_ipv6_block(self._vpc, number) if self._ipv6 else None,
            map_public_ip_on_launch=False,
        )
        # Else it carries the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        if self._ipv6:
            subnet.node.add_dependency(self._vpc.node.find_child("ipv6cidr"))
        return subnet


def offer_control_plane_subnets(vpc: ec2.Vpc, *, block: IPv4Network, ipv6: bool, zones_chosen: bool) -> None:
    """Have subnets ready for a control plane, where the region has a zone that EKS refuses; elsewhere nothing."""
    if zone_ids := ACCEPTED_ZONE_IDS.get(stack_place(vpc).region):
        ControlPlaneSubnets(vpc, block=block, zone_ids=zone_ids, ipv6=ipv6, zones_chosen=zones_chosen)


def _ipv6_block(vpc: ec2.Vpc, number: int) -> str:
    given = cdk.Fn.select(0, vpc.vpc_ipv6_cidr_blocks)
    blocks = cdk.Fn.cidr(given, _IPV6_BLOCKS[-1] + 1, str(_IPV6_BITS))
    return cdk.Fn.select(_IPV6_BLOCKS[number], blocks)


def place_control_plane(cluster: Construct, vpc: ec2.IVpc, *, nodes_beside: bool) -> None:
    """Put a control plane into subnets in zones that EKS takes, where the network is of `gpu_vpc`.

    Args:
        cluster: The cluster.
        vpc: Its network.
        nodes_beside: Whether nodes start in the same subnets, which then need a way out.
    """
    own = vpc.node.try_find_child(_ID)
    if not isinstance(own, ControlPlaneSubnets):
        return
    if nodes_beside:
        own.move_others()
        return
    resource = cast("cdk.CfnResource", cluster.node.default_child)
    # Not by `vpc_subnets`: what applies manifests starts in the same ones, and needs a way out.
    resource.add_property_override("ResourcesVpcConfig.SubnetIds", [each.ref for each in own.subnets])


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
    refuse_unless_choice(who, "ip_family", ip_family, ("ipv4", "ipv6"))
    refuse_unless_key(who, "log_key", log_key)
    refuse_misspelt_region(who, stack_place(scope).region)
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
    region = stack_place(scope).region
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
    if arn := granted_key_arn(key, scope):
        cast("logs.CfnLogGroup", group.node.default_child).kms_key_id = arn
    return ec2.FlowLogOptions(
        destination=ec2.FlowLogDestination.to_cloud_watch_logs(group), traffic_type=ec2.FlowLogTrafficType.REJECT
    )


def endpoint_access(who: object, cidrs: object) -> eks.EndpointAccess:
    """Return from where the endpoint is reached.

    Args:
        who: The cluster, for messages.
        cidrs: Blocks outside the VPC; empty for none, ``None`` for all.

    Raises:
        TypeError: ``cidrs`` is no list of words.
        ValueError: One is no block of public addresses.
    """
    if cidrs is None:
        return eks.EndpointAccess.PUBLIC_AND_PRIVATE
    blocks = words(who, "public_access_cidrs", cidrs)
    if not blocks:
        return eks.EndpointAccess.PRIVATE
    for block in blocks:
        network = address_block(who, "public_access_cidrs", block, example="203.0.113.0/24")
        if isinstance(network, IPv4Network) and any(network.subnet_of(each) for each in (*PRIVATE, _LOOPBACK)):
            raise ValueError(
                f"{who}: public_access_cidrs must be public, such as '198.51.100.7/32', got "
                f"{block!r}; from inside the VPC the endpoint is reached anyway"
            )
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*blocks)
