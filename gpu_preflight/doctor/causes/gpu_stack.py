"""Causes on nodes that don't offer their devices: device plugins, the DRA driver, drivers, names of shares and slices.

A node counts only if the pod would run on it with all its devices, so that a broken node of another kind isn't named.

Sources: NVIDIA/k8s-device-plugin v0.20.0 cmd/nvidia-device-plugin/main.go and internal/rm/health.go,
kubernetes v1.36.2 pkg/kubelet/cm/devicemanager/manager.go and pkg/kubelet/nodestatus/setters.go,
kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, aws/eks-charts stable/aws-efa-k8s-device-plugin (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from shlex import join
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import COMPUTE_TYPE, GPU_PRESENT, INSTANCE_TYPE
from gpu_facts.light import dataclass, regex
from gpu_facts.resources import DEVICE_CLASS, EFA, GPU, MIG, NVIDIA, SHARED
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, weaker
from gpu_preflight.doctor.live import Live, NodeFit, Target, titles
from gpu_preflight.model.pod import read_pod, read_pod_template
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_FALLEN = ("CrashLoopBackOff", "Error", "ImagePullBackOff", "ErrImagePull", "RunContainerError", "CreateContainerError")
# Device plugins of other devices.
_OTHERS = ("rdma", "sriov", "neuron", "habana", "amd", "intel", "fuse", "smarter")
# The variant of Bottlerocket, such as aws-k8s-1.36-nvidia.
_BOTTLEROCKET = regex(r"^Bottlerocket .*\((?P<variant>aws-k8s-[^)]*)\)")
# Lines of the device plugin's log, the first that occurs counts.
_LOG_LINES = (
    ("G5", ("Failed to initialize NVML", "Incompatible strategy detected", "Incompatible platform detected")),
    ("G7", ("No devices found. Waiting indefinitely",)),
    ("G8", ("Could not register device plugin", "Failed to start one or more plugins")),
)
_LOG_CAUSES: Mapping[str, tuple[str, str]] = {
    "G5": (
        "finds no usable NVIDIA driver or container toolkit",
        "Use an image with the NVIDIA driver and toolkit, such as an accelerated EKS AMI, and replace the node",
    ),
    "G7": (
        "finds no GPU",
        "Check that the instance type has a GPU and that the MIG strategy matches the GPU's partitions",
    ),
    "G8": ("can't register with kubelet", "Restart the device plugin pod of the node"),
}
_UNHEALTHY = ("XidCriticalError", "marked unhealthy", "marking device as unhealthy")
_FABRIC = ("FabricManagerNotRunning", "Fabric Manager status")


@dataclass(frozen=True, slots=True)
class Manager:
    """A kind of DaemonSet that registers devices on a node.

    Attributes:
        title: Its name in messages.
        device: What it registers.
        absent: Id of the cause that none is installed.
        labels: Id of the cause that it doesn't select the node.
        taints: Id of the cause that it doesn't tolerate a taint of the node.
        pod: Id of the cause that its pod doesn't run on the node.
        install: The action that installs it.
    """

    title: str
    device: str
    absent: str
    labels: str
    taints: str
    pod: str
    install: str


_PLUGIN = Manager("device plugin", GPU, "G1", "G2", "G3", "G4", "Install NVIDIA's device plugin or the GPU Operator")
_EFA_PLUGIN = Manager("EFA device plugin", EFA, *("G24",) * 4, "Install the chart aws-efa-k8s-device-plugin")
_DRA = Manager("DRA driver", "ResourceSlice", *("G17",) * 4, "Install NVIDIA's DRA driver")


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes on nodes that lack devices, each once with the number of nodes that it concerns."""
    found: dict[tuple[str, str], list[Cause]] = {}
    for node, device in nodes_without_devices(live, target):
        for cause in device_causes(live, node, device):
            key = cause.id, cause.subject if cause.subject.startswith("DaemonSet") else ""
            found.setdefault(key, []).append(cause)
    for causes in found.values():
        more = f" (and {len(causes) - 1} more nodes)" if len(causes) > 1 else ""
        yield replace(causes[0], message=causes[0].message + more)
    yield from _other_names(live, target)
    yield from _no_slices(live, target)
    yield from _fabric_manager(live, target)
    if target.pod is not None and manager_of(target.pod.spec, target.pod.name) is not None:
        yield from _log_causes(live, target.pod, live.node(target) or target.pod)


def nodes_without_devices(live: Live, target: Target) -> Iterator[tuple[Object, str]]:
    """Yield each node that a waiting pod would run on if the node offered all its devices, and the device it lacks."""
    if not _waits_for_a_node(live, target):
        return
    fits = live.fits(target)
    if any(each.fits for each in fits):
        return
    for fit in fits:
        if any(name.startswith(NVIDIA) and amount for name, amount in live.allocatable(fit.node).items()) and not any(
            live.capacity(fit.node).get(name) or name == EFA for name in _short(fit)
        ):
            continue
        lacking = [name for name in _short(fit) if _missing(live, fit.node, name, target) > 0]
        if lacking and fit.fits_except("unknown", "too_small", "busy") and _would_fit(live, fit, target):
            yield fit.node, lacking[0]


def _waits_for_a_node(live: Live, target: Target) -> bool:
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


def _would_fit(live: Live, fit: NodeFit, target: Target) -> bool:
    wanted, free = target.read.requests, live.free(fit.node)
    return all(
        wanted[name] <= max(free.get(name, 0), 0) + _missing(live, fit.node, name, target) for name in _short(fit)
    )


def device_causes(live: Live, node: Object, device: str) -> Iterator[Cause]:
    """Yield why a node offers fewer devices than it has."""
    manager = _EFA_PLUGIN if device == EFA else _PLUGIN
    pods = _pods_on(live, node, manager)
    yield from _two_managers(live, node, pods)
    if failing := _failing_driver(live, node):
        yield failing
        return
    capacity, offered = live.capacity(node).get(device), live.allocatable(node).get(device, 0)
    runs = [each for each in pods if live.is_fine(each)]
    if capacity and offered < capacity and (offered or runs):
        yield _unhealthy(live, node, device, runs)
        return
    if not pods:
        yield from [_built_in(live, node)] if _has_built_in(node) else _absent(live, node, manager)
        return
    known = [cause for pod in pods for cause in _log_causes(live, pod, node)]
    if known or not runs:
        yield from known or [_not_running(live, pods[0], node, manager)]
        return
    yield _silent(live, node, runs[0], manager, device)


def manager_of(spec: Mapping[str, Any], name: str) -> Manager | None:
    """Return the kind of device manager that a pod or DaemonSet with a spec is; ``None`` if it isn't one."""
    paths = [str(dig(each, "hostPath", "path") or "") for each in mappings(spec.get("volumes"))]
    text = " ".join([name, *(str(each.get("image")) for each in mappings(spec.get("containers")))]).lower()
    if any(each.startswith("/var/lib/kubelet/device-plugins") for each in paths):
        if "efa" in text:
            return _EFA_PLUGIN
        others = any(each in text for each in _OTHERS)
        return _PLUGIN if not others and any(each in text for each in ("nvidia", "gpu", "device-plugin")) else None
    kubelet = any(each.startswith("/var/lib/kubelet/plugins") for each in paths)
    return _DRA if kubelet and "dra" in text and ("nvidia" in text or "gpu" in text) else None


def _pods_on(live: Live, node: Object, manager: Manager) -> list[Object]:
    """Return the pods of a kind of device manager on a node, and those that wait for it."""
    found = [each for each in live.pods_by_node.get(node.name, ()) if manager_of(each.spec, each.name) is manager]
    waiting = (each for each in live.objects("Pod") if not each.spec.get("nodeName") and node.name in repr(each.spec))
    return found + [each for each in waiting if manager_of(each.spec, each.name) is manager]


def _absent(live: Live, node: Object, manager: Manager) -> Iterator[Cause]:
    """Yield why no pod of a device manager is on a node."""
    sure: Confidence = weaker(live.certainty("DaemonSet") or "possible", live.certainty("Pod") or "possible")
    daemons = [each for each in live.objects("DaemonSet") if manager_of(_template(each), each.name) is manager]
    evidence = amounts(live, node, manager.device)
    if not daemons:
        message = f"Node {node.name} has no {manager.device}, because no DaemonSet installs a {manager.title}"
        yield Cause(manager.absent, node.title, message, sure, evidence, manager.install)
        return
    fits = {each.title: live.fit(node, read_pod_template(each), daemon=True) for each in daemons}
    daemon = min(daemons, key=lambda each: (len(fits[each.title].labels), len(fits[each.title].taints)))
    fit = fits[daemon.title]
    count = dig(daemon.content, "status", "desiredNumberScheduled")
    evidence += (Evidence(daemon.title, "status.desiredNumberScheduled", str(count)),)
    if fit.labels:
        listed = ", ".join(f"{each.key} ({_own(node, each.key)})" for each in fit.labels)
        message = f"{daemon.title} selects other nodes than {node.name}, which doesn't match {listed}"
        fix = "Set the label in the template of the node's pool, and on the running node"
        yield Cause(manager.labels, daemon.title, message, sure, evidence, fix, _label(node, daemon, fit))
    elif fit.taints:
        taint = fit.taints[0]
        message = f"{daemon.title} doesn't tolerate the taint {taint} of node {node.name}"
        fix = f"Add a toleration for {taint.key} to {daemon.title}"
        evidence += (Evidence(node.title, "spec.taints", str(taint)),)
        yield Cause(manager.taints, daemon.title, message, sure, evidence, fix)
    else:
        yield _no_pod(live, node, daemon, manager, evidence, fit)


def _own(node: Object, key: str) -> str:
    return f"its value is {node.labels[key]}" if key in node.labels else "it lacks the label"


def _label(node: Object, daemon: Object, fit: NodeFit) -> str:
    wanted = mapping(_template(daemon).get("nodeSelector"))
    if any(each.key not in wanted for each in fit.labels):
        return ""
    return join(["kubectl", "label", "node", node.name, *(f"{each.key}={wanted[each.key]}" for each in fit.labels)])


def _template(daemon: Object) -> dict[str, Any]:
    return mapping(dig(daemon.spec, "template", "spec"))


def _no_pod(
    live: Live, node: Object, daemon: Object, manager: Manager, evidence: tuple[Evidence, ...], fit: NodeFit
) -> Cause:
    """Return the cause that a DaemonSet should run on a node, and has no pod there."""
    refused = next(iter(live.events_of(daemon, reason="FailedCreate")), None)
    small = ", ".join(fit.too_small or fit.busy)
    why = f": {refused.message}" if refused else f": the node has too little {small}" if small else ""
    message = f"{daemon.title} has no pod on node {node.name}{why}"
    seen = (live.of_event(refused),) if refused else ()
    sure: Confidence = "proven" if refused else "likely" if small else "possible"
    fix = "Remove what rejects the pod" if refused else "Find out why the DaemonSet controller creates no pod"
    command = join(["kubectl", "describe", "daemonset", "-n", daemon.namespace, daemon.name])
    return Cause(manager.pod, daemon.title, message, sure, (*seen, *evidence), fix, command)


def _not_running(live: Live, pod: Object, node: Object, manager: Manager) -> Cause:
    """Return the cause that the pod of a device manager doesn't run, with its own first cause."""
    from gpu_preflight.doctor.catalogue import ranked
    from gpu_preflight.doctor.diagnosis import causes

    inner = next(iter(ranked(causes(live, live.target(pod))).roots), None)
    message = f"The {manager.title} pod {pod.namespace}/{pod.name} doesn't run on node {node.name}"
    if inner is None:
        evidence = (Evidence(pod.title, "status.phase", live.phase(pod)),)
        command = join(["kubectl", "describe", "pod", "-n", pod.namespace, pod.name])
        return Cause(manager.pod, pod.title, message, "proven", evidence, "Find out why the pod doesn't run", command)
    message += f": {inner.message}"
    return Cause(
        manager.pod, pod.title, message, inner.confidence, inner.evidence, inner.fix, inner.command, inner.excluded
    )


def _log_causes(live: Live, pod: Object, node: Object) -> Iterator[Cause]:
    """Yield what the log of a device plugin reports."""
    for id, texts in _LOG_LINES:
        line = next(live.log_lines(pod, *texts), None)
        if line is None:
            continue
        fault, fix = _LOG_CAUSES[id]
        message = f"The device plugin pod {pod.namespace}/{pod.name} on node {node.name} {fault}"
        command = join(["kubectl", "delete", "pod", "-n", pod.namespace, pod.name]) if id == "G8" else ""
        evidence = (Evidence(f"log {pod.namespace}/{pod.name}/{line[0]}", "", line[1]),)
        yield Cause(id, pod.title, message, "proven", (*evidence, *amounts(live, node, GPU)), fix, command)
        return


def _unhealthy(live: Live, node: Object, device: str, pods: list[Object]) -> Cause:
    """Return the cause that kubelet counts devices that the device plugin reports as unhealthy."""
    have, offered = live.capacity(node)[device], live.allocatable(node).get(device, 0)
    lines = [(pod, each) for pod in pods for each in live.log_lines(pod, *_UNHEALTHY)][:2]
    logs = tuple(Evidence(f"log {pod.namespace}/{pod.name}/{each[0]}", "", each[1]) for pod, each in lines)
    message = f"{have - offered} of {have} {device} of node {node.name} are unhealthy, so it offers {offered}"
    fix = "Drain the node and replace it, because the device plugin doesn't report a device as healthy again"
    return Cause(
        "G24" if device == EFA else "G9",
        node.title,
        message,
        "proven",
        (*amounts(live, node, device), *logs),
        fix,
        join(["kubectl", "drain", node.name, "--ignore-daemonsets", "--delete-emptydir-data"]),
        ("the device plugin runs, so its endpoint isn't gone",),
    )


def _silent(live: Live, node: Object, pod: Object, manager: Manager, device: str) -> Cause:
    """Return the cause for a device plugin that runs and whose log isn't known."""
    have = live.capacity(node).get(device)
    where = f"The {manager.title} pod {pod.namespace}/{pod.name} runs on node {node.name}"
    command = join(["kubectl", "logs", "-n", pod.namespace, pod.name])
    evidence = amounts(live, node, device)
    if manager is _EFA_PLUGIN:
        message = f"{where} and finds no EFA interface, although the instance type has some"
        fix = "Attach EFA interfaces in the launch template or node class"
        return Cause("G24", node.title, message, "possible", evidence, fix, command)
    if have == 0:
        message = f"{where}, and kubelet lost the connection to it: the capacity of {device} is 0"
        restart = join(["kubectl", "delete", "pod", "-n", pod.namespace, pod.name])
        never = ("the device plugin was registered once, so the driver was loaded",)
        fix = "Restart the device plugin pod of the node"
        return Cause("G8", node.title, message, "likely", evidence, fix, restart, never)
    if have is None:
        message = f"{where} and has never registered {device}, probably because it finds no driver"
        return Cause("G5", node.title, message, "possible", evidence, "Read the log of the device plugin", command)
    message = f"{where} and offers {have} {device}, fewer than the instance type has"
    return Cause("G7", node.title, message, "possible", evidence, "Read the log of the device plugin", command)


def _has_built_in(node: Object) -> bool:
    return node.labels.get(COMPUTE_TYPE) == "auto" or _image(node).startswith("Bottlerocket")


def _image(node: Object) -> str:
    return str(dig(node.content, "status", "nodeInfo", "osImage") or "")


def _built_in(live: Live, node: Object) -> Cause:
    """Return the cause for a node whose image has a device plugin of its own."""
    evidence = (*amounts(live, node, GPU), Evidence(node.title, "status.nodeInfo.osImage", _image(node)))
    variant = _BOTTLEROCKET.search(_image(node))
    if variant and "nvidia" not in variant["variant"]:
        message = f"Node {node.name} runs Bottlerocket's variant {variant['variant']}, which has no NVIDIA driver"
        fix = "Use the NVIDIA variant of Bottlerocket in the node group or node class"
        return Cause("G5", node.title, message, "likely", evidence, fix)
    message = f"Node {node.name} doesn't offer {GPU}, although its image has a device plugin"
    return Cause("G8", node.title, message, "possible", evidence, "Replace the node if it stays so for 5 minutes")


def _two_managers(live: Live, node: Object, pods: list[Object]) -> Iterator[Cause]:
    owners = {owner.title: owner for each in pods if (owner := live.running.owner(each)) is not None}
    slices = [
        each
        for each in live.objects("ResourceSlice")
        if each.spec.get("nodeName") == node.name and each.spec.get("driver") == DEVICE_CLASS
    ]
    names = [*owners, *(f"the DRA driver {DEVICE_CLASS}" for _ in slices[:1])]
    if len(names) > 1 and pods:
        message = f"{' and '.join(names[:3])} manage the same devices of node {node.name}"
        evidence = tuple(Evidence(each.title, "spec.nodeName", node.name) for each in (*pods, *slices[:1]))
        fix = "Keep one of them on the node, and exclude the node from the other one"
        yield Cause("G14", node.title, message, "likely", evidence, fix)


def two_managers(live: Live, node: Object) -> Iterator[Cause]:
    """Yield the cause that two device managers of GPUs run on a node."""
    yield from _two_managers(live, node, _pods_on(live, node, _PLUGIN))


def _failing_driver(live: Live, node: Object) -> Cause | None:
    """Return the cause that the GPU Operator's driver container fails."""
    for pod in live.pods_by_node.get(node.name, ()):
        images = [str(each.get("image")) for each in mappings(pod.spec.get("containers"))]
        if pod.name.startswith("nvidia-driver-daemonset") or any("/nvidia/driver:" in each for each in images):
            state = next((each for each in live.containers(pod) if each.waiting in _FALLEN), None)
            if state is not None:
                message = f"The GPU Operator's driver pod {pod.namespace}/{pod.name} fails on node {node.name}"
                evidence = (Evidence(pod.title, f"status.containerStatuses[{state.name}]", state.waiting),)
                fix = "Set driver.enabled=false in the GPU Operator if the node's image has a driver"
                return Cause("G15", pod.title, message, "likely", evidence, fix)
    return None


def _other_names(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the cause that the nodes offer GPUs only under other names than the pod requests."""
    wanted = [each for each in target.devices if each == GPU or each.startswith(MIG) or each.endswith(SHARED)]
    if not wanted or not _waits_for_a_node(live, target):
        return
    if any(live.capacity(each).get(name) for each in live.nodes for name in wanted):
        return
    for fit in live.fits(target):
        names = [n for n, a in live.allocatable(fit.node).items() if n.startswith(NVIDIA) and a]
        others = {*_short(fit)} <= {*wanted} and fit.fits_except("unknown", "too_small", "busy")
        if names and others:
            state = fit.node.labels.get("nvidia.com/mig.config.state")
            failed = f", and its partitioning into slices is {state}" if state and state != "success" else ""
            message = f"Node {fit.node.name} offers {', '.join(names)}, and the pod requests {wanted[0]}{failed}"
            sure = weaker("proven" if _is_reported(live, target, wanted[0]) else "likely", _certain(live, "Node"))
            evidence = [Evidence(fit.node.title, f"status.allocatable[{names[0]}]", _amount(live, fit.node, names[0]))]
            evidence += [Evidence(fit.node.title, "metadata.labels[nvidia.com/mig.config.state]", str(state))] * bool(
                failed
            )
            fix = f"Request {names[0]} in the pod, or change how the device plugin names the GPUs"
            fix = "Read the log of the MIG manager and partition the GPUs again" if failed else fix
            yield Cause("G10", target.title, message, sure, tuple(evidence), fix)
            return


def _is_reported(live: Live, target: Target, device: str) -> bool:
    scheduled = live.condition(target.named, "PodScheduled")
    return scheduled is not None and f"Insufficient {device}" in scheduled.message


def _certain(live: Live, kind: str) -> Confidence:
    return live.certainty(kind) or "possible"


def _no_slices(live: Live, target: Target) -> Iterator[Cause]:
    """Yield why no node of a pod with resource claims publishes devices."""
    if not target.read.claims or not _waits_for_a_node(live, target):
        return
    slices = [each for each in live.objects("ResourceSlice") if each.spec.get("driver") == DEVICE_CLASS]
    if slices or not _claims_gpu(live, target):
        return
    sure = _certain(live, "ResourceSlice")
    for fit in live.fits(target):
        row = catalogue().get(str(fit.node.labels.get(INSTANCE_TYPE)))
        if row is None or not row.gpus or not fit.fits:
            continue
        pods = _pods_on(live, fit.node, _DRA)
        found = [_not_running(live, pods[0], fit.node, _DRA)] if pods else _absent(live, fit.node, _DRA)
        for cause in found:
            yield replace(cause, confidence=weaker(sure, cause.confidence))
        return


def _claims_gpu(live: Live, target: Target) -> bool:
    """Whether a pod claims GPUs. Claims that are created for the pod begin with its name."""
    names = (*(str(each.claim) for each in target.read.claims if each.claim), f"{target.named.name}-")
    claims = [each for each in live.objects("ResourceClaim", target.namespace) if each.name.startswith(names)]
    return any(DEVICE_CLASS in repr(each.spec) for each in claims)


def _fabric_manager(live: Live, target: Target) -> Iterator[Cause]:
    node = live.node(target)
    if node is None or not target.devices:
        return
    reported = [each for each in live.conditions(node) if any(t in each.reason + each.message for t in _FABRIC)]
    seen = [each for each in live.events_of(node) if any(text in each.reason + each.message for text in _FABRIC)]
    evidence = [*(live.of_condition(node, each) for each in reported), *map(live.of_event, seen)]
    if evidence:
        message = f"Fabric Manager doesn't run on node {node.name}, so CUDA can't use its GPUs"
        fix = "Replace the node, and use an image whose Fabric Manager has the version of its driver"
        yield Cause("G16", node.title, message, "proven" if reported else "likely", tuple(evidence[:2]), fix)


def _amount(live: Live, node: Object, device: str) -> str:
    return str(live.allocatable(node).get(device, "absent"))


def amounts(live: Live, node: Object, device: str) -> tuple[Evidence, ...]:
    """Return the capacity of a device and how much of it a node offers."""
    if device == _DRA.device or node.kind != "Node":
        return (Evidence("ResourceSlice", "spec.nodeName", f"none has {node.name}"),) if node.kind == "Node" else ()
    have = str(live.capacity(node).get(device, "absent"))
    return (
        Evidence(node.title, f"status.capacity[{device}]", have),
        Evidence(node.title, f"status.allocatable[{device}]", _amount(live, node, device)),
    )
