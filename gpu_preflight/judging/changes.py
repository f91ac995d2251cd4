"""Effects of a deployment on each resource and object that differs between two inputs.

CloudFormation compares two templates by logical id. Its schemas name the properties whose change replaces a resource.
Kubernetes compares an applied object with the object of the same name, and rejects changes of some fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from gpu_facts.labels import KUEUE_QUEUE
from gpu_facts.light import dataclass
from gpu_facts.schemas import has_replacement_properties, replacement_properties
from gpu_preflight.judging.cluster_changes import (
    VERSIONS,
    abandoned_objects,
    rejected_combination,
    reset_size,
    version_step,
)
from gpu_preflight.judging.deployed import (
    CHART,
    Deployed,
    Thing,
    compare_deployed,
    differ,
    leaf_changes,
    moved,
    plain,
    references,
    renewed_thing,
    renewed_value,
    things,
    unique_identity,
)
from gpu_preflight.judging.immutable_fields import immutable_differences
from gpu_preflight.judging.pool_changes import nodes_drift
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, mapping

Change = Literal["destructive", "fails", "left behind", "unknown", "replaced", "removed", "in place", "added"]
Effect = Literal["nodes replaced", "pods restart"]
ChangeClass = Literal[Change, Effect]
# From the one that a reviewer has to see first.
ORDER: tuple[Change, ...] = (
    *("destructive", "fails", "left behind", "unknown", "replaced", "removed", "in place", "added"),
)
_DEFINITION = "CustomResourceDefinition"
# Custom resources of the CDK and of this library, which their functions update in place.
_IN_PLACE = ("Custom::AWS", "Custom::AWSCDK-", "Custom::Gpu", "Custom::VpcRestrictDefaultSG")
# Settings of a cluster that an update call of EKS leaves as they are if it doesn't name them. Assumption, without a
# source: CloudFormation names none that the template doesn't have.
_KEPT_BY_EKS = (
    "ControlPlaneScalingConfig",
    "DeletionProtection",
    "KubeSchedulerConfig",
    "UpgradePolicy",
    "ZonalShiftConfig",
)
# Losses with a resource, or with an object.
_LOST: Mapping[str, str] = {
    "AWS::EFS::FileSystem": "its files are deleted",
    "AWS::EKS::Cluster": "everything that runs in it is deleted",
    "AWS::FSx::FileSystem": "its files are deleted",
    "AWS::KMS::Key": "data that it encrypted can't be read any more",
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
# Kinds that set the number of pods of a target, each in place of the other one.
_POD_AUTOSCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_TOKEN = "ServiceToken"
_KEPT = ("Retain", "RetainExceptOnCreate", "Snapshot")
_MOST_DETAILS = 3
# End of a detail, by effect.
EFFECTS: Mapping[Effect, str] = {
    "nodes replaced": "the nodes are replaced",
    "pods restart": "the pods restart",
}
# Where each kind has the template of its pods.
# Source: https://lws.sigs.k8s.io/docs/reference/leaderworkerset.v1/ (leaderWorkerTemplate), and apps/v1
_POD_TEMPLATES: Mapping[str, str] = {
    "DaemonSet": "template",
    "Deployment": "template",
    "LeaderWorkerSet": "leaderWorkerTemplate",
    "StatefulSet": "template",
}
# The field of each kind that describes Karpenter's nodes; another value is drift. For node classes, the whole spec.
# Source: https://karpenter.sh/v1.15/concepts/disruption/#drift
_NODE_TEMPLATES: Mapping[str, tuple[str, ...]] = {"EC2NodeClass": (), "NodeClass": (), "NodePool": ("template",)}


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """The change of a resource or of an object.

    Attributes:
        what: Its type or kind, and where it is.
        change: ``in place``; ``replaced``, another one is created before the old one is deleted; ``added``;
            ``removed``;
            ``destructive``, data or a run is lost; ``fails``, AWS or Kubernetes rejects it and the deployment is rolled
            back; ``left behind``, it goes on without a stack; ``unknown``.
        detail: The difference, and its effect.
        origin: Where it is written: in the new version, else in the old one.
        effect: Effect of an update in place on running nodes or pods; empty if they stay.
    """

    what: str
    change: Change
    detail: str
    origin: Origin | None = None
    effect: Effect | None = None

    @property
    def change_class(self) -> ChangeClass:
        """Its class in docs/reference/changes.md: the effect of an update in place, otherwise the change."""
        return self.effect or self.change

    @property
    def kind(self) -> str:
        """Its kind, or its resource type without the service."""
        return self.what.partition(" ")[0].rpartition("::")[2].removeprefix("AWSCDK-EKS-")


def resource_changes(old: Input, new: Input) -> tuple[ResourceChange, ...]:
    """Return the change of each resource and object that differs, from destructive changes to additions."""
    before, after = ({each.key: each for each in things(one)} for one in (old, new))
    deployed = compare_deployed(before, after)
    found, replaced = _updates([(each, after[key]) for key, each in before.items() if key in after], deployed)
    gone = [each for key, each in before.items() if key not in after]
    come = [renewed_thing(each, replaced) for key, each in after.items() if key not in before]
    found += _gone_and_come(gone, come, {each.resource.key for each in after.values() if each.resource}, deployed)
    abandoned = {each.what: detail for each, detail in abandoned_objects(old, new, before, after)}
    found = [each for each in found if each.what not in abandoned]
    found += [ResourceChange(what, "left behind", detail) for what, detail in abandoned.items()]
    found += _exports_in_use(old, new, replaced)
    origins = {each.what: each.origin for each in (*before.values(), *after.values())}
    placed = (replace(each, origin=each.origin or origins.get(each.what)) for each in _same_provider_once(found))
    return tuple(sorted(placed, key=lambda each: (ORDER.index(each.change), each.what)))


def _exports_in_use(old: Input, new: Input, replaced: frozenset[str]) -> Iterator[ResourceChange]:
    """Yield exports that are deleted or get another value while a deployed stack imports them.

    A stack that is no longer in the second version stays deployed until a person deletes it.
    Source, read 2026-11: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-exports.html
    """
    stacks = {each.key.partition("/")[0] for each in new.resources.values()}
    after = {(each.stack, each.name): each for each in new.exports()}
    for each in old.exports():
        importers = [stack for stack in each.importers if stack != each.stack]
        if not importers or each.stack not in stacks:
            continue
        now, users = after.get((each.stack, each.name)), ", ".join(importers)
        what = f"Export {each.name}"
        if now is None:
            detail = (
                f"{each.stack} deletes it, and CloudFormation rejects that while a deployed stack ({users}) imports "
                f"it; keep it (in the CDK with Stack.export_value), deploy {users} without the import, then delete it"
            )
            yield ResourceChange(what, "fails", detail, each.origin)
        elif differ(each.value, value := renewed_value(now.value, replaced)):
            # A value that only deployment knows may equal one that is written.
            may_be_equal = isinstance(each.value, Unknown) != isinstance(now.value, Unknown)
            detail = (
                f"{moved('Value', each.value, value)}; CloudFormation rejects "
                f"{'another value' if may_be_equal else 'that'} while a deployed stack ({users}) "
                f"imports it; export the other value under another name, deploy {users} with it, then delete this one"
            )
            yield ResourceChange(what, "unknown" if may_be_equal else "fails", detail, now.origin)


def _same_provider_once(found: Iterable[ResourceChange]) -> Iterator[ResourceChange]:
    """Yield changes; of those that fail because one provider of custom resources moved, the first with their number."""
    moves: dict[str, list[ResourceChange]] = {}
    for each in found:
        if each.change == "fails" and each.detail.startswith(_TOKEN):
            moves.setdefault(each.detail, []).append(each)
        else:
            yield each
    for detail, alike in moves.items():
        more = f" ({len(alike)} resources of this provider)" if len(alike) > 1 else ""
        yield replace(min(alike, key=lambda each: each.what), detail=f"{detail}{more}")


def _updates(pairs: list[tuple[Thing, Thing]], deployed: Deployed) -> tuple[list[ResourceChange], frozenset[str]]:
    """Return the changes of resources that stay, and the keys of replaced ones. References to these change, too."""
    replaced: frozenset[str] = frozenset()
    while True:
        found = [(now, change) for was, now in pairs for change in _update(was, renewed_thing(now, replaced), deployed)]
        of_others = (each for each, change in found if change.change in ("replaced", "destructive"))
        keys = frozenset(each.resource.key for each in of_others if each.resource and each.applied is None)
        if keys <= replaced:
            return [change for _, change in found], replaced
        replaced |= keys


def _update(before: Thing, after: Thing, deployed: Deployed) -> Iterator[ResourceChange]:
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
        yield from _resource_update(old, new, after, deployed)


def _refused(old: Resource, new: Resource) -> str:
    """Return what CloudFormation does not change under one logical id.

    Source, read 2026-11 (ServiceToken: "Updates are not supported"):
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
    """
    if old.type != new.type:
        return f"{moved('Type', old.type, new.type)}; CloudFormation changes no type, so take another id"
    tokens = [each.properties.get(_TOKEN) for each in (old, new)]
    if old.type.startswith(("Custom::", "AWS::CloudFormation::CustomResource")) and differ(*tokens):
        return f"{moved(_TOKEN, *tokens)}; CloudFormation changes no service token, so take another id"
    return ""


def _object_update(before: Object, after: Object, what: str) -> Iterator[ResourceChange]:
    if not differ(dict(before.content), dict(after.content)):
        return
    fixed = [line for each in immutable_differences(before, after) for line in leaf_changes(*each)]
    if fixed:
        detail = f"{_listed(fixed)}; Kubernetes never changes it in an existing object, so take another name"
        yield ResourceChange(what, "fails", detail)
        return
    changes = _listed(leaf_changes("", dict(before.content), dict(after.content)))
    if _is_admitted_again(before, after):
        detail = f"{changes}; Kueue stops a run that has not ended, and starts it again when the queue has room"
        yield ResourceChange(what, "destructive", detail)
    else:
        yield _in_place(what, changes, _object_effect(before, after))


def _in_place(what: str, changes: str, effect: Effect | None) -> ResourceChange:
    return ResourceChange(what, "in place", f"{changes}; {EFFECTS[effect]}" if effect else changes, effect=effect)


def _object_effect(before: Object, after: Object) -> Effect | None:
    """Return what another version of an object does to nodes or pods that run."""
    specs = dict(before.spec), dict(after.spec)
    if after.kind in _NODE_TEMPLATES:
        old, new = (dig(each, *_NODE_TEMPLATES[after.kind]) for each in specs)
        return "nodes replaced" if differ(old, new) and nodes_drift(old, new) else None
    template = _POD_TEMPLATES.get(after.kind)
    if template is None or not differ(*(each.get(template) for each in specs)):
        return None
    return None if dig(specs[1], "updateStrategy", "type") == "OnDelete" else "pods restart"


def _resource_effect(old: Resource, new: Resource, deployed: Deployed) -> Effect | None:
    """Return what an update of a managed group or of its launch template does to nodes that run."""
    names: tuple[str, ...] = ("LaunchTemplateData",) if new.key in deployed.managed_launches else ()
    names = (*VERSIONS, "LaunchTemplate") if new.type == "AWS::EKS::Nodegroup" else names
    moves = any(differ(old.properties.get(each), new.properties.get(each)) for each in names)
    return "nodes replaced" if moves else None


def _is_admitted_again(before: Object, after: Object) -> bool:
    """Whether a Job in a queue of Kueue gets another number of pods at once.

    Source: pkg/controller/jobs/job/job_controller.go (podsCount) and pkg/controller/jobframework/reconciler.go ("No
    matching Workload") of kueue 0.19.2
    """
    parallel = [each.spec.get("parallelism") for each in (before, after)]
    return (after.group, after.kind) == ("batch", "Job") and KUEUE_QUEUE in after.labels and differ(*parallel)


def _resource_update(old: Resource, new: Resource, after: Thing, deployed: Deployed) -> Iterator[ResourceChange]:
    before, now = dict(old.properties), dict(new.properties)
    wrong = _rejected_update(old, new, deployed)
    if wrong:
        yield ResourceChange(after.what, "fails", wrong)
        return
    if not differ(before, now):
        yield from _policy_update(old, new, after.what)
        return
    changes = _listed(leaf_changes("", before, now))
    stopped = _lost_access(old, new, deployed.node_roles) or _reset_size(old, new)
    if stopped:
        yield ResourceChange(after.what, "destructive", f"{changes}; {stopped}")
        return
    if new.type == CHART and unique_identity(old) != unique_identity(new):
        yield ResourceChange(after.what, "left behind", f"{changes}; the release of the old name stays installed")
        return
    kept = [each for each in _KEPT_BY_EKS if before.get(each) is not None and now.get(each) is None]
    if new.type == "AWS::EKS::Cluster" and kept:
        detail = f"{changes}; EKS may keep a setting that the template leaves out, so set its default"
        yield ResourceChange(after.what, "left behind", detail)
    replacing = [line for each in _replacing(old, new) for line in leaf_changes(*each)]
    if not replacing:
        if _is_known(new.type):
            yield _in_place(after.what, changes, _resource_effect(old, new, deployed))
        else:
            yield ResourceChange(after.what, "unknown", changes)
        return
    yield _replacement(old, after, _listed(replacing), deployed)


def _replacement(old: Resource, after: Thing, changes: str, deployed: Deployed) -> ResourceChange:
    """Return what becomes of a resource that CloudFormation replaces under its logical id."""
    once = after.once is not None and unique_identity(old) == after.once
    lost = _LOST.get(after.kind)
    overlap = deployed.overlapping(after)
    if once or overlap:
        detail = f"{changes}; {overlap or 'another one cannot have its name while it exists'}"
        return ResourceChange(after.what, "fails", detail)
    if lost and old.replace_policy in _KEPT:
        return ResourceChange(after.what, "replaced", f"{changes}; the old one stays, the new one is empty")
    if lost:
        return ResourceChange(after.what, "destructive", f"{changes}; {lost}")
    return ResourceChange(after.what, "replaced", changes)


def _reset_size(old: Resource, new: Resource) -> str:
    return "" if list(_replacing(old, new)) else reset_size(old, new)


def _rejected_update(old: Resource, new: Resource, deployed: Deployed) -> str:
    """Return why AWS rejects an update in place; empty if it accepts the update.

    Source: https://docs.aws.amazon.com/fsx/latest/APIReference/API_UpdateFileSystem.html (StorageCapacity)
    """
    if new.type == "AWS::EKS::Nodegroup" and not list(_replacing(old, new)):
        template = [each.properties.get("LaunchTemplate") for each in (old, new)]
        launch = differ(*template) or bool(references(template[1]) & deployed.launches)
        return rejected_combination(old.properties, new.properties, launch_changes=launch)
    if new.type == "AWS::EKS::Cluster" and not list(_replacing(old, new)):
        return _other_network(old, new, deployed.zones) or _rejected_version(old, new, deployed)
    if new.type == "AWS::FSx::FileSystem" and not list(_replacing(old, new)):
        sizes = [each.properties.get("StorageCapacity") for each in (old, new)]
        before, after = (int(str(each)) if str(each).isdigit() else None for each in sizes)
        if before is not None and after is not None and after < before:
            return f"{moved('StorageCapacity', before, after)}; FSx only increases it, so make another file system"
    return ""


def _rejected_version(old: Resource, new: Resource, deployed: Deployed) -> str:
    """Return why EKS rejects another version of a cluster; empty if it accepts the version.

    A rollback of the cluster needs nodes that already have the version. CloudFormation updates the groups after the
    cluster.
    """
    for change, detail in version_step(old, new):
        if change == "refused":
            return detail
        newer = [
            name
            for name, version in deployed.group_versions.get(old.key, {}).items()
            if version > minor(str(new.properties["Version"]))
        ]
        if newer:
            return f"{detail}: so first deploy it for {_listed(newer)}"
    return ""


def _other_network(old: Resource, new: Resource, zones: tuple[Mapping[str, str], ...]) -> str:
    """Return why EKS rejects other subnets of a cluster; empty if it accepts them.

    They must be in the VPC and in the zones of the subnets with which the cluster was created. Other subnets together
    with other security groups mean another VPC.
    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    """
    was, now = (mapping(each.properties.get("ResourcesVpcConfig")) for each in (old, new))
    names = ("SubnetIds", "SecurityGroupIds")
    apart = [
        was.get(each) and now.get(each) and not {*map(str, plain(was[each]))} & {*map(str, plain(now[each]))}
        for each in names
    ]
    if all(apart):
        lines = leaf_changes("ResourcesVpcConfig", plain(was), plain(now))
        return f"{_listed(lines)}; EKS moves no cluster to another VPC, so make another one"
    before, after = (_zones(each.get("SubnetIds"), one) for each, one in zip((was, now), zones, strict=True))
    if before and after and before != after:
        return (
            f"{moved('zones of SubnetIds', sorted(before), sorted(after))}; EKS keeps the zones of a cluster. Give "
            "pools subnets of their own in another zone, or make another cluster"
        )
    return ""


def _zones(subnets: Any, zones: Mapping[str, str]) -> set[str]:
    """Return the zones of subnets; none if one of them isn't known."""
    found = [zones.get(next(iter(references(each)), "")) for each in subnets or ()]
    return {*filter(None, found)} if all(found) else set()


def _policy_update(old: Resource, new: Resource, what: str) -> Iterator[ResourceChange]:
    """Yield that alone differs what becomes of a resource when it leaves the template."""
    if old.deletion_policy != new.deletion_policy:
        yield ResourceChange(what, "in place", moved("DeletionPolicy", old.deletion_policy, new.deletion_policy))


def _replacing(old: Resource, new: Resource) -> Iterator[tuple[str, Any, Any]]:
    for path in replacement_properties(new.type):
        was, becomes = (dig(dict(each.properties), *path.split("/")) for each in (old, new))
        if differ(was, becomes):
            yield path, was, becomes


def _is_known(type: str) -> bool:
    return has_replacement_properties(type) or type.startswith(_IN_PLACE)


def _gone_and_come(
    gone: Iterable[Thing], come: list[Thing], kept: set[str], deployed: Deployed
) -> Iterator[ResourceChange]:
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
        follower = _follower(each, left) or _same_target(each, left)
        if each.applied is not None and each.resource is not None and each.resource.key in kept:
            detail = f"{each.resource.key} applies it no longer, and kubectl does not delete it"
            yield ResourceChange(each.what, "left behind", detail)
            continue
        if follower is not None:
            left.remove(follower)
        yield _orphaned(each, deployed) or _removal(each, follower, left)
    for each in left:
        overlap = deployed.overlapping(each)
        yield ResourceChange(each.what, "fails" if overlap else "added", overlap)


def _orphaned(each: Thing, deployed: Deployed) -> ResourceChange | None:
    """Return what becomes of the access of nodes that keep running with a role."""
    lost = _lost_access(each.resource, None, deployed.orphans) if each.resource is not None else ""
    return ResourceChange(each.what, "destructive", lost) if lost else None


def _lost_access(old: Resource, new: Resource | None, nodes: Mapping[str, str]) -> str:
    """Return which running nodes lose access to the cluster with an access entry; empty if none does.

    An access entry never changes its principal: another one is created, and the old one is deleted.

    Args:
        old: The access entry.
        new: The access entry in the second version; ``None`` if it is removed.
        nodes: Keys of the roles of nodes that keep running, with their pool.
    """
    principals = [each.properties.get("PrincipalArn") if each is not None else None for each in (old, new)]
    pools = [nodes[key] for key in references(principals[0]) & {*nodes}]
    if old.type != "AWS::EKS::AccessEntry" or not pools or not differ(*principals):
        return ""
    return (
        f"nodes of {pools[0]} that run with this role lose access to the cluster, and their pods are evicted; "
        "add a second pool with the other role, and remove the first one when its nodes are gone"
    )


def _follower(gone: Thing, come: Iterable[Thing]) -> Thing | None:
    """Return what takes the place of one that goes: of the same construct, of its name elsewhere, or of its kind."""
    if gone.applied is None and (made := next((each for each in come if _is_same_construct(gone, each)), None)):
        return made
    alike = [each for each in come if each.kind == gone.kind and each.once is not None and gone.once is not None]
    named = next((each for each in alike if each.once and gone.once and each.once[-1] == gone.once[-1]), None)
    return named or (next(iter(alike), None) if gone.applied is not None else None)


def _same_target(gone: Thing, come: Iterable[Thing]) -> Thing | None:
    """Return the autoscaler of another kind that scales what one scaled that goes."""
    target = _target(gone)
    return next((each for each in come if target is not None and _target(each) == target), None)


def _target(thing: Thing) -> tuple[str, ...] | None:
    """Return what an autoscaler scales: cluster, namespace, kind and name; ``None`` if it's no autoscaler of pods."""
    if thing.applied is None or thing.once is None or thing.applied.kind not in _POD_AUTOSCALERS:
        return None
    target = mapping(thing.applied.spec.get("scaleTargetRef"))
    # KEDA's default kind. Source: https://keda.sh/docs/2.17/reference/scaledobject-spec/
    kind, name = target.get("kind") or "Deployment", target.get("name")
    return None if name is None else (thing.once[0], thing.once[3], str(plain(kind)), str(plain(name)))


def _is_same_construct(before: Thing, after: Thing) -> bool:
    """Whether a construct of the CDK makes a resource under another logical id."""
    return after.applied is None and (before.kind, before.where) == (after.kind, after.where)


def _taken_over(before: Thing, after: Thing) -> ResourceChange:
    """Return what becomes of one that gets another logical id, which is created before the old one is deleted."""
    ids = [each.resource.key if each.resource else "a file" for each in (before, after)]
    text = moved("logical id", *ids)
    stacks = [id.partition("/")[0] for id in ids]
    if stacks[0] != stacks[1] and before.resource and after.resource and not _is_kept(before):
        return _moved_to_stack(before, after, *stacks)
    if before.applied is not None and before.resource is not None and not _is_kept(before):
        return ResourceChange(after.what, "destructive", f"{text}; the deletion of the old id deletes the object")
    if before.kind == CHART and not _is_kept(before):
        return ResourceChange(after.what, "destructive", f"{text}; the deletion of the old id uninstalls the release")
    if before.applied is not None or _is_kept(before):
        return ResourceChange(after.what, "in place", text)
    return ResourceChange(after.what, "fails", f"{text}; the new one cannot be created while the old one exists")


def _moved_to_stack(before: Thing, after: Thing, old: str, new: str) -> ResourceChange:
    """Return what becomes of one that two stacks have until the first one is deployed."""
    way = f"deploy {old} without it first, then {new}"
    if before.applied is not None or before.kind == CHART:
        lost = "uninstalls the release" if before.kind == CHART else "deletes the object"
        detail = f"stack: {old} -> {new}; if {new} is deployed first, {old} then {lost} of {new}. So {way}"
        return ResourceChange(after.what, "destructive", detail)
    detail = f"stack: {old} -> {new}; {new} cannot create it while {old} has it. So {way}"
    return ResourceChange(after.what, "fails", detail)


def _removal(each: Thing, follower: Thing | None, come: Iterable[Thing]) -> ResourceChange:
    detail = "" if follower is None or follower.where == each.where else f"{each.where} -> {follower.where}"
    if follower is not None and follower.kind != each.kind:
        detail = f"{each.what} -> {follower.what}"
    lost = _lost(each)
    if _is_kept(each):
        empty = next((f"{one.where} is new and empty" for one in come if lost and one.kind == each.kind), "")
        return ResourceChange(
            each.what, "left behind", "; ".join(filter(None, (detail, "it stays, in no stack", empty)))
        )
    if lost:
        return ResourceChange(each.what, "destructive", "; ".join(filter(None, (detail, lost))))
    return ResourceChange(each.what, "replaced" if follower is not None else "removed", detail)


def _is_kept(each: Thing) -> bool:
    return each.resource is not None and each.resource.deletion_policy in _KEPT


def _lost(each: Thing) -> str | None:
    if each.applied is None:
        return _LOST.get(each.kind)
    # A volume that a person created has its own reclaim policy.
    static = each.kind == "PersistentVolumeClaim" and each.applied.spec.get("volumeName")
    return None if static else _LOST_OBJECT.get((each.applied.group, each.kind))


def _listed(lines: list[str]) -> str:
    left = len(lines) - _MOST_DETAILS
    return ", ".join(lines[:_MOST_DETAILS]) + (f" and {left} more" if left > 0 else "")
