"""The needs of plays: the programs, the default stack under Karpenter, and charts."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.report import Report
from gpu_rehearsal.scenarios.deployment import create
from gpu_rehearsal.stage import Props, Stage, stage
from tests.e2e.rehearsal import many_pools
from tools import build_e2e_tools, rehearse
from tools import charts as packed
from tools.plays import ROOT, synthesize_app

# Its registry is not reached here; nothing installs in its place.
_EMPTY_CHART = ("aws-efa-k8s-device-plugin", "v0.5.30")


@pytest.fixture(scope="session")
def props() -> Props:
    """The programs and charts of a play."""
    if build_e2e_tools.folder_of_tools() is None or not build_e2e_tools.karpenter():
        pytest.skip(build_e2e_tools.MISSING)
    if packed.folder_of_charts() is None:
        pytest.skip(packed.MISSING)
    return rehearse.props()


@pytest.fixture(scope="module")
def stacks_of_many_pools(tmp_path_factory: pytest.TempPathFactory) -> list[Assembly]:
    """The stack with NodePools of every shape."""
    return synthesize_app(Path(many_pools.__file__), tmp_path_factory.mktemp("many-pools"), {})


@pytest.fixture(scope="module")
def many_pools_stage(
    stacks_of_many_pools: list[Assembly], props: Props, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A stage on which it is complete, except for EFA's plugin."""
    if props.definitions is None or props.charts is None:
        pytest.skip(f"{rehearse.DEFINITIONS} names no folder of definitions of charts that are not there")
    charts, report = _with_empty_chart(props.charts, tmp_path_factory.mktemp("charts")), Report("ManyPools")
    with stage(stacks_of_many_pools[0], replace(props, charts=charts)) as made:
        assert create(made, stacks_of_many_pools, report), report.text()
        yield made


def default_stack(folder: Path, **pool: Any) -> Assembly:
    """Synthesize the default stack under Karpenter.

    Args:
        folder: Where its assembly goes.
        pool: Properties of its pool other than name and type.
    """
    context = {"autoscaler": "karpenter", "pools": [{"name": "gpu", "instance_types": ["g6.xlarge"], **pool}]}
    (made,) = synthesize_app(ROOT / "app.py", folder, context)
    return made


def _with_empty_chart(charts: Path, folder: Path) -> Path:
    """Return a folder of those charts and of one that installs nothing."""
    for each in charts.glob("*.tgz"):
        (folder / each.name).symlink_to(each)
    name, version = _EMPTY_CHART
    said = f"apiVersion: v2\nname: {name}\nversion: {version}\n".encode()
    member = tarfile.TarInfo(f"{name}/Chart.yaml")
    member.size = len(said)
    with tarfile.open(folder / f"{name}-{version}.tgz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(said))
    return folder
