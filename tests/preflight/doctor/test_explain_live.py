"""`explain --live` answers for manifests and a running cluster together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.preflight.command_line.test_cli import Done
from tests.preflight.doctor.server import ApiServer, Faults, serving
from tests.preflight.doctor.test_cluster import KARPENTER

pytest.importorskip("lightkube", reason="the extra gpu-constructs[doctor] isn't installed")


_TOLERATES = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def _manifest(folder: Path, gpus: int = 1) -> str:
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"restartPolicy": "Never", "containers": [{"name": "app", "image": "app:1", **limits}], **_TOLERATES}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "new"}, "spec": {"template": {"spec": spec}}}
    file = folder / "new.yaml"
    file.write_text(yaml.safe_dump(job))
    return str(file)


def _ask(folder: Path, *arguments: str, faults: Faults | None = None) -> Done:
    with serving(ApiServer([KARPENTER], faults), folder) as file:
        return Done("explain", "--live", *arguments, "--format", "json", environment={"KUBECONFIG": file})


def _answers(done: Done) -> dict[str, str]:
    workloads = [one for each in json.loads(done.out)["clusters"] for one in each["workloads"]]
    return {each["name"]: each["result"] for each in workloads}


def test_a_new_manifest_is_explained_with_the_pools_of_the_cluster(tmp_path: Path) -> None:
    assert _answers(_ask(tmp_path, "-f", _manifest(tmp_path))) == {"Job default/new": "runs"}


def test_node_groups_without_nodes_are_unknown_without_aws(tmp_path: Path) -> None:
    done = _ask(tmp_path, "-f", _manifest(tmp_path, gpus=8))
    assert _answers(done) == {"Job default/new": "unknown"}
    assert "no pool accepts it, but aws, which isn't read, may have one" in done.out


def test_without_a_manifest_the_workloads_of_the_cluster_are_explained(tmp_path: Path) -> None:
    assert "Job default/new" not in _answers(_ask(tmp_path))
    assert _answers(_ask(tmp_path))


def test_a_list_that_is_refused_makes_an_answer_unknown(tmp_path: Path) -> None:
    faults = Faults(status={"/nodepools": 403})
    done = _ask(tmp_path, "-f", _manifest(tmp_path, gpus=8), faults=faults)
    assert _answers(done) == {"Job default/new": "unknown"}
    assert "NodePool gpu" not in done.out
    assert "nodepools.karpenter.sh" in [each["origin"]["path"] for each in json.loads(done.out)["unread"]]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--context", "x", "-f", "new.yaml"), "--context must be given with --live, got it alone"),
        (("--live", "--context", "x"), "--context must be one of prod, got 'x'"),
    ],
)
def test_a_wrong_context_is_refused(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    with serving(ApiServer([KARPENTER]), tmp_path) as file:
        done = Done("explain", *arguments, environment={"KUBECONFIG": file})
    assert done.code == 2
    assert text in done.err


def test_a_cluster_that_does_not_answer_is_refused(tmp_path: Path) -> None:
    done = _ask(tmp_path, "-f", _manifest(tmp_path), faults=Faults(gone_after=0))
    assert done.code == 2
    assert "the cluster must answer" in done.err
