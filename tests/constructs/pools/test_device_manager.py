"""One manager tells Kubernetes of the GPUs of a node: the operating system's own, or the one that was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_constructs import NodeShape
from gpu_constructs.pools.sharing import DEVICE_MANAGERS


def shape(**says: Any) -> NodeShape:
    return NodeShape(instance_types=("g6.xlarge",), **says)


@pytest.mark.parametrize(
    ("system", "given", "name"),
    [
        ("al2023", None, "device-plugin"),
        ("al2023", "device-plugin", "device-plugin"),
        ("al2023", "gpu-operator", "gpu-operator"),
        ("al2023", "dra", "dra"),
        ("bottlerocket", None, "bottlerocket"),
        ("bottlerocket", "bottlerocket", "bottlerocket"),
        ("bottlerocket", "dra", "dra"),
    ],
)
def test_a_node_has_one(system: Any, given: Any, name: str) -> None:
    made = shape(operating_system=system, device_manager=given)

    assert made.managed_by.name == name
    assert made.device_manager == given
    assert made.node_labels("l4")["gpu-constructs.io/device-manager"] == name


@pytest.mark.parametrize(
    ("system", "given", "message"),
    [
        ("al2023", "bottlerocket", r"must be one of device-plugin, gpu-operator, dra, got 'bottlerocket'"),
        ("al2023", "device_plugin", r"got 'device_plugin'; did you mean 'device-plugin'\?"),
        ("bottlerocket", "device-plugin", r"must be one of bottlerocket, dra, got 'device-plugin'"),
        (
            "bottlerocket",
            "gpu-operator",
            "on bottlerocket, whose image already has the .*acknowledge_bottlerocket=True",
        ),
    ],
)
def test_refuses_what_the_operating_system_leaves_to_another(system: Any, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shape(operating_system=system, device_manager=given)


def test_the_default_follows_the_operating_system_when_a_shape_changes() -> None:
    changed = replace(shape(), operating_system="bottlerocket")

    assert changed.managed_by.name == "bottlerocket"


def test_claims_and_plugins_exclude_each_other() -> None:
    said = {each.name: (each.by_claim, each.cluster_plugin) for each in DEVICE_MANAGERS}

    assert said == {
        "device-plugin": (False, True),
        "gpu-operator": (False, True),
        "bottlerocket": (False, False),
        "dra": (True, False),
    }


@pytest.mark.parametrize("name", ["device-plugin", "gpu-operator"])
def test_nvidias_charts_are_called_where_a_plugin_of_the_cluster_serves(name: Any) -> None:
    assert "nvidia.com/gpu.present" in shape(device_manager=name).node_labels("l4")
    assert "nvidia.com/gpu.present" not in shape(device_manager="dra").node_labels("l4")
