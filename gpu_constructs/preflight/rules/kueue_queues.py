"""Jobs that Kueue never admits, or admits to nodes that do not take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_constructs.known_software import LABELS_SET_AT_RUN_TIME
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.kueue import (
    GROUP,
    QueuedJob,
    as_admitted,
    cluster_queues,
    gpu_flavors,
    is_shut,
    kueue_objects,
    local_queues,
    pods_at_once,
    queued_jobs,
    quotas,
    reads_other_resources,
)
from gpu_constructs.preflight.model import Cluster, Object, Pool
from gpu_constructs.preflight.node_selection import selection
from gpu_constructs.preflight.nodes import nodes_to_be
from gpu_constructs.preflight.pod_size import pod_requests
from gpu_constructs.preflight.quantity import show
from gpu_constructs.preflight.rules.definitions import is_defined
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.taints import untolerated
from gpu_constructs.preflight.unknown import items, known_text, mapping, mappings

_CONCEPTS = "https://kueue.sigs.k8s.io/docs/concepts"
# Labels that a controller of AWS or an agent gives to nodes that run.
_GIVEN_LATER = (*LABELS_SET_AT_RUN_TIME, "topology.k8s.aws/")


def _no_queue(cluster: Cluster) -> Iterator[Problem]:
    if cluster.sees_software and not is_defined(GROUP, cluster):
        return
    found = list(local_queues(cluster).values())
    for job in queued_jobs(cluster):
        elsewhere = [each.namespace for each in found if each.name == job.queue]
        if job.local is not None or not (found or cluster.sees_software):
            continue
        hint = f"; {elsewhere[0]} has one of that name" if elsewhere else ""
        message = f"{job.name}: namespace {job.namespace} has no LocalQueue {job.queue}{hint}"
        yield Problem(job.origin, message, unknown=not cluster.sees_software)


def _dangling(cluster: Cluster) -> Iterator[Problem]:
    for each in kueue_objects(cluster, "LocalQueue"):
        yield from _missing(cluster, each, "ClusterQueue", [each.spec.get("clusterQueue")])
    for each in kueue_objects(cluster, "ClusterQueue"):
        groups = mappings(each.spec.get("resourceGroups"))
        flavors = [flavor.get("name") for group in groups for flavor in mappings(group.get("flavors"))]
        yield from _missing(cluster, each, "ResourceFlavor", flavors)
    for each in kueue_objects(cluster, "ResourceFlavor"):
        yield from _missing(cluster, each, "Topology", [each.spec.get("topologyName")])


def _missing(cluster: Cluster, source: Object, kind: str, names: Iterable[object]) -> Iterator[Problem]:
    there = {each.name for each in kueue_objects(cluster, kind)}
    for name in names:
        if known_text(name) and name not in there and (there or cluster.sees_software):
            message = f"{source.kind} {source.name}: nothing defines {kind} {name}"
            yield Problem(source.origin, message, unknown=not cluster.sees_software)


def _never_admitted(cluster: Cluster) -> Iterator[Problem]:
    if reads_other_resources(cluster):
        return
    for job in queued_jobs(cluster):
        queue = cluster_queues(cluster).get(job.cluster_queue or "")
        for part in job.parts if queue else ():
            asked = {name: amount for name, amount in pod_requests(part.pod).items() if name != "pods" and amount}
            yield from _too_much(cluster, job, queue, asked, pods_at_once(part))


def _too_much(
    cluster: Cluster, job: QueuedJob, queue: Object | None, asked: dict[str, int], pods: int
) -> Iterator[Problem]:
    if queue is None:
        return
    covered = {name for group in quotas(queue) for name in group.covered}
    undeclared = sorted(asked.keys() - covered)
    if undeclared and covered:
        message = f"{job.name}: ClusterQueue {queue.name} has no quota of {', '.join(undeclared)}"
        yield Problem(job.origin, message, unknown=not is_defined(GROUP, cluster))
    for group in quotas(queue):
        wanted = {name: asked[name] * pods for name in group.covered if name in asked}
        short = [group.short(flavor, wanted) for flavor in group.flavors]
        if short and all(short):
            name, most = next(each for each in short if each)
            shown = f"{pods} pods ask for {show(name, wanted[name])} {name} at once"
            message = f"{job.name}: {shown}, ClusterQueue {queue.name} gives at most {show(name, most)} of one flavor"
            yield Problem(job.origin, message)


def _taking(cluster: Cluster, labels: dict[str, object]) -> list[tuple[Pool, Answer]]:
    """Return whether the nodes of each pool have the labels of a flavor."""
    certain = {key: value for key, value in labels.items() if not key.startswith(_GIVEN_LATER)}
    wanted = selection({"nodeSelector": certain})
    found = []
    for pool in cluster.pools:
        answers = [wanted.takes(node.labels) for node in nodes_to_be(pool, cluster)]
        best = Answer.YES if Answer.YES in answers else Answer.UNKNOWN if Answer.UNKNOWN in answers else Answer.NO
        found.append((pool, best))
    return found


def _nowhere(cluster: Cluster) -> Iterator[Problem]:
    for flavor in gpu_flavors(cluster):
        labels = mapping(flavor.spec.get("nodeLabels"))
        taking = _taking(cluster, labels)
        if labels and taking and all(answer is Answer.NO for _, answer in taking):
            shown = ", ".join(f"{key}={value}" for key, value in labels.items())
            message = f"ResourceFlavor {flavor.name}: no pool has nodes with {shown}"
            yield Problem(flavor.origin, message, unknown=not cluster.whole)


def _untolerated(cluster: Cluster) -> Iterator[Problem]:
    used = {each.name: each for each in gpu_flavors(cluster)}
    for job in queued_jobs(cluster):
        queue = cluster_queues(cluster).get(job.cluster_queue or "")
        names = [flavor for group in quotas(queue) for flavor in group.flavors] if queue else []
        for flavor in [used[name] for name in dict.fromkeys(names) if name in used]:
            yield from _kept_off(cluster, job, flavor)


def _kept_off(cluster: Cluster, job: QueuedJob, flavor: Object) -> Iterator[Problem]:
    pools = [pool for pool, answer in _taking(cluster, mapping(flavor.spec.get("nodeLabels"))) if answer is Answer.YES]
    for part in job.parts:
        if not part.asks_for_gpu:
            continue
        admitted = as_admitted(part.pod, flavor)
        kept = [untolerated(admitted, pool.taints) for pool in pools if pool in cluster.gpu_pools]
        if kept and all(any(answer is Answer.NO for _, answer in each) for each in kept):
            taint = next(taint for taint, answer in kept[0] if answer is Answer.NO)
            message = f"{part.name}: neither it nor ResourceFlavor {flavor.name} tolerates {taint} of the pool"
            yield Problem(flavor.origin, message)


def _texts(values: object) -> list[str]:
    return [text if (text := known_text(each)) is not None else "?" for each in items(values)]


def _order(cluster: Cluster) -> Iterator[Problem]:
    for each in kueue_objects(cluster, "ClusterQueue"):
        for group in mappings(each.spec.get("resourceGroups")):
            covered = _texts(group.get("coveredResources"))
            for flavor in mappings(group.get("flavors")):
                listed = _texts([resource.get("name") for resource in mappings(flavor.get("resources"))])
                if covered and listed != covered and "?" not in (*covered, *listed):
                    shown = f"flavor {flavor.get('name')} lists {', '.join(listed) or 'nothing'}"
                    message = f"ClusterQueue {each.name}: {shown}, coveredResources {', '.join(covered)}"
                    yield Problem(each.origin, message)


def _shut_out(cluster: Cluster) -> Iterator[Problem]:
    queues = cluster_queues(cluster)
    for each in kueue_objects(cluster, "LocalQueue"):
        queue = queues.get(known_text(each.spec.get("clusterQueue")) or "")
        if queue is not None and is_shut(queue, each.namespace, cluster):
            message = (
                f"LocalQueue {each.namespace}/{each.name}: ClusterQueue {queue.name} takes no jobs of {each.namespace}"
            )
            yield Problem(queue.origin, message)


RULES = (
    Rule(
        id="GPU201",
        severity="error",
        title="Job in a queue that does not exist",
        why="Kueue suspends the job and never admits it.",
        source=f"{_CONCEPTS}/local_queue/",
        fix="Define the LocalQueue in the namespace of the job, or name one that is there.",
        causes=("Q6",),
        check=_no_queue,
    ),
    Rule(
        id="GPU202",
        severity="error",
        title="Queue that refers to something that does not exist",
        why="The queue stays inactive, and its jobs wait without pods.",
        source=f"{_CONCEPTS}/cluster_queue/",
        fix="Define what it names, or correct the name.",
        causes=("Q7",),
        check=_dangling,
    ),
    Rule(
        id="GPU203",
        severity="error",
        title="Job that is more than its queue ever has",
        why="Kueue admits a job when one flavor has quota for all its pods; this one waits without pods for ever.",
        source=f"{_CONCEPTS}/cluster_queue/",
        fix="Give every requested resource a quota of at least the whole job, or make the job smaller.",
        causes=("Q8",),
        check=_never_admitted,
    ),
    Rule(
        id="GPU204",
        severity="error",
        title="Flavor whose nodes no pool makes",
        why="Kueue adds the labels to the pods as node selector, so admitted pods stay Pending.",
        source=f"{_CONCEPTS}/resource_flavor/",
        fix="Put the labels on a pool, or take those a pool has.",
        causes=("Q9",),
        check=_nowhere,
    ),
    Rule(
        id="GPU205",
        severity="error",
        title="Flavor without toleration of its nodes' taint",
        why="Kueue admits the job to nodes whose taint its pods do not tolerate; they stay Pending.",
        source=f"{_CONCEPTS}/resource_flavor/",
        fix="Add the toleration to the ResourceFlavor.",
        causes=("Q10",),
        check=_untolerated,
    ),
    Rule(
        id="GPU206",
        severity="error",
        title="Resources of a flavor in another order than those covered",
        why="Kueue's webhook compares the two lists place by place and refuses the ClusterQueue.",
        source="kubernetes-sigs/kueue v0.19.2 pkg/webhooks/clusterqueue_webhook.go",
        fix="List the resources of each flavor in the order of coveredResources.",
        causes=("Q11",),
        check=_order,
    ),
    Rule(
        id="GPU207",
        severity="error",
        title="Queue that takes no jobs of a namespace",
        why="A ClusterQueue without namespaceSelector takes jobs of no namespace; they wait without pods.",
        source=f"{_CONCEPTS}/cluster_queue/#namespace-selector",
        fix="Set namespaceSelector: {} for every namespace, or one that matches.",
        causes=("Q12",),
        check=_shut_out,
    ),
)
