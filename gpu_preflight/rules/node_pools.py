"""Rules for NodePools that create no GPU node, another node than expected, or more nodes than intended."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.node_capacity import least_memory
from gpu_facts.hardware.regions import is_elsewhere, is_no_zone, is_seen_zone, is_zone_name, last_letter
from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.labels import (
    ARCH,
    CAPACITY_TYPE,
    DO_NOT_DISRUPT,
    EKS_DOMAIN,
    KARPENTER_AWS_DOMAIN,
    KARPENTER_DOMAIN,
    OS,
    SAFE_TO_EVICT,
    ZONE_ID,
)
from gpu_facts.light import regex
from gpu_facts.quantities import show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DISK, GPU, NVIDIA
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import pool_region, zone_requirements
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import exactly
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.taints import boot_taints
from gpu_preflight.node.gpu_pools import gpu_node_pools, names_gpus
from gpu_preflight.node.instance_types import own_name
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.unknown import dig, is_expression, known_text, mapping
from gpu_preflight.rule import Problem, rule

_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
_RESERVED = exactly("reserved")
_NOT_LISTED_YET = regex(r"[gp]\d+[a-z]*(-[a-z0-9]+)?(\..+)?")
# Kubernetes needs this version for the devices of GB200.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html
_ULTRASERVER_FROM = (1, 33)
# Shares and slices of GPUs count if a NodeOverlay adds them.
_LIMITED = ("cpu", "memory", DISK, "pods", "nodes", GPU)
_NEAR = 0.85
_BOUNDING = (NVIDIA, "cpu", "memory")
# Sources: labels.go in pkg/apis/v1 of kubernetes-sigs/karpenter v1.15.0 and aws/karpenter-provider-aws v1.15.1
# (2026-11)
_KNOWN: Mapping[str, tuple[str, ...]] = {
    CAPACITY_TYPE: ("on-demand", "spot", "reserved"),
    f"{KARPENTER_AWS_DOMAIN}/instance-tenancy": ("dedicated", "default"),
    ARCH: ("amd64", "arm64"),
    OS: ("linux", "windows"),
}
# A value meant as a zone, not a placeholder such as YOUR_ZONE.
_MEANT = regex(r"(af|ap|ca|cn|eu|il|me|mx|sa|us)[a-z-]*\d[a-z0-9-]*")
_DISRUPTION = "https://karpenter.sh/docs/concepts/disruption/"
_JOBS = ("Job", "CronJob", "JobSet", "RayJob", "TrainJob", *TRAINING_JOBS)
# By default, cluster autoscaler keeps a node if at least half of its GPUs are in use.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md
_UTILIZATION, _THRESHOLD = 0.5, "--scale-down-gpu-utilization-threshold"


@rule("GPU171", "error", source="https://karpenter.sh/docs/reference/instance-types/")
def nodepool_for_gpus_that_no_gpu_type_meets(case: Case) -> Iterator[Problem]:
    """No NVIDIA instance type meets the NodePool's requirements.

    Karpenter finds no instance type, and the pods stay Pending.

    Fix: Correct the requirements; family, GPU name, size and generation must fit one another.
    """
    for pool in case.cluster.pools:
        foreign = {"auto-mode": f"{KARPENTER_AWS_DOMAIN}/", "karpenter": f"{EKS_DOMAIN}/"}.get(pool.kind)
        if foreign is None or any(each.key.startswith(foreign) for each in pool.requirements):
            continue
        if names_gpus(pool) and not gpu_types(pool):
            wanted = "; ".join(str(each) for each in pool.requirements)
            text = f"no NVIDIA instance type meets its requirements {wanted}"
            yield Problem.from_subject(pool, text, unknown=_may_be_newer(pool))


def _may_be_newer(pool: Pool) -> bool:
    """Whether a value may be a type or a family that the catalogue doesn't contain yet."""
    families = {each.family for each in catalogue().values()}
    values = [one for each in pool.requirements for one in each.values or ("g999",)]
    looks = (each for each in values if _NOT_LISTED_YET.fullmatch(each))
    return any(each.partition(".")[0] not in families for each in looks)


@rule("GPU172", "error", source=f"{_NODE_POOLS}#speclimits")
def limits_below_one_gpu_node(case: Case) -> Iterator[Problem]:
    """Limits of a NodePool don't allow one GPU node.

    Every instance type exceeds the limits, so the pool creates no node.

    Fix: Raise the limits to at least one node, or allow a smaller type.
    """
    for pool in gpu_node_pools(case.cluster):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        if rows and not any(_fits(pool, row) for row in rows):
            limits = ", ".join(f"{show(name, amount)} {name}" for name, amount in pool.limits.items())
            smallest = min(rows, key=lambda row: (row.gpus, row.vcpus or 0))
            sizes = _sizes(smallest)
            over = [name for name, limit in pool.limits.items() if (sizes.get(name) or 0) > limit]
            needs = ", ".join(f"{show(name, sizes[name] or 0)} {name}" for name in over)
            has = f" with {needs}" if needs else ""
            text = f"its limits of {limits} don't allow one node of its smallest type, {smallest.name}{has}"
            fix = f"Raise the limits to {needs} or more, or allow a smaller type." if needs else ""
            yield Problem.from_subject(pool, text, fix=fix)


def _sizes(row: InstanceType) -> dict[str, int | None]:
    return {
        GPU: row.ec2_gpus,
        "cpu": None if row.vcpus is None else row.vcpus * 1000,
        "memory": least_memory(row),
    }


def _fits(pool: Pool, row: InstanceType) -> bool:
    size = _sizes(row)
    return pool.max_nodes != 0 and all((size.get(name) or 0) <= limit for name, limit in pool.limits.items())


@rule("GPU173", "warning", source=f"{_NODE_POOLS}#speclimits")
def nodepool_for_gpus_without_limits(case: Case) -> Iterator[Problem]:
    """GPU NodePool has no limits.

    A mistake in one workload may start GPU nodes until the account's quota is used up.

    Fix: Set nvidia.com/gpu in limits to the maximum number of GPUs of the pool.
    """
    for pool in gpu_node_pools(case.cluster):
        static = pool.properties.get("replicas") is not None
        known = isinstance(pool.properties.get("limits", {}), dict)
        bounded = pool.max_nodes is not None or any(name.startswith(_BOUNDING) for name in pool.limits)
        if known and not static and not bounded and not dig(pool.properties, "limits", GPU):
            text = "it has no limit on GPUs, CPU, memory or nodes, so a mistake may use the whole quota"
            yield Problem.from_subject(pool, text)


@rule("GPU387", "warning", source=f"{_NODE_POOLS}#speclimits")
def limit_on_a_resource_that_no_node_has(case: Case) -> Iterator[Problem]:
    """Limit names a resource that no node has.

    Karpenter counts no usage for this name, so the limit has no effect.

    Fix: Use the name that nodes report: nvidia.com/gpu.
    """
    for pool in gpu_node_pools(case.cluster):
        for name in mapping(pool.properties.get("limits")):
            near = did_you_mean(name, _LIMITED, closeness=_NEAR)
            if near and name not in _LIMITED:
                yield Problem.from_subject(pool, f"its limit names resource {name}, which no node has{near}")


@rule("GPU177", "warning", source=f"{_NODE_POOLS}#spectemplatespecstartuptaints")
def taint_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Karpenter doesn't know a taint that user data sets.

    Karpenter creates a node for pods that don't tolerate the taint, and then creates another.

    Fix: Add the taint to the NodePool's taints, or to startupTaints if a component removes it.
    """
    for pool in gpu_node_pools(case.cluster):
        known = {each.key for each in (*pool.taints, *pool.startup_taints)}
        for taint in boot_taints(pool.user_data):
            if taint.key not in known and not taint.key.startswith(f"{KARPENTER_DOMAIN}/"):
                text = f"user data sets taint {taint}, which the NodePool doesn't list, so pods can't use its new nodes"
                yield Problem.from_subject(pool, text)


@rule("GPU178", "error", source="https://karpenter.sh/docs/concepts/nodeoverlays/")
def shares_slices_or_fractions_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Karpenter doesn't know the GPU shares, slices or fractions of a pool.

    Karpenter knows only the whole GPUs that EC2 reports. A pod that requests another resource starts no node.

    Fix: Turn on settings.featureGates.nodeOverlay, and add a NodeOverlay with these resources for each instance type.
    """
    cluster = case.cluster
    for pool in gpu_node_pools(cluster):
        if pool.kind != "karpenter" or pool.min_nodes:
            continue
        nodes = case.nodes(pool)
        offered = {name for node in nodes for name, have in node.most.items() if have and name.startswith(NVIDIA)}
        offered |= {GPU} if all(node.row is not None and node.row.ec2_gpus == 0 for node in nodes) else set()
        for name in sorted(offered):
            if not any(node.believed.get(name) for node in nodes):
                text = f"its nodes offer {name}, but Karpenter counts 0 of it, so it launches no node for its pods"
                fix = _overlay_fix(name, {node.most.get(name, 0) for node in nodes})
                yield Problem.from_subject(pool, text, fix=fix, unknown=not cluster.sees_software, doubt=cluster.doubt)


def _overlay_fix(name: str, amounts: set[int]) -> str:
    """Return the NodeOverlay that a resource needs; empty if nodes offer different amounts of it."""
    amount = next(iter(amounts), 0) if len(amounts) == 1 else 0
    gate = "It needs settings.featureGates.nodeOverlay: true in Karpenter's chart."
    return f'Add a NodeOverlay with spec.capacity {{{name}: "{amount}"}}. {gate}' if amount else ""


@rule("GPU148", "warning", source="https://karpenter.sh/docs/concepts/nodeoverlays/")
def more_shares_than_karpenter_expects(case: Case) -> Iterator[Problem]:
    """Karpenter expects fewer GPU shares than a node offers.

    Karpenter counts whole GPUs and starts a node for each pod, although one node could run several pods.

    Fix: Add a NodeOverlay whose capacity sets nvidia.com/gpu to the number that a node offers.
    """
    cluster = case.cluster
    for pool in gpu_node_pools(cluster):
        if pool.kind != "karpenter" or pool.min_nodes:
            continue
        node = case.nodes(pool)[0]
        have, expected = node.most.get(GPU, 0), node.believed.get(GPU, 0)
        if 0 < expected < have:
            text = f"a {node.instance_type} with GPU sharing offers {have} {GPU}, but Karpenter counts {expected}"
            fix = _overlay_fix(GPU, {have})
            yield Problem.from_subject(pool, text, fix=fix, unknown=not cluster.sees_software, doubt=cluster.doubt)


@rule("GPU189", "warning", source=f"{_NODE_POOLS}#spectemplatespectaints")
def nodepool_for_gpus_without_taint(case: Case) -> Iterator[Problem]:
    """GPU NodePool has no taint.

    Pods without GPUs fill GPU nodes and keep Karpenter from removing them.

    Fix: Taint the pool nvidia.com/gpu=true:NoSchedule.
    """
    for pool in gpu_node_pools(case.cluster):
        if not any(each.effect in ("NoSchedule", "NoExecute") for each in pool.taints):
            yield Problem.from_subject(pool, "it has no taint, so pods without GPUs can use its nodes")


@rule("GPU190", "warning", source=f"{_NODE_POOLS}#spectemplatespecrequirements")
def nodepool_that_may_launch_either_architecture(case: Case) -> Iterator[Problem]:
    """NodePool may launch either CPU architecture.

    An image for amd64 fails on a Graviton node with an exec format error.

    Fix: Add requirement {key: kubernetes.io/arch, operator: In, values: [amd64]} to the NodePool.
    """
    for pool in gpu_node_pools(case.cluster):
        image = _architecture_of_images(pool)
        rows = [catalogue()[each] for each in gpu_types(pool)]
        # Karpenter doesn't launch a type that no image of the class supports.
        found = {each.architecture: each.name for each in rows if image in (None, each.architecture)}
        if len(found) > 1 and not any(each.key == ARCH for each in pool.requirements):
            text = " and ".join(f"{name} ({kind})" for kind, name in sorted(found.items()))
            text = f"it may launch {text}, but a container image may support only one CPU architecture"
            yield Problem.from_subject(pool, text)


def _architecture_of_images(pool: Pool) -> str | None:
    """Return the architecture in the names of all images of a class; ``None`` if there are none or two."""
    names = [str(each.get("name")) for each in pool.launch.image_terms]
    found = {next((each for each in ("x86_64", "arm64") if each in name), None) for name in names}
    return next(iter(found)) if len(found) == 1 else None


@rule("GPU191", "warning", source=f"{_NODE_POOLS}#capacity-type")
def nodepool_that_names_no_capacity_type(case: Case) -> Iterator[Problem]:
    """NodePool doesn't require a capacity type.

    Without the requirement, Karpenter prefers spot. EC2 may reclaim spot nodes with two minutes' notice.

    Fix: Add requirement {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]} to the NodePool.
    """
    for pool in gpu_node_pools(case.cluster):
        if pool.kind == "karpenter" and not any(each.key == CAPACITY_TYPE for each in pool.requirements):
            text = f"it doesn't require {CAPACITY_TYPE}, so Karpenter launches spot before on-demand"
            yield Problem.from_subject(pool, text)


@rule("GPU192", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html")
def ultraserver_type_where_it_cannot_run(case: Case) -> Iterator[Problem]:
    """UltraServer type is used where it can't run.

    These instances need a Capacity Block for an UltraServer, and a node group with Kubernetes 1.33 or later.

    Fix: Use a node group with the Capacity Block, on Kubernetes 1.33 or later.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        types = [each for each in gpu_types(pool) if catalogue()[each].ultraserver_only]
        if not types or len(types) < len(gpu_types(pool)):
            continue
        if not pool.is_group:
            text = f"{', '.join(types)} is an UltraServer type, which NodePools can't launch"
            yield Problem.from_subject(pool, text)
        elif cluster.version and (0, 0) < minor(cluster.version) < _ULTRASERVER_FROM:
            text = f"{', '.join(types)} needs Kubernetes 1.33 or newer, but the cluster has {cluster.version}"
            yield Problem.from_subject(pool, text, fix="Upgrade the cluster to Kubernetes 1.33 or later.")


@rule("GPU186", "warning", source="https://karpenter.sh/docs/tasks/odcrs/")
def reservation_settings_mismatch(case: Case) -> Iterator[Problem]:
    """NodePool and node class disagree about reserved capacity.

    Karpenter uses reserved capacity only if the class selects it and the pool allows it. Otherwise it is paid and idle.

    Fix: Set capacityReservationSelectorTerms in the class, and allow karpenter.sh/capacity-type reserved in the pool.
    """
    for pool in gpu_node_pools(case.cluster):
        wanted = [each for each in pool.requirements if each.key == CAPACITY_TYPE]
        terms = pool.launch.reservation_terms
        allows = any(each.operator == "In" and "reserved" in (each.values or ()) for each in wanted)
        refuses = any(each.matches({CAPACITY_TYPE: _RESERVED}) is Answer.NO for each in wanted)
        if allows and pool.launch and not terms:
            text = "it allows reserved capacity, but its class selects no reservation"
            yield Problem.from_subject(pool, text, fix="Set spec.capacityReservationSelectorTerms in the node class.")
        if refuses and terms:
            text = "its class selects reservations, but the pool doesn't allow reserved capacity and never uses them"
            yield Problem.from_subject(pool, text, fix=f"Add reserved to the values of requirement {CAPACITY_TYPE}.")


@rule(
    "GPU306",
    "error",
    source="kubernetes-sigs/karpenter v1.15.0 pkg/apis/v1/nodeclaim_validation.go (validateWellKnownValues)",
)
def requirement_of_values_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Karpenter doesn't know the value of a requirement.

    If Karpenter knows none of the values, the NodePool isn't Ready and creates no node. It ignores single unknown
    values.

    Fix: Write the value as Karpenter defines it.
    """
    region = _region(case.cluster)
    for pool in case.cluster.pools:
        for key, values in _listed(pool):
            known = _KNOWN[key]
            wrong = [each for each in values if each not in known and not is_expression(each)]
            if wrong:
                hint = did_you_mean(wrong[0], known)
                text = f"requirement {key} must be one of {', '.join(known)}, got {', '.join(wrong)}{hint}"
                yield Problem.from_subject(pool, text, unknown=len(wrong) < len(values))
        yield from _in_no_zone(pool, region)


def _in_no_zone(pool: Pool, region: str | None) -> Iterator[Problem]:
    """Yield the required zones that the pool's region doesn't have, or didn't have at the date of the data."""
    for each in zone_requirements(pool):
        values = [one for one in each.values or () if each.operator == "In" and not is_expression(one)]
        never = [one for one in values if is_no_zone(one) or _is_meant_elsewhere(one, region)]
        if wrong := [one for one in values if one in never or not is_seen_zone(one)]:
            where = f"a zone of {region}" if region else "a zone such as us-east-1a"
            text = f"requirement {each.key} must be {where}, got {', '.join(wrong)}{last_letter(wrong[0])}"
            yield Problem.from_subject(pool, text, unknown=len(never) < len(each.values or ()))
    for _, ids in _listed(pool, (ZONE_ID,)):
        known = [one for one in ids if not is_expression(one)]
        never = [one for one in known if is_no_zone(one) or is_elsewhere(one, region)]
        if wrong := [one for one in known if one in never or not is_seen_zone(one)]:
            of_region = f" of {region}" if region else ""
            text = f"requirement {ZONE_ID} must be the id of a zone{of_region}, got {', '.join(wrong)}"
            yield Problem.from_subject(pool, text, unknown=len(never) < len(ids))


def _region(cluster: Cluster) -> str | None:
    """Return the region of a cluster or its groups; ``None`` if it is unknown or ambiguous."""
    stack = cluster.resource.region if cluster.resource else None
    named = {pool_region(each, cluster) for each in cluster.pools if each.is_group} - {None}
    return stack or (named.pop() if len(named) == 1 else None)


def _is_meant_elsewhere(zone: str, region: str | None) -> bool:
    """Whether a text is the name of a zone outside a region, or of no zone at all."""
    return is_elsewhere(zone, region) if is_zone_name(zone) else bool(_MEANT.fullmatch(zone))


def _listed(pool: Pool, keys: Container[str] = _KNOWN) -> Iterator[tuple[str, tuple[str, ...]]]:
    for each in pool.requirements:
        if each.key in keys and each.operator == "In" and each.values:
            yield each.key, tuple(map(str, each.values))


@rule("GPU411", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html")
def label_of_instance_types_that_is_called_otherwise_there(case: Case) -> Iterator[Problem]:
    """Instance type label belongs to another provisioner.

    Auto Mode uses labels of eks.amazonaws.com, and Karpenter uses labels of karpenter.k8s.aws. Each ignores the other's
    labels when it chooses an instance type, so the pool creates unexpected nodes, or none.

    Fix: Use the label that the message names.
    """
    for pool in case.cluster.pools:
        for key in dict.fromkeys((*(each.key for each in pool.requirements), *pool.template_labels)):
            name = own_name(key, pool.kind)
            if name:
                who = "EKS Auto Mode" if pool.kind == "auto-mode" else "Karpenter"
                text = f"{who} doesn't use label {key} to choose an instance type; use {name}"
                yield Problem.from_subject(pool, text)


def _jobs(case: Case) -> Iterator[tuple[Workload, Pool]]:
    for workload in case.cluster.workloads:
        if workload.owner.kind in _JOBS and workload.asks_for_gpu:
            for pool in case.candidate_pools(workload):
                if gpu_types(pool):
                    yield workload, pool


@rule("GPU183", "warning", source=f"{_DISRUPTION}#consolidation")
def job_on_nodes_that_karpenter_empties(case: Case) -> Iterator[Problem]:
    """Karpenter may evict a running job to save a node.

    Consolidation evicts a running job, and the work since its last checkpoint is lost.

    Fix: Annotate its pods karpenter.sh/do-not-disrupt: "true", or set spec.disruption.consolidationPolicy: WhenEmpty.
    """
    for workload, pool in _jobs(case):
        policy = dig(pool.properties, "disruption", "consolidationPolicy")
        moves = policy in (None, "WhenEmptyOrUnderutilized", "Balanced") and pool.properties.get("replicas") is None
        kept = str(workload.annotations.get(DO_NOT_DISRUPT, "")).lower() not in ("", "false")
        blocked = any(each.blocks("Underutilized") for each in pool.budgets)
        if pool.kind in ("karpenter", "auto-mode") and moves and not kept and not blocked:
            text = f"may evict the running job to save nodes (consolidationPolicy {policy or 'is the default'})"
            yield Problem.from_subject(workload, f"pool {pool.name} {text}")


@rule("GPU184", "note", source=f"{_DISRUPTION}#expiration")
def job_on_nodes_that_expire(case: Case) -> Iterator[Problem]:
    """Job runs on nodes that expire.

    Expiry drains the node even if a job runs there. A job that takes longer than the expiry never completes.

    Fix: Set expireAfter: Never on pools for long jobs; Auto Mode allows 21 days at most, so write checkpoints.
    """
    for workload, pool in _jobs(case):
        written = pool.node_template.get("expireAfter")
        default = {"karpenter": "720h", "auto-mode": "336h"}.get(pool.kind)
        after = default if written is None else known_text(written)
        if default and after and after != "Never":
            text = f"nodes of pool {pool.name} expire after {after}, which ends a job that is still running"
            longest = "Set spec.template.spec.expireAfter: 504h, EKS Auto Mode's maximum, and write checkpoints."
            longest = "Write checkpoints." if after == "504h" else longest
            never = "Set spec.template.spec.expireAfter: Never in the NodePool."
            yield Problem.from_subject(workload, text, fix=longest if pool.kind == "auto-mode" else never)


@rule("GPU495", "warning", source=f"{_DISRUPTION}#terminationgraceperiod")
def service_that_never_leaves_an_expired_node(case: Case) -> Iterator[Problem]:
    """Pod with do-not-disrupt keeps an expired node permanently.

    Karpenter taints the expired node and waits for the pod. The pod never ends, so the node is paid and accepts no
    other pods.

    Fix: Set terminationGracePeriod in the NodePool, or expireAfter: Never, or remove karpenter.sh/do-not-disrupt.
    """
    for workload in case.gpu_workloads:
        kept = str(workload.annotations.get(DO_NOT_DISRUPT, "")).lower() == "true"
        if not kept or workload.ends:
            continue
        for pool in case.candidate_pools(workload):
            after = known_text(pool.node_template.get("expireAfter"))
            drains = pool.node_template.get("terminationGracePeriod") is None
            if pool.kind == "karpenter" and after not in (None, "Never") and drains:
                text = f"nodes of pool {pool.name} expire after {after}, but {DO_NOT_DISRUPT} keeps them from draining"
                yield Problem.from_subject(workload, text)


@rule("GPU496", "warning", source=f"{_DISRUPTION}#nodepool-disruption-budgets")
def budget_that_never_removes_an_idle_node(case: Case) -> Iterator[Problem]:
    """Disruption budget keeps empty nodes permanently.

    Empty nodes stay, so idle GPUs are billed until the nodes expire. Expiration ignores budgets.

    Fix: Add a schedule and a duration to the budget of 0 nodes, or add reasons to it, such as Drifted.
    """
    for pool in case.gpu_pools:
        static = pool.properties.get("replicas") is not None
        for each in pool.budgets if not static else ():
            if each.blocks("Empty"):
                text = (
                    f"its disruption budget of {each.nodes} nodes has no schedule, so Karpenter removes no empty node"
                )
                yield Problem.from_subject(pool, text)


@rule("GPU140", "note", source="kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md")
def job_that_cluster_autoscaler_may_move(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler may evict a running job.

    Cluster autoscaler removes a node if less than half of its GPUs are in use, and the job starts again elsewhere.

    Fix: Annotate its pods cluster-autoscaler.kubernetes.io/safe-to-evict: "false".
    """
    autoscaler = case.cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None or str(autoscaler.flags.get(_THRESHOLD[2:])) in ("0", "0.0"):
        return
    for workload, pool in _jobs(case):
        wanted = workload.pod.requests.get(GPU, 0)
        have = min((node.row.gpus if node.row else 0 for node in case.nodes(pool)), default=0)
        kept = str(workload.annotations.get(SAFE_TO_EVICT, "")).lower() == "false"
        if pool.is_group and not kept and wanted and wanted < have * _UTILIZATION:
            text = f"uses {wanted} of {have} GPUs of a node of pool {pool.name} (default of {_THRESHOLD}:"
            yield Problem.from_subject(workload, f"{text} {_UTILIZATION:.0%}), so cluster autoscaler may evict it")
