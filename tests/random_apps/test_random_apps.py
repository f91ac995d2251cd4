"""The library never contradicts itself: whatever constructs accept, the checker passes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.random_apps.trial import run

# All of them: GPU_CONSTRUCTS_RANDOM_APPS=300 pytest -n0 tests/random_apps
COUNT = int(os.environ.get("GPU_CONSTRUCTS_RANDOM_APPS", "12"))
FIRST = int(os.environ.get("GPU_CONSTRUCTS_RANDOM_SEED", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_the_checker_passes_what_constructs_accept(seed: int, tmp_path: Path) -> None:
    trial = run(seed, tmp_path)

    assert not trial.contradictions, str(trial)
