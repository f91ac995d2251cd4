"""Every property of EKS, EC2 and Auto Scaling against the call that makes it, as botocore's models have it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emitted import Template
from tests.judges.api_shapes import CALLS, DIFFERENT, Judge

SERVICES = ("AWS::EKS::", "AWS::EC2::", "AWS::AutoScaling::")
LEAST = 40_000


def test_the_api_takes_every_property(emitted: dict[str, Template]) -> None:
    judge, faults = Judge(), set()

    for template in emitted.values():
        for each in template["Resources"].values():
            if each["Type"].startswith(SERVICES):
                faults |= set(judge.faults(each["Type"], each.get("Properties", {})))

    assert faults == set()
    assert judge.compared > LEAST
    assert judge.different == set(DIFFERENT)


def test_no_call_is_known_for_nothing(emitted: dict[str, Template]) -> None:
    made = {each["Type"] for template in emitted.values() for each in template["Resources"].values()}

    assert set(CALLS) <= made


@pytest.mark.parametrize(
    ("kind", "properties"),
    [
        ("AWS::EKS::Cluster", {"Name": "demo cluster!", "RoleArn": "a", "ResourcesVpcConfig": {}}),
        ("AWS::EKS::Nodegroup", {"AmiType": "AL2023_X86_64_NVIDIA"}),
        ("AWS::EKS::Nodegroup", {"CapacityType": "spot"}),
        ("AWS::EKS::Nodegroup", {"Taints": [{"Key": "a" * 64, "Effect": "NO_SCHEDULE"}]}),
        ("AWS::EKS::Nodegroup", {"Taints": [{"Key": "a", "Effect": "NoSchedule"}]}),
        ("AWS::EKS::Nodegroup", {"Labels": {"a": "b" * 64}}),
        ("AWS::EKS::Nodegroup", {"UpdateConfig": {"MaxUnavailablePercentage": 101}}),
        ("AWS::EKS::Nodegroup", {"NodeRepairConfig": {"Enabled": "yes"}}),
        ("AWS::EKS::Nodegroup", {"ScalingConfig": {"MinSize": -1}}),
        ("AWS::EKS::Nodegroup", {"InstanceType": ["g6.xlarge"]}),
        ("AWS::EKS::Addon", {"ResolveConflicts": "Overwrite"}),
        ("AWS::EKS::Cluster", {"UpgradePolicy": {"SupportType": "extended"}}),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"MetadataOptions": {"HttpTokens": "yes"}}}),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"BlockDeviceMappings": [{"Ebs": {"VolumeTyp": "gp3"}}]}}),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"BlockDeviceMappings": [{"Ebs": {"VolumeSize": "big"}}]}}),
    ],
)
def test_the_judge_refuses_what_the_api_would(kind: str, properties: dict[str, Any]) -> None:
    lacking = set(Judge().faults(kind, {}))

    assert set(Judge().faults(kind, properties)) - lacking


def test_the_judge_misses_what_the_api_asks_for() -> None:
    assert Judge().faults("AWS::EKS::Nodegroup", {}) == [
        f"EKS::Nodegroup.{each} is required" for each in ("clusterName", "subnets", "nodeRole")
    ]
