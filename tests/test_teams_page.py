"""The example of the page on teams is an app, whose pods run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_constructs.facts.kubernetes import TRAINING_JOBS
from gpu_constructs.preflight.judging.check import check
from gpu_constructs.preflight.judging.explain import explain
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.reading.inputs import read_input
from tests.conftest import ROOT
from tests.emitted import Template
from tests.linting import cfn_lint
from tests.templates import manifests_of, of_type

PAGE = (ROOT / "docs" / "teams.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the example's app writes."""
    [example] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    folder = tmp_path_factory.mktemp("page")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CDK_OUTDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def template(output: Path) -> Template:
    return dict(json.loads((output / "Shared.template.json").read_text()))
