"""What plays need: the programs, the default stack under Karpenter, and charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.stage import Props
from tools import build_e2e_tools, rehearse
from tools import charts as packed
from tools.plays import ROOT, assemblies_of


@pytest.fixture(scope="session")
def props() -> Props:
    """The programs and charts of a play."""
    if build_e2e_tools.folder_of_tools() is None or not build_e2e_tools.karpenter():
        pytest.skip(build_e2e_tools.MISSING)
    if packed.folder_of_charts() is None:
        pytest.skip(packed.MISSING)
    return rehearse.props()


def default_stack(folder: Path, **pool: Any) -> Assembly:
    """Synthesize the default stack under Karpenter.

    Args:
        folder: Where its assembly goes.
        pool: What its pool says besides its name and type.
    """
    context = {"autoscaler": "karpenter", "pools": [{"name": "gpu", "instance_types": ["g6.xlarge"], **pool}]}
    (made,) = assemblies_of(ROOT / "app.py", folder, context)
    return made
