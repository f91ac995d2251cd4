"""Every option of every public construct, changed by itself, and the effects of a second deployment."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from constructs import Construct

from tests.second_deployments.rows import CASES
from tests.second_deployments.world import Case, outcome
from tests.test_documents import public_names
from tools.write_changes import CHANGES, DOCUMENT, HEAD, Row, document, rows

# Public classes with options that no app sets.
NOT_SET = {
    "GpuNodes": "the common base of node groups",
    "InstanceType": "a row of the catalogue",
}
NEED_A_WORD = ("none", "rejected", "fails", "destructive", "left behind")
WRITTEN: dict[str, list[Row]] = rows()


def options_of(subject: Any) -> list[str]:
    return Case(subject, {}).parameters


def public_subjects() -> dict[str, Any]:
    """Public constructs and values with options, and the one function that makes resources."""
    found = {name: getattr(importlib.import_module(module), name) for name, module in public_names().items()}
    return {
        name: each
        for name, each in found.items()
        if name == "gpu_vpc"
        or (inspect.isclass(each) and (issubclass(each, Construct) or hasattr(each, "__dataclass_fields__")))
        if name not in NOT_SET and options_of(each)
    }


def test_every_option_of_every_public_construct_is_changed() -> None:
    wanted = {name: options_of(each) for name, each in public_subjects().items()}

    assert {each.name: [one for one in each.parameters if one in each.options] for each in CASES} == wanted


def test_every_option_has_one_row() -> None:
    written = {name: sorted(one for each in found for one in each.options) for name, found in WRITTEN.items()}

    assert written == {each.name: sorted(each.parameters) for each in CASES}


def test_what_goes_wrong_has_a_way_to_do_it() -> None:
    for name, found in WRITTEN.items():
        assert [each for each in found if each.change in NEED_A_WORD and not each.how] == [], name


@pytest.mark.linted
@pytest.mark.parametrize("case", CASES, ids=lambda each: each.name)
def test_a_change_is_of_the_class_that_its_row_says(case: Case) -> None:
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for option in case.parameters:
        change, parts, _ = outcome(case, option)
        listed = change in ("replaced", "fails", "destructive", "unknown", "left behind") and option != "cluster"
        kinds = sorted({each.kind for each in parts if each.change == change}) if listed else []
        found.setdefault((change, tuple(kinds)), []).append(option)

    written: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for row in WRITTEN[case.name]:
        written.setdefault((row.change, row.of), []).extend(row.options)
    assert {key: sorted(each) for key, each in found.items()} == {key: sorted(each) for key, each in written.items()}


def test_every_class_is_in_the_legend() -> None:
    changes = {each.change for found in WRITTEN.values() for each in found}

    assert changes == set(re.findall(r"^\| ([a-z ]+) \|", HEAD, re.MULTILINE)) - {"class"}


def test_the_page_is_current() -> None:
    assert Path(DOCUMENT).read_text() == document()


def test_the_table_is_read_whole() -> None:
    assert set(yaml.safe_load(Path(CHANGES).read_text())) == {each.name for each in CASES}
