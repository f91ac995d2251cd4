"""Applications that an ApplicationSet of Argo CD makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.reading.gitops.repository import deployment, given, told

ELEMENTS = [{"name": "a", "version": "0.17.4"}, {"name": "b", "version": "0.20.0"}]


def of_generators(folder: Path, *generators: Any, destination: Any = None, **files: Any) -> Input:
    source = {"chart": "nvidia-device-plugin", "targetRevision": "{{version}}"}
    helm = {"valuesObject": {"nodeSelector": {"pool": "{{ .name }}"}}}
    spec = {"source": {**source, "helm": helm}, "destination": destination or {"namespace": "{{name}}"}}
    template = {"metadata": {"name": "plugin-{{name}}"}, "spec": spec}
    said = {"generators": list(generators), "template": template}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "all"}, "spec": said}
    return given(folder, argo=[owner], **files)


def listed(*elements: Any, **said: Any) -> dict[str, Any]:
    return {"list": {"elements": list(elements), **said}}


def test_each_element_of_a_list_is_an_application(tmp_path: Path) -> None:
    found = of_generators(tmp_path, listed(*ELEMENTS))

    assert [(each.version, each.namespace) for each in found.charts] == [("0.17.4", "a"), ("0.20.0", "b")]
    assert [each.values for each in found.charts] == [{"nodeSelector": {"pool": each}} for each in "ab"]
    assert told(found) == []


def test_the_template_of_a_generator(tmp_path: Path) -> None:
    own = {"spec": {"destination": {"namespace": "own"}}}

    assert [each.namespace for each in of_generators(tmp_path, listed(ELEMENTS[0], template=own)).charts] == ["own"]


@pytest.mark.parametrize(
    ("generator", "why"),
    [
        ({"git": {"directories": [{"path": "apps/*"}]}}, "the applications of its git generator aren't read"),
        ({"clusters": {}}, "the applications of its clusters generator aren't read"),
        (
            {**listed(ELEMENTS[0]), "selector": {"matchLabels": {"a": "b"}}},
            "the applications of its selector aren't read",
        ),
        (listed(elementsYaml="{{ .a }}"), "the applications of its elementsYaml aren't read"),
    ],
)
def test_of_other_generators_only_the_template_is_read(tmp_path: Path, generator: dict[str, Any], why: str) -> None:
    found = of_generators(tmp_path, generator)

    [chart] = found.charts
    assert (chart.name, chart.version) == ("nvidia-device-plugin", None)
    assert chart.values == {"nodeSelector": {"pool": Unknown("{{ .name }}")}}
    assert told(found) == [why]


def test_of_several_clusters_only_what_they_share_is_known(tmp_path: Path) -> None:
    elements = [{"name": each, "version": "0.20.0"} for each in ("staging", "production")]

    found = of_generators(tmp_path, listed(*elements), destination={"name": "{{name}}", "namespace": "gpu"})

    [chart] = found.charts
    assert (chart.version, chart.values) == ("0.20.0", {"nodeSelector": {"pool": Unknown("{{ .name }}")}})
    assert told(found) == ["it deploys to several clusters, and it is unknown which one this is"]


def test_folders_of_elements(tmp_path: Path) -> None:
    spec = {"source": {"repoURL": "git", "path": "apps/{{name}}"}, "destination": {"namespace": "{{name}}"}}
    said = {"generators": [listed(*ELEMENTS)], "template": {"metadata": {"name": "{{name}}"}, "spec": spec}}
    owner = {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "all"}, "spec": said}

    found = given(tmp_path, argo=[owner], apps__a__infer=[deployment()], apps__b__infer=[deployment()])

    assert [each.namespace for each in found.objects if each.kind == "Deployment"] == ["a", "b"]
    assert told(found) == []
