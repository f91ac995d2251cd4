"""An upgrade of the reference stacks loses no resource that the changelog doesn't name under "Breaking"."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpu_constructs import __version__
from tests.conftest import ROOT
from tools import released
from tools.released import Loss

GROUP = {
    "Type": "AWS::EKS::Nodegroup",
    "Properties": {"InstanceTypes": ["g6.xlarge"], "CapacityType": "SPOT", "Labels": {"a": "b"}},
}
CLUSTER = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "KubernetesNetworkConfig": {"IpFamily": "ipv4"}}}
BEFORE: dict[str, dict[str, Any]] = {"Group": GROUP, "Cluster": CLUSTER, "Topic": {"Type": "AWS::SNS::Topic"}}
LOSS = Loss(stack="GpuClusterStack-karpenter", id="PoolA1B2", text="AWS::EKS::Nodegroup is gone")


def losses(after: dict[str, Any]) -> list[tuple[str, str]]:
    was, now = released.template_inventory(BEFORE), released.template_inventory(after)
    return [(each.id, each.text) for each in released.losses({"Stack": was}, {"Stack": now})]


def changed(resource: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {**resource, "Properties": resource["Properties"] | properties}


def test_nothing_released_is_lost_in_silence() -> None:
    was = yaml.safe_load(released.RELEASED.read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()

    unsaid = [each for each in released.losses(was, released.inventory()) if not released.is_announced(each, changelog)]

    assert unsaid == [], "name the ids, or the stacks, under 'Breaking' of CHANGELOG.md"


def test_what_is_written_down_is_a_release_of_every_reference_stack() -> None:
    written = yaml.safe_load(released.RELEASED.read_text())

    assert set(written) == set(released.inventory())
    assert all("AWS::EKS::Cluster" in {each["type"] for each in stack.values()} for stack in written.values())
    assert f" {__version__} " in released.RELEASED.read_text().splitlines()[0]


def test_what_stays_or_is_new_is_no_loss() -> None:
    assert losses(BEFORE | {"New": GROUP}) == []


@pytest.mark.parametrize(
    ("after", "loss"),
    [
        ({"Cluster": CLUSTER, "Topic": BEFORE["Topic"]}, ("Group", "AWS::EKS::Nodegroup is gone")),
        (BEFORE | {"Topic": {"Type": "AWS::SQS::Queue"}}, ("Topic", "AWS::SNS::Topic is a AWS::SQS::Queue")),
        (
            BEFORE | {"Group": changed(GROUP, InstanceTypes=["g6e.xlarge"], CapacityType="ON_DEMAND")},
            ("Group", "AWS::EKS::Nodegroup is replaced, as CapacityType, InstanceTypes cannot change"),
        ),
        (
            BEFORE | {"Group": changed(GROUP, NodegroupName="l4")},
            ("Group", "AWS::EKS::Nodegroup is replaced, as NodegroupName cannot change"),
        ),
        (
            BEFORE | {"Cluster": changed(CLUSTER, KubernetesNetworkConfig={"IpFamily": "ipv6"})},
            ("Cluster", "AWS::EKS::Cluster is replaced, as KubernetesNetworkConfig/IpFamily cannot change"),
        ),
    ],
    ids=["vanished", "another type", "replaced", "named", "cluster"],
)
def test_what_is_gone_or_replaced_is_a_loss(after: dict[str, Any], loss: tuple[str, str]) -> None:
    assert losses(after) == [loss]


def test_a_stack_that_is_gone_takes_everything_with_it() -> None:
    was = {"Stack": released.template_inventory(BEFORE)}

    assert {each.id for each in released.losses(was, {})} == set(BEFORE)


@pytest.mark.parametrize(
    "after", [BEFORE | {"Group": changed(GROUP, Labels={})}, BEFORE | {"Group": changed(GROUP, ScalingConfig={})}]
)
def test_what_changes_in_place_is_no_loss(after: dict[str, Any]) -> None:
    assert losses(after) == []


def test_ids_that_hold_a_hash_are_not_written_down() -> None:
    assert released.template_inventory({"CurrentVersion8A1": {"Type": "AWS::Lambda::Version"}}) == {}


@pytest.mark.parametrize(
    ("changelog", "said"),
    [
        ("## Unreleased\n\n### Breaking\n\n- `PoolA1B2` is another group.\n", True),
        ("## Unreleased\n\n### Breaking\n\n- Every pool of `GpuClusterStack-karpenter`.\n", True),
        ("## Unreleased\n\n### Breaking\n\n- `PoolA1B2C3` is another group.\n", False),
        ("## Unreleased\n\n### Added\n\n- `PoolA1B2`.\n", False),
        ("## Unreleased\n\n### Breaking\n\n- Another.\n\n### Added\n\n- `PoolA1B2`.\n", False),
        ("## Unreleased\n\n## 0.2.0\n\n### Breaking\n\n- `PoolA1B2`.\n", False),
        ("", False),
    ],
)
def test_a_loss_is_said_under_breaking_of_what_is_unreleased(changelog: str, said: bool) -> None:
    assert released.is_announced(LOSS, changelog) is said
