"""Controllers that don't fit the nodes without GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpu_facts.quantities import show
from gpu_facts.software.system_pods import RESOURCES, SystemPods, controller_pods, nodes_at_least, requested
from gpu_preflight.case import Case
from gpu_preflight.cluster.operators.fargate import fargate_profiles
from gpu_preflight.cluster.pools import desired_size
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import all_known, known_number
from gpu_preflight.rules.rule import Problem, rule

_SERVICES = ("Deployment", "StatefulSet")
_KEEPS_OFF = ("NoSchedule", "NoExecute")
_MAX_LISTED = 5
_UNLIMITED = 10**18


@rule("GPU481", "error", source="https://kueue.sigs.k8s.io/docs/installation/", stops=False)
def controllers_larger_than_the_system_nodes(case: Case) -> Iterator[Problem]:
    """Controllers request more than the nodes without GPUs have.

    Some stay Pending: an autoscaler, a queue or a webhook among them keeps every GPU pod from starting. Without cluster
    autoscaler a group keeps its minimum or desired size.

    Fix: Raise the size or the instance type of the system nodes, or lower the requests of the controllers.
    """
    pools = _system_pools(case)
    if not pools:
        return
    pods, nodes = list(_requests(case)), [_nodes(case, each) for each in pools]
    capacities = [_capacity(case, each) for each in pools]
    # A node as large as the largest of any pool, so that the bound holds for all pools together.
    largest = {each: max(one.get(each, _UNLIMITED) for one in capacities) for each in RESOURCES}
    needed = nodes_at_least(pods, largest)
    short = next((each for each in RESOURCES if requested(pods, each) > _of_all(capacities, nodes, each)), None)
    if short is None and needed is not None and needed <= sum(nodes):
        return
    resource = short or "cpu"
    most, wanted = _of_all(capacities, nodes, resource), requested(pods, resource)
    totals = {each.name: requested([each], resource) for each in pods}
    listed = sorted(totals, key=lambda name: -totals[name])[:_MAX_LISTED]
    parts = ", ".join(f"{name} {show(resource, totals[name])}" for name in listed)
    sizes = " and ".join(f"{number} nodes of pool {each.name}" for number, each in zip(nodes, pools, strict=True))
    text = f"controllers request at least {show(resource, wanted)} {resource} ({parts}), and {sizes} have"
    apart = "" if short else f", where they don't fit next to each other on fewer than {needed} nodes"
    if short is None and needed is None:
        apart = ", and one of them fits no node"
    yield Problem(pools[0], f"{text} {show(resource, most)} for pods{apart}")


def _system_pools(case: Case) -> list[Pool]:
    """Return the groups without GPUs of a known maximum, if nothing else of the cluster runs pods without GPUs."""
    cluster = case.cluster
    gpu_pools = {id(each) for each in case.gpu_pools}
    others = [each for each in cluster.pools if id(each) not in gpu_pools]
    kept_off = all(any(taint.effect in _KEEPS_OFF for taint in each.taints) for each in case.gpu_pools)
    elsewhere = cluster.auto_mode or cluster.hidden or cluster.observed or fargate_profiles(cluster)
    sized = all(
        each.is_group and each.max_nodes is not None and not each.undecided and each.instance_types for each in others
    )
    return others if kept_off and sized and not elsewhere and cluster.whole else []


def _nodes(case: Case, pool: Pool) -> int:
    """Return how many nodes a group can come to: its maximum if something may scale it, else what it starts with."""
    most = pool.max_nodes or 0
    if case.cluster.runs("cluster-autoscaler") is not Answer.NO:
        return most
    desired = desired_size(pool)
    started = pool.min_nodes if desired is None else known_number(desired)
    return most if started is None or pool.min_nodes is None else max(started, pool.min_nodes)


def _capacity(case: Case, pool: Pool) -> Mapping[str, int]:
    """Return what pods can have on a node of a pool at most, where it is known."""
    nodes = case.nodes(pool)
    found = {each: [node.most.get(each) for node in nodes] for each in RESOURCES}
    return {each: max(all_known(amounts)) for each, amounts in found.items() if all_known(amounts)}


def _of_all(capacities: Sequence[Mapping[str, int]], nodes: Sequence[int], resource: str) -> int:
    return sum(each.get(resource, _UNLIMITED) * number for each, number in zip(capacities, nodes, strict=True))


def _requests(case: Case) -> Iterator[SystemPods]:
    """Yield the pods of each controller."""
    for chart in case.cluster.charts:
        yield from controller_pods(chart.name, chart.values) or ()
    for addon in case.cluster.addons:
        yield from controller_pods(addon.name, addon.configuration) or ()
    gpu_owners = {id(each.owner) for each in case.judged_workloads}
    for workload in case.cluster.workloads:
        if workload.owner.kind in _SERVICES and id(workload.owner) not in gpu_owners and _needs_system_node(workload):
            requests = {name: workload.pod.requests.get(name, 0) for name in RESOURCES}
            yield SystemPods(workload.name, workload.replicas or 0, requests)


def _needs_system_node(workload: Workload) -> bool:
    return not workload.pod.tolerations and not workload.suspended and not workload.is_placed
