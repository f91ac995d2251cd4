"""Availability Zones by name and by id, and those that may be newer than the data."""

from __future__ import annotations

import pytest

from gpu_facts.hardware.regions import is_elsewhere, is_no_zone, is_seen_zone, last_letter


@pytest.mark.parametrize(
    "zone",
    [
        "us-east-1f",
        "us-west-1c",
        "ap-northeast-1b",
        "ca-central-1c",
        "eu-west-2d",
        "use1-az6",
        "usw1-az2",
        "us-west-2-lax-1a",
        "us-east-1-wl1-bos-wlz-1",
        "usw2-lax1-az1",
        "cn-north-1d",
        "us-gov-west-1c",
        "us-central1-z",
        "rack-z-1z",
    ],
)
def test_nothing_speaks_against_a_zone(zone: str) -> None:
    assert is_seen_zone(zone)
    assert not is_no_zone(zone)


@pytest.mark.parametrize("zone", ["us-east-1g", "eu-west-1d", "us-west-2e", "euw1-az4"])
def test_the_zone_after_the_last_may_be_newer(zone: str) -> None:
    assert not is_seen_zone(zone)
    assert not is_no_zone(zone)


@pytest.mark.parametrize(
    "zone", ["us-east-1h", "us-east-1z", "eu-west-1e", "us-west-2f", "use1-az8", "use1-az0", "us-gov-west-1z"]
)
def test_no_zone_is_beyond_that(zone: str) -> None:
    assert is_no_zone(zone)


@pytest.mark.parametrize(
    ("zone", "region", "elsewhere"),
    [
        ("eu-west-1a", "us-east-1", True),
        ("us-west-2-lax-1a", "us-east-1", True),
        ("us-west-2-lax-1a", "us-west-2", False),
        ("usw2-az1", "us-east-1", True),
        ("usw2-lax1-az1", "us-west-2", False),
        ("usw2-az1", "us-gov-west-1", False),
        ("us-east-1a", None, False),
        ("YOUR_ZONE", "us-east-1", False),
    ],
)
def test_a_zone_of_another_region(zone: str, region: str | None, elsewhere: bool) -> None:
    assert is_elsewhere(zone, region) is elsewhere


def test_which_letters_there_were_is_told_with_the_day() -> None:
    assert last_letter("us-east-1z") == "; us-east-1 had zones a to f on 2026-08-02"
    assert last_letter("us-gov-west-1z") == last_letter("use1-az9") == last_letter("us-east-1a") == ""
