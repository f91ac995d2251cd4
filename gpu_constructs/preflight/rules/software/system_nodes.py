"""Controllers that don't fit the nodes without GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_constructs.facts.quantities import MIB, quantity, show
from gpu_constructs.facts.software.controller_requests import CONTROLLERS, Controller
from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.operators.fargate import fargate_profiles
from gpu_constructs.preflight.model.cluster import Pool
from gpu_constructs.preflight.model.workload import Workload
from gpu_constructs.preflight.reading.unknown import Unknown, dig, known_number
from gpu_constructs.preflight.rules.rule import Problem, rule

_RESOURCES = ("cpu", "memory")
_SERVICES = ("Deployment", "StatefulSet")
_KEEPS_OFF = ("NoSchedule", "NoExecute")
_MAX_LISTED = 5


@rule("GPU481", "error", source="https://kueue.sigs.k8s.io/docs/installation/", stops=False)
def controllers_larger_than_the_system_nodes(case: Case) -> Iterator[Problem]:
    """Controllers request more than the nodes without GPUs have.

    Some stay Pending: an autoscaler, a queue or a webhook among them keeps every GPU pod from starting.

    Fix: Raise the maximum size or the instance type of the system nodes, or lower the requests of the controllers.
    """
    pools = _system_pools(case)
    if not pools:
        return
    requests = dict(_requests(case))
    for resource in _RESOURCES:
        most = sum(_capacity(case, pool, resource) for pool in pools)
        needed = sum(each.get(resource, 0) for each in requests.values())
        if needed > most:
            largest = sorted(requests, key=lambda name: -requests[name].get(resource, 0))[:_MAX_LISTED]
            parts = ", ".join(f"{name} {show(resource, requests[name].get(resource, 0))}" for name in largest)
            sizes = " and ".join(f"{each.max_nodes} nodes of pool {each.name}" for each in pools)
            text = f"controllers request at least {show(resource, needed)} {resource} ({parts}), and {sizes} have"
            yield Problem(pools[0], f"{text} {show(resource, most)} for pods")
            return


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


def _capacity(case: Case, pool: Pool, resource: str) -> int:
    """Return what pods can have of a resource on all nodes of a pool at most."""
    found = [node.most.get(resource) for node in case.nodes(pool)]
    known = [each for each in found if each is not None]
    return max(known) * (pool.max_nodes or 0) if known and len(known) == len(found) else 10**18


def _requests(case: Case) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield what each controller requests at least, all of its pods together."""
    for chart in case.cluster.charts:
        if not _tolerates(chart.values):
            for number, each in enumerate(CONTROLLERS.get(chart.name, ())):
                yield f"{chart.name}{f' {number + 1}' if number else ''}", _of_chart(each, chart.values)
    for addon in case.cluster.addons:
        if not _tolerates(addon.configuration):
            for each in CONTROLLERS.get(addon.name, ()):
                yield addon.name, _of_chart(each, addon.configuration)
    gpu_owners = {id(each.owner) for each in case.judged_workloads}
    for workload in case.cluster.workloads:
        if workload.owner.kind in _SERVICES and id(workload.owner) not in gpu_owners and _needs_system_node(workload):
            pods = workload.replicas or 0
            yield workload.name, {name: workload.pod.requests.get(name, 0) * pods for name in _RESOURCES}


def _tolerates(values: Mapping[str, Any]) -> bool:
    """Whether the values of a chart set tolerations, by which its pods may run on GPU nodes."""
    return any(
        (key == "tolerations" and each) or (isinstance(each, dict) and _tolerates(each)) for key, each in values.items()
    )


def _needs_system_node(workload: Workload) -> bool:
    return not workload.pod.tolerations and not workload.suspended and not workload.is_placed


def _of_chart(controller: Controller, values: Mapping[str, Any]) -> Mapping[str, int]:
    replicas = dig(dict(values), *controller.replicas_path) if controller.replicas_path else None
    pods = controller.replicas if replicas is None else known_number(replicas) or 0
    defaults = {"cpu": controller.cpu, "memory": controller.memory_mib * MIB}
    written = {name: dig(dict(values), *controller.resources_path, name) for name in _RESOURCES}
    parents = [
        dig(dict(values), *controller.resources_path[:end]) for end in range(1, len(controller.resources_path) + 1)
    ]
    if any(isinstance(each, Unknown) for each in parents):
        return {}
    return {
        name: pods * (defaults[name] if value is None else quantity(name, value) or 0)
        for name, value in written.items()
    }
