"""A cluster as plain data: its pools, its workloads, and which pool runs which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpu_facts.hardware.prices import HOURS_PER_MONTH, usd_per_hour
from gpu_facts.quantities import show
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.case import Case
from gpu_preflight.cluster.subnets import region_of
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.node_cost import NodeCost, node_cost
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.reason import Reason
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import all_known
from gpu_preflight.report.finding_view import View, origin_view
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.pool_limits import node_limit
from gpu_preflight.scheduling.together.packing import PoolUse
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

if TYPE_CHECKING:
    from gpu_preflight.remedies.change import Change
    from gpu_preflight.remedies.remedy import Remedies, Remedy
    from gpu_preflight.remedies.smallest import SmallestType


def cluster_view(explanation: Explanation, *, most_pools: int | None, remedies: Remedies | None = None) -> View:
    """Return a cluster with the verdict on each workload.

    Args:
        explanation: The verdicts.
        most_pools: Most pools to list for a workload, the nearest first; ``None`` for all.
        remedies: What would make workloads run, where that was asked.
    """
    case, packing = explanation.case, explanation.packing
    cluster = case.cluster
    uses = {id(each.pool): each for each in packing.uses}
    return {
        "name": cluster.title,
        "kubernetesVersion": cluster.version,
        "whole": cluster.whole,
        "autoMode": cluster.auto_mode,
        "autoscalers": [{"kind": each.kind, "version": each.version} for each in cluster.autoscalers],
        "assumed": sorted(cluster.assumed),
        "opaqueSoftware": list(cluster.unknown_software),
        "pools": [_pool(pool, case, uses.get(id(pool))) for pool in cluster.every_pool],
        "workloads": _workloads(explanation, most_pools, remedies or {}),
        "left": [{"workload": workload.name, "replicas": count} for workload, count in packing.left],
    }


def _pool(pool: Pool, case: Case, use: PoolUse | None) -> View:
    nodes, region = case.nodes(pool), region_of(pool, case.cluster)
    gpus = [node.row.gpus if node.row else 0 for node in nodes]
    return {
        "name": pool.name,
        "kind": pool.kind,
        "origin": origin_view(pool.origin),
        "operatingSystem": pool.operating_system,
        "instanceTypes": [_instance_type(node, region) for node in nodes if node.instance_type],
        "gpusPerNode": {"least": min(gpus, default=0), "most": max(gpus, default=0)},
        "offers": _offers(nodes),
        "minNodes": pool.min_nodes,
        "maxNodes": _most_nodes(pool, nodes),
        "limits": {name: show(name, amount) for name, amount in pool.limits.items()},
        "taints": [str(each) for each in pool.taints],
        "capacityTypes": list(pool.capacity_types),
        "autoscaler": {"kind": pool.autoscaler, "runs": case.cluster.runs(pool.autoscaler).value},
        "deviceManagers": sorted({name for node in nodes for name in node.device_managers}),
        "use": _use(use),
    }


def _instance_type(node: NodeToBe, region: str | None) -> View:
    row = node.row
    return {
        "name": node.instance_type,
        "gpus": row.gpus if row else 0,
        "gpuModel": row.gpu_model if row else None,
        "gpuMemoryGib": rounded(row.gpu_memory_gib) if row else None,
        "usdPerHour": usd_per_hour(row, region) if row else None,
    }


def rounded(gib: float | None) -> float | None:
    """Return an amount of memory as people compare it."""
    return None if gib is None else round(gib, 1)


def _offers(nodes: Iterable[NodeToBe]) -> list[str]:
    """Return the devices that pods can ask for on some node."""
    found = {name for node in nodes for name, amount in node.most.items() if "/" in name and amount > 0}
    return sorted(found)


def _most_nodes(pool: Pool, nodes: Iterable[NodeToBe]) -> int | None:
    return max(all_known(node_limit(pool, node) for node in nodes), default=None)


def _use(use: PoolUse | None) -> View:
    pods = use.pods if use else {}
    return {
        "nodes": use.nodes if use else 0,
        "gpus": use.gpus if use else 0,
        "pods": [{"workload": name, "count": count} for name, count in pods.items() if count],
    }


def _workloads(explanation: Explanation, most_pools: int | None, remedies: Remedies) -> list[View]:
    # Verdicts on pods that are alike share those on pools, and what one of them asks for.
    pools: dict[int, list[View]] = {}
    demands: dict[int, View] = {}
    found = []
    for verdict in explanation.verdicts:
        if id(verdict.pools) not in pools:
            pools[id(verdict.pools)] = [_pool_verdict(each) for each in verdict.pools[:most_pools]]
        if id(verdict.demand) not in demands:
            demands[id(verdict.demand)] = _demand(verdict.demand)
        shared = {**demands[id(verdict.demand)], "pools": pools[id(verdict.pools)]}
        found.append(_workload(verdict, explanation.case, remedies, shared))
    return found


def _demand(wanted: Demand) -> View:
    return {
        "requests": _requests(wanted),
        "openRequests": list(wanted.pod.open_requests),
        "claims": _claims(wanted),
    }


def _workload(verdict: Verdict, case: Case, remedies: Remedies, shared: View) -> View:
    workload, cost = verdict.workload, node_cost(case, verdict)
    would_do, smallest = remedies.get(id(workload), ((), None))
    return {
        "name": workload.name,
        "namespace": workload.namespace,
        "origin": origin_view(workload.origin),
        "replicas": workload.replicas,
        "placed": workload.placed,
        "together": workload.together,
        "onEachNode": workload.on_each_node,
        "priority": workload.priority,
        "requests": shared["requests"],
        "openRequests": shared["openRequests"],
        "claims": shared["claims"],
        "answer": verdict.answer.value,
        "result": verdict.result,
        "reasons": _reasons(verdict.reasons),
        "poolCount": len(verdict.pools),
        "pools": shared["pools"],
        "cost": _cost(cost) if cost else None,
        "restsOn": list(verdict.rests_on),
        "runsIf": list(verdict.runs_if),
        "wouldDo": [_remedy(each) for each in would_do],
        "smallestType": _smallest(smallest) if smallest else None,
    }


def _cost(cost: NodeCost) -> View:
    hourly = cost.usd_per_hour
    return {
        "pool": cost.pool,
        "instanceType": cost.instance_type,
        "nodes": cost.nodes,
        "capacityTypes": list(cost.capacity_types),
        "usdPerHour": hourly,
        "usdPerMonth": None if hourly is None else round(hourly * HOURS_PER_MONTH, 2),
        "region": cost.region,
        "priceList": None if hourly is None else cost.price_list,
    }


def _smallest(smallest: SmallestType) -> View:
    listed = None if smallest.usd_per_hour is None else smallest.price_list
    return {"name": smallest.name, "usdPerHour": smallest.usd_per_hour, "priceList": listed}


def _requests(wanted: Demand) -> View:
    """Return what is known of what one pod asks for; a sum with a part that is not known is not known."""
    left = {"pods", DEVICE_CLASS, *wanted.pod.open_requests}
    return {name: show(name, amount) for name, amount in wanted.requests.items() if name not in left}


def _claims(wanted: Demand) -> list[str]:
    """Return the claims by which one pod asks for devices."""
    return [str(each.claim or each.template) for each in wanted.pod.claims]


def _remedy(remedy: Remedy) -> View:
    return {"text": remedy.text, "changes": list(map(_change, remedy.changes)), "patch": remedy.patch}


def _change(change: Change) -> View:
    value = change.value if change.written_value is None else change.written_value
    return {"path": change.origin.path, "property": ".".join(change.written or change.property), "value": value}


def _pool_verdict(verdict: PoolVerdict) -> View:
    return {
        "pool": verdict.pool.name,
        "answer": verdict.answer.value,
        "instanceTypes": list(verdict.instance_types),
        "podsPerNode": verdict.per_node,
        "nodes": verdict.nodes,
        "reasons": _reasons(verdict.reasons),
    }


def _reasons(reasons: Iterable[Reason]) -> list[View]:
    """Return reasons, those that keep the pod off before those that may, the nearest to being mended first."""
    ordered = sorted(dict.fromkeys(reasons), key=lambda each: (each.answer is not Answer.NO, each.weight))
    return [{"answer": each.answer.value, "kind": each.kind, "text": each.text} for each in ordered]
