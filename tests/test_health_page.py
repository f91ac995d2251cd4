"""The example of docs/how-to/health.md runs as it stands, and is what the page says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.metrics.dcgm_exporter import alerting_rules
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.linting import CDKS_OWN, cfn_lint
from tests.templates import manifest, of_type, only

PAGE = (ROOT / "docs" / "how-to" / "health.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly of the example's app."""
    [example] = programs_of(PAGE)
    return run_program(example, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def resources(output: Path) -> dict[str, Any]:
    return dict(json.loads((output / "Lab.template.json").read_text())["Resources"])


@pytest.mark.linted
def test_cloudformation_takes_it(output: Path) -> None:
    # A reservation is in one zone, and so are the subnets for it.
    assert cfn_lint([output / "Lab.template.json"], ignore=(*CDKS_OWN, "W3010")) == []


def test_preflight_has_nothing_certain_against_it(output: Path) -> None:
    found = check(read_input([str(output)])).findings

    sure = [each for each in found if each.rule.severity != "note" and not each.problem.unknown]
    assert [f"{each.rule.id} {each.problem.message}" for each in sure] == []


def test_one_broken_node_goes_at_a_time(resources: dict[str, Any]) -> None:
    budgets = manifest(resources, "NodePool")["spec"]["disruption"]["budgets"]

    assert {"nodes": "1", "reasons": ["Unhealthy"]} in budgets


def test_its_nodes_have_the_tag(resources: dict[str, Any]) -> None:
    assert manifest(resources, "EC2NodeClass")["spec"]["tags"]["team"] == "research"


def test_the_reservation_is_watched_with_a_notification(resources: dict[str, Any]) -> None:
    [topic] = of_type(resources, "AWS::SNS::Topic")
    alarm = only(resources, "AWS::CloudWatch::Alarm")

    assert alarm["AlarmActions"] == [{"Ref": topic}]
    assert alarm["Period"] * alarm["EvaluationPeriods"] == 6 * 3600


def test_the_page_names_alarms_that_there_are() -> None:
    told = set(re.findall(r"^\| `(Gpu\w+)` \|", PAGE, re.MULTILINE))

    assert told
    assert told <= {each["alert"] for each in alerting_rules()}
    assert set(re.findall(r"GPU\d{3}", PAGE)) == {"GPU222", "GPU365", "GPU450", "GPU451"}
