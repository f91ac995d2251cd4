"""NVIDIA's device plugin: under which names, and how often, it advertises the GPUs of a node.

Source: https://github.com/NVIDIA/k8s-device-plugin/tree/v0.20.0/api/config/v1 and .../internal/rm
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_constructs.rehearsal.players.cluster.device.gpus import Gpus

_GPU = "nvidia.com/gpu"
_STRATEGIES = ("none", "single", "mixed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Advertised:
    """A resource of a node.

    Attributes:
        name: Its name.
        count: How many there are.
        one_each: Whether a container that asks for more than one is refused.
    """

    name: str
    count: int
    one_each: bool = False


def advertised(config: Mapping[str, Any], gpus: Gpus) -> list[Advertised]:
    """Return what the plugin advertises.

    Args:
        config: Its configuration file, flags and variables merged into that.
        gpus: What the driver shows.

    Raises:
        LookupError: It is told something that is not known here.
    """
    strategy = (config.get("flags") or {}).get("migStrategy") or "none"
    if strategy not in _STRATEGIES:
        raise LookupError(f"device plugin: migStrategy must be one of {_STRATEGIES}, got {strategy!r}")
    whole = _whole(strategy, gpus)
    return [_shared(name, count, config.get("sharing") or {}) for name, count in whole.items() if count]


def _whole(strategy: str, gpus: Gpus) -> dict[str, int]:
    """Return resources before they are shared."""
    if strategy == "none" or not gpus.partitions:
        return {_GPU: gpus.count}
    if strategy == "single":
        if len(gpus.partitions) > 1:
            raise LookupError(f"device plugin: migStrategy single takes one profile, got {dict(gpus.partitions)}")
        return {_GPU: gpus.count * sum(gpus.partitions.values())}
    return {
        f"nvidia.com/mig-{profile.replace('+', '.')}": gpus.count * number
        for profile, number in gpus.partitions.items()
    }


def _shared(name: str, count: int, sharing: Mapping[str, Any]) -> Advertised:
    for kind in ("timeSlicing", "mps"):
        said = sharing.get(kind) or {}
        for each in said.get("resources") or ():
            if each["name"] == name:
                renamed = f"{name}.shared" if said.get("renameByDefault") else name
                # MPS refuses more than one whatever it is told.
                one_each = kind == "mps" or bool(said.get("failRequestsGreaterThanOne"))
                return Advertised(
                    name=each.get("rename") or renamed, count=count * int(each["replicas"]), one_each=one_each
                )
    return Advertised(name=name, count=count)


def of_bottlerocket(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what Bottlerocket tells its built-in plugin.

    Source: https://bottlerocket.dev/en/os/1.54.x/api/settings/kubelet-device-plugins/

    Args:
        settings: ``settings.kubelet-device-plugins.nvidia``.

    Raises:
        LookupError: It partitions GPUs, which is not known here.
    """
    if settings.get("device-partitioning-strategy", "none") != "none":
        raise LookupError("Bottlerocket: device-partitioning-strategy is not known")
    strategy = settings.get("device-sharing-strategy", "none")
    if strategy == "none":
        return {}
    kinds = {"time-slicing": "timeSlicing", "mps": "mps"}
    if strategy not in kinds:
        raise LookupError(f"Bottlerocket: device-sharing-strategy must be one of {[*kinds]}, got {strategy!r}")
    said = settings.get(strategy) or {}
    shared = {
        "renameByDefault": said.get("rename-by-default", True),
        "failRequestsGreaterThanOne": said.get("fail-requests-greater-than-one", True),
        "resources": [{"name": _GPU, "replicas": said.get("replicas", 2)}],
    }
    return {"sharing": {kinds[strategy]: shared}}
