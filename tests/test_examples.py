"""Every example runs as it stands and emits what a first commit needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.templates import manifests_of, of_type

EXAMPLES = sorted((ROOT / "examples").glob("*/app.py"))


def synthesize(example: Path, output: Path) -> dict[str, dict[str, object]]:
    """Run an example and return the resources of its only stack."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(output)}
    done = subprocess.run(
        [sys.executable, example.name], cwd=example.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [template] = output.glob("*.template.json")
    return dict(json.loads(template.read_text())["Resources"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_example_synthesizes_gpu_groups_with_what_they_need(example: Path, tmp_path: Path) -> None:
    resources = synthesize(example, tmp_path)

    kinds = {each["kind"] for each in manifests_of(resources)}
    assert {"DaemonSet", "Deployment"} <= kinds
    images = {each["Properties"]["AmiType"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()}
    assert "AL2023_x86_64_NVIDIA" in images


def test_pools_on_an_imported_cluster_make_no_cluster(tmp_path: Path) -> None:
    resources = synthesize(ROOT / "examples" / "existing_cluster" / "app.py", tmp_path)

    assert of_type(resources, "AWS::EKS::Cluster") == {}
    assert {each["Properties"]["ClusterName"] for each in of_type(resources, "AWS::EKS::Nodegroup").values()} == {
        "platform"
    }
