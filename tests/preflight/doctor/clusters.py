"""Small changes of the healthy clusters in `bases`, for tests of one cause."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gpu_preflight.doctor.catalogue import ranked
from gpu_preflight.doctor.cause import Cause
from gpu_preflight.doctor.diagnosis import causes, find_target
from gpu_preflight.doctor.dump import read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.reading.objects import parse_objects
from tests.preflight.doctor.cases import FOLDER

GPU = "nvidia.com/gpu"
NEW_NODE = "ip-10-0-1-30.us-west-2.compute.internal"
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
PLUGINS = "/var/lib/kubelet/device-plugins"


def cluster(
    base: str,
    *objects: dict[str, Any],
    without: tuple[str, ...] = (),
    logs: Mapping[tuple[str, str, str], str] | None = None,
    at: datetime | None = None,
) -> Live:
    """Return a healthy cluster with added or replaced objects and logs, and without objects with some names."""
    dump = read_dump(map(str, sorted((FOLDER / "bases" / base).iterdir())))
    content = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    added = list(parse_objects(content, "added.yaml"))
    replaced = {(each.kind, each.name) for each in added}
    kept = [each for each in dump.objects if (each.kind, each.name) not in replaced and each.name not in without]
    dump.objects = [*kept, *added]
    dump.logs |= logs or {}
    return Live(dump, at)


def roots(live: Live, pod: str = "train") -> list[Cause]:
    """Return the causes of a pod that aren't effects of other causes."""
    return list(ranked(causes(live, find_target(live, pod, None))).roots)


def ids(live: Live, pod: str = "train") -> list[str]:
    """Return the ids of all causes of a pod."""
    found = ranked(causes(live, find_target(live, pod, None)))
    return [each.id for each in (*found.roots, *found.effects)]


def pod(name: str = "train", *, node: str | None = None, **changes: Any) -> dict[str, Any]:
    """Return a pod that requests one GPU."""
    container = {"name": "main", "image": "train:1", "resources": {"limits": {GPU: "1"}}}
    spec: dict[str, Any] = {
        "containers": [container | changes.pop("container", {})],
        "tolerations": [TOLERATION],
        **({"nodeName": node} if node is not None else {}),
    }
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-11-20T10:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | changes.pop("metadata", {}),
        "spec": spec | changes.pop("spec", {}),
        "status": {"phase": "Pending"} | changes.pop("status", {}),
    }


def node(name: str = NEW_NODE, **changes: Any) -> dict[str, Any]:
    """Return a node of the type g5.xlarge that offers no GPU."""
    labels = {"node.kubernetes.io/instance-type": "g5.xlarge", "kubernetes.io/arch": "amd64"}
    labels |= {"karpenter.sh/nodepool": "gpu", "nvidia.com/gpu.present": "true"}
    room = {"cpu": "3920m", "memory": "14966Mi", "pods": "58"}
    status = {"capacity": room | changes.get("capacity", {}), "allocatable": room | changes.get("allocatable", {})}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | changes.get("labels", {})}
        | {"creationTimestamp": changes.get("created", "2026-11-20T09:30:00Z")},
        "spec": {"taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]} | changes.get("spec", {}),
        "status": status
        | {"conditions": [ready, *changes.get("conditions", ())]}
        | {"nodeInfo": {"osImage": changes.get("image", "Amazon Linux 2023")}},
    }


def failed_attachment(claim: str, message: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a claim, and the attachment of its volume to the new node, which failed."""
    bound = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim, "namespace": "default"},
        "spec": {"volumeName": "pvc-1"},
    }
    attachment = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "csi-1"},
        "spec": {"nodeName": NEW_NODE, "source": {"persistentVolumeName": "pvc-1"}},
        "status": {"attachError": {"message": message}},
    }
    return bound, attachment


def plugin_pod(name: str = "plugin-1", *, owner: str = "nvidia-device-plugin", **changes: Any) -> dict[str, Any]:
    """Return a pod of the device plugin that runs on the new node."""
    image = changes.get("image", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")
    owners = [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": owner, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "ownerReferences": owners},
        "spec": {
            "nodeName": NEW_NODE,
            "containers": [{"name": "app", "image": image}],
            "volumes": [{"name": "plugins", "hostPath": {"path": PLUGINS}}],
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "app", "ready": True}]},
    }


def event(reason: str, message: str, **changes: Any) -> dict[str, Any]:
    """Return an event of kubelet about the pod default/train."""
    about = {"kind": "Pod", "name": "train", "namespace": "default"}
    time = changes.get("at", "2026-11-20T10:05:00Z")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{reason.lower()}-{abs(hash(message))}", "namespace": "default"},
        "type": changes.get("type", "Warning"),
        "reason": reason,
        "message": message,
        "reportingComponent": changes.get("component", "kubelet"),
        "lastTimestamp": time,
        "involvedObject": changes.get("about", about),
    }


def waiting(reason: str, message: str = "", **changes: Any) -> dict[str, Any]:
    """Return the status of a pod whose container waits."""
    state = {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}, "restartCount": 0}
    return {"phase": "Pending", "containerStatuses": [state | changes]}


def ended(code: int, reason: str = "Error", **changes: Any) -> dict[str, Any]:
    """Return the status of a pod whose container ended."""
    state = {"terminated": {"exitCode": code, "reason": reason, **changes}}
    return {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state, "restartCount": 0}]}
