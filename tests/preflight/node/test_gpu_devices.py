"""Software that includes a device manager, and software that doesn't."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.answer import Answer
from gpu_preflight.node.devices import built_in_device_manager
from tests.preflight.readers import pool, pool_told

OFF = "[settings.kubelet-device-plugins.nvidia]\nenabled = false\n"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"kind": "auto-mode", "operating_system": "bottlerocket"}, ("EKS Auto Mode", Answer.YES)),
        (
            {"operating_system": "bottlerocket", "properties": {"AmiType": "BOTTLEROCKET_x86_64_NVIDIA"}},
            ("Bottlerocket", Answer.YES),
        ),
        ({"operating_system": "bottlerocket", "properties": {"AmiType": "BOTTLEROCKET_x86_64"}}, None),
        ({"operating_system": "bottlerocket", "kind": "karpenter"}, ("Bottlerocket", Answer.UNKNOWN)),
        ({"properties": {"AmiType": "AL2023_x86_64_NVIDIA"}}, None),
    ],
)
def test_what_an_image_brings_along_is_as_sure_as_its_driver(changes: dict[str, Any], found: Any) -> None:
    assert built_in_device_manager(pool(**changes)) == found


def test_bottlerocket_brings_nothing_along_that_is_switched_off() -> None:
    properties = {"AmiType": "BOTTLEROCKET_x86_64_NVIDIA"}

    assert built_in_device_manager(pool_told(OFF, operating_system="bottlerocket", properties=properties)) is None
