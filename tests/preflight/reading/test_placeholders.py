"""A value that another program fills in is unknown, and never wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.judging.check import check
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.documents import NOT_RENDERED, UnusableInput
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import with_placeholders
from gpu_preflight.reading.unknown import Unknown

JOB = """
apiVersion: batch/v1
kind: Job
metadata:
  name: NAME
  namespace: ml
spec:
  parallelism: COUNT
  template:
    spec:
      restartPolicy: Never
      nodeSelector:
        pool: POOL
      containers:
      - name: main
        image: IMAGE
        command: [sh, -c, "echo $HOME"]
        resources:
          limits:
            nvidia.com/gpu: GPUS
"""
WAYS = {
    "envsubst": "${%s}",
    "envsubst with default": "${%s:-1}",
    "envsubst in short": "$%s",
    "kustomize": "$(%s)",
    "helm": "{{ .Values.%s }}",
    "quoted": '"{{ %s }}"',
}


def written(folder: Path, way: str) -> Path:
    text = JOB
    for name in ("NAME", "COUNT", "POOL", "IMAGE", "GPUS"):
        text = text.replace(name, WAYS[way] % name)
    file = folder / "job.yaml"
    file.write_text(text)
    return file


def job(folder: Path, way: str) -> Workload:
    [cluster] = clusters(read_input([str(written(folder, way))]))
    [found] = cluster.workloads
    return found


@pytest.mark.parametrize("way", WAYS)
def test_every_value_may_be_filled_in(tmp_path: Path, way: str) -> None:
    found = job(tmp_path, way)

    assert found.replicas is None
    assert found.pod.is_open
    assert found.asks_for_gpu
    assert found.pod.refusals == ()
    assert isinstance(found.containers[0].image, Unknown)
    assert found.containers[0].words == ("sh", "-c", "echo $HOME")


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_certainly_wrong_with_what_is_filled_in(tmp_path: Path, way: str) -> None:
    report = check(read_input([str(written(tmp_path, way))]))

    assert [each.problem.message for each in report.findings if each.counts] == []


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("$NAME", Unknown("$NAME")),
        ("a-$NAME", Unknown("a-$NAME")),
        ("${A}-${B}", Unknown("${A}-${B}")),
        ("$(A)", Unknown("$(A)")),
        ("{{ a }}", Unknown("{{ a }}")),
        ("costs 5$", "costs 5$"),
        ("^a$|^b$", "^a$|^b$"),
        ("a\n$b", "a\n$b"),
        ({"args": ["$A"], "env": [{"value": "$A"}]}, {"args": ["$A"], "env": [{"value": "$A"}]}),
        ([{"a": "$A"}], [{"a": Unknown("$A")}]),
        (1, 1),
    ],
)
def test_programs_keep_their_texts(content: Any, read: Any) -> None:
    assert with_placeholders(content) == read


BLOCK = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n{{- if .Values.x }}\nspec: {}\n{{- end }}\n"


def test_a_template_with_branches_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(BLOCK)

    with pytest.raises(UnusableInput, match="must be rendered first"):
        read_input([str(tmp_path / "pod.yaml")])


def test_a_template_with_branches_in_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(BLOCK)
    (tmp_path / "other.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")

    found = read_input([str(tmp_path)])

    assert [(Path(each.origin.path).name, each.reason) for each in found.problems] == [("pod.yaml", NOT_RENDERED)]
