"""Each fact that can become stale has a source, a date and a maximum age. An older fact is listed."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import date, timedelta

import pytest

from gpu_facts import versions
from tests.conftest import ROOT
from tools import stale
from tools.stale_rows import ALLOWED, Row, rows

ROWS = rows()
ROW = Row(kind="price", name="usd_per_hour", source="https://example.com", as_of="2026-07-20")
VLLM = re.compile(rf"{versions.VLLM.repository}:[\w.-]+\w")
LAST_DAY = date(2026, 7, 20) + timedelta(days=ALLOWED["price"])


def test_every_row_has_a_source_a_day_and_an_allowance() -> None:
    assert [each for each in ROWS if not each.source or not each.name] == []
    assert [each for each in ROWS if each.kind not in ALLOWED] == []
    assert [each for each in ROWS if not date(2024, 1, 1) < each.day <= date(2026, 12, 31)] == []


def test_every_kind_has_rows() -> None:
    assert {each.kind for each in ROWS} == set(ALLOWED)
    assert Counter(each.kind for each in ROWS)["chart or image"] > 20


def test_every_pin_of_the_package_is_a_row() -> None:
    pins = [each for each in vars(versions).values() if isinstance(each, versions.Pin)]
    pins += [each.al2023 for each in versions.KUBERNETES.values()]
    pins += [each.controller for each in versions.KARPENTER_RELEASES.values()]
    listed = {(each.version, each.source, each.as_of) for each in ROWS}

    assert len(pins) > 25
    assert [each.version for each in pins if (each.version, each.source, each.as_of) not in listed] == []


@pytest.mark.parametrize(("day", "old"), [(LAST_DAY, False), (LAST_DAY + timedelta(days=1), True)])
def test_a_row_is_too_old_after_its_last_day(day: date, old: bool) -> None:
    assert (stale.too_old([ROW], day) == [ROW]) is old


def test_the_most_overdue_comes_first() -> None:
    older = Row(kind="price", name="older", source="x", as_of="2026-01")

    assert stale.too_old([ROW, older], LAST_DAY + timedelta(days=9)) == [older, ROW]


def test_a_line_says_where_to_look() -> None:
    assert list(stale.report([ROW], LAST_DAY + timedelta(days=1))) == [
        "price: usd_per_hour, read 2026-07-20, 121 days ago (120 allowed); look at https://example.com"
    ]


def says(text: str, code: int = 0) -> list[str]:
    """A command that prints a text and ends with a code."""
    return [sys.executable, "-c", f"import sys; print({text!r}); print('refused', file=sys.stderr); sys.exit({code})"]


def test_a_registry_says_what_is_newer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "pip": lambda name: says(f"{name} (2.0)\nAvailable versions: 2.0"),
        "go": lambda _: says('{"Version": "v1.1"}'),
    }
    monkeypatch.setattr(stale, "_COMMANDS", found)
    asked = [
        Row(kind="Python package", name="a", version="1.0", source="x", as_of="2026-01-01", registry="pip:a"),
        Row(kind="Python package", name="b", version="2.0", source="x", as_of="2026-01-01", registry="pip:b"),
        Row(kind="chart or image", name="c", version="1.1", source="x", as_of="2026-01-01", registry="go:c"),
        ROW,
    ]

    assert list(stale.newer(asked)) == ["newest: pip:a 2.0, pinned 1.0"]


def test_a_registry_that_does_not_say_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stale, "_COMMANDS", {"go": lambda _: says("", 1), "pip": lambda _: ["no-such-program"]})

    assert stale.ask("go:c") == ("", "refused")
    assert "no-such-program" in stale.ask("pip:a")[1]


@pytest.mark.parametrize(("epoch", "code"), [("1767225600", 0), ("1924992000", 1)])
def test_it_fails_over_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], epoch: str, code: int
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    monkeypatch.setattr(sys, "argv", ["stale", "--offline"])
    monkeypatch.setattr(stale, "rows", lambda: [ROW])

    with pytest.raises(SystemExit) as ended:
        stale.main()

    assert ended.value.code == code
    assert capsys.readouterr().out.endswith(f"{code} of 1 are older than allowed\n")


def test_examples_and_docs_run_the_pinned_image_of_vllm() -> None:
    pages = (*(ROOT / "examples").rglob("*.py"), *(ROOT / "docs").rglob("*.*"), ROOT / "README.md")
    named = {
        each for page in pages if page.suffix in (".py", ".md", ".yaml") for each in VLLM.findall(page.read_text())
    }

    assert named == {versions.VLLM.reference}
