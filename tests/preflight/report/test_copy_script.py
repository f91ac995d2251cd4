"""The script that copies images and charts: clean, and run with programs that write down what they are asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.images import Mirror, pulls
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report import copy_script, markdown, text
from gpu_preflight.report import json as as_json
from gpu_preflight.report.images_view import ImagesView, images_view
from gpu_preflight.report.schema import schema
from tests.judges.shellcheck import complaints

# The base install is tested without what requirements-dev.txt brings.
JUDGED = pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck: install requirements-dev.txt")

ECR = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
PLAIN = "mirror.example.com:5000"
DIGEST = "sha256:" + "a" * 64
RELEASE = """\
  {id}:
    Type: Custom::AWSCDK-EKS-HelmChart
    Properties: {{ClusterName: demo, Chart: {name}, Repository: "{repository}", Version: "{version}", Namespace: x}}
"""
INPUT = (
    "Resources:\n"
    + RELEASE.format(id="Kueue", name="kueue", version="0.19.2", repository="oci://registry.k8s.io/kueue/charts/kueue")
    + RELEASE.format(
        id="Ray", name="kuberay-operator", version="1.7.0", repository="https://ray-project.github.io/kuberay-helm"
    )
    + RELEASE.format(id="Odd", name="odd", version="1.0.0+7", repository="oci://example.com/it's $(odd)")
    + f"""\
  Addon:
    Type: AWS::EKS::Addon
    Properties: {{ClusterName: demo, AddonName: coredns}}
---
apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  containers:
  - {{name: a, image: "nvcr.io/nvidia/app@{DIGEST}"}}
  - {{name: b, image: "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/efa:v1"}}
"""
)
RECORD = '#!/bin/sh\necho "$(basename "$0")" "$@" >> "$RECORD"\n'
# The one repository that is there already.
AWS = RECORD + 'case "$*" in *describe-repositories*eks/efa*) exit 0;; *describe*) exit 254;; esac\n'
HELM = RECORD + 'if [ "$1" = pull ]; then touch "$7/$9-$5.tgz"; fi\nif [ "$1" = push ]; then test -f "$2"; fi\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "input.yaml"
    made.write_text(INPUT)
    return made


def view(file: Path, mirror: str | None) -> ImagesView:
    found = pulls(clusters(read_input([str(file)])))
    return images_view(found, mirror=Mirror(mirror) if mirror else None)


def asked(script: str, folder: Path) -> list[str]:
    """The script's calls of the programs that it starts."""
    programs, record = folder / "programs", folder / "record"
    programs.mkdir()
    for name, body in {"crane": RECORD, "helm": HELM, "aws": AWS}.items():
        (programs / name).write_text(body)
        (programs / name).chmod(0o755)
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "RECORD": str(record)}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [each.replace("  ", " ").strip() for each in record.read_text().splitlines()]


@pytest.mark.parametrize("mirror", [ECR, PLAIN])
@JUDGED
def test_it_is_clean(file: Path, mirror: str) -> None:
    assert complaints(copy_script.render(view(file, mirror))) == ""


@JUDGED
def test_one_that_copies_nothing_is_clean(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("{apiVersion: v1, kind: Namespace, metadata: {name: a}}")

    assert complaints(copy_script.render(view(empty, ECR))) == ""
    assert complaints(copy_script.render(view(empty, PLAIN))) == ""


def test_it_copies_to_where_nodes_and_charts_look(file: Path, tmp_path: Path) -> None:
    said = asked(copy_script.render(view(file, PLAIN)), tmp_path)

    copied = [each for each in said if each.startswith(("crane copy", "helm push"))]
    assert copied[:2] == [
        f"crane copy -- nvcr.io/nvidia/app@{DIGEST} mirror.example.com:5000/nvidia/app@{DIGEST}",
        "crane copy -- quay.io/kuberay/operator:v1.7.0 mirror.example.com:5000/kuberay/operator:v1.7.0",
    ]
    assert (
        "crane copy -- registry.k8s.io/kueue/charts/kueue:0.19.2 mirror.example.com:5000/charts/kueue:0.19.2" in copied
    )
    [pushed] = [each for each in copied if each.startswith("helm push")]
    assert pushed.endswith("/kuberay-operator-1.7.0.tgz oci://mirror.example.com:5000/charts")
    assert not [each for each in said if "create-repository" in each]


def test_what_is_no_address_is_not_copied(file: Path) -> None:
    [odd] = [each for each in view(file, PLAIN).clusters[0].charts if each.name == "odd"]

    assert (odd.target, odd.not_copied) == (None, "its name, version or address isn't valid")
    assert "$(odd)" not in copy_script.render(view(file, PLAIN))


def test_a_plus_sign_is_none_in_tags_of_oci(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text("Resources:\n" + RELEASE.format(id="A", name="a", version="1.0.0+7", repository="oci://x.io/a"))

    assert asked(copy_script.render(view(file, PLAIN)), tmp_path) == [
        f"crane copy -- x.io/a:1.0.0_7 {PLAIN}/charts/a:1.0.0_7"
    ]


def test_repositories_of_ecr_are_made_where_they_are_not(file: Path, tmp_path: Path) -> None:
    # The image of EKS is copied out of another region.
    said = asked(copy_script.render(view(file, ECR)), tmp_path)

    made = [each.rpartition(" ")[2] for each in said if "create-repository" in each]
    assert made == [
        "nvidia/app",
        "kuberay/operator",
        "kueue/kueue",
        "charts/kueue",
        "charts/kuberay-operator",
    ]
    assert all("--region eu-west-1" in each for each in said if "repositor" in each)
    logins = [each for each in said if each.startswith("crane auth login")]
    assert [each.split()[3] for each in logins] == ["602401143452.dkr.ecr.us-west-2.amazonaws.com", ECR]


def test_it_names_what_is_not_known(file: Path) -> None:
    script = copy_script.render(view(file, ECR))

    assert "# Unknown, and not copied: chart odd 1.0.0+7: images of this version of the chart aren't known" in script


@pytest.mark.parametrize("mirror", [None, ECR, PLAIN])
def test_views_are_valid(file: Path, mirror: str | None) -> None:
    shown = view(file, mirror)

    jsonschema.Draft202012Validator(json.loads(schema())).validate(json.loads(as_json.render(shown)))
    longer = [line for line in text.render(shown).splitlines() if len(line) > text.PLAIN_WIDTH]
    # A reference of an image is never cut.
    assert all(len(line.split("  ")[-1].split()) == 1 for line in longer)
    assert "| Image | Requested by |" in markdown.render(shown)


def test_nodes_are_configured_for_a_mirror_unless_it_is_ecr(file: Path) -> None:
    told, of_ecr = view(file, PLAIN).mirror, view(file, ECR).mirror

    assert told
    assert told.registry_mirrors["nvcr.io"] == "https://mirror.example.com:5000"
    assert of_ecr
    assert of_ecr.registry_mirrors == {}
    assert of_ecr.chart_mirror == f"oci://{ECR}/charts"
    assert "set image= and values= to names in the mirror" in " ".join(text.render(view(file, ECR)).split())


def test_add_ons_are_said_to_come_from_eks(file: Path) -> None:
    shown = " ".join(text.render(view(file, ECR)).split())

    assert "Add-ons coredns: EKS provides the images in its own ECR registry of the Region; don't copy them." in shown
    assert "2 unknown" not in shown
