"""Reasons why a node without GPU pods stays: its pods, annotations, budgets, the min of its group, delays, finalizers.

Karpenter reports what blocks it in events. Cluster Autoscaler writes it to its log only, so it is computed here.

Sources: karpenter 1.14.1 pkg/controllers/disruption and pkg/controllers/node/termination,
https://karpenter.sh/v1.14/concepts/disruption/, cluster-autoscaler 1.36.1 FAQ.md, "What types of pods can
prevent CA from removing a node?" (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.labels import DO_NOT_DISRUPT, NODE_GROUP, NODE_POOL, SAFE_TO_EVICT
from gpu_facts.resources import NVIDIA
from gpu_preflight.doctor.capacity import controller
from gpu_preflight.doctor.live import Live, is_daemon
from gpu_preflight.model.answer import Answer, all_yes
from gpu_preflight.model.label_values import equal, exactly, requirement
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, items, mapping, mappings

_MIRROR = "kubernetes.io/config.mirror"
_TERMINATION = "karpenter.sh/termination"
_SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
# Defaults of --scale-down-delay-after-add and --scale-down-unneeded-time.
_DELAY_SECONDS = 600
# Texts of Karpenter's event DisruptionBlocked that don't pass by themselves.
_BLOCKED = ("pdb", "annotation")


def removal_blockers(live: Live, node: Object) -> Iterator[str]:
    """Yield what keeps a node: an id of the catalogue of causes, and a sentence without a period."""
    offered = live.allocatable(node)
    claim = live.claim(node)
    in_use = any(name.startswith(NVIDIA) and free < offered[name] for name, free in live.free(node).items())
    if in_use and not is_leaving(live, node):
        yield "pods use some of its GPUs"
        return
    leaving = [
        each for each in (node, claim) if each is not None and dig(each.content, "metadata", "deletionTimestamp")
    ]
    if leaving:
        yield from _drain(live, node, claim, leaving[0])
    elif node.labels.get(NODE_POOL):
        yield from _for_karpenter(live, node, claim)
    else:
        yield from _for_group(live, node)


def is_leaving(live: Live, node: Object) -> bool:
    """Whether a node should go: it is cordoned or deleted, or Karpenter can't consolidate it."""
    if node.spec.get("unschedulable") is True or dig(node.content, "metadata", "deletionTimestamp"):
        return True
    return any(text in _event(live, node, live.claim(node), "DisruptionBlocked").lower() for text in _BLOCKED)


def _pods(live: Live, node: Object) -> list[Object]:
    """Return the pods that a drain evicts: without DaemonSet pods and static pods."""
    found = live.pods_by_node.get(node.name, ())
    return [each for each in found if _MIRROR not in each.annotations and not is_daemon(each)]


def _drain(live: Live, node: Object, claim: Object | None, leaving: Object) -> Iterator[str]:
    """Yield why a node that is being deleted still exists."""
    since = dig(leaving.content, "metadata", "deletionTimestamp")
    failed = _event(live, node, claim, "FailedDraining")
    stuck = [each for each in _pods(live, node) if dig(each.content, "metadata", "deletionTimestamp")]
    if failed:
        yield f"D7: its drain hangs since {since}: {failed}"
    elif stuck:
        yield f"D7: its drain waits since {since} for {stuck[0].title}, which doesn't end"
    elif budgets := list(_budgets(live, node)):
        yield f"D7: its drain waits since {since}: {budgets[0].partition(': ')[2]}"
    elif _TERMINATION in items(dig(leaving.content, "metadata", "finalizers")):
        runs = any("karpenter" in each.name and live.is_fine(each) for each in live.objects("Pod"))
        without = "" if runs or live.certainty("Pod") is None else ", and no pod of Karpenter runs"
        yield f"D9: the finalizer {_TERMINATION} holds it since {since}{without}"
    else:
        yield f"D9: it is being deleted since {since}"


def _event(live: Live, node: Object, claim: Object | None, reason: str) -> str:
    """Return the message of the newest event of Karpenter about a node or its NodeClaim; empty without one."""
    objects = (node, claim) if claim is not None else (node,)
    every = [one for each in objects for one in live.object_events(each, reason=reason)]
    found = sorted(every, key=lambda each: each.time.timestamp() if each.time else 0.0, reverse=True)
    return next((each.message for each in found if each.component in ("karpenter", "")), "")


def _for_karpenter(live: Live, node: Object, claim: Object | None) -> Iterator[str]:
    """Yield Karpenter's messages, and settings that it respects."""
    for each in (node, claim):
        if each is not None and each.annotations.get(DO_NOT_DISRUPT) == "true":
            yield f"D4: {each.kind} {each.name} has the annotation {DO_NOT_DISRUPT}"
            break
    pods = _pods(live, node)
    held = (each for each in pods if str(each.annotations.get(DO_NOT_DISRUPT)) == "true")
    yield from (f"D4: {each.title} has the annotation {DO_NOT_DISRUPT}" for each in held)
    yield from _budgets(live, node)
    pool = live.object("NodePool", str(node.labels[NODE_POOL]))
    policy = list(_policy(pool, has_pods=bool(pods))) if pool is not None else []
    yield from policy
    blocked = live.last_event(pool, "DisruptionBlocked") if pool is not None else None
    if blocked is not None and not policy:
        yield f"D5: NodePool {node.labels[NODE_POOL]}: {blocked.message}"
    if reported := _event(live, node, claim, "DisruptionBlocked"):
        yield f"D4: Karpenter reports: {reported}"
    elif reported := _event(live, node, claim, "Unconsolidatable"):
        yield f"D6: Karpenter reports: {reported}"


def _policy(pool: Object, *, has_pods: bool) -> Iterator[str]:
    """Yield the settings of a NodePool that forbid the removal of an idle node."""
    disruption = mapping(pool.spec.get("disruption"))
    after = str(disruption.get("consolidateAfter") or "")
    if after == "Never":
        yield f"D6: NodePool {pool.name} has consolidateAfter Never"
    elif disruption.get("consolidationPolicy") == "WhenEmpty" and has_pods:
        yield f"D6: NodePool {pool.name} removes empty nodes only, and other pods run on the node"
    for each in mappings(disruption.get("budgets")):
        reasons = items(each.get("reasons"))
        is_now = not each.get("schedule") and (not reasons or "Empty" in reasons or "Underutilized" in reasons)
        if is_now and str(each.get("nodes")) in ("0", "0%"):
            yield f"D5: a disruption budget of NodePool {pool.name} allows 0 nodes"
            return


def _budgets(live: Live, node: Object) -> Iterator[str]:
    """Yield the PodDisruptionBudgets that allow no eviction of a pod of a node."""
    for pod in _pods(live, node):
        for each in live.objects("PodDisruptionBudget", pod.namespace):
            allowed = dig(each.content, "status", "disruptionsAllowed")
            if allowed == 0 and _selects(each.spec.get("selector"), pod):
                yield f"D1: {each.title} allows no eviction of {pod.title}"
                return


def _selects(selector: Any, pod: Object) -> bool:
    if not isinstance(selector, dict):
        return False
    labels = {key: exactly(str(value)) for key, value in pod.labels.items()}
    expressions = map(requirement, mappings(selector.get("matchExpressions")))
    wanted = (*equal(mapping(selector.get("matchLabels"))), *expressions)
    return all_yes(each.matches(labels) for each in wanted) is Answer.YES


def _for_group(live: Live, node: Object) -> Iterator[str]:
    """Yield what keeps a node of a group, for Cluster Autoscaler only if it is in the dump."""
    if live.autoscaler_status or controller(live, "cluster-autoscaler") is not None:
        yield from _for_cluster_autoscaler(live, node)
    yield from _budgets(live, node)
    yield from _min_size(live, node)
    groups = {each.labels.get(NODE_GROUP) for each in live.nodes} - {None}
    for update in mappings(live.aws("update")):
        codes = [str(each.get("errorCode")) for each in mappings(update.get("errors"))]
        if "PodEvictionFailure" in codes and node.labels.get(NODE_GROUP):
            which = "its node group" if len(groups) == 1 else "a node group"
            yield f"D10: the update {update.get('id')} of {which} can't evict pods (PodEvictionFailure)"


def _for_cluster_autoscaler(live: Live, node: Object) -> Iterator[str]:
    """Yield what keeps Cluster Autoscaler from removing a node."""
    if str(node.annotations.get(_SCALE_DOWN_DISABLED)) == "true":
        yield f"D2: it has the annotation {_SCALE_DOWN_DISABLED}"
    yield from _pods_that_stay(live, node)
    age = live.seconds_since(live.created(node))
    if age is not None and age < _DELAY_SECONDS:
        yield "D2: it is younger than 10 minutes, and Cluster Autoscaler waits that long after a scale-up"


def _pods_that_stay(live: Live, node: Object) -> Iterator[str]:
    """Yield the pods that Cluster Autoscaler doesn't evict, by its defaults or the flags of its Deployment."""
    deployment = controller(live, "cluster-autoscaler")
    containers = mappings(dig(deployment.spec, "template", "spec", "containers")) if deployment is not None else ()
    flags = " ".join(
        str(argument) for each in containers for argument in (*items(each.get("command")), *items(each.get("args")))
    )
    for pod in _pods(live, node):
        if str(pod.annotations.get(SAFE_TO_EVICT)) == "true":
            continue
        if str(pod.annotations.get(SAFE_TO_EVICT)) == "false":
            yield f"D1: {pod.title} has the annotation {SAFE_TO_EVICT}: false"
        elif pod.namespace == KUBE_SYSTEM and "skip-nodes-with-system-pods=false" not in flags:
            budgets = live.objects("PodDisruptionBudget", pod.namespace)
            has_budget = any(_selects(each.spec.get("selector"), pod) for each in budgets)
            if not has_budget and live.certainty("PodDisruptionBudget") is not None:
                yield f"D1: {pod.title} is in {KUBE_SYSTEM} without a PodDisruptionBudget"
        elif not dig(pod.content, "metadata", "ownerReferences"):
            yield f"D1: {pod.title} has no controller"
        elif "skip-nodes-with-local-storage=false" not in flags and (name := _local_volume(pod)):
            yield f"D1: {pod.title} has local storage in volume {name}"


def _local_volume(pod: Object) -> str:
    """Return the name of a volume on the node's disk; empty if there is none. Volumes in memory don't count."""
    for each in mappings(pod.spec.get("volumes")):
        if "hostPath" in each or ("emptyDir" in each and dig(each, "emptyDir", "medium") != "Memory"):
            return str(each.get("name"))
    return ""


def _min_size(live: Live, node: Object) -> Iterator[str]:
    """Yield the min of the node group, if the group has reached it."""
    name = str(node.labels.get(NODE_GROUP) or "")
    managed = (each for each in mappings(live.aws("nodegroup")) if each.get("nodegroupName") == name)
    reported = mappings(live.autoscaler_status.get("nodeGroups"))
    own = (mapping(each.get("health")) for each in reported if str(each.get("name")).startswith(f"eks-{name}-"))
    sizes = [(mapping(each.get("scalingConfig")), "desiredSize") for each in managed]
    sizes += [(each, "cloudProviderTarget") for each in own]
    for size, key in sizes if name else ():
        least, now = size.get("minSize"), size.get(key)
        if isinstance(least, int) and isinstance(now, int) and 0 < now <= least:
            yield f"D2: node group {name} has its min of {least} nodes"
            return
