"""What a deployment does to each resource and object that differs between two inputs.

CloudFormation compares two templates by logical id. Its schemas name the properties for which it
makes another resource.
Kubernetes compares an applied object with the one of its name, and rejects a change of some fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from gpu_constructs.facts.schemas import created_with, schema_of
from gpu_constructs.light_dataclasses import dataclass
from gpu_constructs.preflight.judging.immutable_fields import immutable_differences
from gpu_constructs.preflight.judging.written import differ, moved, plain
from gpu_constructs.preflight.reading.cloudformation import Resource
from gpu_constructs.preflight.reading.eksctl.resources import is_of_eksctl
from gpu_constructs.preflight.reading.inputs import Input
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import Unknown, dig, mapping

Change = Literal["destructive", "fails", "left behind", "unknown", "replaced", "removed", "in place", "added"]
# From the one that a reviewer has to see first.
ORDER: tuple[Change, ...] = (
    *("destructive", "fails", "left behind", "unknown", "replaced", "removed", "in place", "added"),
)
_MANIFEST, _CHART = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
_DEFINITION = "CustomResourceDefinition"
# What the types are replaced for of which preflight reads no schema otherwise.
# Source: createOnlyProperties of CloudFormation's schemas of 2026-10-20
_CREATED_WITH: Mapping[str, tuple[str, ...]] = {
    "AWS::CDK::Metadata": (),
    "AWS::CloudWatch::Alarm": ("AlarmName",),
    "AWS::EC2::EgressOnlyInternetGateway": ("VpcId",),
    "AWS::EC2::SubnetCidrBlock": ("Ipv6CidrBlock", "Ipv6IpamPoolId", "Ipv6NetmaskLength", "SubnetId"),
    "AWS::EC2::VPCCidrBlock": (
        *("AmazonProvidedIpv6CidrBlock", "CidrBlock", "Ipv4IpamPoolId", "Ipv4NetmaskLength", "Ipv6CidrBlock"),
        *("Ipv6CidrBlockNetworkBorderGroup", "Ipv6IpamPoolId", "Ipv6NetmaskLength", "Ipv6Pool", "VpcId"),
    ),
    # Its schema leaves out what lies deeper.
    # Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-properties-fsx-filesystem-lustreconfiguration.html
    "AWS::FSx::FileSystem": ("LustreConfiguration/DeploymentType",),
    "AWS::Lambda::Function": ("FunctionName", "PackageType", "TenancyConfig"),
    "AWS::Lambda::LayerVersion": (
        *("CompatibleArchitectures", "CompatibleRuntimes", "Content", "Description", "LayerName", "LicenseInfo"),
    ),
    "AWS::Lambda::Permission": (
        *("Action", "EventSourceToken", "FunctionName", "FunctionUrlAuthType", "InvokedViaFunctionUrl", "Principal"),
        *("PrincipalOrgID", "SourceAccount", "SourceArn"),
    ),
    "AWS::S3::Bucket": ("BucketName", "BucketNamePrefix", "BucketNamespace"),
    "AWS::S3::BucketPolicy": ("Bucket",),
    "AWS::SNS::Topic": ("FifoTopic", "TopicName"),
}
# Custom resources of the CDK and of this library, which their functions update in place.
_IN_PLACE = ("Custom::AWS", "Custom::AWSCDK-", "Custom::Gpu", "Custom::VpcRestrictDefaultSG")
# Properties that AWS has once, so that a second resource cannot have them while the first one exists.
_ONCE: Mapping[str, tuple[str, ...]] = {
    "AWS::AutoScaling::AutoScalingGroup": ("AutoScalingGroupName",),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateName",),
    "AWS::EC2::Subnet": ("VpcId", "CidrBlock"),
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
# What is lost with a resource, or with an object.
_LOST: Mapping[str, str] = {
    "AWS::EFS::FileSystem": "its files are deleted",
    "AWS::EKS::Cluster": "what runs in it is gone",
    "AWS::FSx::FileSystem": "its files are deleted",
    "AWS::KMS::Key": "what it encrypted cannot be read any more",
    "AWS::S3::Bucket": "its files are deleted, or its deletion fails",
}
_LOST_OBJECT: Mapping[tuple[str, str], str] = {
    ("", "Namespace"): "everything in it is deleted",
    ("", "PersistentVolumeClaim"): "its volume is deleted, unless the volume's class keeps it",
    ("apiextensions.k8s.io", _DEFINITION): "every object of it is deleted",
    **{
        each: "a run that has not ended is stopped, and starts from the beginning where there is a new one"
        for each in (
            *(("batch", "Job"), ("jobset.x-k8s.io", "JobSet"), ("kubeflow.org", "MPIJob"), ("ray.io", "RayJob")),
            ("trainer.kubeflow.org", "TrainJob"),
        )
    },
}
_KEPT = ("Retain", "RetainExceptOnCreate", "Snapshot")
_MOST_DETAILS = 3


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """What becomes of a resource or of an object.

    Attributes:
        what: Its type or kind, and where it is.
        change: ``in place``; ``replaced``, another one is created before the old one is deleted; ``added``;
            ``removed``;
            ``destructive``, data or a run is lost; ``fails``, AWS or Kubernetes rejects it and the deployment is rolled
            back; ``left behind``, it goes on without a stack; ``unknown``.
        detail: What differs, and what it means.
    """

    what: str
    change: Change
    detail: str

    @property
    def kind(self) -> str:
        """Its kind, or its resource type without the service."""
        return self.what.partition(" ")[0].rpartition("::")[2].removeprefix("AWSCDK-EKS-")


@dataclass(frozen=True, slots=True)
class _Thing:
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


def resource_changes(old: Input, new: Input) -> tuple[ResourceChange, ...]:
    """Return what becomes of every resource and object that differs, from what is lost to what is added."""
    before, after = ({each.key: each for each in _things(one)} for one in (old, new))
    found, replaced = _updates([(each, after[key]) for key, each in before.items() if key in after])
    gone = [each for key, each in before.items() if key not in after]
    come = [_renewed_thing(each, replaced) for key, each in after.items() if key not in before]
    found += _gone_and_come(gone, come, {each.resource.key for each in after.values() if each.resource})
    return tuple(sorted(found, key=lambda each: (ORDER.index(each.change), each.what)))


def _updates(pairs: list[tuple[_Thing, _Thing]]) -> tuple[list[ResourceChange], frozenset[str]]:
    """Return what becomes of those that stay, and the keys of those that are replaced. What refers to them changes."""
    replaced: frozenset[str] = frozenset()
    while True:
        found = [(now, change) for was, now in pairs for change in _update(was, _renewed_thing(now, replaced))]
        of_others = (each for each, change in found if change.change in ("replaced", "destructive"))
        keys = frozenset(each.resource.key for each in of_others if each.resource and each.applied is None)
        if keys <= replaced:
            return [change for _, change in found], replaced
        replaced |= keys


def _renewed_thing(thing: _Thing, replaced: frozenset[str]) -> _Thing:
    if not replaced or thing.resource is None:
        return thing
    if thing.applied is not None:
        applied = replace(
            thing.applied,
            content=_renewed(thing.applied.content, replaced),
            cluster=_renewed(thing.applied.cluster, replaced),
        )
        return replace(thing, applied=applied, once=_object_identity(applied))
    resource = replace(thing.resource, properties=_renewed(thing.resource.properties, replaced))
    return replace(thing, resource=resource, once=_once(resource))


def _renewed(value: Any, replaced: frozenset[str]) -> Any:
    """Return a value in which each reference to a resource that is replaced reads otherwise than before."""
    if isinstance(value, Unknown):
        return Unknown(f"new {value.expression}") if replaced & set(value.resources) else value
    if isinstance(value, Mapping):
        return {key: _renewed(each, replaced) for key, each in value.items()}
    return [_renewed(each, replaced) for each in value] if isinstance(value, list) else value


def _things(read: Input) -> Iterator[_Thing]:
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
            yield _Thing((resource.key,), resource.type, resource.path, _once(resource), resource)


def _object(each: Object, resource: Resource | None) -> _Thing:
    once = _object_identity(each)
    cluster, *rest, namespace, name = once
    where = f"{namespace}/{name}" if namespace else name
    key = (resource.key if resource else cluster, *rest, namespace, name)
    return _Thing(key, each.kind, where, once, resource, each)


def _object_identity(each: Object) -> tuple[str, ...]:
    namespace = str(dig(dict(each.content), "metadata", "namespace") or "")
    return str(plain(each.cluster)), each.group, each.kind, namespace, each.name


def _once(resource: Resource) -> tuple[str, ...] | None:
    names = ("ClusterName", "Namespace", "Release") if resource.type == _CHART else _ONCE.get(resource.type, ())
    values = [plain(resource.properties.get(each)) for each in names]
    return (resource.type, *map(str, values)) if values and values[-1] is not None else None


def _update(before: _Thing, after: _Thing) -> Iterator[ResourceChange]:
    """Yield what becomes of one that has the same logical id, or of an object with the same name."""
    old, new = before.resource, after.resource
    if old is not None and new is not None:
        wrong = _refused(old, new)
        if wrong:
            yield ResourceChange(after.what, "fails", wrong)
            return
    if before.applied is not None and after.applied is not None:
        changes = list(_object_update(before.applied, after.applied, after.what))
        yield from changes
        if old is not None and new is not None and not changes:
            yield from _policy_update(old, new, after.what)
    elif old is not None and new is not None:
        yield from _resource_update(old, new, after)


def _refused(old: Resource, new: Resource) -> str:
    """Return what CloudFormation does not change under one logical id.

    From memory, to be verified against:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
    """
    if old.type != new.type:
        return f"{moved('Type', old.type, new.type)}; CloudFormation changes no type, so take another id"
    tokens = [each.properties.get("ServiceToken") for each in (old, new)]
    if old.type.startswith(("Custom::", "AWS::CloudFormation::CustomResource")) and differ(*tokens):
        return f"{moved('ServiceToken', *tokens)}; CloudFormation changes no service token, so take another id"
    return ""


def _object_update(before: Object, after: Object, what: str) -> Iterator[ResourceChange]:
    if not differ(dict(before.content), dict(after.content)):
        return
    fixed = [moved(*each) for each in immutable_differences(before, after)]
    if fixed:
        detail = f"{_listed(fixed)}; Kubernetes changes it under no name, so take another name"
        yield ResourceChange(what, "fails", detail)
    else:
        yield ResourceChange(what, "in place", _listed(_moves("", dict(before.content), dict(after.content))))


def _resource_update(old: Resource, new: Resource, after: _Thing) -> Iterator[ResourceChange]:
    before, now = dict(old.properties), dict(new.properties)
    if not differ(before, now):
        yield from _policy_update(old, new, after.what)
        return
    changes = _listed(_moves("", before, now))
    if new.type == _CHART and _once(old) != _once(new):
        yield ResourceChange(after.what, "left behind", f"{changes}; the release of the old name stays installed")
        return
    replacing = [moved(*each) for each in _replacing(old, new)]
    if new.type == "AWS::EKS::Cluster" and not replacing and _leaves_its_subnets(old, new):
        yield ResourceChange(
            after.what, "fails", f"{changes}; EKS moves no cluster to another VPC, so make another one"
        )
        return
    if not replacing:
        yield ResourceChange(after.what, "in place" if _is_known(new.type) else "unknown", changes)
        return
    once = after.once is not None and _once(old) == after.once
    lost = _LOST.get(new.type)
    if once:
        detail = f"{_listed(replacing)}; another one cannot have its name while it exists"
        yield ResourceChange(after.what, "fails", detail)
    elif lost and old.replace_policy in _KEPT:
        yield ResourceChange(after.what, "replaced", f"{_listed(replacing)}; the old one stays, the new one is empty")
    elif lost:
        yield ResourceChange(after.what, "destructive", f"{_listed(replacing)}; {lost}")
    else:
        yield ResourceChange(after.what, "replaced", _listed(replacing))


def _leaves_its_subnets(old: Resource, new: Resource) -> bool:
    """Whether a cluster gets other subnets and another security group of its own: those of another VPC.

    From memory, to be verified against https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
    """
    was, now = (mapping(plain(each.properties.get("ResourcesVpcConfig"))) for each in (old, new))
    return all(
        was.get(each) and now.get(each) and not {*map(str, was[each])} & {*map(str, now[each])}
        for each in ("SubnetIds", "SecurityGroupIds")
    )


def _policy_update(old: Resource, new: Resource, what: str) -> Iterator[ResourceChange]:
    """Yield that alone differs what becomes of a resource when it leaves the template."""
    if old.deletion_policy != new.deletion_policy:
        yield ResourceChange(what, "in place", moved("DeletionPolicy", old.deletion_policy, new.deletion_policy))


def _replacing(old: Resource, new: Resource) -> Iterator[tuple[str, Any, Any]]:
    for path in (*created_with(new.type), *_CREATED_WITH.get(new.type, ())):
        was, becomes = (dig(dict(each.properties), *path.split("/")) for each in (old, new))
        if differ(was, becomes):
            yield path, was, becomes


def _is_known(type: str) -> bool:
    return schema_of(type) is not None or type in _CREATED_WITH or type.startswith(_IN_PLACE)


def _gone_and_come(gone: Iterable[_Thing], come: list[_Thing], kept: set[str]) -> Iterator[ResourceChange]:
    """Yield what becomes of those that only one input has. One that goes may belong to one of its kind that comes."""
    left = list(come)
    rest = []
    for each in gone:
        same = next((one for one in left if one.once is not None and one.once == each.once), None)
        if same is None:
            rest.append(each)
            continue
        left.remove(same)
        yield _taken_over(each, same)
    for each in rest:
        follower = _follower(each, left)
        if each.applied is not None and each.resource is not None and each.resource.key in kept:
            detail = f"{each.resource.key} applies it no longer, and kubectl does not delete it"
            yield ResourceChange(each.what, "left behind", detail)
            continue
        if follower is not None:
            left.remove(follower)
        yield _removal(each, follower)
    yield from (ResourceChange(each.what, "added", "") for each in left)


def _follower(gone: _Thing, come: Iterable[_Thing]) -> _Thing | None:
    """Return what takes the place of one that goes: of the same name elsewhere, or an object of its kind."""
    alike = [each for each in come if each.kind == gone.kind and each.once is not None and gone.once is not None]
    named = next((each for each in alike if each.once and gone.once and each.once[-1] == gone.once[-1]), None)
    return named or (next(iter(alike), None) if gone.applied is not None else None)


def _taken_over(before: _Thing, after: _Thing) -> ResourceChange:
    """Return what becomes of one that gets another logical id, which is created before the old one is deleted."""
    ids = [each.resource.key if each.resource else "a file" for each in (before, after)]
    text = moved("logical id", *ids)
    if before.applied is not None and before.resource is not None and not _is_kept(before):
        return ResourceChange(after.what, "destructive", f"{text}; the deletion of the old id deletes the object")
    if before.kind == _CHART and not _is_kept(before):
        return ResourceChange(after.what, "destructive", f"{text}; the deletion of the old id uninstalls the release")
    if before.applied is not None or _is_kept(before):
        return ResourceChange(after.what, "in place", text)
    return ResourceChange(after.what, "fails", f"{text}; the new one cannot be created while the old one exists")


def _removal(each: _Thing, follower: _Thing | None) -> ResourceChange:
    detail = "" if follower is None else f"{each.where} -> {follower.where}"
    lost = _lost(each)
    if _is_kept(each):
        return ResourceChange(each.what, "removed", "; ".join(filter(None, (detail, "it stays, in no stack"))))
    if lost:
        return ResourceChange(each.what, "destructive", "; ".join(filter(None, (detail, lost))))
    return ResourceChange(each.what, "replaced" if follower is not None else "removed", detail)


def _is_kept(each: _Thing) -> bool:
    return each.resource is not None and each.resource.deletion_policy in _KEPT


def _lost(each: _Thing) -> str | None:
    if each.applied is None:
        return _LOST.get(each.kind)
    # Whoever made a volume by hand decides what becomes of it.
    static = each.kind == "PersistentVolumeClaim" and each.applied.spec.get("volumeName")
    return None if static else _LOST_OBJECT.get((each.applied.group, each.kind))


def _moves(path: str, before: Any, after: Any) -> list[str]:
    """Return what differs, one line for each value that is in no mapping of both."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in dict.fromkeys((*before, *after)) if differ(before.get(key), after.get(key))]
        return [line for key in keys for line in _moves(f"{path}.{key}".lstrip("."), before.get(key), after.get(key))]
    return [moved(path, before, after)]


def _listed(lines: list[str]) -> str:
    left = len(lines) - _MOST_DETAILS
    return ", ".join(lines[:_MOST_DETAILS]) + (f" and {left} more" if left > 0 else "")
