"""Would a pod run on a fresh node of a pool, and would the pool's autoscaler make one?

Follows kube-scheduler 1.36 (NodeAffinity, TaintToleration, NodeResourcesFit, NodePorts), cluster autoscaler 1.36 and
Karpenter 1.14; see docs/preflight.md for the code paths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.label_values import Labels
from gpu_constructs.preflight.model import EFA, GPU, Cluster, Pool, Taint, Workload
from gpu_constructs.preflight.node_selection import Selection, selection
from gpu_constructs.preflight.nodes import NodeToBe, nodes_to_be
from gpu_constructs.preflight.pod_size import has_unknown_requests, host_ports, pod_requests, ports_clash
from gpu_constructs.preflight.quantity import Resources, show
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.topology import Topology, topology
from gpu_constructs.preflight.unknown import items, known_text, mappings

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
        topology: What it asks of where it runs.
    """

    workload: Workload
    requests: Resources
    selection: Selection
    ports: frozenset[tuple[str, str, int]]
    topology: Topology = field(default_factory=Topology)

    @cached_property
    def gpus(self) -> int:
        """GPUs, shares or slices that one pod asks for."""
        return sum(amount for name, amount in self.requests.items() if name.startswith("nvidia.com/"))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The labels that matter to it."""
        terms = [each for term in self.selection.terms or () for each in term.labels]
        return tuple(dict.fromkeys(each.key for each in (*self.selection.selector, *terms)))

    @cached_property
    def selection_key(self) -> str:
        """What tells its demands on labels from others."""
        return repr(self.selection)

    @cached_property
    def tolerations_key(self) -> str:
        """What tells its tolerations from others."""
        return repr(self.workload.pod.get("tolerations"))

    @cached_property
    def requests_key(self) -> tuple[object, ...]:
        """What tells its requests from others."""
        return (*self.requests.items(), self.uncertain)

    @cached_property
    def uncertain(self) -> bool:
        """Whether a request is known at deployment only."""
        return has_unknown_requests(self.workload.pod)


def demand(workload: Workload, cluster: Cluster) -> Demand:
    """Return what the pods of a workload ask for."""
    pod = workload.pod
    return Demand(workload, pod_requests(pod), selection(pod), host_ports(pod), topology(workload, cluster))


@dataclass(frozen=True, slots=True)
class Fit:
    """How a pod and a fresh node of one instance type go together.

    Attributes:
        node: The node.
        reasons: What keeps the pod off it.
        unexpected: Why the autoscaler does not expect that it would fit.
    """

    node: NodeToBe
    reasons: tuple[Reason, ...]
    unexpected: tuple[Reason, ...] = ()

    @property
    def answer(self) -> Answer:
        """No as soon as a reason says no."""
        return worst(self.reasons)


def worst(reasons: Iterable[Reason]) -> Answer:
    """Return yes without reasons, no as soon as one says no."""
    answer = Answer.YES
    for each in reasons:
        if each.answer is Answer.NO:
            return Answer.NO
        answer = Answer.UNKNOWN
    return answer


def fits(wanted: Demand, node: NodeToBe, pool: Pool) -> Fit:
    """Say whether the scheduler would put a pod on a fresh node, and whether the pool's autoscaler expects so."""
    parts = [part(wanted, node, pool) for part in _PARTS]
    return Fit(node, _joined(part[0] for part in parts), _joined(part[1] for part in parts))


def _joined(parts: Iterable[tuple[Reason, ...]]) -> tuple[Reason, ...]:
    return tuple(reason for part in parts for reason in part)


# What keeps a pod off a node, and why the autoscaler does not expect it there.
Part = tuple[tuple[Reason, ...], tuple[Reason, ...]]


def _by_taints(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    expected = [
        Reason(answer, "autoscaler", f"{_who(pool)} expects taint {taint}, which the pod does not tolerate")
        for taint, answer in untolerated(wanted.workload.pod, node.believed_taints)
        if taint not in node.taints
    ]
    return tuple(_taints(wanted, node.taints)), tuple(expected)


def _by_labels(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    return tuple(_labels(wanted, node.labels)), tuple(_expected_labels(wanted, node, pool, _who(pool)))


def _by_resources(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    return tuple(_resources(wanted, node)), tuple(_expected_resources(wanted, node, pool, _who(pool)))


def _by_ports(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    return tuple(_ports(wanted, node)), ()


def _by_topology(wanted: Demand, node: NodeToBe, pool: Pool) -> Part:
    problems = wanted.topology.problems(node.labels, wanted.workload.replicas)
    return tuple(Reason(answer, "topology", text) for answer, text in problems), ()


_ANYWHERE = Topology()
_PARTS = (_by_taints, _by_labels, _by_resources, _by_ports, _by_topology)


def _who(pool: Pool) -> str:
    names = {"karpenter": "Karpenter", "auto-mode": "EKS Auto Mode"}
    return names.get(pool.autoscaler, "cluster autoscaler")


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
        nodes_taking: A fresh node of each of those types.
    """

    pool: Pool
    answer: Answer
    reasons: tuple[Reason, ...]
    instance_types: tuple[str, ...] = ()
    per_node: int | None = None
    nodes: int | None = None
    binding: str | None = None
    nodes_taking: tuple[NodeToBe, ...] = ()

    @property
    def distance(self) -> tuple[int, int]:
        """How near the pool comes: what it fails by, weighed."""
        if self.answer is not Answer.NO:
            return int(self.answer is Answer.UNKNOWN), 0
        return 2, sum([each.weight for each in self.reasons if each.answer is Answer.NO])


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the pods of a workload run.

    Attributes:
        workload: The pods.
        answer: Yes when one pool takes them, no when none does.
        pools: Verdict of each pool, the nearest first.
        reasons: What holds of the workload wherever it runs.
        demand: What one of its pods, or of pods like them, asks for.
    """

    workload: Workload
    answer: Answer
    pools: tuple[PoolVerdict, ...]
    reasons: tuple[Reason, ...]
    demand: Demand


class _Memory:
    """Remembers how parts of a pod and parts of a node go together, because most pods and most pools are alike."""

    def __init__(self) -> None:
        self._ids: dict[object, int] = {}
        self._profiles: dict[int, tuple[int, int, dict[str, int]]] = {}
        self._parts: dict[object, dict[object, Part]] = {}

    def _id(self, value: object) -> int:
        return self._ids.setdefault(value, len(self._ids))

    def fit(self, wanted: Demand, node: NodeToBe, pool: Pool) -> Fit:
        """Say what `fits` says."""
        taints, resources, labels = self._profile(node, pool)
        chosen = (wanted.selection_key, pool.kind, *[labels.get(key) for key in wanted.keys])
        by_taints = self._part(_by_taints, (wanted.tolerations_key, taints), wanted, node, pool)
        by_labels = self._part(_by_labels, chosen, wanted, node, pool)
        by_resources = self._part(_by_resources, (wanted.requests_key, resources), wanted, node, pool)
        ports = tuple(_ports(wanted, node)) if wanted.ports else ()
        reasons = by_taints[0] + by_labels[0] + by_resources[0] + ports
        if wanted.topology != _ANYWHERE:
            reasons += _by_topology(wanted, node, pool)[0]
        return Fit(node, reasons, by_taints[1] + by_labels[1] + by_resources[1])

    def _part(
        self, part: Callable[[Demand, NodeToBe, Pool], Part], key: object, wanted: Demand, node: NodeToBe, pool: Pool
    ) -> Part:
        known = self._parts.setdefault(part, {})
        found = known.get(key)
        if found is None:
            found = known[key] = part(wanted, node, pool)
        return found

    def _profile(self, node: NodeToBe, pool: Pool) -> tuple[int, int, dict[str, int]]:
        found = self._profiles.get(id(node))
        if found is None:
            taints = self._id(("taints", node.taints, node.believed_taints, pool.kind))
            sizes = (node.least, node.most, node.believed)
            resources = self._id(
                (
                    "resources",
                    *(frozenset(each.items()) for each in sizes),
                    node.unsaid,
                    node.alone,
                    node.instance_type,
                    pool.kind,
                )
            )
            keys = {**node.labels, **node.believed_labels}
            labels = {key: self._id((node.labels.get(key), node.believed_labels.get(key))) for key in keys}
            found = self._profiles[id(node)] = (taints, resources, labels)
        return found


class Scheduler:
    """Judges workloads against the pools of one cluster; pools and pods that are alike are judged once."""

    def __init__(self, cluster: Cluster) -> None:
        """Make the nodes-to-be of every pool."""
        self.cluster = cluster
        self._nodes = [(pool, nodes_to_be(pool, cluster), _autoscaled(pool, cluster)) for pool in cluster.pools]
        self._memory = _Memory()
        self._seen: dict[str, tuple[Demand, tuple[PoolVerdict, ...]]] = {}

    def verdict(self, workload: Workload) -> Verdict:
        """Say whether the pods of a workload run, and where."""
        key = _shape(workload)
        if key not in self._seen:
            wanted = demand(workload, self.cluster)
            judged = [_judge(wanted, *each, self._memory) for each in self._nodes]
            self._seen[key] = wanted, tuple(sorted(judged, key=lambda each: each.distance))
        wanted, pools = self._seen[key]
        held = general_reasons(workload.pod, self.cluster)
        return Verdict(workload, _overall(pools, held, self.cluster), pools, held, wanted)


def _shape(workload: Workload) -> str:
    """Return what makes pods alike."""
    pod = workload.pod
    containers = [(each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in workload.containers]
    claimed = [each for each in mappings(pod.get("volumes")) if "persistentVolumeClaim" in each or "ephemeral" in each]
    claimed += mappings(workload.owner.spec.get("volumeClaimTemplates"))
    by_labels = pod.get("affinity") or pod.get("topologySpreadConstraints")
    return repr(
        (
            len(mappings(pod.get("initContainers"))),
            containers,
            workload.replicas,
            workload.together,
            *(pod.get(key) for key in _SHAPING),
            workload.labels if by_labels else None,
            workload.namespace if pod.get("resourceClaims") or claimed else None,
            claimed,
        )
    )


_SHAPING = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "resources",
    "overhead",
    "resourceClaims",
    "topologySpreadConstraints",
    "hostNetwork",
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


def general_reasons(pod: Mapping[str, Any], cluster: Cluster) -> tuple[Reason, ...]:
    """Return what holds a pod back wherever it would run."""
    found = []
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


def _judge(
    wanted: Demand, pool: Pool, nodes: tuple[NodeToBe, ...], autoscaled: Sequence[Reason], memory: _Memory
) -> PoolVerdict:
    """Say whether a pool gives a pod a node, and how many nodes all its replicas need."""
    fit = memory.fit
    judged = sorted([fit(wanted, node, pool) for node in nodes], key=_badness)
    running = bool(pool.min_nodes)
    reasons = _merged(judged if pool.is_group else judged[:1], running)
    taking = [each.node for each in judged if each.answer is Answer.YES]
    if pool.is_group and len(taking) not in (0, len(judged)):
        reasons = _some_types(judged, reasons)
    if not running:
        reasons += [*autoscaled, *_claims(wanted, pool)]
    answer = worst(reasons)
    if answer is Answer.NO:
        return PoolVerdict(pool, answer, tuple(reasons))
    return _counted(wanted, pool, taking or [nodes[0]], reasons)


def _badness(fit: Fit) -> tuple[int, int]:
    every = fit.reasons + fit.unexpected
    return sum([each.weight for each in every if each.answer is Answer.NO]), len(every)


def _merged(judged: list[Fit], running: bool) -> list[Reason]:
    """Return the reasons of the chosen types; what an autoscaler expects does not matter where nodes run already."""
    if len(judged) == 1:
        return [*judged[0].reasons, *(() if running else judged[0].unexpected)]
    return list(dict.fromkeys(each for fit in judged for each in (*fit.reasons, *(() if running else fit.unexpected))))


def _some_types(judged: list[Fit], reasons: list[Reason]) -> list[Reason]:
    taking = ", ".join(str(fit.node.instance_type) for fit in judged if fit.answer is Answer.YES)
    text = f"fits {taking}, but not every instance type that the group may launch; make the types alike"
    general = [each for each in reasons if all(each in (*fit.reasons, *fit.unexpected) for fit in judged)]
    return [*general, Reason(Answer.UNKNOWN, "resource", text)]


def _autoscaled(pool: Pool, cluster: Cluster) -> list[Reason]:
    if pool.max_nodes == 0:
        return [Reason(Answer.NO, "limit", "the pool may have no node; raise its maximum", 2)]
    if cluster.autoscaler(pool.autoscaler) is None:
        who = _who(pool)
        if cluster.whole and not cluster.opaque:
            return [Reason(Answer.NO, "autoscaler", f"{who} does not run in the cluster; install it", 2)]
        return [Reason(Answer.UNKNOWN, "autoscaler", f"whether {who} runs in the cluster is not known")]
    return []


def _claims(wanted: Demand, pool: Pool) -> list[Reason]:
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
    return PoolVerdict(pool, worst(reasons), tuple(reasons), types, per_node or None, nodes, binding, tuple(taking))


def pods_per_node(wanted: Demand, node: NodeToBe) -> int:
    """Return how many such pods a fresh node takes."""
    if wanted.ports or wanted.topology.one_per_node:
        return 1
    counts = [
        node.most.get(name, 0) // asked
        for name, asked in wanted.requests.items()
        if asked > 0 and name not in node.unsaid and name in node.most
    ]
    return max(min(counts, default=1), 1)


def node_limit(pool: Pool, node: NodeToBe) -> int | None:
    """Return how many nodes of a kind a pool may have, ``None`` without a bound."""
    bounds = [] if pool.max_nodes is None else [pool.max_nodes]
    bounds += [limit // size for name, limit in pool.limits.items() if (size := _capacity(name, node))]
    return min(bounds, default=None)


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
