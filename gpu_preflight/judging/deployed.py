"""What an update of a stack meets: blocks, zones and launch templates, and nodes that keep running."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.judging.things import Thing, references, resource_properties
from gpu_preflight.judging.written import differ, plain
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.unknown import dig, known_text

# Address blocks of a VPC, which must not overlap while both exist.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_BLOCKS = ("AWS::EC2::Subnet", "AWS::EC2::VPCCidrBlock")


@dataclass(frozen=True, slots=True)
class Deployed:
    """What an update meets.

    Attributes:
        blocks: Address blocks: resource type, VPC, block, and key of the resource.
        launches: Keys of launch templates that get another content.
        managed_launches: Keys of launch templates of managed groups.
        group_versions: Kubernetes versions of the managed groups of the first version, by the key of their cluster and
            by their place.
        node_roles: Keys of roles of nodes whose pool stays, with the pool.
        orphans: The keys among them of roles that the pool doesn't have in the second version.
        zones: Zones of the subnets of the first version, and of the second one, by the key of the subnet.
    """

    blocks: tuple[tuple[str, str, IPv4Network, str], ...]
    launches: frozenset[str]
    managed_launches: frozenset[str]
    group_versions: Mapping[str, Mapping[str, tuple[int, int]]]
    node_roles: Mapping[str, str]
    orphans: Mapping[str, str]
    zones: tuple[Mapping[str, str], ...]

    def overlapping(self, thing: Thing) -> str:
        """Return the deployed block that a new resource would overlap; empty if there is none."""
        made = _block(thing.resource) if thing.resource is not None and thing.applied is None else None
        if made is None:
            return ""
        type, vpc, network, _ = made
        alike = (each for each in self.blocks if each[:2] == (type, vpc) and each[2].overlaps(network))
        return next((f"{network} overlaps {each[2]} of {each[3]}, which is deleted later" for each in alike), "")


def compare_deployed(before: Mapping[tuple[str, ...], Thing], after: Mapping[tuple[str, ...], Thing]) -> Deployed:
    """Return what an update from one version to another meets."""
    own = [each for each in before.values() if each.applied is None and each.resource is not None]
    launches = frozenset(
        each.resource.key
        for each in own
        if each.resource is not None and each.kind == "AWS::EC2::LaunchTemplate" and each.key in after
        if differ(dict(each.resource.properties), dict(resource_properties(after[each.key])))
    )
    groups = [each for each in after.values() if each.kind == "AWS::EKS::Nodegroup"]
    managed = frozenset(key for each in groups for key in references(resource_properties(each).get("LaunchTemplate")))
    blocks = tuple(block for each in own if each.resource is not None and (block := _block(each.resource)) is not None)
    zones = tuple(
        {
            each.resource.key: str(plain(zone))
            for each in things.values()
            if each.resource is not None and each.kind == "AWS::EC2::Subnet"
            if (zone := each.resource.properties.get("AvailabilityZone"))
        }
        for things in (before, after)
    )
    return Deployed(
        blocks,
        launches,
        managed,
        _group_versions(own),
        _node_roles(before, after, orphaned=False),
        _node_roles(before, after, orphaned=True),
        zones,
    )


def _group_versions(things: list[Thing]) -> Mapping[str, Mapping[str, tuple[int, int]]]:
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for each in things:
        properties = resource_properties(each)
        version = known_text(properties.get("ReleaseVersion")) or known_text(properties.get("Version"))
        if each.kind == "AWS::EKS::Nodegroup" and version:
            for cluster in references(properties.get("ClusterName")):
                found.setdefault(cluster, {})[each.where] = minor(version)
    return found


def _block(resource: Resource) -> tuple[str, str, IPv4Network, str] | None:
    block, vpc = (plain(resource.properties.get(each)) for each in ("CidrBlock", "VpcId"))
    if resource.type not in _BLOCKS or not isinstance(block, str) or vpc is None:
        return None
    try:
        return resource.type, str(vpc), IPv4Network(block), resource.key
    except ValueError:
        return None


def _node_roles(
    before: Mapping[tuple[str, ...], Thing], after: Mapping[tuple[str, ...], Thing], *, orphaned: bool
) -> Mapping[str, str]:
    """Return roles of nodes whose pool stays, with the pool; if `orphaned`, those that the pool doesn't have any more.

    Only new nodes get another role. Those that run keep the old one, until Karpenter replaces them within its budgets,
    or somebody deletes them.
    """
    profiles = {
        each.resource.key: references(each.resource.properties.get("Roles"))
        for each in before.values()
        if each.resource is not None and each.kind == "AWS::IAM::InstanceProfile"
    }
    found: dict[str, str] = {}
    for key, each in before.items():
        if key in after:
            kept = _roles_of_nodes(after[key]) if orphaned else set()
            for name in _roles_of_nodes(each) - kept:
                found |= {role: each.where for role in profiles.get(name, {name})}
    return found


def _roles_of_nodes(thing: Thing) -> set[str]:
    """Return the roles or instance profiles with which something starts nodes that the template doesn't replace."""
    if thing.applied is not None and thing.applied.kind in ("EC2NodeClass", "NodeClass"):
        return references([thing.applied.spec.get(each) for each in ("role", "instanceProfile")])
    if thing.kind == "AWS::EC2::LaunchTemplate":
        return references(dig(dict(resource_properties(thing)), "LaunchTemplateData", "IamInstanceProfile"))
    return set()
