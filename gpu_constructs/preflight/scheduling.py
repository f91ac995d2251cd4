"""Would a pod run on a fresh node of a pool, and would the pool's autoscaler make one?

Follows kube-scheduler 1.36 (NodeAffinity, TaintToleration, NodeResourcesFit, NodePorts), cluster autoscaler 1.36 and
Karpenter 1.14; see docs/preflight.md for the code paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.label_values import Labels
from gpu_constructs.preflight.model import EFA, GPU, Cluster, Pool, Taint, Workload
from gpu_constructs.preflight.node_selection import Selection, selection
from gpu_constructs.preflight.nodes import NodeToBe, nodes_to_be
from gpu_constructs.preflight.pod_size import has_unknown_requests, host_ports, pod_requests, ports_clash
from gpu_constructs.preflight.quantity import Resources, show
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.unknown import dig, items, known_text, mappings

_DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a pool does not take a pod, or why it is not known.

    Attributes:
        answer: No or unknown.
        kind: What it is about: ``taint``, ``label``, ``resource``, ``port``, ``autoscaler``, ``limit``, ``claim``,
            ``scheduler``, ``gate``, ``topology``, ``volume``.
        text: What is wrong and what to do, in one line.
        weight: How far it is from being mended; a renamed resource is nearer than one that does not exist.
    """

    answer: Answer
    kind: str
    text: str
    weight: int = 2


@dataclass(frozen=True)
class Demand:
    """What a pod asks for, read once.

    Attributes:
        workload: The pods.
        requests: What one pod asks for.
        selection: What it asks of labels.
        ports: Its host ports.
    """

    workload: Workload
    requests: Resources
    selection: Selection
    ports: frozenset[tuple[str, str, int]]

    @cached_property
    def gpus(self) -> int:
        """GPUs, shares or slices that one pod asks for."""
        return sum(amount for name, amount in self.requests.items() if name.startswith("nvidia.com/"))

    @cached_property
    def uncertain(self) -> bool:
        """Whether a request is known at deployment only."""
        return has_unknown_requests(self.workload.pod)


def demand(workload: Workload) -> Demand:
    """Return what the pods of a workload ask for."""
    pod = workload.pod
    return Demand(workload, pod_requests(pod), selection(pod), host_ports(pod))


@dataclass(frozen=True, slots=True)
class Fit:
    """How a pod and a fresh node of one instance type go together.

    Attributes:
        node: The node.
        reasons: What keeps the pod off it.
    """

    node: NodeToBe
    reasons: tuple[Reason, ...]

    @property
    def answer(self) -> Answer:
        """No as soon as a reason says no."""
        return worst(self.reasons)


def worst(reasons: Iterable[Reason]) -> Answer:
    """Return yes without reasons, no as soon as one says no."""
    answers = {each.answer for each in reasons}
    return Answer.NO if Answer.NO in answers else Answer.UNKNOWN if answers else Answer.YES


def fits(wanted: Demand, node: NodeToBe) -> Fit:
    """Say whether the scheduler would put a pod on a fresh node."""
    reasons = [
        *_taints(wanted, node.taints),
        *_labels(wanted, node.labels),
        *_resources(wanted, node),
        *_ports(wanted, node),
    ]
    return Fit(node, tuple(reasons))


def _taints(wanted: Demand, taints: tuple[Taint, ...]) -> list[Reason]:
    return [
        Reason(answer, "taint", f"does not tolerate taint {taint}; add the toleration", 1)
        for taint, answer in untolerated(wanted.workload.pod, taints)
    ]


def _labels(wanted: Demand, labels: Labels) -> list[Reason]:
    chosen = wanted.selection
    if chosen.takes(labels) is Answer.YES:
        return []
    return [
        Reason(answer, "label", _label_text(str(each), labels.get(each.key), answer))
        for each, answer in chosen.unmet(labels)
    ]


def _label_text(wanted: str, have: object, answer: Answer) -> str:
    if answer is Answer.UNKNOWN:
        return f"asks for {wanted}, whose value on the node is known only once it runs"
    got = "has no such label" if have is None else f"has {_values(have)}"
    return f"asks for {wanted}, the node {got}"


def _values(have: object) -> str:
    values = sorted(getattr(have, "values", ()))
    shown = ", ".join(values[:4]) + (", ..." if len(values) > 4 else "")
    return f"any value but {shown}" if getattr(have, "all_but", False) else shown


def _resources(wanted: Demand, node: NodeToBe) -> list[Reason]:
    found = []
    for name, asked in wanted.requests.items():
        if asked == 0 or asked <= node.least.get(name, 0):
            if name in node.alone and asked > 1:
                text = f"asks for {asked} {name}, and the node's plugin turns away more than one; ask for one"
                found.append(Reason(Answer.NO, "resource", text, 1))
        elif name in node.unsaid or asked <= node.most.get(name, 0):
            found.append(Reason(Answer.UNKNOWN, "resource", _uncertain_text(name, asked, node)))
        else:
            found.append(_short(name, asked, node))
    if wanted.uncertain:
        found.append(Reason(Answer.UNKNOWN, "resource", "asks for an amount that is known at deployment only"))
    return found


def _uncertain_text(name: str, asked: int, node: NodeToBe) -> str:
    what = f"asks for {show(name, asked)} {name}"
    if name in node.unsaid:
        if name.startswith("nvidia.com/"):
            return f"{what}, and nothing that is known to run here advertises it"
        return f"{what}, and how much the node has is not known"
    low, high = show(name, node.least.get(name, 0)), show(name, node.most[name])
    return f"{what}, and the node has between {low} and {high}; ask for at most {low}"


def _short(name: str, asked: int, node: NodeToBe) -> Reason:
    have = node.most.get(name, 0)
    if have == 0 and name.startswith("nvidia.com/"):
        return _other_device(name, asked, node)
    kind = node.instance_type or "node"
    if have == 0:
        hint = "; install its device plugin" if name == EFA else ""
        return Reason(Answer.NO, "resource", f"asks for {show(name, asked)} {name}, the node has none{hint}", 3)
    most = show(name, max(have, 0))
    return Reason(Answer.NO, "resource", f"asks for {show(name, asked)} {name}, {kind} has {most} for pods", 2)


def _other_device(name: str, asked: int, node: NodeToBe) -> Reason:
    others = sorted(each for each in node.most if each.startswith("nvidia.com/") and node.most[each] > 0)
    if others:
        offered = ", ".join(others)
        return Reason(Answer.NO, "resource", f"{name} is offered as {offered}; ask for that", 1)
    if node.row is None:
        return Reason(
            Answer.NO, "resource", f"asks for {asked} {name}, {node.instance_type or 'the node'} has no GPU", 5
        )
    return Reason(Answer.NO, "resource", f"nothing advertises {name} on its nodes; install a device plugin", 2)


def _ports(wanted: Demand, node: NodeToBe) -> list[Reason]:
    if not ports_clash(wanted.ports, node.ports):
        return []
    return [Reason(Answer.NO, "port", "asks for a host port that a DaemonSet has on every node")]


def expects(wanted: Demand, node: NodeToBe, pool: Pool) -> tuple[Reason, ...]:
    """Say whether the pool's autoscaler expects that the pod would fit a node it has not made yet."""
    who = {"karpenter": "Karpenter", "auto-mode": "EKS Auto Mode"}.get(pool.autoscaler, "cluster autoscaler")
    reasons = [*_expected_labels(wanted, node, pool, who), *_expected_resources(wanted, node, pool, who)]
    for taint, answer in untolerated(wanted.workload.pod, node.believed_taints):
        if taint not in node.taints:
            reasons.append(
                Reason(answer, "autoscaler", f"{who} expects taint {taint}, which the pod does not tolerate")
            )
    return tuple(reasons)


def _expected_labels(wanted: Demand, node: NodeToBe, pool: Pool, who: str) -> list[Reason]:
    if wanted.selection.takes(node.believed_labels) is Answer.YES:
        return []
    return [
        Reason(
            answer,
            "autoscaler",
            f"{who} does not expect {each} of a node it has not made yet; {_label_fix(pool)}",
            1,
        )
        for each, answer in wanted.selection.unmet(node.believed_labels)
        if each.met_by(node.labels) is not Answer.NO
    ]


def _label_fix(pool: Pool) -> str:
    if pool.kind == "managed":
        return "set it in the node group's labels"
    if pool.kind == "self-managed":
        return "tag the group k8s.io/cluster-autoscaler/node-template/label/..."
    return "set it in the NodePool's template labels"


def _expected_resources(wanted: Demand, node: NodeToBe, pool: Pool, who: str) -> list[Reason]:
    found = []
    for name, asked in wanted.requests.items():
        have = node.believed.get(name)
        if asked == 0 or (have is not None and asked <= have):
            continue
        if asked > node.most.get(name, 0) and name not in node.unsaid:
            continue  # The node itself does not have it, which is said elsewhere.
        if have is None and node.row is None and name in ("cpu", "memory", "pods", "ephemeral-storage"):
            if name == "ephemeral-storage" and pool.is_group:
                found.append(_undeclared(name, asked, 0, pool, who))
            continue
        found.append(_undeclared(name, asked, have or 0, pool, who))
    return found


def _undeclared(name: str, asked: int, have: int, pool: Pool, who: str) -> Reason:
    fix = f"tag the group k8s.io/cluster-autoscaler/node-template/resources/{name}"
    if pool.kind == "karpenter":
        fix = f"add a NodeOverlay with capacity {name}"
    elif pool.kind == "auto-mode":
        fix = "Auto Mode has no such pool"
    text = f"{who} expects {show(name, have)} {name} on a node it has not made yet, the pod asks for "
    return Reason(Answer.NO, "autoscaler", f"{text}{show(name, asked)}; {fix}", 1)


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """Whether a pool gives a workload nodes.

    Attributes:
        pool: The pool.
        answer: Whether a pod of the workload runs there.
        reasons: Every reason against it, and everything that is not known.
        instance_types: The types whose nodes take the pod.
        per_node: Pods that a node takes; of several types, the fewest.
        nodes: Nodes that all replicas need; ``None`` where it is not known.
        binding: The limit that stops first, when it leaves replicas without a node.
    """

    pool: Pool
    answer: Answer
    reasons: tuple[Reason, ...]
    instance_types: tuple[str, ...] = ()
    per_node: int | None = None
    nodes: int | None = None
    binding: str | None = None

    @property
    def distance(self) -> tuple[int, int]:
        """How near the pool comes: what it fails by, weighed."""
        against = [each for each in self.reasons if each.answer is Answer.NO]
        order = {Answer.YES: 0, Answer.UNKNOWN: 1, Answer.NO: 2}[self.answer]
        return order, sum(each.weight for each in against)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the pods of a workload run.

    Attributes:
        workload: The pods.
        answer: Yes when one pool takes them, no when none does.
        pools: Verdict of each pool, the nearest first.
        reasons: What holds of the workload wherever it runs.
    """

    workload: Workload
    answer: Answer
    pools: tuple[PoolVerdict, ...]
    reasons: tuple[Reason, ...] = ()


class Scheduler:
    """Judges workloads against the pools of one cluster; pools and pods that are alike are judged once."""

    def __init__(self, cluster: Cluster) -> None:
        """Make the nodes-to-be of every pool."""
        self.cluster = cluster
        self._nodes = [(pool, nodes_to_be(pool, cluster)) for pool in cluster.pools]
        self._seen: dict[object, tuple[PoolVerdict, ...]] = {}

    def verdict(self, workload: Workload) -> Verdict:
        """Say whether the pods of a workload run, and where."""
        wanted = demand(workload)
        held = general_reasons(wanted, self.cluster)
        key = _shape(wanted)
        if key is None or key not in self._seen:
            judged = [judge(wanted, pool, nodes, self.cluster) for pool, nodes in self._nodes]
            pools = tuple(sorted(judged, key=lambda each: each.distance))
            if key is not None:
                self._seen[key] = pools
        else:
            pools = self._seen[key]
        return Verdict(workload, _overall(pools, held, self.cluster), pools, held)


def _shape(wanted: Demand) -> object | None:
    """Return what makes pods alike, ``None`` where it cannot be told cheaply."""
    pod = wanted.workload.pod
    return repr(
        (
            sorted(wanted.requests.items()),
            wanted.uncertain,
            wanted.workload.replicas,
            wanted.workload.together,
            wanted.ports,
            pod.get("nodeSelector"),
            pod.get("affinity"),
            pod.get("tolerations"),
            pod.get("resourceClaims"),
            pod.get("topologySpreadConstraints"),
            wanted.workload.labels if pod.get("affinity") or pod.get("topologySpreadConstraints") else None,
            wanted.workload.namespace if pod.get("resourceClaims") else None,
        )
    )


def _overall(pools: Sequence[PoolVerdict], held: Sequence[Reason], cluster: Cluster) -> Answer:
    best = pools[0].answer if pools else Answer.NO
    if best is Answer.NO and not (cluster.whole or pools):
        best = Answer.UNKNOWN
    return (
        Answer.NO
        if Answer.NO in (best, worst(held))
        else Answer.YES
        if (best, worst(held))
        == (
            Answer.YES,
            Answer.YES,
        )
        else Answer.UNKNOWN
    )


def general_reasons(wanted: Demand, cluster: Cluster) -> tuple[Reason, ...]:
    """Return what holds a pod back wherever it would run."""
    pod, found = wanted.workload.pod, []
    if gates := mappings(pod.get("schedulingGates")):
        names = ", ".join(str(each.get("name")) for each in gates)
        found.append(Reason(Answer.UNKNOWN, "gate", f"waits until scheduling gate {names} is removed"))
    scheduler = known_text(pod.get("schedulerName")) or _DEFAULT_SCHEDULER
    if scheduler != _DEFAULT_SCHEDULER and not _runs(scheduler, cluster):
        answer = Answer.NO if cluster.whole and not cluster.opaque else Answer.UNKNOWN
        found.append(Reason(answer, "scheduler", f"waits for scheduler {scheduler}, which nothing here installs"))
    return tuple(found)


def _runs(scheduler: str, cluster: Cluster) -> bool:
    return any(scheduler in (each.name, each.origin.path.rpartition("/")[2]) for each in cluster.charts) or any(
        each.name == scheduler and each.kind == "Deployment" for each in cluster.objects
    )


def judge(wanted: Demand, pool: Pool, nodes: tuple[NodeToBe, ...], cluster: Cluster) -> PoolVerdict:
    """Say whether a pool gives a pod a node, and how many nodes all its replicas need."""
    judged = [(fits(wanted, node), expects(wanted, node, pool)) for node in nodes]
    pool_reasons = [*_autoscaled(wanted, pool, cluster), *_claims(wanted, pool, cluster)]
    judged.sort(key=lambda each: _badness((*each[0].reasons, *each[1])))
    chosen = judged if pool.is_group else judged[:1]
    running = bool(pool.min_nodes)
    reasons = _merged(chosen, pool, running)
    taking = [(fit.node, expected) for fit, expected in judged if fit.answer is Answer.YES]
    if pool.is_group and len(taking) not in (0, len(judged)):
        reasons = _some_types(judged, reasons)
    reasons = [*reasons, *([] if running else pool_reasons)]
    answer = worst(reasons)
    if answer is Answer.NO:
        return PoolVerdict(pool, answer, tuple(reasons))
    return _counted(wanted, pool, [node for node, _ in taking] or [nodes[0]], reasons)


def _badness(reasons: Iterable[Reason]) -> tuple[int, int, int]:
    listed = list(reasons)
    against = [each for each in listed if each.answer is Answer.NO]
    return bool(against), sum(each.weight for each in against), len(listed)


def _merged(judged: list[tuple[Fit, tuple[Reason, ...]]], pool: Pool, running: bool) -> list[Reason]:
    """Return the reasons of the chosen types; what an autoscaler expects does not matter where nodes run already."""
    found: dict[Reason, None] = {}
    for fit, expected in judged:
        for each in (*fit.reasons, *(() if running else expected)):
            found[each] = None
    return list(found)


def _some_types(judged: list[tuple[Fit, tuple[Reason, ...]]], reasons: list[Reason]) -> list[Reason]:
    taking = ", ".join(str(fit.node.instance_type) for fit, _ in judged if fit.answer is Answer.YES)
    text = f"fits {taking}, but not every instance type that the group may launch; make the types alike"
    general = [each for each in reasons if all(each in (*fit.reasons, *expected) for fit, expected in judged)]
    return [*general, Reason(Answer.UNKNOWN, "resource", text)]


def _autoscaled(wanted: Demand, pool: Pool, cluster: Cluster) -> list[Reason]:
    if pool.max_nodes == 0:
        return [Reason(Answer.NO, "limit", "the pool may have no node; raise its maximum", 2)]
    if cluster.autoscaler(pool.autoscaler) is None:
        who = {"karpenter": "Karpenter", "auto-mode": "EKS Auto Mode"}.get(pool.autoscaler, "cluster autoscaler")
        if cluster.whole and not cluster.opaque:
            return [Reason(Answer.NO, "autoscaler", f"{who} does not run in the cluster; install it", 2)]
        return [Reason(Answer.UNKNOWN, "autoscaler", f"whether {who} runs in the cluster is not known")]
    return []


def _claims(wanted: Demand, pool: Pool, cluster: Cluster) -> list[Reason]:
    if not items(wanted.workload.pod.get("resourceClaims")):
        return []
    if pool.kind in ("karpenter", "auto-mode"):
        who = "Karpenter 1.14" if pool.kind == "karpenter" else "EKS Auto Mode"
        return [Reason(Answer.NO, "claim", f"{who} makes no nodes for claimed devices; use a managed node group", 4)]
    if not pool.min_nodes:
        text = "cluster autoscaler makes no first node for claimed devices; keep min_nodes at 1"
        return [Reason(Answer.NO, "claim", text, 2)]
    return []


def _counted(wanted: Demand, pool: Pool, taking: list[NodeToBe], reasons: list[Reason]) -> PoolVerdict:
    per_node = min(pods_per_node(wanted, node) for node in taking)
    replicas = wanted.workload.replicas
    nodes = None if replicas is None or per_node == 0 else -(-replicas // per_node)
    binding = _binding(pool, taking, nodes, wanted) if nodes else None
    types = tuple(node.instance_type for node in taking if node.instance_type)
    if binding and (wanted.workload.together or binding.startswith("no node")):
        reasons = [*reasons, Reason(Answer.NO, "limit", f"{binding}; raise it")]
    elif binding:
        reasons = [*reasons, Reason(Answer.NO, "limit", f"{binding}, so some replicas stay Pending; raise it")]
    return PoolVerdict(pool, worst(reasons), tuple(reasons), types, per_node or None, nodes, binding)


def pods_per_node(wanted: Demand, node: NodeToBe) -> int:
    """Return how many such pods a fresh node takes."""
    if wanted.ports or _spreads_by_host(wanted):
        return 1
    counts = [
        node.most.get(name, 0) // asked
        for name, asked in wanted.requests.items()
        if asked > 0 and name not in node.unsaid and name in node.most
    ]
    return max(min(counts, default=1), 1)


def _spreads_by_host(wanted: Demand) -> bool:
    """Whether the pods keep off each other's nodes."""
    terms = mappings(
        dig(dict(wanted.workload.pod), "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    )
    return any(
        each.get("topologyKey") == "kubernetes.io/hostname" and _selects(each.get("labelSelector"), wanted.workload)
        for each in terms
    )


def _selects(selector: object, workload: Workload) -> bool:
    labels = dig(selector, "matchLabels")
    return isinstance(labels, dict) and all(workload.labels.get(key) == value for key, value in labels.items())


def _binding(pool: Pool, taking: list[NodeToBe], nodes: int, wanted: Demand) -> str | None:
    """Return the limit of the pool that leaves replicas without a node, the tightest first."""
    bounds: list[tuple[int, str]] = []
    if pool.max_nodes is not None:
        bounds.append((pool.max_nodes, f"the pool has at most {pool.max_nodes} nodes, {nodes} are needed"))
    for name, limit in pool.limits.items():
        smallest = min((_capacity(name, node) for node in taking), default=0)
        if smallest > 0:
            most = limit // smallest
            shown = f"limit {show(name, limit)} {name} of the NodePool allows {most} nodes, {nodes} are needed"
            bounds.append((most, shown if most else f"no node fits limit {show(name, limit)} {name} of the NodePool"))
    tightest = min(bounds, default=None)
    return tightest[1] if tightest is not None and tightest[0] < nodes else None


def _capacity(name: str, node: NodeToBe) -> int:
    """Return what one node counts against a limit of its NodePool."""
    row = node.row
    if row is None:
        return 0
    figures: Mapping[str, int | None] = {
        GPU: row.ec2_gpus,
        "cpu": row.vcpus * 1000 if row.vcpus is not None else None,
        "memory": row.memory_mib * 1024**2 if row.memory_mib is not None else None,
    }
    return figures.get(name) or 0
