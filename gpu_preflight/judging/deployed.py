"""The resources and objects of a first deployment that a second one finds in the account, and their identity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

from gpu_facts.light import dataclass
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import is_of_eksctl
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_text

_SHOWN = 60
# Number of characters that are shown before the first difference.
_BEFORE = 20
# Keys that name an item of a list: of containers, tags, block devices, requirements and tag specifications.
_NAMES = ("name", "Name", "key", "Key", "deviceName", "DeviceName", "ResourceType")
_MANIFEST, CHART = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
# Unique properties in AWS. A second resource can't have the same value while the first one exists.
_ONCE: Mapping[str, tuple[str, ...]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("AutoScalingGroupName",),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateName",),
    "AWS::EC2::Subnet": ("VpcId", "CidrBlock"),
    "AWS::EC2::VPCEndpoint": ("VpcId", "ServiceName"),
    "AWS::EKS::AccessEntry": ("ClusterName", "PrincipalArn"),
    "AWS::EKS::Addon": ("ClusterName", "AddonName"),
    "AWS::EKS::Cluster": ("Name",),
    "AWS::EKS::Nodegroup": ("ClusterName", "NodegroupName"),
    "AWS::EKS::PodIdentityAssociation": ("ClusterName", "Namespace", "ServiceAccount"),
    "AWS::Events::Rule": ("Name",),
    "AWS::IAM::InstanceProfile": ("InstanceProfileName",),
    "AWS::IAM::ManagedPolicy": ("ManagedPolicyName",),
    "AWS::IAM::Role": ("RoleName",),
    "AWS::KMS::Alias": ("AliasName",),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::SQS::Queue": ("QueueName",),
    "AWS::SSM::Parameter": ("Name",),
    "AWS::Scheduler::Schedule": ("Name",),
}
# Address blocks of a VPC, which must not overlap while both exist.
# Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
_BLOCKS = ("AWS::EC2::Subnet", "AWS::EC2::VPCCidrBlock")


def plain(value: Any) -> Any:
    """Return a value for comparison. If only deployment sets it, return its expression."""
    if isinstance(value, Unknown):
        return value.expression
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def differ(before: Any, after: Any) -> bool:
    """Whether two values are written differently."""
    return bool(plain(before) != plain(after))


def moved(name: str, before: Any, after: Any) -> str:
    """Return the change of a value in one line. For long values, return the part around the first difference."""
    return f"{name}: {' -> '.join(value_texts(before, after))}"


def value_texts(before: Any, after: Any) -> tuple[str, str]:
    """Return two values as texts. For long values, return the part around the first difference."""
    texts = _text(before), _text(after)
    pairs = enumerate(zip(*texts, strict=False))
    alike = next((index for index, (one, other) in pairs if one != other), min(map(len, texts)))
    return _cut(texts[0], alike), _cut(texts[1], alike)


def leaf_changes(name: str, before: Any, after: Any, *, joint: str = ".") -> list[str]:
    """Return one line for each value that differs, inside mappings and inside lists of mappings.

    An item of a list is found by its name, e.g. ``BlockDeviceMappings[/dev/xvda].Ebs.VolumeSize: 200 -> 300``. For
    items without names, each removed and each added item has a line.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in dict.fromkeys((*before, *after)) if differ(before.get(key), after.get(key))]
        named = [(f"{name}{joint}{key}" if name else str(key), before.get(key), after.get(key)) for key in keys]
        return [line for each in named for line in leaf_changes(*each, joint=joint)]
    if isinstance(before, list) and isinstance(after, list):
        return _member_changes(name, before, after, joint) or [moved(name, before, after)]
    return [moved(name, before, after)]


def _member_changes(name: str, before: list[Any], after: list[Any], joint: str) -> list[str]:
    """Return the differences of two lists of mappings; nothing for other lists, or for another order."""
    if not all(isinstance(each, dict) for each in (*before, *after)):
        return []
    was, now = _index_by_name(before), _index_by_name(after)
    if was is None or now is None:
        gone = [moved(name, each, None) for each in before if each not in after]
        return gone + [moved(name, None, each) for each in after if each not in before]
    keys = [key for key in dict.fromkeys((*was, *now)) if differ(was.get(key), now.get(key))]
    if len(was) == len(now) == 1 and keys and was.keys() == now.keys():
        return leaf_changes(name, was[keys[0]], now[keys[0]], joint=joint)
    named = [(f"{name}[{key}]", was.get(key), now.get(key)) for key in keys]
    return [line for each in named for line in leaf_changes(*each, joint=joint)]


def _index_by_name(members: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the items of a list by name, for pairs only the value; ``None`` if names are missing or repeated."""
    found: dict[str, Any] = {}
    for each in members:
        key = next((key for key in _NAMES if isinstance(each.get(key), str)), None)
        if key is None or each[key] in found:
            return None
        rest = {name: value for name, value in each.items() if name != key}
        found[each[key]] = next(iter(rest.values())) if [name.lower() for name in rest] == ["value"] else each
    return found


def _cut(text: str, alike: int) -> str:
    """Return a text. Cut a long text to the part that starts shortly before the first difference."""
    if len(text) <= _SHOWN:
        return text
    start = max(0, alike - _BEFORE) if alike > _SHOWN - _BEFORE else 0
    end = start + _SHOWN - 3
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_inside(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(str(plain(each)) for each in value)
    return str(plain(value))


def _inside(value: Any) -> str:
    return f"({', '.join(str(plain(each)) for each in value)})" if isinstance(value, list) else str(plain(value))


@dataclass(frozen=True, slots=True)
class Thing:
    """A resource, or an object that a resource applies or that is in a file.

    Attributes:
        key: A key that is equal for the same thing in two inputs.
        kind: Its type, or API group and kind.
        where: Its place in messages.
        once: Its unique identity in AWS or the cluster, with the name last; ``None`` if there may be several.
        resource: The resource.
        applied: The object.
    """

    key: tuple[str, ...]
    kind: str
    where: str
    once: tuple[str, ...] | None
    resource: Resource | None
    applied: Object | None = None

    @property
    def what(self) -> str:
        """Its type and place."""
        return f"{self.kind} {self.where}"

    @property
    def origin(self) -> Origin | None:
        """Where it is written."""
        made = self.applied or self.resource
        return made.origin if made is not None else None


def renewed_thing(thing: Thing, replaced: frozenset[str]) -> Thing:
    """Return a thing with new values for references to replaced resources."""
    if not replaced or thing.resource is None:
        return thing
    if thing.applied is not None:
        applied = replace(
            thing.applied,
            content=renewed_value(thing.applied.content, replaced),
            cluster=renewed_value(thing.applied.cluster, replaced),
        )
        return replace(thing, applied=applied, once=_object_identity(applied))
    resource = replace(thing.resource, properties=renewed_value(thing.resource.properties, replaced))
    return replace(thing, resource=resource, once=unique_identity(resource))


def renewed_value(value: Any, replaced: frozenset[str]) -> Any:
    """Return a value in which each reference to a replaced resource differs from before."""
    if isinstance(value, Unknown):
        return Unknown(f"new {value.expression}") if replaced & set(value.resources) else value
    if isinstance(value, Mapping):
        return {key: renewed_value(each, replaced) for key, each in value.items()}
    return [renewed_value(each, replaced) for each in value] if isinstance(value, list) else value


def things(read: Input) -> Iterator[Thing]:
    """Yield every resource and object of an input."""
    applied: dict[str, list[Object]] = {}
    for each in read.objects:
        if each.origin.resource in read.resources:
            applied.setdefault(str(each.origin.resource), []).append(each)
        else:
            yield _object(each, None)
    for resource in read.resources.values():
        if resource.type == _MANIFEST and resource.key in applied:
            yield from (_object(each, resource) for each in applied[resource.key])
        elif not is_of_eksctl(resource):
            # `pool_changes` and `cluster_changes` report the changes that eksctl makes.
            yield Thing((resource.key,), resource.type, resource.path, unique_identity(resource), resource)


def _object(each: Object, resource: Resource | None) -> Thing:
    once = _object_identity(each)
    cluster, *rest, namespace, name = once
    where = f"{namespace}/{name}" if namespace else name
    key = (resource.key if resource else cluster, *rest, namespace, name)
    return Thing(key, each.kind, where, once, resource, each)


def _object_identity(each: Object) -> tuple[str, ...]:
    namespace = str(dig(dict(each.content), "metadata", "namespace") or "")
    return str(plain(each.cluster)), each.group, each.kind, namespace, each.name


def unique_identity(resource: Resource) -> tuple[str, ...] | None:
    """Return the unique identity of a resource in AWS or a cluster; ``None`` if there may be several."""
    if resource.type == "AWS::EC2::VPCEndpoint" and not _is_exclusive(resource):
        return None
    names = ("ClusterName", "Namespace", "Release") if resource.type == CHART else _ONCE.get(resource.type, ())
    values = [plain(resource.properties.get(each)) for each in names]
    return (resource.type, *map(str, values)) if values and values[-1] is not None else None


def _is_exclusive(endpoint: Resource) -> bool:
    """Whether a VPC allows only one such endpoint for a service: because of its private names, or of its routes.

    Sources: https://docs.aws.amazon.com/vpc/latest/privatelink/interface-endpoints.html (private DNS names),
    https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html (one for a service in a route table)
    """
    kind = endpoint.properties.get("VpcEndpointType") or "Gateway"
    return kind == "Gateway" or is_true(endpoint.properties.get("PrivateDnsEnabled"))


def resource_properties(thing: Thing) -> Mapping[str, Any]:
    """Return the properties of the resource of a thing; none if the thing is in a file."""
    return thing.resource.properties if thing.resource is not None else {}


def references(value: Any) -> set[str]:
    """Return the keys of the resources that a value refers to."""
    if isinstance(value, Unknown):
        return set(value.resources)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {key for each in parts for key in references(each)}


@dataclass(frozen=True, slots=True)
class Deployed:
    """The deployed state that an update finds.

    Attributes:
        blocks: Address blocks: resource type, VPC, block, and key of the resource.
        launches: Keys of launch templates whose content changes.
        managed_launches: Keys of launch templates of managed groups.
        group_versions: Kubernetes versions of the managed groups of the first version, by the key of their cluster and
            by their place.
        node_roles: Keys of roles of nodes whose pool stays, with the pool.
        orphans: Keys in `node_roles` of roles that the pool doesn't have in the second version.
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
    """Return the deployed state that an update from one version to another finds."""
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
    """Return roles of nodes whose pool stays, with the pool. With `orphaned`, only roles that the pool no longer has.

    Only new nodes get another role. Running nodes keep the old one until Karpenter replaces them within its budgets, or
    until you delete them.
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
    """Return the roles or instance profiles of a thing's nodes that the template doesn't replace."""
    if thing.applied is not None and thing.applied.kind in ("EC2NodeClass", "NodeClass"):
        return references([thing.applied.spec.get(each) for each in ("role", "instanceProfile")])
    if thing.kind == "AWS::EC2::LaunchTemplate":
        return references(dig(dict(resource_properties(thing)), "LaunchTemplateData", "IamInstanceProfile"))
    return set()
