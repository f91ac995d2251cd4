"""Nodes that cannot reach the cluster, AWS or a registry, or for which there are no addresses."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from gpu_constructs.hardware.catalogue import InstanceType, catalogue
from gpu_constructs.preflight.cloudformation import Resource
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.nodes import gpu_types
from gpu_constructs.preflight.references import of_cluster, referred, refers, setting
from gpu_constructs.preflight.routes import is_isolated, vpcs_of, way_out
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.security_groups import covers_port, groups_of, known_groups, rules
from gpu_constructs.preflight.unknown import Unknown, dig, is_true, items, known_text, mapping, mappings

_ENDPOINT = "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html"
_REQUIREMENTS = "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"
_PRIVATE = "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"
_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3")
# VPC keeps the first four addresses of a subnet and the last.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_KEPT_ADDRESSES = 5
# With one of them set, the network plugin takes fewer addresses than whole interfaces, or takes them elsewhere.
_FRUGAL = ("WARM_IP_TARGET", "MINIMUM_IP_TARGET", "ENABLE_PREFIX_DELEGATION", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG")


def _groups(cluster: Cluster) -> list[Pool]:
    return [each for each in cluster.gpu_pools if each.is_group]


def _is_private(cluster: Cluster) -> bool | None:
    """Return whether nodes reach the API server inside the VPC, ``None`` where it is not known."""
    access = setting(cluster, "ResourcesVpcConfig", "EndpointPrivateAccess")
    return None if isinstance(access, Unknown) else is_true(access)


def _no_way_to_api(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.whole or _is_private(cluster) is not False:
        return
    listed = items(setting(cluster, "ResourcesVpcConfig", "PublicAccessCidrs"))
    open_to_all = not listed or "0.0.0.0/0" in listed or any(isinstance(each, Unknown) for each in listed)
    for pool in _groups(cluster):
        if is_isolated(pool, cluster.resources):
            message = f"pool {pool.name}: the API server is public only, and nothing leads out of its subnets"
            yield Problem(pool.origin, message)
        elif not open_to_all:
            cidrs = ", ".join(str(each) for each in listed[:4])
            message = (
                f"pool {pool.name}: its nodes reach the API server from a public address, which {cidrs} must cover"
            )
            yield Problem(pool.origin, message, unknown=True)


def _offers(endpoint: Resource, service: str) -> bool:
    name = endpoint.properties.get("ServiceName")
    text = str(name)
    return text.endswith((f".{service}", f".{service}-fips")) or (isinstance(name, Unknown) and "}." not in text)


def _missing_endpoints(cluster: Cluster) -> Iterator[Problem]:
    identities = of_cluster(cluster, "AWS::EKS::PodIdentityAssociation")
    wanted = (*_SERVICES, "eks-auth") if identities else _SERVICES
    for pool in _groups(cluster):
        if not is_isolated(pool, cluster.resources):
            continue
        for vpc in vpcs_of(pool, cluster.resources):
            own = [
                each
                for each in cluster.resources_of("AWS::EC2::VPCEndpoint")
                if refers(each.properties.get("VpcId"), vpc)
                or referred(each.properties.get("VpcId"), cluster.resources) is None
            ]
            lacking = [service for service in wanted if not any(_offers(each, service) for each in own)]
            if lacking:
                message = f"pool {pool.name}: nothing leads out of its subnets, and {vpc.path} has no endpoint for "
                yield Problem(pool.origin, message + ", ".join(lacking))


# Others may stand in the VPC.
_PUBLIC_REGISTRIES = (
    *("nvcr.io", "docker.io", "registry.k8s.io", "k8s.gcr.io", "gcr.io", "quay.io", "ghcr.io", "public.ecr.aws"),
)
# What the chart pulls from, and the value that says otherwise.
_CHART_IMAGES = {
    "nvidia-device-plugin": ("image", "repository"),
    "dcgm-exporter": ("image", "repository"),
    "gpu-operator": ("operator", "repository"),
}
_NVIDIA = "nvcr.io"


def _out_of_reach(cluster: Cluster) -> Iterator[Problem]:
    isolated = [each for each in _groups(cluster) if is_isolated(each, cluster.resources) and not _is_mirrored(each)]
    if not isolated or len(isolated) != len(cluster.gpu_pools):
        return
    names = ", ".join(each.name for each in isolated)
    tail = f"nodes of {names} pull from ECR in their VPC only"
    for workload in cluster.workloads:
        for image in sorted(_foreign(workload.containers)) if workload.asks_for_gpu else ():
            yield Problem(workload.origin, f"{workload.name}: image {image}, and {tail}")
    for daemon in cluster.daemon_sets:
        for image in sorted(_foreign(mappings(daemon.pod.get("containers")))):
            yield Problem(daemon.origin, f"DaemonSet {daemon.name}: image {image}, and {tail}")
    for chart in cluster.charts:
        if chart.name in _CHART_IMAGES and dig(dict(chart.values), *_CHART_IMAGES[chart.name]) is None:
            yield Problem(chart.origin, f"chart {chart.name}: its images are on {_NVIDIA}, and {tail}")


def _foreign(containers: list[dict[str, Any]]) -> set[str]:
    images = {known_text(each.get("image")) for each in containers}
    return {each for each in images if each and _is_public(each)}


def _is_public(image: str) -> bool:
    """Whether an image comes from a public registry; one without registry comes from Docker Hub."""
    host, slash, _ = image.partition("/")
    named = bool(slash) and (":" in host or "." in host)
    return host in _PUBLIC_REGISTRIES if named else "${" not in host


def _is_mirrored(pool: Pool) -> bool:
    text = pool.user_data.text or ""
    return pool.user_data.format == "unknown" or any(each in text for each in ("mirrors", "certs.d", "hosts.toml"))


def _no_public_address(cluster: Cluster) -> Iterator[Problem]:
    private = _is_private(cluster)
    for pool in _groups(cluster):
        interfaces = mappings(pool.launch.get("NetworkInterfaces"))
        # Of nodes with several interfaces another rule speaks.
        if private is not False or len(interfaces) > 1 or not cluster.whole:
            continue
        asked = any(each.get("AssociatePublicIpAddress") not in (None, False, "false") for each in interfaces)
        bare = [each for each in pool.subnets if _is_bare(each, cluster)]
        if bare and not asked:
            names = ", ".join(str(each.resource) for each in bare)
            yield Problem(pool.origin, f"pool {pool.name}: public subnet {names} gives its nodes no public address")


def _is_bare(subnet: Any, cluster: Cluster) -> bool:
    found = referred(subnet, cluster.resources)
    given = found.properties.get("MapPublicIpOnLaunch") if found else True
    public = way_out(subnet, cluster.resources) == "internet gateway"
    return public and not isinstance(given, Unknown) and not is_true(given)


def _nothing_out(cluster: Cluster) -> Iterator[Problem]:
    for pool in _groups(cluster):
        groups = known_groups(groups_of(pool), cluster.resources)
        if groups is None:
            continue
        written = [rules(each, "Egress", cluster.resources) for each in groups]
        # A group without rules lets everything out.
        if not all(written):
            continue
        if not any(covers_port(rule, 443) for each in written for rule in each or ()):
            names = ", ".join(each.path for each in groups)
            yield Problem(pool.origin, f"pool {pool.name}: {names} lets nothing out on port 443")


def _no_names(cluster: Cluster) -> Iterator[Problem]:
    seen = set()
    for pool in _groups(cluster):
        for vpc in vpcs_of(pool, cluster.resources):
            support, hostnames = (vpc.properties.get(f"EnableDns{each}") for each in ("Support", "Hostnames"))
            off = [
                *(["EnableDnsSupport"] if support in (False, "false") else []),
                *(["EnableDnsHostnames"] if not is_true(hostnames) and not isinstance(hostnames, Unknown) else []),
            ]
            if off and vpc.key not in seen:
                seen.add(vpc.key)
                yield Problem(pool.origin, f"pool {pool.name}: {' and '.join(off)} of {vpc.path} is off")


def _too_few_addresses(cluster: Cluster) -> Iterator[Problem]:
    for pool in _groups(cluster):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        free = _free_addresses(pool, cluster)
        if free is None or not rows or not pool.max_nodes:
            continue
        each_takes = min(_addresses(pool, row, cluster) for row in rows)
        if each_takes * pool.max_nodes > free:
            message = (
                f"pool {pool.name}: {pool.max_nodes} nodes take at least {each_takes * pool.max_nodes} addresses, "
            )
            yield Problem(pool.origin, message + f"its subnets have {free}")


def _free_addresses(pool: Pool, cluster: Cluster) -> int | None:
    subnets = [referred(each, cluster.resources) for each in pool.subnets]
    sizes = [_size(each.properties.get("CidrBlock")) if each else None for each in subnets]
    known = [each for each in sizes if each is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _size(block: Any) -> int | None:
    try:
        return ip_network(block, strict=False).num_addresses - _KEPT_ADDRESSES if isinstance(block, str) else None
    except ValueError:
        return None


def _addresses(pool: Pool, row: InstanceType, cluster: Cluster) -> int:
    interfaces = mappings(pool.launch.get("NetworkInterfaces"))
    own = sum(each.get("InterfaceType") != "efa-only" for each in interfaces) or 1
    filled = (row.ipv4_per_interface or 1) - 1 if _fills_interfaces(cluster) else 0
    return own + filled


def _fills_interfaces(cluster: Cluster) -> bool:
    """Whether the network plugin certainly keeps every address of an interface ready, as it does by default."""
    addon = cluster.addon("vpc-cni")
    told = mapping(dig(dict(addon.configuration), "env")) if addon else {}
    ipv6 = setting(cluster, "KubernetesNetworkConfig", "IpFamily") not in (None, "ipv4")
    return addon is not None and not ipv6 and not any(each in told for each in _FRUGAL)


RULES = (
    Rule(
        id="GPU075",
        severity="error",
        title="Nodes cannot reach the API server",
        why="Kubelet never registers; a managed group fails with NodeCreationFailure.",
        source=_ENDPOINT,
        fix="Set ResourcesVpcConfig.EndpointPrivateAccess of the cluster to true.",
        causes=("C6",),
        check=_no_way_to_api,
    ),
    Rule(
        id="GPU076",
        severity="error",
        title="Image that isolated nodes cannot pull",
        why="The pods stay in ImagePullBackOff; without the device plugin no GPU is advertised either.",
        source=_PRIVATE,
        fix="Copy the image to ECR, by a pull-through cache for instance, and name it from there.",
        causes=("C7", "D17"),
        check=_out_of_reach,
    ),
    Rule(
        id="GPU077",
        severity="error",
        title="Isolated nodes without the VPC endpoints they need",
        why="Nodes cannot find out about themselves, pull images or get credentials for pods, and do not become Ready.",
        source=_PRIVATE,
        fix="Add interface endpoints for the services, and a gateway endpoint for S3, or a NAT gateway.",
        causes=("C7", "C24"),
        check=_missing_endpoints,
    ),
    Rule(
        id="GPU078",
        severity="error",
        title="Public subnet that gives no public addresses",
        why="Nodes there have no way to a public API server; EKS reports Ec2SubnetInvalidConfiguration.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html",
        fix="Set MapPublicIpOnLaunch of the subnet to true, or put the nodes into private subnets.",
        causes=("C8",),
        check=_no_public_address,
    ),
    Rule(
        id="GPU079",
        severity="error",
        title="Security groups of the nodes let nothing out on port 443",
        why="Nodes reach neither the API server nor a registry, and do not join.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html",
        fix="Allow TCP 443 out, or give the nodes the cluster's security group.",
        causes=("C9",),
        check=_nothing_out,
    ),
    Rule(
        id="GPU080",
        severity="error",
        title="DNS of the VPC is off",
        why="Nodes cannot register: the names of a private API server and of endpoints do not resolve.",
        source=_REQUIREMENTS,
        fix="Set EnableDnsSupport and EnableDnsHostnames of the VPC to true.",
        causes=("C10",),
        check=_no_names,
    ),
    Rule(
        id="GPU081",
        severity="warning",
        title="More nodes than the subnets have addresses for",
        why="Launches fail with InsufficientFreeAddressesInSubnet, or pods get no address.",
        source="https://docs.aws.amazon.com/eks/latest/best-practices/ip-opt.html",
        fix="Take larger subnets, efa-only interfaces, or WARM_IP_TARGET or prefix delegation of the network plugin.",
        causes=("C11", "P033"),
        check=_too_few_addresses,
    ),
)
