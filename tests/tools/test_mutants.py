"""`make mutants` knows what to change and which tests have to notice."""

from __future__ import annotations

from typing import Any

import pytest
import tomli
import yaml

from tests.conftest import ROOT
from tools.mutants import (
    SURVIVORS,
    Outcome,
    Subject,
    function_name,
    imported,
    subjects,
    with_helpers,
    with_plain_properties,
)

SETTINGS: dict[str, Any] = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutants"]
SUBJECTS = subjects(SETTINGS)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: each.module)
def test_modules_and_their_tests_are_there(subject: Subject) -> None:
    assert (ROOT / subject.module).is_file()
    assert subject.tests
    assert all((ROOT / path).is_file() for path in subject.tests)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda each: each.module)
def test_no_test_asks_for_a_stack(subject: Subject) -> None:
    assert "tests/conftest.py" not in with_helpers(subject.tests)


def test_every_survivor_has_a_reason() -> None:
    for module, survivors in yaml.safe_load(SURVIVORS.read_text()).items():
        assert module in {each.module for each in SUBJECTS}
        assert all(each["why"].endswith(".") for each in survivors)
        assert len({each["change"] for each in survivors}) == len(survivors)


def test_every_survivor_is_a_change_of_code_that_exists() -> None:
    for module, survivors in yaml.safe_load(SURVIVORS.read_text()).items():
        code = "".join((ROOT / module).read_text().split())
        removed = [line[2:] for each in survivors for line in each["change"].splitlines() if line.startswith("- ")]
        assert [line for line in removed if "".join(line.split()) not in code] == [], module


PLAIN = """\
class A:
    def b(self):
        return 1
    b = property(b)

    @staticmethod
    def c():
        return 2
"""


def test_a_property_becomes_a_function_that_can_be_changed() -> None:
    source = PLAIN.replace("    def b", "    @property\n    def b").replace("    b = property(b)\n", "")

    assert with_plain_properties(source) == PLAIN
    assert with_plain_properties(PLAIN) == PLAIN


@pytest.mark.parametrize(
    ("mutant", "function"),
    [("a.b.x__size__mutmut_3", "_size"), ("a.b.xǁFitǁanswer__mutmut_1", "answer"), ("a.x_x__mutmut_12", "x")],
)
def test_a_mutant_is_of_a_function(mutant: str, function: str) -> None:
    assert function_name(mutant) == function


def test_helpers_are_found_where_they_are_imported_from() -> None:
    source = "import os\nfrom tests.preflight import readers\nfrom tests.a.b import c\nfrom tools import mutants\n"

    assert [str(path) for path in imported(source)] == [
        "tests/preflight.py",
        "tests/preflight/readers.py",
        "tests/a/b.py",
        "tests/a/b/c.py",
    ]


def test_what_lives_is_counted() -> None:
    row = Outcome("a.py", 10, (("b", "why"), ("c", ""))).row()

    assert row.split() == ["a.py", "8", "/", "10", "80.0", "%", "2", "1"]
