"""Who repairs broken nodes, where several do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.karpenter_options import feature_gate, option
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import dig, is_true, mappings
from gpu_preflight.rules.rule import Problem, rule

_SENTINEL = "nvsentinel"
# Modules that act on a node, each off by default, under `global` in the values.
# Source: NVIDIA/NVSentinel docs/configuration/README.md, fault-remediation.md, node-drainer.md (2026-11)
_ACTING = ("faultQuarantine", "nodeDrainer", "faultRemediation")
_REASON, _WITHIN_BUDGETS = "Unhealthy", (1, 15)


@rule("GPU450", "warning", source="https://github.com/NVIDIA/NVSentinel/blob/main/docs/configuration/README.md")
def two_that_repair_the_same_nodes(case: Case) -> Iterator[Problem]:
    """Two that repair the same nodes.

    NVSentinel cordons, drains and reboots what EKS or Karpenter replaces at the same time; nodes go twice.

    Fix: Let NVSentinel observe (global.dryRun: true, or those modules off), or switch node repair off.
    """
    chart = case.cluster.chart(_SENTINEL)
    acting = _acting(chart) if chart else []
    if chart is None or not acting:
        return
    for pool in case.gpu_pools:
        if _is_repaired(pool, case.cluster):
            who = "Karpenter" if pool.kind == "karpenter" else "EKS"
            yield Problem.of(pool, f"{who} repairs its nodes, and so does NVSentinel ({', '.join(acting)})")


def _acting(chart: Chart) -> list[str]:
    """Return what NVSentinel does to nodes, nothing where it only says what it would do."""
    said = dig(dict(chart.values), "global") or {}
    if is_true(dig(said, "dryRun")):
        return []
    return [each for each in _ACTING if is_true(dig(said, each, "enabled"))]


def _is_repaired(pool: Pool, cluster: Cluster) -> bool:
    if pool.kind == "karpenter":
        return feature_gate(cluster, "nodeRepair", default=False) is Answer.YES
    return pool.kind == "managed" and is_true(dig(dict(pool.properties), "NodeRepairConfig", "Enabled"))


@rule("GPU451", "warning", source="https://karpenter.sh/v1.15/concepts/disruption/")
def budget_that_lets_no_broken_node_be_repaired(case: Case) -> Iterator[Problem]:
    """Budget that lets no broken node be repaired.

    From 1.15 on Karpenter repairs within the budgets of the NodePool; a node whose GPU is lost stays, and is paid.

    Fix: Name reasons in the budget of zero nodes, such as Drifted and Underutilized, and let one Unhealthy node go.
    """
    if not _repairs_within_budgets(case.cluster):
        return
    for pool in case.gpu_pools:
        budgets = mappings(dig(dict(pool.properties), "disruption", "budgets")) if pool.kind == "karpenter" else []
        if any(_forbids_repair(each) for each in budgets):
            yield Problem.of(pool, "a budget lets no node go, and Karpenter may not repair one that is broken")


def _repairs_within_budgets(cluster: Cluster) -> bool:
    karpenter = cluster.autoscaler("karpenter")
    newer = karpenter is not None and minor(karpenter.version or "") >= _WITHIN_BUDGETS
    legacy = option(cluster, "legacyNodeRepair") not in (None, False, "false")
    return newer and not legacy and feature_gate(cluster, "nodeRepair", default=False) is Answer.YES


def _forbids_repair(budget: dict[str, Any]) -> bool:
    """Whether a budget always holds and lets none go for this reason."""
    reasons = budget.get("reasons")
    counts = not reasons or (isinstance(reasons, list) and _REASON in reasons)
    return budget.get("nodes") in ("0", "0%", 0) and budget.get("schedule") is None and counts
