"""The recorded output of ``kubectl describe`` is what kubectl prints of the planted cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_rehearsal.cluster.client import Client
from tests.e2e.doctor.describe import CASES, DESCRIBED, describe, describing
from tools import build_e2e_tools

# An event of the scheduler, a ReplicaSet without a pod, and events of two authors.
DESCRIBED_AGAIN = ("v1-missing-claim", "a9-missing-runtime-class", "k11-limit-reached")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Client, Path]]:
    """An API server, and its kubeconfig."""
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with describing(folder) as running:
        yield running


@pytest.fixture(scope="module")
def recorded() -> Any:
    """The recorded outputs."""
    return yaml.safe_load(DESCRIBED.read_text())["cases"]


@pytest.mark.parametrize("case", DESCRIBED_AGAIN)
def test_kubectl_prints_the_recorded_lines(server: tuple[Client, Path], recorded: Any, case: str) -> None:
    assert describe(*server, case) == recorded[case]


def test_every_case_is_recorded(recorded: Any) -> None:
    assert tuple(recorded) == CASES
