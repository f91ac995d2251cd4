"""Questions for both: nodes as preflight expects them, and a pod that may or may not fit them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpu_facts.kubernetes import LABEL_VALUE
from gpu_facts.quantities import add
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import LabelValues, Requirement, Selection
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import DAEMON_SET_TOLERATIONS
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, dig, mapping
from tests.e2e.case import NAMED_BY, Case, Decision
from tests.preflight.scheduling.told import ANYWHERE, Fate, Told, agrees
from tests.preflight.strategies.vocabulary import HOSTNAME, Json

MOST_CHOICES = 12
_OTHER = "something-else"


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, its possible place, and preflight's result.

    Attributes:
        pod: Name of the pod.
        place: The node, or all of them.
        told: Preflight's result.
        case: The same for the scheduler.
    """

    pod: str
    place: str
    told: Fate
    case: Case

    def is_right(self, decision: Decision) -> bool:
        """Whether preflight's result is the scheduler's decision."""
        return agrees(self.told, fate(decision))


def fate(decision: Decision) -> Fate:
    """Return what became of a pod."""
    if decision.refused:
        return "refused"
    return "runs" if decision.scheduled else "waits"


def questions(world: Json, pods: Sequence[Json], *, room: int) -> list[Question]:
    """Return what to ask about pods and the nodes of a world.

    Args:
        world: The cluster.
        pods: The pods.
        room: The share of the open part of a node's resources that is free, from none, 0, to all, 100.
    """
    told = Told(world, pods)
    return [each for pod in pods for each in _questions(told, world, pod, room)]


def _questions(told: Told, world: Json, pod: Json, room: int) -> Iterator[Question]:
    name, every = pod["metadata"]["name"], []
    fates, wanted = told.fates(name), told.demand(name)
    objects = [each for each in world["objects"] if _is_met_at_the_door(each, pod)]
    refused = fates[ANYWHERE] == "refused" if ANYWHERE in fates else False
    for place, pool, node in told.nodes():
        daemons = [each for each in told.cluster.daemon_sets if told.case.reaches(each, pool) is Answer.YES]
        made = [
            Placed(node_manifest(f"{place} {number}", node, labels, daemons, room), daemons)
            for number, labels in enumerate(label_choices(node, wanted.pod.selection))
        ]
        every += made
        if not refused:
            yield Question(name, place, fates[place], _case(pod, made, objects, told.cluster))
    if ANYWHERE in fates and every:
        yield Question(name, ANYWHERE, fates[ANYWHERE], _case(pod, every, objects, told.cluster))


@dataclass(frozen=True, slots=True)
class Placed:
    """A node and the DaemonSets on it."""

    node: Json
    daemons: Sequence[DaemonSet]


def _case(pod: Json, placed: Sequence[Placed], objects: Sequence[Json], cluster: Cluster) -> Case:
    bound = [daemon_pod(each, cluster, on=one.node["metadata"]["name"]) for one in placed for each in one.daemons]
    first, *others = (each.node for each in placed)
    return Case(node=first, others=others, pod=pod, bound=bound, objects=objects)


def _is_met_at_the_door(each: Json, pod: Json) -> bool:
    """Whether the API server looks at an object when it lets a pod in."""
    namespace = pod["metadata"]["namespace"]
    if each["kind"] in NAMED_BY:
        return bool(pod["spec"].get(NAMED_BY[each["kind"]]) == each["metadata"]["name"])
    if each["kind"] == "Namespace":
        return bool(each["metadata"]["name"] == namespace)
    return bool(each["kind"] == "LimitRange" and each["metadata"]["namespace"] == namespace)


def node_manifest(name: str, node: NodeToBe, labels: Json, daemons: Iterable[DaemonSet], room: int) -> Json:
    """A node as preflight expects it, with the given share of the range between its min and max."""
    taken = add(*(each.pod.requests for each in daemons))
    have = {"pods": 110} | {each: _between(node.least.get(each, 0), most, room) for each, most in node.most.items()}
    allocatable = {
        each: f"{max(0, amount + taken.get(each, 0))}{'m' if each == 'cpu' else ''}" for each, amount in have.items()
    }
    taints = [{"key": each.key, "value": each.value or "", "effect": each.effect} for each in node.taints]
    return {
        "metadata": {"name": name, "labels": labels | {HOSTNAME: name.replace(" ", "-")}},
        "spec": {"taints": taints},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def _between(least: int, most: int, room: int) -> int:
    return least + (most - least) * room // 100


def label_choices(node: NodeToBe, chosen: Selection) -> Iterator[Json]:
    """Yield each choice of labels that the creator of a node has and a pod may notice."""
    asked: dict[str, list[Requirement]] = {}
    for each in (*chosen.selector, *(one for term in chosen.terms or () for one in term.labels)):
        asked.setdefault(each.key, []).append(each)
    choices = {key: _choices(value, asked.get(key)) for key, value in node.labels.items()}
    for values in itertools.islice(itertools.product(*choices.values()), MOST_CHOICES):
        yield {key: value for key, value in zip(choices, values, strict=True) if value is not None}


def _choices(value: LabelValues | Unknown, asked: list[Requirement] | None) -> list[str | None]:
    if isinstance(value, Unknown):
        return ["known-later"]
    absent: list[str | None] = [None] if value.may_be_absent else []
    found: list[str | None] = [*sorted(value.values)]
    if value.all_but:
        named = {
            near
            for each in asked or ()
            for one in each.values or ()
            for near in _near(one)
            if LABEL_VALUE.fullmatch(near)
        }
        found = [*sorted(named - value.values), _OTHER]
    every = [*found, *absent]
    return every if asked else every[:1]


def _near(value: str) -> list[str]:
    """Return a value, and its neighbors if it is a number."""
    try:
        return [value, str(int(value) - 1), str(int(value) + 1)]
    except ValueError:
        return [value]


def daemon_pod(daemon: DaemonSet, cluster: Cluster, *, on: str | None = None) -> Json:
    """The pod that the DaemonSet controller makes for a node."""
    [owner] = [each for each in cluster.objects_of_kind("DaemonSet") if each.name == daemon.name]
    spec = mapping(dig(owner.content, "spec", "template", "spec"))
    added = [{"key": each.key, "operator": each.operator, "effect": each.effect} for each in DAEMON_SET_TOLERATIONS]
    tolerating = {**spec, "tolerations": [*spec.get("tolerations", ()), *added]}
    placed = _without_volumes(tolerating) | ({"nodeName": on} if on else {})
    return {"metadata": {"name": daemon.name, "namespace": "kube-system"}, "spec": placed}


def _without_volumes(spec: Json) -> Json:
    containers = [{key: each[key] for key in each if key != "volumeMounts"} for each in spec["containers"]]
    return {key: value for key, value in spec.items() if key != "volumes"} | {"containers": containers}
