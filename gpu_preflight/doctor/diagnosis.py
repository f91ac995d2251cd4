"""The answer for a pod: its causes in order, the fixes that were tried, and messages of other components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module

from gpu_facts.charts import KAI_SCHEDULER
from gpu_facts.light import dataclass
from gpu_facts.refusals import did_you_mean
from gpu_preflight.doctor.catalogue import Ranking, ranked
from gpu_preflight.doctor.cause import Cause, Evidence
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.doctor.patches import tried
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.objects import Object
from gpu_preflight.remedies.remedy import Remedy, fixes_by_workload
from gpu_preflight.scheduling.verdict import Verdict

Finder = Callable[[Live, Target], Iterator[Cause]]
# Modules of `causes`, each with a function `find`.
_GROUPS = (
    "admission",
    "queues",
    "pod_spec",
    "scheduling",
    "volumes",
    "cluster_autoscaler",
    "karpenter",
    "node_claims",
    "launch",
    "join",
    "gpu_stack",
    "rejections",
    "health",
    "containers",
)
# Kinds that create pods.
OWNERS = ("Deployment", "StatefulSet", "Job", "ReplicaSet", "DaemonSet", "JobSet", "CronJob")
_SHORT_NAMES = {
    "po": "Pod",
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "rs": "ReplicaSet",
    "cj": "CronJob",
}
# Components whose messages are a second opinion.
_OPINIONS = ("default-scheduler", "karpenter", "cluster-autoscaler", "kueue-admission", KAI_SCHEDULER)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer for one pod, or for an owner without pods.

    Attributes:
        target: The pod.
        ranking: Its causes.
        verdict: The simulated result of its workload; ``None`` if it isn't a GPU workload of the simulation.
        tried: Where the pod runs after the fix of the first cause is applied to the dump; empty if it still doesn't.
        remedies: Other changes of the workload or of a pool after which the simulation runs it.
        opinions: Messages of the scheduler and the autoscaler about it, the newest of each.
    """

    target: Target
    ranking: Ranking
    verdict: Verdict | None
    tried: str
    remedies: tuple[Remedy, ...]
    opinions: tuple[Evidence, ...]

    @property
    def disagreement(self) -> str:
        """How the simulation and the scheduler disagree; empty if they agree or one of them has no result."""
        reported = next((each for each in self.opinions if "PodScheduled" in each.field), None)
        if self.verdict is None or reported is None or self.target.node is not None:
            return ""
        takes = [each.pool.name for each in self.verdict.pools if each.answer is Answer.YES and each.pool.observed]
        if not takes or self.verdict.answer is not Answer.YES:
            return ""
        return f"the simulation finds room on {takes[0]}, and the scheduler reports: {reported.value}"


def causes(live: Live, target: Target) -> Iterator[Cause]:
    """Yield every cause that keeps a pod from running, in no order."""
    for name in _GROUPS:
        find: Finder = import_module(f"gpu_preflight.doctor.causes.{name}").find
        yield from find(live, target)


def component_cause(live: Live, pod: Object) -> Cause | None:
    """Return the first cause of a pod on which the cause of another pod rests.

    ``None`` if it is only possible, and within such a question.
    """
    if live.asks_for_component:
        return None
    live.asks_for_component = True
    try:
        first = next(iter(ranked(causes(live, live.target(pod))).roots), None)
    finally:
        live.asks_for_component = False
    return first if first is not None and first.confidence != "possible" else None


def diagnose(live: Live, target: Target, *, with_fixes: bool = True) -> Diagnosis:
    """Return the answer for a pod.

    Args:
        live: The cluster.
        target: The pod.
        with_fixes: Whether to search and try fixes, which takes the longest time.
    """
    ranking = ranked(causes(live, target))
    verdict = live.verdict(target)
    would_do: tuple[Remedy, ...] = ()
    if with_fixes and verdict is not None and verdict.answer is Answer.NO:
        would_do = next((each for each, _ in fixes_by_workload(live.input, live.case, [verdict]).values()), ())
    change = next((each.change for each in ranking.roots[:1]), None)
    result = tried(live, target, change) if change is not None and with_fixes else ""
    return Diagnosis(target, ranking, verdict, result, would_do, tuple(_opinions(live, target)))


def _opinions(live: Live, target: Target) -> Iterator[Evidence]:
    if target.pod is None:
        return
    scheduled = live.condition(target.pod, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        yield live.condition_evidence(target.pod, scheduled)
    seen = {"default-scheduler"} if scheduled is not None else set()
    for event in live.object_events(target.pod):
        if event.component in _OPINIONS and event.component not in seen:
            seen.add(event.component)
            yield live.event_evidence(event)


def find_target(live: Live, name: str, namespace: str | None) -> Target:
    """Return the pod or owner with a name.

    Args:
        live: The cluster.
        name: ``NAME``, ``NAMESPACE/NAME``, or ``KIND/NAME`` such as ``job/train``.
        namespace: Its namespace. Default: any.

    Raises:
        UnusableInput: There is no such pod or owner in the dump, or several.
    """
    first, slash, rest = name.partition("/")
    kinds = {each.kind.lower(): each.kind for each in live.dump.objects}
    kind = kind_of_pods(first) or kinds.get(first.lower()) if slash else None
    if slash and kind is None:
        namespace = first
    wanted = rest if slash else first
    every = [each for each in live.dump.objects if each.name == wanted and namespace in (None, each.namespace)]
    pods = [each for each in every if each.kind == "Pod" and kind in (None, "Pod")]
    owners = [each for each in every if each.kind in OWNERS and kind in (None, each.kind)]
    if len(pods) == 1:
        return live.target(pods[0])
    if not pods and len(owners) == 1:
        return _owner_target(live, owners[0])
    found = pods or owners
    if found:
        listed = ", ".join(each.title for each in found[:5])
        raise UnusableInput(
            f"POD must name one pod, got {name!r}, which may be {listed}; add the namespace or the kind"
        )
    raise UnusableInput(f"POD must be a pod or an owner of pods in the dump, got {name!r}{_hint(live, wanted, kind)}")


def kind_of_pods(word: str) -> str | None:
    """Return the kind of pods, or of their owners, that a word such as ``deploy`` means to kubectl, if any."""
    known = {each.lower(): each for each in ("Pod", *OWNERS)}
    plain = word.lower()
    return _SHORT_NAMES.get(plain) or known.get(plain) or known.get(plain.removesuffix("s"))


def _hint(live: Live, name: str, kind: str | None) -> str:
    """Return what a name that isn't found probably means: an object of another namespace or kind, or a typo."""
    every = [each for each in live.dump.objects if each.kind in ("Pod", *OWNERS)]
    alike = [each.title for each in every if each.name == name]
    if alike:
        return f"; the dump has {', '.join(alike[:5])}"
    # Names of generated pods are too long to be near a typo. Those of their owners aren't.
    return did_you_mean(name, [each.name for each in every if kind in (None, each.kind)])


def _owner_target(live: Live, owner: Object) -> Target:
    """Return the first pod of an owner that doesn't run, or the owner itself."""
    below, pods = [owner], list[Object]()
    while below:
        each = below.pop()
        pods += live.owned(each, "Pod")
        below += [one for kind in ("ReplicaSet", "Job") for one in live.owned(each, kind)]
    waiting = [each for each in pods if not live.is_fine(each)]
    if waiting:
        return live.target(waiting[0])
    if pods:
        return live.owner_target(owner)
    inner = next((one for kind in ("ReplicaSet", "Job") for one in live.owned(owner, kind)), owner)
    return live.owner_target(inner)


def grouped(diagnoses: Iterable[Diagnosis]) -> list[tuple[Diagnosis, ...]]:
    """Return diagnoses by the object that a user wrote and by their first cause."""
    found: dict[tuple[str, str], list[Diagnosis]] = {}
    for each in diagnoses:
        first = next((cause.id for cause in each.ranking.roots), "")
        found.setdefault((each.target.root.title, first), []).append(each)
    return [tuple(each) for each in found.values()]
