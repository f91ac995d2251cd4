"""Each format, with names that attack its reader, as a program that reads it understands it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from gpu_preflight.command_line.console import renderer, without_commands
from gpu_preflight.command_line.parameter_types import JUDGED
from gpu_preflight.reading.objects import Position
from gpu_preflight.report.review_view import ReviewView
from gpu_preflight.report.schema import schema
from gpu_preflight.report.view import CheckView
from tests.preflight.report import samples
from tests.preflight.report.test_html import Page

View = CheckView | ReviewView
HOSTILE = f"{samples.HOSTILE}\n::error::x\r\n##[error]y, 100 %: ]]>&amp;\"'\x00\x0b\x1b[31m\u202e\u2028\ud800"
_NAMES = ("Stack/Train", "app.yaml", "demo", "pool Train: has none", "Install the plugin.", "Pool without plugin")
# Documented at https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format (2026-11).
GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "not": {"pattern": r"^(\./|/)"}},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                },
            },
        },
    },
}
# Source: actions/runner src/Runner.Common/ActionCommand.cs, actions/toolkit packages/core/src/command.ts (2026-11)
_COMMAND = re.compile(r"::(?:error|warning|notice) ((?:[a-z]+=[^,:]*)(?:,[a-z]+=[^,:]*)*)::(.+)")


def _read_lines(text: str) -> None:
    # The word joiner is ours, which ends a command.
    assert all(each.replace("\N{WORD JOINER}", "").isprintable() for each in text.split("\n"))
    assert not re.search(r"^\s*::|##\w*\[", text, re.MULTILINE)


def _read_json(text: str) -> None:
    jsonschema.Draft202012Validator(json.loads(schema())).validate(json.loads(text))


def _read_sarif(text: str) -> None:
    log = json.loads(text)
    [run] = log["runs"]
    assert all(run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    if file := os.environ.get("GPU_CONSTRUCTS_SARIF_SCHEMA"):
        jsonschema.validate(log, json.loads(Path(file).read_text()))


def _read_html(text: str) -> None:
    page = Page(text)
    assert (page.open, page.tags.count("script"), page.tags.count("style")) == ([], 1, 1)


def _read_github(text: str) -> None:
    for line in text.splitlines():
        command = _COMMAND.fullmatch(line)
        assert command, line
        names = [each.partition("=")[0] for each in command[1].split(",")]
        assert set(names) <= {"file", "line", "col", "title"}
        assert "file" in names


def _read_gitlab(text: str) -> None:
    rows = json.loads(text)
    jsonschema.validate(rows, GITLAB)
    assert len({each["fingerprint"] for each in rows}) == len(rows)


def _read_junit(text: str) -> None:
    suite = ElementTree.fromstring(text.encode(errors="replace"))
    assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
    # As CI systems read it, where the package is installed.
    junitparser = pytest.importorskip("junitparser")
    cases = list(junitparser.TestSuite.fromstring(text.encode(errors="replace")))
    assert sum(case.is_failure for case in cases) == int(suite.get("failures", ""))
    assert all(case.name and case.classname for case in cases)


_READERS: dict[str, Callable[[str], None]] = {
    "text": _read_lines,
    "markdown": lambda text: _read_lines(text.replace("\t", " ")),
    "concise": _read_lines,
    "json": _read_json,
    "sarif": _read_sarif,
    "html": _read_html,
    "github": _read_github,
    "gitlab": _read_gitlab,
    "junit": _read_junit,
}


def views() -> dict[str, View]:
    """A check and a review, with lines of files and of code, plain and with names that attack their readers."""
    made: dict[str, Any] = {name: samples.views()[name] for name in ("check", "review")}
    [first, *others] = made["check"].findings
    code = replace(first.origin, code=Position("app.py", 9, None), template="app/templates/a.yaml", field="spec.x")
    made["check"] = replace(made["check"], findings=(replace(first, origin=code), *others))
    return made | {f"hostile {name}": samples.with_text(view, _NAMES, HOSTILE) for name, view in made.items()}


@pytest.mark.parametrize("name", ["check", "review", "hostile check", "hostile review"])
@pytest.mark.parametrize("form", JUDGED)
def test_each_format_is_read_by_its_consumer(form: str, name: str) -> None:
    written = without_commands(renderer(form)(views()[name]), form)

    assert "GPU901" in written
    _READERS[form](written)
