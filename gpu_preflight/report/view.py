"""Everything that an output shows, as plain data that `schema.json` describes; each renderer works from it alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpu_facts._version import __version__
from gpu_facts.hardware.catalogue import InstanceType
from gpu_preflight.judging.check import Report
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.objects import Unread
from gpu_preflight.report.cluster_view import cluster_view, rounded
from gpu_preflight.report.finding_view import (
    View,
    counts,
    finding_view,
    open_values_view,
    origin_view,
    rule_view,
    unread_view,
)
from gpu_preflight.rules.rule import Rule
from gpu_preflight.scheduling.ceiling import Ceiling

if TYPE_CHECKING:
    from gpu_preflight.judging.images import Pulls
    from gpu_preflight.judging.mirror import Mirror
    from gpu_preflight.judging.review import Review
    from gpu_preflight.remedies.remedy import Remedies

# Changes only when a key is renamed, removed or means something else.
SCHEMA_VERSION = 1
NEAREST = 5


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
