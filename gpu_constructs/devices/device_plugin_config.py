"""The configuration file of NVIDIA's device plugin: how it shares GPUs."""

from __future__ import annotations

from typing import Any

from gpu_constructs.pools.sharing import Mig, Mps, Sharing, TimeSlicing
from gpu_facts.resources import GPU


def plugin_config(sharing: Sharing) -> dict[str, Any]:
    """Return the plugin's configuration file.

    Source: NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/
    """
    found: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": "none", "mofedEnabled": False}}
    match sharing:
        case Mig():
            found["flags"]["migStrategy"] = "mixed"
        case TimeSlicing(replicas=replicas):
            # Two shares are neither twice the time nor twice the memory: a pod that asks for two is told so.
            slicing = {"renameByDefault": True, "failRequestsGreaterThanOne": True, "resources": _replicas(replicas)}
            found["sharing"] = {"timeSlicing": slicing}
        case Mps(replicas=replicas):
            found["sharing"] = {"mps": {"renameByDefault": True, "resources": _replicas(replicas)}}
    return found


def _replicas(replicas: int) -> list[dict[str, Any]]:
    return [{"name": GPU, "replicas": replicas}]
