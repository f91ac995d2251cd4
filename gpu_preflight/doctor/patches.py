"""Commands that change the workload of a pod."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from gpu_preflight.doctor.live import Target
from gpu_preflight.model.taints import Taint
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import mappings

# Their pods are replaced after a change of the template. The template of a Job can't be changed.
_REPLACED = ("Deployment", "StatefulSet", "DaemonSet")


def tolerating(target: Target, taints: Sequence[Taint]) -> str:
    """Return the command that adds tolerations; empty if the workload must be created again."""
    added = [_toleration(each) for each in taints]
    have = mappings(target.spec.get("tolerations"))
    path = "/tolerations/-" if have else "/tolerations"
    operations = [{"op": "add", "path": path, "value": each} for each in added] if have else []
    return json_patch(target, operations or [{"op": "add", "path": path, "value": added}], is_on_pod=True)


def _toleration(taint: Taint) -> dict[str, str]:
    found = {"key": taint.key, "operator": "Equal" if taint.value else "Exists", "effect": taint.effect}
    return {**found, "value": taint.value} if taint.value else found


def json_patch(target: Target, operations: Sequence[dict[str, Any]], *, is_on_pod: bool = False) -> str:
    """Return the command that patches the pod template of a workload.

    Args:
        target: The pod.
        operations: Operations of a JSON patch, with paths below the spec of the pod.
        is_on_pod: Whether the API server accepts the change for a pod that exists.
    """
    if target.root.kind in _REPLACED:
        return _patch(target.root, "/spec/template/spec", operations)
    if not target.owners and is_on_pod and target.pod is not None:
        return _patch(target.pod, "/spec", operations)
    return ""


def _patch(each: Object, path: str, operations: Sequence[dict[str, Any]]) -> str:
    body = json.dumps([{**one, "path": f"{path}{one['path']}"} for one in operations], separators=(",", ":"))
    name, namespace = shlex.quote(each.name), shlex.quote(each.namespace)
    return f"kubectl patch {each.kind.lower()} {name} -n {namespace} --type json -p {shlex.quote(body)}"
