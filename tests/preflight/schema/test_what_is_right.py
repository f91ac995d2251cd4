"""Values that a service accepts aren't rejected: the objects of this repository, and the passing rule fixtures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.emitted import Template
from tests.preflight.rule_cases import FIXTURES

OURS = ("GPU300", "GPU301", "GPU302", "GPU303", "GPU305", "GPU306", "GPU307")
# Their cases are what they are about: a version that is no number.
REFUSED = {"GPU006/passes_version_that_is_no_number", "GPU476/passes_volume_whose_name_is_no_text"}


def refusals(path: Path) -> list[str]:
    return [
        each.problem.message for each in check(read_input([str(path)], stack="app")).findings if each.rule.id in OURS
    ]


@pytest.mark.parametrize("part", range(8))
def test_no_passing_fixture(part: int) -> None:
    fixtures = sorted(FIXTURES.glob("*/passes_*.yaml"))[part::8]

    found = {f"{each.parent.name}/{each.stem}": refusals(each) for each in fixtures}

    assert {name: texts for name, texts in found.items() if texts and name not in REFUSED} == {}


def test_nothing_that_is_emitted(emitted: dict[str, Template], tmp_path: Path) -> None:
    assert len(emitted) > 20
    for number, (name, template) in enumerate(emitted.items()):
        file = tmp_path / f"{number}.template.json"
        file.write_text(json.dumps(template))

        assert refusals(file) == [], name
