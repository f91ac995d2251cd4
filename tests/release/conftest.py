"""The built distribution. ``GPU_CONSTRUCTS_DIST`` names its folder; `make release-check` builds it and sets that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="session")
def dist() -> Path:
    """Folder with the sdist, the wheel, the zipapp and the SBOM."""
    folder = os.environ.get("GPU_CONSTRUCTS_DIST")
    if not folder:
        pytest.skip("no distribution: run 'make release-check'")
    return ROOT / folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    """The wheel."""
    [file] = dist.glob("*.whl")
    return file
