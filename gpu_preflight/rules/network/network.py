"""Nodes that cannot reach the cluster, AWS or a registry, or for which there are no addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from gpu_facts.charts import AWS_NODE, NETWORKS, VPC_CNI
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_preflight.case import Case
from gpu_preflight.cluster.references import of_cluster, referred, refers, setting
from gpu_preflight.cluster.security_groups import covers_port, groups_of, known_groups, rules, shut_out
from gpu_preflight.cluster.subnets import is_isolated, vpcs_of, way_out
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, all_known, dig, is_true, items, mapping
from gpu_preflight.rules.rule import Problem, rule

_ENDPOINT = "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html"
_REQUIREMENTS = "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"
_PRIVATE = "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"
_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3")
# VPC keeps the first four addresses of a subnet and the last.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_KEPT_ADDRESSES = 5
_LET_IN = (
    "Add the cluster's ClusterSecurityGroupId to the security groups of the nodes, or rules for port 443 to the API "
    "server and for port 10250 back."
)
# With one of them set, the network plugin takes fewer addresses than whole interfaces, or takes them elsewhere.
_FRUGAL = ("WARM_IP_TARGET", "MINIMUM_IP_TARGET", "ENABLE_PREFIX_DELEGATION", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG")


def _groups(case: Case) -> list[Pool]:
    return [each for each in case.gpu_pools if each.is_group]


def _placed(case: Case) -> list[Pool]:
    """Return the GPU pools whose subnets are known: groups, and NodePools whose class selects no others."""
    selecting = [each for each in case.gpu_pools if each.kind == "karpenter" and each.class_zones_known]
    return [*_groups(case), *selecting]


def _is_private(cluster: Cluster) -> bool | None:
    """Return whether nodes reach the API server inside the VPC, ``None`` where it is not known."""
    access = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    return None if isinstance(access, Unknown) else is_true(access)


@rule("GPU075", "error", source=_ENDPOINT)
def nodes_cannot_reach_the_api_server(case: Case) -> Iterator[Problem]:
    """Nodes cannot reach the API server.

    Kubelet never registers; a managed group fails with NodeCreationFailure.

    Fix: Set ResourcesVpcConfig.EndpointPrivateAccess of the cluster to true.
    """
    cluster = case.cluster
    private = _is_private(cluster)
    if not cluster.whole:
        return
    for pool in cluster.pools if private is not False else ():
        if groups := shut_out(pool, cluster):
            names = ", ".join(each.path for each in groups)
            text = f"its nodes have security group {names}, and no rule lets them call the API server on port 443"
            yield Problem.of(pool, text, fix=_LET_IN, unknown=private is None)
    if private is not False:
        return
    listed = items(setting(cluster, "ResourcesVpcConfig", "PublicAccessCidrs"))
    open_to_all = not listed or "0.0.0.0/0" in listed or any(isinstance(each, Unknown) for each in listed)
    for pool in _placed(case):
        if is_isolated(pool, cluster.resources):
            message = "the API server is public only, and nothing leads out of its subnets"
            yield Problem.of(pool, message)
        elif not open_to_all:
            cidrs = ", ".join(str(each) for each in listed[:4])
            message = f"its nodes reach the API server from a public address, which {cidrs} must cover"
            yield Problem.of(pool, message, unknown=True)


def _offers(endpoint: Resource, service: str) -> bool:
    name = endpoint.properties.get("ServiceName")
    text = str(name)
    return text.endswith((f".{service}", f".{service}-fips")) or (isinstance(name, Unknown) and "}." not in text)


@rule("GPU077", "error", source=_PRIVATE)
def isolated_nodes_without_the_vpc_endpoints_they_need(case: Case) -> Iterator[Problem]:
    """Isolated nodes without the VPC endpoints they need.

    Nodes cannot find out about themselves, pull images or get credentials for pods, and do not become Ready.

    Fix: Add interface endpoints for the services, and a gateway endpoint for S3, or a NAT gateway.
    """
    cluster = case.cluster
    identities = of_cluster(cluster, "AWS::EKS::PodIdentityAssociation")
    wanted = (*_SERVICES, "eks-auth") if identities else _SERVICES
    for pool in _placed(case):
        shut = [each for each in pool.subnets if way_out(each, cluster.resources) == "nowhere"]
        every = len(shut) == len(pool.subnets)
        names = ", ".join(str(each.resource) for each in shut)
        where = "its subnets" if every else f"{len(shut)} of its {len(pool.subnets)} subnets ({names})"
        for vpc in vpcs_of(pool, cluster.resources) if shut else ():
            own = [
                each
                for each in cluster.resources_of("AWS::EC2::VPCEndpoint")
                if refers(each.properties.get("VpcId"), vpc)
                or referred(each.properties.get("VpcId"), cluster.resources) is None
            ]
            lacking = [service for service in wanted if not any(_offers(each, service) for each in own)]
            if lacking:
                message = f"nothing leads out of {where}, and {vpc.path} has no endpoint for "
                # A node starts in any of the subnets.
                yield Problem.of(pool, message + ", ".join(lacking), unknown=not every)


@rule("GPU078", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html")
def public_subnet_that_gives_no_public_addresses(case: Case) -> Iterator[Problem]:
    """Public subnet that gives no public addresses.

    Nodes there have no way out; EKS reports Ec2SubnetInvalidConfiguration of a managed group.

    Fix: Set MapPublicIpOnLaunch of the subnet to true, or put the nodes into private subnets.
    """
    cluster = case.cluster
    private = _is_private(cluster)
    for pool in _groups(case):
        interfaces = pool.launch.interfaces
        # EKS looks at the subnets of a managed group whichever way its nodes reach the API server.
        asks = pool.kind == "managed" or private is False
        # Of nodes with several interfaces another rule speaks.
        if not asks or len(interfaces) > 1 or not cluster.whole:
            continue
        asked = any(each.public not in (None, False, "false") for each in interfaces)
        bare = [each for each in pool.subnets if _is_bare(each, cluster)]
        if bare and not asked:
            names = ", ".join(str(each.resource) for each in bare)
            yield Problem.of(pool, f"public subnet {names} gives its nodes no public address")


def _is_bare(subnet: Any, cluster: Cluster) -> bool:
    found = referred(subnet, cluster.resources)
    given = found.properties.get("MapPublicIpOnLaunch") if found else True
    public = way_out(subnet, cluster.resources) == "internet gateway"
    return public and not isinstance(given, Unknown) and not is_true(given)


@rule("GPU079", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html")
def security_groups_of_the_nodes_let_nothing_out_on_port_443(case: Case) -> Iterator[Problem]:
    """Security groups of the nodes let nothing out on port 443.

    Nodes reach neither the API server nor a registry, and do not join.

    Fix: Allow TCP 443 out, or give the nodes the cluster's security group.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        groups = known_groups(groups_of(pool), cluster.resources)
        if groups is None:
            continue
        written = [rules(each, "Egress", cluster.resources) for each in groups]
        # A group without rules lets everything out.
        if not all(written):
            continue
        if not any(covers_port(rule, 443) for each in written for rule in each or ()):
            names = ", ".join(each.path for each in groups)
            yield Problem.of(pool, f"{names} lets nothing out on port 443")


@rule("GPU080", "error", source=_REQUIREMENTS)
def dns_of_the_vpc_is_off(case: Case) -> Iterator[Problem]:
    """DNS of the VPC is off.

    Nodes cannot register: the names of a private API server and of endpoints do not resolve.

    Fix: Set EnableDnsSupport and EnableDnsHostnames of the VPC to true.
    """
    seen = set()
    for pool in _groups(case):
        for vpc in vpcs_of(pool, case.cluster.resources):
            support, hostnames = (vpc.properties.get(f"EnableDns{each}") for each in ("Support", "Hostnames"))
            off = [
                *(["EnableDnsSupport"] if support in (False, "false") else []),
                *(["EnableDnsHostnames"] if not is_true(hostnames) and not isinstance(hostnames, Unknown) else []),
            ]
            if off and vpc.key not in seen:
                seen.add(vpc.key)
                yield Problem.of(pool, f"{' and '.join(off)} of {vpc.path} is off")


@rule("GPU081", "warning", source="https://docs.aws.amazon.com/eks/latest/best-practices/ip-opt.html")
def more_nodes_than_the_subnets_have_addresses_for(case: Case) -> Iterator[Problem]:
    """More nodes than the subnets have addresses for.

    Launches fail with InsufficientFreeAddressesInSubnet, or pods get no address.

    Fix: Take larger subnets, efa-only interfaces, or WARM_IP_TARGET or prefix delegation of the network plugin.
    """
    cluster = case.cluster
    for pool in _groups(case):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        free = _free_addresses(pool, cluster)
        if free is None or not rows or not pool.max_nodes:
            continue
        each_takes = min(_addresses(pool, row, cluster) for row in rows)
        if each_takes * pool.max_nodes > free:
            message = f"{pool.max_nodes} nodes take at least {each_takes * pool.max_nodes} addresses, "
            guessed = cluster.addon(VPC_CNI) is None and not cluster.sees_objects
            yield Problem.of(pool, message + f"its subnets have {free}", unknown=guessed)


def _free_addresses(pool: Pool, cluster: Cluster) -> int | None:
    subnets = [referred(each, cluster.resources) for each in pool.subnets]
    sizes = all_known(_size(each.properties.get("CidrBlock")) if each else None for each in subnets)
    return sum(sizes) if sizes else None


def _size(block: Any) -> int | None:
    try:
        return ip_network(block, strict=False).num_addresses - _KEPT_ADDRESSES if isinstance(block, str) else None
    except ValueError:
        return None


def _addresses(pool: Pool, row: InstanceType, cluster: Cluster) -> int:
    interfaces = pool.launch.interfaces
    own = sum(each.kind != "efa-only" for each in interfaces) or 1
    filled = (row.ipv4_per_interface or 1) - 1 if _fills_interfaces(cluster) else 0
    return own + filled


def _fills_interfaces(cluster: Cluster) -> bool:
    """Whether the network plugin certainly keeps every address of an interface ready, as it does by default."""
    addon = cluster.addon(VPC_CNI)
    told = mapping(dig(addon.configuration, "env")) if addon else {}
    ipv6 = setting(cluster, "KubernetesNetworkConfig", "IpFamily") not in (None, "ipv4")
    return (addon is not None or _is_eks_own(cluster)) and not ipv6 and not any(each in told for each in _FRUGAL)


def _is_eks_own(cluster: Cluster) -> bool:
    """Whether the network plugin is the one that EKS puts into a new cluster, and nothing in the input changes it."""
    bare = setting(cluster, "BootstrapSelfManagedAddons") in (None, True, "true")
    brought = any(cluster.chart(each) for each in (VPC_CNI, *NETWORKS))
    written = any(each.name == AWS_NODE for each in cluster.of_kind("DaemonSet"))
    return bare and cluster.sees_objects and not cluster.auto_mode and not brought and not written
