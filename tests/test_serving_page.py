"""The examples of the page on serving are apps whose pods preflight says will run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.emitted import Template
from tests.linting import cfn_lint
from tests.templates import CHART, MANIFEST, depends_on, manifests_of, of_type, text_of

PAGE = (ROOT / "docs" / "how-to" / "serving.md").read_text()
STACKS = ("Chat", "Reasoner")


def run_examples(folder: Path) -> None:
    """Have the apps of the examples write into a folder."""
    for example in programs_of(PAGE):
        run_program(example, folder)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assemblies of the examples' apps."""
    folder = tmp_path_factory.mktemp("page")
    run_examples(folder)
    return folder


def file_of(output: Path, stack: str) -> Path:
    return output / f"{stack}.template.json"


def template_of(output: Path, stack: str) -> Template:
    return dict(json.loads(file_of(output, stack).read_text()))


@pytest.mark.linted
@pytest.mark.parametrize("stack", STACKS)
def test_cloudformation_takes_it(output: Path, stack: str) -> None:
    assert cfn_lint([file_of(output, stack)]) == []


@pytest.mark.parametrize("stack", STACKS)
def test_preflight_finds_no_fault(output: Path, stack: str) -> None:
    read = read_input([str(file_of(output, stack))])
    [cluster] = clusters(read)
    found = check(read).findings

    assert [each.answer for each in Case(cluster).verdicts if each.answer is Answer.NO] == []
    assert [str(each.problem.message) for each in found if each.rule.severity == "error"] == []
    assert [each.rule.id for each in found if each.rule.id in re.findall(r"GPU4\d\d", PAGE)] == []


@pytest.mark.parametrize("stack", STACKS)
def test_every_client_has_a_way_to_pods_and_none_is_left_behind(output: Path, stack: str) -> None:
    resources = template_of(output, stack)["Resources"]

    [ingress] = [
        id
        for id, each in of_type(resources, MANIFEST).items()
        if '"kind":"Ingress"' in text_of(each["Properties"]["Manifest"])
    ]
    charts = {
        resources[id]["Properties"]["Chart"] for id in depends_on(resources, ingress) if id in of_type(resources, CHART)
    }
    assert "aws-load-balancer-controller" in charts


def test_a_group_is_admitted_whole(output: Path) -> None:
    [groups] = [
        each for each in manifests_of(template_of(output, "Reasoner")["Resources"]) if each["kind"] == "LeaderWorkerSet"
    ]

    assert groups["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "serving"
