"""The page on isolated clusters: its app is without findings, and its mirror is where the copied images lie."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.judging.images import pulls
from gpu_constructs.preflight.judging.mirror import Mirror
from gpu_constructs.preflight.reading.inputs import read_input
from gpu_constructs.preflight.report.view import images_view
from tests.apps import programs_of, run_program
from tests.conftest import ROOT
from tests.templates import of_type

PAGE = (ROOT / "docs" / "isolated.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example's app writes."""
    [example] = programs_of(PAGE)
    return run_program(example, tmp_path_factory.mktemp("isolated")) / "Isolated.template.json"


def errors(file: Path) -> list[str]:
    return [each.rule.id for each in check(read_input([str(file)])).findings if each.rule.severity == "error"]


def test_preflight_has_nothing_against_it(output: Path) -> None:
    assert errors(output) == []


def test_without_the_mirror_nodes_could_not_pull(output: Path, tmp_path: Path) -> None:
    template = json.loads(output.read_text())
    for each in of_type(template["Resources"], "AWS::EC2::LaunchTemplate").values():
        each["Properties"]["LaunchTemplateData"].pop("UserData", None)
    file = tmp_path / "without.template.json"
    file.write_text(json.dumps(template))

    assert "GPU076" in errors(file)


def test_the_mirror_of_the_page_has_what_the_command_copies(output: Path) -> None:
    found = pulls(clusters(read_input([str(output)])))
    view = images_view(found, mirror=Mirror("mirror.example.com"))

    assert view["clusters"][0]["notKnown"] == []
    assert {each["target"] for each in view["clusters"][0]["images"]} == {
        "mirror.example.com/nvidia/k8s-device-plugin:v0.20.0"
    }
    # containerd asks the mirror for the path that the image has in its own registry.
    assert (
        view["mirror"]["registryMirrors"].items()
        <= {
            "nvcr.io": "https://mirror.example.com",
            "registry.k8s.io": "https://mirror.example.com",
        }.items()
    )
