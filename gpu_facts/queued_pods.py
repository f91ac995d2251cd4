"""What Kueue compares in the pods of a group that it manages: an update that changes it is rejected.

Source: kubernetes-sigs/kueue v0.19.2 pkg/util/pod/pod.go, pkg/controller/jobframework/validation.go and
pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go (2026-11)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)


def queued_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a pod's specification that Kueue keeps, by field."""
    found = {field: spec.get(field) for field in _FIELDS}
    for containers in ("containers", "initContainers"):
        listed = spec.get(containers)
        listed = listed if isinstance(listed, list) else []
        found[containers] = [_container(each) for each in listed if isinstance(each, Mapping)]
    found["resources"] = _requests(spec)
    return found


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {"requests": _requests(container), "ports": container.get("ports")}


def _requests(value: Mapping[str, Any]) -> Any:
    """Return what is requested; Kueue counts a limit without a request as one."""
    resources = value.get("resources")
    if not isinstance(resources, Mapping):
        return resources
    limits, requests = resources.get("limits"), resources.get("requests")
    if not isinstance(limits, Mapping) or not isinstance(requests, Mapping | None):
        return requests
    return {**limits, **(requests or {})}
