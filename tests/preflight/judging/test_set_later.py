"""Values that are set only at deployment: their place in the report, and the results that depend on them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpu_preflight.cluster.open_values import field_name
from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report import html as page
from gpu_preflight.report import markdown, text
from gpu_preflight.report.view import check_view
from gpu_preflight.scheduling.verdict import Verdict

GOOD = Path(__file__).parents[1] / "expectations" / "cases" / "good-two-node-configs"
IMAGE = ("qwen.yaml", "image: vllm/vllm-openai:v0.26.0", "image: ${IMAGE}")
PARAMETER = ("template.yaml", "Parameters:", "Parameters:\n  Nodes: {Type: String}")
TEMPLATE = ("template.yaml", "LaunchTemplate: {Id: !Ref GpuTemplate,", "LaunchTemplate: {Id: !Ref Nodes,")
NO_LABEL = ("qwen.yaml", "      nodeSelector: {team: ml}\n", "")
CLAIM = (
    "qwen.yaml",
    "containers:",
    "volumes: [{name: weights, persistentVolumeClaim: {claimName: '${CLAIM}'}}]\n      containers:",
)


def report(folder: Path, *changes: tuple[str, str, str]) -> Report:
    """The findings in a correct cluster with one text in its files replaced."""
    place = folder / "case"
    shutil.copytree(GOOD, place)
    parameters = (
        (place / "template.yaml").read_text().replace("Parameters:\n", "Parameters:\n  Nodes: {Type: String}\n")
    )
    (place / "template.yaml").write_text(parameters)
    for name, old, new in changes:
        written = (place / name).read_text()
        assert old in written
        (place / name).write_text(written.replace(old, new))
    return check(read_input([str(each) for each in sorted(place.iterdir())]))


def verdict(found: Report) -> Verdict:
    [told] = [each for case in found.cases for each in found.explanation(case).verdicts]
    return told


@pytest.mark.parametrize(
    ("kind", "path", "name"),
    [
        ("Deployment", "spec.template.spec.volumes[].name", "Pod spec.volumes[].name"),
        ("CronJob", "spec.jobTemplate.spec.template.spec.initContainers[].image", "Pod spec.containers[].image"),
        ("Pod", "spec.nodeSelector.team", "Pod spec.nodeSelector.*"),
        ("DaemonSet", "spec.template.spec.containers[].args[]", "DaemonSet spec.template.spec.containers[].args"),
        ("Deployment", "spec.replicas", "Deployment spec.replicas"),
    ],
)
def test_fields_that_mean_the_same_have_one_name(kind: str, path: str, name: str) -> None:
    assert field_name(kind, path) == name


def test_what_deployments_usually_set_is_named_and_changes_no_answer(tmp_path: Path) -> None:
    found = report(tmp_path, IMAGE)

    assert verdict(found).answer is Answer.YES
    assert any("${IMAGE}" in each for each in verdict(found).rests_on)
    assert {each.value for each in found.open_values} == {"${IMAGE}", "${template/SubnetIds}"}


@pytest.mark.parametrize(("change", "value"), [(TEMPLATE, "${template/Nodes}"), (CLAIM, "${CLAIM}")])
def test_a_value_that_decides_makes_the_answer_conditional(
    tmp_path: Path, change: tuple[str, str, str], value: str
) -> None:
    found = report(tmp_path, NO_LABEL, change)

    assert verdict(found).answer is Answer.UNKNOWN
    assert any(value in each for each in verdict(found).runs_if)
    assert any(each.value == value and each.rules for each in found.open_values)


def test_a_launch_template_that_is_not_there_may_set_a_label(tmp_path: Path) -> None:
    assert verdict(report(tmp_path, TEMPLATE)).answer is Answer.UNKNOWN


def test_a_known_value_is_not_listed(tmp_path: Path) -> None:
    default = ("template.yaml", 'Type: "List<AWS::EC2::Subnet::Id>"', "Type: CommaDelimitedList, Default: subnet-1")

    assert not report(tmp_path, default).open_values


def test_whether_a_workload_asks_for_gpus_may_not_be_known(tmp_path: Path) -> None:
    written = (GOOD / "qwen.yaml").read_text()
    resources = written[written.index("        resources:") :]

    found = report(tmp_path, ("qwen.yaml", resources, "        resources: ${RESOURCES}\n"))

    assert verdict(found).answer is Answer.UNKNOWN


def test_every_form_lists_the_values(tmp_path: Path) -> None:
    view = check_view(report(tmp_path, TEMPLATE))

    [listed] = [each for each in view.open_values if each.value == "${template/Nodes}"]
    assert "GPU009" in listed.rules
    for written in (text.render(view), markdown.render(view), page.render(view)):
        assert "Values that only deployment sets" in written
        assert "template/Nodes" in written


def test_a_missing_component_hides_no_value(tmp_path: Path) -> None:
    pods = (GOOD / "qwen.yaml").read_text().replace(*CLAIM[1:])
    (tmp_path / "pods.yaml").write_text(pods)

    found = verdict(check(read_input([str(tmp_path)])))

    assert found.answer is Answer.UNKNOWN
    assert any("${CLAIM}" in each for each in found.runs_if)
    assert any("advertises nvidia.com/gpu" in each for each in found.runs_if)
