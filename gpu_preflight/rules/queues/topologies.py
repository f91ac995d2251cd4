"""Jobs that ask Kueue for a place in a topology, and flavors that have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.charts import KUEUE
from gpu_facts.labels import KUEUE_DOMAIN
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import QueuedJob, cluster_queues, kueue_objects, quotas
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_expression, items, known_text, mappings
from gpu_preflight.rules.rule import Problem, rule

# What asks for a level of a topology, and what asks for a topology of any levels.
# Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/topology_types.go
_LEVELS = tuple(f"{KUEUE_DOMAIN}/podset-{each}-topology" for each in ("required", "preferred", "slice-required"))
_ANY = (f"{KUEUE_DOMAIN}/podset-unconstrained-topology",)
# The first version that looks at them unless it is told not to.
_SINCE = (0, 14)
_MINOR = regex(r"v?(\d+)\.(\d+)")
_GATE = "TopologyAwareScheduling"


@rule("GPU412", "error", source="kubernetes-sigs/kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go")
def job_whose_topology_no_flavor_has(case: Case) -> Iterator[Problem]:
    """Job whose topology no flavor of its queue has.

    Kueue passes over a flavor without topologyName, or whose Topology lacks the level; the job waits without pods. One
    that asks for none it starts on flavors without topology, where the queue has such.

    Fix: Name a Topology with that level in the ResourceFlavor, or take the annotation off the pods.
    """
    cluster = case.cluster
    seen = _looks_at_topologies(cluster)
    for job in case.queued_jobs if seen is not Answer.NO else ():
        queue = cluster_queues(cluster).get(job.cluster_queue or "")
        for text in dict.fromkeys(_passed_over(job, queue, cluster)) if queue else ():
            yield Problem.of(job, text, unknown=seen is Answer.UNKNOWN)


def _looks_at_topologies(cluster: Cluster) -> Answer:
    """Say whether the Kueue of a cluster schedules by topologies."""
    chart = cluster.chart(KUEUE)
    if chart is None:
        return Answer.UNKNOWN
    found = _MINOR.match(chart.version or "")
    if _GATE in str(chart.values) or found is None:
        return Answer.UNKNOWN
    return Answer.YES if tuple(map(int, found.groups())) >= _SINCE else Answer.NO


def _passed_over(job: QueuedJob, queue: Object, cluster: Cluster) -> Iterator[str]:
    flavors = {each.name: each for each in kueue_objects(cluster, "ResourceFlavor")}
    groups = quotas(queue)
    used = [flavors.get(name) for group in groups for name in group.flavors]
    mixed = any(each is not None and each.spec.get("topologyName") is None for each in used)
    for part in job.parts:
        asked = {name for name, amount in part.pod.requests.items() if amount and name != "pods"}
        for group in groups:
            if asked.isdisjoint(group.covered) or not group.flavors:
                continue
            why = [_why_not(flavors.get(name), part.annotations, mixed, cluster) for name in group.flavors]
            if all(why):
                yield f"{part.name.removeprefix(job.name)} {why[0]}".strip()


def _why_not(flavor: Object | None, annotations: Mapping[str, Any], mixed: bool, cluster: Cluster) -> str:
    """Return why Kueue passes over a flavor; nothing where it does not, or where that is not known."""
    if flavor is None:
        return ""
    wanted = [key for key in (*_LEVELS, *_ANY) if key in annotations]
    topology = flavor.spec.get("topologyName")
    if topology is None:
        return f"asks for {wanted[0]}, and ResourceFlavor {flavor.name} has no topologyName" if wanted else ""
    if not wanted:
        text = f"asks for no topology, and ResourceFlavor {flavor.name} is for jobs that ask for one"
        return text if mixed else ""
    levels = _levels(topology, cluster)
    for key in wanted if levels else ():
        level = known_text(annotations[key])
        if key in _LEVELS and level and not is_expression(level) and level not in levels:
            return f"asks for level {level}, which Topology {topology} of ResourceFlavor {flavor.name} does not have"
    return ""


def _levels(topology: Any, cluster: Cluster) -> tuple[str, ...]:
    """Return the levels of a Topology; none where one of them is not known."""
    found = next((each for each in kueue_objects(cluster, "Topology") if each.name == topology), None)
    written = [known_text(each.get("nodeLabel")) for each in mappings(found.spec.get("levels"))] if found else []
    known = tuple(each for each in written if each and not is_expression(each))
    return known if found and len(known) == len(items(found.spec.get("levels"))) else ()
