"""Assemblies are read in the order of deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import read


def _write(folder: Path, artifacts: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    (folder / "any.json").write_text("{}")


def _stack(*after: str, environment: str = "aws://unknown-account/unknown-region") -> dict[str, Any]:
    return {
        "type": "aws:cloudformation:stack",
        "environment": environment,
        "properties": {"templateFile": "any.json"},
        "dependencies": list(after),
    }


def test_a_stack_comes_after_what_it_depends_on(tmp_path: Path) -> None:
    _write(tmp_path, {"Pools": _stack("Cluster", "Pools.assets"), "Cluster": _stack()})

    assert [each.stack for each in read(tmp_path, region="eu-west-1")] == ["Cluster", "Pools"]


def test_a_stack_keeps_its_region_and_another_gets_the_given_one(tmp_path: Path) -> None:
    _write(tmp_path, {"A": _stack(environment="aws://123456789012/us-east-2"), "B": _stack()})

    assert {each.stack: each.region for each in read(tmp_path, region="eu-west-1")} == {
        "A": "us-east-2",
        "B": "eu-west-1",
    }


def test_a_stack_keeps_its_account(tmp_path: Path) -> None:
    _write(tmp_path, {"A": _stack(environment="aws://111122223333/us-east-2"), "B": _stack()})

    assert {each.stack: each.account for each in read(tmp_path, region="eu-west-1")} == {"A": "111122223333", "B": ""}


def test_stacks_of_stages_are_read_too(tmp_path: Path) -> None:
    stage = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-prod"}}
    _write(tmp_path, {"prod": stage})
    _write(tmp_path / "assembly-prod", {"Cluster": _stack()})

    assert [each.folder.name for each in read(tmp_path, region="eu-west-1")] == ["assembly-prod"]
