"""What an instance is told about the node that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class NeverJoins(Exception):
    """Why an instance becomes no node of its cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bootstrap:
    """Settings with which a kubelet starts.

    Attributes:
        cluster: Name of the cluster.
        endpoint: Address of its API server.
        certificate_authority: By what that is known: PEM in base64.
        labels: Labels with which the kubelet registers its node.
        taints: Taints with which it does, as ``key``, ``value`` and ``effect``.
        kubelet: What its configuration says otherwise than the image: ``maxPods``, ``kubeReserved``,
            ``systemReserved``, ``evictionHard``.
        local_disks: Whether pods and images lie on the instance's own disks: ``RAID0``, ``RAID10`` or ``Mount``; empty
            where they lie on its volume.
        data_volume: Name of the device on which they lie then.
        scripts: Shell scripts that run before the kubelet does.
    """

    cluster: str
    endpoint: str
    certificate_authority: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    kubelet: Mapping[str, Any] = field(default_factory=dict)
    local_disks: str = ""
    data_volume: str = "/dev/xvda"
    scripts: tuple[str, ...] = ()


def taint(written: str) -> dict[str, str]:
    """Read a taint as the kubelet's flag takes it: ``key=value:Effect`` or ``key:Effect``.

    Raises:
        NeverJoins: It is none; the kubelet does not start.
    """
    said, colon, effect = written.rpartition(":")
    key, _, value = said.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise NeverJoins(f"the kubelet does not start: {written!r} is no taint")
    return {"key": key, "value": value, "effect": effect}
