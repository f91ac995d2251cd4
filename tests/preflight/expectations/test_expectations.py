"""Each case gets the result that was expected before the checker read it, except the known misses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.preflight.expectations.expectations import Case, find_differences, read_cases, read_known_misses
from tests.preflight.reading.programs import needs

CASES = read_cases()
MISSES = read_known_misses()


def with_marks(case: Case) -> Any:
    if case.name not in MISSES:
        return pytest.param(case, id=case.name)
    # Strict: a fix removes its entry. A crash is no known miss.
    known = pytest.mark.xfail(reason=MISSES[case.name], strict=True, raises=AssertionError)
    return pytest.param(case, id=case.name, marks=known)


@pytest.mark.parametrize("case", [with_marks(case) for case in CASES])
def test_case_meets_its_expectation(case: Case) -> None:
    if case.is_kustomized:
        needs("kubectl")

    assert not find_differences(case)


def test_every_input_has_a_case() -> None:
    names = [case.name for case in CASES]

    assert sorted(names) == sorted(path.name for path in CASES[0].path.parent.iterdir())


def test_known_misses_are_cases() -> None:
    assert set(MISSES) <= {case.name for case in CASES}
