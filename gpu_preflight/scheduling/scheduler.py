"""Whether a pod runs on a new node of a pool, and whether the autoscaler creates that node.

Follows kube-scheduler 1.36, cluster autoscaler 1.36 and Karpenter 1.14; `fitting` and `nodes` name the code paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import show
from gpu_facts.resources import GPU
from gpu_preflight.admission.controllers import Admission
from gpu_preflight.admission.unevaluated import unevaluated
from gpu_preflight.cluster.iam import has_credentials
from gpu_preflight.cluster.kueue import is_queued
from gpu_preflight.cluster.operators import scheduler_runs
from gpu_preflight.cluster.pools import desired_nodes, desired_size, usable_capacity_types
from gpu_preflight.cluster.software import unremoved_taints
from gpu_preflight.model.answer import Answer, Reason, all_yes, worst
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.taints import Taint, untolerated
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.unknown import Unknown, known_number, known_text
from gpu_preflight.scheduling.demand import (
    Demand,
    claim_scale_up_blockers,
    demand,
    requested_gpus,
    smallest_type,
    unclear_claims,
    without_devices,
)
from gpu_preflight.scheduling.fitting import Fit, Memory, Profile, autoscaler_name, fits
from gpu_preflight.scheduling.pool_limits import (
    GROWS,
    Growth,
    binding_limit,
    least_values,
    nodes_needed,
    pods_per_node,
    room,
    too_few_values,
)
from gpu_preflight.scheduling.replica_capacity import shortage
from gpu_preflight.scheduling.unclear import Openings, check_daemon_set, left_open, openings
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict

# Pods with a lower priority start no node.
# Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 main.go, flag expendable-pods-priority-cutoff
_EXPENDABLE_BELOW = -10
_DEFAULT_SCHEDULER = "default-scheduler"
# Source: https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html (2026-11)
_BUILT_IN = (
    "the built-in pools of EKS Auto Mode launch nodes of the categories c, m and r only; add a NodePool that requires "
    "GPUs, e.g. eks.amazonaws.com/instance-family In (g6)"
)
# Labels that follow from the instance type and the region.
_OF_TYPES = ("node.kubernetes.io/", "kubernetes.io/", "beta.kubernetes.io/", "topology.kubernetes.io/")
# Source: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks.html (2026-11)
_HYPERPOD = regex(r"\bml\.[a-z0-9-]+\.[a-z0-9-]+")
_NOTHING_RESERVED = "uses reserved capacity only, and its class selects none by capacityReservationSelectorTerms"


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pool, its future nodes, the number that always run, its unknown values, and why it doesn't grow for any pod.

    Attributes:
        unremoved: Startup taints that nothing in the input is known to remove.
    """

    pool: Pool
    nodes: tuple[NodeToBe, ...]
    running: int
    openings: Openings
    autoscaled: list[Reason]
    unremoved: tuple[Taint, ...]


def _candidate(pool: Pool, nodes: tuple[NodeToBe, ...], cluster: Cluster) -> _Candidate:
    return _Candidate(
        pool,
        nodes,
        _running(pool, cluster),
        openings(pool),
        _autoscaled(pool, cluster),
        unremoved_taints(pool, cluster),
    )


def _running(pool: Pool, cluster: Cluster) -> int:
    """Return how many nodes a pool always has. Nodes that it starts with stay, unless something removes them."""
    if pool.resized:
        return 0
    kept = desired_nodes(pool) if cluster.autoscaler(pool.autoscaler) is None else None
    return max(pool.min_nodes or 0, kept or 0)


class Scheduler:
    """Checks workloads against the pools of one cluster. Pools and pods that are alike are checked once."""

    def __init__(self, cluster: Cluster, nodes: Iterable[tuple[NodeToBe, ...]], admission: Admission) -> None:
        """Store the cluster, the future nodes of each of its pools, and the admission controllers."""
        self.cluster, self._admission = cluster, admission
        self._pools = [_candidate(pool, made, cluster) for pool, made in zip(cluster.every_pool, nodes, strict=True)]
        self._memory = Memory()
        self._signatures = [self._signature(each) for each in self._pools]
        self._seen: dict[tuple[object, ...], tuple[Demand, tuple[PoolVerdict, ...]]] = {}
        self._of_twins: dict[tuple[object, ...], Verdict] = {}
        # Each entry holds its pod, so that no other pod gets the same id.
        self._constraints: dict[int, tuple[Pod, tuple[Reason, ...]]] = {}
        self._schedulers = {_DEFAULT_SCHEDULER: Answer.YES}
        self._short: dict[tuple[int, int], tuple[Demand, tuple[PoolVerdict, ...], tuple[Reason, ...]]] = {}

    def verdict(self, workload: Workload) -> Verdict:
        """Return whether the pods of a workload run, and where."""
        if workload.is_placed:
            return Verdict(workload, Answer.YES, (), (), Demand(workload))
        if workload.placed and workload.replicas is not None:
            workload = replace(workload, replicas=max(workload.replicas - workload.placed, 0))
        key = self._twins(workload)
        if key is None:
            return self._verdict(workload)
        if key not in self._of_twins:
            self._of_twins[key] = self._verdict(workload)
        like = self._of_twins[key]
        return Verdict(workload, like.answer, like.pools, like.reasons, like.demand, like.rests_on)

    def _twins(self, workload: Workload) -> tuple[object, ...] | None:
        """Return a key that is equal for single pods with the same result; ``None`` if a pod's result is individual.

        A quota counts the pods that are admitted before a pod, and other owners are checked too.
        """
        alone = workload.owner.kind == "Pod" and not workload.claim_templates and workload.exclusive is None
        if not alone or self._admission.has_quotas(workload.namespace):
            return None
        return (
            # The first result holds the pod, so that no other pod gets its id.
            id(workload.pod),
            workload.namespace,
            repr(workload.labels),
            repr(workload.annotations),
            workload.replicas,
            workload.together,
            workload.suspended,
            workload.priority,
            workload.preempts,
        )

    def _verdict(self, workload: Workload) -> Verdict:
        let_in = self._admission.admit(workload)
        pods = let_in.workload
        key = _shape(pods)
        if key not in self._seen:
            wanted = demand(workload if workload.is_daemon_set else pods, self.cluster)
            judged = self._judged(wanted)
            self._seen[key] = wanted, tuple(sorted(judged, key=lambda each: each.distance))
        wanted, pools = self._seen[key]
        held = (
            *let_in.refusals,
            *wanted.refusals,
            *_held(workload.pod, wanted, self.cluster),
            *self._unevaluated(workload),
            *self._unscheduled(workload.pod),
            *_suspended(workload),
        )
        return self.combine_pool_results(workload, wanted, pools, held)

    def _unevaluated(self, workload: Workload) -> tuple[Reason, ...]:
        """Return the constraints that aren't evaluated. For single pods with the same spec, they are computed once."""
        if workload.owner.kind != "Pod" or is_queued(workload):
            return tuple(unevaluated(workload, self.cluster))
        key = id(workload.pod)
        if key not in self._constraints:
            self._constraints[key] = workload.pod, tuple(unevaluated(workload, self.cluster))
        return self._constraints[key][1]

    def _unscheduled(self, pod: Pod) -> Iterator[Reason]:
        """Yield a reason if the scheduler that a pod names doesn't run, or may not run."""
        name = known_text(pod.scheduler) or _DEFAULT_SCHEDULER
        if name not in self._schedulers:
            self._schedulers[name] = scheduler_runs(name, self.cluster)
        if (runs := self._schedulers[name]) is not Answer.YES:
            text = f"waits for scheduler {name}, which nothing in the input installs"
            yield Reason(runs, "scheduler", text, rule="GPU128")

    def combine_pool_results(
        self, workload: Workload, wanted: Demand, pools: tuple[PoolVerdict, ...], held: tuple[Reason, ...]
    ) -> Verdict:
        """Return the result for a workload from the results for pools.

        Args:
            workload: The workload.
            wanted: The requests of one of its pods, or of one pod with the same shape.
            pools: The result for each pool, the nearest first.
            held: Reasons that prevent the workload from running in every pool.
        """
        key = id(wanted), id(pools)
        if key not in self._short:
            # The cache holds these objects, so that no other objects get the same ids.
            self._short[key] = wanted, pools, tuple(shortage(wanted, pools))
        reasons = (*held, *self._short[key][2], *_hidden_pool_reasons(pools, self.cluster))
        answer = _overall(pools, reasons, self.cluster)
        rests_on = () if self.cluster.is_eks else _toleration_assumptions(workload.pod, pools)
        return Verdict(workload, answer, pools, reasons, wanted, rests_on)

    def _signature(self, candidate: _Candidate) -> tuple[int, list[Profile]]:
        """Return the key of a pool without the labels of its nodes, and the key of each of its nodes."""
        pool, profiles = candidate.pool, [self._memory.profile(node, candidate.pool) for node in candidate.nodes]
        static = (
            *((each.taints, each.resources) for each in profiles),
            (pool.kind, pool.min_nodes, pool.max_nodes, frozenset(pool.limits.items()), tuple(least_values(pool))),
            tuple(sorted(pool.in_use.items())),
            (candidate.running, candidate.openings, tuple(candidate.autoscaled), candidate.unremoved),
        )
        return self._memory.number(static), profiles

    def _judged(self, wanted: Demand) -> list[PoolVerdict]:
        """Check every pool. Check pools once if they differ in nothing that the pod requests."""
        if wanted.workload.is_daemon_set:
            return [check_daemon_set(wanted, each.pool, each.nodes) for each in self._pools]
        if wanted.pod.host_ports or wanted.pod.claims or not wanted.anywhere:
            return [_judge(wanted, each, self.cluster, self._memory) for each in self._pools]
        judged: list[PoolVerdict] = []
        known: dict[tuple[object, ...], PoolVerdict] = {}
        for candidate, (signature, profiles) in zip(self._pools, self._signatures, strict=True):
            key = (signature, *[each.labels.get(name) for each in profiles for name in wanted.keys])
            like = known.get(key)
            if like is None:
                like = known[key] = _judge(wanted, candidate, self.cluster, self._memory)
            judged.append(like if like.pool is candidate.pool else like.with_pool(candidate.pool))
        return judged


def _shape(workload: Workload) -> tuple[object, ...]:
    """Return a key that is equal for pods that are alike: their spec, and the inputs of their topology."""
    pod = workload.pod
    claimed = [*(each for each in pod.volumes if each.is_claimed), *workload.claim_templates]
    return (
        pod.likeness,
        workload.priority,
        workload.is_daemon_set,
        workload.replicas,
        workload.together,
        repr(workload.exclusive),
        repr(workload.labels) if pod.apart or pod.beside or pod.spreads else None,
        workload.namespace if pod.claims or claimed else None,
        repr(claimed) if claimed else None,
    )


def _toleration_assumptions(pod: Pod, pools: Sequence[PoolVerdict]) -> tuple[str, ...]:
    """Return the tolerations that a pod needs but doesn't have, if it isn't known whether EKS adds them."""
    kept_off = [untolerated(pod.tolerations, each.pool.taints) for each in pools if each.answer is not Answer.NO]
    if not kept_off or not all(kept_off):
        return ()
    names = ", ".join(dict.fromkeys(str(taint) for taint, _ in kept_off[0]))
    return (f"has no toleration of {names}, which only EKS adds, and the input doesn't show whether this is EKS",)


def _overall(pools: Sequence[PoolVerdict], held: Sequence[Reason], cluster: Cluster) -> Answer:
    best = pools[0].answer if pools else Answer.NO
    if best is Answer.NO and (cluster.hidden or not (cluster.whole or pools)):
        best = Answer.UNKNOWN
    return all_yes((best, worst(held)))


def _hidden_pool_reasons(pools: Sequence[PoolVerdict], cluster: Cluster) -> tuple[Reason, ...]:
    """Return which unread input may define a pool for a pod that no pool accepts."""
    if not pools or pools[0].answer is not Answer.NO or not cluster.hidden:
        return ()
    return (
        Reason(Answer.UNKNOWN, "pool", f"no pool accepts it, but {cluster.hidden[0]}, which isn't read, may have one"),
    )


def _held(pod: Pod, wanted: Demand, cluster: Cluster) -> tuple[Reason, ...]:
    """Return what prevents a pod from running in every pool."""
    found = []
    found += _without_pools(wanted, cluster) if not cluster.every_pool else []
    for part in pod.open_parts:
        found.append(Reason(Answer.UNKNOWN, "pod", f"its {part} is known only at deployment"))
    if (name := pod.written.get("nodeName")) is not None:
        where = f"spec.nodeName is {name}, a node that isn't in the input"
        text = f"{where}. Such a pod bypasses the scheduler and the autoscaler"
        found.append(Reason(Answer.UNKNOWN, "pod", text, condition=f"node {name} exists and has room for the pod"))
    if pod.gates:
        text = f"nothing in the input removes scheduling gate {', '.join(pod.gates)}"
        found.append(Reason(Answer.UNKNOWN, "gate", text))
    return tuple(found)


def _suspended(workload: Workload) -> Iterator[Reason]:
    """Yield a reason that a suspended job has no pods until a user resumes it, unless a queue resumes it."""
    if workload.suspended and not is_queued(workload):
        yield Reason(Answer.UNKNOWN, "suspended", "is suspended, and creates no pod until you resume it")


def _without_pools(wanted: Demand, cluster: Cluster) -> list[Reason]:
    """Return why a cluster without a pool in the input has no node for a pod."""
    pod = wanted.pod
    if not cluster.whole:
        return [_without_any_pool(wanted, cluster)]
    if cluster.hidden:
        return [
            Reason(
                Answer.UNKNOWN,
                "pool",
                f"the input has no pool, but {cluster.hidden[0]}, which isn't read, may have one",
            )
        ]
    if cluster.auto_mode:
        return [Reason(Answer.NO, "pool", _BUILT_IN)] if pod.asks_for_gpu else []
    return [Reason(Answer.NO, "pool", "the cluster has no pool in the input")]


def _without_any_pool(wanted: Demand, cluster: Cluster) -> Reason:
    """Return the pool that the result depends on if the input has none: a pool of the smallest type that fits."""
    text = "no pool is in the input; name the assembly, the template or the NodePools too"
    if cluster.hidden or requested_gpus(wanted) is None:
        return Reason(Answer.UNKNOWN, "pool", text)
    if found := _HYPERPOD.search(str([wanted.pod.written.get(each) for each in ("nodeSelector", "affinity")])):
        named = f"no pool is in the input, and the data lacks the types of SageMaker HyperPod ({found.group()})"
        return Reason(Answer.UNKNOWN, "pool", named, condition=f"the cluster has nodes of type {found.group()}")
    row = smallest_type(wanted, None, any_disk=True)
    if row is None and smallest_type(wanted, None, any_disk=True, at_most=True) is not None:
        return Reason(Answer.UNKNOWN, "pool", text)
    if row is None:
        asked = ", ".join(f"{show(name, amount)} {name}" for name, amount in wanted.requests.items() if name != "pods")
        named = ", ".join(map(str, wanted.pod.selection.selector)) or ", ".join(wanted.keys)
        selected = f" and the labels that it selects ({named})" if named else ""
        none = f"no instance type with NVIDIA GPUs has {asked}{selected}; request less, or spread it over several pods"
        return Reason(Answer.NO, "pool", none)
    condition = f"the cluster has a pool with nodes such as {row.name}{_demands_on_pool(wanted)}"
    if not cluster.sees_device_plugins(GPU) and not any(GPU in each.advertises for each in cluster.daemon_sets):
        condition += f", and a device plugin advertises {GPU} there"
    return Reason(Answer.UNKNOWN, "pool", f"{text}; the smallest type that fits is {row.name}", condition=condition)


def _demands_on_pool(wanted: Demand) -> str:
    """Return the labels that the pod requires of nodes and that don't depend on their type."""
    chosen = (each for each in wanted.pod.selection.selector)
    own = [str(each) for each in chosen if not each.key.startswith(_OF_TYPES) and "/instance-" not in each.key]
    return f" and labels {', '.join(own)}" if own else ""


def _judge(wanted: Demand, candidate: _Candidate, cluster: Cluster, memory: Memory) -> PoolVerdict:
    """Check whether a pool has a node for a pod, and how many nodes all its replicas need."""
    pool, nodes = candidate.pool, candidate.nodes
    judged = sorted([fits(wanted, node, pool, memory.ask) for node in nodes], key=lambda fit: _badness(wanted, fit))
    running = candidate.running
    reasons = _merged(judged if pool.is_group else judged[:1], bool(running))
    taking = [each.node for each in judged if each.answer is Answer.YES]
    if pool.is_group and len(taking) not in (0, len(judged)):
        reasons = _some_types(judged, reasons)
        reasons += () if running else _first_type(wanted, pool, judged, cluster)
    reasons += [] if wanted.claimed is None else without_devices(wanted.claimed, nodes)
    reasons += _startup_taint_reasons(wanted, candidate)
    unhelped = [*candidate.autoscaled, *_fixed(pool), *_expendable(wanted.workload, pool, cluster)]
    if not pool.is_group and running:
        # Karpenter launches the first nodes too.
        reasons += candidate.autoscaled
    if running and wanted.pod.claims:
        reasons += unclear_claims(wanted.workload, cluster, wanted.claimed)
    if not running:
        reasons += unhelped
        reasons += too_few_values(pool, taking, cluster) if taking else []
        reasons += claim_scale_up_blockers(pool, cluster, wanted.claimed, nodes) if wanted.pod.claims else []
    reasons = left_open(wanted, pool, candidate.openings, reasons)
    answer = worst(reasons)
    if answer is Answer.NO:
        # A certain no doesn't depend on unknown values.
        refusing = nodes if wanted.topology.over_zones or wanted.topology.over_nodes else ()
        against = tuple(each for each in reasons if each.answer is Answer.NO)
        return PoolVerdict(pool, answer, against, nodes_refusing=refusing)
    growth = _growth(pool, running, unhelped) if running < (pool.max_nodes or running + 1) else GROWS
    # If no type is certain to have room, those that may have it count, and not types that are too small for certain.
    possible = [each.node for each in judged if each.answer is not Answer.NO]
    return _counted(wanted, pool, taking or possible or [nodes[0]], reasons, growth)


def _startup_taint_reasons(wanted: Demand, candidate: _Candidate) -> Iterator[Reason]:
    """Yield the startup taints that a pod doesn't tolerate and nothing in the input is known to remove."""
    for taint, _ in untolerated(wanted.pod.tolerations, candidate.unremoved):
        text = f"no component in the input is known to remove startup taint {taint} from its nodes"
        condition = f"a component removes startup taint {taint} from the nodes"
        yield Reason(Answer.UNKNOWN, "taint", text, rule="GPU176", condition=condition)


def _badness(wanted: Demand, fit: Fit) -> tuple[int, int, float]:
    every = fit.reasons + fit.unexpected
    weight = sum([each.weight for each in every if each.answer is Answer.NO])
    return weight, len(every), _shortage(wanted, fit.node) if weight else 0.0


def _shortage(wanted: Demand, node: NodeToBe) -> float:
    """Return how much the node lacks of the pod's requests. Among several types, the largest is nearest to a fit."""
    return sum([max(0.0, 1 - node.most.get(name, 0) / asked) for name, asked in wanted.requests.items() if asked])


def _merged(judged: list[Fit], running: bool) -> list[Reason]:
    """Return the reasons of the chosen types. If nodes already run, the autoscaler's view doesn't matter."""
    if len(judged) == 1:
        return [*judged[0].reasons, *(() if running else judged[0].unexpected)]
    return list(dict.fromkeys(each for fit in judged for each in (*fit.reasons, *(() if running else fit.unexpected))))


def _some_types(judged: list[Fit], reasons: list[Reason]) -> list[Reason]:
    taking = ", ".join(str(fit.node.instance_type) for fit in judged if fit.answer is Answer.YES)
    text = f"fits {taking}, but not every instance type that the group may launch; use similar types"
    general = [each for each in reasons if all(each in (*fit.reasons, *fit.unexpected) for fit in judged)]
    return [*general, Reason(Answer.UNKNOWN, "resource", text)]


def _first_type(wanted: Demand, pool: Pool, judged: Sequence[Fit], cluster: Cluster) -> Iterator[Reason]:
    """Yield what the first type of a group without nodes lacks for a pod that another type of the group accepts.

    If a group starts with nodes, the autoscaler reads these nodes. The order of types is unknown if deployment sets
    them.
    Source: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
    """
    starts_empty = desired_size(pool) is None or desired_nodes(pool) == 0
    if not starts_empty or pool.undecided or cluster.autoscaler("cluster-autoscaler") is None:
        return
    taking = [str(each.node.instance_type) for each in judged if each.answer is Answer.YES]
    first = next((each for each in judged if each.node.instance_type == pool.instance_types[0]), None)
    if first is not None and taking and (lacks := _first_lacks(wanted, first)):
        text = f"cluster autoscaler treats every node of the group as {pool.instance_types[0]}, its first type, {lacks}"
        yield Reason(Answer.NO, "autoscaler", f"{text}; name {taking[0]} first, or create a separate group for it", 1)


def _first_lacks(wanted: Demand, first: Fit) -> str:
    """Return what the first type lacks in the autoscaler's view, without the part that only kubelet reserves."""
    for name, asked in wanted.requests.items():
        have = first.node.believed.get(name)
        if have is not None and asked > have:
            return f"which has {show(name, have)} {name} of {show(name, asked)}"
    refusing = (each.text for each in first.reasons if each.kind == "label" and each.answer is Answer.NO)
    return next((f"and the pod {each}" for each in refusing), "")


def _autoscaled(pool: Pool, cluster: Cluster) -> list[Reason]:
    if pool.kind == "observed":
        return []
    if pool.max_nodes == 0:
        return [Reason(Answer.NO, "limit", "the pool allows no node; raise its maximum", 2)]
    if pool.capacity_types and not usable_capacity_types(pool):
        return [Reason(Answer.NO, "autoscaler", _NOTHING_RESERVED, 2, rule="GPU186")]
    who, runs = autoscaler_name(pool), cluster.runs(pool.autoscaler)
    if runs is Answer.NO:
        return [Reason(Answer.NO, "autoscaler", f"{who} doesn't run in the cluster; install it", 2)]
    if runs is Answer.UNKNOWN:
        text = f"it is unknown whether {who} runs in the cluster"
        return [Reason(Answer.UNKNOWN, "autoscaler", text, condition=f"{who} runs in the cluster")]
    return _without_role(pool, who, cluster)


def _without_role(pool: Pool, who: str, cluster: Cluster) -> list[Reason]:
    """Return a reason if a partial input installs an autoscaler without a role. GPU154 checks whole clusters."""
    found = cluster.autoscaler(pool.autoscaler)
    given = (
        found is None or found.kind == "auto-mode" or found.kind in cluster.assumed or has_credentials(found, cluster)
    )
    if cluster.whole or given:
        return []
    condition = f"{who} has an IAM role that allows it to launch nodes"
    return [Reason(Answer.UNKNOWN, "autoscaler", f"no IAM role of {who} is in the input", condition=condition)]


def _fixed(pool: Pool) -> list[Reason]:
    """Return the reason for pods that wait for a NodePool with a fixed number of nodes.

    Source: https://karpenter.sh/docs/concepts/nodepools/#specreplicas (2026-11)
    """
    replicas = None if pool.is_group else pool.properties.get("replicas")
    if replicas is None:
        return []
    if known_number(replicas) is None:
        return [Reason(Answer.UNKNOWN, "limit", "the number of replicas of the NodePool is known at deployment only")]
    return [Reason(Answer.NO, "limit", "a NodePool with replicas launches no nodes for pending pods; raise replicas")]


def priority_cutoff(cluster: Cluster) -> int | None:
    """Return the priority below which Cluster Autoscaler launches no node for a pod; ``None`` if it isn't known."""
    autoscaler = cluster.autoscaler("cluster-autoscaler")
    if autoscaler is None:
        return None
    written = autoscaler.flags.get("expendable-pods-priority-cutoff")
    return _EXPENDABLE_BELOW if written is None else known_number(written)


def _expendable(workload: Workload, pool: Pool, cluster: Cluster) -> list[Reason]:
    if pool.autoscaler != "cluster-autoscaler" or cluster.autoscaler("cluster-autoscaler") is None:
        return []
    cutoff = priority_cutoff(cluster)
    if workload.priority is None or cutoff is None:
        return _may_be_expendable(workload, cutoff, cluster)
    if workload.priority >= cutoff:
        return []
    text = f"priority {workload.priority} is below {cutoff}, so cluster autoscaler launches no node for it"
    return [Reason(Answer.NO, "autoscaler", text, rule="GPU129")]


def _may_be_expendable(workload: Workload, cutoff: int | None, cluster: Cluster) -> list[Reason]:
    """Return a reason if a priority or the autoscaler's cutoff is known at deployment only.

    A PriorityClass that is missing from the input is assumed to exist.
    """
    name = workload.pod.priority_class
    known = [each.name for each in cluster.objects_of_kind("PriorityClass")]
    if cutoff is not None and known_text(name) not in known and not isinstance(name, Unknown):
        return []
    text = "it is unknown whether its priority is below the one for which cluster autoscaler launches nodes"
    return [Reason(Answer.UNKNOWN, "autoscaler", text, rule="GPU129")]


def _growth(pool: Pool, running: int, unhelped: list[Reason]) -> Growth:
    """Return how a pool gets more than its running nodes, from the reasons why its autoscaler adds none."""
    if not running:
        return GROWS
    answer = worst(unhelped)
    counted = known_number(desired_size(pool)) is not None or desired_size(pool) is None
    return Growth(answer, running, counted, next((each.text for each in unhelped if each.answer is answer), ""))


def _counted(wanted: Demand, pool: Pool, taking: list[NodeToBe], reasons: list[Reason], growth: Growth) -> PoolVerdict:
    per_node = min([pods_per_node(wanted, node) for node in taking])
    replicas = wanted.workload.replicas
    nodes = None if replicas is None else nodes_needed(replicas, per_node)
    holds, may_hold = room(wanted, pool, taking, growth)
    scarce = nodes and holds is not None and holds < (replicas or 0)
    binding = binding_limit(pool, taking, nodes or 0, growth) if scarce else None
    if nodes and wanted.workload.takes_turns:
        nodes = min(each for each in (nodes, pool.max_nodes, growth.sure) if each is not None)
    if holds == may_hold == 0:
        reasons = [*reasons, Reason(Answer.NO, "limit", f"{binding or 'the pool allows no node'}; raise it")]
    types = tuple(node.instance_type for node in taking if node.instance_type)
    answer = worst(reasons)
    return PoolVerdict(
        pool, answer, tuple(reasons), types, per_node, nodes, binding, tuple(taking), holds, may_hold, growth=growth
    )
