"""NodePools that make no GPU node, another than expected, or more than wanted."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.vm_memory import least_memory
from gpu_facts.labels import ARCH, CAPACITY_TYPE, EKS_DOMAIN, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN
from gpu_facts.light_patterns import regex
from gpu_facts.quantities import show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DISK, GPU, NVIDIA
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import exactly
from gpu_preflight.model.taints import boot_taints
from gpu_preflight.node.gpu_pools import gpu_node_pools, names_gpus
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.unknown import dig, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
_RESERVED = exactly("reserved")
_NOT_LISTED_YET = regex(r"[gp]\d+[a-z]*(-[a-z0-9]+)?(\..+)?")
# Kubernetes needs it for the devices of GB200.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html
_ULTRASERVER_FROM = (1, 33)


@rule("GPU171", "error", source="https://karpenter.sh/docs/reference/instance-types/")
def nodepool_for_gpus_that_no_gpu_type_meets(case: Case) -> Iterator[Problem]:
    """NodePool for GPUs that no GPU type meets.

    Karpenter finds no instance type, and the pods stay Pending.

    Fix: Correct the requirements; family, GPU name, size and generation must fit one another.
    """
    for pool in case.cluster.pools:
        foreign = {"auto-mode": f"{KARPENTER_AWS_DOMAIN}/", "karpenter": f"{EKS_DOMAIN}/"}.get(pool.kind)
        if foreign is None or any(each.key.startswith(foreign) for each in pool.requirements):
            continue
        if names_gpus(pool) and not gpu_types(pool):
            asked = "; ".join(str(each) for each in pool.requirements)
            text = f"no NVIDIA instance type meets {asked}"
            yield Problem.of(pool, text, unknown=_may_be_newer(pool))


def _may_be_newer(pool: Pool) -> bool:
    """Whether a value may be a type or a family that the catalogue does not know yet."""
    families = {each.family for each in catalogue().values()}
    values = [one for each in pool.requirements for one in each.values or ("g999",)]
    looks = (each for each in values if _NOT_LISTED_YET.fullmatch(each))
    return any(each.partition(".")[0] not in families for each in looks)


@rule("GPU172", "error", source=f"{_NODE_POOLS}#speclimits")
def limits_below_one_gpu_node(case: Case) -> Iterator[Problem]:
    """Limits below one GPU node.

    Every instance type would exceed the limits, so that the pool makes no node at all.

    Fix: Raise the limits to at least one node, or allow a smaller type.
    """
    for pool in gpu_node_pools(case.cluster):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        if rows and not any(_fits(pool, row) for row in rows):
            limits = ", ".join(f"{show(name, amount)} {name}" for name, amount in pool.limits.items())
            smallest = min(rows, key=lambda row: (row.gpus, row.vcpus or 0))
            text = f"limits of {limits} are below its smallest type, {smallest.name}"
            yield Problem.of(pool, text)


def _fits(pool: Pool, row: InstanceType) -> bool:
    size = {
        GPU: row.ec2_gpus,
        "cpu": None if row.vcpus is None else row.vcpus * 1000,
        "memory": least_memory(row),
    }
    return pool.max_nodes != 0 and all((size.get(name) or 0) <= limit for name, limit in pool.limits.items())


# Shares and slices of GPUs count, where a NodeOverlay adds them.
_LIMITED = ("cpu", "memory", DISK, "pods", "nodes", GPU)
_NEAR = 0.85
_BOUNDING = (NVIDIA, "cpu", "memory")


@rule("GPU173", "warning", source=f"{_NODE_POOLS}#speclimits")
def nodepool_for_gpus_without_limits(case: Case) -> Iterator[Problem]:
    """NodePool for GPUs without limits.

    A mistake in one workload may start GPU nodes until the account's quota is used up.

    Fix: Set limits nvidia.com/gpu to the most GPUs that the pool may have.
    """
    for pool in gpu_node_pools(case.cluster):
        static = pool.properties.get("replicas") is not None
        known = isinstance(pool.properties.get("limits", {}), dict)
        bounded = pool.max_nodes is not None or any(name.startswith(_BOUNDING) for name in pool.limits)
        if known and not static and not bounded and not dig(pool.properties, "limits", GPU):
            yield Problem.of(pool, "has no limits on GPUs, CPU, memory or nodes")


@rule("GPU387", "warning", source=f"{_NODE_POOLS}#speclimits")
def limit_on_a_resource_that_no_node_has(case: Case) -> Iterator[Problem]:
    """Limit on a resource that no node has.

    Karpenter counts nothing against it, so that it limits nothing.

    Fix: Write the name that nodes report, nvidia.com/gpu.
    """
    for pool in gpu_node_pools(case.cluster):
        for name in mapping(pool.properties.get("limits")):
            near = did_you_mean(name, _LIMITED, closeness=_NEAR)
            if near and name not in _LIMITED:
                yield Problem.of(pool, f"limits {name}, which no node has{near}")


@rule("GPU177", "warning", source=f"{_NODE_POOLS}#spectemplatespecstartuptaints")
def taint_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Taint that Karpenter does not know.

    Karpenter makes a node for pods that the taint then keeps off, and makes another.

    Fix: List the taint in the NodePool's taints, or in startupTaints when something removes it.
    """
    for pool in gpu_node_pools(case.cluster):
        known = {each.key for each in (*pool.taints, *pool.startup_taints)}
        for taint in boot_taints(pool.user_data):
            if taint.key not in known and not taint.key.startswith(f"{KARPENTER_DOMAIN}/"):
                text = f"user data taints its nodes with {taint}, of which Karpenter does not know"
                yield Problem.of(pool, text)


@rule("GPU178", "error", source="https://karpenter.sh/docs/concepts/nodeoverlays/")
def shares_slices_or_fractions_that_karpenter_does_not_know(case: Case) -> Iterator[Problem]:
    """Shares, slices or fractions that Karpenter does not know.

    Karpenter knows the whole GPUs that EC2 reports; a pod that asks for anything else starts no node.

    Fix: Add a NodeOverlay whose capacity names the resource and how much of it a node offers.
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
                text = f"its nodes offer {name}, and Karpenter expects none"
                yield Problem.of(pool, text, unknown=not cluster.sees_software)


@rule("GPU148", "warning", source="https://karpenter.sh/docs/concepts/nodeoverlays/")
def more_shares_than_karpenter_expects(case: Case) -> Iterator[Problem]:
    """More shares than Karpenter expects.

    Karpenter counts whole GPUs and starts a node for each, where one would take several pods.

    Fix: Add a NodeOverlay whose capacity gives nvidia.com/gpu as many as a node offers.
    """
    cluster = case.cluster
    for pool in gpu_node_pools(cluster):
        if pool.kind != "karpenter" or pool.min_nodes:
            continue
        node = case.nodes(pool)[0]
        have, expected = node.most.get(GPU, 0), node.believed.get(GPU, 0)
        if 0 < expected < have:
            text = f"a {node.instance_type} offers {have} {GPU}, and Karpenter expects {expected}"
            yield Problem.of(pool, text, unknown=not cluster.sees_software)


@rule("GPU189", "warning", source=f"{_NODE_POOLS}#spectemplatespectaints")
def nodepool_for_gpus_without_taint(case: Case) -> Iterator[Problem]:
    """NodePool for GPUs without taint.

    Pods without GPUs fill GPU nodes and keep them from being removed.

    Fix: Taint the pool nvidia.com/gpu=true:NoSchedule.
    """
    for pool in gpu_node_pools(case.cluster):
        if not any(each.effect in ("NoSchedule", "NoExecute") for each in pool.taints):
            yield Problem.of(pool, "no taint keeps pods without GPUs off its nodes")


@rule("GPU190", "warning", source=f"{_NODE_POOLS}#spectemplatespecrequirements")
def nodepool_that_may_launch_either_architecture(case: Case) -> Iterator[Problem]:
    """NodePool that may launch either architecture.

    An image for amd64 fails on a Graviton node with an exec format error.

    Fix: Require kubernetes.io/arch.
    """
    for pool in gpu_node_pools(case.cluster):
        image = _architecture_of_images(pool)
        rows = [catalogue()[each] for each in gpu_types(pool)]
        # Karpenter launches no type that none of the images of the class boots.
        found = {each.architecture: each.name for each in rows if image in (None, each.architecture)}
        if len(found) > 1 and not any(each.key == ARCH for each in pool.requirements):
            text = " and ".join(f"{name} ({kind})" for kind, name in sorted(found.items()))
            yield Problem.of(pool, f"may launch {text}")


def _architecture_of_images(pool: Pool) -> str | None:
    """Return the architecture that the names of all images of a class tell, ``None`` where they tell none or two."""
    terms = mappings(pool.launch.written.get("amiSelectorTerms"))
    told = {next((each for each in ("x86_64", "arm64") if each in str(term.get("name"))), None) for term in terms}
    return next(iter(told)) if len(told) == 1 else None


@rule("GPU191", "warning", source=f"{_NODE_POOLS}#capacity-type")
def nodepool_that_names_no_capacity_type(case: Case) -> Iterator[Problem]:
    """NodePool that names no capacity type.

    Without the requirement Karpenter prefers spot, whose GPU nodes may be taken back at two minutes' notice.

    Fix: Require karpenter.sh/capacity-type.
    """
    for pool in gpu_node_pools(case.cluster):
        if pool.kind == "karpenter" and not any(each.key == CAPACITY_TYPE for each in pool.requirements):
            yield Problem.of(pool, f"names no {CAPACITY_TYPE}, so it takes spot before on-demand")


@rule("GPU192", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html")
def ultraserver_type_where_it_cannot_run(case: Case) -> Iterator[Problem]:
    """UltraServer type where it cannot run.

    These instances come with Capacity Blocks of an UltraServer, for node groups of Kubernetes 1.33 or later.

    Fix: Use a managed or self-managed node group with the Capacity Block.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        types = [each for each in gpu_types(pool) if catalogue()[each].ultraserver_only]
        if not types or len(types) < len(gpu_types(pool)):
            continue
        if not pool.is_group:
            text = f"{', '.join(types)} comes in UltraServers, which NodePools do not launch"
            yield Problem.of(pool, text)
        elif cluster.version and (0, 0) < minor(cluster.version) < _ULTRASERVER_FROM:
            text = f"{', '.join(types)} needs Kubernetes 1.33, the cluster has {cluster.version}"
            yield Problem.of(pool, text)


@rule("GPU186", "warning", source="https://karpenter.sh/docs/tasks/odcrs/")
def reservations_that_pool_and_class_do_not_agree_on(case: Case) -> Iterator[Problem]:
    """Reservations that pool and class do not agree on.

    Reserved capacity is used where the class selects it and the pool allows it; else it is paid and idle.

    Fix: Give the class capacityReservationSelectorTerms and the pool karpenter.sh/capacity-type reserved.
    """
    for pool in gpu_node_pools(case.cluster):
        wanted = [each for each in pool.requirements if each.key == CAPACITY_TYPE]
        terms = pool.launch.reservation_terms
        allows = any(each.operator == "In" and "reserved" in (each.values or ()) for each in wanted)
        refuses = any(each.met_by({CAPACITY_TYPE: _RESERVED}) is Answer.NO for each in wanted)
        if allows and pool.launch and not terms:
            yield Problem.of(pool, "allows reserved capacity, and its class selects no reservation")
        if refuses and terms:
            yield Problem.of(pool, "its class selects reservations, and the pool does not use them")
