"""The clusters of an input, with their pools and workloads.

The module also finds pods, and every kind of object that creates pods.

Sources: https://kubernetes.io/docs/concepts/workloads/, https://jobset.sigs.k8s.io/docs/reference/jobset.v1alpha2/,
https://lws.sigs.k8s.io/docs/reference/leaderworkerset.v1/, https://docs.ray.io/en/latest/cluster/kubernetes/ (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL, TRAINING_JOBS
from gpu_facts.labels import AUTOSCALED_BY_TAG, CLUSTER_TAG, EXCLUSIVE_GROUPS
from gpu_preflight.cluster.network import with_class_zones
from gpu_preflight.cluster.observed import RunningCluster, is_finished
from gpu_preflight.cluster.operators import count, parts, wrapped
from gpu_preflight.cluster.pools import group_tags, launches_gpus, managed_group, node_pool, resized, self_managed_group
from gpu_preflight.cluster.scalers import scaled
from gpu_preflight.cluster.software import software
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.cluster_autoscaler import bounded, with_startup_taints
from gpu_preflight.model.pod import Exclusive, Pod, Workload, read_pod
from gpu_preflight.model.software import Addon, Autoscaler
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings
from gpu_preflight.reading.user_data import parse_embedded

# Kinds with their pods in `spec.template`.
_PLAIN = ("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Rollout", "Revision")
# Annotations for exclusive placement of the jobs of a JobSet or the groups of a LeaderWorkerSet.
# Source: kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go (2026-11)
_EXCLUSIVE_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_BY_NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
# Key for the class of pods that name no class.
_WITHOUT = ""
# Built-in priority classes: their value, and whether their pods preempt others.
_PRIORITIES = {_WITHOUT: (0, True), CLUSTER_CRITICAL: (2_000_000_000, True), NODE_CRITICAL: (2_000_001_000, True)}
_Classes = Mapping[str, tuple[int | None, bool]]
# For a class that the input lacks.
_NOT_KNOWN = (None, True)
# The CDK's aws_eks creates its clusters through a custom resource.
_CLUSTER = "AWS::EKS::Cluster"
_CUSTOM_CLUSTER = "Custom::AWSCDK-EKS-Cluster"
_OWNER_TAGS = (CLUSTER_TAG, AUTOSCALED_BY_TAG)
_NOT_OWNERS = ("enabled", "node-template")
_GROUP = "AWS::AutoScaling::AutoScalingGroup"
# Texts in images and user data of groups whose nodes don't belong to EKS.
_OTHER_SERVICES = ("ecs", "slurm", "parallelcluster", "batch")
UNNAMED = "(cluster)"
# Every rule checks every resource for each cluster, and every pool for each pod.
MAX_CLUSTERS = 500
MAX_PAIRS = 5_000_000


def workloads(objects: Iterable[Object]) -> tuple[Workload, ...]:
    """Return the pods of some objects. Among DaemonSets, only those that request GPUs."""
    every = [each for each in objects if not is_finished(each)]
    running = RunningCluster(every)
    priorities: _Classes = {**_PRIORITIES, **dict(_classes(every))}
    # Most pods are alike. Pods with the same text are read once.
    pods = _Pods()
    owners = [each for each in every if running.owner(each) is None and not _is_of_daemon(each)]
    typed = [_typed(each, pods, priorities) for owner in owners for each in _workload_arguments(owner, every)]
    return tuple(each for each in running.demands(typed) if each.asks_for_gpu or not each.is_daemon_set)


def _is_of_daemon(each: Object) -> bool:
    """Whether a DaemonSet created a pod. Each node has its own, so no autoscaler launches a node for it."""
    references = mappings(dig(each.content, "metadata", "ownerReferences"))
    return each.kind == "Pod" and any(one.get("kind") == "DaemonSet" for one in references)


def _classes(objects: Iterable[Object]) -> Iterator[tuple[str, tuple[int | None, bool]]]:
    """Yield the value of each priority class, and of pods without one, and whether such pods preempt others.

    Source:
    https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#non-preempting-priority-class
    (2026-11)
    """
    for each in objects:
        if each.kind == "PriorityClass":
            policy = each.content.get("preemptionPolicy")
            value = None if isinstance(policy, Unknown) else known_number(each.content.get("value"))
            yield each.name, (value, policy != "Never")
            if is_true(each.content.get("globalDefault")):
                yield _WITHOUT, (value, policy != "Never")


class _Pods:
    """A cache of pods by their text."""

    def __init__(self) -> None:
        self._by_text: dict[str, Pod] = {}
        # Each entry holds its spec, so that no other spec gets the same id.
        self._by_identity: dict[int, tuple[Any, Pod]] = {}

    def parse_spec(self, spec: dict[str, Any]) -> Pod:
        """Return the pod of a spec."""
        if id(spec) not in self._by_identity:
            written = repr(spec)
            if written not in self._by_text:
                self._by_text[written] = read_pod(spec)
            self._by_identity[id(spec)] = spec, self._by_text[written]
        return self._by_identity[id(spec)][1]


def _typed(workload: dict[str, Any], pods: _Pods, priorities: _Classes) -> Workload:
    pod = pods.parse_spec(workload.pop("spec"))
    priority, preempts = priorities.get(known_text(pod.priority_class) or _WITHOUT, _NOT_KNOWN)
    return Workload(**workload, pod=pod, priority=priority, preempts=preempts)


def _workload_arguments(each: Object, every: list[Object]) -> Iterator[dict[str, Any]]:
    made = [
        _workload(each, one.template, one.replicas, part=one.name, together=one.together) for one in parts(each, every)
    ]
    if made:
        yield from made
        return
    for inner in wrapped(each):
        yield from _workload_arguments(inner, every)
    yield from _known_kind_arguments(each)


def _known_kind_arguments(each: Object) -> Iterator[dict[str, Any]]:
    spec = each.spec
    if each.kind == "Pod":
        yield _workload(each, each.content, 1)
    elif each.kind in _PLAIN:
        replicas = None if each.kind == "DaemonSet" else count(spec.get("replicas"))
        yield _workload(each, spec.get("template"), replicas)
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


def _spec(template: Any) -> dict[str, Any]:
    """Return the pod of a template. If only deployment sets the template, return a pod with unknown containers."""
    for part in (template, dig(template, "spec")):
        if isinstance(part, Unknown):
            return {"containers": part}
    return mapping(dig(template, "spec"))


def _workload(
    owner: Object, template: Any, replicas: int | None, *, part: str = "", together: bool = False
) -> dict[str, Any]:
    place = owner.title
    return {
        "name": f"{place} {part}" if part else place,
        "namespace": owner.namespace,
        "origin": owner.origin,
        "spec": _spec(template),
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


def _job_pods(spec: Mapping[str, Any]) -> int | None:
    parallelism, completions = count(spec.get("parallelism")), spec.get("completions")
    wanted = count(completions)
    return min(parallelism, wanted) if completions is not None and parallelism and wanted else parallelism


def _job(owner: Object, spec: Mapping[str, Any]) -> dict[str, Any]:
    made = _workload(owner, spec.get("template"), _job_pods(spec), together=spec.get("completionMode") == "Indexed")
    return made | {"suspended": made["suspended"] or is_true(spec.get("suspend"))}


def _job_set(owner: Object) -> Iterator[dict[str, Any]]:
    parts_ = mappings(owner.spec.get("replicatedJobs"))
    jobs = [count(each.get("replicas")) for each in parts_]
    for place, part in enumerate(parts_):
        spec = mapping(dig(part, "template", "spec"))
        pods, replicas = _job_pods(spec), jobs[place]
        made = None if pods is None or replicas is None else pods * replicas
        workload = _workload(owner, spec.get("template"), made, part=str(part.get("name")), together=True)
        own = mapping(dig(part, "template", "metadata", "annotations"))
        if (key := own.get(_EXCLUSIVE_JOBS, owner.annotations.get(_EXCLUSIVE_JOBS))) is not None:
            others = [*jobs[:place], *jobs[place + 1 :]]
            beside = None if None in others else sum(each or 0 for each in others)
            labelled = _BY_NODE_SELECTOR in own or _BY_NODE_SELECTOR in owner.annotations
            workload["exclusive"] = Exclusive(key, replicas, pods, beside, labelled=labelled)
        yield workload


def _leader_workers(owner: Object) -> Iterator[dict[str, Any]]:
    groups, size = count(owner.spec.get("replicas")), count(dig(owner.spec, "leaderWorkerTemplate", "size"))
    template = mapping(owner.spec.get("leaderWorkerTemplate"))
    leader, worker = template.get("leaderTemplate"), template.get("workerTemplate")
    workers_each = None if size is None else (size - 1 if leader else size)
    workers = None if groups is None or workers_each is None else groups * workers_each
    key = owner.annotations.get(EXCLUSIVE_GROUPS)
    shared = bool(leader) and workers != 0
    if leader:
        exclusive = None if key is None else Exclusive(key, groups, 1, shared=shared)
        yield _workload(owner, leader, groups, part="leader", together=True) | {"exclusive": exclusive}
    if workers != 0:
        exclusive = None if key is None else Exclusive(key, groups, workers_each, shared=shared)
        yield _workload(owner, worker, workers, part="worker", together=True) | {"exclusive": exclusive}


def _ray(owner: Object) -> Iterator[dict[str, Any]]:
    inner = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}.get(owner.kind)
    spec = mapping(owner.spec.get(inner)) if inner else owner.spec
    yield _workload(owner, dig(spec, "headGroupSpec", "template"), 1, part="head")
    for group in mappings(spec.get("workerGroupSpecs")):
        hosts, replicas = count(group.get("numOfHosts")), count(group.get("replicas"), absent=0)
        least = count(group.get("minReplicas"), absent=0)
        wanted = None if hosts is None or replicas is None or least is None else max(replicas, least) * hosts
        name = str(group.get("groupName"))
        yield _workload(owner, group.get("template"), wanted, part=name, together=bool(hosts and hosts > 1))


def _training(owner: Object) -> Iterator[dict[str, Any]]:
    for key, value in owner.spec.items():
        if key.endswith("ReplicaSpecs"):
            for part, spec in mapping(value).items():
                yield _workload(owner, dig(spec, "template"), count(dig(spec, "replicas")), part=part, together=True)


def clusters(given: Input) -> tuple[Cluster, ...]:
    """Return every cluster in an input. Parts that name no cluster belong to each of them.

    Raises:
        UnusableInput: There are too many clusters, or too many pools and pods in one.
    """
    owned = {each.key: each for each in given.resources.values() if each.type in (_CLUSTER, _CUSTOM_CLUSTER)}
    names = {key: _name(each) for key, each in owned.items()}
    places = _Places(given.resources, names)
    found = dict.fromkeys((*names.values(), *places.mentioned(given)))
    if len(found) * max(len(given.alternatives), 1) > MAX_CLUSTERS:
        raise UnusableInput(f"input must have at most {MAX_CLUSTERS} clusters, got {len(found):,}; name fewer files")
    alternatives = tuple(given.alternatives) or ("",)
    made = tuple(_cluster(name, given, places, one) for name in found or (UNNAMED,) for one in alternatives)
    first = replace(
        made[0],
        unclaimed=_unclaimed(given, places),
        repeated=given.repeated,
        dangling=given.dangling,
        broken=given.broken,
    )
    return (first, *made[1:])


def _unclaimed(given: Input, places: _Places) -> tuple[Pool, ...]:
    """Return the Auto Scaling groups of GPU instances that name no cluster and no other service."""
    groups = [each for each in given.resources.values() if each.type == _GROUP and places.group_cluster(each) is None]
    pools = [self_managed_group(each, given.resources) for each in groups]
    return tuple(each for each in pools if launches_gpus(each) and not _is_of_another_service(each))


def _is_of_another_service(group: Pool) -> bool:
    texts = f"{group.launch.image} {group.user_data.text}".lower()
    return any(sign in texts for sign in _OTHER_SERVICES)


def _name(cluster: Resource) -> str:
    properties = _cluster_properties(cluster)
    return known_text(properties.get("Name")) or cluster.path


def _cluster_properties(cluster: Resource) -> dict[str, Any]:
    """Return the properties of a cluster with CloudFormation's names."""
    if cluster.type == _CLUSTER:
        return dict(cluster.properties)
    config = mapping(cluster.properties.get("Config"))
    return {key[:1].upper() + key[1:]: value for key, value in config.items()}


class _Places:
    """Finds the name of the cluster that a resource or an object refers to."""

    def __init__(self, resources: Mapping[str, Resource], names: Mapping[str, str]) -> None:
        self._resources, self._names = resources, names
        self._of_groups: dict[str, str | None] = {}
        self._owners: dict[str, Resource] = {}
        self._named: dict[str, str] = {}
        for key, name in names.items():
            self._owners.setdefault(name, resources[key])
            written = _cluster_properties(resources[key]).get("Name")
            if isinstance(written, Unknown):
                self._named.setdefault(written.expression, name)

    def resource(self, name: str) -> Resource | None:
        """Return the cluster with a name, if it is in the input."""
        return self._owners.get(name)

    def name(self, reference: Any) -> str | None:
        """Return the name of the cluster that a reference means; ``None`` without a reference."""
        if isinstance(reference, Unknown):
            named = self._named.get(reference.expression, reference.expression)
            return self._names.get(reference.resource or "", named)
        return known_text(reference)

    def group_cluster(self, group: Resource) -> str | None:
        """Return the cluster of an Auto Scaling group, by its tags or user data; ``None`` if it isn't a node group."""
        if group.key not in self._of_groups:
            self._of_groups[group.key] = self._find_group_cluster(group)
        return self._of_groups[group.key]

    def _find_group_cluster(self, group: Resource) -> str | None:
        for key in group_tags(group.properties):
            for prefix in _OWNER_TAGS:
                rest = key.removeprefix(prefix)
                if rest != key and rest and not rest.startswith(_NOT_OWNERS):
                    return self.name(Unknown(rest) if rest.startswith("${") else rest)
        pool = self_managed_group(group, self._resources)
        reference = dig(pool.user_data.node_config, "cluster", "name") or dig(
            dict(pool.user_data.settings), "kubernetes", "cluster-name"
        )
        if reference is None:
            return None
        if isinstance(reference, str) and reference.startswith("${"):
            reference = Unknown(reference)
        return self.name(reference)

    def mentioned(self, given: Input) -> Iterable[str]:
        """Yield the clusters that a resource or an object refers to, in the order of the input."""
        for resource in given.resources.values():
            reference = (
                self.group_cluster(resource)
                if resource.type == _GROUP
                else self.name(resource.properties.get("ClusterName"))
            )
            if reference is not None:
                yield reference


def _cluster(name: str, given: Input, places: _Places, alternative: str) -> Cluster:
    resource = places.resource(name)
    properties = _cluster_properties(resource) if resource else {}
    here = ("", alternative)
    objects = [each for each in given.objects if each.alternative in here and places.name(each.cluster) in (name, None)]
    charts = [each for each in given.charts if each.alternative in here and places.name(each.cluster) in (name, None)]
    addons = [_addon(each) for each in _resources_of_type(given, "AWS::EKS::Addon", name, places)]
    runs = software(objects, charts, addons)
    auto_mode = is_true(dig(properties, "ComputeConfig", "Enabled"))
    pools = with_class_zones(_pools(name, given, places, objects), _subnets(properties), given.resources)
    pools = with_startup_taints(bounded(pools, runs.autoscalers), runs.autoscalers)
    running = RunningCluster(objects)
    observed, not_seen = running.pools(pools), tuple(running.unread(pools))
    pools = tuple(running.with_use(pools))
    pods = scaled(workloads(objects), objects)
    # Pods that are alike are checked once.
    unlike = {(id(each.pod), each.replicas) for each in pods}
    if len(pools) * len(unlike) > MAX_PAIRS:
        many = f"{len(pools):,} pools and {len(unlike):,} distinct workloads"
        raise UnusableInput(f"cluster {name[:200]} must have at most {MAX_PAIRS:,} pairs of them, got {many}")
    return Cluster(
        name=name,
        alternative=alternative,
        assumed=given.assumed,
        resource=resource,
        version=_minor(properties.get("Version")) or _first_pool_version(pools),
        auto_mode=auto_mode,
        pools=pools,
        objects=tuple(objects),
        charts=tuple(charts),
        addons=tuple(addons),
        daemon_sets=runs.daemon_sets,
        opaque=runs.opaque,
        unread=(*given.problems, *given.alternatives.get(alternative, ()), *not_seen),
        observed=observed,
        autoscalers=(*runs.autoscalers, *_auto_mode(resource, auto_mode)),
        workloads=pods,
        resources=given.resources,
    )


def _subnets(properties: Mapping[str, Any]) -> Any:
    """Return the subnets of a cluster, in the properties of CloudFormation or of the CDK's custom resource."""
    network = mapping(properties.get("ResourcesVpcConfig"))
    return network.get("SubnetIds", network.get("subnetIds"))


def _minor(version: Any) -> str | None:
    """Return a minor version. YAML reads it as a number if it isn't quoted."""
    return str(version) if isinstance(version, float) else known_text(version)


def _first_pool_version(pools: Iterable[Pool]) -> str | None:
    return next((text for each in pools if (text := _minor(each.properties.get("Version")))), None)


def _resources_of_type(given: Input, kind: str, cluster: str, places: _Places) -> list[Resource]:
    return [
        each
        for each in given.resources.values()
        if each.type == kind and places.name(each.properties.get("ClusterName")) == cluster
    ]


def _addon(resource: Resource) -> Addon:
    return Addon(
        name=known_text(resource.properties.get("AddonName")) or str(resource.properties.get("AddonName")),
        version=known_text(resource.properties.get("AddonVersion")),
        configuration=mapping(parse_embedded(resource.file, resource.properties.get("ConfigurationValues"))),
        resource=resource,
    )


def _pools(name: str, given: Input, places: _Places, objects: list[Object]) -> tuple[Pool, ...]:
    found = [
        managed_group(each, given.resources) for each in _resources_of_type(given, "AWS::EKS::Nodegroup", name, places)
    ]
    for each in given.resources.values():
        if each.type == _GROUP and places.group_cluster(each) == name:
            found.append(self_managed_group(each, given.resources))
    classes = [each for each in objects if each.kind in ("EC2NodeClass", "NodeClass")]
    found += [node_pool(each, classes, given.resources) for each in objects if each.kind == "NodePool"]
    return tuple(resized(found, given.resources.values()))


def _auto_mode(cluster: Resource | None, enabled: bool) -> list[Autoscaler]:
    if cluster is None or not enabled:
        return []
    return [Autoscaler("auto-mode", cluster.origin)]
