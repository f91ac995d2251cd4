"""Who repairs broken nodes, where several do."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster, Pool
from gpu_constructs.preflight.node.karpenter_options import feature_gate
from gpu_constructs.preflight.reading.objects import Chart
from gpu_constructs.preflight.reading.unknown import dig, is_true
from gpu_constructs.preflight.rules.rule import Problem, rule

_SENTINEL = "nvsentinel"
# Modules that act on a node, each off by default, under `global` in the values.
# Source: NVIDIA/NVSentinel docs/configuration/README.md, fault-remediation.md, node-drainer.md (2026-11)
_ACTING = ("faultQuarantine", "nodeDrainer", "faultRemediation")


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
