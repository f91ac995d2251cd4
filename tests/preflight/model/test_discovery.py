"""Which groups cluster autoscaler is configured to manage, and up to which size."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.cluster_autoscaler import Named, bounded, is_named, named_groups
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import ORIGIN, pool


def autoscaler(**flags: Any) -> Autoscaler:
    return Autoscaler("cluster-autoscaler", ORIGIN, flags)


def test_names_are_read_of_each_use() -> None:
    assert named_groups(autoscaler(nodes="0:4:a ${min}:${max}:b 1:c")) == [Named("a", 4), Named("b", None)]


@pytest.mark.parametrize(
    ("kind", "own", "name", "said"),
    [
        ("self-managed", "a", "a", True),
        ("self-managed", "a", "b", False),
        ("self-managed", "a", "${Name}", None),
        ("self-managed", Unknown("${Name}"), "${Name}", True),
        ("self-managed", Unknown("${Name}"), "a", None),
        ("self-managed", None, "a", None),
        ("managed", None, "a", False),
        ("managed", None, "eks-gpu-aabbccdd", None),
    ],
)
def test_whether_a_group_is_named(kind: str, own: Any, name: str, said: bool | None) -> None:
    group = pool(kind=kind, properties={"AutoScalingGroupName": own})

    assert is_named(group, [Named(name, 4)]) is said


@pytest.mark.parametrize(
    ("flags", "most"),
    [({"nodes": "0:2:a"}, 2), ({"nodes": "0:9:a"}, 4), ({"nodes": "0:2:b"}, 4), ({"nodes": "0:${max}:a"}, 4), ({}, 4)],
)
def test_the_smaller_of_two_bounds_counts(flags: dict[str, str], most: int) -> None:
    group = pool(kind="self-managed", max_nodes=4, properties={"AutoScalingGroupName": "a"})

    assert bounded([group], [autoscaler(**flags)])[0].max_nodes == most


def test_a_bound_of_a_flag_counts_alone() -> None:
    group = pool(kind="self-managed", max_nodes=None, properties={"AutoScalingGroupName": "a"})

    assert bounded([group], [autoscaler(nodes="0:2:a")])[0].max_nodes == 2
