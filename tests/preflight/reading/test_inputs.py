"""Files, folders and assemblies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.inputs import read_input
from tests.preflight.inputs import BAD, given, template


def test_a_folder_is_read_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n")
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / ".hidden.yaml").write_text("{")

    assert [each.name for each in given(tmp_path, template()).objects] == ["a"]


def test_lists_are_their_items(tmp_path: Path) -> None:
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("a", "b")]

    found = given(tmp_path, {"apiVersion": "v1", "kind": "List", "items": pods}, "pods.json")

    assert [each.name for each in found.objects] == ["a", "b"]


@pytest.mark.parametrize("content", ["- 1\n", "a: b\n", "text\n", "kind: Pod\n"])
def test_refuses_input_without_anything_to_check(tmp_path: Path, content: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)

    with pytest.raises(UnusableInput, match="must be a CloudFormation template or Kubernetes objects"):
        read_input([str(file)])


def test_refuses_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="got none"):
        read_input([str(tmp_path)])


def test_a_parameter_may_be_given(tmp_path: Path) -> None:
    content = {**template({**BAD, "InstanceTypes": [{"Ref": "Type"}]}), "Parameters": {"Type": {"Type": "String"}}}
    (tmp_path / "a.json").write_text(json.dumps(content))

    [found] = clusters(read_input([str(tmp_path / "a.json")], parameters={"Type": "g5.xlarge"}))

    assert found.pools[0].instance_types == ("g5.xlarge",)
