"""Jobs of Volcano and of Kubeflow's trainer.

Sources: volcano-sh/apis v1.15.0 pkg/apis/batch/v1alpha1/job.go; kubeflow/trainer v2.3.0
pkg/apis/trainer/v1alpha1/trainjob_types.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_facts.charts import VOLCANO
from gpu_preflight.cluster.operators.part import OPEN, Part, count, named
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_number, mapping, mappings

_ROLE = "trainer.kubeflow.org/trainjob-ancestor-step"
_OVERRIDES = ("runtimePatches", "podTemplateOverrides", "podSpecOverrides")
_RUNTIMES = ("ClusterTrainingRuntime", "TrainingRuntime")


def volcano_job(owner: Object) -> Iterator[Part]:
    """Yield the pods of each task."""
    tasks = mappings(owner.spec.get("tasks"))
    counts = [count(each.get("replicas")) for each in tasks]
    total = sum(each or 0 for each in counts)
    least = known_number(owner.spec.get("minAvailable"))
    together = least is None or least >= total
    for number, (task, replicas) in enumerate(zip(tasks, counts, strict=True)):
        template = _scheduled_by(mapping(task.get("template")), owner.spec.get("schedulerName") or VOLCANO)
        yield Part(str(task.get("name") or number), template, replicas, together)


def _scheduled_by(template: Mapping[str, Any], scheduler: Any) -> dict[str, Any]:
    spec = mapping(template.get("spec"))
    return {**template, "spec": {"schedulerName": scheduler, **spec}}


def train_job(owner: Object, every: Iterable[Object]) -> Iterator[Part]:
    """Yield the pods that train, in the runtime that is named."""
    trainer, runtime = (
        mapping(owner.spec.get("trainer")),
        named(dig(owner.spec, "runtimeRef", "name"), _RUNTIMES, every),
    )
    own: dict[str, Any] = {key: trainer[key] for key in ("image", "command", "args", "env") if key in trainer}
    if "resourcesPerNode" in trainer:
        own["resources"] = trainer["resourcesPerNode"]
    open_parts = OPEN if runtime is None or any(owner.spec.get(each) for each in _OVERRIDES) else {}
    template = _step(runtime) if runtime else {}
    spec = mapping(template.get("spec"))
    default = dig(runtime.spec, "mlPolicy", "numNodes") if runtime else None
    nodes = trainer.get("numNodes", default if runtime else Unknown("${numNodes of the runtime}"))
    pod = {**spec, **open_parts, "containers": _with_own(mappings(spec.get("containers")), own)}
    yield Part("", {**template, "spec": pod}, count(nodes), together=True)


def _step(runtime: Object) -> dict[str, Any]:
    """Return the pod template of a runtime's step that trains."""
    jobs = mappings(dig(runtime.spec, "template", "spec", "replicatedJobs"))
    marked = [each for each in jobs if dig(each, "template", "metadata", "labels", _ROLE) == "trainer"]
    chosen = marked or [each for each in jobs if each.get("name") == "node"] or jobs[-1:]
    return mapping(dig(chosen[0], "template", "spec", "template")) if chosen else {}


def _with_own(containers: list[dict[str, Any]], own: dict[str, Any]) -> list[dict[str, Any]]:
    """Return containers of which the one that works has what an object says of it."""
    if not containers:
        return [{"name": "node", **own}]
    working = next((each for each in containers if each.get("name") == "node"), containers[0])
    return [{**each, **own} if each is working else each for each in containers]
