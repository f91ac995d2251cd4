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

from gpu_constructs.cluster.encryption import granted_key_arn
from gpu_constructs.cluster.vpc_parts import PodSubnets, PrivateEndpoints, address_block_within
from gpu_constructs.cluster.vpc_parts import pod_block as pod_block_of
from gpu_constructs.installing.context import stack_place
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
# EKS requires 6 free addresses in each.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_LENGTH = 28
# Number of parts with the size of a public subnet. The last part doesn't overlap the subnets of nodes.
_PARTS = 8
# Indexes among the 256 IPv6 blocks of a VPC, chosen in the same way.
_IPV6_BLOCKS = (254, 255)
_IPV6_BITS = 64
# Source: RFC 1918
_PRIVATE = tuple(IPv4Network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
# Explicit, because EKS picks one of two and CloudFormation can't read which.
SERVICE_CIDR = "172.20.0.0/16"
# Additional prefix length. Each subnet of nodes has an eighth of the block, because every pod needs an address.
_NODES, _PUBLIC = 3, 8
_SHORTEST, _LONGEST = 16, 19
_ZONES_WITHOUT_NAMES = 2
_LOOPBACK = IPv4Network("127.0.0.0/8")


@contextmanager
def _zones_without_lookup(scope: Construct, zones: Sequence[str]) -> Iterator[None]:
    """Set these zones as the value of `Stack.availability_zones`, as if the CDK had looked them up.

    `ec2.Vpc` reads that property even if it gets the names of its zones. In a stack with an account and a region, the
    property reports a missing context value. The CDK CLI then looks it up in AWS, which needs credentials. Only the
    context of the stack or a parent can provide the value instead. It is reset at the end, so that other networks of
    the stack still look up their own zones.

    Zones that are already in the context are used. So a network that was deployed with them stays in them.

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
    the call, and return in the same order. A new `Node` adds its construct to its parent, and the construct keeps its
    old node. `Node(...)` itself rejects children that were created in JavaScript and have no Python class.

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
    """Two subnets for a control plane in zones that EKS supports, in a VPC of `gpu_vpc`. Created only if needed.

    They have no route to the internet, because the network interfaces of the control plane don't need one.

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
        """Move the other subnets of the network to zones that EKS supports, unless you named their zones."""
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
        # Otherwise it has the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        if self._ipv6:
            subnet.node.add_dependency(self._vpc.node.find_child("ipv6cidr"))
        return subnet


def _offer_control_plane_subnets(vpc: ec2.Vpc, *, block: IPv4Network, ipv6: bool, zones_chosen: bool) -> None:
    """Prepare subnets for a control plane if the region has a zone that EKS doesn't support. Otherwise do nothing."""
    if zone_ids := ACCEPTED_ZONE_IDS.get(stack_place(vpc).region):
        ControlPlaneSubnets(vpc, block=block, zone_ids=zone_ids, ipv6=ipv6, zones_chosen=zones_chosen)


def _ipv6_block(vpc: ec2.Vpc, number: int) -> str:
    given = cdk.Fn.select(0, vpc.vpc_ipv6_cidr_blocks)
    blocks = cdk.Fn.cidr(given, _IPV6_BLOCKS[-1] + 1, str(_IPV6_BITS))
    return cdk.Fn.select(_IPV6_BLOCKS[number], blocks)


def place_control_plane(cluster: Construct, vpc: ec2.IVpc, *, nodes_beside: bool) -> None:
    """Put a control plane into subnets in zones that EKS supports, if the network is of `gpu_vpc`.

    Args:
        cluster: The cluster.
        vpc: Its network.
        nodes_beside: Whether nodes start in the same subnets, which then need a route to the internet or endpoints.
    """
    own = vpc.node.try_find_child(_ID)
    if not isinstance(own, ControlPlaneSubnets):
        return
    if nodes_beside:
        own.move_others()
        return
    resource = cast("cdk.CfnResource", cluster.node.default_child)
    # Not by `vpc_subnets`: the kubectl function starts in the same subnets, and needs a route to the internet.
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
    """Create a VPC with private subnets for nodes and public ones for load balancers.

    Images come from ECR through a gateway endpoint for S3, which is free, not through the NAT gateway, which costs by
    the gigabyte. Rejected connections are logged for a month. In us-east-1, us-west-1 and ca-central-1 the control
    plane of a cluster gets two separate small subnets, in zones that EKS supports. The zones of nodes don't change.
    With the built-in pools of Auto Mode, nodes start in the subnets of the control plane. Then all subnets are in such
    zones, unless you name their zones.

    Args:
        block: Its address block, private, with a length of /16 to /19.
        pod_block: A second block for pods only, if your company has few routable private addresses: ``100.64.0.0/16``.
            Each zone gets a subnet of it, and a `GpuCluster` in this VPC assigns its pods addresses from it.
        availability_zones: Names of the zones of the VPC. Only few zones of a region offer a GPU type, so name zones
            that offer yours. List them with
            ``aws ec2 describe-instance-type-offerings --location-type availability-zone``. Default: two, chosen at
            deployment. If the app's ``cdk.context.json`` has the zones of the stack's account and region, the first two
            of them.
        nat_gateways: Number of NAT gateways. With one for each zone, the network survives the loss of a zone. 0 creates
            isolated subnets without a route to the internet, and the `PrivateEndpoints` through which their nodes
            connect to AWS.
        log_key: Key for the log of rejected connections. Default: CloudWatch's own key.
        ip_family: With ``ipv6`` the subnets have both kinds of addresses, for an IPv6 cluster.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: EKS would reject the network.
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
            f"{who}: pod_block must be left out with ip_family 'ipv6', which has enough addresses, got {pod_block!r}; "
            "remove it"
        )
    if pods is not None and zones is None:
        raise ValueError(
            f"{who}: availability_zones must be given with pod_block, got None; name zones of the region, because "
            "nodes find their pod subnets by zone"
        )
    most = len(zones) if zones else _ZONES_WITHOUT_NAMES
    if nat_gateways > most:
        raise ValueError(f"{who}: nat_gateways must be at most {most}, one for each zone, got {nat_gateways}; lower it")
    isolated = nat_gateways == 0
    with _zones_without_lookup(scope, zones or _zones_at_deployment()):
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
        # The CDK tags private subnets. Without the tag, AWS Load Balancer Controller chooses among all subnets of the
        # VPC, including the small subnets of the control plane, whose addresses EKS needs for upgrades.
        # Source: https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/deploy/subnet_discovery/
        cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")
    _offer_control_plane_subnets(vpc, block=network, ipv6=ip_family == "ipv6", zones_chosen=zones is not None)
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
        raise ValueError(
            f"{who}: availability_zones must name at least two zones, which EKS requires, got {zones!r}; add one"
        )
    for zone in zones:
        refuse_unless_zone(who, "availability_zones", zone)
    if len({zone[:-1] for zone in zones}) > 1:
        raise ValueError(
            f"{who}: availability_zones must be in one region, got {zones!r}; create one cluster for each region"
        )
    region = stack_place(scope).region
    if not has_token(region) and not zones[0].startswith(region):
        raise ValueError(
            f"{who}: availability_zones must be in {region!r}, the region of the stack, got {zones!r}; name "
            "zones of that region"
        )
    if len(set(zones)) < len(zones):
        raise ValueError(f"{who}: availability_zones must differ, got {zones!r}; remove the duplicates")
    return zones


def _zones_at_deployment() -> list[str]:
    return [cdk.Fn.select(number, cdk.Fn.get_azs()) for number in range(_ZONES_WITHOUT_NAMES)]


def _block(who: object, block: object) -> IPv4Network:
    found = address_block_within(who, "block", block, _PRIVATE, lengths=(_SHORTEST, _LONGEST), example="10.0.0.0/16")
    if found.overlaps(IPv4Network(SERVICE_CIDR)):
        raise ValueError(
            f"{who}: block must not overlap {SERVICE_CIDR} of the cluster's services, got {block!r}; use another one"
        )
    return found


def _subnets(block: IPv4Network, *, isolated: bool) -> list[ec2.SubnetConfiguration]:
    """Return the subnets of a zone.

    Isolated networks reserve the blocks of public subnets. So the subnets of nodes keep their blocks if the network
    gets its first NAT gateway, or loses the last one. Other blocks would overlap the blocks of the old subnets.
    """
    public = ec2.SubnetConfiguration(
        name="Public",
        subnet_type=ec2.SubnetType.PUBLIC,
        cidr_mask=block.prefixlen + _PUBLIC,
        reserved=isolated,
        # Load balancers and NAT gateways have their own addresses.
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
    """Return the access to the API endpoint.

    Args:
        who: The cluster, for messages.
        cidrs: Blocks outside the VPC, empty for none, or ``None`` for all.

    Raises:
        TypeError: ``cidrs`` isn't a list of strings.
        ValueError: A block isn't a block of public addresses.
    """
    if cidrs is None:
        return eks.EndpointAccess.PUBLIC_AND_PRIVATE
    blocks = words(who, "public_access_cidrs", cidrs)
    if not blocks:
        return eks.EndpointAccess.PRIVATE
    for block in blocks:
        network = address_block(who, "public_access_cidrs", block, example="203.0.113.0/24")
        if isinstance(network, IPv4Network) and any(network.subnet_of(each) for each in (*_PRIVATE, _LOOPBACK)):
            raise ValueError(
                f"{who}: public_access_cidrs must be public, got {block!r}; write blocks such as '198.51.100.7/32', "
                "because the endpoint always accepts connections from the VPC"
            )
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*blocks)
