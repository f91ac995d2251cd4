"""Where EC2 was seen to offer NVIDIA types, and slips in the names of regions."""

from __future__ import annotations

import re
from datetime import date

import aws_cdk as cdk
import pytest

from gpu_constructs import GpuCluster
from gpu_constructs.cluster.network import gpu_vpc
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import (
    is_unseen,
    known_regions,
    offerings_date,
    refuse_unless_region,
    region_hint,
    region_partition,
    zones_by_region,
)
from tools import build_regions


def test_committed_file_is_what_the_script_writes() -> None:
    assert build_regions.OUTPUT.read_text() == build_regions.render()
    assert date.fromisoformat(offerings_date()) == date(2026, 8, 2)


def test_every_type_that_ec2_lists_is_offered_somewhere() -> None:
    assert [name for name, row in catalogue().items() if not zones_by_region(name) and not row.ultraserver_only] == []


def test_zones_have_ids_that_are_the_same_in_every_account() -> None:
    assert zones_by_region("p6-b200.48xlarge")["us-east-1"] == ("use1-az6",)
    ids = {each for name in catalogue() for zones in zones_by_region(name).values() for each in zones}
    assert [each for each in ids if not re.fullmatch(r"[a-z]+\d-az\d", each)] == []


@pytest.mark.parametrize(
    ("name", "region", "unseen"),
    [
        ("p5.48xlarge", "eu-central-2", True),
        ("p5.48xlarge", "us-east-1", False),
        ("p5.48xlarge", "us-gov-west-1", False),
        ("p5.48xlarge", "cn-north-1", False),
        ("p5.48xlarge", "mx-central-1", False),
        ("p6e-gb200.36xlarge", "us-east-1", False),
    ],
)
def test_a_type_is_unseen_only_in_a_region_that_was_read(name: str, region: str, unseen: bool) -> None:
    assert is_unseen(name, region) is unseen


@pytest.mark.parametrize(
    ("region", "meant"),
    [
        ("us-eats-1", "us-east-1"),
        ("us-esat-1", "us-east-1"),
        ("eu-centrl-1", "eu-central-1"),
        ("US-EAST-1", "us-east-1"),
        ("us-east1", "us-east-1"),
        ("us_west_2", "us-west-2"),
    ],
)
def test_a_slip_of_a_region_gets_the_nearest(region: str, meant: str) -> None:
    assert region_hint(region) == f"; did you mean {meant!r}?"


@pytest.mark.parametrize(
    "region",
    [
        *known_regions(),
        "us-east-3",
        "mx-central-2",
        "eu-north-2",
        "cl-central-1",
        "nz-south-1",
        "${Token[AWS.Region.4]}",
    ],
)
def test_a_region_and_what_may_become_one_are_no_slips(region: str) -> None:
    assert region_hint(region) == ""


@pytest.mark.parametrize("region", ["us-esat-1", "US-EAST-1", "us_west_2", "europe", "", None, 1])
def test_an_argument_that_is_no_region_is_refused(region: object) -> None:
    with pytest.raises(ValueError, match=f"^volume: region must be a region, got {region!r}"):
        refuse_unless_region("volume", "region", region)


@pytest.mark.parametrize("region", [*known_regions(), "us-east-3", "cl-central-1", "${Token[AWS.Region.4]}"])
def test_an_argument_may_be_a_region_that_is_newer_than_the_list(region: str) -> None:
    refuse_unless_region("volume", "region", region)


@pytest.mark.parametrize(
    ("region", "name"),
    [
        ("cn-north-1", "aws-cn"),
        ("us-gov-west-1", "aws-us-gov"),
        ("eu-west-1", "aws"),
        ("eusc-de-east-1", "aws-eusc"),
        ("eu-isoe-west-1", "aws-iso-e"),
        ("us-isof-south-1", "aws-iso-f"),
        ("eu-west-9", "aws"),
        ("nz-south-1", None),
    ],
)
def test_the_partition_of_a_region(region: str, name: str | None) -> None:
    assert region_partition(region) == name


def test_every_region_has_a_partition() -> None:
    assert [each for each in known_regions() if region_partition(each) is None] == []


def test_a_cluster_and_a_network_refuse_a_misspelt_region() -> None:
    stack = cdk.Stack(
        cdk.App(analytics_reporting=False), "Test", env=cdk.Environment(account="111122223333", region="us-eats-1")
    )

    with pytest.raises(
        ValueError, match=r"Test/Gpu: region must be an AWS region, got 'us-eats-1'; did you mean 'us-east-1'\?"
    ):
        GpuCluster(stack, "Gpu")
    with pytest.raises(
        ValueError, match=r"Test/Vpc: region must be an AWS region, got 'us-eats-1'; did you mean 'us-east-1'"
    ):
        gpu_vpc(stack, "Vpc")
    assert stack.node.find_child("Gpu").node.children == []
