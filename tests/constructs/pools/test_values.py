"""Disk, Taint, Capacity and Sharing refuse what EC2 or Kubernetes would refuse."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from gpu_constructs import CapacityBlock, Disk, OnDemand, Reservation, Spot, Taint
from gpu_constructs.pools import Exclusive
from gpu_constructs.pools.capacity import refuse_unless_capacity
from gpu_facts.kubernetes import refuse_unless_object_name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size_gib": 19}, r"disk: size_gib must be at least 20, got 19"),
        ({"size_gib": 65_537}, r"disk: size_gib must be at most 65536, got 65537"),
        ({"iops": 2_999}, r"disk: iops must be at least 3000, got 2999"),
        (
            {"size_gib": 20, "iops": 10_001},
            "iops must be at most 10000, got 10001; lower it, or raise size_gib from 20",
        ),
        ({"iops": 80_001, "size_gib": 1_000}, r"iops must be at most 80000"),
        ({"throughput_mib_s": 124}, r"throughput_mib_s must be at least 125"),
        ({"throughput_mib_s": 751}, "throughput_mib_s must be at most 750, got 751; lower it, or raise iops from 3000"),
        ({"throughput_mib_s": 2_001, "iops": 80_000, "size_gib": 1_000}, r"throughput_mib_s must be at most 2000"),
    ],
)
def test_refuses_a_disk(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Disk(**changes)


@pytest.mark.parametrize(
    "says",
    [
        {"size_gib": 20, "iops": 10_000},
        {"size_gib": 65_536},
        {"throughput_mib_s": 750},
        {"size_gib": 1_000, "iops": 80_000, "throughput_mib_s": 2_000},
    ],
)
def test_accepts_the_nearest_disk(says: dict[str, Any]) -> None:
    assert Disk(**says).size_gib >= 20


def test_refuses_a_key_that_is_no_arn() -> None:
    with pytest.raises(TypeError, match=r"disk: kms_key_arn must be a string, got 7; pass key.key_arn"):
        Disk(kms_key_arn=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["100", 100.0, True, None])
def test_refuses_a_size_that_is_no_whole_number(size: Any) -> None:
    with pytest.raises(TypeError, match="disk: size_gib must be a whole number"):
        Disk(size_gib=size)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"value": ""}, r"taint 'a/b': value must be 1 to 63 .*got ''; write 'true'"),
        ({"value": "x" * 64}, r"value must be 1 to 63"),
        ({"key": "a b"}, r"taint 'a b': key must be a qualified name"),
        ({"effect": "NoSchedul"}, r"effect must be one of NoSchedule, .*did you mean 'NoSchedule'\?"),
    ],
)
def test_refuses_a_taint(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Taint(**{"key": "a/b", "value": "c"} | changes)


def test_accepts_the_longest_taint_value() -> None:
    assert Taint(key="a", value="x" * 63).effect == "NoSchedule"


@pytest.mark.parametrize("capacity", [OnDemand, "spot", None])
def test_refuses_a_capacity(capacity: object) -> None:
    with pytest.raises(TypeError, match=r"pool: capacity must be OnDemand\(\), Spot\(\), Reservation\(...\) or .*got"):
        refuse_unless_capacity("pool", capacity)


STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)


def block(**changes: Any) -> CapacityBlock:
    """A valid block, with ``changes`` applied."""
    says: dict[str, Any] = {
        "id": "cr-0a100000000000000",
        "availability_zone": "us-east-1a",
        "instances": 2,
        "starts": STARTS,
    }
    return CapacityBlock(**says | {"ends": STARTS + timedelta(days=1)} | changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"id": "p5-jobs"},
            ValueError,
            r"capacity block: id must be 'cr-' and 17 hexadecimal digits, got 'p5-jobs'; list yours",
        ),
        ({"availability_zone": "us-east-1"}, ValueError, r"availability_zone must be a zone name.*got 'us-east-1'"),
        ({"starts": datetime(2026, 12, 1)}, TypeError, r"starts must be a datetime with time zone"),
        ({"ends": "2026-12-01"}, TypeError, r"ends must be a datetime with time zone, got '2026-12-01'"),
        ({"instances": 0}, ValueError, r"instances must be at least 1, got 0"),
        ({"drain_minutes": 40}, ValueError, r"drain_minutes must be at least 41, got 40"),
        ({"drain_minutes": 10**30}, ValueError, r"drain_minutes must be at most 262080, got 10{30}"),
        ({"ends": STARTS + timedelta(minutes=60)}, ValueError, r"ends must be more than 60 minutes after starts"),
    ],
)
def test_refuses_a_capacity_block(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        block(**changes)


def test_accepts_the_shortest_capacity_block() -> None:
    assert block(ends=STARTS + timedelta(minutes=42), drain_minutes=41).drained_at > STARTS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"reservation: it must have either id or resource_group_arn, got None and None"),
        (
            {"id": "cr-01000000000000000", "resource_group_arn": "arn"},
            r"either id or resource_group_arn, got 'cr-01000000000000000' and 'arn'",
        ),
        ({"id": "jobs"}, r"reservation: id must be 'cr-' and 17 hexadecimal digits, got 'jobs'"),
        ({"resource_group_arn": "jobs"}, r"resource_group_arn must be the ARN of a resource group, got 'jobs'"),
        (
            {"id": "cr-01000000000000000", "availability_zone": "a"},
            r"availability_zone must be a zone name such as 'us-east-1a', got 'a'",
        ),
    ],
)
def test_refuses_a_reservation(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reservation(**{"availability_zone": "us-east-1a"} | changes)


@pytest.mark.parametrize("zone", ["us-east-1a", "us-west-2-lax-1a", "us-gov-west-1b", "cn-north-1a"])
def test_zones_of_every_partition_and_local_zones_are_zones(zone: str) -> None:
    assert Reservation(availability_zone=zone, id="cr-01000000000000000").availability_zone == zone


def test_capacities_are_values() -> None:
    assert Spot() == Spot()
    assert len({OnDemand(), Spot()}) == 2


def test_an_exclusive_gpu_is_one_resource() -> None:
    assert Exclusive().resources(8) == {"nvidia.com/gpu": 8}


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "x" * 64])
def test_refuses_an_object_name(name: str) -> None:
    with pytest.raises(ValueError, match="pool: name must be 1 to 63 lower-case letters"):
        refuse_unless_object_name("pool", "name", name)


def test_refuses_a_name_that_is_no_string() -> None:
    with pytest.raises(TypeError, match="pool: name must be a string, got 7"):
        refuse_unless_object_name("pool", "name", 7)


def test_accepts_the_longest_object_name() -> None:
    assert refuse_unless_object_name("pool", "name", "x" * 63) is None  # type: ignore[func-returns-value]
