"""The example of the page on teams is an app, whose pods run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.emitted import Template
from tests.linting import cfn_lint
from tests.templates import manifests_of, of_type

PAGE = (ROOT / "docs" / "how-to" / "teams.md").read_text()


def synthesized(folder: Path) -> Path:
    """Return a folder with the assembly of the example's app."""
    [example] = programs_of(PAGE)
    return run_program(example, folder)


def template_of(folder: Path) -> Template:
    return dict(json.loads((folder / "Shared.template.json").read_text()))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthesized(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def report(output: Path) -> Report:
    return check(read_input([str(output)]))


@pytest.mark.linted
def test_cloudformation_takes_it(output: Path) -> None:
    assert cfn_lint([output / "Shared.template.json"]) == []


def test_the_pods_of_the_example_would_run(report: Report) -> None:
    [case] = report.cases
    [verdict] = report.explanation(case).verdicts

    assert verdict.workload.name.startswith("Job nlp/train")
    assert verdict.answer is Answer.YES, verdict.reasons


def test_preflight_has_nothing_against_it(report: Report) -> None:
    assert [f"{each.rule.id} {each.problem.message}" for each in report.findings if each.rule.severity != "note"] == []
    assert "GPU434" not in {each.rule.id for each in report.findings}


def test_a_pod_beyond_the_quota_would_not_run(output: Path, tmp_path: Path) -> None:
    template = (output / "Shared.template.json").read_text()
    quota = '\\"requests.nvidia.com/gpu\\":\\"{}\\"'.format
    assert quota(4) in template
    (tmp_path / "Shared.template.json").write_text(template.replace(quota(4), quota(0)))

    found = check(read_input([str(tmp_path)]))
    [case] = found.cases
    [verdict] = found.explanation(case).verdicts
    assert verdict.answer is Answer.NO
    assert "(ResourceQuota team)" in str(verdict.reasons)


def test_a_pod_with_efa_would_be_refused(output: Path, tmp_path: Path) -> None:
    template = (output / "Shared.template.json").read_text()
    capabilities = '\\"capabilities\\":{\\"drop\\":[\\"ALL\\"]}'
    assert capabilities in template
    efa = template.replace(capabilities, capabilities.replace("{", '{\\"add\\":[\\"IPC_LOCK\\"],'))
    (tmp_path / "Shared.template.json").write_text(efa)

    assert "GPU372" in {each.rule.id for each in check(read_input([str(tmp_path)])).findings}


def test_a_pod_in_a_namespace_that_nothing_makes_would_not_run(output: Path, tmp_path: Path) -> None:
    found = _with_namespace(output, tmp_path, made="nlp", instead="other")

    [case] = found.cases
    [verdict] = found.explanation(case).verdicts
    assert verdict.answer is Answer.NO
    assert {each.rule for each in verdict.reasons} >= {"GPU453"}


def test_a_namespace_that_two_make_is_found(output: Path, tmp_path: Path) -> None:
    found = _with_namespace(output, tmp_path, made="vision", instead="nlp")

    [message] = [each.problem.message for each in found.findings if each.rule.id == "GPU452"]
    assert message.startswith("Namespace nlp: Shared/NamespaceNlp")


def _with_namespace(output: Path, folder: Path, *, made: str, instead: str) -> Report:
    """The findings if another namespace is made instead of one of the example."""
    template = (output / "Shared.template.json").read_text()
    found = re.sub(
        rf'(\\"kind\\":\\"Namespace\\",\\"metadata\\":{{\\"name\\":\\"){made}\\"', rf'\1{instead}\\"', template
    )
    assert found != template
    (folder / "Shared.template.json").write_text(found)
    return check(read_input([str(folder)]))


def test_the_table_names_every_policy(output: Path) -> None:
    entries = of_type(template_of(output)["Resources"], "AWS::EKS::AccessEntry")
    used = set(re.findall(r"cluster-access-policy/(\w+)", json.dumps(entries)))

    assert used <= set(re.findall(r"`(AmazonEKS\w+)`", PAGE))


def test_an_operator_who_runs_doctor_has_one_entry(output: Path) -> None:
    entries = of_type(template_of(output)["Resources"], "AWS::EKS::AccessEntry").values()
    found = [each["Properties"] for each in entries if str(each["Properties"]["PrincipalArn"]).endswith("role/OnCall")]

    assert [each["KubernetesGroups"] for each in found] == [
        ["gpu-constructs:viewers", "gpu-constructs:operators", "gpu-constructs:doctors"]
    ]


def test_the_objects_are_those_that_the_page_names(output: Path) -> None:
    kinds = {each["kind"] for each in manifests_of(template_of(output)["Resources"])}

    assert {"Namespace", "ResourceQuota", "LimitRange", "NetworkPolicy", "Role", "ClusterRole", "LocalQueue"} <= kinds
