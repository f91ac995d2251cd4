"""Changes of the examples, each with the comment that a reviewer gets: read the snapshots as one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion

from gpu_preflight.judging.review import Review, review
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report import markdown
from gpu_preflight.report.review_view import review_view

HERE = Path(__file__).parent / "diffs"
DIFFS: Mapping[str, Any] = yaml.safe_load((HERE / "diffs.yaml").read_text())
Reviewed = Callable[[str], Review]


def apply_patch(old: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    kept = {
        key: each for key, each in (old if isinstance(old, dict) else {}).items() if patch.get(key, key) is not None
    }
    return kept | {key: apply_patch(kept.get(key), each) for key, each in patch.items() if each is not None}


def write_assembly(folder: Path, content: Mapping[str, Any]) -> str:
    """Write an assembly of one stack, and return its folder."""
    folder.mkdir()
    stack, environment = content["stack"], content["environment"]
    file = f"{stack}.template.json"
    (folder / file).write_text(json.dumps(content["template"]))
    metadata = {path: [{"type": "aws:cdk:logicalId", "data": key}] for key, path in content["paths"].items()}
    artifact = {
        "type": "aws:cloudformation:stack",
        "environment": environment,
        "properties": {"templateFile": file},
        "metadata": {**metadata, f"/{stack}": [{"type": "aws:cdk:creationStack", "data": ["(no user code)"]}]},
    }
    (folder / "manifest.json").write_text(json.dumps({"version": "48.0.0", "artifacts": {stack: artifact}}))
    return str(folder)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    """The review of a change; each is made once."""

    @cache
    def made(name: str) -> Review:
        folder = tmp_path_factory.mktemp(name)
        example = json.loads((HERE / f"{DIFFS[name]['example']}.example.json").read_text())
        patches = json.loads((HERE / f"{name}.diff.json").read_text())
        old, new = (
            read_input([write_assembly(folder / side, apply_patch(example, patches.get(side, {})))])
            for side in ("before", "after")
        )
        return review(old, new)

    return made


@pytest.mark.parametrize("name", DIFFS)
def test_a_comment(name: str, reviewed: Reviewed, snapshot_text: SnapshotAssertion) -> None:
    assert markdown.render(review_view(reviewed(name))) == snapshot_text
