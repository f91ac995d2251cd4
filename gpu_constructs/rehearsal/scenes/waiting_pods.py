"""Pods that wait for what nobody on stage can bring: no failure of the stack, and nothing that it was seen to do."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.rehearsal.players.cluster.client import Object
from gpu_constructs.rehearsal.players.cluster.software.definitions import DEVICES
from gpu_constructs.rehearsal.stage import Stage


def waits_for_the_absent(stage: Stage, pod: Object) -> str:
    """Return what a pod waits for that is not on stage; empty where it may run, or has a node already."""
    if pod["spec"].get("nodeName"):
        return ""
    asked = set(_devices(pod))
    for chart in sorted(stage.unplayed.missing):
        if found := sorted(each for each in asked if _is_of(each, chart)):
            return f"asks for {', '.join(found)} of chart {chart}, which is not in the folder"
    return "waits for a node of Auto Mode, whose autoscaler runs at AWS only" if _is_auto_mode(stage) else ""


def _devices(pod: Object) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        yield from (each for each in container.get("resources", {}).get("limits", {}) if "/" in each)


def _is_of(device: str, chart: str) -> bool:
    return any(device == each or (each.endswith("/") and device.startswith(each)) for each in DEVICES.get(chart, ()))


def _is_auto_mode(stage: Stage) -> bool:
    told = stage.aws.client("eks").describe_cluster(name=stage.cluster)["cluster"]
    return bool(told.get("computeConfig", {}).get("enabled"))
