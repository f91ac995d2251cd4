"""Everything that an output shows, as plain data that `schema.json` describes; each renderer works from it alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpu_facts._version import __version__
from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import HOURS_PER_MONTH, usd_per_hour
from gpu_facts.quantities import show
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.judging.check import Report
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.node_cost import NodeCost, node_cost
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.objects import Unread
from gpu_preflight.reading.unknown import all_known
from gpu_preflight.report.finding_view import (
    View,
    counts,
    finding_view,
    open_values_view,
    origin_view,
    rule_view,
    unread_view,
)
from gpu_preflight.rule import Rule
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.packing import PoolUse
from gpu_preflight.scheduling.pool_limits import Ceiling, node_limit
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

if TYPE_CHECKING:
    from gpu_preflight.judging.images import Mirror, Pulls
    from gpu_preflight.judging.review import Review
    from gpu_preflight.remedies.change import Change
    from gpu_preflight.remedies.remedy import Remedies, Remedy, SmallestType

# Changes only when a key is renamed, removed or means something else.
SCHEMA_VERSION = 1
NEAREST = 5


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
    nodes, region = case.nodes(pool), pool_region(pool, case.cluster)
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
        "onEachNode": workload.is_daemon_set,
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


def _head(command: str) -> View:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "tool": {"name": "gpu-constructs", "version": __version__},
        "command": command,
    }


def _outcome(*, fails: bool, unknown: bool) -> str:
    return "fail" if fails else "unknown" if unknown else "pass"


def check_view(report: Report) -> View:
    """Return what a check found."""
    explanations = list(map(report.explanation, report.cases))
    undecided = any(each.answer is Answer.UNKNOWN for one in explanations for each in one.verdicts)
    return {
        **_head("check"),
        "outcome": _outcome(fails=report.fails or bool(report.pending), unknown=report.unknown or undecided),
        "counts": counts(report.findings),
        "findings": [finding_view(each) for each in report.findings],
        "unread": unread_view(report.unread),
        "openValues": open_values_view(report.open_values),
        "unasked": list(report.unasked),
        "clusters": [cluster_view(each, most_pools=1) for each in explanations],
    }


def explain_view(
    explanations: Iterable[Explanation],
    unread: Iterable[Unread] = (),
    *,
    most_pools: int | None = NEAREST,
    remedies: Remedies | None = None,
) -> View:
    """Return the verdict on each workload.

    Args:
        explanations: The verdicts, cluster by cluster.
        unread: What could not be read.
        most_pools: Most pools to list for a workload, the nearest first; ``None`` for all.
        remedies: What would make workloads run, where that was asked.
    """
    judged, missing = list(explanations), unread_view(unread)
    answers = [each.answer for explanation in judged for each in explanation.verdicts]
    return {
        **_head("explain"),
        "outcome": _outcome(fails=Answer.NO in answers, unknown=Answer.UNKNOWN in answers),
        "counts": {each.value: answers.count(each) for each in Answer},
        "unread": missing,
        "clusters": [cluster_view(each, most_pools=most_pools, remedies=remedies) for each in judged],
    }


def review_view(review: Review) -> View:
    """Return what a change means, with the clusters before and after it."""
    standing = (*review.new, *review.standing)
    unknown = any(each.problem.unknown for each in standing if each.acknowledged is None)
    unknown = unknown or any(each.after is Answer.UNKNOWN for each in review.fates)
    return {
        **_head("review"),
        "outcome": _outcome(fails=review.fails, unknown=unknown),
        "controlPlanes": [
            {"cluster": each.cluster, "change": each.change, "detail": each.detail} for each in review.control_planes
        ],
        "pools": [
            {
                "cluster": each.cluster,
                "name": each.name,
                "kind": each.kind,
                "change": each.change,
                "details": list(each.details),
            }
            for each in review.pools
        ],
        "changes": [
            {
                "what": each.what,
                "change": each.change,
                "detail": each.detail,
                "origin": origin_view(each.origin) if each.origin else None,
            }
            for each in review.changes
        ],
        "versions": [{"what": each.what, "before": each.before, "after": each.after} for each in review.moves],
        "ceiling": {"before": _ceiling(review.before), "after": _ceiling(review.after)},
        "workloads": [
            {
                "name": each.workload,
                "before": each.before.value if each.before else None,
                "after": each.after.value if each.after else None,
                "beforeResult": each.results[0],
                "afterResult": each.results[1],
                "reason": each.reason or None,
            }
            for each in review.fates
        ],
        "counts": {"new": counts(review.new), "fixed": counts(review.fixed), "standing": counts(review.standing)},
        "new": [finding_view(each) for each in review.new],
        "fixed": [finding_view(each) for each in review.fixed],
        "standing": [finding_view(each) for each in review.standing],
        "clusters": {
            "before": [cluster_view(each, most_pools=1) for each in review.explained_before],
            "after": [cluster_view(each, most_pools=1) for each in review.explained_after],
        },
    }


def _ceiling(ceiling: Ceiling) -> View:
    return {
        "gpus": ceiling.gpus,
        "usdPerHour": round(ceiling.usd_per_hour, 2),
        "vcpus": [{"quota": code, "name": name, "vcpus": count} for code, (name, count) in ceiling.vcpus.items()],
        "unboundedPools": list(ceiling.unbounded),
        "unpricedInstanceTypes": list(ceiling.unpriced),
    }


def instances_view(rows: Iterable[InstanceType], without_price: Iterable[InstanceType] = ()) -> View:
    """Return rows of the catalogue, and those that a highest price leaves out because they have none."""
    left = [{"name": each.name, "why": each.without_price or "unknown"} for each in without_price]
    return {**_head("instances"), "instanceTypes": [_instance(each) for each in rows], "leftOutWithoutPrice": left}


def _instance(row: InstanceType) -> View:
    return {
        "name": row.name,
        "family": row.family,
        "architecture": row.architecture,
        "gpuModel": row.gpu_model,
        "gpus": row.gpus,
        "gpuMemoryGib": rounded(row.gpu_memory_gib),
        "vcpus": row.vcpus,
        "memoryGib": rounded(row.memory_gib),
        "nvmeGb": row.nvme_gb,
        "efaInterfaces": row.max_efa or 0,
        "mig": row.mig,
        "eksDriver": row.is_driven,
        "driverBranch": row.driver_branch,
        "purchaseOptions": list(row.purchase_options),
        "quotaFamily": row.quota_family,
        "usdPerHour": row.usd_per_hour,
        "withoutPrice": row.without_price,
        "usdPerGpuHour": None if row.usd_per_hour is None else round(row.usd_per_hour / row.gpus, 4),
    }


def images_view(found: Iterable[Pulls], unread: Iterable[Unread] = (), *, mirror: Mirror | None = None) -> View:
    """Return what clusters pull, and where a mirror has it.

    Raises:
        ValueError: Two images would take each other's place in the mirror.
    """
    from gpu_preflight.report.images_view import clusters_view, mirror_view

    listed, missing = list(found), unread_view(unread)
    if mirror is not None:
        mirror.refuse_twins(listed)
    return {
        **_head("images"),
        "outcome": _outcome(fails=False, unknown=bool(missing) or any(each.not_known for each in listed)),
        "mirror": mirror_view(mirror, listed),
        "clusters": clusters_view(listed, mirror),
        "unread": missing,
    }


def rules_view(rules: Mapping[str, Rule]) -> View:
    """Return what rules say, and where each stands."""
    return {**_head("rules"), "rules": [{**rule_view(each), "place": each.place} for each in rules.values()]}
