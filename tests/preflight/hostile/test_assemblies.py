"""Cloud assemblies that name what is not theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.documents import MAX_FILE_BYTES
from gpu_preflight.reading.inputs import read_input
from tests.preflight.hostile.files import file_of, refusal, template
from tests.preflight.hostile.work import bytes_at_most


def assembly(folder: Path, artifacts: Any) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"version": "1", "artifacts": artifacts}))
    return str(folder)


def stack_of(name: Any) -> dict[str, Any]:
    return {"S": {"type": "aws:cloudformation:stack", "properties": {"templateFile": name}}}


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..", ".", "", None, 7, [], "a\0b", "a" * 5_000, "a/../../x"]
)
def test_refuses_an_assembly_that_names_files_outside(tmp_path: Path, name: Any) -> None:
    refusal(assembly(tmp_path / "out", stack_of(name)))


@pytest.mark.parametrize("name", ["../..", "/", ".", "a\0b", None])
def test_refuses_a_nested_assembly_outside_of_the_folder(tmp_path: Path, name: Any) -> None:
    inner = {"A": {"type": "cdk:cloud-assembly", "properties": {"directoryName": name}}}

    refusal(assembly(tmp_path / "out", inner))


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a\0b", 3])
def test_refuses_metadata_outside(tmp_path: Path, name: Any) -> None:
    artifact = {**stack_of("s.json")["S"], "additionalMetadataFile": name}
    path = assembly(tmp_path / "out", {"S": artifact})
    file_of(tmp_path / "out", template(), "s.json")

    refusal(path)


def test_refuses_a_link_out_of_an_assembly(tmp_path: Path) -> None:
    secret = file_of(tmp_path, template(), "secret.json")
    path = assembly(tmp_path / "out", stack_of("s.json"))
    (tmp_path / "out" / "s.json").symlink_to(secret)

    assert "must name files in its folder" in refusal(path)


def test_refuses_a_link_to_itself(tmp_path: Path) -> None:
    path = assembly(tmp_path / "out", stack_of("s.json"))
    (tmp_path / "out" / "s.json").symlink_to(tmp_path / "out" / "s.json")

    refusal(path)


@pytest.mark.parametrize("artifacts", [[], "x", None, {"S": []}, {"S": {"type": []}}, {"S": {"type": "cdk:tree"}}, {}])
def test_refuses_an_assembly_without_stacks(tmp_path: Path, artifacts: Any) -> None:
    refusal(assembly(tmp_path / "out", artifacts))


@pytest.mark.parametrize("content", ["", "{", "[]", "\0", "9" * 5_000, "[" * 100_000])
def test_a_manifest_that_cannot_be_read_makes_no_assembly(tmp_path: Path, content: str) -> None:
    file_of(tmp_path, content, "manifest.json")

    refusal(str(tmp_path))


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "manifest.json").open("wb") as stream:
        stream.truncate(1024**3)

    with bytes_at_most(4 * MAX_FILE_BYTES):
        refusal(str(tmp_path))


@pytest.mark.parametrize(
    "metadata", [[], "x", {"/S": 1}, {"/S": [1]}, {"/S": [{"type": "aws:cdk:logicalId", "data": []}]}]
)
def test_metadata_of_other_types_is_passed_over(tmp_path: Path, metadata: Any) -> None:
    path = assembly(tmp_path / "out", {"S": {**stack_of("s.json")["S"], "metadata": metadata}})
    file_of(tmp_path / "out", template(), "s.json")

    assert read_input([path]).resources
