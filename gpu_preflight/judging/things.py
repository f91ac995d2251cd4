"""The resources and objects of an input, and what makes them the same in another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.judging.written import plain
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.resources import is_of_eksctl
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_true

_MANIFEST, CHART = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
# Properties that AWS has once, so that a second resource cannot have them while the first one exists.
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


@dataclass(frozen=True, slots=True)
class Thing:
    """A resource, or an object that a resource applies or that is in a file.

    Attributes:
        key: What makes it the same in two inputs.
        kind: Its type, or API group and kind.
        where: How people find it.
        once: What AWS or the cluster has once, its name last; ``None`` where there may be several.
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
    """Return a thing as it reads once the resources with some keys are replaced."""
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
    """Return a value in which each reference to a resource that is replaced reads otherwise than before."""
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
            # What eksctl makes of a change, `pool_changes` and `cluster_changes` say.
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
    """Return what AWS or a cluster has once of a resource; ``None`` if there may be several."""
    if resource.type == "AWS::EC2::VPCEndpoint" and not _is_exclusive(resource):
        return None
    names = ("ClusterName", "Namespace", "Release") if resource.type == CHART else _ONCE.get(resource.type, ())
    values = [plain(resource.properties.get(each)) for each in names]
    return (resource.type, *map(str, values)) if values and values[-1] is not None else None


def _is_exclusive(endpoint: Resource) -> bool:
    """Whether a VPC takes an endpoint for one service once: by its private names, or by its routes.

    Sources: https://docs.aws.amazon.com/vpc/latest/privatelink/interface-endpoints.html (private DNS names),
    https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html (one for a service in a route table)
    """
    kind = endpoint.properties.get("VpcEndpointType") or "Gateway"
    return kind == "Gateway" or is_true(endpoint.properties.get("PrivateDnsEnabled"))


def resource_properties(thing: Thing) -> Mapping[str, Any]:
    """Return the properties of the resource of a thing; none if it is in a file."""
    return thing.resource.properties if thing.resource is not None else {}


def references(value: Any) -> set[str]:
    """Return the keys of the resources that a value refers to."""
    if isinstance(value, Unknown):
        return set(value.resources)
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {key for each in parts for key in references(each)}
