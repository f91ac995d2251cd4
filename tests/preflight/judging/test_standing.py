"""A step of the control plane leaves managed groups at the version that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.judging.review import review
from tests.preflight.inputs import given

GROUP: dict[str, Any] = {
    "ClusterName": {"Ref": "Cluster"},
    "InstanceTypes": ["g6.xlarge"],
    "AmiType": "AL2023_x86_64_NVIDIA",
    "ScalingConfig": {"MinSize": 0, "MaxSize": 2},
}
RELEASED = {**GROUP, "ReleaseVersion": "1.35.6-20260714"}
AMAZON_LINUX_2 = {**GROUP, "AmiType": "AL2_x86_64_GPU"}


def written(version: str, group: dict[str, Any]) -> dict[str, Any]:
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": version}}
    return {"Resources": {"Cluster": cluster, "Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group}}}


def errors(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    found = review(given(folder / "old", old), given(folder / "new", new))
    assert not any(line.startswith("Version") for each in found.pools for line in each.details)
    return {each.rule.id for each in (*found.new, *found.standing) if each.counts}


def test_a_new_deployment_of_it_is_refused(tmp_path: Path) -> None:
    assert "GPU008" in {each.rule.id for each in check(given(tmp_path, written("1.36", RELEASED))).findings}


@pytest.mark.parametrize(
    ("before", "after", "group"),
    [
        ("1.35", "1.36", RELEASED),
        ("1.36", "1.36", RELEASED),
        ("1.32", "1.33", AMAZON_LINUX_2),
    ],
    ids=["release", "release left behind before", "Amazon Linux 2"],
)
def test_a_group_that_nothing_touches_stays(tmp_path: Path, before: str, after: str, group: dict[str, Any]) -> None:
    assert errors(tmp_path, written(before, group), written(after, group)) == set()


@pytest.mark.parametrize(
    "change",
    [{"ScalingConfig": {"MinSize": 0, "MaxSize": 4}}, {"ReleaseVersion": "1.35.7-20260801"}],
    ids=["it grows", "newer release of its version"],
)
def test_a_group_that_is_changed_in_place_stays(tmp_path: Path, change: dict[str, Any]) -> None:
    assert errors(tmp_path, written("1.35", RELEASED), written("1.36", {**RELEASED, **change})) == set()


@pytest.mark.parametrize(
    "after",
    [
        {**RELEASED, "InstanceTypes": ["g6.2xlarge"]},
        {**RELEASED, "Version": "1.36"},
        {**RELEASED, "ReleaseVersion": "1.34.7-20260801"},
    ],
    ids=["made anew", "version asked for", "release of another version"],
)
def test_a_group_that_asks_again_is_refused(tmp_path: Path, after: dict[str, Any]) -> None:
    assert errors_of(tmp_path, after) == {"GPU008"}


def errors_of(folder: Path, after: dict[str, Any]) -> set[str]:
    found = review(given(folder / "old", written("1.35", RELEASED)), given(folder / "new", written("1.36", after)))
    return {each.rule.id for each in found.new if each.counts}


def test_a_group_that_comes_is_refused(tmp_path: Path) -> None:
    old = written("1.36", RELEASED)
    del old["Resources"]["Nodes"]

    assert "GPU008" in errors(tmp_path, old, written("1.36", RELEASED))
