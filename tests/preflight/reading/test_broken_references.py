"""References of kustomizations and GitOps objects that lead nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_preflight.reading.inputs import read_input

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm, namespace: serving}
spec:
  selector: {matchLabels: {app: llm}}
  template:
    metadata: {labels: {app: llm}}
    spec: {containers: [{name: main, image: "vllm/vllm-openai:v0.11.2"}]}
"""
APPLICATION = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llm, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: serving}
  source: {repoURL: https://github.com/example/repository, targetRevision: main, path: PATH, helm: {valueFiles: [FILE]}}
"""
CHART = "apiVersion: v2\nname: llm\nversion: 1.0.0\n"


def broken(folder: Path, files: dict[str, str], read: str = "") -> list[tuple[str, bool]]:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return [(each.text, each.unsure) for each in read_input([str(folder / read)]).broken]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("resources: [deployment.yaml, pvc.yaml]", "resources of kustomization.yaml names pvc.yaml"),
        (
            "resources: [deployment.yaml]\npatches: [{path: gpus.yaml}]",
            "patches of kustomization.yaml names gpus.yaml",
        ),
        (
            "resources: [deployment.yaml]\nconfigMapGenerator: [{name: a, files: [b.json]}]",
            "configMapGenerator of kustomization.yaml names b.json",
        ),
    ],
)
def test_finds_a_file_of_a_kustomization_that_does_not_exist(tmp_path: Path, line: str, text: str) -> None:
    found = broken(tmp_path, {"kustomization.yaml": line, "deployment.yaml": DEPLOYMENT})

    assert found == [(f"{text}, which doesn't exist", False)]


def test_a_file_outside_of_the_input_may_exist(tmp_path: Path) -> None:
    files = {"over/kustomization.yaml": "resources: [../base, deployment.yaml]", "over/deployment.yaml": DEPLOYMENT}

    assert broken(tmp_path, files, "over") == [
        ("resources of kustomization.yaml names ../base, which doesn't exist", True)
    ]


@pytest.mark.parametrize("name", ["https://github.com/a/b?ref=v1", "github.com/a/b//deploy?ref=v1", "deployment.yaml"])
def test_finds_nothing_in_repositories_and_files_that_exist(tmp_path: Path, name: str) -> None:
    line = f"resources: [deployment.yaml, '{name}']" if name != "deployment.yaml" else f"resources: [{name}]"

    assert broken(tmp_path, {"kustomization.yaml": line, "deployment.yaml": DEPLOYMENT}) == []


@pytest.mark.parametrize(("name", "found"), [("vllm", 1), ("llm", 0), ("l.*", 0)])
def test_finds_a_patch_whose_target_selects_nothing(tmp_path: Path, name: str, found: int) -> None:
    patch = f"""
resources: [deployment.yaml]
patches:
- target: {{kind: Deployment, name: {name}}}
  patch: '[{{"op": "add", "path": "/spec/replicas", "value": 2}}]'
"""
    files = {"kustomization.yaml": patch, "deployment.yaml": DEPLOYMENT}

    assert len(broken(tmp_path, files)) == found


@pytest.mark.parametrize(
    ("path", "file", "text"),
    [
        ("apps/llm", "values.yaml", ""),
        ("apps/llm", "prod.yaml", "Application argocd/llm: chart apps/llm has no values file prod.yaml"),
        ("apps/llms", "values.yaml", "Application argocd/llm: path apps/llms doesn't exist; did you mean 'llm'?"),
        ("other/repository", "values.yaml", ""),
    ],
)
def test_finds_paths_of_an_application_that_do_not_exist(tmp_path: Path, path: str, file: str, text: str) -> None:
    files = {
        "app.yaml": APPLICATION.replace("PATH", path).replace("FILE", file),
        "apps/llm/Chart.yaml": CHART,
        "apps/llm/values.yaml": "{}",
    }

    assert [each for each, _ in broken(tmp_path, files)] == ([text] if text else [])


PROJECTS = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: models, namespace: argocd}
spec: {sourceRepos: ["*"]}
"""
OF_A_REGISTRY = """
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: llm, namespace: argocd}
spec:
  project: PROJECT
  destination: {server: https://kubernetes.default.svc, namespace: serving}
  sources:
  - {repoURL: https://charts.example, chart: llm, targetRevision: 1.0.0, helm: {valueFiles: [$values/FILE]}}
  - {repoURL: https://github.com/example/repository, targetRevision: main, ref: values}
"""


@pytest.mark.parametrize(
    ("project", "file", "found"),
    [
        ("models", "values/prod.yaml", []),
        ("default", "values/prod.yaml", []),
        ("models", "other/prod.yaml", []),
        ("model", "values/prod.yaml", ["project model isn't in the input; did you mean 'models'?"]),
        ("models", "values/test.yaml", ["values file values/test.yaml doesn't exist"]),
    ],
)
def test_finds_projects_and_value_files_of_a_reference(
    tmp_path: Path, project: str, file: str, found: list[str]
) -> None:
    files = {
        "app.yaml": OF_A_REGISTRY.replace("PROJECT", project).replace("FILE", file),
        "project.yaml": PROJECTS,
        "values/prod.yaml": "replicas: 1",
    }

    assert broken(tmp_path, files) == [(f"Application argocd/llm: {each}", True) for each in found]
