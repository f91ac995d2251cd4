"""Rules for running nodes: repair, updates, interruptions, and nodes for system pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_facts.charts import DCGM_SERVER, NODE_MONITORING_AGENT
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import KAI_QUEUE, KUEUE_QUEUE, OPTION_TAG
from gpu_facts.light import regex
from gpu_facts.quantities import count, show
from gpu_facts.software.system_pods import RESOURCES, SystemPods, controller_pods, nodes_at_least, requested
from gpu_preflight.case import Case
from gpu_preflight.cluster.operators import fargate_profiles, takes
from gpu_preflight.cluster.pools import desired_size
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.autoscaler_view import feature_gate, option
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.objects import Chart, Object
from gpu_preflight.reading.unknown import Unknown, all_known, dig, is_true, known_number, mapping, mappings
from gpu_preflight.rule import Problem, rule

_HEALTH = "https://docs.aws.amazon.com/eks/latest/userguide/node-health.html"
_QUEUES = (KUEUE_QUEUE, KAI_QUEUE, "volcano.sh/queue-name")
_DEFAULT_MINUTES, _ENOUGH_MINUTES = 15, 20
_DURATION = regex(r"(\d+(?:\.\d+)?)(h|m|s)")
_MINUTES = {"h": 60.0, "m": 1.0, "s": 1 / 60}
_SHARE = regex(r"(\d{1,3})%")
_WAIT_TAG = f"{OPTION_TAG}maxnodeprovisiontime"
_SENTINEL = "nvsentinel"
# NVSentinel's modules that change a node. Each is off by default, under `global` in the values.
# Source: NVIDIA/NVSentinel docs/configuration/README.md, fault-remediation.md, node-drainer.md (2026-11)
_ACTING = ("faultQuarantine", "nodeDrainer", "faultRemediation")
_REASON, _WITHIN_BUDGETS = "Unhealthy", (1, 15)
_SERVICES = ("Deployment", "StatefulSet")
_KEEPS_OFF = ("NoSchedule", "NoExecute")
_MAX_LISTED = 5
_UNLIMITED = 10**18


@rule("GPU107", "warning", source="https://kueue.sigs.k8s.io/docs/concepts/workload/")
def jobs_that_each_hold_a_part_of_the_nodes_they_all_need(case: Case) -> Iterator[Problem]:
    """Jobs can block each other by each holding a part of the nodes.

    Pods that must run together start one by one. Two jobs may get half of the nodes each, and wait on paid nodes.

    Fix: Put the jobs into a queue that starts each job as a whole, such as Kueue, or raise the maximum of the pool.
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
            message = (
                f"pool {name}: {names} need {needed} nodes at once, but it has {most}, and no queue starts them in turn"
            )
            yield Problem(jobs[0][0], message)


def _starts_whole(workload: Workload) -> bool:
    """Whether a component other than the autoscaler starts all pods of a job together."""
    named = {*workload.labels, *workload.annotations, *workload.owner.labels, *workload.owner.annotations}
    return any(each in named for each in _QUEUES) or bool(workload.pod.scheduler)


@rule("GPU108", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html")
def spot_nodes_under_jobs_of_several_nodes(case: Case) -> Iterator[Problem]:
    """Nodes with EFA use spot capacity.

    An interruption, or a rebalance in a managed node group, removes one node and so stops the whole job.

    Fix: Use on-demand or reserved capacity. If your jobs write checkpoints often, accept this finding: --ignore
    GPU108=REASON.
    """
    for pool in case.gpu_pools:
        if pool.is_group and "spot" in pool.capacity_types and pool.launch.efa_interfaces:
            message = "its nodes have EFA and are spot, so one interruption stops a job that runs on several of them"
            yield Problem.from_subject(pool, message)


@rule("GPU115", "note", source=_HEALTH)
def node_auto_repair_that_does_not_see_gpus(case: Case) -> Iterator[Problem]:
    """Node auto repair doesn't detect GPU errors.

    Without the monitoring agent, EKS repairs only nodes that aren't Ready, and keeps nodes with a broken GPU.

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
            message = (
                f"node auto repair is on, but add-on {NODE_MONITORING_AGENT}, which detects GPU errors, isn't installed"
            )
            yield Problem.from_subject(pool, message)


@rule("GPU110", "warning", source="https://github.com/aws/eks-node-monitoring-agent/tree/v1.7.0/charts")
def gpu_diagnosis_that_does_not_run_on_the_gpu_nodes(case: Case) -> Iterator[Problem]:
    """DCGM server of the node monitoring agent doesn't run on the GPU nodes.

    By default, the DCGM server of the node monitoring agent tolerates no taints, so GPU errors aren't detected.

    Fix: Add the toleration to the list dcgmAgent.tolerations in ConfigurationValues of add-on
    eks-node-monitoring-agent.
    """
    cluster = case.cluster
    for daemon in cluster.daemon_sets:
        if daemon.name != DCGM_SERVER:
            continue
        for pool in case.gpu_pools:
            if taint := case.blocking_taint(daemon, pool):
                message = (
                    f"pool {pool.name}: DaemonSet {daemon.name} doesn't tolerate its taint {taint}, so GPU errors "
                    "aren't detected"
                )
                yield Problem(daemon, message)


@rule("GPU111", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html")
def disruption_budget_that_lets_no_gpu_pod_go(case: Case) -> Iterator[Problem]:
    """PodDisruptionBudget blocks eviction of every GPU pod.

    Without force, an update of a node group waits 15 minutes for each pod, then fails. Karpenter waits until
    terminationGracePeriod. Without one, it waits permanently while the node is paid.

    Fix: Set maxUnavailable: 1 in the budget, or ForceUpdateEnabled: true in the node group, or terminationGracePeriod
    in the NodePool.
    """
    cluster = case.cluster
    managed = [each for each in case.gpu_pools if each.kind == "managed"]
    stalled = [each.name for each in managed if _may_stall(each)]
    for budget in cluster.objects_of_kind("PodDisruptionBudget"):
        for workload in case.gpu_workloads:
            value = _blocking_value(budget, workload)
            if not value:
                continue
            blocks = f"PodDisruptionBudget {budget.name} ({value}) blocks eviction of every pod of {workload.name}"
            instead = " in place of minAvailable" if "minAvailable" in value else ""
            allow = f"Set maxUnavailable: 1{instead} in the budget"
            if stalled:
                text = f"an update of node group {', '.join(stalled)} fails"
                fix = f"{allow}, or ForceUpdateEnabled: true in the node group."
                yield Problem(budget, f"{blocks}, so {text}", fix)
                continue
            drained = [each.name for each in case.candidate_pools(workload) if _drains_without_end(each)]
            if drained and not workload.ends:
                text = f"Karpenter can't drain nodes of pool {', '.join(drained)}"
                fix = f"{allow}, or terminationGracePeriod in the NodePool."
                yield Problem(budget, f"{blocks}, so {text}", fix)


def _drains_without_end(pool: Pool) -> bool:
    """Whether Karpenter waits for the pods of a replaced node without a time limit."""
    return pool.kind == "karpenter" and pool.node_template.get("terminationGracePeriod") is None


def _may_stall(pool: Pool) -> bool:
    forced = pool.properties.get("ForceUpdateEnabled")
    return not isinstance(forced, Unknown) and not is_true(forced)


def _blocking_value(budget: Object, workload: Workload) -> str:
    """Return the setting by which a budget allows no eviction of a workload's pods; empty if it may allow one."""
    wanted = mapping(dig(budget.spec, "selector", "matchLabels"))
    extra = dig(budget.spec, "selector", "matchExpressions")
    everything = budget.spec.get("selector") == {}
    chosen = (
        (bool(wanted) or everything)
        and not extra
        and all(workload.labels.get(key) == value for key, value in wanted.items())
    )
    if not chosen or budget.namespace != workload.namespace:
        return ""
    least = budget.spec.get("minAvailable")
    most_gone = budget.spec.get("maxUnavailable")
    number = known_number(least)
    replicas = workload.replicas
    if number is None and replicas and (share := _SHARE.fullmatch(str(least))):
        # The disruption controller rounds up: 50 % of one pod is one.
        number = -(-int(share[1]) * replicas // 100)
    if number is not None and replicas is not None and number >= replicas > 0:
        return f"minAvailable {least} of {count(replicas, 'pod')}"
    if most_gone in (0, "0", "0%"):
        return f"maxUnavailable {most_gone}"
    return "minAvailable 100%" if least == "100%" else ""


@rule("GPU113", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/fargate.html")
def gpu_pods_on_fargate(case: Case) -> Iterator[Problem]:
    """Fargate profile selects GPU pods.

    Fargate has no GPUs, so the pods that the profile selects stay Pending.

    Fix: Give the pods another namespace, or add labels to the profile's selector that the pods don't have.
    """
    for profile in fargate_profiles(case.cluster):
        for workload in case.cluster.workloads:
            if workload.asks_for_gpu and takes(profile, workload):
                message = f"Fargate profile {profile.path} selects its pods, but Fargate has no GPUs"
                yield Problem.from_subject(workload, message)


@rule("GPU114", "warning", source="https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md")
def autoscaler_that_gives_up_on_slow_nodes(case: Case) -> Iterator[Problem]:
    """Autoscaler may give up on nodes that start slowly.

    Bare metal and eight-GPU instances may take longer than 15 minutes. The autoscaler then removes the node and creates
    a new one.

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
            message = f"pool {pool.name}: {', '.join(slow[:4])} may take longer to start than {minutes:g} minutes,"
            message += " after which cluster autoscaler gives up"
            yield Problem(autoscaler, message)


def _minutes(flag: Any) -> float | None:
    """Return a duration in minutes, cluster autoscaler's default without a flag; ``None`` if it isn't known."""
    if flag is None:
        return _DEFAULT_MINUTES
    parts = _DURATION.findall(flag) if isinstance(flag, str) else []
    return sum(float(number) * _MINUTES[unit] for number, unit in parts) if parts else None


@rule("GPU450", "warning", source="https://github.com/NVIDIA/NVSentinel/blob/main/docs/configuration/README.md")
def two_that_repair_the_same_nodes(case: Case) -> Iterator[Problem]:
    """Two components repair the same nodes.

    NVSentinel cordons, drains and reboots nodes that EKS or Karpenter replaces at the same time, so nodes are repaired
    twice.

    Fix: Set global.dryRun: true in the values of chart nvsentinel, or turn node repair off.
    """
    chart = case.cluster.chart(_SENTINEL)
    acting = _acting(chart) if chart else []
    if chart is None or not acting:
        return
    for pool in case.gpu_pools:
        if _is_repaired(pool, case.cluster):
            who = "Karpenter" if pool.kind == "karpenter" else "EKS"
            text = f"both {who} and NVSentinel ({', '.join(acting)}) repair its nodes"
            off = "settings.featureGates.nodeRepair: false in the values of chart karpenter"
            off = off if pool.kind == "karpenter" else "NodeRepairConfig.Enabled: false in the node group"
            fix = f"Set global.dryRun: true in the values of chart nvsentinel, or {off}."
            yield Problem.from_subject(pool, text, fix=fix)


def _acting(chart: Chart) -> list[str]:
    """Return the enabled modules with which NVSentinel changes nodes; empty in a dry run."""
    values = chart.values.get("global") or {}
    if is_true(dig(values, "dryRun")):
        return []
    return [each for each in _ACTING if is_true(dig(values, each, "enabled"))]


def _is_repaired(pool: Pool, cluster: Cluster) -> bool:
    if pool.kind == "karpenter":
        return feature_gate(cluster, "nodeRepair", default=False) is Answer.YES
    return pool.kind == "managed" and is_true(dig(dict(pool.properties), "NodeRepairConfig", "Enabled"))


@rule("GPU451", "warning", source="https://karpenter.sh/v1.15/concepts/disruption/")
def budget_that_lets_no_broken_node_be_repaired(case: Case) -> Iterator[Problem]:
    """Disruption budget blocks the repair of broken nodes.

    Since 1.15, Karpenter respects the budgets of the NodePool when it repairs nodes. A node whose GPU is lost remains
    and is paid.

    Fix: Set reasons: [Drifted, Underutilized, Empty] in the budget of 0 nodes, and add a budget with nodes: "1" and
    reasons: [Unhealthy].
    """
    if not _repairs_within_budgets(case.cluster):
        return
    for pool in case.gpu_pools:
        blocking = [each for each in pool.budgets if each.blocks(_REASON) and each.schedule is None]
        if pool.kind == "karpenter" and blocking:
            listed = bool(blocking[0].reasons)
            includes = f"lists reason {_REASON}" if listed else f"has no reasons, so it includes {_REASON}"
            text = (
                f"its disruption budget of 0 nodes {includes}; since version 1.15, Karpenter applies it to node repair"
            )
            only = len(blocking[0].reasons or ()) == 1
            without = "delete this budget" if only else f"remove {_REASON} from its reasons"
            fix = f'Set nodes: "1" in the budget with reason {_REASON}, or {without}.' if listed else ""
            yield Problem.from_subject(pool, f"{text} too and can't replace a broken node", fix=fix)


def _repairs_within_budgets(cluster: Cluster) -> bool:
    karpenter = cluster.autoscaler("karpenter")
    newer = karpenter is not None and minor(karpenter.version or "") >= _WITHIN_BUDGETS
    legacy = option(cluster, "legacyNodeRepair") not in (None, False, "false")
    return newer and not legacy and feature_gate(cluster, "nodeRepair", default=False) is Answer.YES


@rule("GPU481", "error", source="https://kueue.sigs.k8s.io/docs/installation/", stops=False)
def controllers_larger_than_the_system_nodes(case: Case) -> Iterator[Problem]:
    """Controllers request more than the nodes without GPUs have.

    Some controllers stay Pending. If an autoscaler, a queue or a webhook is among them, no GPU pod starts. Without
    cluster autoscaler, a group keeps its minimum or desired size.

    Fix: Raise the size or the instance type of the system nodes, or lower the requests of the controllers.
    """
    pools = _system_pools(case)
    if not pools:
        return
    pods, nodes = list(_requests(case)), [_nodes(case, each) for each in pools]
    capacities = [_capacity(case, each) for each in pools]
    # Assume the largest node of any pool, so the bound holds for all pools together.
    largest = {each: max(one.get(each, _UNLIMITED) for one in capacities) for each in RESOURCES}
    needed = nodes_at_least(pods, largest)
    short = next((each for each in RESOURCES if requested(pods, each) > _total_capacity(capacities, nodes, each)), None)
    if short is None and needed is not None and needed <= sum(nodes):
        return
    resource = short or "cpu"
    most, wanted = _total_capacity(capacities, nodes, resource), requested(pods, resource)
    totals = {each.name: requested([each], resource) for each in pods}
    listed = sorted(totals, key=lambda name: -totals[name])[:_MAX_LISTED]
    parts = ", ".join(f"{name} {show(resource, totals[name])}" for name in listed)
    sizes = " and ".join(
        f"{number} node{'' if number == 1 else 's'} of pool {each.name}"
        for number, each in zip(nodes, pools, strict=True)
    )
    offer = "offers" if sum(nodes) == 1 else "offer"
    text = f"controllers request at least {show(resource, wanted)} {resource} ({parts}), but {sizes} {offer}"
    apart = "" if short else f", and the pods need at least {needed} nodes"
    if short is None and needed is None:
        apart = ", and one of the pods fits no node"
    yield Problem(pools[0], f"{text} {show(resource, most)} for pods{apart}")


def _system_pools(case: Case) -> list[Pool]:
    """Return the groups without GPUs if their maximum is known and no other nodes run pods without GPUs."""
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
    """Return a group's maximum number of nodes: its maximum if an autoscaler may scale it, else its initial size."""
    most = pool.max_nodes or 0
    if case.cluster.runs("cluster-autoscaler") is not Answer.NO:
        return most
    desired = desired_size(pool)
    started = pool.min_nodes if desired is None else known_number(desired)
    return most if started is None or pool.min_nodes is None else max(started, pool.min_nodes)


def _capacity(case: Case, pool: Pool) -> Mapping[str, int]:
    """Return the maximum resources for pods on a node of a pool, if known."""
    nodes = case.nodes(pool)
    found = {each: [node.most.get(each) for node in nodes] for each in RESOURCES}
    return {each: max(all_known(amounts)) for each, amounts in found.items() if all_known(amounts)}


def _total_capacity(capacities: Sequence[Mapping[str, int]], nodes: Sequence[int], resource: str) -> int:
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
