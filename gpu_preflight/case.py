"""A cluster and everything derived from it, each computed once. Every rule and result reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from gpu_facts.resources import DISK, GPU
from gpu_preflight.admission.controllers import Admission, Admitted
from gpu_preflight.admission.quotas import Shortage
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
from gpu_preflight.model.programs import Program, programs
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.autoscaler_view import Conflict, active_overlays
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.node.gpu_pools import pools_for_gpus
from gpu_preflight.node.nodes import NodeToBe, daemon_set_answers, nodes_to_be, overlays_in_conflict, reaches
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import all_known
from gpu_preflight.scheduling.crowd import check_contention
from gpu_preflight.scheduling.scheduler import Scheduler
from gpu_preflight.scheduling.verdict import PoolVerdict, Verdict
from gpu_preflight.schema.fields import Fields


class Case:
    """A cluster as it is judged. Rules, verdicts, reviews and reports read it, and nothing else judges.

    Attributes:
        cluster: What the input says.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Derive nothing yet."""
        self.cluster = cluster
        self._pools = {id(pool) for pool in cluster.every_pool}
        self._nodes: dict[int, tuple[NodeToBe, ...]] = {}
        self._reaches: dict[int, dict[int, Answer]] = {}
        self._verdicts: dict[int, Verdict] = {}
        self._open_pools: dict[int, tuple[tuple[PoolVerdict, ...], tuple[Pool, ...]]] = {}

    @cached_property
    def fields(self) -> Fields:
        """The judge of fields against the schemas of their services."""
        return Fields()

    @cached_property
    def open_values(self) -> tuple[OpenValue, ...]:
        """The values that only deployment sets, in fields that rules judge."""
        return open_values(self.cluster)

    @cached_property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """The pools that are to have GPUs."""
        return pools_for_gpus(self.cluster)

    @cached_property
    def gpu_groups(self) -> tuple[Pool, ...]:
        """Those of them that are node groups or Auto Scaling groups."""
        return tuple(pool for pool in self.gpu_pools if pool.is_group)

    def nodes(self, pool: Pool) -> tuple[NodeToBe, ...]:
        """Return a fresh node of each instance type of one of the cluster's pools, in both views.

        Raises:
            KeyError: It is no pool of the cluster.
        """
        if id(pool) not in self._pools:
            raise KeyError(pool.name)
        if id(pool) not in self._nodes:
            self._nodes[id(pool)] = nodes_to_be(pool, self.cluster, self._overlays)
        return self._nodes[id(pool)]

    def disk_max(self, pool: Pool) -> int | None:
        """Return what the largest disk of a pool has for pods, in bytes; ``None`` where one is not known."""
        return max(all_known(each.most.get(DISK) for each in self.nodes(pool)), default=None)

    @cached_property
    def overlays_in_conflict(self) -> tuple[Conflict, ...]:
        """The NodeOverlays that Karpenter leaves out because of others."""
        return tuple(overlays_in_conflict(self.cluster))

    @cached_property
    def _overlays(self) -> list[Object]:
        left_out = {id(each.overlay) for each in self.overlays_in_conflict}
        return [each for each in active_overlays(self.cluster) if id(each) not in left_out]

    def reaches(self, daemon: DaemonSet, pool: Pool) -> Answer:
        """Say whether one of the cluster's DaemonSets runs on every node of one of its pools.

        Raises:
            KeyError: One of the two is not of the cluster.
        """
        if id(pool) not in self._pools:
            raise KeyError(pool.name)
        if id(pool) not in self._reaches:
            answers = daemon_set_answers(pool, self.cluster)
            self._reaches[id(pool)] = {id(each): answer for each, answer in answers}
        return self._reaches[id(pool)][id(daemon)]

    def match_pool_labels(self, labels: Mapping[str, Any]) -> list[tuple[Pool, Answer]]:
        """Say of each of the cluster's pools whether it makes nodes with some labels."""
        wanted = selection({"nodeSelector": labels})
        return [(pool, any_yes(wanted.takes(node.labels) for node in self.nodes(pool))) for pool in self.cluster.pools]

    def blocking_taint(self, daemon: DaemonSet, pool: Pool) -> Taint | None:
        """Return the taint that alone keeps a DaemonSet off a pool, ``None`` when none does."""
        refusing = refusing_taints(daemon, pool.taints)
        if not refusing or reaches(daemon, replace(pool, taints=()), self.cluster) is Answer.NO:
            return None
        return refusing[0]

    def reaches_as_read(self, daemon: DaemonSet, pool: Pool) -> Answer:
        """Say whether a DaemonSet runs on a pool if every version is like the nearest one that was read."""
        as_read = tuple(replace(each, exact=True) for each in self.cluster.daemon_sets)
        return reaches(replace(daemon, exact=True), pool, replace(self.cluster, daemon_sets=as_read))

    @cached_property
    def _scheduler(self) -> Scheduler:
        return Scheduler(self.cluster, [self.nodes(pool) for pool in self.cluster.every_pool], self._admission)

    @cached_property
    def _admission(self) -> Admission:
        return Admission(self.cluster)

    def admitted(self, workload: Workload) -> Admitted:
        """Return one of the cluster's workloads as the API server lets its pods in."""
        return self._admission.admit(workload)

    def shortages(self, workload: Workload) -> tuple[Shortage, ...]:
        """Return what the quotas of its namespace have too little of for one of the cluster's workloads."""
        return self._admission.shortages(workload)

    def verdict(self, workload: Workload) -> Verdict:
        """Say whether the pods of one of the cluster's workloads would run if it were alone, and where."""
        if id(workload) not in self._verdicts:
            self._verdicts[id(workload)] = self._scheduler.verdict(workload)
        return self._verdicts[id(workload)]

    def with_replicas(self, workload: Workload, replicas: int) -> Verdict:
        """Return what would become of one of the cluster's workloads with so many pods."""
        return self._scheduler.verdict(replace(workload, replicas=replicas))

    @cached_property
    def gpu_workloads(self) -> tuple[Workload, ...]:
        """The workloads that ask for GPUs, by themselves or because a LimitRange gives them some."""
        given = bool(self.cluster.objects_of_kind("LimitRange"))
        return tuple(
            each
            for each in self.cluster.workloads
            if each.asks_for_gpu or (given and self.admitted(each).workload.asks_for_gpu)
        )

    @cached_property
    def gpu_programs(self) -> tuple[tuple[Workload, Container, Program], ...]:
        """Each program for GPUs of each of those workloads, with its container."""
        # Workloads that are alike share a pod.
        known: dict[int, list[tuple[Container, Program]]] = {}
        for each in self.gpu_workloads:
            if id(each.pod) not in known:
                known[id(each.pod)] = [(one, found) for one in each.pod.containers or () for found in programs(one)]
        return tuple((each, *found) for each in self.gpu_workloads for found in known[id(each.pod)])

    @cached_property
    def judged_workloads(self) -> tuple[Workload, ...]:
        """Those workloads, and those of which only deployment tells whether they ask for GPUs."""
        of_gpus = {id(each) for each in self.gpu_workloads}
        return tuple(each for each in self.cluster.workloads if id(each) in of_gpus or each.pod.may_ask_for_gpu)

    @cached_property
    def _without_gpus(self) -> Mapping[int, list[Workload]]:
        """Workloads that ask for no GPU, by the identity of their owner."""
        of_gpus = {id(each) for each in self.judged_workloads}
        found: dict[int, list[Workload]] = {}
        for each in self.cluster.workloads:
            if id(each) not in of_gpus:
                found.setdefault(id(each.owner), []).append(each)
        return found

    def partners(self, workload: Workload) -> Sequence[Workload]:
        """Return the roles without GPUs of the same object, such as Ray's head or an MPI launcher.

        GPU pods wait for them, so that none of them works where one has no node.
        """
        return self._without_gpus.get(id(workload.owner), ())

    @cached_property
    def with_built_in_pools(self) -> Case | None:
        """The case of the cluster's built-in pools alone, which take pods without GPUs; ``None`` if it has none."""
        pools = built_in_pools(self.cluster)
        return Case(replace(self.cluster, pools=pools, observed=())) if pools else None

    @cached_property
    def gpu_claims(self) -> tuple[tuple[Workload, Claimed], ...]:
        """Each claim of storage of each of those workloads."""
        return tuple((each, claim) for each in self.gpu_workloads for claim in claimed(each, self.cluster))

    @cached_property
    def queued_jobs(self) -> tuple[QueuedJob, ...]:
        """The jobs with GPUs that name a queue of Kueue."""
        return tuple(queued_jobs(self.cluster))

    @cached_property
    def scalers(self) -> tuple[Scaler, ...]:
        """The objects that change the number or the size of pods."""
        return read_scalers(self.cluster)

    @cached_property
    def replica_scalers(self) -> tuple[Scaler, ...]:
        """The HorizontalPodAutoscalers and ScaledObjects, except the objects that KEDA makes of its ScaledObjects."""
        found = (each for each in self.scalers if each.kind in (HPA, SCALED_OBJECT))
        return tuple(each for each in found if each.kind == SCALED_OBJECT or not each.is_made_by_keda)

    @cached_property
    def signals(self) -> tuple[tuple[Scaler, Signal], ...]:
        """Each of those with each measurement that it scales by."""
        return tuple((each, signal) for each in self.replica_scalers for signal in each.signals)

    @cached_property
    def gpu_signals(self) -> tuple[tuple[Scaler, Signal], ...]:
        """Those that measure GPUs."""
        return tuple((each, signal) for each, signal in self.signals if "DCGM_" in signal.meaning)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each workload that asks for GPUs, beside the others."""
        return check_contention(map(self.verdict, self.gpu_workloads), self.services_without_gpus)

    @cached_property
    def services_without_gpus(self) -> tuple[Verdict, ...]:
        """The verdict on each workload that asks for no GPU, stays, and may take room on GPU nodes."""
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
        """Return a verdict as it is with other verdicts on pools, and with what holds the workload back."""
        return self._scheduler.combine_pool_results(verdict.workload, verdict.demand, pools, held)

    def candidate_nodes(self, workload: Workload) -> tuple[tuple[Pool, NodeToBe], ...]:
        """Return a node of each instance type that may run a pod: one that it selects and that has its GPUs."""
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
            # With the verdicts, which many workloads share, so that no others are given the same id.
            found = tuple(each.pool for each in verdicts if each.answer is not Answer.NO)
            self._open_pools[id(verdicts)] = verdicts, found
        return self._open_pools[id(verdicts)][1]


def _blocks_every_pod(reason: Reason) -> bool:
    """Whether a reason keeps every pod of a workload off all nodes: where there are too many, some run."""
    return reason.answer is Answer.NO and reason.kind not in ("limit", "topology")
