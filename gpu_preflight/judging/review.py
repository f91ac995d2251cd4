"""What a change means for GPUs and money: two inputs compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.cluster.images import alias_of
from gpu_preflight.cluster.subnets import region_of
from gpu_preflight.judging.changes import ResourceChange, resource_changes
from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.cluster_changes import ClusterChange, cluster_changes
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.pool_changes import PoolChange, pool_changes
from gpu_preflight.judging.standing import as_they_stand
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.unknown import known_text
from gpu_preflight.rules.rule import Finding
from gpu_preflight.scheduling.ceiling import Ceiling, ceiling
from gpu_preflight.scheduling.verdict import Result, Verdict

# A number that is no part of a name.
_FIGURE = regex(r"(?<![\w.-])\d[\d,.]*(?![\w-])")


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
        workload: Its name, with that of its cluster where there are several.
        before: The verdict before; ``None`` where it was not there.
        after: The verdict after; ``None`` where it is gone.
        reason: The nearest reason for the verdict after.
        accepted: Whether somebody accepts an error that is found in it.
        results: What the two verdicts come to, as `Verdict.result` names it.
    """

    workload: str
    before: Answer | None
    after: Answer | None
    reason: str = ""
    accepted: bool = False
    results: tuple[Result | None, Result | None] = (None, None)


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


def review(old: Input, new: Input) -> Review:
    """Compare two inputs.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    deployed, written = clusters(old), clusters(new)
    before, after = check(old, as_they_stand(deployed, deployed)), check(new, as_they_stand(deployed, written))
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
    )


def _clusters(report: Report) -> list[Cluster]:
    return [case.cluster for case in report.cases]


def _ceiling(report: Report) -> Ceiling:
    return ceiling(
        (pool, case.nodes(pool), region_of(pool, case.cluster)) for case in report.cases for pool in case.gpu_pools
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
            release = known_text(pool.properties.get("ReleaseVersion")) or alias_of(pool)
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


_Key = tuple[str, str]


def _fates(old: Sequence[Explanation], new: Sequence[Explanation], accepted: set[_Key]) -> tuple[Fate, ...]:
    before, after = _verdicts(old), _verdicts(new)
    found = []
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        answers = was.answer if was else None, now.answer if now else None
        if answers[0] is not answers[1]:
            name = ": ".join(each for each in key if each)
            results = was.result if was else None, now.result if now else None
            found.append(Fate(name, *answers, _nearest(now), key in accepted, results))
    return tuple(found)


def _verdicts(told: Sequence[Explanation]) -> Mapping[_Key, Verdict]:
    several = len(told) > 1
    return {_key(several, one.case.cluster.title, each.workload): each for one in told for each in one.verdicts}


def _accepted(report: Report) -> set[_Key]:
    """Return the workloads in which somebody accepts an error, which says that a pod cannot run."""
    return {
        _key(len(report.cases) > 1, each.cluster, each.problem.subject)
        for each in report.findings
        if each.acknowledged is not None
        and each.rule.severity == "error"
        and not each.problem.unknown
        and isinstance(each.problem.subject, Workload)
    }


def _key(several: bool, cluster: str, workload: Workload) -> _Key:
    """Return what a workload is told by; a cluster that is alone may be called otherwise in the other input."""
    return cluster if several else "", workload.name


def _nearest(verdict: Verdict | None) -> str:
    if verdict is None or verdict.answer is Answer.YES:
        return ""
    if verdict.reasons:
        return verdict.reasons[0].text
    if not verdict.pools:
        return "there is no pool"
    nearest = verdict.pools[0]
    return f"{nearest.pool.name}: {nearest.reasons[0].text}" if nearest.reasons else ""
