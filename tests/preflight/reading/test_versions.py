"""The same object read twice counts once, and different versions of it are alternatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input


def pods(replicas: int, name: str = "llm", **spec: Any) -> dict[str, Any]:
    """A Deployment with one GPU a pod."""
    limits = {"limits": {"nvidia.com/gpu": 1}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "a", "resources": limits}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def pool(limit: int) -> dict[str, Any]:
    """A NodePool of L4."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    spec = {"requirements": [requirement], "nodeClassRef": reference}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"limits": {"nvidia.com/gpu": limit}, "template": {"spec": spec}},
    }


def write(folder: Path, **files: Any) -> None:
    """Write files whose names have ``__`` for a slash."""
    for name, content in files.items():
        file = folder / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump_all(content if isinstance(content, list) else [content]))


def demands(folder: Path) -> dict[str, list[int | None]]:
    """Replicas of every workload, by cluster."""
    found = clusters(read_input([str(folder)]))
    return {each.title: [one.replicas for one in each.workloads] for each in found}


def test_the_same_object_of_two_files_counts_once(tmp_path: Path) -> None:
    write(tmp_path, a__llm=pods(3), b__llm=pods(3))

    assert demands(tmp_path) == {"(cluster)": [3]}


def test_versions_of_overlays_are_alternatives(tmp_path: Path) -> None:
    write(tmp_path, overlays__dev__all=[pods(1), pool(1)], overlays__prod__all=[pods(8), pool(8)], chat=pods(2, "chat"))

    assert demands(tmp_path) == {"(cluster) with dev": [2, 1], "(cluster) with prod": [2, 8]}


def test_alternatives_of_two_places_go_together_by_name(tmp_path: Path) -> None:
    write(tmp_path, app__dev=pods(1), app__prod=pods(8), infra__dev=pool(1), infra__prod=pool(8))

    report = check(read_input([str(tmp_path)]))

    limits = {case.cluster.title: case.cluster.pools[0].limits["nvidia.com/gpu"] for case in report.cases}
    assert limits == {"(cluster) with dev.yaml": 1, "(cluster) with prod.yaml": 8}


def test_what_goes_with_an_alternative_may_be_unknown(tmp_path: Path) -> None:
    write(tmp_path, app__dev=pods(1), app__prod=pods(8), infra__small=pool(1), infra__large=pool(8))

    report = check(read_input([str(tmp_path)]))

    [dev] = [report.explanation(each) for each in report.cases if each.cluster.alternative == "dev.yaml"]
    assert [each.answer for each in dev.verdicts] == [Answer.UNKNOWN]


@pytest.mark.parametrize("named", [["new/llm.yaml", "infra"], ["infra/llm.yaml", "new/llm.yaml", "infra"]])
def test_a_file_that_is_named_next_to_a_folder_keeps_its_pools(named: list[str], tmp_path: Path) -> None:
    write(tmp_path, infra__llm=pods(1), infra__gpu=pool(8), new__llm=pods(3))

    report = check(read_input([str(tmp_path / each) for each in named]))

    pools = {case.cluster.title: [each.name for each in case.cluster.pools] for case in report.cases}
    assert pools == {"(cluster) with infra/llm.yaml": ["gpu"], "(cluster) with new/llm.yaml": ["gpu"]}


@pytest.mark.parametrize("named", [["dev", "prod", "new/llm.yaml"], [".", "new/llm.yaml"]])
def test_a_file_that_is_named_next_to_overlays_leaves_them_their_pools(
    named: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, dev__llm=pods(1), dev__gpu=pool(1), prod__llm=pods(8), prod__gpu=pool(4), new__llm=pods(3))
    monkeypatch.chdir(tmp_path)

    report = check(read_input(named, assumed=frozenset({"karpenter", "device-plugin"})))

    answers = {
        case.cluster.title: (len(case.cluster.pools), [each.answer for each in case.verdicts]) for case in report.cases
    }
    assert answers == {
        "(cluster) with dev": (1, [Answer.YES]),
        "(cluster) with prod": (1, [Answer.NO]),
        "(cluster) with new": (0, [Answer.UNKNOWN]),
    }


def test_folders_and_files_that_are_named_like_overlays_stay_apart(tmp_path: Path) -> None:
    write(tmp_path, dev__llm=pods(1), dev__gpu=pool(1), prod__llm=pods(8), prod__gpu=pool(8))

    for named in (["dev", "prod"], ["dev/llm.yaml", "dev/gpu.yaml", "prod/llm.yaml", "prod/gpu.yaml"]):
        report = check(read_input([str(tmp_path / each) for each in named]))
        limits = {case.cluster.title: case.cluster.pools[0].limits["nvidia.com/gpu"] for case in report.cases}

        assert limits == {"(cluster) with dev": 1, "(cluster) with prod": 8}


def test_a_manifest_replaces_the_object_of_a_dump(tmp_path: Path) -> None:
    live = pods(1)
    live["metadata"]["uid"] = "0b1c"
    write(tmp_path, dump=live, planned=pods(4))

    assert demands(tmp_path) == {"(cluster)": [4]}


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ({}, ["a", "b"]),
        ({"include": "a.yaml"}, ["a"]),
        ({"include": "{a,b}.yaml"}, ["a", "b"]),
        ({"exclude": "b*"}, ["a"]),
        ({"recurse": True, "include": "*/*.yaml"}, ["deep"]),
        ({"recurse": True, "exclude": "sub/*"}, ["a", "b"]),
    ],
)
def test_argo_cd_applies_the_files_of_its_patterns(tmp_path: Path, directory: Any, expected: list[str]) -> None:
    source = {"repoURL": "https://git.example.com/x", "path": "k8s", "directory": directory}
    spec = {"source": source, "destination": {"namespace": "ml"}}
    application = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "x"}, "spec": spec}
    write(tmp_path, app=application, k8s__a=pods(1, "a"), k8s__b=pods(1, "b"), k8s__sub__deep=pods(1, "deep"))

    [found] = clusters(read_input([str(tmp_path)]))

    assert sorted(each.owner.name for each in found.workloads) == expected
