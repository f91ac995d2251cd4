"""The subnets of nodes and pods: selection, zones and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from gpu_facts.labels import ZONE
from gpu_facts.refusals import has_token, is_token, refuse_unless_zone

_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
# Every group of nodes uses the same few subnets.
_ZONES: WeakKeyDictionary[ec2.ISubnet, str | None] = WeakKeyDictionary()
_BLOCKS: WeakKeyDictionary[ec2.ISubnet, str | None] = WeakKeyDictionary()


def node_subnets(vpc: ec2.IVpc) -> list[ec2.ISubnet]:
    """Return the subnets of a VPC for nodes: the private ones, otherwise the isolated ones."""
    return list(vpc.private_subnets) or list(vpc.isolated_subnets)


# Routes and endpoints to AWS, and clusters, by their VPC.
_MET: WeakKeyDictionary[ec2.IVpc, tuple[list[Construct], list[Construct]]] = WeakKeyDictionary()


def meet_in_vpc(vpc: ec2.IVpc, *, way: Construct | None = None, cluster: Construct | None = None) -> None:
    """Create a cluster after the connections to AWS of its VPC, and delete it before them.

    Without them, functions and nodes in isolated subnets have no connection. A deletion that removed them first
    couldn't delete nodes. You may define the cluster and the connections in either order. The order applies only within
    one stack. The app orders its stacks.
    """
    ways, clusters = _MET.setdefault(vpc, ([], []))
    ways += [way] if way is not None else []
    clusters += [cluster] if cluster is not None else []
    for one in [cluster] if cluster is not None else clusters:
        for other in [way] if way is not None else ways:
            if cdk.Stack.of(one) is cdk.Stack.of(other):
                one.node.add_dependency(other)


def ways_of_vpc(vpc: ec2.IVpc) -> list[Construct]:
    """Return the connections to AWS that the app created for a VPC."""
    return _MET.get(vpc, ([], []))[0]


def refuse_unless_vpc(who: object, vpc: object) -> None:
    """Reject a value that isn't a VPC.

    Raises:
        TypeError: ``vpc`` isn't a VPC, for example an id.
    """
    if not hasattr(vpc, "private_subnets"):
        raise TypeError(f"{who}: vpc must be an ec2.IVpc, got {vpc!r}; import one with Vpc.from_lookup")


def given_subnets(given: object, who: object) -> list[ec2.ISubnet]:
    """Return subnets that the user passed.

    Raises:
        TypeError: ``given`` isn't a list of subnets.
        ValueError: It is empty.
    """
    if not isinstance(given, (list, tuple)) or not all(hasattr(each, "subnet_id") for each in given):
        raise TypeError(
            f"{who}: subnets must be a list of ec2.ISubnet, got {given!r}; import one with Subnet.from_subnet_id"
        )
    if not given:
        raise ValueError(
            f"{who}: subnets must name at least one subnet, got none; leave it out for the subnets of the VPC"
        )
    return list(given)


def in_zone(subnets: list[ec2.ISubnet], zone: str, who: object, *, unknown: bool) -> list[ec2.ISubnet]:
    """Return the subnets in a zone. With ``unknown``, also those whose zone is known only at deployment.

    Raises:
        ValueError: There is no such subnet.
    """
    zones = {subnet: subnet_zone(subnet) for subnet in subnets}
    found = [subnet for subnet, where in zones.items() if where == zone or (where is None and unknown)]
    if not found:
        known = ", ".join(sorted({str(where) for where in zones.values() if where})) or "zones known only at deployment"
        raise ValueError(
            f"{who}: subnets must be in {zone!r}, the zone of the reservation, got {known}; pass a subnet there"
        )
    return found


def subnet_ipv4_block(subnet: ec2.ISubnet) -> str | None:
    """Return the address block of a subnet, or ``None`` if it is known only at deployment."""
    if subnet not in _BLOCKS:
        _BLOCKS[subnet] = _read_ipv4_block(subnet)
    return _BLOCKS[subnet]


def _read_ipv4_block(subnet: ec2.ISubnet) -> str | None:
    try:
        block = subnet.ipv4_cidr_block
    except (jsii.errors.JSIIError, RuntimeError):
        return None
    return None if has_token(block) else block


def subnet_zone(subnet: ec2.ISubnet) -> str | None:
    """Return the zone of a subnet, or ``None`` if it is known only at deployment."""
    if subnet not in _ZONES:
        _ZONES[subnet] = _read_zone(subnet)
    return _ZONES[subnet]


def move_to_zone_id(subnet: ec2.ISubnet, zone_id: str) -> None:
    """Move a subnet of `gpu_vpc` to a zone given by its id. The name of the zone is then unknown."""
    resource = cast("ec2.CfnSubnet", subnet.node.default_child)
    resource.availability_zone = None
    resource.availability_zone_id = zone_id
    _ZONES[subnet] = None


def _read_zone(subnet: ec2.ISubnet) -> str | None:
    try:
        zone = subnet.availability_zone
    except (jsii.errors.JSIIError, RuntimeError):
        return None
    if is_token(zone):
        return None
    # A moved subnet has the id of its zone, not the name.
    resource = subnet.node.default_child
    return None if isinstance(resource, ec2.CfnSubnet) and resource.availability_zone_id else zone


def zones_at_most(subnets: Iterable[ec2.ISubnet]) -> int:
    """Return the max number of zones of subnets. Each subnet with an unknown zone may be in a further zone."""
    zones = [subnet_zone(each) for each in subnets]
    return len({each for each in zones if each is not None}) + zones.count(None)


@dataclass(frozen=True, kw_only=True, slots=True)
class PodNetwork:
    """Addresses of pods.

    Attributes:
        subnets: Ids of the subnets of pods, by zone. Empty if pods use the subnets of the nodes.
        prefixes: Whether a node allocates addresses in blocks of sixteen.
    """

    subnets: Mapping[str, str]
    prefixes: bool

    @property
    def is_usual(self) -> bool:
        """Whether the network plugin uses its defaults: pods get single addresses from the nodes' own subnets."""
        return not self.subnets and not self.prefixes

    def values(self, region: str) -> dict[str, Any]:
        """Return the configuration of the add-on vpc-cni.

        Sources: configuration schema of the add-on, aws/amazon-vpc-cni-k8s v1.23.0 README.md (2026-11)
        """
        env: dict[str, str] = {}
        found: dict[str, Any] = {}
        if self.prefixes:
            env |= {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}
        if self.subnets:
            env |= {"AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG": "true", "ENI_CONFIG_LABEL_DEF": ZONE}
            # Without security groups, a pod interface gets the groups of the node's first interface.
            subnets = {zone: {"id": subnet} for zone, subnet in self.subnets.items()}
            found["eniConfig"] = {"create": True, "region": region, "subnets": subnets}
        return found | {"env": env} if env else found


def subnets_by_zone(who: object, argument: str, given: object) -> dict[str, str]:
    """Return subnet ids by zone name.

    Raises:
        TypeError: ``given`` isn't a mapping of strings.
        ValueError: A zone or an id is invalid, or a zone is known only at deployment.
    """
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{who}: {argument} must map zones to subnet ids, got {given!r}; write {{'us-east-1a': 'subnet-...'}}"
        )
    for zone, subnet in given.items():
        refuse_unless_zone(who, argument, zone)
        if is_token(zone):
            raise ValueError(
                f"{who}: {argument} must have literal zones as keys, got a token; write the names of the zones"
            )
        if not isinstance(subnet, str):
            raise TypeError(
                f"{who}: {argument}[{zone!r}] must be the id of a subnet, got {subnet!r}; write it as a string"
            )
        if not is_token(subnet) and not _SUBNET.fullmatch(subnet):
            raise ValueError(
                f"{who}: {argument}[{zone!r}] must be the id of a subnet, got {subnet!r}; write one such as "
                "'subnet-0123456789abcdef0'"
            )
    if not given:
        raise ValueError(
            f"{who}: {argument} must name a subnet for each zone of nodes, got none; add them, or leave it out"
        )
    return dict(given)


def refuse_zones_without_pods(who: object, network: PodNetwork | None, subnets: Iterable[ec2.ISubnet]) -> None:
    """Reject nodes in a zone without a pod subnet, if pods have their own subnets.

    Raises:
        ValueError: A zone of nodes has no pod subnet.
    """
    if network is None or not network.subnets:
        return
    missing = sorted({zone for each in subnets if (zone := subnet_zone(each)) is not None} - network.subnets.keys())
    if missing:
        raise ValueError(
            f"{who}: pod_subnets must have a subnet for each zone of nodes, got none for {', '.join(missing)}; add "
            "one, because pods there would get no address"
        )
