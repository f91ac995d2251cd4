"""Taints that a node has until something takes them away: who does, and who is told that they do not last."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.storage import BROUGHT_BY, STARTUP_TAINTS, TAINT_REMOVED_SINCE, keeps_its_taint
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import driver_of, node_daemons
from gpu_preflight.cluster.taint_removers import unremoved_taints
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.startup_taints import REMOVERS, goes_by_itself
from gpu_preflight.model.taints import Taint
from gpu_preflight.node.daemon_reach import refusing_taints
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.scheduling.fitting import autoscaler_of, startup_fix

_NODE_POOLS = "https://karpenter.sh/docs/concepts/nodepools/#spectemplatespecstartuptaints"
_FAQ = "kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/FAQ.md"
_DRIVER_OF = {key: driver for driver, key in STARTUP_TAINTS.items()}


@rule("GPU176", "warning", source=_NODE_POOLS)
def startup_taint_that_nobody_removes(case: Case) -> Iterator[Problem]:
    """Startup taint that nobody removes.

    The node keeps the taint: it is never initialized, takes no pod, and is billed on.

    Fix: Install what removes the taint, or leave the taint out.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        for taint in unremoved_taints(pool, cluster):
            text = f"nothing here is known to remove startup taint {taint}"
            yield Problem.of(pool, text, unknown=taint.key not in REMOVERS or not cluster.sees_software)


@rule("GPU420", "error", source=_FAQ)
def startup_taint_that_its_autoscaler_takes_for_a_lasting_one(case: Case) -> Iterator[Problem]:
    """Startup taint that its autoscaler takes for a lasting one.

    It makes no first node for pods that do not tolerate the taint, although they would run once it is gone: they stay
    Pending. Of an empty managed group EKS tells cluster autoscaler every taint, and Karpenter takes all of
    ``taints`` to stay.

    Fix: Start cluster autoscaler with --startup-taint=KEY, or list the taint in the NodePool's startupTaints.
    """
    for pool in case.gpu_pools:
        for taint in pool.mistaken_taints if pool.min_nodes == 0 else ():
            if goes_by_itself(taint) and taint.effect == "NoExecute":
                continue  # The API server lets every pod tolerate it that says nothing of it.
            text = f"{autoscaler_of(pool)} expects that startup taint {taint} stays; {startup_fix(pool, taint)}"
            yield Problem.of(pool, text)


@rule("GPU421", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.64.0/docs/install.md")
def startup_taint_that_its_driver_does_not_remove(case: Case) -> Iterator[Problem]:
    """Startup taint that its driver does not remove.

    The driver's pod does not come to the node, or is too old to know the taint: no other pod ever runs there, and the
    node is billed on.

    Fix: Let the driver's DaemonSet tolerate every taint of the pool, update the driver, or leave the taint out.
    """
    for pool in case.gpu_pools:
        for taint in pool.startup_taints:
            if taint.key in _DRIVER_OF:
                yield from _unremoved(pool, taint, case)


def _unremoved(pool: Pool, taint: Taint, case: Case) -> Iterator[Problem]:
    driver, cluster = _DRIVER_OF[taint.key], case.cluster
    addon = BROUGHT_BY[driver]
    installed = cluster.addon(addon) or cluster.chart(addon)
    if installed is not None and keeps_its_taint(driver, installed.version):
        first, second = TAINT_REMOVED_SINCE[driver]
        text = f"{addon} {installed.version} does not remove startup taint {taint}; v{first}.{second} does"
        yield Problem.of(pool, text)
        return
    daemons = node_daemons(addon, cluster)
    kept_off = [_kept_off(each, pool, taint, case) for each in daemons]
    # Of a version that nobody read it is not known what it tolerates.
    if kept_off and all(kept_off) and daemons[0].exact:
        text = f"DaemonSet {daemons[0].name}, which removes startup taint {taint}, does not run there: {kept_off[0]}"
        yield Problem.of(pool, text)


def _kept_off(daemon: DaemonSet, pool: Pool, taint: Taint, case: Case) -> str:
    """Return why a DaemonSet surely does not come to nodes that have a taint; empty where it may."""
    refusing = refusing_taints(daemon, (*pool.taints, taint))
    if refusing:
        return f"it does not tolerate {refusing[0]}"
    return "it does not select them" if case.reaches(daemon, pool) is Answer.NO else ""


@rule("GPU422", "note", source="https://github.com/awslabs/mountpoint-s3-csi-driver/issues/107")
def pods_that_may_come_before_their_driver(case: Case) -> Iterator[Problem]:
    """Pods that may come before their driver.

    On a fresh node they fail with "driver name not found in the list of registered CSI drivers", and start when kubelet
    tries again.

    Fix: Give the pool the driver's startup taint: taints of a group, of which cluster autoscaler is told with
    --startup-taint, or startupTaints of a NodePool; with this library storage_drivers of the NodeShape.
    """
    told: set[tuple[int, str]] = set()
    for workload, claim in case.gpu_claims:
        _, driver = driver_of(claim, case.cluster)
        key = STARTUP_TAINTS.get(driver or "")
        for pool in case.pools_open_to(workload) if key else ():
            if key and not _waits(pool, key) and (id(pool), key) not in told:
                told.add((id(pool), key))
                text = f"no taint {key} keeps pods away until the driver of their volumes is there"
                yield Problem.of(pool, text)


def _waits(pool: Pool, key: str) -> bool:
    """Whether the nodes of a pool keep pods away by a taint, or none of them is fresh when a pod comes."""
    fixed = pool.min_nodes is not None and pool.min_nodes == pool.max_nodes
    return fixed or any(each.key == key for each in (*pool.startup_taints, *pool.taints))
