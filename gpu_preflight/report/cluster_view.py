"""Clusters in a report: their pools, and the result of each workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.hardware.regions import usd_per_hour
from gpu_facts.light import dataclass
from gpu_facts.quantities import show
from gpu_facts.resources import DEVICE_CLASS
from gpu_preflight.case import Case
from gpu_preflight.cluster.network import pool_region
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.judging.node_cost import NodeCost, node_cost
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Pool, PoolKind
from gpu_preflight.model.software import Autoscaler, AutoscalerKind
from gpu_preflight.node.nodes import NodeToBe
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import all_known
from gpu_preflight.report.instances_view import rounded
from gpu_preflight.scheduling.demand import Demand
from gpu_preflight.scheduling.packing import PoolUse
from gpu_preflight.scheduling.pool_limits import node_limit
from gpu_preflight.scheduling.verdict import PoolVerdict, Result, Verdict

if TYPE_CHECKING:
    from gpu_preflight.remedies.change import Change
    from gpu_preflight.remedies.remedy import Remedies, Remedy, SmallestType


@dataclass(frozen=True, slots=True)
class PoolTypeView:
    """An instance type of a pool; ``None`` means that the figure isn't known."""

    name: str
    gpus: int
    gpu_model: str | None
    gpu_memory_gib: float | None
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class GpuRange:
    """The min and max number of GPUs of a node."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class PoolAutoscaler:
    """The component that creates the nodes of a pool, and whether it runs."""

    kind: AutoscalerKind
    runs: Answer


@dataclass(frozen=True, slots=True)
class PodsOfWorkload:
    """The number of pods of a workload in a pool."""

    workload: str
    count: int


@dataclass(frozen=True, slots=True)
class PoolUseView:
    """The load of a pool if all workloads run at the same time."""

    nodes: int
    gpus: int
    pods: tuple[PodsOfWorkload, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolView:
    """A pool.

    Attributes:
        offers: Devices that pods can request.
        max_nodes: ``None`` if no max is known.
        limits: Limits of a NodePool, as Kubernetes quantities.
    """

    name: str
    kind: PoolKind
    origin: Origin
    operating_system: str
    instance_types: tuple[PoolTypeView, ...]
    gpus_per_node: GpuRange
    offers: tuple[str, ...]
    min_nodes: int | None
    max_nodes: int | None
    limits: Mapping[str, str]
    taints: tuple[str, ...]
    capacity_types: tuple[str, ...]
    autoscaler: PoolAutoscaler
    device_managers: tuple[str, ...]
    use: PoolUseView


@dataclass(frozen=True, slots=True)
class PoolVerdictView:
    """Whether a pool can run a workload.

    Attributes:
        instance_types: Instance types whose nodes can run the pod.
        nodes: Nodes that all replicas need.
    """

    pool: str
    answer: Answer
    instance_types: tuple[str, ...]
    pods_per_node: int | None
    nodes: int | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class ChangeView:
    """A property to set."""

    path: str
    property: str
    value: Any


@dataclass(frozen=True, slots=True)
class RemedyView:
    """A suggested fix: changes that make a workload run.

    Attributes:
        changes: Properties of constructs or objects to set.
        patch: Strategic merge patch of the workload, for kubectl.
    """

    text: str
    changes: tuple[ChangeView, ...]
    patch: dict[str, Any] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadView:
    """The result of a workload.

    Attributes:
        name: Kind, namespace and name.
        placed: Pods that already have a node in the running cluster.
        together: Whether all pods must run at the same time.
        on_each_node: Whether it has one pod on each node. No autoscaler creates a node for such a pod.
        requests: The known requests of one pod, as Kubernetes quantities.
        open_requests: Resources whose requested amount is known only at deployment, and parts of a pod, such as a
            container, whose resources aren't known at all.
        claims: ResourceClaims or ResourceClaimTemplates with which one pod requests devices.
        result: ``failsAtStart`` if the pods get nodes, but their program fails there or never becomes ready.
            ``pending`` if the pods get no nodes. Both have the answer no.
        reasons: Reasons that are true in every pool.
        pool_count: The number of checked pools.
        pools: The nearest pools first. check and review list one pool. explain lists five, or all with ``--all-pools``.
        cost: The nodes of the nearest pool that can run it, for all replicas, at the on-demand list price.
        rests_on: Unknown conditions that the answer depends on.
        runs_if: Conditions under which an unknown result becomes a yes: components that the input lacks. Empty if more
            is unknown.
        would_do: Suggested fixes, each checked. Only explain lists them.
        smallest_type: The smallest instance type that has the requested resources, if no change of the existing objects
            makes the workload run.
    """

    name: str
    namespace: str
    origin: Origin
    replicas: int | None
    placed: int
    together: bool
    on_each_node: bool
    priority: int | None
    requests: Mapping[str, str]
    open_requests: tuple[str, ...]
    claims: tuple[str, ...]
    answer: Answer
    result: Result
    reasons: tuple[Reason, ...]
    pool_count: int
    pools: tuple[PoolVerdictView, ...]
    cost: NodeCost | None
    rests_on: tuple[str, ...]
    runs_if: tuple[str, ...]
    would_do: tuple[RemedyView, ...]
    smallest_type: SmallestType | None


@dataclass(frozen=True, slots=True)
class LeftReplicas:
    """The number of replicas of a workload without a node."""

    workload: str
    replicas: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterView:
    """A cluster.

    Attributes:
        whole: Whether the cluster itself is in the input.
        assumed: Components that ``--assume`` names.
        opaque_software: Installed software whose objects aren't known.
        left: Replicas without a node if all workloads that can run alone run at the same time. If a workload has the
            answer yes, its replicas only wait until other workloads end.
    """

    name: str
    kubernetes_version: str | None
    whole: bool
    auto_mode: bool
    autoscalers: tuple[Autoscaler, ...]
    assumed: tuple[str, ...]
    opaque_software: tuple[str, ...]
    pools: tuple[PoolView, ...]
    workloads: tuple[WorkloadView, ...]
    left: tuple[LeftReplicas, ...]


def cluster_views(
    explanations: Iterable[Explanation], *, most_pools: int | None, remedies: Remedies | None = None
) -> tuple[ClusterView, ...]:
    """Return clusters with the result of each workload.

    Args:
        explanations: The results of each cluster.
        most_pools: Max number of pools to list for a workload, the nearest first; ``None`` for all.
        remedies: Suggested fixes by workload, if they were requested.
    """
    return tuple(_cluster(each, most_pools, remedies or {}) for each in explanations)


def _cluster(explanation: Explanation, most_pools: int | None, remedies: Remedies) -> ClusterView:
    case, packing = explanation.case, explanation.packing
    cluster = case.cluster
    uses = {id(each.pool): each for each in packing.uses}
    return ClusterView(
        name=cluster.title,
        kubernetes_version=cluster.version,
        whole=cluster.whole,
        auto_mode=cluster.auto_mode,
        autoscalers=cluster.autoscalers,
        assumed=tuple(sorted(cluster.assumed)),
        opaque_software=cluster.unknown_software,
        pools=tuple(_pool(pool, case, uses.get(id(pool))) for pool in cluster.every_pool),
        workloads=_workloads(explanation, most_pools, remedies),
        left=tuple(LeftReplicas(workload.name, count) for workload, count in packing.left),
    )


def _pool(pool: Pool, case: Case, use: PoolUse | None) -> PoolView:
    nodes, region = case.nodes(pool), pool_region(pool, case.cluster)
    gpus = [node.row.gpus if node.row else 0 for node in nodes]
    return PoolView(
        name=pool.name,
        kind=pool.kind,
        origin=pool.origin,
        operating_system=pool.operating_system,
        instance_types=tuple(_pool_type(each.instance_type, each.row, region) for each in nodes if each.instance_type),
        gpus_per_node=GpuRange(min(gpus, default=0), max(gpus, default=0)),
        offers=_offers(nodes),
        min_nodes=pool.min_nodes,
        max_nodes=max(all_known(node_limit(pool, node) for node in nodes), default=None),
        limits={name: show(name, amount) for name, amount in pool.limits.items()},
        taints=tuple(map(str, pool.taints)),
        capacity_types=pool.capacity_types,
        autoscaler=PoolAutoscaler(pool.autoscaler, case.cluster.runs(pool.autoscaler)),
        device_managers=tuple(sorted({name for node in nodes for name in node.device_managers})),
        use=_use(use),
    )


def _pool_type(name: str, row: InstanceType | None, region: str | None) -> PoolTypeView:
    if row is None:
        return PoolTypeView(name, 0, None, None, None)
    return PoolTypeView(name, row.gpus, row.gpu_model, rounded(row.gpu_memory_gib), usd_per_hour(row, region))


def _offers(nodes: Iterable[NodeToBe]) -> tuple[str, ...]:
    """Return the devices that pods can request on some node."""
    found = {name for node in nodes for name, amount in node.most.items() if "/" in name and amount > 0}
    return tuple(sorted(found))


def _use(use: PoolUse | None) -> PoolUseView:
    if use is None:
        return PoolUseView(0, 0, ())
    return PoolUseView(use.nodes, use.gpus, tuple(PodsOfWorkload(*each) for each in use.pods.items() if each[1]))


def _workloads(explanation: Explanation, most_pools: int | None, remedies: Remedies) -> tuple[WorkloadView, ...]:
    # Results of identical pods share the results of pools and the requests.
    pools: dict[int, tuple[PoolVerdictView, ...]] = {}
    requests: dict[int, dict[str, str]] = {}
    for verdict in explanation.verdicts:
        if id(verdict.pools) not in pools:
            pools[id(verdict.pools)] = tuple(map(_pool_verdict, verdict.pools[:most_pools]))
        if id(verdict.demand) not in requests:
            requests[id(verdict.demand)] = _requests(verdict.demand)
    return tuple(
        _workload(each, explanation.case, remedies, pools[id(each.pools)], requests[id(each.demand)])
        for each in explanation.verdicts
    )


def _workload(
    verdict: Verdict,
    case: Case,
    remedies: Remedies,
    pools: tuple[PoolVerdictView, ...],
    requests: Mapping[str, str],
) -> WorkloadView:
    workload, pod = verdict.workload, verdict.demand.pod
    would_do, smallest = remedies.get(id(workload), ((), None))
    return WorkloadView(
        name=workload.name,
        namespace=workload.namespace,
        origin=workload.origin,
        replicas=workload.replicas,
        placed=workload.placed,
        together=workload.together,
        on_each_node=workload.is_daemon_set,
        priority=workload.priority,
        requests=requests,
        open_requests=tuple(pod.open_requests),
        claims=tuple(str(each.claim or each.template) for each in pod.claims),
        answer=verdict.answer,
        result=verdict.result,
        reasons=_reasons(verdict.reasons),
        pool_count=len(verdict.pools),
        pools=pools,
        cost=node_cost(case, verdict),
        rests_on=verdict.rests_on,
        runs_if=verdict.runs_if,
        would_do=tuple(map(_remedy, would_do)),
        smallest_type=smallest,
    )


def _requests(wanted: Demand) -> dict[str, str]:
    """Return the known requests of one pod. A sum with an unknown part isn't known."""
    left = {"pods", DEVICE_CLASS, *wanted.pod.open_requests}
    return {name: show(name, amount) for name, amount in wanted.requests.items() if name not in left}


def _remedy(remedy: Remedy) -> RemedyView:
    return RemedyView(remedy.text, tuple(map(_change, remedy.changes)), remedy.patch)


def _change(change: Change) -> ChangeView:
    value = change.value if change.written_value is None else change.written_value
    return ChangeView(change.origin.path, ".".join(change.written or change.property), value)


def _pool_verdict(verdict: PoolVerdict) -> PoolVerdictView:
    return PoolVerdictView(
        verdict.pool.name,
        verdict.answer,
        verdict.instance_types,
        verdict.per_node,
        verdict.nodes,
        _reasons(verdict.reasons),
    )


def _reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return reasons: first those that certainly keep the pod off, and among equals the easiest to fix first."""
    return tuple(sorted(dict.fromkeys(reasons), key=lambda each: (each.answer is not Answer.NO, each.weight)))
