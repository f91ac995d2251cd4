"""The script for a real account: its deployments synthesize, and no update of them is known to fail."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_preflight.judging.review import review
from gpu_preflight.reading.inputs import read_input
from tests.conftest import ROOT
from tests.judges.shellcheck import complaints

SCRIPT = ROOT / "docs" / "how-to" / "day_two.sh"


@pytest.fixture(scope="module")
def plan() -> list[dict[str, str]]:
    """The context of each deployment."""
    environment = os.environ | {"PLAN": "1", "ADMIN": "arn:aws:iam::111122223333:role/Admin"}
    written = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, check=True).stdout
    lines = [[word for word in line.split("\t") if word not in ("-c", "")] for line in written.splitlines()]
    return [dict(word.split("=", 1) for word in line) for line in lines]


def test_the_script_is_clean() -> None:
    assert complaints(SCRIPT.read_text()) == ""


@pytest.mark.linted
def test_no_update_is_known_to_fail(plan: list[dict[str, str]], tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(len(plan))]
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    for context, folder in zip(plan, folders, strict=True):
        said = json.dumps({**flags, **context})
        environment = os.environ | {
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": said,
            "CDK_DEFAULT_REGION": "us-east-1",
        }
        subprocess.run(["python", "app.py"], cwd=ROOT, env=environment, check=True, capture_output=True)

    assert len(plan) == 6
    for before, after in pairwise(folders):
        found = review(read_input([str(before)]), read_input([str(after)]))
        assert not found.fails
        assert [each for each in found.changes if each.change in ("destructive", "left behind", "unknown")] == []
