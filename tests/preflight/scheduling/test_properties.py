"""Laws for every cluster and every pod: more permissions never take a pod off a node, and no value is guessed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer, worst
from gpu_preflight.node.nodes import nodes_to_be
from gpu_preflight.scheduling.demand import demand
from gpu_preflight.scheduling.fitting import fits
from tests.long import count
from tests.preflight.strategies.pods import jobs
from tests.preflight.strategies.selection import tolerations
from tests.preflight.strategies.vocabulary import GPU, KEYS, TYPES, Json
from tests.preflight.strategies.worlds import worlds
from tests.preflight.world_files import LATER, read

# A seed each: `st.randoms` records every number, which takes longer than the check.
RANDOMS = st.integers(0, 2**32).map(Random)
property_of = settings(max_examples=count(12, 500))
Answers = dict[tuple[str, str], Answer]


def answers(world: Json, pods: list[Json]) -> Answers:
    """Return the answer of each pool to each pod, and the answer of all of them."""
    cluster = read(world, pods)
    case = Case(cluster)
    found: Answers = {}
    for workload in cluster.workloads:
        if workload.owner.name.startswith("pod-"):
            verdict = case.verdict(workload)
            found[workload.owner.name, ""] = verdict.answer
            for each in verdict.pools:
                identity = each.pool.resource.key if each.pool.resource else each.pool.name
                found[workload.owner.name, identity] = each.answer
    return found


def never(before: Answers, after: Answers, *, was: Answer, becomes: Answer) -> None:
    for key, answer in before.items():
        assert not (answer is was and after.get(key) is becomes), f"{key}: {was.value} becomes {becomes.value}"


def spec_of(job: Json) -> Json:
    spec: Json = job["spec"]
    return spec["template"]["spec"] if job["kind"] == "Deployment" else spec


def changed(pods: list[Json], change: Callable[[Json], object]) -> list[Json]:
    copied = copy.deepcopy(pods)
    for each in copied:
        change(spec_of(each))
    return copied


@property_of
@given(worlds(), jobs(), tolerations())
def test_a_toleration_never_takes_a_pod_off_a_node(cluster: Json, pods: list[Json], toleration: Json) -> None:
    more = changed(pods, lambda spec: spec.setdefault("tolerations", []).append(toleration))

    never(answers(cluster, pods), answers(cluster, more), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(
    worlds(), jobs(), st.sampled_from((("cpu", "200"), ("memory", "3Ti"), (GPU, "16"), ("ephemeral-storage", "2Ti")))
)
def test_a_larger_request_never_puts_a_pod_on_a_node(cluster: Json, pods: list[Json], larger: tuple[str, str]) -> None:
    name, amount = larger

    def raise_it(spec: Json) -> None:
        limits = spec["containers"][0].setdefault("resources", {}).setdefault("limits", {})
        limits[name] = amount

    never(answers(cluster, pods), answers(cluster, changed(pods, raise_it)), was=Answer.NO, becomes=Answer.YES)


@property_of
@given(worlds(), jobs(), st.sampled_from((*KEYS, "unheard-of")), st.sampled_from(("vision", "true", *TYPES)))
def test_a_selector_never_puts_a_pod_on_a_node(cluster: Json, pods: list[Json], key: str, value: str) -> None:
    more = changed(pods, lambda spec: spec.setdefault("nodeSelector", {}).setdefault(key, value))

    never(answers(cluster, pods), answers(cluster, more), was=Answer.NO, becomes=Answer.YES)


@property_of
@given(worlds(), jobs(), st.sampled_from((1, 100)))
def test_more_nodes_never_take_a_pod_off_a_pool(cluster: Json, pods: list[Json], more: int) -> None:
    larger = copy.deepcopy(cluster)
    for each in larger["resources"].values():
        if each["Type"] == "AWS::EKS::Nodegroup":
            each["Properties"]["ScalingConfig"]["MaxSize"] += more
    for each in larger["objects"]:
        if each["kind"] == "NodePool":
            limits = each["spec"].get("limits", {})
            each["spec"]["limits"] = {name: str(int(amount) * 10) for name, amount in limits.items()}

    never(answers(cluster, pods), answers(larger, pods), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(worlds(), jobs())
def test_fewer_replicas_never_leave_one_pending(cluster: Json, pods: list[Json]) -> None:
    fewer = copy.deepcopy(pods)
    for each in fewer:
        if each["kind"] == "Deployment":
            each["spec"]["replicas"] //= 2

    never(answers(cluster, pods), answers(cluster, fewer), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(worlds(), jobs(most=12))
def test_cached_results_equal_new_ones(world: Json, pods: list[Json]) -> None:
    cluster = read(world, pods)
    case = Case(cluster)

    for workload in cluster.workloads:
        for verdict in case.verdict(workload).pools:
            if verdict.pool.is_group and len(verdict.pool.instance_types) == 1:
                [node] = nodes_to_be(verdict.pool, cluster)
                anew = fits(demand(case.admitted(workload).workload, cluster), node, verdict.pool)
                reasons = [*anew.reasons, *(() if verdict.pool.min_nodes else anew.unexpected)]
                if verdict.answer is Answer.NO:
                    reasons = [each for each in reasons if each.answer is Answer.NO]
                assert list(verdict.reasons[: len(reasons)]) == reasons
                assert verdict.answer is worst(verdict.reasons)


@property_of
@given(worlds(), jobs())
def test_each_pod_is_checked_as_if_it_were_the_first(cluster: Json, pods: list[Json]) -> None:
    together = answers(cluster, pods)

    alone = {key: answer for each in pods for key, answer in answers(cluster, [each]).items()}

    assert together == alone


@property_of
@given(worlds(), jobs(), RANDOMS)
def test_order_does_not_matter(cluster: Json, pods: list[Json], random: Random) -> None:
    turned = {
        "resources": _turned(cluster["resources"], random),
        "objects": [_turned(each, random) for each in random.sample(cluster["objects"], len(cluster["objects"]))],
    }
    others = [_turned(each, random) for each in random.sample(pods, len(pods))]
    for each in others:
        spec_of(each)["containers"].reverse()
        spec_of(each).get("tolerations", []).reverse()

    assert answers(turned, others) == answers(cluster, pods)


def _turned(value: Any, random: Random) -> Any:
    """Return the same with the keys of every mapping in another order."""
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        return {key: _turned(value[key], random) for key in keys}
    return [_turned(each, random) for each in value] if isinstance(value, list) else value


@property_of
@given(worlds(), jobs(), RANDOMS)
def test_a_value_that_is_not_known_is_never_guessed(cluster: Json, pods: list[Json], random: Random) -> None:
    """With any one literal known at deployment only, every answer stays or becomes unknown."""
    cluster = {**cluster, "objects": [*cluster["objects"], *pods]}
    before = answers(cluster, [])
    places = list(_literals(cluster["resources"])) + list(_literals(cluster["objects"]))

    for place in random.sample(places, min(3, len(places))):
        after = answers(_without(cluster, place), [])

        for key, answer in before.items():
            assert after.get(key, Answer.UNKNOWN) in (answer, Answer.UNKNOWN), (
                f"{key}: {answer} becomes {after[key]} without {place}"
            )


_STRUCTURE = ("Type", "kind", "apiVersion", "name", "Name", "ClusterName")


def _literals(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every literal, except names and values that set the kind of an object."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        if isinstance(each, (str, int)) and key not in _STRUCTURE and "Ref" not in path and key != "Ref":
            yield ("resources" if isinstance(path[0] if path else key, str) else "objects", *path, key)
        else:
            yield from _literals(each, *path, key)


def _without(cluster: Json, place: tuple[Any, ...]) -> Json:
    copied = copy.deepcopy(cluster)
    holder: Any = copied
    for key in place[:-1]:
        holder = holder[key]
    number = isinstance(holder[place[-1]], int)
    if place[0] == "resources":
        holder[place[-1]] = {"Ref": "Later"}
    else:
        holder[place[-1]] = f"{LATER}number" if number else LATER
    return copied
