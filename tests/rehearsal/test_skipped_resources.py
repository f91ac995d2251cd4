"""The rehearsal reports each resource that it skips, with the reason and the substitute."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts import versions
from gpu_rehearsal.cluster.addons import GROUPS, Definitions
from gpu_rehearsal.internet import Charts
from gpu_rehearsal.stage import SkippedResources

_OBJECTS, _RELEASE, _DEFINITIONS = (
    "Custom::AWSCDK-EKS-KubernetesResource",
    "Custom::AWSCDK-EKS-HelmChart",
    "Custom::GpuChartDefinitions",
)
KEDA = {"Chart": "keda", "Version": "2.21.0"}


class Server:
    """Accepts definitions, and reports them as established."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def apply(self, manifest: dict[str, Any]) -> None:
        """Record the name of an object."""
        self.applied.append(manifest["metadata"]["name"])

    def object_path(self, manifest: dict[str, Any]) -> str:
        """Return its name."""
        return str(manifest["metadata"]["name"])

    def get(self, _path: str) -> dict[str, Any]:
        """Return an established definition."""
        return {"status": {"conditions": [{"type": "Established", "status": "True"}]}}


@pytest.fixture
def server() -> Server:
    """The API server."""
    return Server()


@pytest.fixture
def skipped(tmp_path: Path, server: Server) -> SkippedResources:
    """A folder with one chart, and one with definitions of two groups."""
    for name, group in (("scaledobjects.keda.sh", "keda.sh"), ("rayjobs.ray.io", "ray.io")):
        definition = {
            "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {"group": group},
            "status": {"conditions": None},
        }
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(definition))
    metadata = yaml.safe_dump({"name": "karpenter", "version": "1.14.1", "apiVersion": "v2"}).encode()
    with tarfile.open(tmp_path / "karpenter-1.14.1.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("karpenter/Chart.yaml")
        entry.size = len(metadata)
        archive.addfile(entry, BytesIO(metadata))
    return SkippedResources(Charts(tmp_path), Definitions(tmp_path, server))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [_RELEASE, _DEFINITIONS])
def test_the_definitions_of_an_absent_chart_are_applied(kind: str, skipped: SkippedResources, server: Server) -> None:
    reason = skipped("Keda", kind, KEDA)

    assert reason == "chart keda 2.21.0 is not in the folder; its definitions were applied: scaledobjects.keda.sh"
    assert server.applied == ["scaledobjects.keda.sh"]


def test_a_release_that_skips_definitions_applies_none(skipped: SkippedResources, server: Server) -> None:
    assert skipped("Keda", _RELEASE, {**KEDA, "SkipCrds": True}) == "chart keda 2.21.0 is not in the folder"
    assert server.applied == []


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        (_RELEASE, {"Chart": "karpenter", "Version": "1.14.1"}),
        (_RELEASE, {"ChartAssetURL": "s3://assets/chart.zip"}),
        (_OBJECTS, {"Manifest": json.dumps([{"apiVersion": "v1", "kind": "ConfigMap"}])}),
        ("AWS::EC2::VPC", {}),
    ],
)
def test_no_other_resource_is_skipped(kind: str, properties: dict[str, Any], skipped: SkippedResources) -> None:
    assert skipped("Any", kind, properties) == ""


def _pool(group: str) -> dict[str, Any]:
    spec = {"template": {"spec": {"nodeClassRef": {"group": group, "kind": "NodeClass", "name": "gpu"}}}}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "spec": spec}


@pytest.mark.parametrize(
    "manifest", [{"apiVersion": "eks.amazonaws.com/v1", "kind": "NodeClass"}, _pool("eks.amazonaws.com")]
)
def test_objects_that_only_auto_mode_has_are_skipped(manifest: dict[str, Any], skipped: SkippedResources) -> None:
    reason = skipped("Pool", _OBJECTS, {"Manifest": json.dumps([manifest])})

    assert reason == "the definitions of eks.amazonaws.com are only available in EKS"
    assert skipped("Pool", _OBJECTS, {"Manifest": json.dumps([_pool("karpenter.k8s.aws")])}) == ""


def _no_match(kind: str, version: str) -> str:
    mapping = 'resource mapping not found for name: "a" namespace: "b" from "/tmp/manifest.yaml"'
    return f'b\'error: {mapping}: no matches for kind "{kind}" in version "{version}"\\nensure CRDs are installed first'


@pytest.mark.parametrize(
    ("error", "excused"),
    [
        (_no_match("ScaledObject", "keda.sh/v1alpha1"), True),
        (_no_match("ScaledObject", "keda.sh/v1alpha1") * 2, True),
        (_no_match("EC2NodeClass", "karpenter.k8s.aws/v1"), False),
        (_no_match("ScaledObject", "keda.sh/v1alpha1") + _no_match("RayJob", "ray.io/v1"), False),
        (_no_match("ScaledObject", "keda.sh/v1alpha1") + "Error from server: quota", False),
        ("Error from server (Forbidden)", False),
    ],
)
def test_only_a_missing_definition_of_an_absent_chart_is_excused(
    error: str, excused: bool, skipped: SkippedResources
) -> None:
    assert skipped.excuse(error) == ""

    skipped("Keda", _RELEASE, {**KEDA, "SkipCrds": True})

    reason = "it needs the definition of ScaledObject of chart keda, which is not in the folder"
    assert skipped.excuse(error) == (reason if excused else "")


def test_the_definitions_of_every_pinned_chart_are_known() -> None:
    # Dynamo's definitions share a group with the GPU operator's, and no folder has them.
    pinned = {each.name for each in vars(versions).values() if isinstance(each, versions.Chart)} - {
        versions.DYNAMO.name
    }

    assert pinned - GROUPS.keys() == set()
