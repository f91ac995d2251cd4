"""Scratch of pods, and caches of what they mount, on the disks of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.quantities import quantity, show
from gpu_facts.resources import DISK
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import is_bucket, volume_of
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.verdict import PoolVerdict


@rule("GPU409", "warning", source="https://kubernetes.io/docs/concepts/storage/ephemeral-storage/")
def scratch_larger_than_the_disk_of_its_node(case: Case) -> Iterator[Problem]:
    """Scratch larger than the disk of its node.

    The limit of an emptyDir reserves nothing: the disk is full before it is reached, by one pod or by several, and
    kubelet evicts them, often hours into their work.

    Fix: Request the size as ephemeral-storage, and give the nodes a larger volume or local NVMe disks.
    """
    for workload in case.gpu_workloads:
        wanted = _scratch(workload.pod)
        if not wanted:
            continue
        # Where it asks for as much, no node is open to it, or to so many pods, that has less.
        pools = [each for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        disks = [(each, _most(case, each.pool)) for each in pools]
        small = [(each, most) for each, most in disks if most is not None and wanted * _beside(workload, each) > most]
        for each, most in small:
            pods = 1 if wanted > most else _beside(workload, each)
            who = "its emptyDirs" if pods == 1 else f"{pods} of its pods on one node"
            text = f"{who} may hold {show(DISK, wanted * pods)}, pods have {show(DISK, most)} of a disk of pool"
            yield Problem.of(workload, f"{text} {each.pool.name}", unknown=pods > 1 or len(small) < len(pools))


@rule("GPU419", "warning", source="https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CACHING.md")
def cache_of_a_bucket_larger_than_the_disk(case: Case) -> Iterator[Problem]:
    """Cache of a bucket larger than the disk of its node.

    Nothing reserves it: what is read fills the disk before the bound is reached, and kubelet evicts pods of the node.

    Fix: Lower cacheEmptyDirSizeLimit, or give the nodes a larger volume or local NVMe disks.
    """
    for workload, claim in case.gpu_claims:
        volume = volume_of(claim, case.cluster)
        bound = _bound(volume) if volume is not None else None
        if volume is None or bound is None:
            continue
        pools = case.pools_open_to(workload)
        disks = [(pool, _most(case, pool)) for pool in pools]
        small = [(pool, most) for pool, most in disks if most is not None and bound > most]
        for pool, most in small:
            text = f"the cache of PersistentVolume {volume.name} may hold {show(DISK, bound)}, pods have"
            text += f" {show(DISK, most)} of a disk of pool {pool.name}"
            yield Problem.of(workload, text, unknown=len(small) < len(pools))


def _bound(volume: Object) -> int | None:
    """Return the bound of a bucket's cache on the disk of the node, in bytes; ``None`` where there is none."""
    attributes = mapping(dig(dict(volume.spec), "csi", "volumeAttributes"))
    on_disk = attributes.get("cache") == "emptyDir" and not attributes.get("cacheEmptyDirMedium")
    return quantity(DISK, attributes.get("cacheEmptyDirSizeLimit")) if is_bucket(volume) and on_disk else None


def _beside(workload: Workload, judged: PoolVerdict) -> int:
    """Return how many pods of a workload may be on one node of a pool, as far as it is known."""
    return max(1, min(judged.per_node or 1, workload.replicas or 1))


def _scratch(pod: Pod) -> int:
    """Return what the volumes of a pod may take of the disk, in bytes, as far as it is known."""
    return sum(quantity(DISK, each.size_limit) or 0 for each in pod.volumes)


def _most(case: Case, pool: Pool) -> int | None:
    """Return what the largest disk of a pool has for pods, in bytes; ``None`` where one is not known."""
    sizes = [each.most.get(DISK) for each in case.nodes(pool)]
    known = [each for each in sizes if each is not None]
    return max(known) if known and len(known) == len(sizes) else None
