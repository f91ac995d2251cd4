"""Rules for quotas and topologies of Kueue that the pools can't provide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_facts.charts import KUEUE
from gpu_facts.labels import KUEUE_DOMAIN
from gpu_facts.light import regex
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import QueuedJob, flavor_labels, kueue_objects, quotas, resource_groups
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_expression, items, known_text, mappings
from gpu_preflight.rule import Problem, rule

_SHOWN = 3
# Annotations that request a level of a topology, and a topology with any levels.
# Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/topology_types.go
_LEVELS = tuple(f"{KUEUE_DOMAIN}/podset-{each}-topology" for each in ("required", "preferred", "slice-required"))
_ANY = (f"{KUEUE_DOMAIN}/podset-unconstrained-topology",)
# The first version whose gate for topologies is on by default.
_SINCE = (0, 14)
_MINOR = regex(r"v?(\d+)\.(\d+)")
_GATE = "TopologyAwareScheduling"


@rule("GPU456", "warning", source="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/")
def quota_of_more_gpus_than_the_pools_can_have(case: Case) -> Iterator[Problem]:
    """Quota is larger than the GPUs that the pools can have.

    Kueue admits jobs only by its quota. Pods beyond the pools' maximum stay Pending, and the other pods of their job
    keep their GPUs. Quotas of several queues for one flavor add up.

    Fix: Lower nominalQuota to the GPUs that the pools can have, or raise the maximum of the pools.
    """
    cluster = case.cluster
    if not cluster.whole or cluster.hidden:
        return
    flavors = {each.name: each for each in kueue_objects(cluster, "ResourceFlavor")}
    by_flavor: dict[str, list[tuple[Object, int]]] = {}
    for queue in (each for kind in ("ClusterQueue", "Cohort") for each in kueue_objects(cluster, kind)):
        for name, quota in _nominal(queue) if not _is_external(queue) else ():
            by_flavor.setdefault(name, []).append((queue, quota))
    over = [
        problem
        for name, quotas in by_flavor.items()
        for problem in _excess_quota_problems(quotas, f"of flavor {name}", _flavor_pools(flavors.get(name), case), case)
    ]
    every = [each for quotas in by_flavor.values() for each in quotas]
    yield from over or _excess_quota_problems(every, "in total", case.gpu_pools, case)


def _excess_quota_problems(
    quotas: Sequence[tuple[Object, int]], of: str, pools: Sequence[Pool], case: Case
) -> Iterator[Problem]:
    """Yield a problem if quotas exceed the GPUs that some pools can have."""
    quota, most = sum(amount for _, amount in quotas), _most(pools, case)
    if most is None or not quotas or quota <= most:
        return
    queues = list({id(queue): queue for queue, _ in quotas}.values())
    names = ", ".join(f"{queue.kind} {queue.name}" for queue in queues[:_SHOWN])
    more = f" and {len(queues) - _SHOWN} more" if len(queues) > _SHOWN else ""
    who = f"{names} has" if len(queues) == 1 else f"{names}{more} together have"
    text = f"{who} a quota of {quota} {GPU} {of}, but the GPU pools for it have at most {most}"
    yield Problem(queues[0], text)


def _is_external(queue: Object) -> bool:
    """Whether a queue admits no job, or only jobs for which another program or cluster has capacity.

    Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/clusterqueue_types.go (stopPolicy, admissionChecksStrategy)
    """
    stopped = queue.spec.get("stopPolicy") not in (None, "None")
    return stopped or bool(queue.spec.get("admissionChecks") or queue.spec.get("admissionChecksStrategy"))


def _nominal(queue: Object) -> Iterator[tuple[str, int]]:
    """Yield the name of each flavor with its GPU quota, if known."""
    for flavor in (each for group in resource_groups(queue) for each in group.flavors):
        for each in flavor.resources:
            if each.name == GPU:
                yield str(flavor.name), each.nominal or 0


def _flavor_pools(flavor: Object | None, case: Case) -> list[Pool]:
    """Return the pools whose nodes have, or may have, the labels of a flavor; all GPU pools without a flavor."""
    if flavor is None:
        return list(case.gpu_pools)
    labelled = {id(pool) for pool, answer in case.match_pool_labels(flavor_labels(flavor)) if answer is not Answer.NO}
    return [pool for pool in case.gpu_pools if id(pool) in labelled]


def _most(pools: Sequence[Pool], case: Case) -> int | None:
    """Return the maximum number of GPUs of the pools; ``None`` if it is unlimited or not known."""
    found = [_max_pool_gpus(pool, case) for pool in pools]
    return None if None in found or not found else sum(each or 0 for each in found)


def _max_pool_gpus(pool: Pool, case: Case) -> int | None:
    # Imported here, because few inputs have Kueue's quotas.
    from gpu_preflight.scheduling.pool_limits import node_limit

    limits = [(node, node_limit(pool, node)) for node in case.nodes(pool)]
    if any(limit is None or GPU in node.unsaid or not node.device_managers for node, limit in limits):
        return None
    return max((node.most.get(GPU, 0) * (limit or 0) for node, limit in limits), default=0)


@rule("GPU412", "error", source="kubernetes-sigs/kueue v0.19.2 pkg/scheduler/flavorassigner/tas_flavorassigner.go")
def job_whose_topology_no_flavor_has(case: Case) -> Iterator[Problem]:
    """No flavor of the queue has the job's topology.

    Kueue skips a flavor without topologyName, or whose Topology lacks the level, so the job waits without pods. If the
    queue also has flavors without topology, jobs without a topology request start only on them.

    Fix: Set spec.topologyName of the ResourceFlavor, or remove the annotation from the pods.
    """
    cluster = case.cluster
    seen = _looks_at_topologies(cluster)
    for job in case.queued_jobs if seen is not Answer.NO else ():
        queue = job.cluster_queue
        for text, fix in dict.fromkeys(_passed_over(job, queue, cluster)) if queue else ():
            yield Problem.from_subject(
                job, f"{text}, so Kueue never admits it", fix=fix, unknown=seen is Answer.UNKNOWN
            )


def _looks_at_topologies(cluster: Cluster) -> Answer:
    """Return whether the Kueue of a cluster schedules by topologies."""
    chart = cluster.chart(KUEUE)
    if chart is None:
        return Answer.UNKNOWN
    found = _MINOR.match(chart.version or "")
    if _GATE in str(chart.values) or found is None:
        return Answer.UNKNOWN
    return Answer.YES if tuple(map(int, found.groups())) >= _SINCE else Answer.NO


def _passed_over(job: QueuedJob, queue: Object, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield why Kueue skips every flavor for a part of a job, and the fix; an empty fix is the rule's."""
    flavors = {each.name: each for each in kueue_objects(cluster, "ResourceFlavor")}
    groups = quotas(queue)
    used = [flavors.get(name) for group in groups for name in group.flavors]
    mixed = any(each is not None and each.spec.get("topologyName") is None for each in used)
    for part in job.parts:
        requests = {name for name, amount in part.pod.requests.items() if amount and name != "pods"}
        for group in groups:
            if requests.isdisjoint(group.covered) or not group.flavors:
                continue
            why = [_why_not(flavors.get(name), part.annotations, mixed, cluster) for name in group.flavors]
            if all(text for text, _ in why):
                text, fix = why[0]
                yield f"{part.name.removeprefix(job.name)} {text}".strip(), fix


def _why_not(flavor: Object | None, annotations: Mapping[str, Any], mixed: bool, cluster: Cluster) -> tuple[str, str]:
    """Return why Kueue skips a flavor, and the fix; empty texts if it doesn't, or if that isn't known."""
    if flavor is None:
        return "", ""
    wanted = [key for key in (*_LEVELS, *_ANY) if key in annotations]
    topology = flavor.spec.get("topologyName")
    if topology is None:
        return f"requests {wanted[0]}, but ResourceFlavor {flavor.name} has no topologyName" if wanted else "", ""
    if not wanted:
        text = f"requests no topology, but ResourceFlavor {flavor.name} is only for jobs that request one"
        return (text, f'Annotate the pods with {_ANY[0]}: "true".') if mixed else ("", "")
    levels = _levels(topology, cluster)
    for key in wanted if levels else ():
        level = known_text(annotations[key])
        if key in _LEVELS and level and not is_expression(level) and level not in levels:
            text = f"requests level {level}, which Topology {topology} of ResourceFlavor {flavor.name} doesn't have"
            return text, f"Use one of the levels {', '.join(levels)} in the annotation, or add it to the Topology."
    return "", ""


def _levels(topology: Any, cluster: Cluster) -> tuple[str, ...]:
    """Return the levels of a Topology; empty if one of them isn't known."""
    found = next((each for each in kueue_objects(cluster, "Topology") if each.name == topology), None)
    written = [known_text(each.get("nodeLabel")) for each in mappings(found.spec.get("levels"))] if found else []
    known = tuple(each for each in written if each and not is_expression(each))
    return known if found and len(known) == len(items(found.spec.get("levels"))) else ()
