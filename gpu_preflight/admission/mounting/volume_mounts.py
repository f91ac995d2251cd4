"""Mounts that the API server takes in no pod: no volume stands behind them, or two are on one path.

Source: kubernetes/kubernetes v1.36.3 pkg/apis/core/validation/validation.go ``ValidateVolumes``,
``ValidateVolumeMounts``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gpu_facts.refusals import did_you_mean
from gpu_preflight.cluster.objects.excerpts import may_be_excerpt
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.reason import Reason
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, all_known, dig, is_expression, items, known_text, mappings

# Whatever else makes pods may give them volumes of its own.
_AS_WRITTEN = ("CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet")
# Volumes that a controller gives its pods, by the kind of their owner.
# Source: kubeflow/mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go; the last is of its v1
_GIVEN = {"MPIJob": ("ssh-auth", "mpi-job-config", "mpi-job-kubectl")}
_TEMPLATES = (("volumeClaimTemplates",), ("leaderWorkerTemplate", "volumeClaimTemplates"))


def not_mounted(workload: Workload) -> Iterator[Reason]:
    """Yield why a workload's pods are refused for what their containers mount."""
    pod, owner = workload.pod.written, workload.owner
    answer = Answer.NO if owner.kind in _AS_WRITTEN else Answer.UNKNOWN
    for text in _faults_of_volumes(pod):
        yield _refusal(text, Answer.NO)
    volumes = None if may_be_excerpt(owner) else _volumes(pod, owner)
    for container in (*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))):
        who, mounts = f"container {container.get('name')}", mappings(container.get("volumeMounts"))
        for text in _faults_of_paths(who, mounts):
            yield _refusal(text, Answer.NO)
        named = [*mounts, *mappings(container.get("volumeDevices"))]
        for text in _without_volume(who, named, volumes) if volumes is not None else ():
            yield _refusal(text, answer)


def _refusal(text: str, answer: Answer) -> Reason:
    return Reason(answer, "refused", f"the API server refuses it: {text}", rule="GPU408")


def _volumes(pod: Mapping[str, Any], owner: Object) -> set[str] | None:
    """Return the names of a pod's volumes; ``None`` where one is not known."""
    made = [dig(owner.spec, *path) for path in _TEMPLATES]
    listed = [pod.get("volumes"), *made]
    if any(isinstance(each, Unknown) for each in listed):
        return None
    templates = [dig(each, "metadata", "name") for part in made for each in items(part)]
    names = [_text(each) for each in (*(dig(each, "name") for each in items(pod.get("volumes"))), *templates)]
    known = all_known(names)
    return {*known, *_GIVEN.get(owner.kind, ())} if len(known) == len(names) else None


def _text(value: Any) -> str | None:
    text = known_text(value)
    return None if text is None or is_expression(text) else text


def _faults_of_volumes(pod: Mapping[str, Any]) -> Iterator[str]:
    for name in _twice(_text(each.get("name")) for each in mappings(pod.get("volumes"))):
        yield f"two volumes are called {name}"


def _faults_of_paths(who: str, mounts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for path in _twice(_text(each.get("mountPath")) for each in mounts):
        yield f"{who} mounts two volumes at {path}"
    for each in mounts:
        inner = _text(each.get("subPath")) or ""
        if inner.startswith("/") or ".." in inner.split("/"):
            yield f"{who} has subPath {inner}, which must be relative and without '..'"


def _without_volume(who: str, mounts: Sequence[Mapping[str, Any]], volumes: Collection[str]) -> Iterator[str]:
    for name in dict.fromkeys(_text(each.get("name")) for each in mounts):
        if name is not None and name not in volumes:
            yield f"{who} mounts volume {name}, which the pod does not have{did_you_mean(name, sorted(volumes))}"


def _twice(values: Iterator[str | None]) -> list[str]:
    return [value for value, count in Counter(values).items() if value is not None and count > 1]
