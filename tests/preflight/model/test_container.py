"""Probes and mounts of containers, and volumes of pods: values that are set, absent, or set only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.container import Mount, Probe, read_container
from gpu_preflight.model.pod import read_pod
from gpu_preflight.reading.unknown import Unknown

OPEN = Unknown("${Open}")


@pytest.mark.parametrize(
    ("written", "port", "seconds"),
    [
        ({"httpGet": {"port": 8000}, "periodSeconds": "5", "failureThreshold": 4}, 8000, 20),
        ({"grpc": {"port": OPEN}, "initialDelaySeconds": 60}, OPEN, 90),
        ({"tcpSocket": OPEN, "periodSeconds": OPEN}, None, None),
        ({}, None, None),
        ({"exec": {"command": ["true"]}}, None, 30),
        ("x", None, None),
        (OPEN, None, None),
        (None, None, None),
    ],
)
def test_probe(written: Any, port: Any, seconds: int | None) -> None:
    probe = read_container({"livenessProbe": written}).probes["livenessProbe"]

    assert (probe, probe.port, probe.allowed_seconds) == (Probe(written), port, seconds)


@pytest.mark.parametrize(
    ("written", "mounts"),
    [
        ([{"name": "a", "mountPath": "/a", "readOnly": True}, "x"], (Mount("/a", "a", read_only=True),)),
        ([{"name": [], "mountPath": OPEN}], (Mount(None, "[]", read_only=False),)),
        (None, ()),
        (OPEN, None),
    ],
)
def test_mounts(written: Any, mounts: Any) -> None:
    assert read_container({"volumeMounts": written}).volume_mounts == mounts


@pytest.mark.parametrize(
    ("written", "disk", "memory"),
    [
        ({"sizeLimit": "1Gi"}, "1Gi", None),
        ({"medium": "Memory", "sizeLimit": OPEN}, None, OPEN),
        ({"medium": OPEN, "sizeLimit": "1Gi"}, None, None),
        (None, None, None),
        (OPEN, None, None),
    ],
)
def test_limits_of_a_volume(written: Any, disk: Any, memory: Any) -> None:
    [volume] = read_pod({"volumes": [{"name": "a", "emptyDir": written}]}).volumes

    assert (volume.size_limit, volume.memory_limit, volume.source["emptyDir"]) == (disk, memory, written)
