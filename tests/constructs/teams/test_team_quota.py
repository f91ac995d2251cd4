"""A quota names resources as Kubernetes counts them, and sets the defaults that pods then need."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.teams import TeamQuota


def test_gpus_are_counted_by_what_is_asked_for_and_by_what_is_claimed() -> None:
    assert TeamQuota(gpus=16).hard == {
        "requests.nvidia.com/gpu": "16",
        "gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "16",
    }


def test_other_devices_are_counted_as_they_are_named() -> None:
    others = {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 0, "vpc.amazonaws.com/efa": 32}

    assert TeamQuota(others=others).hard == {f"requests.{name}": str(number) for name, number in others.items()}


@pytest.mark.parametrize(
    ("says", "kinds"),
    [
        ({"gpus": 1}, ["ResourceQuota"]),
        ({"vcpus": 0}, ["LimitRange", "ResourceQuota"]),
        ({"memory_gib": 8}, ["LimitRange", "ResourceQuota"]),
    ],
)
def test_only_cpu_and_memory_want_defaults(says: dict[str, Any], kinds: list[str]) -> None:
    assert [each["kind"] for each in TeamQuota(**says).to_manifests("nlp").values()] == kinds


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({}, "team quota: gpus, vcpus, memory_gib or others must be given"),
        ({"gpus": -1}, "gpus must be at least 0, got -1"),
        ({"gpus": 10**9 + 1}, "gpus must be at most 1000000000"),
        ({"gpus": "16"}, "gpus must be a whole number, got '16'"),
        ({"vcpus": True}, "vcpus must be a whole number"),
        ({"memory_gib": 1.5}, "memory_gib must be a whole number"),
        ({"others": ["nvidia.com/gpu"]}, "others must map resources to numbers"),
        ({"others": {"nvidia.com/gpu": 1}}, "others must not name 'nvidia.com/gpu', got 'nvidia.com/gpu'; write gpus="),
        ({"others": {"cpu": 1}}, "others must name device resources"),
        ({"others": {"requests.nvidia.com/gpu.shared": 1}}, "others must name device resources"),
        ({"others": {"kubernetes.io/pods": 1}}, "others must name device resources"),
        ({"others": {"nvidia.com/gpu.shared": -1}}, r"others\['nvidia.com/gpu.shared'\] must be at least 0"),
        ({"others": {1: 1}}, "others must have resource names as keys"),
    ],
)
def test_refuses(says: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        TeamQuota(**says)


def test_nothing_is_the_least() -> None:
    assert TeamQuota(gpus=0).gpus == 0
