"""Pods on nodes, against every way to put a few of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.judging.explain import Explanation, explain
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.software import Autoscaler, DaemonSet
from gpu_preflight.model.taints import Toleration
from tests.preflight.readers import ORIGIN, manifest, pool

PLUGIN = DaemonSet("plugin", Pod(tolerations=(Toleration(operator="Exists"),)), ORIGIN, (GPU,))
TYPES = ("g6.12xlarge", "g5.12xlarge")


def cluster_with(pools: list[Pool], pods: list[Workload]) -> Cluster:
    maker = Autoscaler("cluster-autoscaler", ORIGIN)
    return Cluster(
        "demo",
        version="1.36",
        pools=tuple(pools),
        daemon_sets=(PLUGIN,),
        autoscalers=(maker,),
        workloads=tuple(pods),
        assumed=frozenset({"cluster-autoscaler"}),
    )


def group(name: str, kind: str, most: int) -> Pool:
    properties = {"AmiType": "AL2023_x86_64_NVIDIA"}
    return pool(name=name, instance_types=(kind,), min_nodes=0, max_nodes=most, properties=properties)


def deployment(name: str, gpus: int, replicas: int, cpu: str = "1") -> Workload:
    limits = {GPU: gpus, "cpu": cpu}
    spec = {
        "replicas": replicas,
        "template": {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}},
    }
    [found] = workloads([manifest("Deployment", spec, name=name)])
    return found


def judged(seed: int) -> Explanation:
    random = Random(seed)
    pools = [group(f"p{n}", random.choice(TYPES), random.choice((1, 2, 3))) for n in range(random.choice((1, 2)))]
    pods = [
        deployment(
            f"d{n}", random.choice((1, 1, 2, 3, 4, 5)), random.choice((0, 1, 2, 3, 7)), random.choice(("1", "20", "40"))
        )
        for n in range(random.choice((1, 2, 3)))
    ]
    return explain(Case(cluster_with(pools, pods)))


EXAMPLES = settings(max_examples=150)


@EXAMPLES
@given(st.integers(0, 2**32 - 1))
def test_every_replica_is_placed_or_left(seed: int) -> None:
    found = judged(seed)

    for verdict in found.verdicts:
        placed = sum(use.pods.get(verdict.workload.name, 0) for use in found.packing.uses)
        left = sum(count for workload, count in found.packing.left if workload is verdict.workload)
        if found.case.verdict(verdict.workload).answer is Answer.YES:
            assert placed + left == verdict.workload.replicas
        else:
            assert placed == 0


@EXAMPLES
@given(st.integers(0, 2**32 - 1))
def test_no_pool_has_more_nodes_than_it_may(seed: int) -> None:
    for use in judged(seed).packing.uses:
        assert use.pool.max_nodes is not None
        assert 0 <= use.nodes <= use.pool.max_nodes
        assert use.gpus == use.nodes * 4


@EXAMPLES
@given(st.integers(0, 2**32 - 1))
def test_what_is_placed_fits_the_nodes_in_some_way(seed: int) -> None:
    """Brute force: the pods of each pool can be spread over its nodes so that none has more than it offers."""
    found = judged(seed)
    by_name = {each.workload.name: each.workload for each in found.verdicts}

    for use in found.packing.uses:
        [node] = found.case.nodes(use.pool)
        asked = [by_name[name].pod.requests for name, count in use.pods.items() for _ in range(count)]
        free = [dict(node.most) for _ in range(use.nodes)]
        asked.sort(key=lambda each: (-each.get(GPU, 0), -each.get("cpu", 0)))
        assert _fits(asked, free)


@EXAMPLES
@given(st.integers(0, 2**32 - 1))
def test_nothing_is_left_where_one_more_replica_would_fit_an_unused_node(seed: int) -> None:
    found = judged(seed)

    for workload, _ in found.packing.left:
        verdict = next(each for each in found.verdicts if each.workload is workload)
        for each in verdict.pools:
            used = next((use.nodes for use in found.packing.uses if use.pool is each.pool), 0)
            if each.nodes_taking:
                assert used == each.pool.max_nodes


def placed_in_some_way(found: Explanation) -> bool:
    """Whether few enough pods to try fit all nodes there may be, each somewhere."""
    every = [each.workload.pod.requests for each in found.verdicts for _ in range(each.workload.replicas or 0)]
    pools = [(found.case.nodes(pool)[0], pool.max_nodes or 0) for pool in found.case.cluster.pools]
    free = [dict(node.most) for node, most in pools for _ in range(most)]
    every.sort(key=lambda each: (-each.get(GPU, 0), -each.get("cpu", 0)))
    return len(every) <= 8 and _fits(every, free)


def _fits(asked: Sequence[Mapping[str, int]], free: list[dict[str, int]]) -> bool:
    if not asked:
        return True
    pod, rest = asked[0], asked[1:]
    tried: list[dict[str, int]] = []
    for node in free:
        if node in tried or any(node.get(name, 0) < amount for name, amount in pod.items()):
            continue
        tried.append(dict(node))
        for name, amount in pod.items():
            node[name] -= amount
        if _fits(rest, free):
            return True
        for name, amount in pod.items():
            node[name] += amount
    return False


def test_brute_force_knows_what_does_not_fit() -> None:
    assert _fits([{"a": 1}] * 2, [{"a": 1}, {"a": 1}])
    assert not _fits([{"a": 1}] * 3, [{"a": 1}, {"a": 1}])


def test_small_pods_fill_the_nodes_of_large_ones() -> None:
    pods = [deployment("small", 1, 1), deployment("large", 3, 1)]

    found = explain(Case(cluster_with([group("p", "g6.12xlarge", 3)], pods)))

    assert [(use.nodes, use.gpus) for use in found.packing.uses] == [(1, 4)]


def test_the_second_pool_takes_what_the_first_has_no_room_for() -> None:
    pools = [group("p", "g6.12xlarge", 1), group("q", "g5.12xlarge", 1)]

    for replicas, left in ((0, 0), (1, 1)):
        pods = [deployment("d", 4, 2), deployment("e", 4, replicas)]
        found = explain(Case(cluster_with(pools, pods)))

        assert sum(use.nodes for use in found.packing.uses) == 2
        assert sum(count for _, count in found.packing.left) == left


def test_pods_that_stay_pending_anyhow_are_no_part_of_all_of_them() -> None:
    pods = [deployment("large", 4, 3), deployment("small", 4, 2)]

    found = explain(Case(cluster_with([group("p", "g6.12xlarge", 2)], pods)))

    assert [each.answer for each in found.verdicts] == [Answer.NO, Answer.YES]
    assert [use.pods for use in found.packing.uses] == [{"Deployment default/small": 2}]
    assert found.packing.left == ()


def test_pods_that_no_pool_takes_use_nothing() -> None:
    found = explain(Case(cluster_with([group("p", "g6.12xlarge", 1)], [deployment("d", 5, 1)])))

    assert found.packing.uses == ()
