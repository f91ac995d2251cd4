"""Autoscalers that end GPU jobs before they are done."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.preflight.model import GPU, Cluster, Pool, Workload
from gpu_constructs.preflight.nodes import gpu_types, nodes_to_be
from gpu_constructs.preflight.pod_size import pod_requests
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.rules.verdicts import taking
from gpu_constructs.preflight.unknown import dig, known_text, mappings

_DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
_KEEP = "karpenter.sh/do-not-disrupt"
_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_JOBS = ("Job", "CronJob", "JobSet", "MPIJob", "PyTorchJob", "TFJob", "JAXJob", "RayJob")
# Half of the GPUs in use keep a node, unless a flag says otherwise.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md
_UTILIZATION = 0.5


def _jobs(cluster: Cluster) -> Iterator[tuple[Workload, Pool]]:
    for workload in cluster.workloads:
        if workload.owner.kind in _JOBS and workload.asks_for_gpu:
            for pool in taking(cluster, workload):
                if gpu_types(pool):
                    yield workload, pool


def _consolidated(cluster: Cluster) -> Iterator[Problem]:
    for workload, pool in _jobs(cluster):
        policy = dig(dict(pool.properties), "disruption", "consolidationPolicy")
        moves = policy in (None, "WhenEmptyOrUnderutilized", "Balanced") and pool.properties.get("replicas") is None
        kept = str(workload.annotations.get(_KEEP, "")).lower() not in ("", "false")
        if pool.kind in ("karpenter", "auto-mode") and moves and not kept and not _budgeted(pool):
            text = (
                f"pool {pool.name} moves pods to save nodes ({policy or 'the default policy'}), and this job with them"
            )
            yield Problem(workload.origin, f"{workload.name}: {text}")


def _budgeted(pool: Pool) -> bool:
    """Whether a budget forbids moving pods."""
    budgets = mappings(dig(dict(pool.properties), "disruption", "budgets"))
    for each in budgets:
        reasons = each.get("reasons")
        none = str(each.get("nodes")) in ("0", "0%") and not each.get("schedule")
        if none and (not reasons or (isinstance(reasons, list) and "Underutilized" in reasons)):
            return True
    return False


def _expiring(cluster: Cluster) -> Iterator[Problem]:
    for workload, pool in _jobs(cluster):
        written = dig(dict(pool.properties), "template", "spec", "expireAfter")
        default = {"karpenter": "720h", "auto-mode": "336h"}.get(pool.kind)
        after = default if written is None else known_text(written)
        if default and after and after != "Never":
            yield Problem(workload.origin, f"{workload.name}: nodes of pool {pool.name} are replaced after {after}")


def _evicted(cluster: Cluster) -> Iterator[Problem]:
    autoscaler = cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None or str(autoscaler.flags.get("scale-down-gpu-utilization-threshold")) in ("0", "0.0"):
        return
    for workload, pool in _jobs(cluster):
        asked = pod_requests(workload.pod).get(GPU, 0)
        have = min((node.row.gpus if node.row else 0 for node in nodes_to_be(pool, cluster)), default=0)
        kept = str(workload.annotations.get(_EVICT, "")).lower() == "false"
        if pool.is_group and not kept and asked and asked < have * _UTILIZATION:
            text = f"uses {asked} of {have} GPUs of pool {pool.name}, less than half, and may be moved"
            yield Problem(workload.origin, f"{workload.name}: {text}")


RULES = (
    Rule(
        id="GPU140",
        severity="note",
        title="Job that cluster autoscaler may move",
        why="A node of which less than half of the GPUs is in use is removed, and the job starts again elsewhere.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md",
        fix=f'Annotate its pods {_EVICT}: "false".',
        causes=("F22",),
        check=_evicted,
    ),
    Rule(
        id="GPU183",
        severity="warning",
        title="Job on nodes that Karpenter empties",
        why="Consolidation evicts a running job to save a node, and the work since its last checkpoint is lost.",
        source=f"{_DISRUPTION}#consolidation",
        fix=f'Annotate its pods {_KEEP}: "true", or set consolidationPolicy WhenEmpty.',
        causes=("G9", "P061"),
        check=_consolidated,
    ),
    Rule(
        id="GPU184",
        severity="note",
        title="Job on nodes that expire",
        why="Expiry drains the node whatever runs there; a job that is longer than that never ends.",
        source=f"{_DISRUPTION}#expiration",
        fix="Set expireAfter: Never on pools for long jobs; Auto Mode allows 21 days at most, so write checkpoints.",
        causes=("G9", "K16", "P061"),
        check=_expiring,
    ),
)
