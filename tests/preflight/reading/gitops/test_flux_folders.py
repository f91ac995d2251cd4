"""Folders that Kustomizations of Flux install, with the changes that they make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.unknown import Unknown, dig
from tests.preflight.reading.gitops.repository import CHART, config_map, deployment, given, kustomization, only, told
from tests.preflight.reading.programs import with_programs, without_programs

pytestmark = with_programs

OPERATIONS = [{"op": "replace", "path": "/spec/replicas", "value": 3}]
TARGET: dict[str, Any] = {"kind": "Deployment", "name": "infer"}
MERGING = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "infer"}, "spec": {"replicas": 3}}
PATCHES: list[dict[str, Any]] = [
    {"patches": [{"target": TARGET, "patch": json.dumps(OPERATIONS)}]},
    {"patches": [{"patch": json.dumps(MERGING)}]},
    {"patchesStrategicMerge": [MERGING]},
    {"patchesJson6902": [{"target": {**TARGET, "group": "apps", "version": "v1"}, "patch": OPERATIONS}]},
]


@pytest.mark.parametrize("patches", PATCHES)
@pytest.mark.parametrize("own", [True, False], ids=["kustomization", "plain"])
def test_patches(tmp_path: Path, patches: dict[str, Any], own: bool) -> None:
    files = {"apps__kustomization": [{"resources": ["infer.yaml"]}]} if own else {}

    found = given(tmp_path, clusters__prod=[kustomization(**patches)], apps__infer=[deployment()], **files)

    assert (only(found).spec["replicas"], told(found)) == (3, [])


def test_images_namespace_prefix_and_labels(tmp_path: Path) -> None:
    changes = {
        "images": [{"name": "app", "newName": "mirror/app", "newTag": "2"}],
        "targetNamespace": "ml",
        "namePrefix": "x-",
        "commonMetadata": {"labels": {"team": "a"}},
    }

    found = only(given(tmp_path, clusters__prod=[kustomization(**changes)], apps__infer=[deployment()]))

    assert (found.name, found.namespace, found.labels) == ("x-infer", "ml", {"team": "a"})
    assert found.spec["template"]["spec"]["containers"][0]["image"] == "mirror/app:2"
    assert found.spec["selector"] == {"matchLabels": {"a": "b"}}


def test_components(tmp_path: Path) -> None:
    component = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component", "nameSuffix": "-gpu"}

    found = given(
        tmp_path,
        clusters__prod=[kustomization(components=["../parts/gpu"])],
        apps__infer=[deployment()],
        parts__gpu__kustomization=[component],
    )

    assert (only(found).name, told(found)) == ("infer-gpu", [])


def test_a_base_that_nothing_else_renders(tmp_path: Path) -> None:
    found = given(
        tmp_path,
        clusters__prod=[kustomization(path="base", targetNamespace="ml")],
        base__kustomization=[{"resources": ["infer.yaml"]}],
        base__infer=[deployment()],
        other__kustomization=[{"resources": ["../base"], "namePrefix": "other-"}],
    )

    assert sorted((each.namespace, each.name) for each in found.objects if each.kind == "Deployment") == [
        ("default", "other-infer"),
        ("ml", "infer"),
    ]


def test_one_folder_of_two_kustomizations(tmp_path: Path) -> None:
    both = [kustomization(targetNamespace=each) for each in ("one", "two")]

    found = given(tmp_path, clusters__prod=both, apps__infer=[deployment()])

    assert [each.namespace for each in found.objects if each.kind == "Deployment"] == ["one", "two"]


def test_a_kustomization_that_another_one_brings(tmp_path: Path) -> None:
    outer = kustomization(path="clusters", postBuild={"substitute": {"SPACE": "ml"}})
    inner = kustomization(targetNamespace="${SPACE}")

    found = given(tmp_path, root=[outer], clusters__prod=[inner], apps__infer=[deployment()])

    assert (only(found).namespace, told(found)) == ("ml", [])


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("${POOL}", "train"),
        ("a-${POOL}-b", "a-train-b"),
        ("${NONE}", None),
        ("${NONE:=else}", "else"),
        ("${POOL:-else}", "train"),
        ("$${POOL}", Unknown("${POOL}")),
    ],
)
def test_substitutes(tmp_path: Path, written: str, read: Any) -> None:
    owner = kustomization(postBuild={"substitute": {"POOL": "train"}})

    found = only(given(tmp_path, clusters__prod=[owner], apps__infer=[deployment(nodeSelector={"pool": written})]))

    assert dig(found.spec, "template", "spec", "nodeSelector", "pool") == read


def test_a_substituted_number(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priority: '${COUNT}'}\n"

    found = given(tmp_path, prod=[kustomization(postBuild={"substitute": {"COUNT": "2"}})], apps__pod=text)

    assert only(found, "Pod").spec["priority"] == 2


def test_without_variables_nothing_is_substituted(tmp_path: Path) -> None:
    found = only(given(tmp_path, prod=[kustomization()], apps__infer=[deployment(nodeSelector={"a": "${A:=b}"})]))

    assert dig(found.spec, "template", "spec", "nodeSelector", "a") == Unknown("${A:=b}")


def test_an_object_that_is_left_alone(tmp_path: Path) -> None:
    left_alone = deployment(nodeSelector={"a": "${A}"})
    left_alone["metadata"]["annotations"] = {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}

    found = given(tmp_path, prod=[kustomization(postBuild={"substitute": {"A": "b"}})], apps__infer=[left_alone])

    assert dig(only(found).spec, "template", "spec", "nodeSelector", "a") == Unknown("${A}")


SOURCES = [{"kind": "ConfigMap", "name": "one"}, {"kind": "ConfigMap", "name": "two"}]


def test_substitutes_of_config_maps(tmp_path: Path) -> None:
    owner = kustomization(postBuild={"substituteFrom": SOURCES, "substitute": {"C": "own"}})
    maps = [config_map("one", A="1", B="1", C="1"), config_map("two", B="two", C="2")]
    asked = {"a": "x${A}", "b": "${B}", "c": "${C}"}

    found = given(tmp_path, clusters__prod=[owner, *maps], apps__infer=[deployment(nodeSelector=asked)])

    assert dig(only(found).spec, "template", "spec", "nodeSelector") == {"a": "x1", "b": "two", "c": "own"}
    assert told(found) == []


def test_a_missing_source_is_reported(tmp_path: Path) -> None:
    owner = kustomization(postBuild={"substituteFrom": SOURCES})
    asked = {"a": "${A}", "b": "${B}"}

    found = given(tmp_path, prod=[owner, config_map("one", A="a")], apps__infer=[deployment(nodeSelector=asked)])

    assert dig(only(found).spec, "template", "spec", "nodeSelector") == {"a": "a", "b": Unknown("${B}")}
    assert told(found) == ["variables of ConfigMap two aren't read"]


def test_values_of_a_secret_are_not_known(tmp_path: Path) -> None:
    owner = kustomization(postBuild={"substituteFrom": [*SOURCES[:1], {"kind": "Secret", "name": "one"}]})
    secret = {**config_map("one"), "kind": "Secret", "data": {}, "stringData": {"A": "ENC[x]"}}
    asked = {"a": "${A}", "b": "${B}", "c": "${C:=c}"}
    settings = config_map("one", A="a", B="b")

    found = given(tmp_path, prod=[owner, settings, secret], apps__infer=[deployment(nodeSelector=asked)])

    selector = dig(only(found).spec, "template", "spec", "nodeSelector")
    assert selector == {"a": Unknown("${A}"), "b": "b", "c": "c"}


def test_an_error_of_kustomize_is_reported(tmp_path: Path) -> None:
    owner = kustomization(patches=[{"patch": json.dumps({**MERGING, "metadata": {"name": "other"}})}])

    found = given(tmp_path, clusters__prod=[owner], apps__infer=[deployment()])

    assert only(found).spec["replicas"] == 1
    assert told(found)[0].startswith("changes to ./apps by its patches aren't read, because kubectl failed")


def test_a_missing_program_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_programs(monkeypatch)
    monkeypatch.setattr("shutil.which", lambda name: None)

    found = given(tmp_path, clusters__prod=[kustomization(targetNamespace="ml")], apps__infer=[deployment()])

    assert only(found).namespace == "default"
    assert told(found) == [
        "changes to ./apps by its namespace aren't read, because neither kubectl nor kustomize is on PATH"
    ]


def test_a_base_that_would_be_fetched_is_not(tmp_path: Path) -> None:
    found = given(
        tmp_path,
        clusters__prod=[kustomization(targetNamespace="ml")],
        apps__kustomization=[{"resources": ["https://example.com/base?ref=v1"]}],
    )

    assert any("which isn't fetched" in each for each in told(found))


@pytest.mark.parametrize("path", ["apps/far", "../outside"])
def test_a_folder_elsewhere_is_reported(tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "pod.yaml").write_text("{}")

    found = given(tmp_path / "inside", clusters__prod=[kustomization(path=path)])

    assert told(found) == [f"path {path} isn't in the input"]


def test_a_component_outside_of_the_input_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kustomization.yaml").write_text("kind: Component\nnameSuffix: -x\n")

    found = given(
        tmp_path / "inside",
        clusters__prod=[kustomization(components=["../../outside"])],
        apps__infer=[deployment()],
    )

    assert only(found).name == "infer"
    assert told(found) == ["changes to ./apps by its components aren't read, because a component isn't in the input"]


def helm_release(**spec: Any) -> dict[str, Any]:
    chart = {"spec": {"chart": "./charts/app", "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}}
    metadata = {"name": "infer", "namespace": "flux-system"}
    said = {"chart": chart, "targetNamespace": "ml", **spec}
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": metadata, "spec": said}


def test_values_of_a_chart_in_the_repository(tmp_path: Path) -> None:
    references = [{"kind": "ConfigMap", "name": "more"}]
    owner = helm_release(values={"pool": "gpu"}, valuesFrom=references)

    found = given(tmp_path, prod=[owner, config_map("more", **{"values.yaml": "{more: mapped, pool: none}"})], **CHART)

    pod = only(found, "Pod")
    assert (pod.namespace, pod.name) == ("ml", "ml-infer")
    assert pod.spec["nodeSelector"] == {"pool": "gpu", "more": "mapped", "gpus": "1"}
    assert (found.charts, told(found)) == ((), [])


def test_values_of_such_a_chart_that_are_not_there(tmp_path: Path) -> None:
    found = given(tmp_path, prod=[helm_release(valuesFrom=[{"kind": "Secret", "name": "more"}])], **CHART)

    assert told(found) == ["changes to ./charts/app by its helm values, Secret more aren't read"]


def test_files_that_flux_may_leave_out_are_reported(tmp_path: Path) -> None:
    source = {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": {"name": "repo", "namespace": "flux-system"},
        "spec": {"url": "https://example.com/repo", "ignore": "/apps/old.yaml"},
    }
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / ".sourceignore").write_text("old.yaml\n")
    reference = {"kind": "GitRepository", "name": "repo"}

    found = given(tmp_path, clusters__prod=[kustomization(sourceRef=reference), source], apps__infer=[deployment()])

    assert sorted(told(found)) == [
        ".sourceignore of apps may exclude files of ./apps",
        "spec.ignore of GitRepository flux-system/repo may exclude files of ./apps",
    ]
