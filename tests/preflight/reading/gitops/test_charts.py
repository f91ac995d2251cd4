"""Charts that Argo CD and Flux install."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.gitops.delivered import delivered
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.reading.objects import Chart


def given(folder: Path, *texts: str) -> Input:
    (folder / "a.yaml").write_text("---\n".join(texts))
    return read_input([str(folder)])


def only(found: Input) -> Chart:
    [chart] = found.charts
    return chart


ARGO = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: plugin, namespace: argocd}
spec:
  destination: {namespace: nvidia}
  source:
    repoURL: https://nvidia.github.io/k8s-device-plugin
    chart: nvidia-device-plugin
    targetRevision: 0.17.4
    helm:
      values: |
        gfd: {enabled: true}
        affinity: {a: 1}
      parameters:
      - {name: config.default, value: shared}
      - {name: 'nodeSelector.example\\.com/pool', value: "true"}
      - {name: "tolerations[0].operator", value: Exists}
"""


def test_an_application_of_argo_cd(tmp_path: Path) -> None:
    chart = only(given(tmp_path, ARGO))

    assert (chart.name, chart.version, chart.namespace) == ("nvidia-device-plugin", "0.17.4", "nvidia")
    assert chart.values["gfd"] == {"enabled": True}
    assert chart.values["affinity"] == {"a": 1}
    assert chart.values["config"] == {"default": "shared"}
    assert chart.values["nodeSelector"] == {"example.com/pool": True}
    assert chart.values["tolerations"] == [{"operator": "Exists"}]
    assert chart.origin.path == "Application argocd/plugin"


def test_values_next_to_an_object_of_values_are_not_read(tmp_path: Path) -> None:
    written = ARGO.replace("      parameters:", "      valuesObject: {affinity: {b: 2}}\n      parameters:")

    chart = only(given(tmp_path, written))

    assert chart.values["affinity"] == {"b": 2}
    assert "gfd" not in chart.values


@pytest.mark.parametrize("version", ["0.17.*", ">=0.17.0", "HEAD", "~0.17.4"])
def test_of_a_range_no_version_is_known(tmp_path: Path, version: str) -> None:
    assert only(given(tmp_path, ARGO.replace("0.17.4", f'"{version}"'))).version is None


def test_several_sources_of_an_application(tmp_path: Path) -> None:
    sources = ARGO.replace("  source:\n    repo", "  sources:\n  - repo")

    found = given(tmp_path, f"{sources}  - {{repoURL: https://example.com/git, path: apps/gpu}}\n")

    assert [each.name for each in found.charts] == ["nvidia-device-plugin"]
    assert "path apps/gpu of https://example.com/git" in found.problems[0].reason


def test_a_path_among_the_files_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "apps" / "gpu").mkdir(parents=True)
    (tmp_path / "apps" / "gpu" / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    source = "{source: {repoURL: https://example.com/git, path: ./apps/gpu}}"
    application = f"apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec: {source}\n"

    assert given(tmp_path, application).problems == ()


def test_kustomize_settings_of_an_application_are_reported(tmp_path: Path) -> None:
    source = "{source: {path: ., kustomize: {patches: [{patch: x}]}}}"
    application = f"apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec: {source}\n"

    assert [each.reason for each in given(tmp_path, application).problems] == [
        "changes to . by its patches aren't read"
    ]


def test_values_in_files_elsewhere_are_reported(tmp_path: Path) -> None:
    found = given(tmp_path, ARGO.replace("    helm:\n", "    helm:\n      valueFiles: [$values/plugin.yaml]\n"))

    assert "values of chart nvidia-device-plugin" in found.problems[0].reason


def test_an_application_set(tmp_path: Path) -> None:
    spec = "{generators: [], template: {spec: {source: {chart: karpenter, targetRevision: 1.14.1}}}}"
    text = f"apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: a}}\nspec: {spec}\n"

    assert (only(given(tmp_path, text)).name, only(given(tmp_path, text)).version) == ("karpenter", "1.14.1")


FLUX = """
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: karpenter, namespace: flux-system}
spec:
  targetNamespace: kube-system
  chart: {spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}}
  valuesFrom: [{kind: ConfigMap, name: settings}, {kind: ConfigMap, name: one, valuesKey: queue, targetPath: a.queue}]
  values: {settings: {clusterName: demo}}
"""
SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
data:
  values.yaml: "settings: {clusterName: other, interruptionQueue: queue}"
"""
ONE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: flux-system}
data: {queue: mine}
"""


def test_a_release_of_flux(tmp_path: Path) -> None:
    found = given(tmp_path, FLUX, SETTINGS, ONE)

    chart = only(found)
    assert (chart.name, chart.version, chart.namespace) == ("karpenter", "1.14.1", "kube-system")
    assert chart.values == {"settings": {"clusterName": "demo", "interruptionQueue": "queue"}, "a": {"queue": "mine"}}
    assert found.problems == ()


def test_missing_values_of_a_release_are_reported(tmp_path: Path) -> None:
    found = given(tmp_path, FLUX, SETTINGS)

    assert [each.reason for each in found.problems] == ["values of chart karpenter in ConfigMap one aren't read"]


def test_values_of_a_secret_are_not_read(tmp_path: Path) -> None:
    found = given(tmp_path, FLUX.replace("ConfigMap, name: one", "Secret, name: one"), SETTINGS, ONE)

    assert [each.reason for each in found.problems] == ["values of chart karpenter in Secret one aren't read"]


REGISTRY = """
apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: karpenter, namespace: flux-system}
spec: {url: "oci://public.ecr.aws/karpenter/karpenter", ref: {tag: 1.15.1}}
"""
CHART_REFERENCE = FLUX.replace(
    "chart: {spec: {chart: karpenter, version: 1.14.1, sourceRef: {kind: HelmRepository, name: karpenter}}}",
    "chartRef: {kind: OCIRepository, name: karpenter}",
)


def test_a_release_of_a_registry(tmp_path: Path) -> None:
    chart = only(given(tmp_path, CHART_REFERENCE, REGISTRY, SETTINGS, ONE))

    assert (chart.name, chart.version) == ("karpenter", "1.15.1")


def test_a_release_whose_source_is_elsewhere_is_reported(tmp_path: Path) -> None:
    found = given(tmp_path, CHART_REFERENCE, SETTINGS, ONE)

    assert (found.charts, [each.reason for each in found.problems]) == (
        (),
        ["its chart isn't in the input and isn't read"],
    )


def test_patches_of_a_kustomization_are_reported(tmp_path: Path) -> None:
    spec: Any = "{path: ./apps, patches: [{patch: x}]}"
    text = f"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: a}}\nspec: {spec}\n"

    assert [each.reason for each in given(tmp_path, text).problems] == ["changes to ./apps by its patches aren't read"]


def test_other_objects_install_nothing(tmp_path: Path) -> None:
    found = given(tmp_path, SETTINGS, ONE)

    brought = delivered(found.objects)
    assert (brought.charts, brought.problems) == ([], [])
