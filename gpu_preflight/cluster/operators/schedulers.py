"""Schedulers beside the cluster's own: which run, as far as the input says."""

from __future__ import annotations

from gpu_preflight.cluster.definitions import charts_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload

# What programs that schedule are called; the name that pods ask for stands in their configuration.
_CALLED = "scheduler"
_NAME_FLAG = "--scheduler-name"


def scheduler_runs(name: str, cluster: Cluster) -> Answer:
    """Say whether a scheduler of a name runs in a cluster.

    Unknown is one that software of the input may be, by its configuration, and one whose objects stand in a plain file:
    the API server takes them only where somebody installed it.
    """
    releases = {one for each in cluster.charts for one in (each.name, each.origin.path.rpartition("/")[2])}
    if name in releases or any(_is_called(name, each) for each in cluster.workloads):
        return Answer.YES
    hidden = not cluster.sees_programs or any(_CALLED in each for each in releases)
    by_hand = not cluster.charts and any(
        name in charts_of(each) for each in cluster.objects if each.origin.resource is None
    )
    return Answer.UNKNOWN if hidden or by_hand or any(map(_schedules, cluster.workloads)) else Answer.NO


def _is_called(name: str, workload: Workload) -> bool:
    said = (word for each in workload.containers for word in each.words)
    return workload.owner.name == name or f"{_NAME_FLAG}={name}" in said


def _schedules(workload: Workload) -> bool:
    """Whether a workload seems to be a scheduler, of one name or another."""
    images = (each.image_text.rpartition("/")[2] for each in workload.containers)
    return _CALLED in workload.owner.name or any(_CALLED in each for each in images)
