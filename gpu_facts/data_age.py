"""The dates of the data in this version: the instance catalogue, prices and pinned versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import date
from typing import Any

from gpu_facts import versions
from gpu_facts.hardware.catalogue import columns
from gpu_facts.hardware.regions import prices_read
from gpu_facts.light import dataclass

# AWS adds GPU instance types and changes prices several times a year.
MAX_AGE_DAYS = 90
# The column that has a value for each type that EC2 lists.
_LISTED = "ec2_gpus"


@dataclass(frozen=True, slots=True)
class DataSet:
    """A part of the data in this version.

    Attributes:
        name: Its name in plain words.
        day: For the catalogue and prices, the day as of which the source is. For pins, the day the newest was read.
    """

    name: str
    day: date


def data_sets() -> tuple[DataSet, ...]:
    """Return the parts of the data in this version."""
    table = {name: each for name, each in vars(versions).items() if not name.startswith("__")}
    pins = (each.as_of for each in dated(table) if isinstance(each, versions.Pin))
    days = {
        "instance catalogue": columns()[_LISTED]["as_of"],
        "prices": min(columns()["usd_per_hour"]["as_of"], prices_read()["as_of"]),
        "pins": max(pins),
    }
    return tuple(DataSet(name, date.fromisoformat(day)) for name, day in days.items())


def outdated(today: date, every: Iterable[DataSet] | None = None) -> tuple[DataSet, ...]:
    """Return the parts that are more than `MAX_AGE_DAYS` old."""
    return tuple(each for each in every or data_sets() if (today - each.day).days > MAX_AGE_DAYS)


def dated(value: Any, within: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yield every value with a source and a day that a value holds, itself included."""
    if id(value) in within or isinstance(value, (str, bytes)):
        return
    inside = within | {id(value)}
    if is_dataclass(value) and not isinstance(value, type):
        if hasattr(value, "as_of"):
            yield value
        for each in fields(value):
            yield from dated(getattr(value, each.name), inside)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from dated(each, inside)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for each in value:
            yield from dated(each, inside)
