"""What happens to GPU nodes while they run, and pods that are sent elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from gpu_facts.charts import DCGM_SERVER, NODE_MONITORING_AGENT
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import KAI_QUEUE, KUEUE_QUEUE, OPTION_TAG
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.operators.fargate import fargate_profiles, takes
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_HEALTH = "https://docs.aws.amazon.com/eks/latest/userguide/node-health.html"
_QUEUES = (KUEUE_QUEUE, KAI_QUEUE, "volcano.sh/queue-name")
_DEFAULT_MINUTES, _ENOUGH_MINUTES = 15, 20
_DURATION = regex(r"(\d+(?:\.\d+)?)(h|m|s)")
_MINUTES = {"h": 60.0, "m": 1.0, "s": 1 / 60}
_SHARE = regex(r"(\d{1,3})%")
_WAIT_TAG = f"{OPTION_TAG}maxnodeprovisiontime"


@rule("GPU107", "warning", source="https://kueue.sigs.k8s.io/docs/concepts/workload/")
def jobs_that_each_hold_a_part_of_the_nodes_they_all_need(case: Case) -> Iterator[Problem]:
    """Jobs that each hold a part of the nodes they all need.

    Pods that must run together start one by one; two jobs may get half each, and wait on paid nodes.

    Fix: Put the jobs into a queue that starts each of them whole, such as one of Kueue, or raise the maximum.
    """
    rivals: dict[str, list[tuple[Workload, int]]] = defaultdict(list)
    pools = {each.name: each for each in case.gpu_pools}
    for verdict in case.verdicts:
        best = verdict.pools[0] if verdict.pools else None
        held = best is None or best.answer is not Answer.YES or _starts_whole(verdict.workload)
        if best and not held and verdict.workload.together and best.nodes and best.nodes > 1:
            rivals[best.pool.name].append((verdict.workload, best.nodes))
    for name, jobs in rivals.items():
        most = pools[name].max_nodes if name in pools else None
        needed = sum(nodes for _, nodes in jobs)
        if most is not None and len(jobs) > 1 and needed > most:
            names = ", ".join(each.name for each, _ in jobs[:4])
            message = f"pool {name}: {names} need {needed} nodes at once, it has {most}, and no queue holds them apart"
            yield Problem(jobs[0][0], message)


def _starts_whole(workload: Workload) -> bool:
    """Whether something else than the autoscaler starts all pods of a job together."""
    named = {*workload.labels, *workload.annotations, *workload.owner.labels, *workload.owner.annotations}
    return any(each in named for each in _QUEUES) or bool(workload.pod.scheduler)


@rule("GPU108", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html")
def spot_nodes_under_jobs_of_several_nodes(case: Case) -> Iterator[Problem]:
    """Spot nodes under jobs of several nodes.

    An interruption, or a rebalance that a managed group follows, takes one node and so the whole job.

    Fix: Take on-demand or reserved capacity, or checkpoint often and acknowledge this.
    """
    for pool in case.gpu_pools:
        if pool.is_group and "spot" in pool.capacity_types and pool.launch.efa_interfaces:
            message = "nodes with EFA are spot; one that goes stops the job on all of them"
            yield Problem.of(pool, message)


@rule("GPU115", "note", source=_HEALTH)
def node_auto_repair_that_does_not_see_gpus(case: Case) -> Iterator[Problem]:
    """Node auto repair that does not see GPUs.

    Without the agent EKS repairs nodes that are not Ready, and leaves those with a broken GPU.

    Fix: Add the add-on eks-node-monitoring-agent.
    """
    cluster = case.cluster
    runs = (
        cluster.addon(NODE_MONITORING_AGENT)
        or cluster.chart(NODE_MONITORING_AGENT)
        or any(NODE_MONITORING_AGENT in each.name for each in cluster.daemon_sets)
    )
    if not cluster.whole or runs:
        return
    for pool in case.gpu_pools:
        if pool.kind == "managed" and is_true(dig(pool.properties, "NodeRepairConfig", "Enabled")):
            message = f"node auto repair is on, and add-on {NODE_MONITORING_AGENT}, which sees GPU errors, is not there"
            yield Problem.of(pool, message)


@rule("GPU110", "warning", source="https://github.com/aws/eks-node-monitoring-agent/tree/v1.7.0/charts")
def gpu_diagnosis_that_does_not_run_on_the_gpu_nodes(case: Case) -> Iterator[Problem]:
    """GPU diagnosis that does not run on the GPU nodes.

    The DCGM server of the node monitoring agent tolerates nothing by default; GPU errors go unseen.

    Fix: Set dcgmAgent.tolerations in the configuration of the add-on.
    """
    cluster = case.cluster
    for daemon in cluster.daemon_sets:
        if daemon.name != DCGM_SERVER:
            continue
        for pool in case.gpu_pools:
            if taint := case.kept_off(daemon, pool):
                message = f"pool {pool.name}: {daemon.name} does not tolerate its taint {taint}"
                yield Problem(daemon, message)


@rule("GPU111", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html")
def disruption_budget_that_lets_no_gpu_pod_go(case: Case) -> Iterator[Problem]:
    """Disruption budget that lets no GPU pod go.

    Without force, an update of a node group waits 15 minutes for each pod, then fails. Karpenter waits until
    terminationGracePeriod, and permanently without one, while the node is paid.

    Fix: Allow one disruption with maxUnavailable: 1, or set ForceUpdateEnabled or terminationGracePeriod.
    """
    cluster = case.cluster
    managed = [each for each in case.gpu_pools if each.kind == "managed"]
    stalled = [each.name for each in managed if _may_stall(each)]
    for budget in cluster.of_kind("PodDisruptionBudget"):
        for workload in case.gpu_workloads:
            if not _allows_none(budget, workload):
                continue
            if stalled:
                text = f"an update of {', '.join(stalled)} waits"
                yield Problem(budget, f"{budget.name} blocks eviction of every pod of {workload.name}, and {text}")
                continue
            drained = [each.name for each in case.pools_open_to(workload) if _drains_without_end(each)]
            if drained and not workload.ends:
                text = f"Karpenter can't drain nodes of {', '.join(drained)}"
                yield Problem(budget, f"{budget.name} blocks eviction of every pod of {workload.name}, and {text}")


def _drains_without_end(pool: Pool) -> bool:
    """Whether Karpenter waits for the pods of a node that it replaces, however long that takes."""
    template = mapping(dig(pool.properties, "template", "spec"))
    return pool.kind == "karpenter" and template.get("terminationGracePeriod") is None


def _may_stall(pool: Pool) -> bool:
    forced = pool.properties.get("ForceUpdateEnabled")
    return not isinstance(forced, Unknown) and not is_true(forced)


def _allows_none(budget: Object, workload: Workload) -> bool:
    wanted = mapping(dig(budget.spec, "selector", "matchLabels"))
    extra = dig(budget.spec, "selector", "matchExpressions")
    everything = budget.spec.get("selector") == {}
    chosen = (
        (bool(wanted) or everything)
        and not extra
        and all(workload.labels.get(key) == value for key, value in wanted.items())
    )
    if not chosen or budget.namespace != workload.namespace:
        return False
    least = budget.spec.get("minAvailable")
    most_gone = budget.spec.get("maxUnavailable")
    count = known_number(least)
    replicas = workload.replicas
    if count is None and replicas and (share := _SHARE.fullmatch(str(least))):
        # The disruption controller rounds up: 50 % of one pod is one.
        count = -(-int(share[1]) * replicas // 100)
    every = count is not None and replicas is not None and count >= replicas > 0
    return most_gone in (0, "0", "0%") or least == "100%" or every


@rule("GPU113", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/fargate.html")
def gpu_pods_on_fargate(case: Case) -> Iterator[Problem]:
    """GPU pods on Fargate.

    A profile that selects a pod sends it to Fargate, which has no GPUs; it stays Pending.

    Fix: Give the pods another namespace, or add labels to the selector that they do not have.
    """
    for profile in fargate_profiles(case.cluster):
        for workload in case.cluster.workloads:
            if workload.asks_for_gpu and takes(profile, workload):
                message = f"Fargate profile {profile.path} takes its pods, and Fargate has no GPUs"
                yield Problem.of(workload, message)


@rule("GPU114", "warning", source="https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md")
def autoscaler_that_gives_up_on_slow_nodes(case: Case) -> Iterator[Problem]:
    """Autoscaler that gives up on nodes which are slow to come up.

    Bare metal and eight-GPU instances may take longer than 15 minutes; the node is removed and made again.

    Fix: Set --max-node-provision-time=30m.
    """
    autoscaler = case.cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None:
        return
    minutes = _minutes(autoscaler.flags.get("max-node-provision-time"))
    for pool in case.gpu_pools:
        slow = [each for each in gpu_types(pool) if each.endswith(".metal") or catalogue()[each].nvswitch]
        tagged = any(_WAIT_TAG in str(each.get("Key")) for each in mappings(pool.properties.get("Tags")))
        if slow and pool.is_group and not tagged and minutes is not None and minutes < _ENOUGH_MINUTES:
            message = f"pool {pool.name}: {', '.join(slow[:4])} may take longer to come up than {minutes:g} minutes"
            yield Problem(autoscaler, message)


def _minutes(flag: Any) -> float | None:
    """Return a duration in minutes, the autoscaler's own without a flag; ``None`` where it is not known."""
    if flag is None:
        return _DEFAULT_MINUTES
    parts = _DURATION.findall(flag) if isinstance(flag, str) else []
    return sum(float(number) * _MINUTES[unit] for number, unit in parts) if parts else None
