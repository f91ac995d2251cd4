"""The nodes that pools run, from any list of results: each pod on a node or left over, no node beyond the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_facts.resources import GPU
from gpu_preflight.model.answer import Answer
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.packing import Packing, PoolUse, pack
from gpu_preflight.scheduling.pool_limits import node_limit
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict
from tests.preflight.readers import pool
from tests.preflight.scheduling.samples import node, wanted

EXAMPLES = settings(max_examples=60)
YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
FOUR, EIGHT = "g6.12xlarge", "g6.48xlarge"
BOUNDS: tuple[dict[str, Any], ...] = ({}, {"max_nodes": 0}, {"max_nodes": 2}, {"limits": {GPU: 12}})


def machine(kind: str = FOUR, **has: int) -> NodeToBe:
    """A node with the GPUs of its type, 4 or 8, and the given thousandths of a CPU."""
    return node(kind, has={"pods": 100, "cpu": 40_000, GPU: 4 if kind == FOUR else 8, **has})


def taking(name: str = "p", *nodes: NodeToBe, answer: Answer = YES, binding: str | None = None, **says: Any) -> Any:
    """The verdict of a pool that takes pods on nodes of some types."""
    return PoolVerdict(pool(name=name, **says), answer, (), binding=binding, nodes_taking=nodes or (machine(),))


def waiting(
    name: str, pools: Sequence[PoolVerdict], gpus: int = 1, replicas: Any = 1, priority: int | None = 0, **says: Any
) -> Verdict:
    """Pods that wait for nodes of some pools."""
    demanded = wanted(replicas=replicas, **{GPU: gpus, **says})
    pods = replace(demanded.workload, name=name, priority=priority, replicas=replicas)
    return Verdict(pods, YES, tuple(pools), (), Demand(pods, demanded.topology))


def left_over(packing: Packing) -> dict[str, int]:
    return {workload.name: count for workload, count in packing.left}


def used(packing: Packing) -> list[tuple[str, int, int, dict[str, int]]]:
    return [(use.pool.name, use.nodes, use.gpus, dict(use.pods)) for use in packing.uses]


@st.composite
def crowds(draw: st.DrawFn) -> list[Verdict]:
    """Several workloads that share some pools of one type each, some of them bounded, in nodes or in GPUs."""
    kinds = [draw(st.sampled_from((FOUR, EIGHT))) for _ in range(draw(st.integers(1, 2)))]
    bounds = [draw(st.sampled_from(BOUNDS)) for _ in kinds]
    there = [taking(f"p{n}", machine(kind), **says) for n, (kind, says) in enumerate(zip(kinds, bounds, strict=True))]
    ports = {"containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"limits": {GPU: 1}}}]}
    return [
        waiting(
            f"w{n}",
            there if draw(st.booleans()) else there[:1],
            gpus=draw(st.integers(0, 4)),
            replicas=draw(st.sampled_from((None, 0, 1, 2, 3, 5, 9))),
            priority=draw(st.sampled_from((None, 0, 5))),
            cpu=draw(st.sampled_from(("1", "9", "20"))),
            spec=draw(st.sampled_from((None, None, None, {**ports, "hostNetwork": False}))),
        )
        for n in range(draw(st.integers(1, 5)))
    ]


def replicas_of(verdict: Verdict) -> int:
    return 1 if verdict.workload.replicas is None else verdict.workload.replicas


@EXAMPLES
@given(crowds())
def test_every_pod_is_placed_or_left_whatever_was_open_before(crowd: list[Verdict]) -> None:
    packing = pack(crowd)

    for verdict in crowd:
        placed = sum(use.pods.get(verdict.workload.name, 0) for use in packing.uses)
        assert 0 <= placed <= replicas_of(verdict)
        assert placed + left_over(packing).get(verdict.workload.name, 0) == replicas_of(verdict)


@EXAMPLES
@given(crowds())
def test_no_more_is_asked_of_the_nodes_of_a_pool_than_they_have(crowd: list[Verdict]) -> None:
    asked = {verdict.workload.name: verdict.demand.requests for verdict in crowd}
    nodes = {id(each.pool): each.nodes_taking[0] for verdict in crowd for each in verdict.pools}

    for use in pack(crowd).uses:
        there = nodes[id(use.pool)]
        for resource, amount in there.most.items():
            taken = sum(count * asked[name].get(resource, 0) for name, count in use.pods.items())
            assert taken <= use.nodes * amount


@EXAMPLES
@given(crowds())
def test_a_pool_has_the_gpus_of_its_nodes_no_more_nodes_than_it_may_and_none_without_a_pod(
    crowd: list[Verdict],
) -> None:
    nodes = {id(each.pool): each.nodes_taking[0] for verdict in crowd for each in verdict.pools}

    for use in pack(crowd).uses:
        there = nodes[id(use.pool)]
        limit = node_limit(use.pool, there)
        assert use.gpus == use.nodes * there.most[GPU]
        assert limit is None or use.nodes <= limit
        assert use.nodes <= sum(use.pods.values())


@EXAMPLES
@given(crowds())
def test_nothing_is_left_while_a_pool_that_takes_it_may_have_one_more_node(crowd: list[Verdict]) -> None:
    packing = pack(crowd)
    nodes = {id(use.pool): use.nodes for use in packing.uses}

    for verdict in crowd:
        if verdict.workload.name in left_over(packing):
            for each in verdict.pools:
                assert nodes[id(each.pool)] == node_limit(each.pool, each.nodes_taking[0])


@EXAMPLES
@given(st.integers(0, 4), st.integers(0, 12), st.integers(0, 4), st.integers(0, 12))
def test_pods_go_where_room_is_before_they_open_a_node(gpus: int, many: int, fewer: int, more: int) -> None:
    """Two workloads on one pool without a bound, counted by hand."""
    there = [taking()]
    first, second = max((gpus, many), (fewer, more)), min((gpus, many), (fewer, more))
    crowd = [waiting("first", there, *first), waiting("second", there, *second)]

    packing = pack(crowd)

    per_node = 4 // first[0] if first[0] else 40
    opened = -(-first[1] // per_node)
    loads = [first[1] // opened + (n < first[1] % opened) for n in range(opened)]
    rooms = [min((4 - load * first[0]) // second[0] if second[0] else 40, 40 - load) for load in loads]
    rest = max(second[1] - sum(rooms), 0)
    opened += -(-rest // (4 // second[0] if second[0] else 40))
    assert sum(use.nodes for use in packing.uses) == opened
    assert packing.left == ()


@EXAMPLES
@example([(1, 3)], 16, 0)
@example([(1, 3)], 16, 1)
@given(
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(0, 99),
    st.integers(0, 1),
)
def test_pods_of_one_gpu_fill_every_place_before_they_open_a_node(
    large: list[tuple[int, int]], some: int, more: int
) -> None:
    """Large pods have a node each, because of their CPU; two workloads of small ones share what these leave."""
    there = [taking("p", machine(EIGHT))]
    crowd = [waiting(f"large{n}", there, *each, priority=9 - n, cpu="21") for n, each in enumerate(large)]
    places = sum((8 - gpus) * replicas for gpus, replicas in large)
    first = some % (places + 1)
    crowd += [waiting(f"small{n}", there, 1, count, 1 - n, cpu="1m") for n, count in enumerate((first, places - first))]

    [use] = pack([*crowd, waiting("late", there, 1, more, -1, cpu="1m")]).uses

    assert use.nodes == sum(replicas for _, replicas in large) + more


def test_pods_fill_one_node_before_they_touch_the_next() -> None:
    """One node with one place and two with two: three pods leave a whole half of a node to a larger one."""
    there = [taking()]
    crowd = [
        waiting("three", there, 3, 1, priority=3),
        waiting("two", there, 2, 2, priority=2, cpu="21"),
        waiting("one", there, 1, 3, priority=1, cpu="1m"),
        waiting("last", there, 2, 1, priority=0, cpu="1m"),
    ]

    assert used(pack(crowd)) == [("p", 3, 12, {"three": 1, "two": 2, "one": 3, "last": 1})]


def test_pods_that_are_alike_are_placed_in_the_order_they_come() -> None:
    there = (taking(max_nodes=1),)
    pods = [waiting(name, there, replicas=3) for name in ("a", "b", "c")]
    shared = [replace(each, pools=there) for each in pods]

    packing = pack(shared)

    assert used(packing) == [("p", 1, 4, {"a": 3, "b": 1})]
    assert left_over(packing) == {"b": 2, "c": 3}


@pytest.mark.parametrize(
    ("says", "other"),
    [
        ({"priority": 1}, {"priority": 0}),
        ({"priority": 1, "gpus": 1}, {"priority": None, "gpus": 4}),
        ({"priority": 0}, {"priority": -1}),
        ({"priority": None}, {"priority": -1}),
        ({"gpus": 4}, {"gpus": 3, "cpu": "30"}),
        ({"gpus": 4, "cpu": "9"}, {"gpus": 4, "cpu": "8"}),
        ({"gpus": 4, "cpu": "9", "memory": "2Gi"}, {"gpus": 4, "cpu": "9", "memory": "1Gi"}),
        ({"gpus": 4, "cpu": "1"}, {"gpus": 4, "memory": "1Gi"}),
        ({"gpus": 4, "memory": "1"}, {"gpus": 4}),
        ({"gpus": 4, "cpu": "1m"}, {"gpus": 4}),
    ],
)
def test_who_goes_first(says: Any, other: Any) -> None:
    there = [taking("p", machine(memory=2**40), max_nodes=1)]
    first, second = waiting("first", there, **{"gpus": 4, **says}), waiting("second", there, **{"gpus": 4, **other})

    for crowd in ([first, second], [second, first]):
        assert used(pack(crowd)) == [("p", 1, 4, {"first": 1})]
        assert left_over(pack(crowd)) == {"second": 1}


@pytest.mark.parametrize(
    ("answer", "placed"),
    [(YES, 1), (UNKNOWN, 1), (NO, 0)],
)
def test_pods_go_to_pools_that_may_take_some_of_them(answer: Answer, placed: int) -> None:
    packing = pack([waiting("a", [taking(answer=answer)])])

    assert sum(use.nodes for use in packing.uses) == placed


def test_pods_that_no_pool_may_take_are_not_left_over() -> None:
    assert pack([waiting("a", [taking(answer=NO)])]) == Packing((), ())


def test_pods_that_fit_no_pool_keep_no_other_pod_from_a_node() -> None:
    packing = pack([waiting("a", [taking(answer=NO)], gpus=4), waiting("b", [taking()])])

    assert used(packing) == [("p", 1, 4, {"b": 1})]


def test_a_workload_of_nothing_uses_nothing() -> None:
    assert pack([waiting("a", [taking()], replicas=0)]) == Packing((), ())


def test_replicas_that_are_not_known_are_one() -> None:
    assert used(pack([waiting("a", [taking()], replicas=None)])) == [("p", 1, 4, {"a": 1})]


def test_no_pool_is_tried_after_all_are_placed() -> None:
    packing = pack([waiting("a", [taking("p"), taking("q")])])

    assert used(packing) == [("p", 1, 4, {"a": 1})]


def test_pods_go_to_the_first_pool_until_it_is_full() -> None:
    packing = pack([waiting("a", [taking("p", max_nodes=1), taking("q", max_nodes=1)], replicas=9)])

    assert used(packing) == [("p", 1, 4, {"a": 4}), ("q", 1, 4, {"a": 4})]
    assert left_over(packing) == {"a": 1}


def test_workloads_that_share_a_pool_share_its_limit() -> None:
    shared = taking(max_nodes=2)

    packing = pack([waiting("a", [shared], gpus=3), waiting("b", [shared], gpus=3), waiting("c", [shared], gpus=3)])

    assert used(packing) == [("p", 2, 8, {"a": 1, "b": 1})]
    assert left_over(packing) == {"c": 1}


def test_a_pool_beyond_its_limit_gets_no_more_nodes() -> None:
    """Two types: the small one counts less against the limit, so that the large one finds it passed."""
    there = pool(name="p", limits={GPU: 8})
    small = PoolVerdict(there, YES, (), nodes_taking=(machine(FOUR),))
    large = PoolVerdict(there, YES, (), nodes_taking=(machine(EIGHT),))

    packing = pack([waiting("a", [small], gpus=4, replicas=2), waiting("b", [large], gpus=1)])

    assert used(packing) == [("p", 2, 8, {"a": 2})]
    assert left_over(packing) == {"b": 1}


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (machine(FOUR, cpu=9_000), machine(EIGHT, cpu=8_000)),
        (machine(FOUR, cpu=8_000), machine(FOUR, cpu=9_000)),
        (node("m5.large", has={"pods": 100, "cpu": 9_000}), machine(FOUR, cpu=8_000)),
        (node("m5.large", has={"pods": 100, "cpu": 9_000}), node("g6.xlarge", has={"pods": 9, "cpu": 8_000, GPU: 1})),
        (node("m5.large", has={"pods": 100}), node("m5.xlarge", has={"pods": 9, "cpu": 1})),
    ],
)
def test_a_new_node_is_of_the_smallest_type(small: NodeToBe, large: NodeToBe) -> None:
    """Fewest GPUs first, then the least CPU; seen by how many GPUs the node has, or how many pods it takes."""
    for order in ((small, large), (large, small)):
        taken = pack([waiting("a", [taking("p", *order)], gpus=0, cpu="1m", replicas=1)])
        alone = pack([waiting("a", [taking("p", small)], gpus=0, cpu="1m", replicas=1)])
        assert used(taken) == used(alone)

    many = waiting("a", [taking("p", large, small)], gpus=0, cpu="4500m", replicas=2)
    assert used(pack([many])) == used(pack([waiting("a", [taking("p", small)], gpus=0, cpu="4500m", replicas=2)]))


def test_a_node_without_gpus_brings_none() -> None:
    bare = node("m5.large", has={"pods": 100})

    assert used(pack([waiting("a", [taking("p", bare)], gpus=0, replicas=101)])) == [("p", 2, 0, {"a": 101})]


def test_workloads_of_one_name_are_counted_together() -> None:
    there = [taking()]

    packing = pack([waiting("a", there, gpus=2), waiting("a", there, gpus=1), waiting("b", there, gpus=1)])

    assert used(packing) == [("p", 1, 4, {"a": 2, "b": 1})]


def test_what_a_node_does_not_have_is_not_found_on_it() -> None:
    """The first node certainly lacks it; whether a fresh one has it is unknown, which another line reports."""
    there = [taking()]

    packing = pack([waiting("a", there), waiting("b", there, **{"example.com/a": 1})])

    assert used(packing) == [("p", 2, 8, {"a": 1, "b": 1})]


def test_what_a_pod_does_not_ask_for_is_left_to_others() -> None:
    there = [taking("p", machine(memory=1))]

    packing = pack([waiting("a", there, priority=1), waiting("b", there, memory=1)])

    assert used(packing) == [("p", 1, 4, {"a": 1, "b": 1})]


def test_a_pool_whose_nodes_are_not_known_takes_pods_into_none() -> None:
    nowhere = replace(taking(), nodes_taking=())

    packing = pack([waiting("a", [nowhere], replicas=2)])

    assert used(packing) == [("p", 0, 0, {})]
    assert left_over(packing) == {"a": 2}


HOST_PORT = {"containers": [{"name": "main", "ports": [{"hostPort": 80}], "resources": {"limits": {GPU: 1}}}]}


def test_pods_with_a_host_port_have_a_node_each() -> None:
    there = [taking()]

    packing = pack([waiting("large", there, gpus=2), waiting("port", there, replicas=2, spec=HOST_PORT)])

    assert used(packing) == [("p", 2, 8, {"large": 1, "port": 2})]


def test_other_pods_find_room_next_to_a_pod_with_a_host_port() -> None:
    there = [taking()]

    packing = pack([waiting("port", there, spec=HOST_PORT, priority=1), waiting("small", there, replicas=3)])

    assert used(packing) == [("p", 1, 4, {"port": 1, "small": 3})]


@pytest.mark.parametrize(
    ("kind", "sizes", "nodes"),
    [
        # Two nodes of 3; one pod goes beside one of them, three beside both and into a third node.
        (FOUR, [(3, 2), (1, 1)], 2),
        (FOUR, [(3, 2), (1, 3)], 3),
        # Three nodes of 2; two pods of 2 leave one half empty, which takes two more.
        (FOUR, [(2, 6), (2, 1), (1, 2)], 4),
        (FOUR, [(3, 3), (1, 2), (1, 1)], 3),
        (FOUR, [(3, 3), (1, 2), (1, 2)], 4),
        # Pods are spread evenly: seven on two nodes are four and three.
        (FOUR, [(1, 7), (1, 1)], 2),
        (FOUR, [(1, 7), (1, 2)], 3),
        (FOUR, [(3, 1), (2, 1), (1, 3)], 2),
        (FOUR, [(3, 1), (2, 1), (1, 4)], 3),
        (FOUR, [(3, 4), (1, 3), (1, 1), (1, 1)], 5),
        (EIGHT, [(1, 9), (1, 7)], 2),
        (EIGHT, [(1, 9), (1, 8)], 3),
    ],
)
def test_what_stays_free_is_filled_to_the_last_place(kind: str, sizes: list[tuple[int, int]], nodes: int) -> None:
    """One workload after the other, by priority, so that each finds what those before it left."""
    there = [taking("p", machine(kind))]
    crowd = [
        waiting(f"w{n}", there, gpus, replicas, priority=len(sizes) - n) for n, (gpus, replicas) in enumerate(sizes)
    ]

    packing = pack(crowd)

    assert [use.nodes for use in packing.uses] == [nodes]
    assert packing.left == ()


@pytest.mark.parametrize(("replicas", "opened"), [(64, 0), (65, 1)])
def test_the_nodes_that_were_opened_last_are_looked_into_and_older_ones_no_more(replicas: int, opened: int) -> None:
    """Seventy kinds of nodes with one place each: the pods of the next workload find 64 of them."""
    there = [taking("p", machine(cpu=40_000))]
    crowd = [waiting(f"w{n:02}", there, 3, 1, priority=100 - n, cpu=f"{10_000 + n}m") for n in range(70)]

    [use] = pack([*crowd, waiting("last", there, 1, replicas, priority=0)]).uses

    assert use.nodes == 70 + opened


def test_what_a_pool_has_to_run_is_a_value() -> None:
    [use] = pack([waiting("a", [taking()])]).uses

    assert use == PoolUse(use.pool, 1, 4, {"a": 1}, {"g6.12xlarge": 1})
    with pytest.raises(AttributeError):
        use.nodes = 2  # type: ignore[misc]
