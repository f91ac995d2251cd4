"""Dates of the catalogue, of prices and of pins."""

from __future__ import annotations

from datetime import date, timedelta

from gpu_facts import versions
from gpu_facts.data_age import MAX_AGE_DAYS, DataSet, data_sets, dated, outdated
from gpu_facts.hardware.catalogue import columns


def test_each_part_has_the_date_of_its_source() -> None:
    days = {each.name: str(each.day) for each in data_sets()}

    assert list(days) == ["instance catalogue", "prices", "pins"]
    assert days["instance catalogue"] == columns()["gpus"]["as_of"]
    assert days["prices"] <= columns()["usd_per_hour"]["as_of"]
    assert days["pins"] >= versions.VLLM.as_of


def test_a_part_is_outdated_after_90_days() -> None:
    part = DataSet("prices", date(2026, 1, 1))
    last = part.day + timedelta(days=MAX_AGE_DAYS)

    assert outdated(last, [part]) == ()
    assert outdated(last + timedelta(days=1), [part]) == (part,)


def test_dated_values_are_found_in_mappings_lists_and_dataclasses() -> None:
    pin = versions.VLLM

    assert list(dated({"a": [pin], "b": ({"c": pin},), "text": "x"})) == [pin, pin]
