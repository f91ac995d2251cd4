"""Would a pod run on a fresh node of a pool, and would the pool's autoscaler make one?

Follows kube-scheduler 1.36, cluster autoscaler 1.36 and Karpenter 1.14; `fitting` and `nodes` name the code paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpu_constructs.preflight.cluster.pools import desired_nodes
from gpu_constructs.preflight.model.answer import Answer, all_of, any_of
from gpu_constructs.preflight.model.cluster import Autoscaler, Cluster, Pool, Workload
from gpu_constructs.preflight.model.pod import Pod
from gpu_constructs.preflight.model.reason import Reason, worst
from gpu_constructs.preflight.node.nodes import NodeToBe, minor
from gpu_constructs.preflight.reading.unknown import Unknown, dig, is_true, known_text
from gpu_constructs.preflight.scheduling.admission import admitted
from gpu_constructs.preflight.scheduling.demand import Demand, demand
from gpu_constructs.preflight.scheduling.fitting import Fit, autoscaler_of, fits
from gpu_constructs.preflight.scheduling.memory import Memory, Profile
from gpu_constructs.preflight.scheduling.pool_limits import binding_limit, has_room, nodes_needed, pods_per_node
from gpu_constructs.preflight.scheduling.unclear import Openings, left_open, openings
from gpu_constructs.preflight.scheduling.verdict import PoolVerdict, Verdict

_DEFAULT_SCHEDULER = "default-scheduler"
# Karpenter can make nodes for claims from here on, when its gates are on.
# Source: https://karpenter.sh/docs/tasks/dra/
_CLAIMS_FROM = (1, 15)
_CLAIM_GATES = (("enableDRA",), ("awsFeatureGates", "draNVIDIAGPU"))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pool, its nodes-to-be, whether some run, what of it is open, and what is against it for every pod."""

    pool: Pool
    nodes: tuple[NodeToBe, ...]
    running: bool
    openings: Openings
    autoscaled: list[Reason]
    claims: list[Reason]


def _candidate(pool: Pool, nodes: tuple[NodeToBe, ...], cluster: Cluster) -> _Candidate:
    return _Candidate(
        pool,
        nodes,
        _is_running(pool, cluster),
        openings(pool),
        _autoscaled(pool, cluster),
        _claims(pool, cluster),
    )


def _is_running(pool: Pool, cluster: Cluster) -> bool:
    """Whether the pool always has a node: one it starts with stays where nothing takes it away."""
    return bool(pool.min_nodes) or (bool(desired_nodes(pool)) and cluster.autoscaler(pool.autoscaler) is None)


class Scheduler:
    """Judges workloads against the pools of one cluster; pools and pods that are alike are judged once."""

    def __init__(self, cluster: Cluster, nodes: Iterable[tuple[NodeToBe, ...]]) -> None:
        """Take the cluster, and the nodes-to-be of each of its pools."""
        self.cluster = cluster
        self._pools = [_candidate(pool, made, cluster) for pool, made in zip(cluster.pools, nodes, strict=True)]
        self._memory = Memory()
        self._signatures = [self._signature(each) for each in self._pools]
        self._seen: dict[tuple[object, ...], tuple[Demand, tuple[PoolVerdict, ...]]] = {}

    def verdict(self, workload: Workload) -> Verdict:
        """Say whether the pods of a workload run, and where."""
        pods = admitted(workload, self.cluster)
        key = _shape(pods)
        if key not in self._seen:
            wanted = demand(pods, self.cluster)
            judged = self._judged(wanted)
            self._seen[key] = wanted, tuple(sorted(judged, key=lambda each: each.distance))
        wanted, pools = self._seen[key]
        held = (*wanted.refusals, *_held(workload.pod, self.cluster))
        return Verdict(workload, _overall(pools, held, self.cluster), pools, held, wanted)

    def _signature(self, candidate: _Candidate) -> tuple[int, list[Profile]]:
        """Return what tells a pool from others, labels of its nodes apart, and the profile of each of its nodes."""
        pool, profiles = candidate.pool, [self._memory.profile(node, candidate.pool) for node in candidate.nodes]
        static = (
            *((each.taints, each.resources) for each in profiles),
            (pool.kind, pool.min_nodes, pool.max_nodes, frozenset(pool.limits.items())),
            (candidate.running, candidate.openings, tuple(candidate.autoscaled), tuple(candidate.claims)),
        )
        return self._memory.number(static), profiles

    def _judged(self, wanted: Demand) -> list[PoolVerdict]:
        """Judge every pool; of those that differ in nothing the pod asks for, one."""
        if wanted.pod.host_ports or not wanted.anywhere:
            return [_judge(wanted, each, self._memory) for each in self._pools]
        judged: list[PoolVerdict] = []
        known: dict[tuple[object, ...], PoolVerdict] = {}
        for candidate, (signature, profiles) in zip(self._pools, self._signatures, strict=True):
            key = (signature, *[each.labels.get(name) for each in profiles for name in wanted.keys])
            like = known.get(key)
            if like is None:
                like = known[key] = _judge(wanted, candidate, self._memory)
            judged.append(like if like.pool is candidate.pool else like.of(candidate.pool))
        return judged


def _shape(workload: Workload) -> tuple[object, ...]:
    """Return what makes pods alike: what is scheduled, and whatever else their topology is read from."""
    pod = workload.pod
    claimed = [*(each for each in pod.volumes if each.is_claimed), *workload.claim_templates]
    return (
        pod.likeness,
        workload.replicas,
        workload.together,
        repr(workload.labels) if pod.apart or pod.beside or pod.spreads else None,
        workload.namespace if pod.claims or claimed else None,
        repr(claimed) if claimed else None,
    )


def _overall(pools: Sequence[PoolVerdict], held: Sequence[Reason], cluster: Cluster) -> Answer:
    best = pools[0].answer if pools else Answer.NO
    if best is Answer.NO and not (cluster.whole or pools):
        best = Answer.UNKNOWN
    return all_of((best, worst(held)))


def _held(pod: Pod, cluster: Cluster) -> tuple[Reason, ...]:
    """Return what holds a pod back wherever it would run."""
    found = []
    if not cluster.pools and not cluster.whole:
        text = "no pool is in the input; name the assembly, the template or the NodePools too"
        found.append(Reason(Answer.UNKNOWN, "pool", text))
    for part in pod.open_parts:
        found.append(Reason(Answer.UNKNOWN, "pod", f"its {part} is known at deployment only"))
    if pod.gates:
        found.append(Reason(Answer.UNKNOWN, "gate", f"waits until scheduling gate {', '.join(pod.gates)} is removed"))
    scheduler = known_text(pod.scheduler) or _DEFAULT_SCHEDULER
    if scheduler != _DEFAULT_SCHEDULER and not _runs(scheduler, cluster):
        answer = Answer.NO if cluster.whole and not cluster.opaque else Answer.UNKNOWN
        found.append(Reason(answer, "scheduler", f"waits for scheduler {scheduler}, which nothing here installs"))
    return tuple(found)


def _runs(scheduler: str, cluster: Cluster) -> bool:
    return any(scheduler in (each.name, each.origin.path.rpartition("/")[2]) for each in cluster.charts) or any(
        each.name == scheduler and each.kind == "Deployment" for each in cluster.objects
    )


def _judge(wanted: Demand, candidate: _Candidate, memory: Memory) -> PoolVerdict:
    """Say whether a pool gives a pod a node, and how many nodes all its replicas need."""
    pool, nodes = candidate.pool, candidate.nodes
    judged = sorted([fits(wanted, node, pool, memory.ask) for node in nodes], key=lambda fit: _badness(wanted, fit))
    running = candidate.running
    reasons = _merged(judged if pool.is_group else judged[:1], running)
    taking = [each.node for each in judged if each.answer is Answer.YES]
    if pool.is_group and len(taking) not in (0, len(judged)):
        reasons = _some_types(judged, reasons)
    if not running:
        reasons += [
            *candidate.autoscaled,
            *(candidate.claims if wanted.pod.claims else ()),
        ]
    reasons = left_open(wanted, pool, candidate.openings, reasons)
    answer = worst(reasons)
    if answer is Answer.NO:
        # What is not known matters no more.
        return PoolVerdict(pool, answer, tuple(each for each in reasons if each.answer is Answer.NO))
    return _counted(wanted, pool, taking or [nodes[0]], reasons)


def _badness(wanted: Demand, fit: Fit) -> tuple[int, int, float]:
    every = fit.reasons + fit.unexpected
    weight = sum([each.weight for each in every if each.answer is Answer.NO])
    return weight, len(every), _shortage(wanted, fit.node) if weight else 0.0


def _shortage(wanted: Demand, node: NodeToBe) -> float:
    """Return how much of what the pod asks for the node lacks: of several types the largest comes nearest."""
    return sum([max(0.0, 1 - node.most.get(name, 0) / asked) for name, asked in wanted.requests.items() if asked])


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
    who, runs = autoscaler_of(pool), cluster.runs(pool.autoscaler)
    if runs is Answer.NO:
        return [Reason(Answer.NO, "autoscaler", f"{who} does not run in the cluster; install it", 2)]
    if runs is Answer.UNKNOWN:
        return [Reason(Answer.UNKNOWN, "autoscaler", f"whether {who} runs in the cluster is not known")]
    return []


def _claims(pool: Pool, cluster: Cluster) -> list[Reason]:
    """Say whether the pool's autoscaler makes nodes for pods that claim devices."""
    if pool.kind == "auto-mode":
        return [Reason(Answer.NO, "claim", "EKS Auto Mode makes no nodes for claimed devices; use a managed group", 4)]
    if pool.kind == "karpenter":
        karpenter = cluster.autoscaler("karpenter")
        if karpenter is None or karpenter.version is None or _may_see_claims(karpenter):
            text = "whether Karpenter makes nodes for claimed devices depends on its feature gates"
            return [Reason(Answer.UNKNOWN, "claim", text)]
        gate = " without settings.enableDRA" if minor(karpenter.version) >= _CLAIMS_FROM else ""
        text = f"Karpenter {karpenter.version} makes no nodes for claimed devices{gate}; use a managed node group"
        return [Reason(Answer.NO, "claim", text, 4)]
    text = "cluster autoscaler makes no first node for claimed devices; keep one node in the group"
    return [Reason(Answer.NO, "claim", text, 2)]


def _may_see_claims(karpenter: Autoscaler) -> bool:
    """Whether a Karpenter looks at claims, or may: only values of its chart say that it does not."""
    if karpenter.version is None or minor(karpenter.version) < _CLAIMS_FROM:
        return False
    said = [dig(karpenter.flags, *path) for path in _CLAIM_GATES]
    return "clusterName" not in karpenter.flags or any(isinstance(each, Unknown) or is_true(each) for each in said)


def _counted(wanted: Demand, pool: Pool, taking: list[NodeToBe], reasons: list[Reason]) -> PoolVerdict:
    per_node = min([pods_per_node(wanted, node) for node in taking])
    replicas = wanted.workload.replicas
    nodes = None if replicas is None else nodes_needed(replicas, per_node)
    room = [has_room(wanted, pool, node) for node in taking]
    # EC2 chooses among the types of a group, Karpenter takes one that fits.
    enough = all_of(room) if pool.is_group else any_of(room)
    binding = binding_limit(pool, taking, nodes) if nodes and enough is not Answer.YES else None
    types = tuple(node.instance_type for node in taking if node.instance_type)
    if binding and not (wanted.workload.takes_turns and not binding.startswith("no node")):
        some = "" if wanted.workload.together or binding.startswith("no node") else ", so some replicas stay Pending"
        reasons = [*reasons, Reason(enough, "limit", f"{binding}{some}; raise it")]
    return PoolVerdict(pool, worst(reasons), tuple(reasons), types, per_node, nodes, binding, tuple(taking))
