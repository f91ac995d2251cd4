"""Changes of control planes, node groups and controllers between two inputs.

The module also finds changes of a node group that CloudFormation rejects in one update, or that set its number of
nodes.

EKS changes version and launch template by UpdateNodegroupVersion and everything else by other calls, and CloudFormation
makes only one of these calls in an update.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eks-nodegroup.html
(Version, ReleaseVersion), https://github.com/aws/aws-cdk/issues/16644 (LaunchTemplate with Tags)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any, Literal

from gpu_facts.charts import KARPENTER, KEDA, KUEUE
from gpu_facts.kubernetes import LEAST_KARPENTER, SUPPORT
from gpu_facts.labels import KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN
from gpu_facts.light import dataclass, regex
from gpu_facts.schemas import replacement_properties
from gpu_facts.today import today
from gpu_preflight.judging.deployed import Thing, differ, moved, references
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import is_of_eksctl
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.unknown import dig, is_true, known_number, known_text, mapping

Change = Literal["replaced", "renamed", "refused", "rolled back", "too early"]
_MODES = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
# The first EKS version was 1.10. If YAML reads 1.30 as a number, it becomes 1.3.
_MINOR = regex(r"1\.(\d{2,3})")
_GONE = "everything in the old cluster is lost"
VERSIONS = ("ReleaseVersion", "Version")
_LAUNCH = "LaunchTemplate"
# A tag of the stack is on the group and on its instances. The CDK's filter excludes the launch template's tags.
_TAGS = (
    '. If Tags.of(stack) adds the tag, deploy it with exclude_resource_types=["AWS::EC2::Instance"] first, then without'
)
# Charts, and the kinds whose objects, or whose NodeClaims, have a finalizer that the chart's controller removes.
# Sources, read 2026-11: https://karpenter.sh/v1.15/concepts/disruption/ (karpenter.sh/termination of NodeClaims) and
# EC2NodeClasses (karpenter.k8s.aws/termination); kedacore/keda controllers/keda (finalizer.keda.sh); kueue
# apis/kueue, ResourceInUseFinalizerName (kueue.x-k8s.io/resource-in-use)
_FINALIZED: Mapping[str, frozenset[tuple[str, str]]] = {
    KARPENTER: frozenset({(KARPENTER_DOMAIN, "NodePool"), (KARPENTER_AWS_DOMAIN, "EC2NodeClass")}),
    KEDA: frozenset({("keda.sh", "ScaledObject"), ("keda.sh", "ScaledJob")}),
    KUEUE: frozenset({(KUEUE_DOMAIN, "ClusterQueue"), (KUEUE_DOMAIN, "ResourceFlavor")}),
}
_Things = Mapping[tuple[str, ...], Thing]


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change of a cluster.

    Attributes:
        cluster: Its name.
        change: Whether the cluster is replaced, or another one is created under a new name; whether EKS rejects the
            change, or rolls the control plane back; whether something must be upgraded first.
        detail: The difference, and its effect.
    """

    cluster: str
    change: Change
    detail: str


def cluster_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[ClusterChange, ...]:
    """Return the changes of clusters that are in both inputs."""
    before, after = _clusters_by_key(old), _clusters_by_key(new)
    # A replaced cluster has its old name, because that cluster is lost.
    found = ((before[key].name, _changes(before[key], each)) for key, each in after.items() if key in before)
    changes = tuple(ClusterChange(name, change, detail) for name, each in found for change, detail in each)
    return (*_renamed(before, after), *changes)


def _renamed(before: Mapping[str, Cluster], after: Mapping[str, Cluster]) -> Iterator[ClusterChange]:
    """Yield the only cluster of eksctl that is removed if another one is added: eksctl identifies clusters by name."""
    gone = [each.name for key, each in before.items() if key not in after and _is_of_eksctl(each)]
    come = [each.name for key, each in after.items() if key not in before and _is_of_eksctl(each)]
    if len(gone) == len(come) == 1:
        detail = f"metadata.name: {gone[0]} -> {come[0]}; eksctl creates another cluster and does not change this one"
        yield ClusterChange(gone[0], "renamed", detail)


def _is_of_eksctl(cluster: Cluster) -> bool:
    return cluster.resource is not None and is_of_eksctl(cluster.resource)


def _clusters_by_key(clusters: Iterable[Cluster]) -> Mapping[str, Cluster]:
    return {each.resource.key: each for each in clusters if each.resource}


def _changes(old: Cluster, new: Cluster) -> list[tuple[Change, str]]:
    """Return the changes of one cluster. A replacement starts at any version."""
    before, after = old.resource, new.resource
    if before is None or after is None:
        return []
    found: list[tuple[Change, str]] = []
    gone = "EKS does not delete the old one, whose DeletionProtection is on" if _is_protected(before) else _GONE
    for path in replacement_properties(after.type):
        was, becomes = (dig(dict(each.properties), *path.split("/")) for each in (before, after))
        if differ(was, becomes):
            found.append(("replaced", f"{moved(path, was, becomes)}; {gone}"))
    steps = (_minor(before), _minor(after))
    return found or [
        *version_step(before, after),
        *_support(before, after, *steps),
        *_authentication(before, after),
        *_order(old, *steps),
    ]


def _is_protected(resource: Resource) -> bool:
    """Whether EKS rejects the deletion of a cluster.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/deletion-protection.html
    """
    return is_true(resource.properties.get("DeletionProtection"))


def _support(before: Resource, after: Resource, old: int | None, new: int | None) -> Iterator[tuple[Change, str]]:
    """Yield a change out of extended support without an upgrade.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/disable-extended-support.html
    """
    was, becomes = (dig(dict(each.properties), "UpgradePolicy", "SupportType") for each in (before, after))
    support = SUPPORT.get(f"1.{old}")
    ended = support is not None and today() >= date.fromisoformat(support.standard_ends)
    if ended and old == new and was in (None, "EXTENDED") and becomes == "STANDARD":
        left = f"1.{old} left standard support on {support.standard_ends}" if support else ""
        yield "refused", f"SupportType: EXTENDED -> STANDARD; {left}, so upgrade first"


def _order(cluster: Cluster, old: int | None, new: int | None) -> Iterator[tuple[Change, str]]:
    """Yield a running Karpenter that doesn't support the new version, if its chart is upgraded after the cluster."""
    karpenter = cluster.autoscaler("karpenter")
    least = LEAST_KARPENTER.get(new or 0)
    if karpenter is None or karpenter.version is None or least is None or old is None or new != old + 1:
        return
    runs = minor(karpenter.version)
    if (0, 0) < runs < least:
        needed = f"{least[0]}.{least[1]}"
        text = f"Version: 1.{old} -> 1.{new}; Karpenter {karpenter.version} runs, and 1.{new} needs {needed}"
        yield "too early", f"{text}: deploy it first, in a separate deployment"


def _authentication(before: Resource, after: Resource) -> Iterator[tuple[Change, str]]:
    """Yield a change to an authentication mode that EKS doesn't allow to change back to.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/setting-up-access-entries.html
    """
    old, new = (
        known_text(dig(dict(each.properties), "AccessConfig", "AuthenticationMode")) for each in (before, after)
    )
    if old in _MODES and new in _MODES and _MODES.index(new) < _MODES.index(old):
        yield "refused", f"AuthenticationMode: {old} -> {new}; EKS can't disable access entries again"


def version_step(before: Resource, after: Resource) -> Iterator[tuple[Change, str]]:
    """Yield why EKS rejects another version of a cluster, or the conditions under which EKS rolls the cluster back.

    Source, read 2026-11: https://docs.aws.amazon.com/eks/latest/userguide/update-cluster.html and rollback-cluster.html
    """
    old, new = _minor(before), _minor(after)
    if old is None or new is None:
        return
    text = f"Version: 1.{old} -> 1.{new}"
    if new > old + 1:
        yield "refused", f"{text}; EKS upgrades one minor version at a time, so deploy 1.{old + 1} first"
    elif new < old - 1:
        yield "refused", f"{text}; EKS rolls back one minor version at most"
    elif new == old - 1:
        yield "rolled back", f"{text}; EKS does this within 7 days of the upgrade, if the nodes are at 1.{new}"


def _minor(resource: Resource) -> int | None:
    found = _MINOR.fullmatch(known_text(resource.properties.get("Version")) or "")
    return int(found[1]) if found else None


def rejected_combination(before: Mapping[str, Any], after: Mapping[str, Any], *, launch_changes: bool) -> str:
    """Return which changes of a group must be deployed one after another; empty if one update may combine them.

    Args:
        before: Properties of the group in the first version.
        after: Properties in the second version.
        launch_changes: Whether the content of its launch template changes.
    """
    names = dict.fromkeys((*before, *after))
    changed = [each for each in names if each != _LAUNCH and differ(before.get(each), after.get(each))]
    versions = [name for name in changed if name in VERSIONS]
    others = [name for name in changed if name not in VERSIONS]
    launch = [_LAUNCH] if launch_changes else []
    order = (versions, others, launch) if others == ["Tags"] else (versions, launch, others)
    steps = [" and ".join(each) for each in order if each]
    if len(steps) < 2 or not (versions or launch):
        return ""
    return (
        f"CloudFormation rejects a change of {', '.join(steps)} of one node group in one deployment; "
        f"deploy them one after another: {', then '.join(steps)}{_TAGS if launch and others == ['Tags'] else ''}"
    )


def reset_size(old: Resource, new: Resource) -> str:
    """Return the number of nodes that an update of sizes sets if the group may run more; empty if no node stops.

    An update of sizes sends all of them. If the template has the desired size, the autoscaler's value is lost. A group
    never runs more nodes than its old maximum, so no node stops at that size or above.

    Sources, read 2026-11: https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html
    (desiredSize), https://github.com/aws/aws-cdk/issues/5215 (AutoScalingGroup)
    """
    if new.type == "AWS::EKS::Nodegroup":
        before, after = (mapping(each.properties.get("ScalingConfig")) for each in (old, new))
        names = ("MinSize", "MaxSize", "DesiredSize")
    elif new.type == "AWS::AutoScaling::AutoScalingGroup":
        before, after = dict(old.properties), dict(new.properties)
        names = ("MinSize", "MaxSize", "DesiredCapacity")
    else:
        return ""
    desired, most = known_number(after.get(names[2])), known_number(before.get(names[1]))
    if desired is None or not any(differ(before.get(each), after.get(each)) for each in names):
        return ""
    if most is not None and desired >= most:
        return ""
    return (
        f"{names[2]} sets the number of nodes to {desired}, even if more run, and stops the others; remove it from "
        "the template if an autoscaler sets it"
    )


def abandoned_objects(old: Input, new: Input, before: _Things, after: _Things) -> Iterator[tuple[Thing, str]]:
    """Yield releases of controllers that are uninstalled too early, and the objects that then stay in the cluster."""
    installed = {each.name for each in new.charts}
    controllers = {str(each.origin.resource): each.name for each in old.charts if each.name not in installed}
    kept = {each.once for each in after.values() if each.applied is not None}
    for release in before.values():
        name = controllers.get(release.resource.key, "") if release.resource is not None else ""
        if name not in _FINALIZED or release.resource is None or release.key in after:
            continue
        cluster = str(release.once[1]) if release.once else None
        served = [
            each
            for each in before.values()
            if each.applied is not None and (each.applied.group, each.applied.kind) in _FINALIZED[name]
            if each.once is not None and each.once[0] == cluster
        ]
        staying = [each.what for each in served if each.once in kept]
        early = [
            each.what for each in served if each.once not in kept and not _depends(each, release.resource.key, old)
        ]
        if staying:
            yield release, f"{', '.join(staying)} stay without their controller; remove them in a deployment before it"
        elif early:
            yield (
                release,
                (
                    f"{', '.join(early)} may be deleted after it, because they don't depend on the release. They "
                    "then keep their finalizers, and their nodes keep running; remove them in a deployment before it"
                ),
            )


def _depends(thing: Thing, key: str, read: Input) -> bool:
    """Whether CloudFormation deletes the resource of an object before another resource of its stack.

    A deployment doesn't delete an object from a file.
    """
    if thing.resource is None:
        return True
    seen: set[str] = set()
    left = [thing.resource.key]
    while left:
        one = read.resources.get(left.pop())
        if one is None or one.key in seen:
            continue
        seen.add(one.key)
        left += [each for each in (*one.depends_on, *references(one.properties)) if _stack(each) == _stack(key)]
    return key in seen


def _stack(key: str) -> str:
    return key.partition("/")[0]
