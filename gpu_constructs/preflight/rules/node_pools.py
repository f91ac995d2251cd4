"""NodePools that make no GPU node, another than expected, or more than wanted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.hardware.catalogue import InstanceType, catalogue
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.gpu_pools import gpu_node_pools, names_gpus
from gpu_constructs.preflight.label_values import exactly
from gpu_constructs.preflight.model import GPU, Cluster, Pool
from gpu_constructs.preflight.nodes import gpu_types, minor, nodes_to_be
from gpu_constructs.preflight.pools import CAPACITY
from gpu_constructs.preflight.quantity import MIB, show
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.taints import kubelet_taints, setting_taints
from gpu_constructs.preflight.unknown import dig, items

_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/"
_ARCH = "kubernetes.io/arch"
_RESERVED = exactly("reserved")
_NOT_LISTED_YET = re.compile(r"[gp]\d+[a-z]*(-[a-z0-9]+)?(\..+)?")
# Kubernetes needs it for the devices of GB200.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html
_ULTRASERVER_FROM = (1, 33)


def _no_type(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.pools:
        foreign = {"auto-mode": "karpenter.k8s.aws/", "karpenter": "eks.amazonaws.com/"}.get(pool.kind)
        if foreign is None or any(each.key.startswith(foreign) for each in pool.requirements):
            continue
        if names_gpus(pool) and not gpu_types(pool):
            asked = "; ".join(str(each) for each in pool.requirements)
            text = f"pool {pool.name}: no NVIDIA instance type meets {asked}"
            yield Problem(pool.origin, text, unknown=_may_be_newer(pool))


def _may_be_newer(pool: Pool) -> bool:
    """Whether a value may be a type or a family that the catalogue does not know yet."""
    families = {each.family for each in catalogue().values()}
    values = [one for each in pool.requirements for one in each.values or ("g999",)]
    looks = (each for each in values if _NOT_LISTED_YET.fullmatch(each))
    return any(each.partition(".")[0] not in families for each in looks)


def _tight(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        rows = [catalogue()[each] for each in gpu_types(pool)]
        if rows and not any(_fits(pool, row) for row in rows):
            limits = ", ".join(f"{show(name, amount)} {name}" for name, amount in pool.limits.items())
            smallest = min(rows, key=lambda row: (row.gpus, row.vcpus or 0))
            text = f"pool {pool.name}: limits of {limits} are below its smallest type, {smallest.name}"
            yield Problem(pool.origin, text)


def _fits(pool: Pool, row: InstanceType) -> bool:
    size = {
        GPU: row.ec2_gpus,
        "cpu": None if row.vcpus is None else row.vcpus * 1000,
        # Karpenter takes off what the hypervisor may keep.
        "memory": None if row.memory_mib is None else int(row.memory_mib * MIB * 0.925),
    }
    return pool.max_nodes != 0 and all((size.get(name) or 0) <= limit for name, limit in pool.limits.items())


# Shares and slices of GPUs count, where a NodeOverlay adds them.
_BOUNDING = ("nvidia.com/", "cpu", "memory")


def _unlimited(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        static = pool.properties.get("replicas") is not None
        known = isinstance(pool.properties.get("limits", {}), dict)
        bounded = pool.max_nodes is not None or any(name.startswith(_BOUNDING) for name in pool.limits)
        if known and not static and not bounded and not dig(dict(pool.properties), "limits", GPU):
            yield Problem(pool.origin, f"pool {pool.name}: has no limits on GPUs, CPU, memory or nodes")


def _undeclared_taints(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        told = [
            *kubelet_taints(pool.user_data.kubelet_flags),
            *setting_taints(dig(dict(pool.user_data.settings), "kubernetes", "node-taints")),
        ]
        known = {each.key for each in (*pool.taints, *pool.startup_taints)}
        for taint in told:
            if taint.key not in known and not taint.key.startswith("karpenter.sh/"):
                text = f"pool {pool.name}: user data taints its nodes with {taint}, of which Karpenter does not know"
                yield Problem(pool.origin, text)


def _uncounted(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        if pool.kind != "karpenter" or pool.min_nodes:
            continue
        nodes = nodes_to_be(pool, cluster)
        offered = {
            name for node in nodes for name, have in node.most.items() if have and name.startswith("nvidia.com/")
        }
        offered |= {GPU} if all(node.row is not None and node.row.ec2_gpus == 0 for node in nodes) else set()
        for name in sorted(offered):
            if not any(node.believed.get(name) for node in nodes):
                text = f"pool {pool.name}: its nodes offer {name}, and Karpenter expects none"
                yield Problem(pool.origin, text, unknown=not cluster.sees_software)


def _fewer(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        if pool.kind != "karpenter" or pool.min_nodes:
            continue
        node = nodes_to_be(pool, cluster)[0]
        have, expected = node.most.get(GPU, 0), node.believed.get(GPU, 0)
        if 0 < expected < have:
            text = f"a {node.instance_type} offers {have} {GPU}, and Karpenter expects {expected}"
            yield Problem(pool.origin, f"pool {pool.name}: {text}", unknown=not cluster.sees_software)


def _untainted(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        if not any(each.effect in ("NoSchedule", "NoExecute") for each in pool.taints):
            yield Problem(pool.origin, f"pool {pool.name}: no taint keeps pods without GPUs off its nodes")


def _both_architectures(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        found = {catalogue()[each].architecture: each for each in gpu_types(pool)}
        if len(found) > 1 and not any(each.key == _ARCH for each in pool.requirements):
            text = " and ".join(f"{name} ({kind})" for kind, name in sorted(found.items()))
            yield Problem(pool.origin, f"pool {pool.name}: may launch {text}")


def _any_capacity(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        if pool.kind == "karpenter" and not any(each.key == CAPACITY for each in pool.requirements):
            yield Problem(pool.origin, f"pool {pool.name}: names no {CAPACITY}, so it takes spot before on-demand")


def _ultraservers(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        types = [each for each in gpu_types(pool) if catalogue()[each].ultraserver_only]
        if not types or len(types) < len(gpu_types(pool)):
            continue
        if not pool.is_group:
            text = f"pool {pool.name}: {', '.join(types)} comes in UltraServers, which NodePools do not launch"
            yield Problem(pool.origin, text)
        elif cluster.version and (0, 0) < minor(cluster.version) < _ULTRASERVER_FROM:
            text = f"pool {pool.name}: {', '.join(types)} needs Kubernetes 1.33, the cluster has {cluster.version}"
            yield Problem(pool.origin, text)


def _reserved(cluster: Cluster) -> Iterator[Problem]:
    for pool in gpu_node_pools(cluster):
        wanted = [each for each in pool.requirements if each.key == CAPACITY]
        terms = items(pool.launch.get("capacityReservationSelectorTerms"))
        allows = any(each.operator == "In" and "reserved" in (each.values or ()) for each in wanted)
        refuses = any(each.met_by({CAPACITY: _RESERVED}) is Answer.NO for each in wanted)
        if allows and pool.launch and not terms:
            yield Problem(
                pool.origin, f"pool {pool.name}: allows reserved capacity, and its class selects no reservation"
            )
        if refuses and terms:
            yield Problem(
                pool.origin, f"pool {pool.name}: its class selects reservations, and the pool does not use them"
            )


RULES = (
    Rule(
        id="GPU171",
        severity="error",
        title="NodePool for GPUs that no GPU type meets",
        why="Karpenter finds no instance type, and the pods stay Pending.",
        source="https://karpenter.sh/docs/reference/instance-types/",
        fix="Correct the requirements; family, GPU name, size and generation must fit one another.",
        causes=("G1",),
        check=_no_type,
    ),
    Rule(
        id="GPU172",
        severity="error",
        title="Limits below one GPU node",
        why="Every instance type would exceed the limits, so that the pool makes no node at all.",
        source=f"{_NODE_POOLS}#speclimits",
        fix="Raise the limits to at least one node, or allow a smaller type.",
        causes=("G2", "K11"),
        check=_tight,
    ),
    Rule(
        id="GPU173",
        severity="warning",
        title="NodePool for GPUs without limits",
        why="A mistake in one workload may start GPU nodes until the account's quota is used up.",
        source=f"{_NODE_POOLS}#speclimits",
        fix=f"Set limits {GPU} to the most GPUs that the pool may have.",
        causes=("P060",),
        check=_unlimited,
    ),
    Rule(
        id="GPU177",
        severity="warning",
        title="Taint that Karpenter does not know",
        why="Karpenter makes a node for pods that the taint then keeps off, and makes another.",
        source=f"{_NODE_POOLS}#spectemplatespecstartuptaints",
        fix="List the taint in the NodePool's taints, or in startupTaints when something removes it.",
        causes=("K17",),
        check=_undeclared_taints,
    ),
    Rule(
        id="GPU178",
        severity="error",
        title="Shares, slices or fractions that Karpenter does not know",
        why="Karpenter knows the whole GPUs that EC2 reports; a pod that asks for anything else starts no node.",
        source="https://karpenter.sh/docs/concepts/nodeoverlays/",
        fix="Add a NodeOverlay whose capacity names the resource and how much of it a node offers.",
        causes=("G6", "G7", "K12", "P051"),
        check=_uncounted,
    ),
    Rule(
        id="GPU186",
        severity="warning",
        title="Reservations that pool and class do not agree on",
        why="Reserved capacity is used where the class selects it and the pool allows it; else it is paid and idle.",
        source="https://karpenter.sh/docs/tasks/odcrs/",
        fix="Give the class capacityReservationSelectorTerms and the pool karpenter.sh/capacity-type reserved.",
        causes=("G11", "K9", "P041"),
        check=_reserved,
    ),
    Rule(
        id="GPU189",
        severity="warning",
        title="NodePool for GPUs without taint",
        why="Pods without GPUs fill GPU nodes and keep them from being removed.",
        source=f"{_NODE_POOLS}#spectemplatespectaints",
        fix="Taint the pool nvidia.com/gpu=true:NoSchedule.",
        causes=("K10",),
        check=_untainted,
    ),
    Rule(
        id="GPU190",
        severity="warning",
        title="NodePool that may launch either architecture",
        why="An image for amd64 fails on a Graviton node with an exec format error.",
        source=f"{_NODE_POOLS}#spectemplatespecrequirements",
        fix="Require kubernetes.io/arch.",
        causes=("E10", "K12", "K18"),
        check=_both_architectures,
    ),
    Rule(
        id="GPU191",
        severity="warning",
        title="NodePool that names no capacity type",
        why="Without the requirement Karpenter prefers spot, whose GPU nodes may be taken back at two minutes' notice.",
        source=f"{_NODE_POOLS}#capacity-type",
        fix="Require karpenter.sh/capacity-type.",
        causes=("K18",),
        check=_any_capacity,
    ),
    Rule(
        id="GPU192",
        severity="error",
        title="UltraServer type where it cannot run",
        why="These instances come with Capacity Blocks of an UltraServer, for node groups of Kubernetes 1.33 or later.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html",
        fix="Use a managed or self-managed node group with the Capacity Block.",
        causes=("G16", "P070"),
        check=_ultraservers,
    ),
    Rule(
        id="GPU148",
        severity="warning",
        title="More shares than Karpenter expects",
        why="Karpenter counts whole GPUs and starts a node for each, where one would take several pods.",
        source="https://karpenter.sh/docs/concepts/nodeoverlays/",
        fix=f"Add a NodeOverlay whose capacity gives {GPU} as many as a node offers.",
        causes=("G7", "P051"),
        check=_fewer,
    ),
)

OUT_OF_REACH = (
    OutOfReach(
        "G12",
        "EC2 has none of the types at the moment, and Karpenter leaves them out for three minutes",
        "capacity is known at the launch only; allow several types, zones or capacity types",
    ),
)
