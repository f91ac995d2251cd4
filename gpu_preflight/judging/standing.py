"""Versions of managed groups that are there already: a step of the control plane leaves them where they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_preflight.cluster.images import image_of, image_version
from gpu_preflight.judging.pool_changes import made_anew, pool_key, pools_by_key
from gpu_preflight.model.cluster import Cluster, Pool

_VERSION = "Version"


def as_they_stand(deployed: Iterable[Cluster], written: Iterable[Cluster]) -> tuple[Cluster, ...]:
    """Return clusters as a deployment leaves them: each group that names no version keeps the one that it has.

    EKS gives a group the version of its cluster when it makes the group, and another one only when it is asked for.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html (2026-11): without
    ``version`` the version of the node group does not change.

    Args:
        deployed: The clusters that are there.
        written: What is deployed over them.
    """
    there = tuple(deployed)
    pools, versions = pools_by_key(there), {each.title: each.version for each in there}

    def kept(cluster: Cluster, pool: Pool) -> Pool:
        was = pools.get(pool_key(cluster, pool))
        version = image_version(was, versions[cluster.title]) if was and _asks_for_none(was, pool) else None
        # What EKS says to a release of another version is not told.
        stays = version is not None and image_version(pool, version) == version
        return replace(pool, properties={**pool.properties, _VERSION: version}) if stays else pool

    return tuple(replace(each, pools=tuple(kept(each, pool) for pool in each.pools)) for each in written)


def _asks_for_none(was: Pool, now: Pool) -> bool:
    """Whether a managed group has its version of EKS, and stays."""
    of_eks = now.kind == "managed" and image_of(now) is None and image_of(was) is None
    return of_eks and _VERSION not in was.properties and _VERSION not in now.properties and not made_anew(was, now)
