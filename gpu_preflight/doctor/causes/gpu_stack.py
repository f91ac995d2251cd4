"""Causes on nodes whose GPUs or EFA devices a pod can't use, and names under which they are offered.

A node counts only if the pod would run on it with all its devices, so that a broken node of another kind isn't named.

Sources: kubernetes v1.36.2 pkg/scheduler/framework/plugins/dynamicresources, NVIDIA/mig-parted label
nvidia.com/mig.config.state, eks-node-monitoring-agent 1.7.0 monitors/nvidia (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import GPU_PRESENT, INSTANCE_TYPE
from gpu_facts.resources import DEVICE_CLASS, EFA, GPU, MIG, NVIDIA, SHARED
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, weaker
from gpu_preflight.doctor.causes.device_plugins import (
    device_causes,
    device_manager,
    dra_causes,
    log_causes,
    plugin_pods,
    unhealthy_devices,
)
from gpu_preflight.doctor.live import Live, NodeFit, Target
from gpu_preflight.reading.objects import Object

# Nodes that are looked at one by one. Most clusters have few kinds of faults, on many nodes.
MAX_NODES = 20
_MIG_STATE = "nvidia.com/mig.config.state"
# How a program reports a fault of its GPU.
DEVICE_ERRORS = ("uncorrectable", "ECC error", "GPU is lost", "fallen off the bus", "unspecified launch failure", "Xid")
_FABRIC = ("FabricManagerNotRunning", "Fabric Manager status")


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes on nodes that lack devices, each once with the number of nodes that it concerns."""
    found: dict[tuple[str, str], list[Cause]] = {}
    nodes = list(islice(nodes_without_devices(live, target), MAX_NODES + 1))
    for node, device in nodes[:MAX_NODES]:
        for cause in device_causes(live, node, device):
            key = cause.id, cause.subject if cause.subject.startswith("DaemonSet") else ""
            found.setdefault(key, []).append(cause)
    for causes in found.values():
        least = "at least " if len(nodes) > MAX_NODES else ""
        more = f" (and {least}{len(causes) - 1} more nodes)" if len(causes) > 1 else ""
        yield replace(causes[0], message=causes[0].message + more)
    yield from _other_names(live, target)
    yield from _no_slices(live, target)
    yield from _fabric_manager(live, target)
    yield from _lost_devices(live, target)
    if target.pod is not None and device_manager(target.pod.spec, target.pod.name) is not None:
        yield from log_causes(live, target.pod, live.node(target) or target.pod)


def nodes_without_devices(live: Live, target: Target) -> Iterator[tuple[Object, str]]:
    """Yield each node that a waiting pod would run on if the node offered all its devices, and the device it lacks."""
    if not waits_for_a_node(live, target):
        return
    fits = live.fits(target)
    if any(each.fits for each in fits):
        return
    for fit in fits:
        if _is_renamed(live, fit):
            continue
        lacking = [name for name in _short(fit) if _missing(live, fit.node, name, target) > 0]
        wanted, free = target.read.requests, live.free(fit.node)
        would_fit = all(
            wanted[name] <= max(free.get(name, 0), 0) + _missing(live, fit.node, name, target) for name in _short(fit)
        )
        if lacking and would_fit and fit.fits_except("unknown", "too_small", "busy"):
            yield fit.node, lacking[0]


def waits_for_a_node(live: Live, target: Target) -> bool:
    """Whether a pod waits for a scheduler to select its node."""
    if target.pod is None or target.node is not None or live.phase(target.pod) != "Pending":
        return False
    scheduled = live.condition(target.pod, "PodScheduled")
    return scheduled is None or scheduled.reason != "SchedulingGated"


def _short(fit: NodeFit) -> list[str]:
    return [*fit.unknown, *fit.too_small, *fit.busy]


def _missing(live: Live, node: Object, device: str, target: Target) -> int:
    """Return how many devices a node should offer more than it does."""
    if device not in (GPU, EFA) and not device.startswith(NVIDIA):
        return 0
    row, have = catalogue().get(str(node.labels.get(INSTANCE_TYPE))), live.capacity(node).get(device, 0)
    built = 0
    if row is not None:
        built = {GPU: row.gpus, EFA: row.max_efa or 0}.get(device, 0)
    elif device == GPU and node.labels.get(GPU_PRESENT) == "true":
        built = target.read.requests.get(device, 0)
    return max(have, built) - live.allocatable(node).get(device, 0)


def _is_renamed(live: Live, fit: NodeFit) -> bool:
    """Whether a node offers GPUs, and none under the name that the pod requests."""
    offered = any(name.startswith(NVIDIA) and amount for name, amount in live.allocatable(fit.node).items())
    wanted = [name for name in _short(fit) if name.startswith(NVIDIA)]
    return offered and bool(wanted) and not any(live.capacity(fit.node).get(name) for name in wanted)


def may_be_offered_as(node: Object, name: str) -> bool:
    """Whether another configuration of the device plugin would offer the GPUs of a node under a name."""
    row = catalogue().get(str(node.labels.get(INSTANCE_TYPE)))
    return name == GPU or name.endswith(SHARED) or (name.startswith(MIG) and (row is None or row.mig))


def _other_names(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the cause that the nodes offer GPUs only under other names than the pod requests."""
    if not waits_for_a_node(live, target):
        return
    offered = {name for node in live.nodes for name, amount in live.capacity(node).items() if amount}
    wanted = [each for each in target.devices if each not in offered]
    for fit in live.fits(target) if wanted else ():
        is_alone = {*_short(fit)} <= {*wanted} and fit.fits_except("unknown", "too_small", "busy")
        if is_alone and _is_renamed(live, fit) and may_be_offered_as(fit.node, wanted[0]):
            yield _other_name(live, target, fit.node, wanted[0])
            return


def _other_name(live: Live, target: Target, node: Object, wanted: str) -> Cause:
    names = [name for name, amount in live.allocatable(node).items() if name.startswith(NVIDIA) and amount]
    amount = str(live.allocatable(node)[names[0]])
    evidence: tuple[Evidence, ...] = (Evidence(f"Node {node.name}", f"status.allocatable[{names[0]}]", amount),)
    message = f"Node {node.name} offers {', '.join(names)}, and {target.title} requests {wanted}"
    fix = f"request {names[0]} in the pod, or change how the device plugin names the GPUs"
    state = str(node.labels.get(_MIG_STATE) or "")
    if state and state != "success":
        evidence += (Evidence(f"Node {node.name}", f"metadata.labels[{_MIG_STATE}]", state),)
        message += f", because the partitioning of its GPUs is {state}"
        fix = "read the log of the MIG manager on the node and partition the GPUs again"
    scheduled = live.condition(target.named, "PodScheduled")
    is_reported = scheduled is not None and f"Insufficient {wanted}" in scheduled.message
    sure = weaker("proven" if is_reported else "likely", live.certainty("Node") or "possible")
    return Cause("G10", target.title, message, sure, evidence, fix)


def _no_slices(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why no node of a pod with resource claims publishes devices."""
    if not target.read.claims or not waits_for_a_node(live, target):
        return
    slices = [each for each in live.objects("ResourceSlice") if each.spec.get("driver") == DEVICE_CLASS]
    # Claims that are created for the pod begin with its name.
    names = (*(str(each.claim) for each in target.read.claims if each.claim), f"{target.named.name}-")
    claims = [each for each in live.objects("ResourceClaim", target.namespace) if each.name.startswith(names)]
    if slices or not any(DEVICE_CLASS in repr(each.spec) for each in claims):
        return
    for fit in live.fits(target):
        row = catalogue().get(str(fit.node.labels.get(INSTANCE_TYPE)))
        if row is None or not row.gpus or not fit.fits:
            continue
        for cause in dra_causes(live, fit.node):
            # A driver whose DaemonSet has no pod on the node publishes nothing there.
            open: Confidence = "possible" if cause.subject.startswith("Node ") else "likely"
            yield replace(cause, confidence=weaker(live.certainty("ResourceSlice") or open, cause.confidence))
        return


def _fabric_manager(live: Live, target: Target) -> Iterator[Cause]:
    node = live.node(target)
    if node is None or target.pod is None or not target.devices or not live.has_crashed(target.pod):
        return
    reported = [each for each in live.conditions(node) if any(t in each.reason + each.message for t in _FABRIC)]
    seen = [each for each in live.object_events(node) if any(text in each.reason + each.message for text in _FABRIC)]
    evidence = [*(live.condition_evidence(node, each) for each in reported), *map(live.event_evidence, seen)]
    if evidence:
        message = f"Fabric Manager doesn't run on node {node.name}, so CUDA can't use its GPUs"
        fix = "replace the node, and use an image whose Fabric Manager has the version of its driver"
        sure: Confidence = "proven" if reported else "likely"
        yield Cause("G16", f"Node {node.name}", message, sure, tuple(evidence[:2]), fix)


def _lost_devices(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the cause that a GPU of the node became unhealthy under a pod that fails."""
    node = live.node(target)
    if node is None or target.pod is None or live.is_fine(target.pod) or live.phase(target.pod) != "Running":
        return
    for name in target.devices:
        if live.allocatable(node).get(name, 0) < live.capacity(node).get(name, 0):
            error = next(live.log_lines(target.pod, *DEVICE_ERRORS), None)
            sure: Confidence = "likely" if error is not None else "possible"
            yield replace(unhealthy_devices(live, node, name, plugin_pods(live, node)), confidence=sure)
