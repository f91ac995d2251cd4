"""Types without GPUs: types that EC2 sells are accepted, and others are rejected with the nearest name."""

from __future__ import annotations

import re
from datetime import date

import boto3
import pytest

from gpu_facts.hardware.node_capacity import least_vcpus, plain_families, plain_types_date, refuse_unless_plain_type
from tools import build_catalogue

# Some names in EC2's API: Macs, types with GPUs, and one that is no longer sold.
NOT_PLAIN = re.compile(r"(mac|g\d|gr\d|p\d|cg1)")
SIX_I = "large, xlarge, 2xlarge, 4xlarge, 8xlarge, 12xlarge, 16xlarge, 24xlarge, 32xlarge, metal"


def check(name: str, least_pods: int = 1) -> None:
    refuse_unless_plain_type("nodes", "types", name, least_pods=least_pods, why="they are ours")


def test_every_type_without_gpu_that_ec2_has_a_name_for_is_taken() -> None:
    client = boto3.client("ec2", region_name="us-east-1")
    names = [each for each in client.meta.service_model.shape_for("InstanceType").enum if not NOT_PLAIN.match(each)]

    assert len(names) > 1300
    for each in names:
        check(each)


def test_committed_file_is_what_the_script_writes() -> None:
    assert build_catalogue.PLAIN_OUTPUT.read_text() == build_catalogue.render_plain()
    assert date.fromisoformat(plain_types_date()) == date(2026, 8, 2)


@pytest.mark.parametrize(
    ("name", "pods"), [("t3.nano", 4), ("t3.micro", 4), ("t3.small", 11), ("t3.medium", 17), ("m6i.large", 29)]
)
def test_the_most_pods_are_those_of_the_guide(name: str, pods: int) -> None:
    family, size = name.split(".")

    assert plain_families()[family][size] == pods


def test_a_size_is_refused_from_the_first_pod_too_few() -> None:
    check("t3.small", least_pods=11)

    with pytest.raises(ValueError, match=r"which supports 11; use 't3.medium', because they are ours$"):
        check("t3.small", least_pods=12)


# One of a family none of whose sizes holds as many, and one that only botocore lists.
def test_the_smallest_that_will_do_may_be_of_another_family() -> None:
    with pytest.raises(ValueError, match=r"got 't1.micro', which supports 4; use 'm6i.large', because they are ours$"):
        check("t1.micro", least_pods=12)

    check("u-12tb1.metal", least_pods=500)


@pytest.mark.parametrize(
    "name", ["m9x.large", "m10g.large", "m12i.large", "m8ii.large", "hpc9a.48xlarge", "xyz1.large"]
)
def test_a_family_that_may_be_newer_than_the_list_is_taken(name: str) -> None:
    check(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m6i.larg", ", got 'm6i.larg'; did you mean 'm6i.large'?"),
        ("m5.lrage", ", got 'm5.lrage'; did you mean 'm5.large'?"),
        ("m6i.metal-48xl", f", got 'm6i.metal-48xl'; m6i has {SIX_I} (EC2 on 2026-08-02)"),
        ("m6i.nano", f", got 'm6i.nano'; m6i has {SIX_I} (EC2 on 2026-08-02)"),
        ("m6i", f" such as 'm6i.large', got 'm6i'; m6i has {SIX_I} (EC2 on 2026-08-02)"),
        ("M6I.LARGE", " such as 'm6i.large', got 'M6I.LARGE'; did you mean 'm6i.large'?"),
        ("m6i-large", " such as 'm6i.large', got 'm6i-large'; did you mean 'm6i.large'?"),
        ("", " such as 'm6i.large', got ''"),
        # Families that cannot be newer: of a generation that is gone, or far away.
        ("m6j.large", ", got 'm6j.large'; did you mean 'm6i.large'?"),
        ("m66i.large", ", got 'm66i.large'; did you mean 'm6i.large'?"),
        ("t33.medium", ", got 't33.medium'; did you mean 't3.medium'?"),
        ("m13.large", ", got 'm13.large'; did you mean 'm3.large'?"),
        ("zebra.large", ", got 'zebra.large'; EC2 has no family 'zebra'"),
        # Sizes that no family has, newer or not.
        ("m9x.lrage", ", got 'm9x.lrage'; did you mean 'm9x.large'?"),
        ("m9x.huge", ", got 'm9x.huge'; no family has a size 'huge'"),
        ("g6.xlarge", " without GPU, got 'g6.xlarge'; use 'm6i.large', because pods there need no GPU"),
        ("g4ad.xlarge", " without GPU, got 'g4ad.xlarge'; use 'm6i.large', because pods there need no GPU"),
        ("p2.xlarge", " without GPU, got 'p2.xlarge'; use 'm6i.large', because pods there need no GPU"),
        ("p9.48xlarge", " without GPU, got 'p9.48xlarge'; use 'm6i.large', because pods there need no GPU"),
        ("mac2.metal", " that run Linux, got 'mac2.metal'; use 'm6i.large', because a Mac runs macOS"),
    ],
)
def test_what_ec2_cannot_sell_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        check(name)

    assert str(refused.value) == f"nodes: types must be EC2 types{message}"


@pytest.mark.parametrize(
    ("name", "vcpus"),
    [("m6i.large", 2), ("t3.xlarge", 4), ("c7i-flex.2xlarge", 8), ("r6g.12xlarge", 48), ("m7g.medium", 1)]
    + [(name, 0) for name in ("t3.small", "m6i.metal", "hpc6a.48xlarge", "x1.16xlarge", "m6i", "")],
)
def test_least_vcpus_of_a_size(name: str, vcpus: int) -> None:
    assert least_vcpus(name) == vcpus
