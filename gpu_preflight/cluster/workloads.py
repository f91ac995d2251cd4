"""Pods and everything that makes pods.

Sources: https://kubernetes.io/docs/concepts/workloads/, https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/,
https://lws.sigs.k8s.io/docs/reference/leaderworkerset.v1/, https://docs.ray.io/en/latest/cluster/kubernetes/ (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL, TRAINING_JOBS
from gpu_facts.labels import EXCLUSIVE_GROUPS
from gpu_preflight.cluster.observed import RunningCluster, is_finished
from gpu_preflight.cluster.operators.part import count
from gpu_preflight.cluster.operators.parts import parts, wrapped
from gpu_preflight.model.exclusive import Exclusive
from gpu_preflight.model.pod import Pod, read_pod
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

# Kinds whose pods stand in `spec.template`.
_PLAIN = ("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Rollout", "Revision")
# Annotations by which the jobs of a JobSet get a topology domain each, as the groups of a LeaderWorkerSet do.
# Source: kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go (2026-11)
_EXCLUSIVE_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
# Stands for the class of pods that name none.
_WITHOUT = ""
# Built-in priority classes: their value, and whether pods of it preempt others.
_PRIORITIES = {_WITHOUT: (0, True), CLUSTER_CRITICAL: (2_000_000_000, True), NODE_CRITICAL: (2_000_001_000, True)}
_Classes = Mapping[str, tuple[int | None, bool]]
# Of a class that nobody wrote.
_NOT_KNOWN = (None, True)


def workloads(objects: Iterable[Object]) -> tuple[Workload, ...]:
    """Return the pods of some objects; of DaemonSets those that ask for GPUs."""
    every = [each for each in objects if not is_finished(each)]
    running = RunningCluster(every)
    priorities: _Classes = {**_PRIORITIES, **dict(_classes(every))}
    # Most pods are alike: what is written alike is read once.
    pods = _Pods()
    owners = [each for each in every if running.owner(each) is None and not _is_of_daemon(each)]
    typed = [_typed(each, pods, priorities) for owner in owners for each in _of(owner, every)]
    return tuple(each for each in running.demands(typed) if each.asks_for_gpu or not each.on_each_node)


def _is_of_daemon(each: Object) -> bool:
    """Whether a DaemonSet made a pod: each node has its own, and nobody makes a node for it."""
    references = mappings(dig(each.content, "metadata", "ownerReferences"))
    return each.kind == "Pod" and any(one.get("kind") == "DaemonSet" for one in references)


def _classes(objects: Iterable[Object]) -> Iterator[tuple[str, tuple[int | None, bool]]]:
    """Yield the value of each priority class, and of pods without one, and whether such pods preempt others.

    Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#non-preempting-priority-class
    (2026-11)
    """
    for each in objects:
        if each.kind == "PriorityClass":
            policy = each.content.get("preemptionPolicy")
            value = None if isinstance(policy, Unknown) else known_number(each.content.get("value"))
            yield each.name, (value, policy != "Never")
            if is_true(each.content.get("globalDefault")):
                yield _WITHOUT, (value, policy != "Never")


class _Pods:
    """The pods that were read so far, by what is written."""

    def __init__(self) -> None:
        self._by_text: dict[str, Pod] = {}
        # With the spec, so that no other is given its identity.
        self._by_identity: dict[int, tuple[Any, Pod]] = {}

    def of(self, spec: dict[str, Any]) -> Pod:
        """Return the pod of a spec."""
        if id(spec) not in self._by_identity:
            written = repr(spec)
            if written not in self._by_text:
                self._by_text[written] = read_pod(spec)
            self._by_identity[id(spec)] = spec, self._by_text[written]
        return self._by_identity[id(spec)][1]


def _typed(workload: dict[str, Any], pods: _Pods, priorities: _Classes) -> Workload:
    pod = pods.of(workload.pop("spec"))
    priority, preempts = priorities.get(known_text(pod.priority_class) or _WITHOUT, _NOT_KNOWN)
    return Workload(**workload, pod=pod, priority=priority, preempts=preempts)


def _of(each: Object, every: list[Object]) -> Iterator[dict[str, Any]]:
    made = [
        _workload(each, one.template, one.replicas, part=one.name, together=one.together) for one in parts(each, every)
    ]
    if made:
        yield from made
        return
    for inner in wrapped(each):
        yield from _of(inner, every)
    yield from _of_known(each)


def _of_known(each: Object) -> Iterator[dict[str, Any]]:
    spec = each.spec
    if each.kind == "Pod":
        yield _workload(each, each.content, 1)
    elif each.kind in _PLAIN:
        replicas = None if each.kind == "DaemonSet" else count(spec.get("replicas"))
        yield _workload(each, spec.get("template"), replicas)
    elif each.kind == "Job":
        yield _job(each, spec)
    elif each.kind == "CronJob":
        yield _job(each, mapping(dig(spec, "jobTemplate", "spec")))
    elif each.kind == "ScaledJob":
        yield _job(each, mapping(spec.get("jobTargetRef")))
    elif each.kind == "JobSet":
        yield from _job_set(each)
    elif each.kind == "LeaderWorkerSet":
        yield from _leader_workers(each)
    elif each.kind in ("RayCluster", "RayJob", "RayService"):
        yield from _ray(each)
    elif each.kind in TRAINING_JOBS:
        yield from _training(each)


def _spec(template: Any) -> dict[str, Any]:
    """Return the pod of a template; of one that only deployment sets, a pod with unknown containers."""
    for part in (template, dig(template, "spec")):
        if isinstance(part, Unknown):
            return {"containers": part}
    return mapping(dig(template, "spec"))


def _workload(
    owner: Object, template: Any, replicas: int | None, *, part: str = "", together: bool = False
) -> dict[str, Any]:
    place = f"{owner.kind} {owner.namespace}/{owner.name}"
    return {
        "name": f"{place} {part}" if part else place,
        "namespace": owner.namespace,
        "origin": owner.origin,
        "spec": _spec(template),
        "labels": mapping(dig(template, "metadata", "labels")),
        "annotations": mapping(dig(template, "metadata", "annotations")),
        "replicas": replicas,
        "together": together,
        "owner": owner,
        "suspended": is_true(owner.spec.get("suspend")),
        "overlaps": owner.kind == "CronJob" and owner.spec.get("concurrencyPolicy") in (None, "Allow"),
        "claim_templates": tuple(
            mapping(each.get("spec")) for each in mappings(owner.spec.get("volumeClaimTemplates"))
        ),
    }


def _job_pods(spec: Mapping[str, Any]) -> int | None:
    parallelism, completions = count(spec.get("parallelism")), spec.get("completions")
    wanted = count(completions)
    return min(parallelism, wanted) if completions is not None and parallelism and wanted else parallelism


def _job(owner: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    made = _workload(owner, spec.get("template"), _job_pods(spec), together=spec.get("completionMode") == "Indexed")
    return made | {"suspended": made["suspended"] or is_true(spec.get("suspend"))}


def _job_set(owner: Object) -> Iterator[dict[str, Any]]:
    parts_ = mappings(owner.spec.get("replicatedJobs"))
    jobs = [count(each.get("replicas")) for each in parts_]
    for place, part in enumerate(parts_):
        spec = mapping(dig(part, "template", "spec"))
        pods, replicas = _job_pods(spec), jobs[place]
        made = None if pods is None or replicas is None else pods * replicas
        workload = _workload(owner, spec.get("template"), made, part=str(part.get("name")), together=True)
        own = mapping(dig(part, "template", "metadata", "annotations"))
        if (key := own.get(_EXCLUSIVE_JOBS, owner.annotations.get(_EXCLUSIVE_JOBS))) is not None:
            others = [*jobs[:place], *jobs[place + 1 :]]
            beside = None if None in others else sum(each or 0 for each in others)
            labelled = _BY_NODE_SELECTOR in own or _BY_NODE_SELECTOR in owner.annotations
            workload["exclusive"] = Exclusive(key, replicas, pods, beside, labelled=labelled)
        yield workload


def _leader_workers(owner: Object) -> Iterator[dict[str, Any]]:
    groups, size = count(owner.spec.get("replicas")), count(dig(owner.spec, "leaderWorkerTemplate", "size"))
    template = mapping(owner.spec.get("leaderWorkerTemplate"))
    leader, worker = template.get("leaderTemplate"), template.get("workerTemplate")
    workers_each = None if size is None else (size - 1 if leader else size)
    workers = None if groups is None or workers_each is None else groups * workers_each
    key = owner.annotations.get(EXCLUSIVE_GROUPS)
    shared = bool(leader) and workers != 0
    if leader:
        exclusive = None if key is None else Exclusive(key, groups, 1, shared=shared)
        yield _workload(owner, leader, groups, part="leader", together=True) | {"exclusive": exclusive}
    if workers != 0:
        exclusive = None if key is None else Exclusive(key, groups, workers_each, shared=shared)
        yield _workload(owner, worker, workers, part="worker", together=True) | {"exclusive": exclusive}


def _ray(owner: Object) -> Iterator[dict[str, Any]]:
    inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(owner.kind)
    spec = mapping(owner.spec.get(inner)) if inner else owner.spec
    yield _workload(owner, dig(spec, "headGroupSpec", "template"), 1, part="head")
    for group in mappings(spec.get("workerGroupSpecs")):
        hosts, replicas = count(group.get("numOfHosts")), count(group.get("replicas"), absent=0)
        least = count(group.get("minReplicas"), absent=0)
        wanted = None if hosts is None or replicas is None or least is None else max(replicas, least) * hosts
        name = str(group.get("groupName"))
        yield _workload(owner, group.get("template"), wanted, part=name, together=bool(hosts and hosts > 1))


def _training(owner: Object) -> Iterator[dict[str, Any]]:
    for key, value in owner.spec.items():
        if key.endswith("ReplicaSpecs"):
            for part, spec in mapping(value).items():
                yield _workload(owner, dig(spec, "template"), count(dig(spec, "replicas")), part=part, together=True)
