"""NodeRepair and ScalingOptions render fields of EKS and cluster autoscaler, and reject values that have no effect."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.pools import NodeRepair, RepairOverride, ScalingOptions

XID = RepairOverride(condition="AcceleratedHardwareReady", reason="NvidiaXID64Error", wait_minutes=5, action="Replace")
PREFIX = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"


def test_repair_is_on() -> None:
    assert NodeRepair().to_properties() == {"enabled": True}


def test_all_four_values_of_an_override_are_reported() -> None:
    repair = NodeRepair(max_unhealthy="20%", max_parallel=2, overrides=(XID,))

    assert repair.to_properties() == {
        "enabled": True,
        "maxUnhealthyNodeThresholdPercentage": 20,
        "maxParallelNodesRepairedCount": 2,
        "nodeRepairConfigOverrides": [
            {
                "nodeMonitoringCondition": "AcceleratedHardwareReady",
                "nodeUnhealthyReason": "NvidiaXID64Error",
                "minRepairWaitTimeMins": 5,
                "repairAction": "Replace",
            }
        ],
    }


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"condition": "AcceleratedInstanceNotReady"},
            ValueError,
            r"condition must be one of AcceleratedHardwareReady",
        ),
        ({"action": "Restart"}, ValueError, r"action must be one of Replace, Reboot, NoAction, got 'Restart'"),
        ({"wait_minutes": 0}, ValueError, r"wait_minutes must be at least 1, got 0"),
        (
            {"reason": "XID 64"},
            ValueError,
            "reason must be one word, got 'XID 64'; write one such as 'NvidiaXID64Error'",
        ),
    ],
)
def test_refuses_an_override(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    says: dict[str, Any] = {"condition": "Ready", "reason": "Any", "wait_minutes": 1, "action": "NoAction"}
    assert RepairOverride(**says).wait_minutes == 1

    with pytest.raises(error, match=f"repair override: {message}"):
        RepairOverride(**says | changes)


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        (
            {"max_unhealthy": "lots"},
            ValueError,
            "max_unhealthy must be a number or a percentage, got 'lots'; write one such as '20%'",
        ),
        ({"max_unhealthy": "101%"}, ValueError, r"max_unhealthy must be a number .* got '101%'"),
        ({"max_parallel": 0}, ValueError, r"max_parallel must be at least 1, got 0"),
        ({"overrides": XID}, TypeError, r"overrides must be a tuple of RepairOverride"),
        ({"overrides": (XID, XID)}, ValueError, r"overrides must differ in condition or reason"),
        ({"enabled": "yes"}, TypeError, r"enabled must be True or False"),
    ],
)
def test_refuses_a_repair(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"node repair: {message}"):
        NodeRepair(**says)


def test_options_are_the_five_tags_that_the_autoscaler_reads() -> None:
    options = ScalingOptions(
        unneeded_minutes=30, unready_minutes=20, gpu_utilization=0.7, utilization=0.5, ignore_daemonsets=True
    )

    assert options.tags() == {
        f"{PREFIX}scaledownunneededtime": "30m0s",
        f"{PREFIX}scaledownunreadytime": "20m0s",
        f"{PREFIX}scaledowngpuutilizationthreshold": "0.7",
        f"{PREFIX}scaledownutilizationthreshold": "0.5",
        f"{PREFIX}ignoredaemonsetsutilization": "true",
    }
    assert list(ScalingOptions(ignore_daemonsets=False).tags().values()) == ["false"]


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({}, ValueError, r"at least one option must be given, got none"),
        ({"gpu_utilization": 50}, ValueError, r"gpu_utilization must be between 0 and 1, got 50"),
        ({"utilization": "0.5"}, TypeError, r"utilization must be a number, got '0.5'"),
        ({"unneeded_minutes": -1}, ValueError, r"unneeded_minutes must be at least 0, got -1"),
        ({"unready_minutes": "20m"}, TypeError, r"unready_minutes must be a whole number, got '20m'"),
        ({"ignore_daemonsets": "true"}, TypeError, r"ignore_daemonsets must be True or False"),
    ],
)
def test_refuses_options(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"scaling options: {message}"):
        ScalingOptions(**says)
