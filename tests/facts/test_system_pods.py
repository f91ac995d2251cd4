"""How many nodes the pods of controllers need, against every way to place them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_facts.software.system_pods import (
    SystemPods,
    controller_pods,
    nodes_at_least,
    nodes_in_any_order,
    requested,
)

_ROOM = {"cpu": 10, "memory": 10}
_PODS = st.lists(
    st.builds(
        SystemPods,
        name=st.uuids().map(str),
        replicas=st.integers(1, 2),
        requests=st.fixed_dictionaries({"cpu": st.integers(0, 10), "memory": st.integers(0, 10)}),
        one_per_node=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def _takes(node: list[SystemPods], pod: SystemPods) -> bool:
    if pod.one_per_node and pod in node:
        return False
    return all(sum(each.requests[name] for each in [*node, pod]) <= room for name, room in _ROOM.items())


@given(_PODS, st.randoms())
def test_pods_fit_in_any_order(pods: list[SystemPods], random: object) -> None:
    nodes: list[list[SystemPods]] = [[] for _ in range(nodes_in_any_order(pods, _ROOM) or 0)]
    waiting = [each for each in pods for _ in range(each.replicas)]
    random.shuffle(waiting)  # type: ignore[attr-defined]

    for pod in waiting:
        open_to_it = [node for node in nodes if _takes(node, pod)]
        assert open_to_it
        random.choice(open_to_it).append(pod)  # type: ignore[attr-defined]


@given(_PODS)
def test_fewer_nodes_never_suffice(pods: list[SystemPods]) -> None:
    bound = nodes_at_least(pods, _ROOM) or 0
    waiting = [each for each in pods for _ in range(each.replicas)][:6]
    kept = [SystemPods(str(number), 1, each.requests) for number, each in enumerate(waiting)]
    needed = nodes_at_least(kept, _ROOM) or 0

    for places in itertools.product(range(max(needed - 1, 0)), repeat=len(kept)):
        nodes = [[each for each, place in zip(kept, places, strict=True) if place == node] for node in set(places)]
        assert any(sum(each.requests[name] for each in node) > _ROOM[name] for node in nodes for name in _ROOM)
    assert bound >= needed


@pytest.mark.parametrize(
    ("sizes", "nodes"),
    [((6, 6, 6), 3), ((5, 5, 5), 2), ((10, 10, 1), 3), ((6, 4, 4), 2), ((6, 5, 5), 2), ((), 0)],
)
def test_large_pods_need_a_node_each(sizes: tuple[int, ...], nodes: int) -> None:
    pods = [SystemPods(str(number), 1, {"cpu": each}) for number, each in enumerate(sizes)]

    assert nodes_at_least(pods, {"cpu": 10}) == nodes


def test_pod_larger_than_a_node_fits_none() -> None:
    pods = [SystemPods("large", 1, {"cpu": 11})]

    assert nodes_at_least(pods, _ROOM) is None
    assert nodes_in_any_order(pods, _ROOM) is None


def test_small_pods_leave_no_room_for_a_large_one() -> None:
    pods = [SystemPods("large", 1, {"cpu": 1000}), SystemPods("small", 30, {"cpu": 100})]

    assert nodes_in_any_order(pods, {"cpu": 1640}) == 5


def test_values_of_a_release_count() -> None:
    values = {"replicas": 3, "controller": {"resources": {"requests": {"cpu": "2"}}}}

    pods = controller_pods("karpenter", values)

    assert pods is not None
    assert requested(pods, "cpu") == 6000


def test_values_that_deployment_sets_count_as_nothing() -> None:
    pods = controller_pods("lws", {"resources": {"requests": object()}})

    assert pods is not None
    assert requested(pods, "cpu") == 0


def test_chart_without_known_requests_isnt_empty() -> None:
    assert controller_pods("somebodys-chart", {}) is None


def test_controllers_that_are_off_request_nothing() -> None:
    on, off = (controller_pods("kube-prometheus-stack", {"grafana": {"enabled": each}}) for each in (True, False))

    assert on is not None
    assert off is not None
    assert len(on) == len(off) + 1
