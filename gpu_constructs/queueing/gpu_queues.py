"""Kueue's queues of teams over the GPU pools of an app, and the objects of Kueue.

Source: kubernetes-sigs/kueue v0.19.2 apis/kueue/v1beta2/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from constructs import Construct

from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_before, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.pools.pool import Pool, counts_huge_pages, node_selector, refuse_unless_pool, tolerations
from gpu_constructs.queueing.kueue import Kueue
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import KUEUE_DOMAIN, NAMESPACE_NAME, POOL
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import Resources, pod_requests, quantity, show
from gpu_facts.refusals import did_you_mean, refuse_unless_whole_number, words
from gpu_facts.resources import DISK, EFA, HUGE_PAGES

_API = f"{KUEUE_DOMAIN}/v1beta2"
# In a cohort of one queue, other apps may have queues from which it borrows.
_WHOLE_COHORT = 2


def _flavor(pool: Pool, topology_name: str | None) -> dict[str, Any]:
    """Return the flavor of a pool. Jobs that are admitted to it run on its nodes and tolerate their taints."""
    spec: dict[str, Any] = {"nodeLabels": node_selector(pool), "tolerations": tolerations(pool)}
    if topology_name is not None:
        spec["topologyName"] = topology_name
    return {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": pool.name}, "spec": spec}


def _topology(name: str, levels: Sequence[str]) -> dict[str, Any]:
    """Return the levels of the network."""
    return {
        "apiVersion": _API,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": level} for level in levels]},
    }


def _cluster_queue(
    *, name: str, namespace: str, cohort: str, shares: Sequence[tuple[Pool, int]], weight: int
) -> dict[str, Any]:
    """Return the queue of a team, with a quota for a number of nodes of each pool."""
    quotas = [(pool, _quota(pool, nodes)) for pool, nodes in shares]
    # Kueue requires the same list of resources, in one order, for every flavor.
    covered = list(dict.fromkeys(resource for _, found in quotas for resource in found))
    flavors = [
        {
            "name": pool.name,
            "resources": [{"name": resource, "nominalQuota": found.get(resource, "0")} for resource in covered],
        }
        for pool, found in quotas
    ]
    return {
        "apiVersion": _API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": cohort,
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": covered, "flavors": flavors}],
            # The owner can reclaim lent quota. No team can preempt guaranteed quota of another one.
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "fairSharing": {"weight": str(weight)},
        },
    }


def _local_queue(name: str, namespace: str) -> dict[str, Any]:
    """Return the local queue that jobs of a namespace refer to."""
    return {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": name},
    }


def _quota(pool: Pool, nodes: int) -> dict[str, str]:
    """Return the resources of a number of nodes of a pool, by name."""
    shape = pool.shape
    found = {"cpu": str(shape.vcpus * nodes), "memory": f"{shape.memory_gib * nodes}Gi"}
    # Scratch requests this resource. Kueue never admits a job that requests a resource without quota.
    # Source: kubernetes-sigs/kueue v0.19.2 pkg/scheduler/flavorassigner/flavorassigner.go
    found[DISK] = f"{shape.ephemeral_storage_gib * nodes}Gi"
    for resource, amount in shape.gpu_resources(shape.gpus).items():
        found[resource] = str(amount * nodes)
    if shape.efa:
        found[EFA] = str((shape.rows[0].max_efa or 0) * nodes)
        if counts_huge_pages(pool):
            pages = shape.resources()[HUGE_PAGES].removesuffix("Mi")
            found[HUGE_PAGES] = f"{int(pages) * nodes}Mi"
    return found


def order_jobs_after(needed: Construct) -> Callable[[Applied], None]:
    """Return a function that applies a job after ``needed``."""
    put_after = apply_before(needed)
    return lambda job: put_after(job.construct)


def _admit_jobs(queue: Construct, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> Callable[[Applied], None]:
    """Return a function that applies a job after its queue, and rejects a job that no team's queue ever admits."""
    put_after = order_jobs_after(queue)

    def admit(job: Applied) -> None:
        _refuse_larger_than_cohort(job, pools, teams)
        put_after(job)

    return admit


def _refuse_larger_than_cohort(job: Applied, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> None:
    """Reject a job that requests more of its pool than all teams have together, because a queue can't borrow more.

    Kueue admits all pods of a Job together, on the flavor of the pool that they select.

    Raises:
        ValueError: The job never starts.
    """
    if len(teams) < _WHOLE_COHORT:
        return
    by_name = {pool.name: pool for pool in pools}
    for pod, number in _pods_at_once(job.manifests):
        pool = by_name.get((pod.get("nodeSelector") or {}).get(POOL, ""))
        if pool is None:
            continue
        nodes = sum(team.nodes.get(pool.name, 0) for team in teams)
        if (found := _shortage(pod_requests(pod), number, _quota(pool, nodes))) is not None:
            most, requested = found
            raise ValueError(
                f"{job.construct.node.path.removesuffix('/Resource')}: pods must request at once at most the {most} of "
                f"the {nodes} nodes that the teams have of pool {pool.name!r}, got {requested}; give the teams more of "
                "its nodes, or run fewer pods [GPU203]"
            )


def _shortage(requests: Resources, pods: int, quotas: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the amount of a resource and the amount that pods request, if they request more."""
    for resource in sorted(requests.keys() & quotas.keys(), key=_devices_first):
        limit, requested = quantity(resource, quotas[resource]) or 0, requests[resource] * pods
        if requested > limit:
            return f"{show(resource, limit)} {resource}", show(resource, requested)
    return None


def _devices_first(resource: str) -> tuple[bool, str]:
    """Return a key that sorts GPUs and EFA interfaces before CPU and memory, which are often short as well."""
    return "/" not in resource, resource


def _pods_at_once(manifests: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield the pods of each role, and the number of them that Kueue admits together."""
    for each in manifests:
        spec = each.get("spec") or {}
        if each["kind"] == "Job":
            yield spec["template"]["spec"], spec.get("parallelism", 1)
        if each["kind"] == "MPIJob":
            for role in spec["mpiReplicaSpecs"].values():
                yield role["template"]["spec"], role["replicas"]


@named_arguments
class GpuQueues(Construct):
    """A flavor for each pool, and a queue for each team with its share of the pools' nodes.

    Quotas follow from the pools: CPU, memory, disk, GPUs by the names that the nodes advertise, and EFA interfaces. All
    teams are in one cohort, so that they can borrow unused nodes.

    Args:
        cluster: Cluster of the pools. It needs a kubectl provider.
        kueue: Controller of this app.
        pools: Pools that jobs may run on, in order of preference.
        teams: The teams.
        cohort: Name of the cohort.
        topology_levels: Node labels from the widest to the narrowest part of the network. Kueue uses them to place jobs
            close together if they request it. Default: none.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: Teams have more nodes than a pool can have, or nodes of an unknown pool. Or a job in one of their
            queues requests more than they have together.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        kueue: Kueue,
        pools: Sequence[Pool],
        teams: Sequence[TeamQueue],
        cohort: str = "gpus",
        topology_levels: Sequence[str] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        if not isinstance(kueue, Kueue):
            raise TypeError(f"{who}: kueue must be a Kueue, got {kueue!r}; create Kueue(stack, ...)")
        refuse_unless_pools(who, pools)
        refuse_unless_teams(who, teams)
        _refuse_unmanaged_namespaces(who, kueue, teams)
        refuse_more_than_there_is(who, pools, teams)
        refuse_unless_object_name(who, "cohort", cohort)
        levels = words(who, "topology_levels", topology_levels) if topology_levels is not None else ()

        objects: dict[str, dict[str, Any]] = {}
        if levels:
            objects["Topology"] = _topology(cohort, levels)
        for pool in pools:
            objects[f"Flavor-{pool.name}"] = _flavor(pool, cohort if levels else None)
        for team in teams:
            shares = [(pool, team.nodes.get(pool.name, 0)) for pool in pools]
            queue = _cluster_queue(
                name=team.name, namespace=team.namespace, cohort=cohort, shares=shares, weight=team.weight
            )
            objects[f"ClusterQueue-{team.name}"] = queue
            objects[f"LocalQueue-{team.name}"] = _local_queue(team.name, team.namespace)
        applied = self._apply(ref, kueue, objects, pools)
        for team in teams:
            ref.queue(team.namespace, team.name).serve(_admit_jobs(applied[f"LocalQueue-{team.name}"], pools, teams))

    def _apply(
        self, cluster: ClusterRef, kueue: Kueue, objects: Mapping[str, dict[str, Any]], pools: Sequence[Pool]
    ) -> dict[str, Construct]:
        """Apply each object after the previous one, because a queue without its flavor admits no job."""
        before: Construct = kueue.chart
        applied = {}
        for id, made in objects.items():
            applied[id] = apply_manifests(self, id, cluster=cluster, manifests=[made])
            applied[id].node.add_dependency(before)
            before = applied[id]
        for pool in pools:
            before.node.add_dependency(pool)
        return applied


def _refuse_unmanaged_namespaces(who: object, kueue: Kueue, teams: Sequence[TeamQueue]) -> None:
    for team in teams:
        if team.namespace in kueue.unmanaged:
            raise ValueError(
                f"{who}: team {team.name!r} must have a namespace that Kueue manages, got {team.namespace!r}; use "
                "another one, because jobs there would start without quota"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class TeamQueue:
    """Guaranteed nodes of one team. It may also borrow unused nodes of other teams.

    Attributes:
        name: Name of its queues. Jobs refer to it in ``GpuJob(queue=...)``.
        namespace: Existing namespace of its jobs.
        nodes: Guaranteed number of nodes by pool.
        weight: Share of borrowed nodes relative to other teams. It has an effect only with fair sharing.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is invalid, or a number is below 0.
    """

    name: str
    namespace: str
    nodes: Mapping[str, int]
    weight: int = 1

    def __post_init__(self) -> None:
        refuse_unless_object_name("team queue", "name", self.name)
        who = f"team queue {self.name!r}"
        refuse_unless_object_name(who, "namespace", self.namespace)
        refuse_unless_whole_number(who, "weight", self.weight, least=1)
        if not isinstance(self.nodes, Mapping):
            raise TypeError(f"{who}: nodes must map pools to numbers, got {self.nodes!r}; write {{'pool': 2}}")
        for pool, number in self.nodes.items():
            refuse_unless_whole_number(who, f"nodes[{pool!r}]", number, least=0)
        object.__setattr__(self, "nodes", MappingProxyType(dict(self.nodes)))


def refuse_unless_pools(who: object, pools: object) -> None:
    """Reject pools whose GPUs a quota can't count.

    Raises:
        TypeError: The value isn't a list of pools.
        ValueError: A size isn't known at synth, GPUs are claimed, or two pools have one name.
    """
    if not isinstance(pools, (list, tuple)) or not pools:
        raise TypeError(f"{who}: pools must be a list of pools, got {pools!r}; write [pool]")
    for pool in pools:
        refuse_unless_pool(who, pool)
        if pool.shape.managed_by.by_claim:
            raise ValueError(
                f"{who}: pools must offer GPUs as a resource, because a quota counts it, got {pool.name!r} with "
                "device_manager='dra'; remove it"
            )
        if not isinstance(pool.max_nodes, int):
            raise ValueError(
                f"{who}: pools must have a size known at synth, got {pool.name!r} with a token; write a number"
            )
    names = [pool.name for pool in pools]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: pools must differ in name, got {', '.join(names)}; remove the duplicates")


def refuse_unless_teams(who: object, teams: object) -> None:
    """Reject a value that isn't a list of teams.

    Raises:
        TypeError: The value isn't a list of teams.
        ValueError: Two teams have one name.
    """
    if not isinstance(teams, (list, tuple)) or not teams or not all(isinstance(each, TeamQueue) for each in teams):
        raise TypeError(f"{who}: teams must be a list of TeamQueue, got {teams!r}; write [TeamQueue(...)]")
    names = [team.name for team in teams]
    if len(set(names)) < len(names):
        raise ValueError(f"{who}: teams must differ in name, got {', '.join(names)}; rename one")


def refuse_more_than_there_is(who: object, pools: Sequence[Pool], teams: Sequence[TeamQueue]) -> None:
    """Reject teams with more nodes than the pools have.

    Raises:
        ValueError: The teams have more nodes.
    """
    most = {pool.name: pool.max_nodes for pool in pools}
    given = dict.fromkeys(most, 0)
    for team in teams:
        for name, number in team.nodes.items():
            if name not in most:
                raise ValueError(
                    f"{who}: team {team.name!r} must have nodes of {', '.join(most)}, got {name!r}"
                    f"{did_you_mean(name, most)}"
                )
            given[name] += number
    for name, number in given.items():
        if number > most[name]:
            raise ValueError(
                f"{who}: teams must have at most the {most[name]} nodes of pool {name!r}, got {number}; reduce them, "
                "because admitted jobs would stay Pending"
            )
