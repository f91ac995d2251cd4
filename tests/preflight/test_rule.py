"""A rule is a function with a decorator, and its docstring says all that its reader needs."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from gpu_preflight import rules as package
from gpu_preflight.case import Case
from gpu_preflight.rule import Check, Problem, Rule, rule
from tests.conftest import ROOT


def documented(doc: str | None) -> Check:
    def nothing(case: Case) -> Iterator[Problem]:
        yield from ()

    nothing.__doc__ = doc
    return nothing


def made(doc: str | None, id: str = "GPU901") -> Rule:
    return rule(id, "error", source="https://example.com")(documented(doc))


def test_docstring_gives_title_why_and_fix() -> None:
    found = made("""Pool without plugin.

    No GPU is advertised,
    so the pod stays Pending.

    Fix: Install the plugin: the chart
    does.
    """)

    assert (found.id, found.severity, found.source) == ("GPU901", "error", "https://example.com")
    assert found.title == "Pool without plugin"
    assert found.why == "No GPU is advertised, so the pod stays Pending."
    assert found.fix == "Install the plugin: the chart does."


@pytest.mark.parametrize(
    "doc",
    [
        None,
        "",
        "Title.",
        "Title.\n\nWhy.",
        "Title.\n\nFix: Do.",
        "Title.\n\nWhy.\n\nDo.",
        "Title.\n\nFix: Do.\n\nWhy.",
        "Title.\n\nWhy.\n\nFix:",
        "Title.\n\nWhy.\n\nMore.\n\nFix: Do.",
    ],
)
def test_refuses_a_docstring_without_title_why_and_fix(doc: str | None) -> None:
    message = f"rule GPU901: docstring must be a title, the consequences and 'Fix: ...', got {doc or ''!r}"

    with pytest.raises(ValueError, match=re.escape(message)):
        made(doc)


def test_refuses_two_rules_with_one_id(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (made(f"{title}.\n\nWhy.\n\nFix: Do.") for title in ("First", "Second"))
    monkeypatch.setattr(package, "_defined", lambda: iter((first, second)))

    message = r"rule Second: id must be its own, got 'GPU901' of tests/preflight/test_rule\.py:\d+"
    with pytest.raises(ValueError, match=message):
        package.rules.__wrapped__()


def test_takes_two_rules_with_an_id_each(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [made("Title.\n\nWhy.\n\nFix: Do.", id) for id in ("GPU902", "GPU901")]
    monkeypatch.setattr(package, "_defined", lambda: iter(both))

    assert list(package.rules.__wrapped__()) == ["GPU901", "GPU902"]


def test_every_rule_stands_where_it_says() -> None:
    for each in package.rules().values():
        file, _, line = each.place.partition(":")
        written = "".join((ROOT / file).read_text().splitlines()[int(line) - 1 : int(line) + 1])
        assert re.match(rf'@rule\(\s*"{each.id}"', written), each.place


def test_no_rule_hides_another_of_its_name() -> None:
    files = (ROOT / "gpu_preflight" / "rules").rglob("*.py")
    written = sum(len(re.findall(r"^@rule\(", file.read_text(), re.MULTILINE)) for file in files)

    assert written == len(package.rules())
