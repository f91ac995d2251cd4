"""What a "runs" relies on that is not in the input, and on which conditions an unknown result would be a "runs"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpu_facts.kubernetes import CLUSTER_CRITICAL, NODE_CRITICAL
from gpu_preflight.admission.unevaluated import image_assumptions
from gpu_preflight.cluster.kueue import local_queues, workload_queue
from gpu_preflight.cluster.objects import DataKind, keys_by_name, named_data
from gpu_preflight.cluster.pools import is_visible
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.unknown import known_text, mappings
from gpu_preflight.scheduling.verdict import PoolVerdict

NOTHING_ELSE = "nothing outside the input limits these pods or competes with them"
_DATA: tuple[DataKind, ...] = ("Secret", "ConfigMap")


class Assumptions:
    """What the pods of one cluster rely on; of lone pods that are written alike it is found once.

    Args:
        cluster: Their cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # With each pod and its pools, so that no others are given the same ids.
        self._known: dict[tuple[object, ...], tuple[Pod, tuple[PoolVerdict, ...], tuple[str, ...]]] = {}

    def for_workload(self, workload: Workload, pools: tuple[PoolVerdict, ...]) -> tuple[str, ...]:
        """Return the objects and permissions outside the input that the pods of a workload need.

        Args:
            workload: The pods.
            pools: The verdict on each pool.
        """
        if workload.owner.kind != "Pod" or workload.claim_templates:
            return relied_upon(workload, pools, self._cluster)
        key = id(workload.pod), id(pools), workload.namespace, repr(workload_queue(workload))
        if key not in self._known:
            self._known[key] = workload.pod, pools, relied_upon(workload, pools, self._cluster)
        return self._known[key][2]


def relied_upon(workload: Workload, pools: Iterable[PoolVerdict], cluster: Cluster) -> tuple[str, ...]:
    """Return the objects and permissions outside the input that the pods of a workload need.

    Args:
        workload: The pods.
        pools: The verdict on each pool.
        cluster: Their cluster.
    """
    always = (*image_assumptions(workload.pod), *_external_data_assumptions(workload, cluster))
    if cluster.sees_objects:
        # Secrets and ConfigMaps are often made by hand, and no Git repository has them.
        return tuple(dict.fromkeys(always))
    taking = [each.pool for each in pools if each.answer is not Answer.NO]
    found = (
        *always,
        *_named_objects(workload, cluster),
        *_launch_template_assumptions(taking),
        *_karpenter_assumptions(taking, cluster),
        NOTHING_ELSE,
    )
    return tuple(dict.fromkeys(found))


def _named_objects(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the objects that the pods name and the input doesn't hold."""
    pod, space = workload.pod, workload.namespace
    if (name := known_text(pod.runtime_class)) and not _has(cluster, "RuntimeClass", name):
        yield f"RuntimeClass {name} exists"
    name = known_text(pod.priority_class)
    if name and name not in (CLUSTER_CRITICAL, NODE_CRITICAL) and not _has(cluster, "PriorityClass", name):
        yield f"PriorityClass {name} exists"
    name = known_text(pod.service_account)
    if name and name != "default" and not _has(cluster, "ServiceAccount", name, space):
        yield f"ServiceAccount {space}/{name} exists"
    queue = known_text(workload_queue(workload))
    if queue and (space, queue) not in local_queues(cluster):
        yield f"LocalQueue {space}/{queue} exists and admits the pods"
    yield from _classes_of_claims(workload, cluster)


def _classes_of_claims(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the claims and the StorageClasses that the pods name and the input doesn't hold."""
    space = workload.namespace
    for claim in claimed(workload, cluster):
        if claim.name and claim.spec is None:
            yield f"PersistentVolumeClaim {space}/{claim.name} exists and can be bound"
        elif claim.spec is not None and not claim.spec.get("volumeName"):
            name = known_text(claim.spec.get("storageClassName"))
            if name is None and "storageClassName" not in claim.spec:
                yield "the cluster has a default StorageClass"
            elif name and not _has(cluster, "StorageClass", name):
                yield f"StorageClass {name} exists"


def _external_data_assumptions(workload: Workload, cluster: Cluster) -> Iterator[str]:
    """Yield the volumes, Secrets and ConfigMaps that the pods name and the input doesn't hold."""
    for claim in claimed(workload, cluster):
        volume = known_text((claim.spec or {}).get("volumeName"))
        if volume and claim.volume is None:
            yield f"PersistentVolume {volume} exists and can be mounted"
    pod, space = workload.pod, workload.namespace
    named = [(each.kind, each.name) for each in named_data(pod)]
    pulling = (known_text(each.get("name")) for each in mappings(pod.written.get("imagePullSecrets")))
    named += [("Secret", name) for name in pulling if name]
    for kind in _DATA:
        there = keys_by_name(kind, space, cluster) if any(each == kind for each, _ in named) else {}
        yield from (f"{each} {space}/{name} exists" for each, name in named if each == kind and name not in there)


def _has(cluster: Cluster, kind: str, name: str, namespace: str | None = None) -> bool:
    return any(each.name == name and namespace in (None, each.namespace) for each in cluster.objects_of_kind(kind))


def _launch_template_assumptions(pools: list[Pool]) -> Iterator[str]:
    """Yield that the launch templates of groups which aren't in the input start nodes that join."""
    groups = (each.name for each in pools if each.is_group and not is_visible(each))
    yield from (f"the launch template of {each}, which isn't in the input, starts nodes that join" for each in groups)


def _karpenter_assumptions(pools: list[Pool], cluster: Cluster) -> Iterator[str]:
    """Yield the AWS resources that Karpenter needs to launch nodes."""
    launching = [each for each in pools if each.kind == "karpenter"]
    if not launching:
        return
    controller = cluster.autoscaler("karpenter")
    if controller is None:
        yield "Karpenter has an IAM role that allows it to launch instances"
    for pool in launching:
        if pool.node_class is None:
            yield f"the EC2NodeClass of NodePool {pool.name} exists and is ready"
            continue
        role = known_text(pool.launch.role)
        named = f"IAM role {role}" if role else "its IAM role"
        yield f"{named}, the subnets and the security groups that EC2NodeClass {pool.node_class.name} selects exist"


def conditions(held: Iterable[Reason], pools: Sequence[PoolVerdict]) -> tuple[str, ...]:
    """Return the conditions under which the pods of an unknown result run.

    Empty if a reason without a condition is unknown too.

    Args:
        held: What holds wherever the pods run.
        pools: The verdict on each pool, the nearest first.
    """
    general = [each for each in held if each.answer is not Answer.YES]
    if not all(each.condition for each in general):
        return ()
    for pool in pools:
        open_ones = (each for each in pool.reasons if each.answer is Answer.UNKNOWN)
        if pool.is_conditional:
            return tuple(dict.fromkeys(each.condition for each in (*general, *open_ones)))
    return tuple(dict.fromkeys(each.condition for each in general)) if not pools else ()
