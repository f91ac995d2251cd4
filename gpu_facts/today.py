"""The moment as of which something is judged, in one place: rules about dates read no clock of their own."""

from __future__ import annotations

import os
from contextvars import ContextVar
from datetime import date, datetime, timezone

# Source: https://reproducible-builds.org/specs/source-date-epoch/
_EPOCH = "SOURCE_DATE_EPOCH"
_SAID: ContextVar[datetime | None] = ContextVar("as_of", default=None)


def now() -> datetime:
    """Return the moment that ``say`` was told, else that of the variable ``SOURCE_DATE_EPOCH``, else this one; in UTC.

    Raises:
        ValueError: The variable holds no number of seconds since 1970.
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
    """Have answers be given as of another moment."""
    _SAID.set(moment.astimezone(timezone.utc))


def _moment(epoch: str) -> datetime:
    try:
        return datetime.fromtimestamp(int(epoch), timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"today: {_EPOCH} must be seconds since 1970, got {epoch!r}") from None
