"""Rules for nodes that can't connect to the cluster, AWS or a registry, or that get no addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from gpu_facts.charts import AWS_NODE, NETWORKS, VPC_CNI
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.node_capacity import eni_pods
from gpu_facts.hardware.regions import REFUSED_ZONE_ID
from gpu_facts.light import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import (
    are_apart,
    covers_port,
    is_isolated,
    known_groups,
    pool_security_groups,
    pool_vpcs,
    rules,
    shut_out,
    way_out,
)
from gpu_preflight.cluster.references import cluster_resources, referred, refers, setting
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.software import Addon
from gpu_preflight.node.instance_types import kubelet_max_pods
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import Unknown, all_known, dig, is_true, items, mapping
from gpu_preflight.rule import Problem, rule

_ENDPOINT = "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html"
_REQUIREMENTS = "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"
_PRIVATE = "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"
_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3")
# VPC reserves the first four addresses of a subnet and the last one.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_KEPT_ADDRESSES = 5
_LET_IN = (
    "Add the cluster's ClusterSecurityGroupId to the security groups of the nodes, or rules for port 443 to the API "
    "server and for port 10250 back."
)
# If one of these is set, the network plugin allocates fewer addresses than whole interfaces, or elsewhere.
_FRUGAL = ("WARM_IP_TARGET", "MINIMUM_IP_TARGET", "ENABLE_PREFIX_DELEGATION", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG")
# A name such as us-east-1a is a region and a letter.
_NAME = regex(r"(.+-\d)[a-z]")
_PREFIXES = "ENABLE_PREFIX_DELEGATION"
_SWITCH = "enableNetworkPolicy"
# DaemonSets of other network plugins that enforce policies, if no chart installs them.
_OTHERS = ("calico-node", "cilium", "kube-router", "antrea-agent")


def _groups(case: Case) -> list[Pool]:
    return [each for each in case.gpu_pools if each.is_group]


def _placed(case: Case) -> list[Pool]:
    """Return the GPU pools whose subnets are known: groups, and NodePools whose class selects only known subnets."""
    selecting = [each for each in case.gpu_pools if each.kind == "karpenter" and each.class_zones_known]
    return [*_groups(case), *selecting]


def _is_private(cluster: Cluster) -> bool | None:
    """Return whether nodes connect to the API server inside the VPC; ``None`` if it isn't known."""
    access = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    return None if isinstance(access, Unknown) else is_true(access)


@rule("GPU075", "error", source=_ENDPOINT)
def nodes_cannot_reach_the_api_server(case: Case) -> Iterator[Problem]:
    """Nodes can't connect to the API server.

    kubelet never registers the node, and a managed group fails with NodeCreationFailure.

    Fix: Set ResourcesVpcConfig.EndpointPrivateAccess of the cluster to true.
    """
    cluster = case.cluster
    private = _is_private(cluster)
    if not cluster.whole:
        return
    for pool in cluster.pools if private is not False else ():
        if groups := shut_out(pool, cluster):
            names = ", ".join(each.path for each in groups)
            text = f"its nodes have security group {names}, but no rule allows them to call the API server on port 443"
            yield Problem.from_subject(pool, text, fix=_LET_IN, unknown=private is None)
    if private is not False:
        return
    listed = items(setting(cluster, "ResourcesVpcConfig", "PublicAccessCidrs"))
    open_to_all = not listed or "0.0.0.0/0" in listed or any(isinstance(each, Unknown) for each in listed)
    for pool in _placed(case):
        if is_isolated(pool, cluster.resources):
            message = "the API server has only a public endpoint, but its subnets have no route out"
            yield Problem.from_subject(pool, message)
        elif not open_to_all:
            cidrs = ", ".join(str(each) for each in listed[:4])
            message = f"its nodes call the API server from a public address, which PublicAccessCidrs {cidrs} must cover"
            yield Problem.from_subject(pool, message, unknown=True)


def _offers(endpoint: Resource, service: str) -> bool:
    name = endpoint.properties.get("ServiceName")
    text = str(name)
    return text.endswith((f".{service}", f".{service}-fips")) or (isinstance(name, Unknown) and "}." not in text)


@rule("GPU077", "error", source=_PRIVATE)
def isolated_nodes_without_the_vpc_endpoints_they_need(case: Case) -> Iterator[Problem]:
    """Isolated nodes lack VPC endpoints that they need.

    Nodes can't describe themselves, pull images or get credentials for pods, and don't become Ready.

    Fix: Add the VPC endpoints, or a NAT gateway.
    """
    cluster = case.cluster
    identities = cluster_resources(cluster, "AWS::EKS::PodIdentityAssociation")
    wanted = (*_SERVICES, "eks-auth") if identities else _SERVICES
    for pool in _placed(case):
        shut = [each for each in pool.subnets if way_out(each, cluster.resources) == "nowhere"]
        every = len(shut) == len(pool.subnets)
        names = ", ".join(str(each.resource) for each in shut)
        where = "its subnets" if every else f"{len(shut)} of its {len(pool.subnets)} subnets ({names})"
        for vpc in pool_vpcs(pool, cluster.resources) if shut else ():
            own = [
                each
                for each in cluster.resources_of_type("AWS::EC2::VPCEndpoint")
                if refers(each.properties.get("VpcId"), vpc)
                or referred(each.properties.get("VpcId"), cluster.resources) is None
            ]
            lacking = [service for service in wanted if not any(_offers(each, service) for each in own)]
            if lacking:
                has = "have" if every or len(shut) > 1 else "has"
                message = f"{where} {has} no route out, and VPC {vpc.path} has no endpoint for {', '.join(lacking)}"
                interfaces = ", ".join(each for each in lacking if each != "s3")
                added = [f"interface endpoints for {interfaces}"] if interfaces else []
                added += ["a gateway endpoint for s3"] if "s3" in lacking else []
                fix = f"Add {' and '.join(added)}, or a NAT gateway."
                pods_only = lacking == ["eks-auth"]
                effect = "pods there get no credentials" if pods_only else "nodes there don't become Ready"
                text = f"{message}, so {effect}"
                # A node can start in any of the subnets.
                yield Problem.from_subject(pool, text, fix=fix, unknown=not every)


@rule("GPU078", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html")
def public_subnet_that_gives_no_public_addresses(case: Case) -> Iterator[Problem]:
    """Public subnet assigns no public addresses.

    Nodes there have no way out. For a managed group, EKS reports Ec2SubnetInvalidConfiguration.

    Fix: Set MapPublicIpOnLaunch of the subnet to true, or put the nodes into private subnets.
    """
    cluster = case.cluster
    private = _is_private(cluster)
    for pool in _groups(case):
        interfaces = pool.launch.interfaces
        # EKS checks the subnets of a managed group even if its nodes use a private API endpoint.
        checked = pool.kind == "managed" or private is False
        # GPU105 reports nodes with several interfaces.
        if not checked or len(interfaces) > 1 or not cluster.whole:
            continue
        requested = any(each.public not in (None, False, "false") for each in interfaces)
        bare = [each for each in pool.subnets if _is_bare(each, cluster)]
        if bare and not requested:
            names = ", ".join(str(each.resource) for each in bare)
            effect = "the group fails with Ec2SubnetInvalidConfiguration"
            effect = effect if pool.kind == "managed" else "they can't connect to the API server"
            text = f"public subnet {names} assigns no public address to its nodes, so {effect}"
            yield Problem.from_subject(pool, text)


def _is_bare(subnet: Any, cluster: Cluster) -> bool:
    found = referred(subnet, cluster.resources)
    given = found.properties.get("MapPublicIpOnLaunch") if found else True
    public = way_out(subnet, cluster.resources) == "internet gateway"
    return public and not isinstance(given, Unknown) and not is_true(given)


@rule("GPU079", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html")
def security_groups_of_the_nodes_let_nothing_out_on_port_443(case: Case) -> Iterator[Problem]:
    """Security groups of the nodes block outbound port 443.

    Nodes can't connect to the API server or a registry, and don't join.

    Fix: Allow outbound TCP 443, or give the nodes the cluster's security group.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        groups = known_groups(pool_security_groups(pool), cluster.resources)
        if groups is None:
            continue
        written = [rules(each, "Egress", cluster.resources) for each in groups]
        # A group without rules allows all outbound traffic.
        if not all(written):
            continue
        if not any(covers_port(rule, 443) for each in written for rule in each or ()):
            names = ", ".join(each.path for each in groups)
            text = f"security group {names} of its nodes doesn't allow outbound TCP 443, so they can't join the cluster"
            yield Problem.from_subject(pool, text)


@rule("GPU080", "error", source=_REQUIREMENTS)
def vpc_dns_is_disabled(case: Case) -> Iterator[Problem]:
    """DNS support or DNS hostnames of the VPC are off.

    Nodes can't register: the names of a private API server and of endpoints don't resolve.

    Fix: Set EnableDnsSupport and EnableDnsHostnames of the VPC to true.
    """
    seen = set()
    for pool in _groups(case):
        for vpc in pool_vpcs(pool, case.cluster.resources):
            support, hostnames = (vpc.properties.get(f"EnableDns{each}") for each in ("Support", "Hostnames"))
            off = [
                *(["EnableDnsSupport"] if support in (False, "false") else []),
                *(["EnableDnsHostnames"] if not is_true(hostnames) and not isinstance(hostnames, Unknown) else []),
            ]
            if off and vpc.key not in seen:
                seen.add(vpc.key)
                names = " and ".join(off)
                text = (
                    f"{names} of its VPC {vpc.path} {'is' if len(off) == 1 else 'are'} off, so its nodes can't resolve "
                    "the API server's private endpoint and VPC endpoints, and don't join"
                )
                yield Problem.from_subject(pool, text, fix=f"Set {names} of VPC {vpc.path} to true.")


@rule("GPU081", "warning", source="https://docs.aws.amazon.com/eks/latest/best-practices/ip-opt.html")
def nodes_exceed_subnet_addresses(case: Case) -> Iterator[Problem]:
    """Pool can have more nodes than its subnets have addresses for.

    Launches fail with InsufficientFreeAddressesInSubnet, or pods get no address.

    Fix: Use larger subnets, efa-only interfaces or WARM_IP_TARGET of the network plugin, or lower MaxSize of the group.
    """
    cluster = case.cluster
    for pool in _groups(case):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        free = _free_addresses(pool, cluster)
        if free is None or not rows or not pool.max_nodes:
            continue
        each_takes = min(_addresses(pool, row, cluster) for row in rows)
        if each_takes * pool.max_nodes > free:
            message = f"{pool.max_nodes} nodes need at least {each_takes * pool.max_nodes} addresses, "
            guessed = cluster.addon(VPC_CNI) is None and not cluster.sees_objects
            text = message + f"but its subnets have {free}"
            yield Problem.from_subject(pool, text, fix=_fix_of_addresses(pool, cluster), unknown=guessed)


def _fix_of_addresses(pool: Pool, cluster: Cluster) -> str:
    """Return how a pool needs fewer addresses."""
    if any(each.kind == "efa" for each in pool.launch.interfaces[1:]):
        return "Use larger subnets, or set InterfaceType: efa-only for all interfaces except the first one."
    if _fills_interfaces(cluster):
        return "Use larger subnets, or set WARM_IP_TARGET in the configuration of add-on vpc-cni, for example to 2."
    return "Use larger subnets, or lower MaxSize of the group."


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
    """Whether the network plugin certainly keeps every address of an interface ready, which is its default."""
    addon = cluster.addon(VPC_CNI)
    env = mapping(dig(addon.configuration, "env")) if addon else {}
    ipv6 = setting(cluster, "KubernetesNetworkConfig", "IpFamily") not in (None, "ipv4")
    return (addon is not None or _is_eks_own(cluster)) and not ipv6 and not any(each in env for each in _FRUGAL)


def _is_eks_own(cluster: Cluster) -> bool:
    """Whether EKS installs the network plugin in a new cluster, and the input doesn't change it."""
    bare = setting(cluster, "BootstrapSelfManagedAddons") in (None, True, "true")
    brought = any(cluster.chart(each) for each in (VPC_CNI, *NETWORKS))
    written = any(each.name == AWS_NODE for each in cluster.objects_of_kind("DaemonSet"))
    return bare and cluster.sees_objects and not cluster.auto_mode and not brought and not written


@rule("GPU294", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", presumed=True)
def zone_that_eks_refuses_for_the_control_plane(case: Case) -> Iterator[Problem]:
    """EKS doesn't support a zone of the cluster's subnets.

    CreateCluster fails. The zone has a fixed id, but its name differs between accounts.

    Fix: Give the cluster subnets with another AvailabilityZoneId; nodes can stay in this zone.
    """
    cluster = case.cluster
    if cluster.resource is None:
        return
    subnets = items(setting(cluster, "ResourcesVpcConfig", "SubnetIds"))
    refused = [(_subnet_name(each, cluster), found) for each in subnets if (found := _refused(each, cluster))]
    surely = [(name, zone) for name, (zone, sure) in refused if sure]
    if surely:
        name, zone = surely[0]
        yield Problem(cluster.resource, f"cluster {cluster.name}: subnet {name} is in zone {zone}, which EKS rejects")
    elif refused:
        names = ", ".join(dict.fromkeys(name for name, _ in refused))
        noun = "subnets" if "," in names else "subnet"
        text = f"cluster {cluster.name}: {noun} {names} may be in zone {refused[0][1][0]}, which EKS rejects"
        fix = (
            "Run 'aws ec2 describe-availability-zones' to find the id of each zone and use other zones; with this "
            "library, "
            "GpuCluster avoids the zone if availability_zones of gpu_vpc isn't set."
        )
        yield Problem(cluster.resource, text, fix, unknown=True)


@rule("GPU385", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", stops=False)
def control_plane_in_one_zone(case: Case) -> Iterator[Problem]:
    """All subnets of the control plane are in one zone.

    CreateCluster fails: EKS needs subnets in at least two Availability Zones.

    Fix: Give the cluster subnets in two zones or more; nodes may stay in one.
    """
    cluster = case.cluster
    listed = items(setting(cluster, "ResourcesVpcConfig", "SubnetIds")) if cluster.resource else []
    found = [referred(each, cluster.resources) for each in listed]
    zones = [each.properties.get("AvailabilityZone") if each else None for each in found]
    known = [each for each in zones if isinstance(each, (str, Unknown))]
    alike = len(known) == len(listed) > 1 and are_apart(known) is Answer.NO
    # A cluster on an Outpost is in one place.
    if cluster.resource is None or setting(cluster, "OutpostConfig") is not None or not alike:
        return
    unsure = any(each.conditional for each in found if each)
    text = f"cluster {cluster.name}: EKS needs subnets in at least 2 zones, but all of them are in {zones[0]}"
    yield Problem(cluster.resource, text, unknown=unsure)


def _subnet_name(subnet: Any, cluster: Cluster) -> str:
    """Return a subnet's name in messages: its path, or the value that refers to it."""
    found = referred(subnet, cluster.resources)
    return found.path if found else str(subnet)


def _refused(subnet: Any, cluster: Cluster) -> tuple[str, bool] | None:
    """Return the rejected zone that a subnet is in, and whether it surely is; ``None`` for other zones."""
    found = referred(subnet, cluster.resources)
    placed = found.properties if found else {}
    if isinstance(zone := placed.get("AvailabilityZoneId"), str):
        return (zone, found is not None and not found.conditional) if zone in REFUSED_ZONE_ID.values() else None
    name = placed.get("AvailabilityZone")
    named = _NAME.fullmatch(name) if isinstance(name, str) else None
    region = named[1] if named else cluster.resource.region if cluster.resource else None
    return (REFUSED_ZONE_ID[region], False) if region and region in REFUSED_ZONE_ID else None


@rule("GPU454", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html")
def more_pods_than_addresses_of_a_node(case: Case) -> Iterator[Problem]:
    """Node accepts more pods than it has addresses for.

    The scheduler fills the node, and pods without an address wait in ContainerCreating.

    Fix: Turn prefix delegation of the network plugin on (with this library: GpuCluster(prefix_delegation=True)), or
    lower maxPods.
    """
    if not _gives_single_addresses(case.cluster):
        return
    # Pods on the host network use the address of their node.
    without = sum(each.pod.host_network for each in case.cluster.daemon_sets)
    for pool in case.gpu_pools:
        max_pods = kubelet_max_pods(pool)
        room = {name: eni_pods(catalogue()[name]) for name in gpu_types(pool)}
        known = {name: pods for name, pods in room.items() if pods is not None}
        if max_pods is not None and known and len(known) == len(room) and max_pods > max(known.values()) + without:
            most = max(known, key=lambda name: known[name])
            text = (
                f"kubelet accepts {max_pods} pods, but {most} has addresses for only {known[most]}, so others wait in"
            )
            fix = (
                "Turn prefix delegation of the network plugin on (with this library: "
                f"GpuCluster(prefix_delegation=True)), or set maxPods to {known[most]}."
            )
            yield Problem.from_subject(pool, f"{text} ContainerCreating", fix=fix)


def _gives_single_addresses(cluster: Cluster) -> bool:
    """Whether the input has the network plugin's add-on, and it certainly assigns no address prefixes."""
    addon = cluster.addon(VPC_CNI)
    others = any(cluster.chart(each) for each in NETWORKS)
    if addon is None or others or any(each.name == AWS_NODE for each in cluster.objects_of_kind("DaemonSet")):
        return False
    if isinstance(addon.resource.properties.get("ConfigurationValues"), Unknown) and not addon.configuration:
        return False
    prefixes = dig(addon.configuration, "env", _PREFIXES)
    ipv4 = setting(cluster, "KubernetesNetworkConfig", "IpFamily") in (None, "ipv4")
    return ipv4 and not isinstance(prefixes, Unknown) and not is_true(prefixes)


@rule(
    "GPU433",
    "note",
    source="https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html",
)
def network_policy_that_nothing_enforces(case: Case) -> Iterator[Problem]:
    """NetworkPolicy isn't enforced.

    The API server accepts the policy, but every pod stays open: the VPC CNI enforces policies only if it is configured
    to.

    Fix: Set enableNetworkPolicy: "true" in the add-on's ConfigurationValues; with this library:
    GpuCluster(network_policies=True).
    """
    cluster = case.cluster
    addon = next((each for each in cluster.addons if each.name == VPC_CNI), None)
    if addon is None or _enforces(addon) or _has_another(cluster):
        return
    unknown = bool(cluster.unknown_software) or addon.resource.conditional or _is_open(addon)
    for each in cluster.objects_of_kind("NetworkPolicy"):
        if each.group == "networking.k8s.io":
            text = f"NetworkPolicy {each.namespace}/{each.name} has no effect: {_SWITCH} of add-on {VPC_CNI} is off"
            yield Problem(each, text, unknown=unknown)


def _enforces(addon: Addon) -> bool:
    return is_true(addon.configuration.get(_SWITCH))


def _is_open(addon: Addon) -> bool:
    written = addon.resource.properties.get("ConfigurationValues")
    return isinstance(written, Unknown) or isinstance(addon.configuration.get(_SWITCH), Unknown)


def _has_another(cluster: Cluster) -> bool:
    by_chart = any(cluster.chart(each) for each in NETWORKS)
    return by_chart or any(each.name in _OTHERS for each in cluster.daemon_sets)
