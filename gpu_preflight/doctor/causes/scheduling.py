"""Why no running node takes a pod: its spec against each node, and the free devices of each node.

The result of this comparison is checked against the message of the scheduler. Since 1.35 that message no longer names
the taint, so the comparison does.

Source: kubernetes/kubernetes v1.36.2 pkg/scheduler/framework/types.go and pkg/scheduler/framework/plugins (read
2026-11)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import GPU_PRESENT, INSTANCE_TYPE, NODE_FEATURE
from gpu_facts.light import dataclass
from gpu_facts.quantities import distinct, show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DISK, EFA, GPU, NVIDIA
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, weaker
from gpu_preflight.doctor.causes.gpu_stack import may_be_offered_as
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import CONDITION_TAINTS, PASSING_TAINTS, Live, NodeFit, Target, titles
from gpu_preflight.doctor.patches import command, kubectl, tolerating
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.taints import Taint
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mappings
from gpu_preflight.remedies.change import Change
from gpu_preflight.scheduling.verdict import PoolVerdict

_CONDITION_TAINTS = {
    **dict.fromkeys(("not-ready", "unreachable"), "S4"),
    **dict.fromkeys(("disk-pressure", "memory-pressure", "pid-pressure"), "S5"),
}
# Kinds of reasons of the simulation that come from the pod's spec.
_OF_SPEC = ("taint", "label", "resource", "port", "topology", "volume")
# Labels of GPU Feature Discovery and Node Feature Discovery, which run on the node.
# Source: https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/docs/gpu-feature-discovery/README.md (2026-11)
_DISCOVERED = ("nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig.", NODE_FEATURE)
_HUGE = "hugepages-"
# A pod that is deleted ends until its deletionTimestamp, which includes its grace period. The kubelet reports it later.
_LATE_SECONDS, _STUCK_SECONDS = 15, 300
# The scheduler's text for each cause: part of it proves the cause if our own comparison finds it too.
_TEXTS = {
    "P5": ("untolerated taint", "didn't tolerate"),
    "P6": ("node affinity/selector", "didn't match node selector"),
    "S4": ("untolerated taint", "were not ready"),
    "S5": ("untolerated taint", "pressure"),
    "S7": ("Too many pods",),
}


_EARLY = ("unbound immediate PersistentVolumeClaims", 'persistentvolumeclaim "')


@dataclass(frozen=True, slots=True)
class _View:
    """The inputs of the comparison of one pod with all nodes.

    Attributes:
        nodes: The nodes that could serve the pod: with its device, or of an instance type with GPUs.
        message: The scheduler's message; empty if nothing is known.
        evidence: The message as evidence.
        certainty: How certain the lists of nodes and pods are.
    """

    live: Live
    target: Target
    nodes: tuple[NodeFit, ...]
    message: str
    evidence: tuple[Evidence, ...]
    certainty: Confidence


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why the scheduler puts a pod on no running node."""
    if target.pod is None or target.node is not None or target.read.gates or live.phase(target.pod) != "Pending":
        return
    view = _view(live, target)
    if view is None or any(each.fits for each in view.nodes):
        return
    waiting = [each for each in view.nodes if not _spec_faults(each)]
    if waiting:
        # The scheduler rejects such a pod before it compares it with a node.
        is_early = any(each in view.message for each in _EARLY)
        yield from () if is_early else _state_causes(view, waiting)
    else:
        verdict = live.verdict(target)
        pools = [each for each in verdict.pools if live.may_grow(each.pool)] if verdict is not None else []
        # If a pool may launch a node that matches the spec of the pod, running nodes don't decide.
        if not view.nodes or any(each.answer is not Answer.NO or not _has_spec_reason(each) for each in pools):
            return
        fewest = min(len(_spec_faults(each)) for each in view.nodes)
        nearest = [each for each in view.nodes if len(_spec_faults(each)) == fewest]
        for faults in (_untolerated, _unlabelled, _too_small, _without_resource):
            yield from faults(view, nearest)


def _has_spec_reason(pool: PoolVerdict) -> bool:
    return any(each.kind in _OF_SPEC for each in pool.reasons)


def _view(live: Live, target: Target) -> _View | None:
    every = live.fits(target)
    certain = live.certainty("Node"), live.certainty("Pod")
    if certain[0] is None or target.pod is None:
        return None
    scheduled = live.condition(target.pod, "PodScheduled")
    proofs: tuple[Evidence, ...] = ()
    if scheduled is not None and scheduled.status == "False":
        proofs = (live.condition_evidence(target.pod, scheduled),)
    else:
        events = live.object_events(target.pod, reason="FailedScheduling", component="default-scheduler")
        proofs = (live.event_evidence(events[0]),) if events else ()
    devices = set(target.devices)
    nodes = tuple(
        each
        for each in every
        if not devices
        or devices & live.capacity(each.node).keys()
        or str(each.node.labels.get(INSTANCE_TYPE)) in catalogue()
        or GPU_PRESENT in each.node.labels
    )
    message = proofs[0].value if proofs else ""
    return _View(live, target, nodes, message, proofs, weaker(certain[0], certain[1] or "possible"))


def _lasting(fit: NodeFit) -> tuple[Taint, ...]:
    """Return the taints that a pod must tolerate, without those that pass or that another cause explains."""
    return tuple(each for each in fit.taints if not each.key.startswith(PASSING_TAINTS))


def _spec_faults(fit: NodeFit) -> tuple[str, ...]:
    """Return the parts of the pod's spec that don't match the node, whatever runs on it."""
    return tuple(
        name
        for name, found in (
            ("taints", _lasting(fit)),
            ("labels", fit.labels),
            ("size", {name for name in fit.too_small if not _is_offered_later(fit, name)}),
            ("resource", [name for name in fit.unknown if not _type_has(fit.node, name)]),
        )
        if found
    )


def _type_has(node: Object, name: str) -> bool:
    """Whether the instance type of a node has a device that the node doesn't offer."""
    row = catalogue().get(str(node.labels.get(INSTANCE_TYPE)))
    return row is not None and (name == GPU or (name == EFA and bool(row.max_efa)))


def _is_offered_later(fit: NodeFit, name: str) -> bool:
    """Whether a node has a device that it doesn't offer now; causes of the GPU software explain that."""
    capacity = dig(fit.node.content, "status", "capacity", name)
    row = catalogue().get(str(fit.node.labels.get(INSTANCE_TYPE)))
    asked, have = fit.too_small[name]
    return name.startswith(NVIDIA) and (str(capacity) != str(have) or (row is not None and asked <= row.ec2_gpus))


def _agreed(view: _View, id: str, texts: Iterable[str] = ()) -> Confidence:
    """Return how certain a computed cause is, given the scheduler's message."""
    groups = mappings(view.live.autoscaler_status.get("nodeGroups"))
    agrees = any(each in view.message for each in (*_TEXTS.get(id, ()), *texts))
    if id.startswith("P") and None in (view.live.certainty("Deployment"), view.live.certainty("NodePool")):
        # An autoscaler that the dump doesn't show may launch a node for the pod.
        return weaker("likely" if agrees else "possible", view.certainty)
    # Cluster Autoscaler may know a group without nodes, whose template isn't in the dump.
    sizes = [dig(each, "health", "nodeCounts", "registered", "total") for each in groups]
    is_open = id.startswith("P") and any(each in (0, None) for each in sizes)
    return view.certainty if agrees and not is_open else weaker("likely", view.certainty)


def _cause(
    view: _View,
    id: str,
    message: str,
    fix: str,
    run: str = "",
    *,
    change: Change | None = None,
    shown: Iterable[Evidence] = (),
    subject: str = "",
    texts: Iterable[str] = (),
    excluded: Iterable[str] = (),
) -> Cause:
    proofs = (*shown, *view.evidence)
    confidence = _agreed(view, id, texts)
    return Cause(id, subject or view.target.title, message, confidence, proofs, fix, run, change, tuple(excluded))


# The spec of the pod against nodes.


def _untolerated(view: _View, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    found = [each for each in nodes if _lasting(each)]
    if not found:
        return
    first = _lasting(found[0])
    listed = ", ".join(map(str, first))
    shown = [Evidence(f"Node {each.node.name}", "spec.taints", str(_lasting(each)[0])) for each in found[:2]]
    text = f"{view.target.title} doesn't tolerate taint {listed} of {titles(each.node for each in found)}"
    root = view.target.root
    fix = f"add a toleration for {listed} to {'the pod' if root.kind == 'Pod' else f'the pod template of {root.title}'}"
    if root.kind == "Job":
        fix += ", and create the Job again, because the template of a Job can't be changed"
    change = tolerating(view.target, first)
    yield _cause(view, "P5", text, fix, command(view.target, change), shown=shown, change=change)


def _unlabelled(view: _View, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    found = [each for each in nodes if each.labels]
    if not found:
        return
    requirement = found[0].labels[0]
    carried = sorted({str(each.node.labels[requirement.key]) for each in nodes if requirement.key in each.node.labels})
    has = f"the nodes have {requirement.key} {', '.join(carried[:5])}" if carried else "no GPU node has this label"
    wanted = next(iter(requirement.values or ()), "")
    hint = did_you_mean(wanted, carried) if carried else did_you_mean(requirement.key, found[0].node.labels)
    text = f"{view.target.title} requires {requirement} of its node, and {has}{hint}"
    fix = f"correct {requirement.key} in the pod, or give the nodes of its pool that label"
    shown = [
        Evidence(
            f"Node {each.node.name}",
            f"metadata.labels[{requirement.key}]",
            str(each.node.labels.get(requirement.key, "absent")),
        )
        for each in found[:2]
    ]
    yield _cause(view, "P6", text, fix, shown=shown)


def _too_small(view: _View, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    names = dict.fromkeys(name for each in nodes for name in each.too_small)
    for name in names:
        short = [each for each in nodes if name in each.too_small and not _is_offered_later(each, name)]
        if not short:
            continue
        asked, most = short[0].too_small[name][0], max(each.too_small[name][1] for each in short)
        id = "P3" if name.startswith(NVIDIA) else "P17" if name == DISK else "P16" if _is_special(name) else "P4"
        shown_asked, shown_most = distinct(name, asked, most)
        text = (
            f"{view.target.title} requests {shown_asked} {name}, and the largest GPU node has {shown_most} allocatable"
        )
        fix = f"request at most {shown_most} {name} in a pod, or use nodes of a larger type"
        if id == "P16" and not most:
            text = f"{view.target.title} requests {shown_asked} {name}, and no node offers any"
            fix = f"remove the request, or use nodes that offer {name}"
        largest = max(short, key=lambda each: each.too_small[name][1])
        shown = [Evidence(f"Node {largest.node.name}", f"status.allocatable[{name}]", show(name, most))]
        yield _cause(view, id, text, fix, shown=shown, texts=(f"Insufficient {name}",))


def _is_special(name: str) -> bool:
    return name.startswith(_HUGE) or name == EFA


def _without_resource(view: _View, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    offered = {name for each in view.live.nodes for name in view.live.capacity(each)}
    for name in dict.fromkeys(name for each in nodes for name in each.unknown):
        if name in offered or name == GPU or _may_be_offered(view, name):
            continue
        if any(_type_has(each.node, name) or _is_renamed(view, each.node, name) for each in nodes):
            continue
        devices = sorted(each for each in offered if each.startswith(NVIDIA)) or sorted(offered)
        id = "P16" if _is_special(name) else "P2"
        others = f"; the GPU nodes offer {', '.join(devices)}" if name.startswith(NVIDIA) and devices else ""
        text = f"{view.target.title} requests {name}, which no node offers{others}{did_you_mean(name, devices)}"
        fix = f"request {devices[0]} instead" if others else f"remove the request for {name}, or install what offers it"
        amount = show(name, view.target.read.requests.get(name, 0))
        shown = (Evidence(view.target.title, f"spec.containers[].resources.requests[{name}]", amount),)
        yield _cause(view, id, text, fix, shown=shown, texts=(f"Insufficient {name}",))


def _is_renamed(view: _View, node: Object, name: str) -> bool:
    """Whether a node offers its GPUs under another name, which the causes of the GPU software explain."""
    offered = any(each.startswith(NVIDIA) for each in view.live.allocatable(node))
    return offered and name.startswith(NVIDIA) and may_be_offered_as(node, name)


def _may_be_offered(view: _View, name: str) -> bool:
    """Whether a pool of the dump may offer a resource on a new node."""
    verdict = view.live.verdict(view.target)
    pools = [each for each in verdict.pools if not each.pool.observed] if verdict is not None else []
    return any(each.answer is not Answer.NO or not any(name in one.text for one in each.reasons) for each in pools)


# Nodes that match the pod, and can't take it now.


def _state_causes(view: _View, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    """Yield why nodes that match the spec of the pod can't take it now."""
    usable: list[NodeFit] = []
    unusable: list[NodeFit] = []
    for each in nodes:
        conditions = [id for taint in each.taints if (id := _condition_id(taint))]
        is_leaving = each.is_cordoned or any(taint.key.startswith(PASSING_TAINTS) for taint in each.taints)
        (unusable if conditions or is_leaving else usable).append(each)
        if conditions:
            yield _unhealthy(view, conditions[0], each)
        elif is_leaving and not _gpu_busy(each):
            yield _cordoned(view, each)
    # Where GPUs are free, something else is missing. A free GPU of an unusable node isn't "in use".
    with_gpus = [each for each in usable if not _lacks_gpus(each)]
    busy = [each for each in usable if _gpu_busy(each)]
    if with_gpus:
        for name in dict.fromkeys(name for each in with_gpus for name in each.busy):
            yield from _busy(view, name, [each for each in with_gpus if name in each.busy])
    elif busy and all(map(_gpu_busy, unusable)):
        for name in dict.fromkeys(name for name in busy[0].busy if name.startswith(NVIDIA)):
            found = _busy(view, name, [each for each in busy if name in each.busy])
            # If another node doesn't offer its GPUs, "in use" isn't the reason. A pod that doesn't end is one of two.
            yield from (each for each in found if each.id == "S14" or len(busy) == len(usable))
    yield from _labelled_later(view)


def _labelled_later(view: _View) -> Iterator[Cause]:
    """Yield a label that nodes get only after boot, so that no autoscaler finds a pool with it."""
    keys = [each for each in view.target.selected_keys if each.startswith(_DISCOVERED)]
    verdict = view.live.verdict(view.target)
    pools = [each for each in verdict.pools if not each.pool.observed] if verdict is not None else []
    refusing = [each for each in pools if any(key in one.text for key in keys for one in each.reasons)]
    if keys and refusing and len(refusing) == len(pools):
        key, pool = keys[0], refusing[0].pool
        carrier = next((each.node for each in view.nodes if key in each.node.labels), None)
        shown = [Evidence(pool.title, "labels of new nodes", f"no {key}")]
        shown += (
            [Evidence(f"Node {carrier.name}", f"metadata.labels[{key}]", str(carrier.labels[key]))] if carrier else []
        )
        text = (
            f"{view.target.title} selects {key}, which nodes of {pool.title} get only after boot, so it isn't scaled up"
        )
        fix = f"add label {key} to the node template of {pool.title}, or select a label of the instance type"
        yield _cause(view, "P7", text, fix, shown=shown, texts=("Insufficient", "affinity/selector"))


def _condition_id(taint: Taint) -> str | None:
    key = taint.key
    return _CONDITION_TAINTS.get(key.removeprefix(CONDITION_TAINTS)) if key.startswith(CONDITION_TAINTS) else None


def _unhealthy(view: _View, id: str, fit: NodeFit) -> Cause:
    name, live = fit.node.name, view.live
    taint = next(each for each in fit.taints if _condition_id(each))
    short = taint.key.removeprefix(CONDITION_TAINTS)
    shown = [Evidence(f"Node {name}", "spec.taints", str(taint))]
    kind = "Ready" if id == "S4" else "".join(map(str.title, short.split("-")))
    condition = live.condition(fit.node, kind.replace("Pid", "PID"))
    shown += [live.condition_evidence(fit.node, condition)] if condition is not None else []
    what = "isn't ready" if id == "S4" else f"is short of {short.partition('-')[0]}"
    text = f"Node {name} matches {view.target.title} and {what}"
    fix = "find why the kubelet isn't ready" if id == "S4" else "free the resource on the node, or replace the node"
    return _cause(view, id, text, fix, kubectl("describe", fit.node), shown=shown, subject=f"Node {name}")


def _cordoned(view: _View, fit: NodeFit) -> Cause:
    name = fit.node.name
    who = next((taint.key for taint in fit.taints if taint.key.startswith(PASSING_TAINTS)), "")
    removes = {"karpenter.sh/disrupted": "Karpenter", "ToBeDeletedByClusterAutoscaler": "Cluster Autoscaler"}.get(who)
    by = f"; {removes} removes it" if removes else ""
    text = f"Node {name} matches {view.target.title}, but it is {'being set up' if who and not by else 'cordoned'}{by}"
    fix = "wait for another node" if by else "wait until its taint is removed" if who else "uncordon the node"
    run = "" if who else kubectl("uncordon", fit.node)
    change = None if who else Change("uncordon the node", fit.node.origin, ("spec", "unschedulable"), False)
    field, value = ("spec.taints", who) if who else ("spec.unschedulable", "true")
    shown = [Evidence(f"Node {name}", field, value)]
    texts = ("untolerated taint", "didn't tolerate") if who else ("were unschedulable",)
    return _cause(view, "S3", text, fix, run, shown=shown, subject=f"Node {name}", change=change, texts=texts)


def _busy(view: _View, name: str, nodes: Sequence[NodeFit]) -> Iterator[Cause]:
    asked = nodes[0].busy[name][0]
    free = {each.node.name: max(each.busy[name][1], 0) for each in nodes}
    alike = [each for each in view.nodes if not each.labels and not _lasting(each) and name not in each.unknown]
    total = sum(max(view.live.free(each.node).get(name, 0), 0) for each in alike if not each.is_cordoned)
    if name == "pods":
        text = f"{view.target.title} matches {len(nodes)} nodes, which have no free pod slot"
        shown = [Evidence(f"Node {node}", "free pods", str(count)) for node, count in [*free.items()][:3]]
        yield _cause(view, "S7", text, "raise the max number of pods of a node, or use larger nodes", shown=shown)
        return
    holders = list(_holders(view, name, nodes))
    stuck = [each for each in holders if _seconds_late(view.live, each) > _LATE_SECONDS]
    text = f"{view.target.title} needs {show(name, asked)} {name}"
    agreed = (f"Insufficient {name}",)
    shown = [
        Evidence(
            f"Node {each.node.name}",
            f"free {name}",
            f"{show(name, free[each.node.name])} of {show(name, view.live.allocatable(each.node).get(name, 0))}",
        )
        for each in nodes[:3]
    ]
    if stuck and name.startswith(NVIDIA):
        yield _stuck_cause(view, name, stuck, text, shown)
        if total + sum(view.live.target(each).read.requests.get(name, 0) for each in stuck) >= asked:
            return
    if name.startswith(NVIDIA) and total >= asked and len(alike) > 1:
        said = f"{text} on one node, and {show(name, total)} are free on {len(alike)} nodes together"
        fix = "move pods so that one node has enough free GPUs, or add a node"
        yield _cause(view, "S2", said, fix, shown=shown, texts=agreed)
    elif name.startswith(NVIDIA):
        held = titles(holders) or "other pods"
        where = "the only node that matches" if len(nodes) == 1 else f"the {len(nodes)} nodes that match"
        verb = "is" if total == 1 else "are"
        said = f"{text}, and {show(name, total)} {verb} free on {where} it; GPUs are held by {held}"
        yield _cause(view, "S1", said, "wait for these pods, scale them down, or add a node", shown=shown, texts=agreed)
    else:
        said = f"{text}, and running pods leave at most {show(name, max(free.values()))} on a GPU node"
        fix = f"lower the request for {name}, move pods without GPUs away from GPU nodes, or add a node"
        excluded = ("GPUs are free on these nodes",) if not any(_gpu_busy(each) for each in nodes) else ()
        yield _cause(view, "P4", said, fix, shown=shown, texts=agreed, excluded=excluded)


def _gpu_busy(fit: NodeFit) -> bool:
    return any(name.startswith(NVIDIA) for name in fit.busy)


def _lacks_gpus(fit: NodeFit) -> bool:
    """Whether a node has too few free GPUs, or offers too few."""
    return any(name.startswith(NVIDIA) for name in (*fit.busy, *fit.too_small, *fit.unknown))


def _holders(view: _View, name: str, nodes: Sequence[NodeFit]) -> Iterator[Object]:
    """Yield the pods that request a resource of some nodes, pods that are deleted first."""
    found = [
        pod
        for each in nodes
        for pod in view.live.pods_by_node.get(each.node.name, ())
        if view.live.target(pod).read.requests.get(name)
    ]
    yield from sorted(found, key=lambda each: not dig(each.content, "metadata", "deletionTimestamp"))


def _stuck_cause(view: _View, name: str, stuck: Sequence[Object], text: str, shown: Sequence[Evidence]) -> Cause:
    held = ", ".join(each.title for each in stuck[:3])
    deleted = [
        Evidence(each.title, "metadata.deletionTimestamp", str(dig(each.content, "metadata", "deletionTimestamp")))
        for each in stuck[:2]
    ]
    fix = "end these pods: look at their finalizers and their node"
    run = f"kubectl get pod {shlex.quote(stuck[0].name)} -n {shlex.quote(stuck[0].namespace)} -o yaml"
    said = f"{text}, and {held}, deleted and not ended, hold{'s' if len(stuck) == 1 else ''} GPUs"
    found = _cause(view, "S14", said, fix, run, shown=[*deleted, *shown], texts=(f"Insufficient {name}",))
    late = max(_seconds_late(view.live, each) for each in stuck)
    return found if late > _STUCK_SECONDS else replace(found, confidence=weaker("likely", found.confidence))


def _seconds_late(live: Live, pod: Object) -> float:
    return live.seconds_since(parse_time(dig(pod.content, "metadata", "deletionTimestamp"))) or 0.0
