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

# A job whose pods Kueue admits together; of other kinds it admits each pod by itself.
_WHOLE = ("Job", "CronJob", "JobSet", "RayCluster", "RayJob", *TRAINING_JOBS)
# Labels that a controller of AWS or an agent gives to nodes that run.
_GIVEN_LATER = (*SET_AT_RUN_TIME, "topology.k8s.aws/")
_SMALLER = (f"{KUEUE_DOMAIN}/job-min-parallelism", f"{KUEUE_DOMAIN}/elastic-job")
_OTHER_RESOURCES = ("IgnoreUndeclared", "transformations:", "excludeResourcePrefixes:")


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that asks for GPUs and waits in a queue.

    Attributes:
        name: ``Kind namespace/name``.
        namespace: Its namespace.
        origin: Where it stands.
        queue: Name of the LocalQueue.
        parts: Its pods, those without GPUs included.
        local: The LocalQueue, when it is in the input.
        cluster_queue: The ClusterQueue behind it, when it is in the input.
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
        """Its name as people say it."""
        return self.name


@dataclass(frozen=True, slots=True)
class Quotas:
    """A group of resources of a ClusterQueue.

    Attributes:
        covered: The resources.
        flavors: Of each flavor, the most of each resource that a job may have; ``None`` without bound.
        unknown: Flavors and resources whose quota is known at deployment only.
    """

    covered: tuple[str, ...]
    flavors: Mapping[str, Mapping[str, int | None]]
    unknown: frozenset[tuple[str, str]] = frozenset()

    def short(self, flavor: str, wanted: Mapping[str, int]) -> tuple[str, int] | None:
        """Return a resource of which a flavor never has as much, and how much it has; ``None`` when it has enough."""
        for name, amount in wanted.items():
            most = self.flavors[flavor].get(name, 0)
            if most is not None and amount > most:
                return name, most
        return None


class ResourceQuota(NamedTuple):
    """Quota of a resource. An amount is ``None`` where it is not known, and a borrowing limit where there is none."""

    name: Any
    nominal: int | None
    borrowing_limit: int | None


class FlavorQuotas(NamedTuple):
    """Quotas of a flavor, whose name is as it is written."""

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
    """Return the objects of a kind of Kueue's."""
    return [each for each in cluster.objects_of_kind(kind) if each.group == KUEUE_DOMAIN]


def local_queues(cluster: Cluster) -> dict[tuple[str, str], Object]:
    """Return every LocalQueue by namespace and name."""
    return {(each.namespace, each.name): each for each in kueue_objects(cluster, "LocalQueue")}


def cluster_queue(local: Object | None, cluster: Cluster) -> Object | None:
    """Return the ClusterQueue behind a LocalQueue, when it is in the input."""
    name = local.spec.get("clusterQueue") if local else None
    queues = [each for each in kueue_objects(cluster, "ClusterQueue") if each.name == name]
    return queues[-1] if queues else None


def is_queued(workload: Workload) -> bool:
    """Whether Kueue decides when a workload starts."""
    return workload_queue(workload) is not None


def workload_queue(workload: Workload) -> Any:
    """Return what names the queue of a workload; ``None`` where it waits in none."""
    of_owner = _queue(workload.owner)
    return workload.labels.get(KUEUE_QUEUE) if of_owner is None else of_owner


def candidate_flavors(workload: Workload, cluster: Cluster) -> list[Object]:
    """Return the flavors that Kueue may start a workload on: all of them where its ClusterQueue is not known."""
    queue = find_cluster_queue(workload, cluster)
    every = kueue_objects(cluster, "ResourceFlavor")
    groups = quotas(queue) if queue else []
    names = {name for group in groups for name in group.flavors}
    known = bool(groups) and all(each.flavors for each in groups) and not any(map(is_expression, names))
    return [each for each in every if each.name in names] if known else every


def find_cluster_queue(workload: Workload, cluster: Cluster) -> Object | None:
    """Return the ClusterQueue behind the queue of a workload, when it is in the input."""
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
    """Return what names the queue of a job; a CronJob names that of the jobs it makes."""
    if owner.kind == "CronJob":
        return dig(owner.spec, "jobTemplate", "metadata", "labels", KUEUE_QUEUE)
    return owner.labels.get(KUEUE_QUEUE)


def pods_at_once(part: Workload) -> int:
    """Return how many pods Kueue admits together at least."""
    alone = part.owner.kind not in _WHOLE or any(name in part.owner.annotations for name in _SMALLER)
    return 1 if alone or not part.replicas else part.replicas


def quotas(queue: Object, cluster: Cluster | None = None) -> list[Quotas]:
    """Return the groups of resources of a ClusterQueue.

    Args:
        queue: The ClusterQueue.
        cluster: Its cluster, whose other queues bound what the queue may borrow.
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
    """Whether a queue has a cohort of which the input holds no other queue, so that others may be elsewhere."""
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
    """Return the sum of the nominal quotas of a cohort, which no queue of it exceeds; ``None`` without bound.

    A cohort with a parent borrows from it, too, and so has no bound here.
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
    """Return the most of a resource that a queue may use of a flavor; ``None`` without bound.

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
    """Return the flavors of which a ClusterQueue has a quota of GPUs."""
    used = {
        flavor
        for queue in kueue_objects(cluster, "ClusterQueue")
        for group in quotas(queue)
        for flavor, resources in group.flavors.items()
        if any(name.startswith(NVIDIA) and most != 0 for name, most in resources.items())
    }
    return [each for each in kueue_objects(cluster, "ResourceFlavor") if each.name in used]


def flavor_labels(flavor: Object) -> Mapping[str, Any]:
    """Return the labels of a flavor's nodes, but for those that a controller or an agent gives to nodes that run."""
    labels = mapping(flavor.spec.get("nodeLabels"))
    return {key: value for key, value in labels.items() if not key.startswith(_GIVEN_LATER)}


def flavor_tolerations(flavor: Object) -> tuple[Toleration, ...]:
    """Return what Kueue adds to the tolerations of pods that it starts on a flavor."""
    return tolerations(flavor.spec.get("tolerations"))


def is_configuration_seen(cluster: Cluster) -> bool:
    """Whether the input says how Kueue is configured: by its release, or by the ConfigMap that it reads."""
    return cluster.chart(KUEUE) is not None or any(KUEUE in each.name for each in cluster.objects_of_kind("ConfigMap"))


def reads_other_resources(cluster: Cluster) -> bool:
    """Whether Kueue is configured to count other resources than those that pods ask for."""
    chart = cluster.chart(KUEUE)
    maps = [mapping(each.content.get("data")) for each in cluster.objects_of_kind("ConfigMap") if KUEUE in each.name]
    texts = [dig(chart.values, "managerConfig", "controllerManagerConfigYaml")] if chart else []
    texts += [value for each in maps for value in each.values()]
    if any(isinstance(each, Unknown) for each in texts):
        return True
    lines = [line for text in texts for line in str(text).splitlines() if not line.lstrip().startswith("#")]
    return any(word in line for line in lines for word in _OTHER_RESOURCES)


def accepts_namespace(queue: Object, namespace: str, cluster: Cluster) -> Answer:
    """Say whether a ClusterQueue takes the jobs of a namespace; without a selector it takes none."""
    selector = queue.spec.get("namespaceSelector")
    return Answer.NO if selector is None else is_selected(selector, namespace, cluster)
