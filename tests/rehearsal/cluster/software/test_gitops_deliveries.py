"""Files for Argo CD and Flux are read as those two read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.facts.versions import Chart
from gpu_constructs.installing.gitops import argocd_application, flux_release
from gpu_constructs.rehearsal.players.cluster.software.gitops import Release, read

CHART = Chart(version="1.2", name="a", repository="oci://x/a", source="s", as_of="2026-01-01")
VALUES = {"cluster": "${Cluster}", "board": "${interval}"}


def _written(folder: Path, *manifests: Any, into: str = "charts") -> Path:
    (folder / into).mkdir()
    (folder / into / "a.yaml").write_text(yaml.safe_dump_all(manifests))
    return folder


def _release(**changes: Any) -> Release:
    says: dict[str, Any] = {
        "name": "a",
        "chart": "a",
        "version": "1.2",
        "repository": "oci://x",
        "namespace": "gpu",
        "values": {"cluster": "research", "board": "${interval}"},
        "definitions": True,
        "until_ready": False,
    }
    return Release(**says | changes)


@pytest.mark.parametrize("own", [True, False])
def test_an_application_is_a_release(own: bool, tmp_path: Path) -> None:
    made = argocd_application(CHART, repository="oci://x/a", namespace="gpu", values=VALUES, own_definitions=own)

    assert read(_written(tmp_path, *made), {"Cluster": "research"}).releases == [_release(definitions=own)]


@pytest.mark.parametrize("wait", [True, False])
def test_a_helm_release_is_taken_from_its_repository(wait: bool, tmp_path: Path) -> None:
    made = flux_release(
        CHART,
        repository="https://charts.example",
        namespace="gpu",
        values=VALUES,
        own_definitions=False,
        until_ready=wait,
    )

    assert read(_written(tmp_path, *made), {"Cluster": "research"}).releases == [
        _release(repository="https://charts.example", definitions=False, until_ready=wait)
    ]


def test_objects_are_kept_by_file_and_only_outputs_are_filled_in(tmp_path: Path) -> None:
    manifest = {"kind": "ConfigMap", "data": VALUES}

    found = read(_written(tmp_path, manifest, into="objects"), {"Cluster": "research"})

    assert found.objects == {"a.yaml": [{"kind": "ConfigMap", "data": {"cluster": "research", "board": "${interval}"}}]}


def test_refuses_files_of_another_tool(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind must be Application, HelmRelease or HelmRepository, got 'HelmChart'"):
        read(_written(tmp_path, {"kind": "HelmChart"}), {})
