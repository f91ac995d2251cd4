"""The time as of which rules with dates are evaluated. No other module reads a clock."""

from __future__ import annotations

import os
from contextvars import ContextVar
from datetime import date, datetime, timezone

# Source: https://reproducible-builds.org/specs/source-date-epoch/
_EPOCH = "SOURCE_DATE_EPOCH"
_SAID: ContextVar[datetime | None] = ContextVar("as_of", default=None)


def now() -> datetime:
    """Return the time that ``say`` set, or the time of ``SOURCE_DATE_EPOCH``, or the current time, in UTC.

    Raises:
        ValueError: The variable isn't a number of seconds since 1970.
    """
    said = _SAID.get()
    if said is not None:
        return said
    epoch = os.environ.get(_EPOCH)
    return _moment(epoch) if epoch else datetime.now(timezone.utc)


def today() -> date:
    """Return the day of ``now``.

    Raises:
        ValueError: As in ``now``.
    """
    return now().date()


def say(moment: datetime) -> None:
    """Evaluate rules as of another time."""
    _SAID.set(moment.astimezone(timezone.utc))


def _moment(epoch: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"today: {_EPOCH} must be seconds since 1970, got {epoch!r}; write an integer") from None
