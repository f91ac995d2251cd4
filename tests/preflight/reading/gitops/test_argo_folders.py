"""Folders that Applications of Argo CD install, with the changes that they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.inputs import Input
from tests.preflight.reading.gitops.repository import CHART, application, deployment, given, only, told
from tests.preflight.reading.programs import with_programs

pytestmark = with_programs

PATCH = json.dumps([{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"pool": "gpu"}}])


def with_settings(folder: Path, **said: Any) -> Input:
    return given(
        folder,
        argo=[application({"path": "apps", "kustomize": said})],
        apps__kustomization=[{"resources": ["infer.yaml"]}],
        apps__infer=[deployment()],
    )


def test_patches_names_and_replicas(tmp_path: Path) -> None:
    patches = [{"target": {"kind": "Deployment"}, "patch": PATCH}]
    replicas = [{"name": "infer", "count": "4"}]

    found = only(with_settings(tmp_path, namePrefix="x-", namespace="ml", patches=patches, replicas=replicas))

    assert (found.namespace, found.name, found.spec["replicas"]) == ("ml", "x-infer", 4)
    assert found.spec["template"]["spec"]["nodeSelector"] == {"pool": "gpu"}


@pytest.mark.parametrize(
    ("said", "image"),
    [
        ("app:2", "app:2"),
        ("app=mirror:5000/app:3", "mirror:5000/app:3"),
        ("app=mirror/app", "mirror/app:1"),
        ("app@sha256:abc", "app@sha256:abc"),
    ],
)
def test_images(tmp_path: Path, said: str, image: str) -> None:
    found = only(with_settings(tmp_path, images=[said]))

    assert found.spec["template"]["spec"]["containers"][0]["image"] == image


def test_settings_that_are_not_read_are_reported(tmp_path: Path) -> None:
    found = with_settings(tmp_path, namePrefix="x-", kubeVersion="1.36", version="v5.5.0")

    assert only(found).name == "infer"
    assert told(found) == ["changes to apps by its namePrefix, kustomize.kubeVersion aren't read"]


def test_settings_of_a_plain_folder_are_refused(tmp_path: Path) -> None:
    source = {"path": "apps", "kustomize": {"namePrefix": "x-"}}

    found = given(tmp_path, argo=[application(source)], apps__infer=[deployment()])

    assert told(found) == ["changes to apps by its namePrefix aren't read, because the folder has no kustomization"]


def test_the_namespace_of_the_destination(tmp_path: Path) -> None:
    own = deployment()
    own["metadata"] = {"name": "own", "namespace": "own"}
    wide = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
    owner = application({"path": "apps"}, destination={"namespace": "ml"})

    found = given(tmp_path, argo=[owner], apps__infer=[deployment(), own, wide])

    assert {each.name: each.namespace for each in found.objects if each.kind == "Deployment"} == {
        "infer": "ml",
        "own": "own",
    }
    assert "namespace" not in only(found, "PriorityClass").content["metadata"]


def test_values_of_a_chart_in_the_repository(tmp_path: Path) -> None:
    helm = {
        "releaseName": "infer",
        "valueFiles": ["../../values/prod.yaml", "own.yaml"],
        "valuesObject": {"pool": "gpu"},
        "parameters": [{"name": "gpus", "value": "2"}],
    }
    files = {"values__prod": [{"more": "prod", "pool": "prod"}], "charts__app__own": [{"more": "own"}]}
    owner = application({"path": "charts/app", "helm": helm}, destination={"namespace": "ml"})

    found = given(tmp_path, argo=[owner], **CHART, **files)

    pod = only(found, "Pod")
    assert (pod.namespace, pod.name) == ("ml", "infer")
    assert pod.spec["nodeSelector"] == {"pool": "gpu", "more": "own", "gpus": "2"}
    assert told(found) == []


def test_missing_values_are_reported(tmp_path: Path) -> None:
    owner = application({"path": "charts/app", "helm": {"valueFiles": ["../../../secret.yaml"]}})

    found = given(tmp_path, argo=[owner], **CHART)

    assert only(found, "Pod").spec["nodeSelector"]["pool"] == "none"
    assert told(found) == ["changes to charts/app by its helm values, ../../../secret.yaml aren't read"]


def of_registry(folder: Path, helm: dict[str, Any], **files: Any) -> Input:
    sources = [
        {"repoURL": "https://example.com", "chart": "karpenter", "targetRevision": "1.15.1", "helm": helm},
        {"repoURL": "git", "ref": "config"},
    ]
    owner = {**application({}), "spec": {"sources": sources}}
    return given(folder, argo=[owner], **files)


def test_values_of_another_source(tmp_path: Path) -> None:
    helm = {"valueFiles": ["$config/values/karpenter.yaml"], "values": "settings: {batchIdleDuration: 1s}"}
    values = [{"settings": {"clusterName": "demo", "batchIdleDuration": "2s"}}]

    found = of_registry(tmp_path, helm, values__karpenter=values)

    assert found.charts[0].values == {"settings": {"clusterName": "demo", "batchIdleDuration": "1s"}}
    assert told(found) == []


@pytest.mark.parametrize(
    "name", ["$config/none.yaml", "$other/values/karpenter.yaml", "values.yaml", "$config/../a.yaml"]
)
def test_values_elsewhere_are_reported(tmp_path: Path, name: str) -> None:
    found = of_registry(tmp_path / "inside", {"valueFiles": [name]}, values__karpenter=[{"a": 1}])

    assert (found.charts[0].values, told(found)) == (
        {},
        [f"values of chart karpenter in {name} aren't read"],
    )


def test_values_that_may_be_missing(tmp_path: Path) -> None:
    found = of_registry(tmp_path, {"valueFiles": ["$config/none.yaml"], "ignoreMissingValueFiles": True})

    assert told(found) == []


def test_a_parameter_that_stays_a_text(tmp_path: Path) -> None:
    parameters = [{"name": "a", "value": "1", "forceString": True}, {"name": "b", "value": "1"}]

    assert of_registry(tmp_path, {"parameters": parameters}).charts[0].values == {"a": "1", "b": 1}
