"""The settings of Bottlerocket, which are its user data.

Source: https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes/
"""

from __future__ import annotations

import sys
from typing import Any

from gpu_constructs.rehearsal.players.cluster.boot.bootstrap import Bootstrap, NeverJoins, taint

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NEEDED = ("cluster-name", "api-server", "cluster-certificate")
# The names of the kubelet's own configuration for those of the settings.
_KUBELET = {
    "max-pods": "maxPods",
    "kube-reserved": "kubeReserved",
    "system-reserved": "systemReserved",
    "eviction-hard": "evictionHard",
}


def from_settings(written: str) -> Bootstrap:
    """Read what Bottlerocket makes of user data.

    Raises:
        NeverJoins: It is no TOML, or says nothing of a cluster.
    """
    try:
        settings = tomllib.loads(written).get("settings", {})
    except tomllib.TOMLDecodeError as error:
        raise NeverJoins(f"Bottlerocket reads no TOML: {error}") from error
    said = settings.get("kubernetes", {})
    missing = [each for each in _NEEDED if not said.get(each)]
    if missing:
        raise NeverJoins(f"its user data has no settings.kubernetes.{missing[0]}")
    return Bootstrap(
        cluster=said["cluster-name"],
        endpoint=said["api-server"],
        certificate_authority=said["cluster-certificate"],
        labels={key: str(value) for key, value in said.get("node-labels", {}).items()},
        taints=tuple(taint(f"{key}={each}") for key, values in said.get("node-taints", {}).items() for each in values),
        kubelet={name: said[key] for key, name in _KUBELET.items() if key in said} | _devices(settings),
        local_disks=_disks(settings),
        data_volume="/dev/xvdb",
    )


def _devices(settings: dict[str, Any]) -> dict[str, Any]:
    """What the built-in device plugin is told, under the name of its settings."""
    nvidia = settings.get("kubelet-device-plugins", {}).get("nvidia", {})
    return {"kubelet-device-plugins": nvidia} if nvidia else {}


def _disks(settings: dict[str, Any]) -> str:
    """Whether its bootstrap command puts pods on the disks of the instance.

    Source: https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/
    """
    commands = settings.get("bootstrap-commands", {}).values()
    run = [command for each in commands for command in each.get("commands", ())]
    return "RAID0" if any(each[:3] == ["apiclient", "ephemeral-storage", "init"] for each in run) else ""
