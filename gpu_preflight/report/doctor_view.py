"""The result of `doctor` as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from gpu_facts.light import dataclass
from gpu_facts.quantities import count
from gpu_preflight.doctor.catalogue import TITLES
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.diagnosis import Diagnosis, grouped
from gpu_preflight.doctor.difference import Difference
from gpu_preflight.doctor.dump import NotLooked
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.places import Place
from gpu_preflight.doctor.plan import Comparison
from gpu_preflight.doctor.unused import UnusedGpus
from gpu_preflight.model.answer import Answer
from gpu_preflight.report.finding_view import OutcomeView, outcome

_MAX_HEADLINE = 240


@dataclass(frozen=True, slots=True)
class CauseView:
    """Why a pod doesn't run.

    Attributes:
        id: Its id in the catalogue of causes, such as ``P5``.
        title: The fault in general.
        subject: Title of the faulty object.
        message: The fault with its values.
        confidence: How certain it is.
        is_effect: Whether another cause explains it.
        evidence: The values that show it.
        fix: One action that removes it.
        command: A command that does this; empty if there is no single command.
        excluded: Look-alikes that the evidence excludes.
        clock: The time for which something waits; ``None`` if nothing waits.
    """

    id: str
    title: str
    subject: str
    message: str
    confidence: Confidence
    is_effect: bool
    evidence: tuple[Evidence, ...]
    fix: str
    command: str
    excluded: tuple[str, ...]
    clock: Clock | None


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """Why pods of one owner don't run.

    Attributes:
        headline: The answer in one sentence.
        owner: Title of the object that a user wrote.
        pods: Titles of the pods; of an owner without pods, the owner.
        place: Whether the node or pool in question takes the pods, and why not; empty for pods with a node.
        causes: The causes, the first one first, effects of other causes last. The cause of a pod on which another
            cause rests, such as the pod of a controller, follows it.
        tried: Where the pod runs after the fix of the first cause was applied to the dump; empty if it wasn't applied,
            or doesn't suffice.
        simulation: Whether the pods run in the simulation; ``None`` if it has no result.
        alternatives: Other changes after which the simulation runs the pods.
        opinions: Messages of the scheduler and the autoscaler.
        disagreement: How the simulation and the scheduler disagree; empty if they don't.
    """

    headline: str
    owner: str
    pods: tuple[str, ...]
    place: str
    causes: tuple[CauseView, ...]
    tried: str
    simulation: Answer | None
    alternatives: tuple[str, ...]
    opinions: tuple[Evidence, ...]
    disagreement: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DoctorView(OutcomeView):
    """Why GPU pods of a running cluster don't run.

    Attributes:
        at: The time of the dump, in UTC, as RFC 3339.
        headline: The result in one sentence.
        diagnoses: The pods that don't run, grouped by owner and first cause; those without a cause last.
        place: The node or pool in question, such as ``pool gpu``; empty for all.
        nodes: Nodes with idle or unusable GPUs; empty if one pod was named. For a node or pool in
            question, all its nodes with GPUs.
        not_looked: Lists that the dump doesn't have, so that some causes are neither found nor excluded.
        compared: Number of objects and node groups of the plan that were compared; ``None`` without ``--against``.
        differences: Differences between the plan and the cluster, those that stop pods first.
        not_compared: Parts of the plan that weren't compared.
    """

    command: Literal["doctor"] = "doctor"
    at: str
    headline: str
    place: str
    diagnoses: tuple[DiagnosisView, ...]
    nodes: tuple[UnusedGpus, ...]
    not_looked: tuple[NotLooked, ...]
    compared: int | None = None
    differences: tuple[Difference, ...] = ()
    not_compared: tuple[NotLooked, ...] = ()


def doctor_view(
    live: Live,
    diagnoses: Sequence[Diagnosis],
    nodes: Iterable[UnusedGpus] = (),
    comparison: Comparison | None = None,
    namespace: str | None = None,
    place: Place | None = None,
) -> DoctorView:
    """Return the result of `doctor`.

    Args:
        live: The cluster.
        diagnoses: The answers for the pods in question.
        nodes: Nodes with idle or unusable GPUs.
        comparison: The differences from a plan; ``None`` without a plan.
        namespace: The only namespace in question; ``None`` for all.
        place: The only node or pool in question; ``None`` for all.
    """
    every = (_diagnosis_view(live, each, place) for each in grouped(diagnoses))
    views = tuple(sorted(every, key=lambda each: not each.causes))
    differences = comparison.differences if comparison is not None else ()
    fails = any(each.causes for each in views) or any(each.stops for each in differences)
    # Without the list of pods, nothing is known about pods that aren't in the dump.
    unknown = any(_is_open(live, each) for each in diagnoses) or (not views and live.certainty("Pod") is None)
    unknown = unknown or (comparison is not None and not comparison.compared)
    return DoctorView(
        outcome=outcome(fails=fails, unknown=unknown),
        at=live.time_text(live.now),
        headline=_headline(live, views, namespace, place),
        place=place.title if place is not None else "",
        diagnoses=views,
        nodes=tuple(nodes),
        not_looked=tuple(live.not_looked),
        compared=comparison.compared if comparison is not None else None,
        differences=differences,
        not_compared=comparison.not_compared if comparison is not None else (),
    )


def _headline(live: Live, views: Sequence[DiagnosisView], namespace: str | None, place: Place | None) -> str:
    if not views:
        where = "the dump" if namespace is None else f"namespace {namespace}"
        if live.certainty("Pod") is None:
            return "The dump doesn't have the list of pods, so it isn't known whether every GPU pod runs"
        if place is not None:
            return place.idle_sentence(namespace)
        asks = any(live.target(each).read.asks_for_gpu for each in live.objects("Pod", namespace))
        return f"Every GPU pod in {where} runs" if asks else f"No pod in {where} requests a GPU"
    if len(views) == 1:
        return views[0].headline
    every, explained = (_counts(some) for some in (views, [each for each in views if each.causes]))
    open = [one - other for one, other in zip(every, explained, strict=True)]
    pods, owners = every
    faults = [f"{count(pods, 'GPU pod')} {'don' if pods > 1 else 'doesn'}'t run"] if pods else []
    faults += [f"{count(owners, 'owner')} of GPU pods {'have' if owners > 1 else 'has'} too few"] if owners else []
    reasons = count(sum(bool(each.causes) for each in views), "reason")
    names = [count(one, name) for one, name in zip(open, ("pod", "owner"), strict=True) if one]
    rest = f"; no cause is found for {' and '.join(names)}" if names else ""
    return f"{' and '.join(faults)}{f', for {reasons}' if sum(explained) else ''}{rest}"


def _counts(views: Iterable[DiagnosisView]) -> tuple[int, int]:
    """Return the number of pods, and of owners without pods."""
    titles = [title for each in views for title in each.pods]
    pods = sum(each.startswith("Pod ") for each in titles)
    return pods, len(titles) - pods


def _diagnosis_view(live: Live, alike: Sequence[Diagnosis], place: Place | None) -> DiagnosisView:
    each = alike[0]
    return DiagnosisView(
        headline=_sentence(live, each, len(alike)),
        owner=each.target.root.title,
        pods=tuple(one.target.title for one in alike),
        place=place.result(each) if place is not None else "",
        causes=(
            *(_cause_view(one, is_effect=False) for one in each.ranking.roots),
            *(_cause_view(one, is_effect=True) for one in each.ranking.effects),
        ),
        tried=each.tried,
        simulation=each.verdict.answer if each.verdict and each.target.node is None else None,
        alternatives=tuple(one.text for one in each.remedies),
        opinions=each.opinions,
        disagreement=each.disagreement,
    )


def _cause_view(each: Cause, *, is_effect: bool) -> CauseView:
    own = {name: getattr(each, name) for name in Cause.__annotations__ if name not in ("change", "because")}
    return CauseView(title=TITLES[each.id], is_effect=is_effect, **own)


def _sentence(live: Live, each: Diagnosis, count: int) -> str:
    who = each.target.title if count == 1 else f"{count} pods of {each.target.root.title}"
    verb = "doesn't run" if count == 1 else "don't run"
    verb = "has too few pods" if each.target.pod is None else verb
    causes = each.ranking.roots or each.ranking.effects
    if causes:
        message = causes[0].message
        own = f"{who} "
        text = f"it {message[len(own) :]}" if message.startswith(own) else message
        # Texts of AWS are long. The cause below the headline has the whole.
        return f"{who} {verb}: {text if len(text) <= _MAX_HEADLINE else f'{text[:_MAX_HEADLINE]}...'}"
    if not _is_open(live, each):
        return f"{who} has all its pods" if each.target.pod is None else f"{who} runs"
    # Most causes are found by a comparison with nodes.
    lacks = "; the dump doesn't have the list of nodes" if live.certainty("Node") is None else ""
    return f"{who} {verb}, and no cause is found{lacks}"


def _is_open(live: Live, each: Diagnosis) -> bool:
    """Whether a pod doesn't run, or an owner has too few pods, and no cause is found."""
    if each.ranking.roots or each.ranking.effects:
        return False
    return not live.is_fine(each.target.pod) if each.target.pod is not None else live.lacks_pods(each.target.named)
