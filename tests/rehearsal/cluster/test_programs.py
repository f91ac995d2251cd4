"""An image runs the program of its version, or the newest one of its minor version, which is then reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_rehearsal.cluster.container import CLUSTER_AUTOSCALER, Programs

CONTROLLER = "public.ecr.aws/karpenter/controller"
THERE = {version: Path(f"/karpenter-{version}") for version in ("1.14.1", "1.15.0", "1.15.9", "1.15.10")}


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Programs of Karpenter, and none of cluster autoscaler."""
    monkeypatch.delenv(CLUSTER_AUTOSCALER, raising=False)
    return Programs.built(karpenter=THERE)


@pytest.mark.parametrize(
    ("version", "chosen", "substitutes"),
    [("1.14.1", "1.14.1", ""), ("1.15.0@sha256:0123", "1.15.0", ""), ("1.15.11", "1.15.10", "1.15.10")],
)
def test_the_nearest_program_runs(programs: Programs, version: str, chosen: str, substitutes: str) -> None:
    image = f"{CONTROLLER}:{version}"

    found = programs.find_program(image)

    assert found is not None
    assert found[1] == THERE[chosen]
    assert programs.substitutes == ({image: substitutes} if substitutes else {})
    assert not programs.not_simulated


@pytest.mark.parametrize("version", ["1.16.0", "1.1", "latest"])
def test_no_other_minor_version_is_a_substitute(programs: Programs, version: str) -> None:
    image = f"{CONTROLLER}:{version}"

    assert programs.find_program(image) is None
    assert programs.not_simulated == {image}


def test_a_given_autoscaler_runs_for_every_image(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    image = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0"
    assert programs.find_program(image) is None

    monkeypatch.setenv(CLUSTER_AUTOSCALER, "/autoscaler")
    found = Programs.built(karpenter={}).find_program(image)

    assert found is not None
    assert found[1] == Path("/autoscaler")
