"""Schedules as a CronJob has them.

Source: robfig/cron v3.0.1 parser.go ``ParseStandard``
"""

from __future__ import annotations

from gpu_facts.light_patterns import regex

_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = regex(r"@every [-+]?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Least, most and names of each field: minute, hour, day, month, day of the week.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)


def is_schedule(text: str) -> bool:
    """Whether a text is a schedule that the API server takes; it takes no time zone in it."""
    if text.startswith("@"):
        return text in _DESCRIPTORS or _EVERY.fullmatch(text) is not None
    fields = text.split()
    return len(fields) == len(_FIELDS) and all(
        _is_range(part, *bounds)
        for field, bounds in zip(fields, _FIELDS, strict=True)
        for part in field.split(",")
        if part
    )


def _is_range(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if slash and not (step.isdecimal() and int(step) > 0):
        return False
    if first in ("*", "?"):
        return True
    start = _number(first, least, names)
    end = _number(last, least, names) if dash else start
    return start is not None and end is not None and least <= start <= end <= most


def _number(text: str, least: int, names: tuple[str, ...]) -> int | None:
    if text.lower() in names:
        return least + names.index(text.lower())
    return int(text) if text.isdecimal() else None
