"""Two inputs compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_constructs.preflight.judging.review import Review, review
from tests.preflight.inputs import BAD, given, template


def compared(folder: Path, old: Any, new: Any) -> Review:
    return review(given(folder / "old", old), given(folder / "new", new))


def test_two_equal_inputs_differ_in_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template())

    assert (found.pools, found.moves, found.fates, found.new, found.fixed) == ((), (), (), (), ())
    assert found.before == found.after
    assert found.standing


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({"AmiType": "AL2023_x86_64_NVIDIA"}, "replaced"),
        ({"InstanceTypes": ["g6.2xlarge"]}, "replaced"),
        ({"Labels": {"a": "b"}}, "changed"),
        ({"ScalingConfig": {"MinSize": 0, "MaxSize": 3}}, "changed"),
    ],
)
def test_a_changed_pool(tmp_path: Path, changes: Any, change: str) -> None:
    found = compared(tmp_path, template(), template({**BAD, **changes}))

    assert [each.change for each in found.pools] == [change]


def test_a_finding_of_other_figures_stands(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    assert {each.rule.id for each in (*found.new, *found.fixed)} == set()
    assert "GPU020" in {each.rule.id for each in found.standing}


def of_cluster(**properties: Any) -> Any:
    made = template()
    cluster = made["Resources"]["Cluster"]
    return {"Resources": {**made["Resources"], "Cluster": {**cluster, "Properties": properties}}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"Version": "1.34"}, {"Version": "1.35"}, None),
        ({"Version": "1.34"}, {"Version": 1.35}, None),
        ({"Version": "1.34"}, {"Version": "1.36"}, ("refused", "deploy 1.35 first")),
        ({"Version": "1.35"}, {"Version": "1.34"}, ("rolled back", "within 7 days")),
        ({"Version": "1.36"}, {"Version": "1.34"}, ("refused", "one minor version at most")),
        ({"Version": "1.36"}, {"Version": {"Ref": "Version"}}, None),
        ({"Name": "a"}, {"Name": "b"}, ("replaced", "Name: a -> b")),
        (
            {"KubernetesNetworkConfig": {"IpFamily": "ipv4"}},
            {"KubernetesNetworkConfig": {"IpFamily": "ipv6"}},
            ("replaced", "KubernetesNetworkConfig/IpFamily: ipv4 -> ipv6"),
        ),
        ({"UpgradePolicy": {"SupportType": "STANDARD"}}, {"UpgradePolicy": {"SupportType": "EXTENDED"}}, None),
    ],
)
def test_a_control_plane(tmp_path: Path, before: Any, after: Any, expected: Any) -> None:
    found = compared(tmp_path, of_cluster(**before), of_cluster(**after))

    told = [(each.change, each.detail) for each in found.control_planes]
    assert [change for change, _ in told] == ([expected[0]] if expected else [])
    assert all(expected[1] in detail for _, detail in told)


def test_a_version_that_eks_refuses_fails_the_review(tmp_path: Path) -> None:
    mended = {"AmiType": "AL2023_x86_64_NVIDIA"}
    old, new = (template({**BAD, **mended}) for _ in range(2))
    old["Resources"]["Cluster"] = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.34"}}

    found = compared(tmp_path, old, new)

    assert [each.change for each in found.control_planes] == ["refused"]
    assert found.fails


def test_a_mended_pool_fixes_its_finding(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "AmiType": "AL2023_x86_64_NVIDIA"}))

    assert "GPU001" in {each.rule.id for each in found.fixed}
    assert "GPU001" not in {each.rule.id for each in (*found.new, *found.standing)}


def test_the_ceiling_follows_the_maximum(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    assert (found.before.gpus, found.after.gpus) == (2, 5)
    assert found.after.usd_per_hour == pytest.approx(found.before.usd_per_hour * 2.5, abs=0.01)
