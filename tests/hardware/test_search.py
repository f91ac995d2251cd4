"""Types are found by what they can do, cheapest first."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import NodeShape, catalogue, find_instance_types


def names(**demands: Any) -> list[str]:
    return [each.name for each in find_instance_types(**demands)]


def test_big_gpus_with_efa_on_x86() -> None:
    found = names(min_gpu_memory_gib=80, efa=True, min_gpus=8)

    assert found[:3] == ["p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge"]
    assert "p6-b200.48xlarge" in found
    assert not {"p4d.24xlarge", "g6e.48xlarge", "p6e-gb200.36xlarge"} & set(found)


def test_the_cheapest_comes_first_and_the_unpriced_last() -> None:
    prices = [each.usd_per_hour for each in find_instance_types()]

    priced = [price for price in prices if price is not None]
    assert priced == sorted(priced)
    assert prices[: len(priced)] == priced


def test_only_what_an_image_drives() -> None:
    assert {each.family for each in find_instance_types()} == {
        each.family for each in catalogue().values() if each.architecture == "x86_64" and each.family != "g7"
    }


@pytest.mark.parametrize(
    ("demands", "found"),
    [
        ({"gpu_models": ["L4"], "max_gpus": 1, "max_usd_per_hour": 0.9, "min_gpu_memory_gib": 20}, ["g6.xlarge"]),
        ({"families": ["g5g"], "architecture": "arm64", "max_usd_per_hour": 0.5}, ["g5g.xlarge"]),
        ({"mig": True, "max_usd_per_hour": 7}, ["p5.4xlarge"]),
        ({"min_vcpus": 192, "min_memory_gib": 4096}, ["p6-b300.48xlarge"]),
        (
            {"families": ["p6e-gb200"], "architecture": "arm64", "purchase_option": "capacity-block"},
            ["p6e-gb200.36xlarge"],
        ),
    ],
)
def test_demands(demands: dict[str, Any], found: list[str]) -> None:
    assert names(**demands) == found


def test_a_shape_takes_what_was_found() -> None:
    found = find_instance_types(gpu_models=["L4", "A10G"], max_gpus=1, local_nvme=True, max_usd_per_hour=1.1)

    assert NodeShape(instance_types=found).types == found


@pytest.mark.parametrize(
    ("demands", "error", "message"),
    [
        ({"gpu_models": ["l4"]}, ValueError, r"gpu_models must be one of .*got 'l4'"),
        ({"families": "g6"}, TypeError, r"families must be a list of names, got 'g6'"),
        ({"architecture": "arm"}, ValueError, r"architecture must be one of x86_64, arm64, got 'arm'; did you mean"),
        ({"purchase_option": "free"}, ValueError, r"purchase_option must be one of capacity-block, on-demand, spot"),
        ({"min_gpus": 16}, ValueError, r"min_gpus must leave at least one instance type, got none of g4dn.xlarge"),
        (
            {"families": ["g6"], "mig": True},
            ValueError,
            r"mig must leave at least one instance type, got none of g6.xlarge, g6.2xlarge",
        ),
        ({"families": ["g7"]}, ValueError, r"the demands must leave a type that the EKS images drive, got g7.2xlarge"),
        ({"min_vcpus": "8"}, TypeError, r"min_vcpus must be a number, got '8'"),
        ({"min_gpus": None}, TypeError, r"min_gpus must be a number, got None"),
        ({"min_gpus": -1}, ValueError, r"min_gpus must be at least 0, got -1"),
        ({"efa": "true"}, TypeError, r"efa must be True or False, got 'true'"),
    ],
)
def test_refuses(demands: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"find_instance_types: {message}"):
        find_instance_types(**demands)
