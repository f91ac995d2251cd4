"""Why a node doesn't offer its devices: device plugins, the DRA driver and the driver below them.

Sources: NVIDIA/k8s-device-plugin v0.20.0 cmd/nvidia-device-plugin/main.go and internal/rm/health.go,
kubernetes v1.36.2 pkg/kubelet/cm/devicemanager/manager.go and pkg/kubelet/nodestatus/setters.go,
kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, aws/eks-charts stable/aws-efa-k8s-device-plugin (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.labels import COMPUTE_TYPE, GPU_PRESENT
from gpu_facts.light import dataclass, regex
from gpu_facts.resources import DEVICE_CLASS, EFA, GPU
from gpu_preflight.doctor.cause import Cause, Confidence, Evidence, Symptom, weaker
from gpu_preflight.doctor.live import Live, NodeFit, title
from gpu_preflight.doctor.patches import command, kubectl, tolerating
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_FALLEN = ("CrashLoopBackOff", "Error", "ImagePullBackOff", "ErrImagePull", "RunContainerError", "CreateContainerError")
# Words in the names and images of device plugins of other devices.
_OTHERS = {"rdma", "sriov", "neuron", "habana", "amdgpu", "rocm", "intel", "fuse", "smarter", "sandbox"}
_OWN = {"nvidia", "gpu", "hami"}
_WORDS = regex(r"[a-z0-9]+")
# A device plugin that started less than this ago may not have registered yet.
_YOUNG_SECONDS = 120
# The variant of Bottlerocket, such as aws-k8s-1.36-nvidia.
_BOTTLEROCKET = regex(r"^Bottlerocket .*\((?P<variant>aws-k8s-[^)]*)\)")
# Lines of the device plugin's log, with the fault and its fix. The first one that occurs counts.
_LOG_LINES = (
    Symptom(
        "G5",
        ("Failed to initialize NVML", "Incompatible strategy detected", "Incompatible platform detected"),
        "finds no usable NVIDIA driver or container toolkit",
        "use an image with the NVIDIA driver and toolkit, such as an accelerated EKS AMI, and replace the node",
    ),
    Symptom(
        "G7",
        ("No devices found. Waiting indefinitely",),
        "finds no GPU",
        "check that the instance type has a GPU and that the MIG strategy matches the GPU's partitions",
    ),
    Symptom(
        "G8",
        ("Could not register device plugin", "Failed to start one or more plugins"),
        "can't register with kubelet",
        "restart the device plugin pod of the node",
    ),
)
_UNHEALTHY = ("XidCriticalError", "marked unhealthy", "marking device as unhealthy")


@dataclass(frozen=True, slots=True)
class Manager:
    """A kind of DaemonSet that registers devices on a node.

    Attributes:
        title: Its name in messages.
        device: The resource that it registers.
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


_PLUGIN = Manager("device plugin", GPU, "G1", "G2", "G3", "G4", "install NVIDIA's device plugin or the GPU Operator")
_EFA_PLUGIN = Manager("EFA device plugin", EFA, *("G24",) * 4, "install the chart aws-efa-k8s-device-plugin")
_DRA = Manager("DRA driver", "ResourceSlice", *("G17",) * 4, "install NVIDIA's DRA driver")


def device_causes(live: Live, node: Object, device: str) -> Iterator[Cause]:
    """Yield why a node offers fewer devices than it has."""
    manager = _EFA_PLUGIN if device == EFA else _PLUGIN
    pods = _manager_pods(live, node, manager)
    yield from rival_managers(live, node, pods)
    if failing := _failing_driver(live, node):
        yield failing
        return
    capacity, offered = live.capacity(node).get(device), live.allocatable(node).get(device, 0)
    runs = [each for each in pods if live.is_fine(each)]
    if capacity and offered < capacity and (offered or runs):
        yield unhealthy_devices(live, node, device, runs)
        return
    if not pods:
        is_built_in = node.labels.get(COMPUTE_TYPE) == "auto" or _image(node).startswith("Bottlerocket")
        yield from [_own_plugin(live, node)] if is_built_in else _absent(live, node, manager)
        return
    known = [cause for pod in pods for cause in log_causes(live, pod, node)]
    if known or not runs:
        yield from known or [_not_running(live, pods[0], node, manager)]
        return
    # A capacity of 0 isn't a node that has just started: the plugin was registered before.
    if capacity == 0 or not _is_young(live, node):
        yield _silent(live, node, runs[0], manager, device)


def dra_causes(live: Live, node: Object) -> Iterator[Cause]:
    """Yield why no DRA driver publishes the GPUs of a node."""
    pods = _manager_pods(live, node, _DRA)
    if not pods:
        yield from _absent(live, node, _DRA)
    elif not live.is_fine(pods[0]):
        yield _not_running(live, pods[0], node, _DRA)
    elif not _is_young(live, node):
        where = f"{pods[0].title} of the DRA driver runs on node {node.name}"
        command = kubectl("logs", pods[0])
        fix = "read the log of the DRA driver"
        evidence = amounts(live, node, _DRA.device)
        yield Cause("G17", f"Node {node.name}", f"{where} and publishes no devices", "likely", evidence, fix, command)


def _is_young(live: Live, node: Object) -> bool:
    age = live.seconds_since(live.created(node))
    return age is not None and age < _YOUNG_SECONDS


def device_manager(spec: Mapping[str, Any], name: str) -> Manager | None:
    """Return the kind of device manager that a pod or DaemonSet with a spec is; ``None`` if it isn't one."""
    paths = [str(dig(each, "hostPath", "path") or "") for each in mappings(spec.get("volumes"))]
    text = " ".join([name, *(str(each.get("image")) for each in mappings(spec.get("containers")))]).lower()
    words = set(_WORDS.findall(text))
    if any(each.startswith("/var/lib/kubelet/device-plugins") for each in paths):
        if "efa" in words:
            return _EFA_PLUGIN
        return _PLUGIN if not words & _OTHERS and (words & _OWN or {"device", "plugin"} <= words) else None
    in_kubelet = any(each.startswith("/var/lib/kubelet/plugins") for each in paths)
    return _DRA if in_kubelet and "dra" in words and words & _OWN else None


def _manager_pods(live: Live, node: Object, manager: Manager) -> list[Object]:
    """Return the pods of a kind of device manager on a node, and those that wait for it."""
    found = [each for each in live.pods_by_node.get(node.name, ()) if device_manager(each.spec, each.name) is manager]
    waiting = (each for each in live.waiting_daemons if node.name in repr(each.spec.get("affinity")))
    return found + [each for each in waiting if device_manager(each.spec, each.name) is manager]


def _absent(live: Live, node: Object, manager: Manager) -> Iterator[Cause]:
    """Yield why no pod of a device manager is on a node."""
    sure: Confidence = weaker(live.certainty("DaemonSet") or "possible", live.certainty("Pod") or "possible")
    daemons = [each for each in live.objects("DaemonSet") if device_manager(_template(each), each.name) is manager]
    evidence = amounts(live, node, manager.device)
    if not daemons:
        where = "" if live.certainty("DaemonSet") else " in the dump"
        message = f"Node {node.name} has no {manager.device}, because no DaemonSet{where} installs the {manager.title}"
        yield Cause(manager.absent, f"Node {node.name}", message, sure, evidence, manager.install)
        return
    fits = {each.title: live.fit(node, read_pod_template(each), daemon=True) for each in daemons}
    daemon = min(daemons, key=lambda each: (len(fits[each.title].labels), len(fits[each.title].taints)))
    fit = fits[daemon.title]
    count = dig(daemon.content, "status", "desiredNumberScheduled")
    evidence += (Evidence(daemon.title, "status.desiredNumberScheduled", str(count)),)
    if fit.labels:
        has = {each.key: node.labels.get(each.key, "absent") for each in fit.labels}
        listed = ", ".join(f"{key} ({value} on the node)" for key, value in has.items())
        message = f"{daemon.title} doesn't select node {node.name}, because of the label {listed}"
        fix = "set the label in the template of the node's pool, and on the running node"
        yield Cause(manager.labels, daemon.title, message, sure, evidence, fix, _label(node, daemon, fit))
    elif fit.taints:
        taint = fit.taints[0]
        message = f"{daemon.title} doesn't tolerate the taint {taint} of node {node.name}"
        fix = f"add a toleration for {taint.key} to {daemon.title}"
        evidence += (Evidence(f"Node {node.name}", "spec.taints", str(taint)),)
        target = live.owner_target(daemon)
        run = command(target, tolerating(target, fit.taints))
        yield Cause(manager.taints, daemon.title, message, sure, evidence, fix, run)
    else:
        yield _no_pod(live, node, daemon, manager, evidence, fit)


def _label(node: Object, daemon: Object, fit: NodeFit) -> str:
    wanted = mapping(_template(daemon).get("nodeSelector"))
    if not wanted and GPU_PRESENT in repr(_template(daemon).get("affinity")):
        # NVIDIA's charts select nodes by one of several labels.
        return kubectl("label", node, f"{GPU_PRESENT}=true")
    if any(each.key not in wanted for each in fit.labels):
        return ""
    return kubectl("label", node, *(f"{each.key}={wanted[each.key]}" for each in fit.labels))


def _template(daemon: Object) -> dict[str, Any]:
    return mapping(dig(daemon.spec, "template", "spec"))


def _no_pod(
    live: Live, node: Object, daemon: Object, manager: Manager, evidence: tuple[Evidence, ...], fit: NodeFit
) -> Cause:
    """Return the cause that a DaemonSet should run on a node, and has no pod there."""
    refused = live.last_event(daemon, "FailedCreate")
    small = ", ".join(fit.too_small or fit.busy)
    why = f": {refused.message}" if refused else f": the node has too little {small}" if small else ""
    message = f"{daemon.title} has no pod on node {node.name}{why}"
    seen = (live.event_evidence(refused),) if refused else ()
    sure = weaker("likely" if refused or small else "possible", live.certainty("Pod") or "possible")
    fix = "remove what rejects the pod" if refused else "find out why the DaemonSet controller creates no pod"
    command = kubectl("describe", daemon)
    return Cause(manager.pod, daemon.title, message, sure, (*seen, *evidence), fix, command)


def _not_running(live: Live, pod: Object, node: Object, manager: Manager) -> Cause:
    """Return the cause that the pod of a device manager doesn't run, with its own first cause."""
    from gpu_preflight.doctor.diagnosis import component_cause

    inner = component_cause(live, pod)
    message = f"{pod.title} of the {manager.title} doesn't run on node {node.name}"
    if inner is None:
        evidence = (Evidence(pod.title, "status.phase", live.phase(pod)),)
        command = kubectl("describe", pod)
        sure: Confidence = "possible" if _is_young(live, node) else "proven"
        return Cause(manager.pod, pod.title, message, sure, evidence, "find out why the pod doesn't run", command)
    message += f": {inner.message}"
    return replace(inner, id=manager.pod, subject=pod.title, message=message)


def log_causes(live: Live, pod: Object, node: Object) -> Iterator[Cause]:
    """Yield what the log of a device plugin reports."""
    for symptom in _LOG_LINES:
        line = next(live.log_lines(pod, *symptom.texts), None)
        if line is None:
            continue
        message = f"{pod.title} of the device plugin on node {node.name} {symptom.fault}"
        command = kubectl("delete", pod) if symptom.id == "G8" else ""
        evidence = (live.log_evidence(pod, line),)
        # The line may be older than the last restart of the driver, so the node must agree.
        sure: Confidence = "likely" if node.kind != "Node" or live.allocatable(node).get(GPU) else "proven"
        shown = (*evidence, *amounts(live, node, GPU))
        yield Cause(symptom.id, pod.title, message, sure, shown, symptom.fix, command)
        return


def unhealthy_devices(live: Live, node: Object, device: str, pods: list[Object]) -> Cause:
    """Return the cause that kubelet counts devices that the device plugin reports as unhealthy."""
    have, offered = live.capacity(node)[device], live.allocatable(node).get(device, 0)
    lines = [(pod, each) for pod in pods for each in live.log_lines(pod, *_UNHEALTHY)][:2]
    logs = tuple(Evidence(f"log {pod.namespace}/{pod.name}/{each[0]}", "", each[1]) for pod, each in lines)
    message = f"{have - offered} of {have} {device} of node {node.name} are unhealthy, so it offers {offered}"
    fix = "drain the node and replace it, because the device plugin doesn't report a device as healthy again"
    drain = kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
    excluded = ("the device plugin runs, so its endpoint isn't gone",) if pods else ()
    id, evidence = "G24" if device == EFA else "G9", (*amounts(live, node, device), *logs)
    return Cause(id, f"Node {node.name}", message, "proven", evidence, fix, drain, excluded=excluded)


def _silent(live: Live, node: Object, pod: Object, manager: Manager, device: str) -> Cause:
    """Return the cause for a device plugin that runs and whose log isn't known."""
    have = live.capacity(node).get(device)
    where = f"{pod.title} of the {manager.title} runs on node {node.name}"
    command = kubectl("logs", pod)
    evidence = amounts(live, node, device)
    if manager is _EFA_PLUGIN:
        message = f"{where} and finds no EFA interface, although the instance type has some"
        fix = "attach EFA interfaces in the launch template or node class"
        return Cause("G24", f"Node {node.name}", message, "possible", evidence, fix, command)
    if have == 0:
        message = f"{where}, and kubelet lost the connection to it: the capacity of {device} is 0"
        restart = kubectl("delete", pod)
        never = ("the device plugin was registered once, so the driver was loaded",)
        fix = "restart the device plugin pod of the node"
        return Cause("G8", f"Node {node.name}", message, "likely", evidence, fix, restart, excluded=never)
    if have is None:
        message = f"{where} and has never registered {device}, probably because it finds no driver"
        return Cause(
            "G5", f"Node {node.name}", message, "possible", evidence, "read the log of the device plugin", command
        )
    message = f"{where} and offers {have} {device}, fewer than the instance type has"
    return Cause("G7", f"Node {node.name}", message, "possible", evidence, "read the log of the device plugin", command)


def _image(node: Object) -> str:
    return str(dig(node.content, "status", "nodeInfo", "osImage") or "")


def _own_plugin(live: Live, node: Object) -> Cause:
    """Return the cause for a node whose image contains a device plugin."""
    evidence = (*amounts(live, node, GPU), Evidence(f"Node {node.name}", "status.nodeInfo.osImage", _image(node)))
    variant = _BOTTLEROCKET.search(_image(node))
    if variant and "nvidia" not in variant["variant"]:
        message = f"Node {node.name} runs Bottlerocket's variant {variant['variant']}, which has no NVIDIA driver"
        fix = "use the NVIDIA variant of Bottlerocket in the node group or node class"
        return Cause("G5", f"Node {node.name}", message, "likely", evidence, fix)
    message = f"Node {node.name} doesn't offer {GPU}, although its image has a device plugin"
    return Cause(
        "G8", f"Node {node.name}", message, "possible", evidence, "replace the node if it stays so for 5 minutes"
    )


def rival_managers(live: Live, node: Object, pods: list[Object]) -> Iterator[Cause]:
    """Yield the cause that two device managers of GPUs run on a node."""
    owners = {owner.title: owner for each in pods if (owner := live.running.owner(each)) is not None}
    published = (each for each in live.objects("ResourceSlice") if each.spec.get("driver") == DEVICE_CLASS)
    slices = [each for each in published if each.spec.get("nodeName") == node.name]
    names = [*owners, *(f"the DRA driver {DEVICE_CLASS}" for _ in slices[:1])]
    if len(names) > 1 and pods:
        message = f"{' and '.join(names[:3])} manage the same devices of node {node.name}"
        evidence = tuple(Evidence(title(each), "spec.nodeName", node.name) for each in (*pods, *slices[:1]))
        fix = "keep one of them on the node, and exclude the node from the other one"
        yield Cause("G14", f"Node {node.name}", message, "likely", evidence, fix)


def plugin_pods(live: Live, node: Object) -> list[Object]:
    """Return the pods of NVIDIA's device plugins on a node."""
    return _manager_pods(live, node, _PLUGIN)


def _failing_driver(live: Live, node: Object) -> Cause | None:
    """Return the cause that the GPU Operator's driver container fails."""
    for pod in live.pods_by_node.get(node.name, ()):
        images = [str(each.get("image")) for each in mappings(pod.spec.get("containers"))]
        if pod.name.startswith("nvidia-driver-daemonset") or any("/nvidia/driver:" in each for each in images):
            state = next((each for each in live.containers(pod) if each.waiting in _FALLEN), None)
            if state is not None:
                message = f"{pod.title}, which installs the driver of the GPU Operator, fails on node {node.name}"
                evidence = (Evidence(pod.title, f"status.containerStatuses[{state.name}]", state.waiting),)
                fix = "set driver.enabled=false in the GPU Operator if the node's image has a driver"
                return Cause("G15", pod.title, message, "likely", evidence, fix)
    return None


def amounts(live: Live, node: Object, device: str) -> tuple[Evidence, ...]:
    """Return the capacity of a device and how much of it a node offers."""
    if device == _DRA.device or node.kind != "Node":
        return (Evidence("ResourceSlice", "spec.nodeName", f"none has {node.name}"),) if node.kind == "Node" else ()
    parts = {"capacity": live.capacity(node), "allocatable": live.allocatable(node)}
    return tuple(
        Evidence(f"Node {node.name}", f"status.{part}[{device}]", str(have.get(device, "absent")))
        for part, have in parts.items()
    )
