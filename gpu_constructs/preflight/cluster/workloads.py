"""Pods and everything that makes pods.

Sources: https://kubernetes.io/docs/concepts/workloads/, https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/,
https://lws.sigs.k8s.io/docs/reference/leaderworkerset.v1/, https://docs.ray.io/en/latest/cluster/kubernetes/ (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_constructs.facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL, TRAINING_JOBS
from gpu_constructs.preflight.model.cluster import Workload
from gpu_constructs.preflight.model.pod import Pod, read_pod
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import dig, is_true, known_number, known_text, mapping, mappings

# Kinds whose pods stand in `spec.template`.
_PLAIN = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Rollout", "Revision")
# Built-in priority classes.
_PRIORITIES = {CLUSTER_CRITICAL: 2_000_000_000, NODE_CRITICAL: 2_000_001_000}


def workloads(objects: Iterable[Object]) -> tuple[Workload, ...]:
    """Return the pods of some objects, DaemonSets apart."""
    every = list(objects)
    classes = {each.name: known_number(each.content.get("value")) for each in every if each.kind == "PriorityClass"}
    priorities = {**_PRIORITIES, **classes}
    # Most pods are alike: what is written alike is read once.
    pods: dict[str, Pod] = {}
    return tuple(_typed(each, pods, priorities) for owner in every for each in _of(owner))


def _typed(workload: dict[str, Any], pods: dict[str, Pod], priorities: Mapping[str, int | None]) -> Workload:
    spec = workload.pop("spec")
    written = repr(spec)
    if written not in pods:
        pods[written] = read_pod(spec)
    pod = pods[written]
    name = known_text(pod.priority_class)
    return Workload(**workload, pod=pod, priority=priorities.get(name) if name else 0)


def _of(each: Object) -> Iterator[dict[str, Any]]:
    spec = each.spec
    if each.kind == "Pod":
        yield _workload(each, each.content, 1)
    elif each.kind in _PLAIN:
        yield _workload(each, spec.get("template"), _count(spec.get("replicas")))
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


def _workload(
    owner: Object, template: Any, replicas: int | None, *, part: str = "", together: bool = False
) -> dict[str, Any]:
    place = f"{owner.kind} {owner.namespace}/{owner.name}"
    return {
        "name": f"{place} {part}" if part else place,
        "namespace": owner.namespace,
        "origin": owner.origin,
        "spec": mapping(dig(template, "spec")),
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


def _count(value: Any, absent: int = 1) -> int | None:
    if value is None:
        return absent
    number = known_number(value)
    return max(number, 0) if number is not None else None


def _job_pods(spec: Mapping[str, Any]) -> int | None:
    parallelism, completions = _count(spec.get("parallelism")), spec.get("completions")
    wanted = _count(completions)
    return min(parallelism, wanted) if completions is not None and parallelism and wanted else parallelism


def _job(owner: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    return _workload(owner, spec.get("template"), _job_pods(spec), together=spec.get("completionMode") == "Indexed")


def _job_set(owner: Object) -> Iterator[dict[str, Any]]:
    for part in mappings(owner.spec.get("replicatedJobs")):
        spec = mapping(dig(part, "template", "spec"))
        pods, jobs = _job_pods(spec), _count(part.get("replicas"))
        count = None if pods is None or jobs is None else pods * jobs
        yield _workload(owner, spec.get("template"), count, part=str(part.get("name")), together=True)


def _leader_workers(owner: Object) -> Iterator[dict[str, Any]]:
    groups, size = _count(owner.spec.get("replicas")), _count(dig(owner.spec, "leaderWorkerTemplate", "size"))
    template = mapping(owner.spec.get("leaderWorkerTemplate"))
    leader, worker = template.get("leaderTemplate"), template.get("workerTemplate")
    workers = None if groups is None or size is None else groups * (size - 1 if leader else size)
    if leader:
        yield _workload(owner, leader, groups, part="leader", together=True)
    if workers != 0:
        yield _workload(owner, worker, workers, part="worker", together=True)


def _ray(owner: Object) -> Iterator[dict[str, Any]]:
    inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(owner.kind)
    spec = mapping(owner.spec.get(inner)) if inner else owner.spec
    yield _workload(owner, dig(spec, "headGroupSpec", "template"), 1, part="head")
    for group in mappings(spec.get("workerGroupSpecs")):
        hosts, replicas = _count(group.get("numOfHosts")), _count(group.get("replicas"), absent=0)
        least = _count(group.get("minReplicas"), absent=0)
        wanted = None if hosts is None or replicas is None or least is None else max(replicas, least) * hosts
        name = str(group.get("groupName"))
        yield _workload(owner, group.get("template"), wanted, part=name, together=bool(hosts and hosts > 1))


def _training(owner: Object) -> Iterator[dict[str, Any]]:
    for key, value in owner.spec.items():
        if key.endswith("ReplicaSpecs"):
            for part, spec in mapping(value).items():
                yield _workload(owner, dig(spec, "template"), _count(dig(spec, "replicas")), part=part, together=True)
