"""Two versions of an input compared: pools, workloads and resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from gpu_facts.light import dataclass, regex
from gpu_facts.schemas import replacement_properties
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.images import ami_alias, image_version, pool_image
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.judging.changes import ResourceChange, resource_changes
from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.cluster_changes import VERSIONS, ClusterChange, cluster_changes, rejected_combination
from gpu_preflight.judging.deployed import differ, leaf_changes, moved
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.filters import Filters
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool, PoolKind
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.eksctl.groups import is_of_eksctl
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.unknown import items, known_text
from gpu_preflight.rule import Finding
from gpu_preflight.scheduling.pool_limits import Ceiling, ceiling
from gpu_preflight.scheduling.verdict import Result, Verdict

Change = Literal["refused", "added", "removed", "replaced", "changed"]
# What nodes of Karpenter drift for.
_DRIFTING = ("template",)
_DRIFTS = "nodes drift and are replaced as the budgets allow"
_NO_NODES = ("0", "0%", 0)
_EFFECTS = {
    "managed": "rolls its nodes",
    "self-managed": "new nodes only, unless the group refreshes its instances",
}
# What eksctl changes of a group that is there, and what it says of the rest.
# Source: https://docs.aws.amazon.com/eks/latest/eksctl/faq.md (2026-11)
_SIZES = ("ScalingConfig", "MinSize", "MaxSize", "DesiredCapacity")
_LEFT_BY_EKSCTL = "eksctl changes nothing of a group that is there; make one of another name"
_QUIET = {"managed": ("LaunchTemplate",), "self-managed": ("LaunchTemplate",), "karpenter": (), "auto-mode": ()}
_PoolKey = tuple[str, str, str]
_VERSION = "Version"
# A number that is no part of a name.
_FIGURE = regex(r"(?<![\w.-])\d[\d,.]*(?![\w-])")
_FindingKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PoolChange:
    """What becomes of a pool.

    Attributes:
        cluster: Name of its cluster.
        name: Its name.
        kind: Who makes its nodes.
        change: What becomes of it; one that is replaced drains its nodes, and one that is refused fails the deployment.
        details: What differs, one line each.
    """

    cluster: str
    name: str
    kind: PoolKind
    change: Change
    details: tuple[str, ...] = ()


def pool_changes(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[PoolChange, ...]:
    """Return what becomes of every pool, replaced ones first."""
    clusters = list(old), list(new)
    before, after = map(pools_by_key, clusters)
    versions = [{each.title: each.version for each in side} for side in clusters]
    found = [
        change
        for key in dict.fromkeys((*before, *after))
        if (change := _change(key, before.get(key), after.get(key), *(each.get(key[0]) for each in versions)))
    ]
    order = ("refused", "replaced", "removed", "changed", "added")
    return tuple(sorted(_renamed(found, before, after), key=lambda each: (order.index(each.change), each.name)))


def pools_by_key(clusters: Iterable[Cluster]) -> dict[_PoolKey, Pool]:
    """Return every pool by what makes it the same pool in two inputs."""
    return {pool_key(cluster, pool): pool for cluster in clusters for pool in cluster.pools}


def pool_key(cluster: Cluster, pool: Pool) -> _PoolKey:
    """Return what makes a pool the same in two inputs."""
    return cluster.title, pool.kind, pool.resource.key if pool.resource else pool.name


def _change(key: _PoolKey, before: Pool | None, after: Pool | None, *versions: str | None) -> PoolChange | None:
    pool = after or before
    if pool is None:  # pragma: no cover
        return None
    if before is None:
        return PoolChange(key[0], pool.name, pool.kind, "added", _summary(pool))
    if after is None:
        left = pool.resource is not None and is_of_eksctl(pool.resource)
        fate = "eksctl leaves its nodes until somebody deletes them" if left else "its nodes are drained"
        return PoolChange(key[0], pool.name, pool.kind, "removed", (*_summary(pool), fate))
    replacing = properties_requiring_replacement(before, after)
    details = [*_differences(before, after, replacing), *_launch_differences(before, after)]
    details += _other_image(after, *versions)
    if not details:
        return None
    if not replacing and (apart := _rejected_changes(before, after)):
        return PoolChange(key[0], pool.name, pool.kind, "refused", (apart, *details))
    return PoolChange(key[0], pool.name, pool.kind, "replaced" if replacing else "changed", tuple(details))


def _other_image(pool: Pool, before: str | None, after: str | None) -> list[str]:
    """Return that nodes drift to the image of another Kubernetes version, which Karpenter looks up for an alias.

    Source, read 2026-11: https://karpenter.sh/v1.15/tasks/managing-amis/ (alias), and for Auto Mode
    https://docs.aws.amazon.com/eks/latest/userguide/auto-upgrade.html
    """
    follows = pool.kind == "auto-mode" or (pool.kind == "karpenter" and ami_alias(pool) is not None)
    if not follows or before is None or after is None or before == after:
        return []
    return [f"{moved('image of Kubernetes', before, after)} ({_drifts(pool)})"]


def _drifts(pool: Pool) -> str:
    """Return what happens to nodes that drift, by the budgets of their NodePool.

    Source, read 2026-11: https://karpenter.sh/v1.15/concepts/disruption/#nodepool-disruption-budgets
    """
    closed = [items(each.reasons) for each in pool.budgets if each.nodes in _NO_NODES and each.schedule is None]
    if not any(not reasons or "Drifted" in reasons for reasons in closed):
        return _DRIFTS
    if any(not reasons or "Empty" in reasons for reasons in closed):
        return "nodes drift and stay: the budgets for drift and for empty nodes are 0"
    return "nodes drift; the budget for drift is 0: a node is replaced when it is empty"


def _rejected_changes(before: Pool, after: Pool) -> str:
    """Return which changes of a managed group CloudFormation rejects in one deployment; empty where it accepts all."""
    if after.kind != "managed" or after.resource is None or is_of_eksctl(after.resource):
        return ""
    launch_changes = bool(_launch_differences(before, after))
    return rejected_combination(before.properties, after.properties, launch_changes=launch_changes)


def _renamed(
    changes: list[PoolChange], before: Mapping[_PoolKey, Pool], after: Mapping[_PoolKey, Pool]
) -> list[PoolChange]:
    """Join a pool that goes and one that comes under its name: its logical id changed, so its nodes are drained."""
    gone = {(each.cluster, each.name, each.kind) for each in changes if each.change == "removed"}
    come = {(each.cluster, each.name, each.kind) for each in changes if each.change == "added"}
    both = gone & come
    kept = [each for each in changes if (each.cluster, each.name, each.kind) not in both]
    detail = "its logical id changes, so a new group is made and the old one drained"
    return [*kept, *(PoolChange(*each, "replaced", (detail,)) for each in sorted(both))]


def _summary(pool: Pool) -> tuple[str, ...]:
    types = ", ".join(pool.instance_types)
    bounds = f"at most {pool.max_nodes} nodes" if pool.max_nodes is not None else ""
    limits = ", ".join(f"limit {amount} {name}" for name, amount in pool.limits.items())
    return tuple(each for each in (types, bounds, limits) if each)


def properties_requiring_replacement(before: Pool, after: Pool) -> list[str]:
    """Return the properties that differ and that CloudFormation changes by making another group."""
    fixed = replacement_properties(after.resource.type) if after.resource else ()
    if after.resource and is_of_eksctl(after.resource):
        return []
    return [name for name in fixed if differ(before.properties.get(name), after.properties.get(name))]


def _differences(before: Pool, after: Pool, replacing: list[str]) -> list[str]:
    quiet = _QUIET.get(after.kind, ())
    names = [each for each in dict.fromkeys((*before.properties, *after.properties)) if each not in quiet]
    found = []
    for name in names:
        old, new = before.properties.get(name), after.properties.get(name)
        if differ(old, new):
            found += [
                f"{each} ({_consequence(name, after, replacing)})" for each in leaf_changes(name, old, new, joint=" ")
            ]
    return found


def _consequence(name: str, pool: Pool, replacing: list[str]) -> str:
    if pool.resource is not None and is_of_eksctl(pool.resource):
        return "in place" if name in _SIZES else _LEFT_BY_EKSCTL
    if name in replacing:
        return "replaces the group: a new one is made, then the old one is drained"
    if pool.kind == "managed" and name in VERSIONS:
        return "rolls its nodes"
    if not pool.is_group and name in _DRIFTING:
        return _drifts(pool)
    return "in place"


def _launch_differences(before: Pool, after: Pool) -> list[str]:
    of_eksctl = after.resource is not None and is_of_eksctl(after.resource)
    effect = _LEFT_BY_EKSCTL if of_eksctl else _EFFECTS.get(after.kind) or _drifts(after)
    old, new = before.launch.written, after.launch.written
    names = dict.fromkeys((*old, *new))
    return [
        f"{line} ({effect})"
        for name in names
        if differ(old.get(name), new.get(name))
        for line in leaf_changes(name, old.get(name), new.get(name), joint=" ")
    ]


def keep_deployed_versions(deployed: Iterable[Cluster], written: Iterable[Cluster]) -> tuple[Cluster, ...]:
    """Return clusters as a deployment leaves them: each group that names no version keeps the one that it has.

    EKS gives a group the version of its cluster when it makes the group, and another one only when it is asked for.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html (2026-11): without
    ``version`` the version of the node group does not change.

    Args:
        deployed: The clusters that are there.
        written: What is deployed over them.
    """
    there = tuple(deployed)
    pools, versions = pools_by_key(there), {each.title: each.version for each in there}

    def keep_version(cluster: Cluster, pool: Pool) -> Pool:
        was = pools.get(pool_key(cluster, pool))
        version = image_version(was, versions[cluster.title]) if was and _asks_for_none(was, pool) else None
        # What EKS says to a release of another version is not told.
        stays = version is not None and image_version(pool, version) == version
        return replace(pool, properties={**pool.properties, _VERSION: version}) if stays else pool

    return tuple(replace(each, pools=tuple(keep_version(each, pool) for pool in each.pools)) for each in written)


def _asks_for_none(was: Pool, now: Pool) -> bool:
    """Whether a managed group has its version of EKS, and stays."""
    of_eks = now.kind == "managed" and pool_image(now) is None and pool_image(was) is None
    return (
        of_eks
        and _VERSION not in was.properties
        and _VERSION not in now.properties
        and not properties_requiring_replacement(was, now)
    )


@dataclass(frozen=True, slots=True)
class Move:
    """A version that changes.

    Attributes:
        what: Of what.
        before: The version before; ``None`` where there was none.
        after: The version after; ``None`` where there is none.
    """

    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Fate:
    """A workload whose verdict changes.

    Attributes:
        name: Its name, with that of its cluster where there are several.
        before: The verdict before; ``None`` where it was not there.
        after: The verdict after; ``None`` where it is gone.
        before_result: What the verdict before comes to, as `Verdict.result` names it.
        after_result: What the verdict after comes to.
        reason: The nearest reason for the verdict after.
        accepted: Whether somebody accepts an error that is found in it.
    """

    name: str
    before: Answer | None
    after: Answer | None
    before_result: Result | None = None
    after_result: Result | None = None
    reason: str | None = None
    accepted: bool = False


@dataclass(frozen=True, slots=True)
class Review:
    """Everything a reviewer asks of a change.

    Attributes:
        control_planes: Clusters that are replaced, or whose version EKS does not go to.
        pools: Pools that are added, removed, replaced or changed.
        changes: Resources and objects that differ, with what the deployment does to each.
        moves: Versions that change.
        before: The ceiling before.
        after: The ceiling after.
        fates: Workloads whose verdict changes.
        new: Findings that come.
        fixed: Findings that go.
        standing: Findings that stay.
        explained_before: What became of the workloads of each cluster.
        explained_after: What becomes of them.
        selected: Number of rules whose findings are reported; ``None`` for all.
        unselected: Findings of other rules in the new version.
    """

    control_planes: tuple[ClusterChange, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    changes: tuple[ResourceChange, ...] = ()
    moves: tuple[Move, ...] = ()
    before: Ceiling = field(default_factory=Ceiling)
    after: Ceiling = field(default_factory=Ceiling)
    fates: tuple[Fate, ...] = ()
    new: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()
    explained_before: tuple[Explanation, ...] = ()
    explained_after: tuple[Explanation, ...] = ()
    selected: int | None = None
    unselected: tuple[Finding, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the change is refused, leaves an error that nobody accepts, or makes a pod Pending."""
        changes = [each.change for each in self.control_planes] + [each.change for each in self.pools]
        if "refused" in changes:
            return True
        if any(each.change == "fails" for each in self.changes):
            return True
        pending = any(each.after is Answer.NO and not each.accepted for each in self.fates)
        return pending or any(each.counts for each in (*self.new, *self.standing))


def review(old: Input, new: Input, filters: Filters | None = None) -> Review:
    """Compare two inputs.

    Args:
        old: The version before.
        new: The version after.
        filters: Findings that are hidden or accepted in both.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    deployed, written = clusters(old), clusters(new)
    before, after = (
        check(old, keep_deployed_versions(deployed, deployed)),
        check(new, keep_deployed_versions(deployed, written)),
    )
    if filters:
        before, after = filters.applied(before), filters.applied(after)
    known = {_identity(each) for each in before.findings}
    still = {_identity(each) for each in after.findings}
    told = [tuple(map(report.explanation, report.cases)) for report in (before, after)]
    return Review(
        control_planes=cluster_changes(_clusters(before), _clusters(after)),
        pools=pool_changes(deployed, written),
        changes=resource_changes(old, new),
        moves=_moves(before, after),
        before=_ceiling(before),
        after=_ceiling(after),
        fates=_fates(told[0], told[1], _accepted(after)),
        new=tuple(each for each in after.findings if _identity(each) not in known),
        fixed=tuple(each for each in before.findings if _identity(each) not in still),
        standing=tuple(each for each in after.findings if _identity(each) in known),
        explained_before=told[0],
        explained_after=told[1],
        selected=after.selected,
        unselected=after.unselected,
    )


def _clusters(report: Report) -> list[Cluster]:
    return [case.cluster for case in report.cases]


def _ceiling(report: Report) -> Ceiling:
    return ceiling(
        (pool, case.nodes(pool), pool_region(pool, case.cluster)) for case in report.cases for pool in case.gpu_pools
    )


def _identity(finding: Finding) -> tuple[str, str, str, bool, bool]:
    """Return what makes a finding of two inputs the same: not the file, which lies elsewhere, nor figures in it."""
    problem, message = finding.problem, _FIGURE.sub("#", finding.problem.message)
    return finding.rule.id, problem.origin.path, message, problem.unknown, finding.acknowledged is None


def _moves(old: Report, new: Report) -> tuple[Move, ...]:
    before, after = _versions(_clusters(old)), _versions(_clusters(new))
    return tuple(
        Move(what, before.get(what), after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what) and _lasts(what, old, new)
    )


def _lasts(what: str, old: Report, new: Report) -> bool:
    """Whether a version belongs to something that is not merely added or removed with its pool."""
    return not what.startswith("pool ") or what in _versions(_clusters(old)).keys() & _versions(_clusters(new)).keys()


def _versions(told: Iterable[Cluster]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    listed = list(told)
    for cluster in listed:
        found[f"Kubernetes of {cluster.title}"] = cluster.version
        found |= {f"chart {each.name}": each.version for each in cluster.charts}
        found |= {f"add-on {each.name}": each.version or "default" for each in cluster.addons}
        place = f" in {cluster.title}" if len(listed) > 1 else ""
        found |= {f"image of {name}{place}": tag for name, tag in _images(cluster).items()}
        for pool in cluster.pools:
            release = known_text(pool.properties.get("ReleaseVersion")) or ami_alias(pool)
            image = pool.launch.image
            found[f"pool {pool.name}: image"] = release or (str(image) if image is not None else "newest")
    return found


def _images(cluster: Cluster) -> dict[str, str]:
    pods = [(each.name, each.pod) for each in cluster.daemon_sets]
    pods += [(each.kind, each.pod) for each in cluster.autoscalers]
    return {
        name if len(pod.containers or ()) == 1 else f"{name} container {container.name}": tag
        for name, pod in pods
        for container in pod.containers or ()
        if (tag := _tag(container.image)) is not None
    }


def _tag(image: Any) -> str | None:
    """Return the tag of an image, ``latest`` where it has none; ``None`` of one with a digest alone."""
    written, at, _ = str(image).partition("@")
    if image is None or not written:
        return None
    _, colon, tag = written.rpartition("/")[2].partition(":")
    return tag if colon else None if at else "latest"


def _fates(old: Sequence[Explanation], new: Sequence[Explanation], accepted: set[_FindingKey]) -> tuple[Fate, ...]:
    before, after = _verdicts(old), _verdicts(new)
    found = []
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        answers = was.answer if was else None, now.answer if now else None
        if answers[0] is not answers[1]:
            name = ": ".join(each for each in key if each)
            results = was.result if was else None, now.result if now else None
            found.append(Fate(name, *answers, *results, _nearest(now), key in accepted))
    return tuple(found)


def _verdicts(told: Sequence[Explanation]) -> Mapping[_FindingKey, Verdict]:
    several = len(told) > 1
    return {_key(several, one.case.cluster.title, each.workload): each for one in told for each in one.verdicts}


def _accepted(report: Report) -> set[_FindingKey]:
    """Return the workloads in which somebody accepts an error, which says that a pod cannot run."""
    several = len(report.cases) > 1
    waived = {
        _key(several, case.cluster.title, each.workload)
        for case, each in report.pending_by_case()
        if (case.cluster.title, each.workload.origin) in report.waived
    }
    return waived | {
        _key(several, each.cluster, each.problem.subject)
        for each in report.findings
        if each.acknowledged is not None
        and each.rule.severity == "error"
        and not each.problem.unknown
        and isinstance(each.problem.subject, Workload)
    }


def _key(several: bool, cluster: str, workload: Workload) -> _FindingKey:
    """Return what a workload is told by; a cluster that is alone may be called otherwise in the other input."""
    return cluster if several else "", workload.name


def _nearest(verdict: Verdict | None) -> str | None:
    if verdict is None or verdict.answer is Answer.YES:
        return None
    if verdict.reasons:
        return verdict.reasons[0].text
    if not verdict.pools:
        return "there is no pool"
    nearest = verdict.pools[0]
    return f"{nearest.pool.name}: {nearest.reasons[0].text}" if nearest.reasons else None
