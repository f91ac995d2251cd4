"""A cluster and everything derived from it, each computed once. Every rule and result reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpu_facts.resources import DISK, GPU
from gpu_preflight.cluster.kueue import QueuedJob, queued_jobs
from gpu_preflight.cluster.open_values import OpenValue, open_values
from gpu_preflight.cluster.operators import fargate_profiles, takes
from gpu_preflight.cluster.pools import built_in_pools
from gpu_preflight.cluster.scalers import HPA, SCALED_OBJECT, Scaler, Signal, read_scalers
from gpu_preflight.cluster.storage import Claimed, claimed
from gpu_preflight.model.answer import Answer, Reason, any_yes
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.container import Container
from gpu_preflight.model.label_values import selection
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.autoscaler_view import Conflict, active_overlays
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.node.gpu_pools import pools_for_gpus
from gpu_preflight.node.nodes import NodeToBe, daemon_set_answers, nodes_to_be, overlays_in_conflict, reaches
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import all_known
from gpu_preflight.schema.fields import Fields

# The modules of admission, scheduling and programs are imported where a GPU workload needs them. Many templates have
# none, and `check_gpus` would spend a tenth of its time on the imports.
if TYPE_CHECKING:
    from gpu_preflight.admission.controllers import Admission, Admitted
    from gpu_preflight.admission.quotas import Shortage
    from gpu_preflight.model.programs import Program
    from gpu_preflight.scheduling.scheduler import Scheduler
    from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict


class Case:
    """A cluster with its derived values, each computed once. Rules, results, reviews and reports read it.

    Attributes:
        cluster: The content of the input.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Start without derived values."""
        self.cluster = cluster
        self._pools = {id(pool) for pool in cluster.every_pool}
        self._nodes: dict[int, tuple[NodeToBe, ...]] = {}
        self._reaches: dict[int, dict[int, Answer]] = {}
        self._verdicts: dict[int, Verdict] = {}
        self._open_pools: dict[int, tuple[tuple[PoolVerdict, ...], tuple[Pool, ...]]] = {}

    @cached_property
    def fields(self) -> Fields:
        """The checker of fields against the schemas of their services."""
        return Fields()

    @cached_property
    def open_values(self) -> tuple[OpenValue, ...]:
        """The values that only deployment sets, in fields that rules check."""
        return open_values(self.cluster)

    @cached_property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """The pools that are meant for GPUs."""
        return pools_for_gpus(self.cluster)

    @cached_property
    def gpu_groups(self) -> tuple[Pool, ...]:
        """The GPU pools that are node groups or Auto Scaling groups."""
        return tuple(pool for pool in self.gpu_pools if pool.is_group)

    def nodes(self, pool: Pool) -> tuple[NodeToBe, ...]:
        """Return a fresh node of each instance type of one of the cluster's pools, with the autoscaler's view of it.

        Raises:
            KeyError: It isn't a pool of the cluster.
        """
        if id(pool) not in self._pools:
            raise KeyError(pool.name)
        if id(pool) not in self._nodes:
            self._nodes[id(pool)] = nodes_to_be(pool, self.cluster, self._overlays)
        return self._nodes[id(pool)]

    def disk_max(self, pool: Pool) -> int | None:
        """Return the max disk space of a pool's nodes for pods, in bytes; ``None`` if one isn't known."""
        return max(all_known(each.most.get(DISK) for each in self.nodes(pool)), default=None)

    @cached_property
    def overlays_in_conflict(self) -> tuple[Conflict, ...]:
        """The NodeOverlays that Karpenter ignores because of a conflict."""
        return tuple(overlays_in_conflict(self.cluster))

    @cached_property
    def _overlays(self) -> list[Object]:
        left_out = {id(each.overlay) for each in self.overlays_in_conflict}
        return [each for each in active_overlays(self.cluster) if id(each) not in left_out]

    def reaches(self, daemon: DaemonSet, pool: Pool) -> Answer:
        """Return whether one of the cluster's DaemonSets runs on every node of one of its pools.

        Raises:
            KeyError: One of the two isn't part of the cluster.
        """
        if id(pool) not in self._pools:
            raise KeyError(pool.name)
        if id(pool) not in self._reaches:
            answers = daemon_set_answers(pool, self.cluster)
            self._reaches[id(pool)] = {id(each): answer for each, answer in answers}
        return self._reaches[id(pool)][id(daemon)]

    def match_pool_labels(self, labels: Mapping[str, Any]) -> list[tuple[Pool, Answer]]:
        """Return for each of the cluster's pools whether its nodes may have some labels."""
        wanted = selection({"nodeSelector": labels})
        return [(pool, any_yes(wanted.takes(node.labels) for node in self.nodes(pool))) for pool in self.cluster.pools]

    def blocking_taint(self, daemon: DaemonSet, pool: Pool) -> Taint | None:
        """Return a taint that excludes a DaemonSet from a pool; ``None`` if taints aren't the only obstacle."""
        refusing = refusing_taints(daemon, pool.taints)
        if not refusing or reaches(daemon, replace(pool, taints=()), self.cluster) is Answer.NO:
            return None
        return refusing[0]

    def reaches_as_read(self, daemon: DaemonSet, pool: Pool) -> Answer:
        """Return whether a DaemonSet runs on a pool, if every version is like the nearest known version."""
        as_read = tuple(replace(each, exact=True) for each in self.cluster.daemon_sets)
        return reaches(replace(daemon, exact=True), pool, replace(self.cluster, daemon_sets=as_read))

    @cached_property
    def _scheduler(self) -> Scheduler:
        from gpu_preflight.scheduling.scheduler import Scheduler

        return Scheduler(self.cluster, [self.nodes(pool) for pool in self.cluster.every_pool], self._admission)

    @cached_property
    def _admission(self) -> Admission:
        from gpu_preflight.admission.controllers import Admission

        return Admission(self.cluster)

    def admitted(self, workload: Workload) -> Admitted:
        """Return one of the cluster's workloads after admission."""
        return self._admission.admit(workload)

    def shortages(self, workload: Workload) -> tuple[Shortage, ...]:
        """Return the quotas of its namespace that have too little left for one of the cluster's workloads."""
        return self._admission.shortages(workload)

    def verdict(self, workload: Workload) -> Verdict:
        """Return whether the pods of one of the cluster's workloads would run if it were alone, and where."""
        if id(workload) not in self._verdicts:
            self._verdicts[id(workload)] = self._scheduler.verdict(workload)
        return self._verdicts[id(workload)]

    def with_replicas(self, workload: Workload, replicas: int) -> Verdict:
        """Return the result for one of the cluster's workloads with another number of pods."""
        return self._scheduler.verdict(replace(workload, replicas=replicas))

    @cached_property
    def gpu_workloads(self) -> tuple[Workload, ...]:
        """The workloads that request GPUs, in their spec or by the defaults of a LimitRange."""
        given = bool(self.cluster.objects_of_kind("LimitRange"))
        return tuple(
            each
            for each in self.cluster.workloads
            if each.asks_for_gpu or (given and self.admitted(each).workload.asks_for_gpu)
        )

    @cached_property
    def gpu_programs(self) -> tuple[tuple[Workload, Container, Program], ...]:
        """Each GPU program of the GPU workloads, with its container."""
        if not self.gpu_workloads:
            return ()
        from gpu_preflight.model.programs import programs

        # Workloads that are alike share a pod.
        known: dict[int, list[tuple[Container, Program]]] = {}
        for each in self.gpu_workloads:
            if id(each.pod) not in known:
                known[id(each.pod)] = [(one, found) for one in each.pod.containers or () for found in programs(one)]
        return tuple((each, *found) for each in self.gpu_workloads for found in known[id(each.pod)])

    @cached_property
    def judged_workloads(self) -> tuple[Workload, ...]:
        """The GPU workloads, and workloads that may request GPUs depending on deployment."""
        of_gpus = {id(each) for each in self.gpu_workloads}
        return tuple(each for each in self.cluster.workloads if id(each) in of_gpus or each.pod.may_ask_for_gpu)

    @cached_property
    def _without_gpus(self) -> Mapping[int, list[Workload]]:
        """Workloads without GPU requests, by the id of their owner."""
        of_gpus = {id(each) for each in self.judged_workloads}
        found: dict[int, list[Workload]] = {}
        for each in self.cluster.workloads:
            if id(each) not in of_gpus:
                found.setdefault(id(each.owner), []).append(each)
        return found

    def partners(self, workload: Workload) -> Sequence[Workload]:
        """Return the roles without GPUs of the same object, such as Ray's head or an MPI launcher.

        GPU pods wait for them, so they don't work if one of these roles has no node.
        """
        return self._without_gpus.get(id(workload.owner), ())

    @cached_property
    def with_built_in_pools(self) -> Case | None:
        """The case of only the cluster's built-in pools, which accept pods without GPUs; ``None`` if it has none."""
        pools = built_in_pools(self.cluster)
        return Case(replace(self.cluster, pools=pools, observed=())) if pools else None

    @cached_property
    def gpu_claims(self) -> tuple[tuple[Workload, Claimed], ...]:
        """Each storage claim of the GPU workloads."""
        return tuple((each, claim) for each in self.gpu_workloads for claim in claimed(each, self.cluster))

    @cached_property
    def queued_jobs(self) -> tuple[QueuedJob, ...]:
        """The jobs with GPUs that name a Kueue queue."""
        return tuple(queued_jobs(self.cluster))

    @cached_property
    def scalers(self) -> tuple[Scaler, ...]:
        """The objects that change the number or the size of pods."""
        return read_scalers(self.cluster)

    @cached_property
    def replica_scalers(self) -> tuple[Scaler, ...]:
        """The HorizontalPodAutoscalers and ScaledObjects, without the objects that KEDA creates for ScaledObjects."""
        found = (each for each in self.scalers if each.kind in (HPA, SCALED_OBJECT))
        return tuple(each for each in found if each.kind == SCALED_OBJECT or not each.is_made_by_keda)

    @cached_property
    def signals(self) -> tuple[tuple[Scaler, Signal], ...]:
        """Each of these scalers with each of its metrics."""
        return tuple((each, signal) for each in self.replica_scalers for signal in each.signals)

    @cached_property
    def gpu_signals(self) -> tuple[tuple[Scaler, Signal], ...]:
        """The scalers and metrics that measure GPUs."""
        return tuple((each, signal) for each, signal in self.signals if "DCGM_" in signal.meaning)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The result for each workload that requests GPUs, together with the other workloads."""
        if not self.gpu_workloads:
            return ()
        from gpu_preflight.scheduling.crowd import check_contention

        return check_contention(map(self.verdict, self.gpu_workloads), self.services_without_gpus)

    @cached_property
    def services_without_gpus(self) -> tuple[Verdict, ...]:
        """The result for each service that requests no GPU and may use room on GPU nodes."""
        of_gpus = {id(each) for each in self.gpu_workloads}
        staying = [
            each for each in self.cluster.workloads if not each.ends and not each.is_daemon_set and not each.is_placed
        ]
        others = [each for each in staying if id(each) not in of_gpus and not each.suspended]
        profiles = fargate_profiles(self.cluster) if others else []
        on_nodes = (each for each in others if not any(takes(profile, each) for profile in profiles))
        verdicts = [self.verdict(each) for each in on_nodes]
        return tuple(each for each in verdicts if not any(map(_blocks_every_pod, each.reasons)))

    def with_pool_results(self, verdict: Verdict, pools: tuple[PoolVerdict, ...], held: tuple[Reason, ...]) -> Verdict:
        """Return a result with other results for its pools, and with reasons that apply in every pool."""
        return self._scheduler.combine_pool_results(verdict.workload, verdict.demand, pools, held)

    def candidate_nodes(self, workload: Workload) -> tuple[tuple[Pool, NodeToBe], ...]:
        """Return a node of each instance type that may run a pod: with the labels that it selects, and its GPUs."""
        pod = workload.pod
        gpus = pod.requests.get(GPU, 0)
        return tuple(
            (pool, node)
            for pool in self.candidate_pools(workload)
            for node in self.nodes(pool)
            if pod.selection.takes(node.labels) is not Answer.NO and (node.row is None or node.row.gpus >= gpus)
        )

    def candidate_pools(self, workload: Workload) -> tuple[Pool, ...]:
        """Return the pools that a workload may run on."""
        verdicts = self.verdict(workload).pools
        if id(verdicts) not in self._open_pools:
            # Each entry holds its results, which many workloads share, so that no other objects get the same ids.
            found = tuple(each.pool for each in verdicts if each.answer is not Answer.NO)
            self._open_pools[id(verdicts)] = verdicts, found
        return self._open_pools[id(verdicts)][1]


def _blocks_every_pod(reason: Reason) -> bool:
    """Whether a reason excludes every pod of a workload from all nodes. If there are only too many pods, some run."""
    return reason.answer is Answer.NO and reason.kind not in ("limit", "topology")
