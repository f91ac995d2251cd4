"""The moment for which the checker checks."""

from __future__ import annotations

from contextvars import copy_context
from datetime import date, datetime, timezone

import pytest

from gpu_facts.today import now, say, today


@pytest.mark.parametrize(
    ("seconds", "day"), [("0", date(1970, 1, 1)), ("86399", date(1970, 1, 1)), ("86400", date(1970, 1, 2))]
)
def test_it_is_the_day_that_the_environment_says(monkeypatch: pytest.MonkeyPatch, seconds: str, day: date) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)

    assert today() == day


def test_what_was_said_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    said = datetime(2026, 12, 1, tzinfo=timezone.utc)

    def asked() -> datetime:
        say(said)
        return now()

    assert copy_context().run(asked) == said
    assert now() == datetime(1970, 1, 1, tzinfo=timezone.utc)


def test_else_it_is_the_present_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH")

    before = datetime.now(timezone.utc)
    assert before <= now() <= datetime.now(timezone.utc)


@pytest.mark.parametrize("epoch", ["2026-11-21", "tomorrow", "9" * 30])
def test_refuses_what_is_no_number(monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)

    with pytest.raises(ValueError, match=f"today: SOURCE_DATE_EPOCH must be seconds since 1970, got '{epoch}'"):
        today()
