"""What a change means for GPUs and money: two inputs compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.ceiling import Ceiling, ceiling
from gpu_constructs.preflight.check import Report, check
from gpu_constructs.preflight.explain import explain
from gpu_constructs.preflight.images import alias_of
from gpu_constructs.preflight.inputs import Input
from gpu_constructs.preflight.model import Cluster
from gpu_constructs.preflight.pool_changes import PoolChange, pool_changes
from gpu_constructs.preflight.rules.rule import Finding
from gpu_constructs.preflight.scheduling import Verdict
from gpu_constructs.preflight.unknown import known_text, mappings


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
        workload: Its name.
        before: The verdict before; ``None`` where it was not there.
        after: The verdict after; ``None`` where it is gone.
        reason: The nearest reason for the verdict after.
    """

    workload: str
    before: Answer | None
    after: Answer | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Review:
    """Everything a reviewer asks of a change.

    Attributes:
        pools: Pools that are added, removed, replaced or changed.
        moves: Versions that change.
        before: The ceiling before.
        after: The ceiling after.
        fates: Workloads whose verdict changes.
        new: Findings that come.
        fixed: Findings that go.
        standing: Findings that stay.
    """

    pools: tuple[PoolChange, ...] = ()
    moves: tuple[Move, ...] = ()
    before: Ceiling = field(default_factory=Ceiling)
    after: Ceiling = field(default_factory=Ceiling)
    fates: tuple[Fate, ...] = ()
    new: tuple[Finding, ...] = ()
    fixed: tuple[Finding, ...] = ()
    standing: tuple[Finding, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the change leaves an error that nobody accepts, or makes a pod Pending."""
        every = (*self.new, *self.standing)
        accepted = {each.problem.message.partition(":")[0] for each in every if each.acknowledged is not None}
        pending = any(each.after is Answer.NO and each.workload not in accepted for each in self.fates)
        return pending or any(each.counts for each in (*self.new, *self.standing))


def review(old: Input, new: Input) -> Review:
    """Compare two inputs.

    Raises:
        UnusableInput: An acknowledgement names no rule or gives no reason.
    """
    before, after = check(old), check(new)
    known = {_identity(each) for each in before.findings}
    still = {_identity(each) for each in after.findings}
    return Review(
        pools=pool_changes(before.clusters, after.clusters),
        moves=_moves(before, after),
        before=ceiling(before.clusters),
        after=ceiling(after.clusters),
        fates=_fates(before.clusters, after.clusters),
        new=tuple(each for each in after.findings if _identity(each) not in known),
        fixed=tuple(each for each in before.findings if _identity(each) not in still),
        standing=tuple(each for each in after.findings if _identity(each) in known),
    )


def _identity(finding: Finding) -> tuple[str, str, str, bool, bool]:
    """Return what makes a finding of two inputs the same: not the file, which lies elsewhere."""
    problem = finding.problem
    return finding.rule.id, problem.origin.path, problem.message, problem.unknown, finding.acknowledged is None


def _moves(old: Report, new: Report) -> tuple[Move, ...]:
    before, after = _versions(old.clusters), _versions(new.clusters)
    return tuple(
        Move(what, before.get(what), after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what) and _lasts(what, old, new)
    )


def _lasts(what: str, old: Report, new: Report) -> bool:
    """Whether a version belongs to something that is not merely added or removed with its pool."""
    return not what.startswith("pool ") or what in _versions(old.clusters).keys() & _versions(new.clusters).keys()


def _versions(clusters: Iterable[Cluster]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for cluster in clusters:
        found[f"Kubernetes of {cluster.name}"] = cluster.version
        found |= {f"chart {each.name}": each.version for each in cluster.charts}
        found |= {f"add-on {each.name}": each.version or "default" for each in cluster.addons}
        found |= {f"image of {name}": tag for name, tag in _images(cluster).items()}
        for pool in cluster.pools:
            release = known_text(pool.properties.get("ReleaseVersion")) or alias_of(pool)
            image = pool.launch.get("ImageId")
            found[f"pool {pool.name}: image"] = release or (str(image) if image is not None else "newest")
    return found


def _images(cluster: Cluster) -> dict[str, str]:
    pods = [(each.name, each.pod) for each in cluster.daemon_sets]
    pods += [(each.kind, each.pod) for each in cluster.autoscalers]
    return {
        name: tag
        for name, pod in pods
        for container in mappings(pod.get("containers"))
        if (tag := str(container.get("image")).partition("@")[0].rpartition(":")[2]) != "None"
    }


def _fates(old: Iterable[Cluster], new: Iterable[Cluster]) -> tuple[Fate, ...]:
    before, after = _verdicts(old), _verdicts(new)
    found = []
    for name in dict.fromkeys((*before, *after)):
        was, now = before.get(name), after.get(name)
        fate = Fate(name, was.answer if was else None, now.answer if now else None, _nearest(now))
        if fate.before is not fate.after:
            found.append(fate)
    return tuple(found)


def _verdicts(clusters: Iterable[Cluster]) -> Mapping[str, Verdict]:
    """Return the verdicts by the name of the workload, which is told with its cluster where there are several."""
    listed = list(clusters)
    return {
        f"{cluster.name}: {each.workload.name}" if len(listed) > 1 else each.workload.name: each
        for cluster in listed
        for each in explain(cluster).verdicts
    }


def _nearest(verdict: Verdict | None) -> str:
    if verdict is None or verdict.answer is Answer.YES:
        return ""
    if verdict.reasons:
        return verdict.reasons[0].text
    if not verdict.pools:
        return "there is no pool"
    nearest = verdict.pools[0]
    return f"{nearest.pool.name}: {nearest.reasons[0].text}" if nearest.reasons else ""
