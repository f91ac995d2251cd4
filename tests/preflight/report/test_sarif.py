"""SARIF: the requirements of code scanning on a log."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.check import check
from gpu_preflight.judging.review import review
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Position
from gpu_preflight.report import ci, sarif
from gpu_preflight.report.finding_view import FindingOrigin
from gpu_preflight.report.review_view import ReviewView, review_view
from gpu_preflight.report.view import CheckView, check_view
from tests.preflight.report import samples


def run_of(view: CheckView | ReviewView) -> dict[str, Any]:
    [run] = json.loads(sarif.render(view))["runs"]
    return dict(run)


@pytest.fixture
def run() -> dict[str, Any]:
    """The run of a report with findings of every kind."""
    return run_of(check_view(samples.report()))


def test_log_names_its_version_and_schema() -> None:
    log = json.loads(sarif.render(check_view(samples.report())))

    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")


def test_rules_are_listed_once_each_with_help(run: dict[str, Any]) -> None:
    rules = run["tool"]["driver"]["rules"]

    assert [each["id"] for each in rules] == ["GPU901", "GPU902", "GPU903"]
    assert [each.get("helpUri") for each in rules] == ["https://example.com/plugin", None, "https://example.com/plugin"]
    assert rules[0]["help"]["text"].endswith("Source: https://example.com/plugin")


def test_results_refer_to_their_rules(run: dict[str, Any]) -> None:
    rules = run["tool"]["driver"]["rules"]

    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])


def test_what_may_be_is_one_level_less(run: dict[str, Any]) -> None:
    levels = [each["level"] for each in run["results"]]
    [unsure] = run_of(check_view(samples.report([samples.finding(unknown=True)])))["results"]

    assert levels == ["error", "error", "warning", "note", "warning"]
    assert unsure["level"] == "warning"


def test_results_say_where(run: dict[str, Any]) -> None:
    [location] = run["results"][0]["locations"]

    assert location["physicalLocation"]["artifactLocation"] == {"uri": "app.yaml", "uriBaseId": "%SRCROOT%"}
    assert location["physicalLocation"]["region"]["startLine"] == 1
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "Stack/Train"


def test_results_name_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples.write_app(tmp_path, monkeypatch)

    [result] = run_of(check_view(samples.report([samples.finding()])))["results"]

    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 2, "startColumn": 3}


def test_constructs_are_in_the_code_that_created_them() -> None:
    origin = FindingOrigin("cdk.out/a.template.json", "Stack/Train", code=Position("app.py", 9, None))

    assert sarif._location(origin)["physicalLocation"] == {
        "artifactLocation": {"uri": "app.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 9},
    }


def test_acknowledged_findings_are_suppressed_with_their_reason(run: dict[str, Any]) -> None:
    suppressed = [each["suppressions"] for each in run["results"] if "suppressions" in each]

    assert suppressed == [[{"kind": "external", "status": "accepted", "justification": "images are small here"}]]


def test_fingerprints_differ_and_outlive_the_message() -> None:
    twice = [samples.finding(), samples.finding()]
    before = [each["partialFingerprints"] for each in run_of(check_view(samples.report(twice)))["results"]]
    renamed = samples.finding(title="Another title", fix="Another fix.")

    [after] = run_of(check_view(samples.report([renamed])))["results"]

    assert before[0] != before[1]
    assert after["partialFingerprints"] == before[0]


def test_what_cannot_be_read_is_notified(run: dict[str, Any]) -> None:
    [invocation] = run["invocations"]

    assert [each["message"]["text"] for each in invocation["toolExecutionNotifications"]] == [
        "Stack/Manifest: its manifest is a parameter"
    ]


def test_review_leaves_out_what_is_fixed() -> None:
    results = run_of(review_view(samples.review(changes=())))["results"]

    assert [(each["ruleId"], each["baselineState"]) for each in results] == [
        ("GPU901", "new"),
        ("GPU903", "unchanged"),
        ("GPU902", "unchanged"),
    ]


def test_files_elsewhere_have_whole_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert sarif._artifact(str(tmp_path / "a b.yaml")) == {"uri": "a%20b.yaml", "uriBaseId": "%SRCROOT%"}
    assert sarif._artifact("/elsewhere/a.yaml") == {"uri": "file:///elsewhere/a.yaml"}


@pytest.mark.parametrize("view", [check_view(samples.report()), review_view(samples.review())], ids=["check", "review"])
def test_official_schema(view: CheckView | ReviewView) -> None:
    """Valid against OASIS's own schema, if you have a copy, which this repository can't include."""
    file = os.environ.get("GPU_CONSTRUCTS_SARIF_SCHEMA")
    if not file:
        pytest.skip("no SARIF schema: set GPU_CONSTRUCTS_SARIF_SCHEMA to sarif-schema-2.1.0.json")
    log = json.loads(sarif.render(view))

    jsonschema.validate(log, json.loads(Path(file).read_text()))


def test_what_fails_or_is_lost_in_a_change_is_a_result() -> None:
    run = run_of(review_view(samples.review()))
    rules = run["tool"]["driver"]["rules"]
    found = [each for each in run["results"] if each["ruleId"].startswith("change-")]

    assert [(each["ruleId"], each["level"]) for each in found] == [
        ("change-destructive", "warning"),
        ("change-fails", "error"),
        ("change-left-behind", "warning"),
    ]
    assert all(rules[each["ruleIndex"]]["id"] == each["ruleId"] for each in run["results"])
    assert "CloudFormation rejects" in found[1]["message"]["text"]
    assert found[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "app.yaml"


def test_what_cannot_be_read_has_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loop = "  Fn::ForEach::Groups:\n    - Name\n    - [a, b]\n    - Group${Name}: {Type: AWS::EKS::Nodegroup}\n"
    cluster = "  Cluster: {Type: AWS::EKS::Cluster, Properties: {Version: '1.36'}}\n"
    Path("a.yaml").write_text(f"Transform: AWS::LanguageExtensions\nResources:\n{cluster}{loop}")

    view = check_view(check(read_input(["a.yaml"])))

    places = [str(each.origin.position) for each in view.unread if each.origin.path == "Fn::ForEach::Groups"]
    regions = [
        each["locations"][0]["physicalLocation"]["region"]
        for each in run_of(view)["invocations"][0]["toolExecutionNotifications"]
    ]
    assert places == ["a.yaml:4:3"]
    assert {"startLine": 4, "startColumn": 3} in regions


def test_changes_have_their_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: other}\n---\n"
    spec = "{completionMode: %s, completions: 2, template: {}}"
    job = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: a}}\nspec: {spec}\n"
    for name, mode in (("old", "Indexed"), ("new", "NonIndexed")):
        Path(f"{name}.yaml").write_text(text + job % mode)

    old, new = (read_input([f"{each}.yaml"], stack="app") for each in ("old", "new"))
    view = review_view(review(old, new))

    [change] = [each for each in run_of(view)["results"] if each["ruleId"].startswith("change-")]
    place = change["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]) == ("new.yaml", {"startLine": 5, "startColumn": 1})
    assert "new.yaml:5:1: " in ci.concise(view)


def test_a_change_that_is_nowhere_is_a_result_without_a_place() -> None:
    change = ResourceChange("Export a", "fails", "a stack imports it")
    view = review_view(samples.review(changes=(change,)))

    [result] = [each for each in run_of(view)["results"] if each["ruleId"].startswith("change-")]

    assert result["locations"] == []
    assert ".: error: change-fails Export a: a stack imports it [Export a]" in ci.concise(view).splitlines()
