"""Kueue's queues, quotas and flavors, and the jobs that wait in them.

Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpu_facts.charts import KUEUE
from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE, SET_AT_RUN_TIME
from gpu_facts.light import dataclass
from gpu_facts.quantities import quantity
from gpu_facts.resources import NVIDIA
from gpu_preflight.cluster.objects import is_selected
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.taints import Toleration, tolerations
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping, mappings

# Kinds whose pods Kueue admits together. For other kinds, it admits each pod separately.
_WHOLE = ("Job", "CronJob", "JobSet", "RayCluster", "RayJob", *TRAINING_JOBS)
# Labels that an AWS controller or an agent sets on running nodes.
_GIVEN_LATER = (*SET_AT_RUN_TIME, "topology.k8s.aws/")
_SMALLER = (f"{KUEUE_DOMAIN}/job-min-parallelism", f"{KUEUE_DOMAIN}/elastic-job")
_OTHER_RESOURCES = ("IgnoreUndeclared", "transformations:", "excludeResourcePrefixes:")


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that requests GPUs and waits in a queue.

    Attributes:
        name: ``Kind namespace/name``.
        namespace: Its namespace.
        origin: Its place in the input.
        queue: Name of the LocalQueue.
        parts: Its pods, including pods without GPUs.
        local: The LocalQueue, if it is in the input.
        cluster_queue: The ClusterQueue of the LocalQueue, if it is in the input.
    """

    name: str
    namespace: str
    origin: Origin
    queue: str
    parts: tuple[Workload, ...]
    local: Object | None
    cluster_queue: Object | None

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.name


@dataclass(frozen=True, slots=True)
class Quotas:
    """A group of resources of a ClusterQueue.

    Attributes:
        covered: The resources.
        flavors: For each flavor, the max amount of each resource for a job; ``None`` without limit.
        unknown: Flavors and resources whose quota is known at deployment only.
    """

    covered: tuple[str, ...]
    flavors: Mapping[str, Mapping[str, int | None]]
    unknown: frozenset[tuple[str, str]] = frozenset()

    def short(self, flavor: str, wanted: Mapping[str, int]) -> tuple[str, int] | None:
        """Return a resource whose max amount in a flavor is too low, and that amount; ``None`` if all suffice."""
        for name, amount in wanted.items():
            most = self.flavors[flavor].get(name, 0)
            if most is not None and amount > most:
                return name, most
        return None


class ResourceQuota(NamedTuple):
    """Quota of a resource. An amount is ``None`` if it isn't known, a borrowing limit also if there is none."""

    name: Any
    nominal: int | None
    borrowing_limit: int | None


class FlavorQuotas(NamedTuple):
    """Quotas of a flavor. Its name is as it is written."""

    name: Any
    resources: tuple[ResourceQuota, ...]


class ResourceGroup(NamedTuple):
    """Resources that a ClusterQueue or a Cohort covers, as they are written, and their quotas."""

    covered: tuple[Any, ...]
    flavors: tuple[FlavorQuotas, ...]


def resource_groups(queue: Object) -> Iterator[ResourceGroup]:
    """Yield the resource groups of a ClusterQueue or a Cohort."""
    for group in mappings(queue.spec.get("resourceGroups")):
        flavors = ((each.get("name"), mappings(each.get("resources"))) for each in mappings(group.get("flavors")))
        quotas_ = tuple(FlavorQuotas(name, tuple(map(_resource_quota, listed))) for name, listed in flavors)
        yield ResourceGroup(tuple(items(group.get("coveredResources"))), quotas_)


def _resource_quota(written: Mapping[str, Any]) -> ResourceQuota:
    name = written.get("name")
    amounts = (quantity(str(name), written.get(key)) for key in ("nominalQuota", "borrowingLimit"))
    return ResourceQuota(name, *amounts)


def kueue_objects(cluster: Cluster, kind: str) -> list[Object]:
    """Return the objects of a Kueue kind."""
    return [each for each in cluster.objects_of_kind(kind) if each.group == KUEUE_DOMAIN]


def local_queues(cluster: Cluster) -> dict[tuple[str, str], Object]:
    """Return every LocalQueue by namespace and name."""
    return {(each.namespace, each.name): each for each in kueue_objects(cluster, "LocalQueue")}


def cluster_queue(local: Object | None, cluster: Cluster) -> Object | None:
    """Return the ClusterQueue of a LocalQueue, if it is in the input."""
    name = local.spec.get("clusterQueue") if local else None
    queues = [each for each in kueue_objects(cluster, "ClusterQueue") if each.name == name]
    return queues[-1] if queues else None


def is_queued(workload: Workload) -> bool:
    """Whether Kueue decides when a workload starts."""
    return workload_queue(workload) is not None


def workload_queue(workload: Workload) -> Any:
    """Return the field that names the queue of a workload; ``None`` if it waits in no queue."""
    of_owner = _queue(workload.owner)
    return workload.labels.get(KUEUE_QUEUE) if of_owner is None else of_owner


def candidate_flavors(workload: Workload, cluster: Cluster) -> list[Object]:
    """Return the flavors on which Kueue may start a workload; all flavors if its ClusterQueue isn't known."""
    queue = find_cluster_queue(workload, cluster)
    every = kueue_objects(cluster, "ResourceFlavor")
    groups = quotas(queue) if queue else []
    names = {name for group in groups for name in group.flavors}
    known = bool(groups) and all(each.flavors for each in groups) and not any(map(is_expression, names))
    return [each for each in every if each.name in names] if known else every


def find_cluster_queue(workload: Workload, cluster: Cluster) -> Object | None:
    """Return the ClusterQueue for the queue of a workload, if it is in the input."""
    name = known_text(workload_queue(workload))
    return cluster_queue(local_queues(cluster).get((workload.namespace, name)) if name else None, cluster)


def queued_jobs(cluster: Cluster) -> list[QueuedJob]:
    """Return the jobs with GPUs that name a queue."""
    locals_, parts = local_queues(cluster), dict[Origin, list[Workload]]()
    for each in cluster.workloads:
        if _queue(each.owner) is not None:
            parts.setdefault(each.origin, []).append(each)
    found = []
    for origin, group in parts.items():
        owner = group[0].owner
        queue = known_text(_queue(owner))
        if queue and any(each.asks_for_gpu for each in group):
            name = owner.title
            local = locals_.get((owner.namespace, queue))
            behind = cluster_queue(local, cluster)
            found.append(QueuedJob(name, owner.namespace, origin, queue, tuple(group), local, behind))
    return found


def _queue(owner: Object) -> Any:
    """Return the field that names the queue of a job. A CronJob names the queue of its jobs."""
    if owner.kind == "CronJob":
        return dig(owner.spec, "jobTemplate", "metadata", "labels", KUEUE_QUEUE)
    return owner.labels.get(KUEUE_QUEUE)


def pods_at_once(part: Workload) -> int:
    """Return the min number of pods that Kueue admits together."""
    alone = part.owner.kind not in _WHOLE or any(name in part.owner.annotations for name in _SMALLER)
    return 1 if alone or not part.replicas else part.replicas


def quotas(queue: Object, cluster: Cluster | None = None) -> list[Quotas]:
    """Return the groups of resources of a ClusterQueue.

    Args:
        queue: The ClusterQueue.
        cluster: Its cluster. The other queues of the cluster limit how much the queue may borrow.
    """
    cohort, found = _cohort(queue), []
    shared = _nominal_of_cohort(cohort, cluster) if cluster and isinstance(cohort, str) else {}
    for group in resource_groups(queue):
        flavors: dict[str, dict[str, int | None]] = {}
        unknown = set()
        for flavor in group.flavors:
            bounds = flavors[str(flavor.name)] = dict[str, int | None]()
            for each in flavor.resources:
                key = str(flavor.name), str(each.name)
                bounds[key[1]] = _most(each, cohort, shared.get(key))
                if each.nominal is None:
                    unknown.add(key)
        covered = tuple(name for name in group.covered if isinstance(name, str))
        found.append(Quotas(covered, flavors, frozenset(unknown)))
    return found


def may_borrow_elsewhere(queue: Object, cluster: Cluster) -> bool:
    """Whether a queue has a cohort without another queue in the input. The other queues may be elsewhere."""
    cohort = _cohort(queue)
    members = [each for each in kueue_objects(cluster, "ClusterQueue") if _cohort(each) == cohort]
    return bool(cohort) and len(members) < 2


def has_unknown_groups(queue: Object) -> bool:
    """Whether some resource group, flavor or resource of a ClusterQueue is known at deployment only."""
    groups = queue.spec.get("resourceGroups")
    flavors = [one for each in items(groups) for one in items(dig(each, "flavors"))]
    parts = [groups, *items(groups), *(dig(each, "flavors") for each in items(groups)), *flavors]
    parts += [dig(each, "resources") for each in flavors]
    return any(isinstance(each, Unknown) for each in parts)


def _cohort(queue: Object) -> object:
    return queue.spec.get("cohortName") or queue.spec.get("cohort")


def _nominal_of_cohort(cohort: str, cluster: Cluster) -> dict[tuple[str, str], int | None]:
    """Return the sum of the nominal quotas of a cohort, which none of its queues exceeds; ``None`` without limit.

    A cohort with a parent can also borrow from the parent, so it has no limit here.
    Source: https://kueue.sigs.k8s.io/docs/concepts/cohort/ (2026-11)
    """
    own = [each for each in kueue_objects(cluster, "Cohort") if each.name == cohort]
    if any(each.spec.get("parentName") or each.spec.get("parent") for each in own):
        return {}
    members = [each for each in kueue_objects(cluster, "ClusterQueue") if _cohort(each) == cohort]
    if any(isinstance(_cohort(each), Unknown) for each in kueue_objects(cluster, "ClusterQueue")):
        return {}
    found: dict[tuple[str, str], int | None] = {}
    for queue in (*members, *own):
        for flavor in (each for group in resource_groups(queue) for each in group.flavors):
            for each in flavor.resources:
                key = str(flavor.name), str(each.name)
                before = found.get(key, 0)
                found[key] = None if each.nominal is None or before is None else before + each.nominal
    return found


def _most(quota: ResourceQuota, cohort: object, shared: int | None) -> int | None:
    """Return the max amount of a resource that a queue may use of a flavor; ``None`` without limit.

    Args:
        quota: Its quota.
        cohort: The queue's cohort, if it has one.
        shared: Sum of the cohort's nominal quotas of that flavor.
    """
    nominal, borrowed = quota.nominal, quota.borrowing_limit
    if not cohort or nominal is None:
        return nominal
    bounds = [each for each in (None if borrowed is None else nominal + borrowed, shared) if each is not None]
    return min(bounds, default=None)


def gpu_flavors(cluster: Cluster) -> list[Object]:
    """Return the flavors for which a ClusterQueue has a quota of GPUs."""
    used = {
        flavor
        for queue in kueue_objects(cluster, "ClusterQueue")
        for group in quotas(queue)
        for flavor, resources in group.flavors.items()
        if any(name.startswith(NVIDIA) and most != 0 for name, most in resources.items())
    }
    return [each for each in kueue_objects(cluster, "ResourceFlavor") if each.name in used]


def flavor_labels(flavor: Object) -> Mapping[str, Any]:
    """Return the labels of a flavor's nodes, except labels that a controller or an agent sets on running nodes."""
    labels = mapping(flavor.spec.get("nodeLabels"))
    return {key: value for key, value in labels.items() if not key.startswith(_GIVEN_LATER)}


def flavor_tolerations(flavor: Object) -> tuple[Toleration, ...]:
    """Return the tolerations that Kueue adds to pods that it starts on a flavor."""
    return tolerations(flavor.spec.get("tolerations"))


def is_configuration_seen(cluster: Cluster) -> bool:
    """Whether the input has Kueue's configuration: in its release, or in the ConfigMap that it reads."""
    return cluster.chart(KUEUE) is not None or any(KUEUE in each.name for each in cluster.objects_of_kind("ConfigMap"))


def reads_other_resources(cluster: Cluster) -> bool:
    """Whether Kueue is configured to count other resources than the pods' requests."""
    chart = cluster.chart(KUEUE)
    maps = [mapping(each.content.get("data")) for each in cluster.objects_of_kind("ConfigMap") if KUEUE in each.name]
    texts = [dig(chart.values, "managerConfig", "controllerManagerConfigYaml")] if chart else []
    texts += [value for each in maps for value in each.values()]
    if any(isinstance(each, Unknown) for each in texts):
        return True
    lines = [line for text in texts for line in str(text).splitlines() if not line.lstrip().startswith("#")]
    return any(word in line for line in lines for word in _OTHER_RESOURCES)


def accepts_namespace(queue: Object, namespace: str, cluster: Cluster) -> Answer:
    """Return whether a ClusterQueue accepts the jobs of a namespace. Without a selector it accepts none."""
    selector = queue.spec.get("namespaceSelector")
    return Answer.NO if selector is None else is_selected(selector, namespace, cluster)
