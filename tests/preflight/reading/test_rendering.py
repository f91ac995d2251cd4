"""Kustomize folders and charts are rendered where the programs are there, and said not to be where they are not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.reading.rendering import folders, programs
from gpu_preflight.reading.rendering.folders import render
from gpu_preflight.report.view import check_view
from tests.preflight.reading.programs import needs, without_programs

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "infer"},
    "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
}
PATCH = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "infer"}, "spec": {"replicas": 5}}


def written(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return folder


@pytest.fixture
def overlay(tmp_path: Path) -> Path:
    files = {
        "base/kustomization.yaml": {"resources": ["infer.yaml"]},
        "base/infer.yaml": DEPLOYMENT,
        "prod/kustomization.yaml": {"resources": ["../base"], "namespace": "ml", "patches": [{"path": "more.yaml"}]},
        "prod/more.yaml": PATCH,
    }
    return written(tmp_path, files)


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}\nspec: {}\n"
    files = {
        "Chart.yaml": {"apiVersion": "v2", "name": "train", "version": "0.1.0"},
        "values.yaml": {"on": True},
        "templates/pod.yaml": "{{- if .Values.on }}\n" + pod + "{{- end }}\n",
    }
    return written(tmp_path, files)


def pods(found: Input) -> list[tuple[str, int | None]]:
    return [(each.name, each.replicas) for each in clusters(found)[0].workloads]


@pytest.mark.parametrize("named", ["", "prod", "prod/kustomization.yaml"])
def test_an_overlay_is_rendered_with_its_patches(overlay: Path, named: str) -> None:
    needs("kubectl")

    found = read_input([str(overlay / named)])

    assert (pods(found), found.problems) == ([("Deployment ml/infer", 5)], ())


def test_without_kubectl_the_base_is_checked_and_that_is_reported(
    overlay: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_programs(monkeypatch)

    found = read_input([str(overlay)])

    assert pods(found) == [("Deployment default/infer", 1)]
    why = found.problems[0].reason
    assert why == (
        "it isn't rendered, because neither kubectl nor kustomize is on PATH; "
        "its base is checked without its patches, as far as it is in the input"
    )


def test_nothing_is_fetched(overlay: Path) -> None:
    written(overlay, {"prod/kustomization.yaml": {"resources": ["../base", "https://example.com/x?ref=main"]}})

    found = read_input([str(overlay)])

    why = found.problems[0].reason
    assert "it includes https://example.com/x?ref=main, which isn't fetched" in why


@pytest.fixture
def address() -> Iterator[tuple[str, list[str]]]:
    """An address of this machine, and the requests to it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"HTTP://127.0.0.1:{server.server_port}/x", asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "fields",
    [
        {"patches": [{"path": "ADDRESS"}]},
        {"Patches": [{"path": "ADDRESS"}]},
        {"patchesStrategicMerge": ["ADDRESS"]},
        {"patchesJson6902": [{"path": "ADDRESS", "target": {"version": "v1", "kind": "Pod", "name": "a"}}]},
        {"configMapGenerator": [{"name": "a", "files": ["x=ADDRESS"]}]},
        {"secretGenerator": [{"name": "a", "envs": ["ADDRESS"]}]},
        {"openapi": {"path": "ADDRESS"}},
        {"crds": ["ADDRESS"]},
        {"configurations": ["ADDRESS"]},
        {"replacements": [{"path": "ADDRESS"}]},
        {"transformers": ["ADDRESS"]},
        {"generators": ["more.yaml"]},
        {"generators": ["kind: ConfigMapGenerator\nmetadata: {name: a}\nfiles: [ADDRESS]\n"]},
        {"Resources": ["../other"]},
        {"components": ["ADDRESS"]},
    ],
)
def test_no_field_of_a_kustomization_fetches(
    overlay: Path, fields: dict[str, Any], address: tuple[str, list[str]]
) -> None:
    needs("kubectl")
    place, asked = address
    generator = {"apiVersion": "builtin", "kind": "ConfigMapGenerator", "metadata": {"name": "a"}, "files": [place]}
    said = json.loads(json.dumps(fields).replace("ADDRESS", place))
    files = {
        "prod/kustomization.yaml": {"resources": ["../base"], **said},
        "prod/more.yaml": generator,
        "other/kustomization.yaml": {"configMapGenerator": [{"name": "a", "files": [place]}]},
    }

    made = render(written(overlay, files))

    assert asked == []
    assert any(f"it includes {place}, which isn't fetched" in each.reason for each in made.problems)


@pytest.mark.parametrize(
    "name",
    ["org-12@github.com:foo/bar", "user@127.0.0.1:foo/bar", "GitHub.com/foo/bar", "missing.yaml", "a\0b", "a" * 999],
)
def test_what_is_not_there_is_not_fetched(overlay: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("kubectl")
    monkeypatch.setattr(programs.Rendering, "run", lambda self, command: pytest.fail("run"))
    written(overlay, {"prod/kustomization.yaml": {"resources": ["../base", name]}})

    why = render(overlay).problems[0].reason

    assert f"it includes {name[:300]}, which doesn't exist" in why


def test_programs_find_no_others(tmp_path: Path) -> None:
    written(tmp_path, {"asks": "#!/bin/sh\ncommand -v git ssh bash; echo $HTTPS_PROXY"}).joinpath("asks").chmod(0o755)

    assert programs.run([str(tmp_path / "asks")]) == ("http://127.0.0.1:9\n", "")


def test_a_kustomization_of_too_many_folders_is_not_rendered(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FOLDERS", 1)
    made = programs.Rendering()

    assert folders.kustomize_build(overlay / "prod", made) == (
        None,
        f"a base can't be read: {overlay}/prod/kustomization.yaml: must include at most 1 folders, got more",
    )


def test_addresses_that_objects_get_are_no_files(overlay: Path) -> None:
    needs("kubectl")
    fields = {
        "commonAnnotations": {"docs": "https://example.com"},
        "configMapGenerator": [{"name": "a", "literals": ["url=https://example.com"]}],
    }
    written(overlay, {"prod/kustomization.yaml": {"resources": ["../base"], **fields}})

    made = render(overlay)

    assert (list(made.texts), made.problems) == ([str(overlay / "prod")], [])


def test_an_error_of_kubectl_is_reported(overlay: Path) -> None:
    needs("kubectl")
    written(overlay, {"prod/kustomization.yaml": {"resources": ["../base"], "patches": [{"path": "no"}]}})

    why = read_input([str(overlay)]).problems[0].reason

    assert "because kubectl failed: " in why
    assert not re.search(r"\d\d:\d\d:\d\d", why)


def test_each_overlay_is_rendered_and_no_base_twice(overlay: Path) -> None:
    needs("kubectl")
    written(overlay, {"test/kustomization.yaml": {"resources": ["../base"], "namespace": "test"}})

    assert pods(read_input([str(overlay)])) == [("Deployment ml/infer", 5), ("Deployment test/infer", 1)]


def test_a_chart_is_rendered(chart: Path) -> None:
    needs("helm")

    found = read_input([str(chart)])

    assert (pods(found), found.problems) == ([("Pod default/train", 1)], ())


_TYPO = """\
{{- if true }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replica: 2
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: "b:1"}]}}
{{- end }}
"""
_APPLICATION = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "llm", "namespace": "argocd"},
    "spec": {
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "ml"},
        "source": {"repoURL": "https://example.com/r.git", "path": "charts/llm", "helm": {"valuesObject": {"a": 1}}},
    },
}


def typos(path: str) -> list[str]:
    """Where the findings are about a field that its kind doesn't have."""
    findings = check_view(check(read_input([path]))).findings
    return sorted(str(each.origin) for each in findings if each.id == "GPU302")


@pytest.mark.parametrize("application", [{}, {"apps/app.yaml": _APPLICATION}], ids=["by itself", "of an Application"])
def test_findings_in_a_rendered_chart_name_its_template(
    application: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("helm")
    monkeypatch.chdir(tmp_path)
    files = {
        "charts/llm/Chart.yaml": {"apiVersion": "v2", "name": "vllm", "version": "0.1.0"},
        "charts/llm/templates/infer.yaml": _TYPO,
        "charts/llm/charts/db/Chart.yaml": {"apiVersion": "v2", "name": "db", "version": "0.1.0"},
        "charts/llm/charts/db/templates/db.yaml": _TYPO.replace("{{ .Release.Name }}", "db"),
    }
    written(tmp_path / "repo", {**files, **application})
    space, name = ("ml/", "llm") if application else ("", "vllm")

    assert typos("repo") == [
        f"Deployment {space}db in repo/charts/llm/charts/db/templates/db.yaml",
        f"Deployment {space}{name} in repo/charts/llm/templates/infer.yaml",
    ]


def test_findings_in_what_helm_printed_name_line_and_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plain = "\n".join(_TYPO.split("\n")[1:-2])
    named = [plain.replace("{{ .Release.Name }}", each) for each in "abcd"]
    comments = [
        "# Source: vllm/templates/a.yaml\n# Source: https://example.com/docs\n\n",
        "# Source: vllm/charts/db/templates/b c.yaml\n",
        "# Source: https://example.com/templates/a.yaml\n",
        "# Source: vllm/templates/../../../etc/d.yaml\n",
    ]
    text = "".join(f"---\n{comment}{each}\n" for comment, each in zip(comments, named, strict=True))
    Path("out.yaml").write_text(text)

    assert typos("out.yaml") == [
        "Deployment a in out.yaml:10:3 (rendered from vllm/templates/a.yaml)",
        "Deployment b in out.yaml:20:3 (rendered from vllm/charts/db/templates/b c.yaml)",
        "Deployment c in out.yaml:30:3",
        "Deployment d in out.yaml:40:3",
    ]


@pytest.mark.parametrize("name", ["--output-dir=made", "--post-renderer=touch", "-h", "a b", "train\n"])
def test_no_name_of_a_chart_is_a_flag_of_helm(chart: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("helm")
    monkeypatch.chdir(chart)
    written(chart, {"Chart.yaml": {"apiVersion": "v2", "name": name, "version": "0.1.0"}})
    before = sorted(chart.rglob("*"))

    made = render(chart)

    why = made.problems[0].reason
    assert f"because helm doesn't accept the release name {name!r}" in why
    assert (made.texts, sorted(chart.rglob("*"))) == ({}, before)


@pytest.mark.parametrize(("program", "kind"), [("helm", "Chart.yaml"), ("kubectl", "kustomization.yaml")])
def test_no_folder_is_a_flag(tmp_path: Path, program: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(program)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}}
    contents = {"Chart.yaml": {"apiVersion": "v2", "name": "train", "version": "0.1.0"}}
    written(tmp_path, {f"--help/{kind}": contents.get(kind, {"resources": ["templates/pod.yaml"]})})
    written(tmp_path, {"--help/templates/pod.yaml": pod})
    monkeypatch.chdir(tmp_path)

    made = render(Path("--help"))

    [text] = made.texts.values()
    assert "name: train" in text


def test_without_helm_the_chart_is_reported_as_not_checked(chart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_programs(monkeypatch)
    written(chart, {"../pod.yaml": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}})

    made = render(chart)

    why = made.problems[0].reason
    assert why == "its chart isn't rendered, because helm isn't on PATH; run helm template, and check its output"


def test_an_error_of_helm_is_reported(chart: Path) -> None:
    needs("helm")
    written(chart, {"templates/pod.yaml": '{{ fail "no" }}'})

    why = render(chart).problems[0].reason

    assert "because helm failed: " in why


def test_rendering_ends_in_time(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("kubectl")
    monkeypatch.setattr(programs, "run", lambda command, seconds: pytest.fail("too late"))
    made = programs.Rendering(until=0)

    folders.render_kustomizations(overlay, made)

    why = made.problems[0].reason
    assert "because rendering took more than 60 seconds; name one folder of it" in why


def test_not_more_is_rendered_than_is_read(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("kubectl")
    monkeypatch.setattr(programs, "MAX_FILE_BYTES", 10)

    why = render(overlay).problems[0].reason

    assert "because everything together renders to more than 16 MiB; name one folder of it" in why


def test_a_library_is_no_chart_of_its_own(chart: Path) -> None:
    written(chart, {"Chart.yaml": {"apiVersion": "v2", "name": "lib", "version": "0.1.0", "type": "library"}})

    assert (render(chart).texts, render(chart).problems) == ({}, [])


def test_a_chart_inside_a_chart_is_a_part_of_it(chart: Path) -> None:
    written(chart, {"charts/inner/Chart.yaml": {"apiVersion": "v2", "name": "inner", "version": "0.1.0"}})

    assert len(render(chart).texts) + len(render(chart).problems) == 1


def test_programs_are_found_in_a_kubectl_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    if (helm := programs.program("helm")) is None:
        pytest.skip("no kubectl layer is installed")

    assert programs.run([helm, "version"])[1] == ""
