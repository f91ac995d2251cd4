"""The rehearsal runs the binaries of the Kubernetes version of the stack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.play import play
from gpu_rehearsal.stage import Props

PROPS = Props(control_planes={"1.36": Path("/36"), "1.37": Path("/37")})


def template(**properties: str) -> dict[str, Any]:
    """Return a template with a cluster."""
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "jobs"} | properties}
    return {"Resources": {"Cluster": cluster}}


@pytest.mark.parametrize(
    ("properties", "folder"), [({"Version": "1.36"}, "/36"), ({"Version": "1.37"}, "/37"), ({}, "/37")]
)
def test_the_control_plane_has_the_version_of_the_cluster(properties: dict[str, str], folder: str) -> None:
    assert PROPS.control_plane(template(**properties)) == Path(folder)


def test_a_version_without_binaries_is_not_played() -> None:
    assembly = Assembly(stack="Jobs", folder=Path(), file=Path(), template=template(Version="1.35"), region="us-east-1")

    report = play([assembly], PROPS)

    assert report.exit_code() == report.exit_code(["Create"]) == 3
    assert report.text().splitlines()[2:] == [
        "1 not played",
        "",
        "## Create",
        "",
        "* **not played** Jobs is created: its cluster has Kubernetes 1.35, and there are programs of 1.36, 1.37",
    ]
