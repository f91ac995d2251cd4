"""A planted cause, and builders of the workloads that suffer from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.fleet import FLEET, GPU, NodeSpec, container, device_plugin

if TYPE_CHECKING:
    from tests.e2e.doctor.world import World

UNTOLERATED = r"node\(s\) had untolerated taint\(s\)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One reason why a pod doesn't run, and how to make it come true.

    Attributes:
        name: Name of its folder: ids of the facts, then what is planted.
        why: The planted fault in one sentence.
        first: Ids of causes that may be the first answer.
        until: Regular expressions. Each must match a condition or an event before the dump.
        also: Further ids that must be in the answer.
        never: Ids of look-alikes.
        confidence: The highest confidence that is right.
        nodes: The nodes.
        plugin: The device plugin; ``None`` for none.
        plugin_runs: Whether its pods run.
        serving: Whether a healthy server has one of the GPUs.
        before: Objects that exist before the workload; their pods run.
        change: Called after that.
        objects: The workload, and objects that are created with it.
        after: Called when `until` is true, just before the dump.
        pod: Beginning of the name of the pod that doesn't run; empty if there is no pod.
        owner: Name of the owner without pods in question; empty if the question is about all pods.
        labels: Labels of its namespace.
        logs: Lines of a log, by beginning of the pod's name and container.
        sources: Sources of texts that no real program wrote.
        age_seconds: Seconds between the workload and the dump.
    """

    name: str
    why: str
    first: tuple[str, ...]
    until: tuple[str, ...]
    objects: tuple[Object, ...]
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    confidence: str = "proven"
    nodes: tuple[NodeSpec, ...] = FLEET
    plugin: Object | None = field(default_factory=device_plugin)
    plugin_runs: bool = True
    serving: bool = True
    before: tuple[Object, ...] = ()
    change: Callable[[World], None] | None = None
    after: Callable[[World], None] | None = None
    pod: str = "train"
    owner: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    logs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    age_seconds: float = 0.0


def trainer(
    gpus: int | str = 1, *, resource: str = GPU, cpu: str = "4", memory: str = "16Gi", **spec: object
) -> Object:
    """Return a pod specification with devices; `spec` has more of its fields. No devices: ``gpus=0``."""
    limits = {resource: str(gpus)} if gpus else {}
    return {"containers": [container("registry.example.com/train:v3", limits, cpu=cpu, memory=memory)], **spec}


def job(spec: Object, *, name: str = "train", parallelism: int = 1, **more: object) -> Object:
    """Return a Job."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Never", **spec}}
    counts = {"parallelism": parallelism, "completions": parallelism, "backoffLimit": 0}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**counts, "template": template, **more},
    }


def pod(spec: Object, *, name: str = "train", **labels: str) -> Object:
    """Return a pod without an owner."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **labels}},
        "spec": spec,
    }


def stateful_set(spec: Object, *, name: str = "train", replicas: int = 1, **more: object) -> Object:
    """Return a StatefulSet."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }


def required_node_affinity(*expressions: Object) -> Object:
    """Return an affinity that only accepts nodes with some labels."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
