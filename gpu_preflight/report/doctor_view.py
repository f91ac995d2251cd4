"""The result of `doctor` as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from gpu_facts.light import dataclass
from gpu_preflight.doctor.catalogue import TITLES
from gpu_preflight.doctor.cause import Cause, Evidence
from gpu_preflight.doctor.diagnosis import Diagnosis, grouped
from gpu_preflight.doctor.dump import NotLooked
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.unused import UnusedGpus
from gpu_preflight.report.finding_view import OutcomeView, outcome
from gpu_preflight.report.wording import ANSWERS


@dataclass(frozen=True, slots=True)
class TriedFix:
    """A change after which the simulation runs the pod.

    Attributes:
        text: The change.
        patch: A strategic merge patch of the workload; ``None`` if the change isn't one of the workload.
    """

    text: str
    patch: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """Why pods of one owner don't run.

    Attributes:
        headline: The answer in one sentence.
        title: The title of the first cause; empty if no cause is found.
        owner: Title of the object that a user wrote.
        pods: Titles of the pods; of an owner without pods, the owner.
        causes: The causes, the first one first.
        effects: Causes that are an effect of the others.
        simulation: The simulated result: ``runs``, ``Pending`` or ``unknown``; ``None`` if there is none.
        tried: Changes after which the simulation runs the pods.
        opinions: What the scheduler and the autoscaler report.
        disagreement: How the simulation and the scheduler disagree; empty if they don't.
    """

    headline: str
    title: str
    owner: str
    pods: tuple[str, ...]
    causes: tuple[Cause, ...]
    effects: tuple[Cause, ...]
    simulation: str | None
    tried: tuple[TriedFix, ...]
    opinions: tuple[Evidence, ...]
    disagreement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorView(OutcomeView):
    """Why GPU pods of a running cluster don't run.

    Attributes:
        at: The time of the dump, in UTC, as RFC 3339.
        headline: The result in one sentence.
        diagnoses: The pods that don't run, grouped by owner and first cause.
        nodes: Nodes with idle or unusable GPUs; empty if one pod was named.
        not_looked: What the dump doesn't have, so that some causes are neither found nor excluded.
    """

    command: Literal["doctor"] = "doctor"
    at: str
    headline: str
    diagnoses: tuple[DiagnosisView, ...]
    nodes: tuple[UnusedGpus, ...]
    not_looked: tuple[NotLooked, ...]


def doctor_view(live: Live, diagnoses: Sequence[Diagnosis], nodes: Iterable[UnusedGpus] = ()) -> DoctorView:
    """Return the result of `doctor`.

    Args:
        live: The cluster.
        diagnoses: The answers for the pods in question.
        nodes: Nodes with idle or unusable GPUs.
    """
    views = tuple(_diagnosis_view(live, each) for each in grouped(diagnoses))
    fails = any(each.causes for each in views)
    return DoctorView(
        outcome=outcome(fails=fails, unknown=any(not each.causes for each in views if each.headline)),
        at=live.shown(live.now),
        headline=_headline(views),
        diagnoses=views,
        nodes=tuple(nodes),
        not_looked=tuple(live.not_looked),
    )


def _headline(views: Sequence[DiagnosisView]) -> str:
    if not views:
        return "Every GPU pod in the dump runs"
    if len(views) == 1:
        return views[0].headline
    pods = sum(len(each.pods) for each in views)
    return f"{pods} GPU pods don't run, for {len(views)} reasons"


def _diagnosis_view(live: Live, alike: Sequence[Diagnosis]) -> DiagnosisView:
    each = alike[0]
    causes = each.ranking.roots or each.ranking.effects
    names = tuple(one.target.title for one in alike)
    return DiagnosisView(
        headline=_sentence(live, each, len(alike)),
        title=TITLES[causes[0].id] if causes else "",
        owner=each.target.root.title,
        pods=names,
        causes=each.ranking.roots,
        effects=each.ranking.effects,
        simulation=ANSWERS[each.verdict.answer] if each.verdict and each.target.node is None else None,
        tried=tuple(TriedFix(one.text, one.patch) for one in each.remedies),
        opinions=each.opinions,
        disagreement=each.disagreement,
    )


def _sentence(live: Live, each: Diagnosis, count: int) -> str:
    who = each.target.title if count == 1 else f"{count} pods of {each.target.root.title}"
    verb = "doesn't run" if count == 1 else "don't run"
    causes = each.ranking.roots or each.ranking.effects
    if causes:
        first = causes[0]
        return f"{who} {verb}: {first.message}"
    if each.target.pod is not None and live.is_fine(each.target.pod):
        return f"{who} runs"
    return f"{who} {verb}, and no cause is found"
