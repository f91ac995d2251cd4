"""Parts of a VPC for special needs: endpoints of AWS services, and separate subnets for pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs.installing.registry import PathOf
from gpu_constructs.installing.subnets import (
    PodNetwork,
    given_subnets,
    meet_in_vpc,
    node_subnets,
    refuse_unless_vpc,
    subnets_by_zone,
    ways_of_vpc,
)
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import address_block, refuse_unless_bool, refuse_unless_choice, words

_POD_SUBNETS = "Pods"
# EKS recommends this block, because companies seldom route it. It also recommends 198.19.0.0/16, which a VPC can't have
# next to a private block.
# Sources: https://docs.aws.amazon.com/eks/latest/best-practices/custom-networking.html,
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html (2026-11)
_FOR_PODS = IPv4Network("100.64.0.0/10")
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html (2026-11)
_MIN_PREFIX, _MAX_PREFIX = 16, 24
# Services that nodes, EKS add-ons, cluster autoscaler, Karpenter and the termination handler call, and the kubectl
# function, which calls another function. S3 has a gateway endpoint instead.
# Sources: https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html,
# https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/#private-clusters
_SERVICES = (
    "autoscaling",
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticloadbalancing",
    "lambda",
    "logs",
    "sqs",
    "ssm",
    "sts",
)
_S3 = "s3"


@named_arguments
class PrivateEndpoints(Construct):
    """Endpoints through which nodes in isolated subnets connect to the AWS services of a GPU cluster.

    They don't provide access to registries outside ECR. Mirror the images of the device plugin, cluster autoscaler and
    your workloads into ECR, or pull them through an ECR cache. Each interface endpoint costs by the hour and zone.

    Args:
        vpc: VPC of the nodes.
        services: Services with an interface endpoint, as the last part of the endpoint's name.
        s3_gateway: Whether to create the gateway endpoint for S3, which stores the layers of images in ECR. Set it to
            ``False`` if the VPC has one.
        subnets: Subnets of the interface endpoints. Default: the private subnets of the VPC, or its isolated ones.
        pod_blocks: Additional address blocks of pods that may connect.
        policies: Endpoint policies by service, and ``s3`` for the gateway. The gateway's policy must allow
            ``s3:GetObject`` of ``prod-REGION-starport-layer-bucket``, which has ECR's image layers. A policy of ``s3``
            also allows custom resources to answer CloudFormation. Default: no restriction in addition to IAM.
            Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A policy has no endpoint, the VPC was imported without its address block, or the VPC has no subnet
            for nodes. Or the VPC already has a gateway endpoint for S3, or an endpoint for one of the services.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        services: Sequence[str] = _SERVICES,
        s3_gateway: bool = True,
        subnets: Sequence[ec2.ISubnet] | None = None,
        pod_blocks: Sequence[str] = (),
        policies: Mapping[str, Sequence[iam.PolicyStatement]] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        names = words(who, "services", services)
        pods = [pod_block(who, "pod_blocks", each) for each in words(who, "pod_blocks", pod_blocks)]
        refuse_unless_bool(who, "s3_gateway", s3_gateway)
        refuse_unless_vpc(who, vpc)
        if s3_gateway:
            _refuse_second_gateway(who, vpc)
        self._services = frozenset((*names, *([_S3] if s3_gateway else [])))
        _refuse_second_endpoints(who, vpc, self._services)
        allowed = _policies(who, policies, (*names, *([_S3] if s3_gateway else [])))
        chosen = given_subnets(subnets, who) if subnets is not None else node_subnets(vpc)
        if not chosen:
            raise ValueError(
                f"{who}: vpc must have private or isolated subnets, got {vpc.node.path!r} without; add some"
            )
        block = _cidr(who, vpc)
        group = ec2.SecurityGroup(self, "SecurityGroup", vpc=vpc, allow_all_outbound=False)
        group.add_ingress_rule(ec2.Peer.ipv4(block), ec2.Port.HTTPS, "Nodes and pods")
        for each in pods:
            group.add_ingress_rule(ec2.Peer.ipv4(str(each)), ec2.Port.HTTPS, "Pods")
        for name in names:
            endpoint: ec2.VpcEndpoint = ec2.InterfaceVpcEndpoint(
                self,
                name,
                vpc=vpc,
                service=ec2.InterfaceVpcEndpointAwsService(name),
                subnets=ec2.SubnetSelection(subnets=chosen),
                security_groups=[group],
                open=False,
            )
            _allow(endpoint, allowed.get(name, ()))
        if s3_gateway:
            endpoint = ec2.GatewayVpcEndpoint(
                self,
                "S3",
                vpc=vpc,
                service=ec2.GatewayVpcEndpointAwsService.S3,
                subnets=[ec2.SubnetSelection(subnets=chosen)],
            )
            own = allowed.get(_S3, ())
            _allow(endpoint, (*own, _answers(self)) if own else ())
        meet_in_vpc(vpc, way=self)


def _refuse_second_gateway(who: object, vpc: ec2.IVpc) -> None:
    """Reject a gateway endpoint next to the one of `gpu_vpc`, because a route table has one route to S3.

    Source: https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html (2026-11)
    """
    found = vpc.node.try_find_child("S3")
    if isinstance(found, ec2.GatewayVpcEndpoint):
        raise ValueError(
            f"{who}: s3_gateway must be False if the VPC has a gateway endpoint for S3, got True with "
            f"{found.node.path!r}; pass s3_gateway=False"
        )


def _refuse_second_endpoints(who: object, vpc: ec2.IVpc, services: frozenset[str]) -> None:
    """Reject endpoints of services that another `PrivateEndpoints` of the VPC has, because EC2 rejects the second one.

    Source: https://docs.aws.amazon.com/vpc/latest/privatelink/interface-endpoints.html (private DNS names, 2026-11)
    """
    for other in ways_of_vpc(vpc):
        same = sorted(services & getattr(other, "_services", frozenset()))
        if same:
            raise ValueError(
                f"{who}: services must have no other endpoint in the VPC, got {', '.join(same)}, which "
                f"{other.node.path!r} has; leave them out, or extend that one"
                + ("; pass s3_gateway=False" if _S3 in same else "")
            )


def _answers(scope: Construct) -> iam.PolicyStatement:
    """Return the permission to answer CloudFormation, which custom resources do through the gateway.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-vpce-bucketnames.html (2026-11)
    """
    bucket = f"arn:{cdk.Stack.of(scope).partition}:s3:::cloudformation-custom-resource-response-*/*"
    return iam.PolicyStatement(actions=["s3:PutObject"], principals=[iam.AnyPrincipal()], resources=[bucket])


def _policies(who: object, policies: object, services: Sequence[str]) -> Mapping[str, Sequence[iam.PolicyStatement]]:
    if policies is None:
        return {}
    if not isinstance(policies, Mapping):
        raise TypeError(
            f"{who}: policies must be a mapping of services to statements, got {policies!r}; write {{'s3': [...]}}"
        )
    for service, statements in policies.items():
        refuse_unless_choice(who, "policies", service, services)
        known = isinstance(statements, (list, tuple)) and all(hasattr(each, "to_statement_json") for each in statements)
        if not known or not statements:
            raise TypeError(
                f"{who}: policies[{service!r}] must be a list of iam.PolicyStatement, got {statements!r}; write "
                "[iam.PolicyStatement(...)]"
            )
    return policies


def _allow(endpoint: ec2.VpcEndpoint, statements: Sequence[iam.PolicyStatement]) -> None:
    for statement in statements:
        endpoint.add_to_policy(statement)


def _cidr(who: object, vpc: ec2.IVpc) -> str:
    try:
        return vpc.vpc_cidr_block
    except RuntimeError as error:
        raise ValueError(
            f"{who}: vpc must be imported with vpc_cidr_block, got {vpc.node.path!r} without; pass it, because the "
            "endpoints accept connections only from it"
        ) from error


@named_arguments
class PodSubnets(Construct):
    """A second address block of a VPC of `gpu_vpc`, with a pod subnet for each private subnet.

    Args:
        vpc: The network.
        block: The address block.
        beside: The private subnets, in known zones.

    Attributes:
        by_zone: Ids of the subnets by zone.
        association: The block's association with the VPC.
    """

    def __init__(self, vpc: ec2.Vpc, *, block: IPv4Network, beside: Sequence[ec2.ISubnet]) -> None:
        super().__init__(vpc, _POD_SUBNETS)
        self.association = ec2.CfnVPCCidrBlock(self, "Block", vpc_id=vpc.vpc_id, cidr_block=str(block))
        blocks = block.subnets(prefixlen_diff=(len(beside) - 1).bit_length())
        self.by_zone: Mapping[str, str] = {
            each.availability_zone: self._create_subnet(vpc, each, part)
            for each, part in zip(beside, blocks, strict=False)
        }

    def _create_subnet(self, vpc: ec2.Vpc, private: ec2.ISubnet, block: IPv4Network) -> str:
        zone = private.availability_zone
        subnet = ec2.CfnSubnet(
            self,
            f"Subnet-{zone}",
            vpc_id=vpc.vpc_id,
            availability_zone=zone,
            cidr_block=str(block),
            map_public_ip_on_launch=False,
        )
        subnet.node.add_dependency(self.association)
        # Otherwise it has the name of the VPC.
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        ec2.CfnSubnetRouteTableAssociation(
            self, f"Routes-{zone}", subnet_id=subnet.ref, route_table_id=private.route_table.route_table_id
        )
        return subnet.ref


def pod_block(who: object, argument: str, block: object) -> IPv4Network:
    """Return an address block for pods.

    Raises:
        TypeError: ``block`` isn't a string.
        ValueError: It isn't in the range for pods, or a VPC can't have it.
    """
    return address_block_within(
        who, argument, block, (_FOR_PODS,), lengths=(_MIN_PREFIX, _MAX_PREFIX), example="100.64.0.0/16"
    )


def address_block_within(
    who: object,
    argument: str,
    block: object,
    ranges: Sequence[IPv4Network],
    *,
    lengths: tuple[int, int],
    example: str,
) -> IPv4Network:
    """Return an IPv4 address block that is in one of some ranges.

    Raises:
        TypeError: ``block`` isn't a string.
        ValueError: It is in none of the ranges, or has another length.
    """
    if not isinstance(block, str):
        raise TypeError(f"{who}: {argument} must be an address block, got {block!r}; write one such as {example!r}")
    found = address_block(who, argument, block, example=example)
    if not isinstance(found, IPv4Network) or not any(found.subnet_of(each) for each in ranges):
        named = f"{'one of ' if len(ranges) > 1 else ''}{', '.join(map(str, ranges))}"
        raise ValueError(f"{who}: {argument} must be in {named}, got {block!r}; write one such as {example!r}")
    shortest, longest = lengths
    if not shortest <= found.prefixlen <= longest:
        raise ValueError(
            f"{who}: {argument} must have a length of /{shortest} to /{longest}, got {block!r}; change its length"
        )
    return found


def _find_pod_subnets(vpc: ec2.IVpc) -> PodSubnets | None:
    """Return the pod subnets of a VPC of `gpu_vpc`, if it has some."""
    own = vpc.node.try_find_child(_POD_SUBNETS)
    return own if isinstance(own, PodSubnets) else None


def pod_network(
    cluster: Construct,
    vpc: ec2.IVpc,
    *,
    pod_subnets: Mapping[str, str] | None,
    prefix_delegation: bool,
    without: str | None,
) -> PodNetwork:
    """Return the source of pod addresses.

    Args:
        cluster: The cluster.
        vpc: Its network.
        pod_subnets: Ids of separate subnets for pods, by zone.
        prefix_delegation: Whether nodes allocate blocks of sixteen.
        without: Reason why the cluster supports neither, or ``None`` if it does.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A zone or a subnet is invalid, or the cluster doesn't support the setting.
    """
    who, made = PathOf(cluster), _find_pod_subnets(vpc)
    refuse_unless_bool(who, "prefix_delegation", prefix_delegation)
    given = subnets_by_zone(who, "pod_subnets", pod_subnets) if pod_subnets is not None else {}
    if without is not None:
        said = {"pod_subnets": given, "prefix_delegation": prefix_delegation}
        for argument, value in said.items():
            if value:
                raise ValueError(f"{who}: {argument} must be left out {without}, got {value!r}; remove it")
    if made is not None and without is not None:
        raise ValueError(f"{who}: vpc must have no pod_block {without}, got {vpc.node.path!r}; create it without")
    if made is not None and not given:
        # If a block is added later, EKS recognizes it only after hours.
        # Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network-tutorial.html (2026-11)
        cluster.node.add_dependency(made.association)
        given = dict(made.by_zone)
    return PodNetwork(subnets=given, prefixes=prefix_delegation)
