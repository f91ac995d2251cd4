"""Causes that components for node health report: EKS node monitoring agent, NVSentinel, the node lifecycle controller.

Their conditions and events are named. The hardware isn't diagnosed again.

Sources: eks-node-monitoring-agent 1.7.0 monitors/nvidia and pkg/manager/node_exporter.go, NVIDIA/NVSentinel
docs/INTEGRATIONS.md, karpenter 1.14.1 pkg/controllers/node/health,
https://docs.aws.amazon.com/eks/latest/userguide/node-health.html (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from shlex import join

from gpu_facts.charts import DCGM_SERVER
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import INSTANCE_TYPE, NODE_GROUP
from gpu_facts.light import regex
from gpu_preflight.doctor.capacity import instance_id
from gpu_preflight.doctor.cause import Cause, Clock, Evidence
from gpu_preflight.doctor.causes.gpu_stack import DEVICE_ERRORS, MAX_NODES, nodes_without_devices, waits_for_a_node
from gpu_preflight.doctor.live import CONDITION_TAINTS, Condition, Live, Target
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_ACCELERATORS = "AcceleratedHardwareReady"
_XID = regex(r"NvidiaXID(\d+)Error|XID-(\d+)")
# Reasons of AcceleratedHardwareReady. FabricManagerNotRunning belongs to the GPU stack.
_REASONS = (("H2", ("NvidiaDeviceCountMismatch",)), ("H1", ("NvidiaXID",)), ("H-", ("FabricManagerNotRunning",)))
# Conditions of NVSentinel. Their status is True if there is a fault.
_SENTINEL = (
    ("H1", ("SysLogsXIDError", "GpuXidError")),
    ("H2", ("SysLogsGPUFallenOff",)),
    ("H3", ("Gpu", "NVSwitchFatalError", "NVSwitchDown", "SysLogsSXIDError")),
)
# Keys such as nvidia.com/gpu-xid-error. Source: docs/INTEGRATIONS.md of NVSentinel, "Default Taint Examples"
_SENTINEL_TAINT = regex(r"nvidia\.com/.*-error$")
_REPAIR = "https://docs.aws.amazon.com/eks/latest/userguide/node-health.html"


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield faults of the nodes that run, rejected or would take a pod."""
    for node in islice(_nodes(live, target), MAX_NODES):
        # A fault of a GPU doesn't explain why an image can't be pulled.
        own = target.pod if target.node is not None else None
        fails = own is None or live.phase(own) == "Failed" or live.has_crashed(own)
        faults = [*(_faults(live, node) if fails else ()), *_silent(live, node)]
        yield from faults
        if faults:
            yield from repair_causes(live, node)
    if target.pod is not None and target.node is not None:
        yield from _blind(live, target, target.pod)


def _nodes(live: Live, target: Target) -> Iterator[Object]:
    """Yield the node of a pod, or the nodes that it would run on if they were healthy."""
    if target.pod is None or not target.read.asks_for_gpu:
        return
    own = live.node(target)
    if own is not None and not live.is_fine(target.pod):
        yield own
    if not waits_for_a_node(live, target) or any(each.fits for each in live.fits(target)):
        return
    names = {node.name for node, _ in islice(nodes_without_devices(live, target), MAX_NODES)}
    yield from (each for each in live.nodes if each.name in names)
    for fit in live.fits(target):
        by_health = all(each.key.startswith(CONDITION_TAINTS) or _SENTINEL_TAINT.match(each.key) for each in fit.taints)
        is_held = bool(fit.taints) or fit.is_cordoned
        if fit.node.name not in names and is_held and by_health and fit.fits_except("taints", "is_cordoned"):
            yield fit.node


def _faults(live: Live, node: Object) -> Iterator[Cause]:
    for each in live.conditions(node):
        if each.type == _ACCELERATORS and each.status == "False":
            id = next((id for id, parts in _REASONS if each.reason.startswith(parts)), "H3")
        elif each.status == "True" and not each.type.endswith(("Healthy", "Ready")):
            id = next((id for id, parts in _SENTINEL if each.type.startswith(parts)), "")
        else:
            continue
        if id in ("H1", "H2", "H3"):
            yield _fault(live, node, each, id)


def _fault(live: Live, node: Object, condition: Condition, id: str) -> Cause:
    found = _XID.search(f"{condition.reason} {condition.message}")
    code = (found[1] or found[2]) if found is not None else ""
    text = {
        "H1": f"has the fatal GPU error XID {code}" if code else f"has a fatal GPU error: {condition.message}",
        "H2": f"misses a GPU: {condition.message}",
    }.get(id, f"has a GPU fault: {condition.reason}: {condition.message}")
    fix = "drain the node and replace it"
    if condition.reason == "DCGMError":
        fix = "check that the dcgm-server pod of the node runs, because the agent can't reach it"
    clock = None
    if condition.type == _ACCELERATORS:
        takes = "10 minutes"
        clock = Clock("node repair replaces the node, if it is enabled", live.time_text(condition.time), takes, _REPAIR)
    drain = kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data")
    message = f"Node {node.name} {text}"
    return Cause(
        id, f"Node {node.name}", message, "proven", (live.condition_evidence(node, condition),), fix, drain, clock=clock
    )


def _silent(live: Live, node: Object) -> Iterator[Cause]:
    """Yield the cause that the kubelet of a node, which was ready once, is silent."""
    ready = live.condition(node, "Ready")
    if ready is None or ready.status != "Unknown" or not ready.reason.startswith("NodeStatus"):
        return
    if ready.reason == "NodeStatusNeverUpdated":
        return
    message = f"Node {node.name} is silent: its kubelet hasn't reported since {live.time_text(ready.time)}"
    fix = "check the state of its EC2 instance, and terminate the instance if it is impaired"
    instance = instance_id(node)
    command = join(["aws", "ec2", "describe-instance-status", "--instance-ids", instance]) if instance else ""
    clock = Clock("node repair replaces the node, if it is enabled", live.time_text(ready.time), "30 minutes", _REPAIR)
    excluded = ("the kubelet reported before, so it isn't a failed join",)
    evidence = (live.condition_evidence(node, ready),)
    yield Cause("H5", f"Node {node.name}", message, "proven", evidence, fix, command, excluded=excluded, clock=clock)


def repair_causes(live: Live, node: Object) -> Iterator[Cause]:
    """Yield why nothing repairs a faulty node."""
    claim = live.claim(node)
    reported = (live.last_event(each, "NodeRepairBlocked") for each in (node, claim) if each is not None)
    blocked = next((each for each in reported if each is not None), None)
    if blocked is not None:
        message = f"Karpenter doesn't replace node {node.name}: {blocked.message}"
        fix = "replace the unhealthy nodes of the NodePool yourself"
        yield Cause("H6", f"Node {node.name}", message, "likely", (live.event_evidence(blocked),), fix)
    name = node.labels.get(NODE_GROUP)
    for group in mappings(live.aws("nodegroup")) if name else []:
        enabled = dig(group, "nodeRepairConfig", "enabled")
        if group.get("nodegroupName") == name and enabled is False:
            message = f"node group {name} doesn't enable node auto repair, so nothing replaces node {node.name}"
            evidence = (Evidence("eks describe-nodegroup", "nodegroup.nodeRepairConfig.enabled", "false"),)
            fix = "enable node auto repair in the node group"
            cluster = str(group.get("clusterName") or "")
            update = ["aws", "eks", "update-nodegroup-config", "--cluster-name", cluster, "--nodegroup-name", str(name)]
            command = join([*update, "--node-repair-config", "enabled=true"]) if cluster else ""
            yield Cause("H6", f"node group {name}", message, "proven", evidence, fix, command)
            return


def _blind(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield the cause that the GPUs of a pod with a device error aren't monitored."""
    node = live.node(target)
    line = next(live.log_lines(pod, *DEVICE_ERRORS), None)
    if node is None or line is None or not target.devices:
        return
    row = catalogue().get(str(node.labels.get(INSTANCE_TYPE)))
    reported = live.condition(node, _ACCELERATORS)
    servers = [each for each in live.objects("DaemonSet") if each.name.startswith(DCGM_SERVER)]
    desired = [mapping(each.content.get("status")).get("desiredNumberScheduled") for each in servers]
    evidence = [live.log_evidence(pod, line)]
    if servers and all(each == 0 for each in desired):
        message = f"Node {node.name} isn't monitored for GPU faults, because {servers[0].title} runs on no node"
        evidence.append(Evidence(servers[0].title, "status.desiredNumberScheduled", str(desired[0])))
        fix = "set dcgmAgent.tolerations in the configuration of the add-on eks-node-monitoring-agent"
        yield Cause("H4", f"Node {node.name}", message, "likely", tuple(evidence), fix)
    elif reported is None and row is not None:
        message = f"Node {node.name} isn't monitored for GPU faults: it has no condition {_ACCELERATORS}"
        fix = "install the add-on eks-node-monitoring-agent"
        yield Cause("H4", f"Node {node.name}", message, "possible", tuple(evidence), fix)
