"""The catalogue knows every NVIDIA type, and each of its columns says where it comes from."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import date

import boto3
import pytest

from gpu_facts.hardware.catalogue import catalogue, columns, instance_type, retired
from tools import build_catalogue

# g4ad has AMD GPUs.
NVIDIA_FAMILY = re.compile(r"(g(?!4ad\.)\d|gr\d|p\d)[a-z]*(-[a-z0-9]+)?\.")


def botocore_types() -> list[str]:
    client = boto3.client("ec2", region_name="us-east-1")
    shape = client.meta.service_model.shape_for("InstanceType")
    return [name for name in shape.enum if NVIDIA_FAMILY.match(name)]


def test_every_nvidia_type_that_botocore_names_is_sold_or_retired() -> None:
    named = botocore_types()

    assert len(named) > 70
    assert sorted(set(named) - catalogue().keys() - retired().keys()) == []


def test_committed_file_is_what_the_script_writes() -> None:
    assert build_catalogue.OUTPUT.read_text() == build_catalogue.render()


def test_every_column_has_a_source_and_a_date() -> None:
    stated = columns()

    for column in (each.name for each in fields(instance_type("g6.xlarge"))):
        if column != "name":
            assert stated[column]["source"]
            assert date.fromisoformat(stated[column]["as_of"]) <= date(2026, 11, 21)


@pytest.mark.parametrize(
    ("name", "gpus", "model", "architecture", "nvme_gb"),
    [
        ("g4dn.xlarge", 1, "T4", "x86_64", 125),
        ("g5g.xlarge", 1, "T4g", "arm64", 0),
        ("g6.48xlarge", 8, "L4", "x86_64", 7520),
        ("p5.48xlarge", 8, "H100", "x86_64", 30400),
        ("p6-b200.48xlarge", 8, "B200", "x86_64", 30400),
        ("p6e-gb200.36xlarge", 4, "GB200", "arm64", 22500),
    ],
)
def test_types_are_described(name: str, gpus: int, model: str, architecture: str, nvme_gb: int) -> None:
    found = instance_type(name)

    assert (found.gpus, found.gpu_model, found.architecture, found.nvme_gb) == (gpus, model, architecture, nvme_gb)


def test_a_fraction_of_a_gpu_is_one_device_that_ec2_does_not_count() -> None:
    fractional = {name for name, each in catalogue().items() if each.ec2_gpus == 0}

    assert fractional == {"g6f.large", "g6f.xlarge", "g6f.2xlarge", "g6f.4xlarge", "gr6f.4xlarge"}
    assert {catalogue()[name].gpus for name in fractional} == {1}


def test_card_0_of_p6_b300_takes_no_efa() -> None:
    cards = instance_type("p6-b300.48xlarge").network_cards

    assert [card.index for card in cards if "efa-only" in card.types] == list(range(1, 17))


@pytest.mark.parametrize("name", [name for name, each in catalogue().items() if each.max_efa is not None])
def test_a_node_has_every_efa_interface_that_ec2_allows(name: str) -> None:
    hardware = instance_type(name)

    kinds = [each.kind for each in hardware.efa_interfaces]
    assert kinds.count("interface") == 1
    assert kinds.count("efa-only") == hardware.max_efa
    places = [(each.card, each.device) for each in hardware.efa_interfaces]
    assert places[0] == (0, 0)
    assert len(set(places)) == len(places)


def test_an_unknown_price_stays_unknown_and_has_its_reason() -> None:
    assert instance_type("g6.xlarge").usd_per_hour == 0.8048
    assert instance_type("p6-b300.48xlarge").usd_per_hour == 142.416
    assert instance_type("p5e.48xlarge").usd_per_hour is None


def test_a_type_has_a_price_or_the_reason_why_not() -> None:
    assert [row.name for row in catalogue().values() if (row.usd_per_hour is None) != bool(row.without_price)] == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("g6e.xlage", r"instance type 'g6e.xlage' is unknown; did you mean 'g6e.xlarge'\?"),
        ("m6i.large", r"instance type 'm6i.large' is unknown; EC2 sells no type of that name with NVIDIA GPUs"),
        ("G6.XLARGE", r"instance type 'G6.XLARGE' is unknown; did you mean 'g6.xlarge'\?"),
        ("m5.large", r"instance type 'm5.large' is unknown; EC2 sells no type"),
        ("g4ad.xlarge", r"instance type 'g4ad.xlarge' is unknown"),
        ("p3.2xlarge", r"instance type 'p3.2xlarge' is retired: .*580.*; use a size of family 'g6e'"),
        ("g3s.xlarge", r"instance type 'g3s.xlarge' is retired: .*M60.*; use a size of family 'g6'"),
        ("p2.16xlarge", r"retired: .*K80"),
        ("g2.2xlarge", r"retired: .*K520"),
    ],
)
def test_refuses(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        instance_type(name)


def test_p3dn_is_not_retired() -> None:
    assert instance_type("p3dn.24xlarge").driver_max == 580
