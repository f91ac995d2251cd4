"""A control plane for the tests that are run by name only: `make e2e`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_rehearsal.cluster.client import Client
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane, render_kubeconfig
from tests.e2e.helm import Helm
from tests.e2e.rig import UNDISTURBED, Rig
from tools import build_e2e_tools
from tools import charts as packed

HERE = Path(__file__).parent


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave these tests out unless the command line names this folder, or a file in it."""
    named = (Path(config.invocation_params.dir, each.split("::")[0]).resolve() for each in config.args)
    return None if any(each == HERE or HERE in each.parents for each in named) else True


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """A control plane for all tests."""
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with control_plane(folder, controllers=(), scheduler=UNDISTURBED) as running:
        yield running


@pytest.fixture(scope="session")
def client(plane: ControlPlane) -> Client:
    """An administrator of the control plane."""
    return plane.client


@pytest.fixture(scope="session")
def rig(plane: ControlPlane) -> Iterator[Rig]:
    """The control plane, which decides about pairs."""
    with Rig(plane) as made:
        yield made


@contextmanager
def helm_on_a_new_control_plane(folder_of_kubeconfig: Path) -> Iterator[Helm]:
    """Helm with the packed charts and a separate control plane."""
    folder, charts = build_e2e_tools.folder_of_tools(), packed.folder_of_charts()
    if folder is None or charts is None:
        pytest.skip(build_e2e_tools.MISSING if folder is None else packed.MISSING)
    kubeconfig = folder_of_kubeconfig / "kubeconfig"
    with control_plane(folder, controllers=()) as plane:
        kubeconfig.write_text(json.dumps(render_kubeconfig(plane.client)))
        yield Helm(charts, kubeconfig, plane.client)


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """Helm on a control plane without other tests: webhooks without a server would reject their objects."""
    with helm_on_a_new_control_plane(tmp_path_factory.mktemp("helm")) as made:
        yield made


@pytest.fixture
def empty_helm(tmp_path: Path) -> Iterator[Helm]:
    """Helm on a control plane where no chart was installed before."""
    with helm_on_a_new_control_plane(tmp_path) as made:
        yield made
