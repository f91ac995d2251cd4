"""JSON: valid against its schema, and the schema unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_facts.hardware.catalogue import catalogue
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report.finding_view import View
from gpu_preflight.report.instances_view import instances_view
from gpu_preflight.report.json import render
from gpu_preflight.report.schema import NARROWER, schema
from gpu_preflight.report.view import check_view, rules_view
from gpu_preflight.rules import rules
from tests.preflight.report import samples
from tests.preflight.rule_cases import FIXTURES

SCHEMA = json.loads(schema())
FAILING = sorted(FIXTURES.glob("*/fails_*"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def assert_valid(view: View) -> None:
    VALIDATOR.validate(json.loads(render(view)))


def test_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_schema_stays(snapshot_text: SnapshotAssertion) -> None:
    """If you change a key, change `SCHEMA_VERSION`; if you add one, update this snapshot."""
    lines = [
        f"{name}: {', '.join(definition['properties'])}"
        for name, definition in SCHEMA["$defs"].items()
        if "properties" in definition
    ]

    assert "\n".join(lines) + "\n" == snapshot_text


def test_what_types_do_not_state_is_of_keys_that_exist() -> None:
    assert all(key in SCHEMA["$defs"][name]["properties"] for name, key in NARROWER)


@pytest.mark.parametrize("kind", ["check", "explain", "review"])
def test_views_are_valid(kind: str) -> None:
    assert_valid(samples.views()[kind])


def test_findings_name_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples.write_app(tmp_path, monkeypatch)
    view = check_view(samples.report([samples.finding(), samples.finding(name="Infer")]))
    origins = [each["origin"] for each in json.loads(render(view))["findings"]]

    assert_valid(view)
    assert [(each["line"], each["column"], each["code"]) for each in origins] == [(2, 3, None), (None, None, None)]


def test_rows_and_rules_are_valid() -> None:
    assert_valid(instances_view(catalogue().values()))
    assert_valid(rules_view(rules()))


@pytest.mark.parametrize("fixture", FAILING[::7], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_real_reports_are_valid(fixture: object) -> None:
    assert_valid(check_view(check(read_input([str(fixture)]))))


def test_keys_that_are_not_in_the_schema_are_refused() -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(json.loads(render(check_view(samples.report()))) | {"extra": 1})


def test_explain(snapshot_text: SnapshotAssertion) -> None:
    view = json.loads(render(samples.with_text(samples.views()["explain"], [samples.CLUSTER], "cluster.yaml")))
    del view["tool"]

    assert json.dumps(view, indent=2) + "\n" == snapshot_text


def test_every_text_survives() -> None:
    view = check_view(samples.report([samples.finding(name="\ud800\x1b")]))

    assert render(view).isascii()
    assert json.loads(render(view))["findings"][0]["origin"]["path"] == view.findings[0].origin.path
