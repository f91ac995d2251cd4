"""Causes of volumes after the pod has a node: attach and mount. The scheduler's causes are in `scheduling`.

Sources: kubernetes v1.36.2 pkg/controller/volume/attachdetach/reconciler/reconciler.go,
pkg/volume/util/operationexecutor/operation_generator.go, pkg/kubelet/events/event.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.light import regex
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.live import Event, Live, Target, title
from gpu_preflight.doctor.patches import kubectl
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings

_VOLUME = regex(r'for volume "([^"]{1,253})"')
_SIX_MINUTES = "kubernetes v1.36.2 pkg/controller/volume/attachdetach/attach_detach_controller.go"
_ONE_POD = "ReadWriteOncePod access mode already in-use"
# Parts of a mount error, with the fix.
_MOUNT_FIXES = (
    ('secret "', "create the Secret in the namespace of the pod"),
    ('configmap "', "create the ConfigMap in the namespace of the pod"),
    (
        "not found in the list of registered CSI drivers",
        "install the CSI driver, and let its DaemonSet run on the node",
    ),
    ("timed out waiting for the condition", "read the events of the volume and the log of its CSI driver"),
    ("mount.nfs", "allow NFS (TCP 2049) from the node to the file system in its security group"),
)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of volumes of a pod."""
    if target.pod is None:
        return
    if target.node is None:
        yield from _one_pod_only(live, target, target.pod)
    elif live.is_creating(target.pod):
        found = list(_attach(live, target, target.pod))
        yield from found
        if not found:
            yield from _mount(live, target.pod)


def _attach(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield why a volume can't be attached to the node."""
    event = live.last_event(pod, "FailedAttachVolume")
    if event is not None and "Multi-Attach error" in event.message:
        yield _in_use(live, target, pod, event, _name(event))
        return
    name = _name(event) if event is not None else ""
    claims = [each for each in live.objects("PersistentVolumeClaim", pod.namespace) if each.name in claim_names(pod)]
    volumes = {name, *(str(each.spec["volumeName"]) for each in claims if each.spec.get("volumeName"))}
    every = [each for each in live.objects("VolumeAttachment") if each.spec.get("nodeName") == target.node]
    wanted = [each for each in every if dig(each.spec, "source", "persistentVolumeName") in volumes]
    failed = next((each for each in wanted if _attach_error(each)), None)
    if failed is not None:
        name = str(dig(failed.spec, "source", "persistentVolumeName"))
    elif event is None:
        return
    text = _attach_error(failed) if failed is not None else event.message if event is not None else ""
    evidence: tuple[Evidence, ...] = (live.event_evidence(event),) if event is not None else ()
    evidence += (Evidence(title(failed), "status.attachError.message", text),) if failed is not None else ()
    fix = "fix what the error names: the IAM role of the CSI driver, the zone of the volume, or the attach limit"
    csi, volume = live.object("CSINode", str(target.node)), live.object("PersistentVolume", name)
    driver = str(dig(volume.spec, "csi", "driver") or "") if volume is not None else ""
    drivers = [str(each.get("name")) for each in mappings(csi.spec.get("drivers"))] if csi is not None else []
    if csi is not None and driver and driver not in drivers:
        fix = f"let the DaemonSet of {driver} run on node {target.node}, where it isn't registered"
        evidence += (Evidence(title(csi), "spec.drivers", ", ".join(drivers) or "none"),)
    message = f"Volume {name} can't be attached to node {target.node}: {text}"
    sure: Confidence = "proven" if failed is not None else "likely"
    yield Cause("V8", f"volume {name}", message, sure, evidence, fix)


def _attach_error(attachment: Object) -> str:
    return known_text(dig(attachment.content, "status", "attachError", "message")) or ""


def _in_use(live: Live, target: Target, pod: Object, event: Event, name: str) -> Cause:
    """Return the cause that another node has the volume."""
    claims = live.objects("PersistentVolumeClaim", pod.namespace)
    bound = {each.name for each in claims if each.spec.get("volumeName") == name}
    users = [
        each for each in _sharing(live, pod, bound & {*claim_names(pod)}) if each.spec.get("nodeName") != target.node
    ]
    node = live.object("Node", str(users[0].spec.get("nodeName"))) if users else None
    ready = live.condition(node, "Ready") if node is not None else None
    clock = None
    if node is not None and (ready is None or ready.status != "True"):
        waits = f"the attach controller detaches the volume from node {node.name} by force"
        clock = Clock(waits, live.time_text(ready.time) if ready else "", "6 minutes", _SIX_MINUTES)
    by = f" by {users[0].title} on node {users[0].spec.get('nodeName')}" if users else " on another node"
    message = f"Volume {name} is in use{by}, and it can be attached to one node only"
    fix = "delete the other pod, or use a volume that several nodes can mount"
    command = kubectl("delete", users[0]) if users else ""
    nodes = (Evidence(each.title, "spec.nodeName", str(each.spec.get("nodeName"))) for each in users[:2])
    sure: Confidence = "proven" if users else "likely"
    evidence = (live.event_evidence(event), *nodes)
    return Cause("V7", f"volume {name}", message, sure, evidence, fix, command, clock=clock)


def _sharing(live: Live, pod: Object, claims: set[str]) -> list[Object]:
    """Return the pods on nodes that use one of some claims in the namespace of a pod."""
    running = (each for pods in live.pods_by_node.values() for each in pods if each.namespace == pod.namespace)
    return [each for each in running if claims & {*claim_names(each)}]


def claim_names(pod: Object) -> list[str]:
    """Return the names of the PersistentVolumeClaims of a pod, also of those that Kubernetes creates for it."""
    volumes = mappings(pod.spec.get("volumes"))
    names = [dig(each, "persistentVolumeClaim", "claimName") for each in volumes]
    own = [f"{pod.name}-{each.get('name')}" for each in volumes if mapping(each.get("ephemeral"))]
    return [each for each in (*names, *own) if isinstance(each, str)]


def _one_pod_only(live: Live, target: Target, pod: Object) -> Iterator[Cause]:
    """Yield the cause that a claim for one pod is in use, which the scheduler reports."""
    scheduled = live.condition(pod, "PodScheduled")
    if scheduled is None or _ONE_POD not in scheduled.message:
        return
    users = _sharing(live, pod, {*claim_names(pod)})
    by = f" by {users[0].title}" if users else ""
    message = f"{target.title} waits for a ReadWriteOncePod claim, which is in use{by}"
    fix = "delete the other pod, or use the access mode ReadWriteOnce"
    yield Cause("V7", pod.title, message, "proven", (live.condition_evidence(pod, scheduled),), fix)


def _mount(live: Live, pod: Object) -> Iterator[Cause]:
    """Yield why a volume can't be mounted."""
    # The kubelet reports this for a short time when a pod starts or ends.
    failed = [each for each in live.object_events(pod, reason="FailedMount") if "not registered" not in each.message]
    exact = [each for each in failed if "failed for volume" in each.message]
    if not failed:
        return
    event = (exact or failed)[0]
    fixes = (fix for part, fix in _MOUNT_FIXES if part in event.message)
    fix = next(fixes, "fix what the error names")
    detail = event.message.partition(" : ")[2] or event.message
    name = _name(event)
    message = f"Volume {name} of {pod.title} can't be mounted: {detail}" if exact else f"{pod.title}: {event.message}"
    yield Cause("V9", f"volume {name}", message, "likely", (live.event_evidence(event),), fix)


def _name(event: Event) -> str:
    found = _VOLUME.search(event.message)
    return found[1] if found is not None else "of the pod"
