"""Autoscalers that end GPU jobs before they are done."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.labels import DO_NOT_DISRUPT, SAFE_TO_EVICT
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import dig, known_text, mappings
from gpu_preflight.rules.rule import Problem, rule

_DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
_JOBS = ("Job", "CronJob", "JobSet", "RayJob", "TrainJob", *TRAINING_JOBS)
# Half of the GPUs in use keep a node, unless a flag says otherwise.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md
_UTILIZATION = 0.5


def _jobs(case: Case) -> Iterator[tuple[Workload, Pool]]:
    for workload in case.cluster.workloads:
        if workload.owner.kind in _JOBS and workload.asks_for_gpu:
            for pool in case.pools_open_to(workload):
                if gpu_types(pool):
                    yield workload, pool


@rule("GPU183", "warning", source=f"{_DISRUPTION}#consolidation")
def job_on_nodes_that_karpenter_empties(case: Case) -> Iterator[Problem]:
    """Job on nodes that Karpenter empties.

    Consolidation evicts a running job to save a node, and the work since its last checkpoint is lost.

    Fix: Annotate its pods karpenter.sh/do-not-disrupt: "true", or set consolidationPolicy WhenEmpty.
    """
    for workload, pool in _jobs(case):
        policy = dig(pool.properties, "disruption", "consolidationPolicy")
        moves = policy in (None, "WhenEmptyOrUnderutilized", "Balanced") and pool.properties.get("replicas") is None
        kept = str(workload.annotations.get(DO_NOT_DISRUPT, "")).lower() not in ("", "false")
        if pool.kind in ("karpenter", "auto-mode") and moves and not kept and not _budgeted(pool):
            text = (
                f"pool {pool.name} moves pods to save nodes ({policy or 'the default policy'}), and this job with them"
            )
            yield Problem.of(workload, text)


def _budgeted(pool: Pool) -> bool:
    """Whether a budget forbids moving pods."""
    budgets = mappings(dig(pool.properties, "disruption", "budgets"))
    for each in budgets:
        reasons = each.get("reasons")
        none = str(each.get("nodes")) in ("0", "0%") and not each.get("schedule")
        if none and (not reasons or (isinstance(reasons, list) and "Underutilized" in reasons)):
            return True
    return False


@rule("GPU184", "note", source=f"{_DISRUPTION}#expiration")
def job_on_nodes_that_expire(case: Case) -> Iterator[Problem]:
    """Job on nodes that expire.

    Expiry drains the node whatever runs there; a job that is longer than that never ends.

    Fix: Set expireAfter: Never on pools for long jobs; Auto Mode allows 21 days at most, so write checkpoints.
    """
    for workload, pool in _jobs(case):
        written = dig(pool.properties, "template", "spec", "expireAfter")
        default = {"karpenter": "720h", "auto-mode": "336h"}.get(pool.kind)
        after = default if written is None else known_text(written)
        if default and after and after != "Never":
            yield Problem.of(workload, f"nodes of pool {pool.name} are replaced after {after}")


@rule("GPU495", "warning", source=f"{_DISRUPTION}#terminationgraceperiod")
def service_that_never_leaves_an_expired_node(case: Case) -> Iterator[Problem]:
    """Pod that must not be disrupted runs permanently on nodes that expire.

    Karpenter taints the expired node and waits for the pod. The pod never ends, and the node is paid and takes no other
    pods.

    Fix: Set terminationGracePeriod in the NodePool, expireAfter: Never, or remove karpenter.sh/do-not-disrupt.
    """
    for workload in case.gpu_workloads:
        kept = str(workload.annotations.get(DO_NOT_DISRUPT, "")).lower() == "true"
        if not kept or workload.ends:
            continue
        for pool in case.pools_open_to(workload):
            template = dig(pool.properties, "template", "spec")
            after = known_text(dig(template, "expireAfter"))
            grace = dig(template, "terminationGracePeriod")
            if pool.kind == "karpenter" and after not in (None, "Never") and grace is None:
                text = f"nodes of pool {pool.name} expire after {after}, and {DO_NOT_DISRUPT} keeps them from draining"
                yield Problem.of(workload, text)


@rule("GPU496", "warning", source=f"{_DISRUPTION}#nodepool-disruption-budgets")
def budget_that_never_removes_an_idle_node(case: Case) -> Iterator[Problem]:
    """NodePool budget never lets Karpenter remove an empty node.

    Empty nodes stay, so idle GPUs are billed until the nodes expire. Expiration ignores budgets.

    Fix: Add a schedule and a duration to the budget of 0 nodes, or name reasons in it, such as Drifted.
    """
    for pool in case.gpu_pools:
        static = pool.properties.get("replicas") is not None
        for each in mappings(dig(pool.properties, "disruption", "budgets")) if not static else ():
            reasons = each.get("reasons")
            every = not reasons or (isinstance(reasons, list) and "Empty" in reasons)
            if str(each.get("nodes")) in ("0", "0%") and not each.get("schedule") and every:
                yield Problem.of(
                    pool, f"budget of {each['nodes']} nodes has no schedule, so Karpenter removes no empty node"
                )


@rule("GPU140", "note", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def job_that_cluster_autoscaler_may_move(case: Case) -> Iterator[Problem]:
    """Job that cluster autoscaler may move.

    A node of which less than half of the GPUs is in use is removed, and the job starts again elsewhere.

    Fix: Annotate its pods cluster-autoscaler.kubernetes.io/safe-to-evict: "false".
    """
    autoscaler = case.cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None or str(autoscaler.flags.get("scale-down-gpu-utilization-threshold")) in ("0", "0.0"):
        return
    for workload, pool in _jobs(case):
        asked = workload.pod.requests.get(GPU, 0)
        have = min((node.row.gpus if node.row else 0 for node in case.nodes(pool)), default=0)
        kept = str(workload.annotations.get(SAFE_TO_EVICT, "")).lower() == "false"
        if pool.is_group and not kept and asked and asked < have * _UTILIZATION:
            text = f"uses {asked} of {have} GPUs of pool {pool.name}, less than half, and may be moved"
            yield Problem.of(workload, text)
