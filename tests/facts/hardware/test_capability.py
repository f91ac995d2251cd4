"""Instance types are found by capability, and by keyword arguments that combine several."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import NodeShape, find_instance_types
from gpu_facts.hardware.capability import Bound, Capability, matching
from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.image_releases import LTS


@pytest.mark.parametrize(
    ("demands", "names"),
    [
        ({"models": ("h200",)}, {"p5e.48xlarge", "p5en.48xlarge"}),
        ({"families": ("g6",), "gpus": (Bound(">", 4),)}, {"g6.48xlarge"}),
        ({"families": ("p4de", "p4d")}, {"p4d.24xlarge", "p4de.24xlarge"}),
        ({"families": ("g5g",), "architecture": "x86_64"}, set()),
        ({"models": ("L4",), "gpus": (Bound(">=", 2), Bound("<", 8))}, {"g6.12xlarge", "g6.24xlarge"}),
        ({"families": ("g6",), "memory_gib": (Bound("<=", 16),)}, {"g6.xlarge"}),
        ({"families": ("g6",), "vcpus": (Bound("=", 192),)}, {"g6.48xlarge"}),
        ({"families": ("g6",), "max_usd_per_hour": 0.9}, {"g6.xlarge"}),
    ],
)
def test_demands(demands: dict[str, Any], names: set[str]) -> None:
    assert {each.name for each in matching(Capability(**demands))} == names


@pytest.mark.parametrize("switch", [{"efa": True}, {"mig": True}, {"local_nvme": True}])
def test_switches_leave_some_types_and_take_others(switch: dict[str, Any]) -> None:
    found = matching(Capability(**switch))

    assert 0 < len(found) < len(catalogue())


def test_bought_as_a_block() -> None:
    found = matching(Capability(purchase_option="capacity-block"))

    assert all("capacity-block" in each.purchase_options for each in found)
    assert "g6.xlarge" not in {each.name for each in found}


def test_memory_of_a_gpu_is_in_gib() -> None:
    assert {each.gpu_model for each in matching(Capability(gpu_memory_gib=(Bound("=", 80),)))} >= {"H100"}


def test_orders() -> None:
    family = Capability(families=("g6", "p5e"))
    by_price, by_gpus = matching(family), matching(family, order="gpus")

    assert by_price[0].name == "g6.xlarge"
    assert by_price[-1].usd_per_hour is None
    assert [each.gpus for each in by_gpus] == sorted((each.gpus for each in by_gpus), reverse=True)
    assert [each.name for each in matching(family, order="name")] == sorted(each.name for each in by_price)


@pytest.mark.parametrize(
    ("demands", "message"),
    [
        ({"models": ("H1000",)}, r"instances: gpu must be one of .*, got 'H1000'; did you mean 'H100'\?"),
        ({"families": ("g6x",)}, r"instances: family must be one of .*, got 'g6x'; did you mean"),
    ],
)
def test_refuses_unknown_names(demands: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Capability(**demands)


def found_names(**demands: Any) -> list[str]:
    return [each.name for each in find_instance_types(**demands)]


def test_big_gpus_with_efa_on_x86() -> None:
    found = found_names(min_gpu_memory_gib=80, efa=True, min_gpus=8)

    assert found[:3] == ["p4de.24xlarge", "g7e.48xlarge", "p5.48xlarge"]
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
        ({"mig": True, "max_usd_per_hour": 7, "families": ["p5", "p4d"]}, ["p5.4xlarge"]),
        ({"min_vcpus": 192, "min_memory_gib": 4096}, ["p6-b300.48xlarge"]),
        (
            {"families": ["p6e-gb200"], "architecture": "arm64", "purchase_option": "capacity-block"},
            ["p6e-gb200.36xlarge"],
        ),
    ],
)
def test_arguments(demands: dict[str, Any], found: list[str]) -> None:
    assert found_names(**demands) == found


def test_it_finds_what_a_capability_finds() -> None:
    wanted = Capability(gpu_memory_gib=(Bound(">=", 80),), efa=True, architecture="x86_64", purchase_option="on-demand")

    assert found_names(min_gpu_memory_gib=80, efa=True) == [
        each.name for each in matching(wanted) if each.supports_driver((LTS,))
    ]


def test_types_of_the_newer_driver_come_where_nothing_else_is_left() -> None:
    assert {row.family for row in find_instance_types(families=["g7", "g7e"])} == {"g7e"}
    assert {row.family for row in find_instance_types(families=["g7"])} == {"g7"}


def test_what_no_image_drives_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_facts.hardware.catalogue.DRIVER_BRANCHES", (LTS,))

    with pytest.raises(
        ValueError,
        match=r"find_instance_types: the arguments must leave a type that the EKS images support, got g7.12xlarge; use "
        r"NodeShape\(instance_types=..., image=CustomImage\(...\)\)",
    ):
        find_instance_types(families=["g7"], max_gpus=2, min_vcpus=48)


def test_a_shape_takes_what_was_found() -> None:
    found = find_instance_types(gpu_models=["L4", "A10G"], max_gpus=1, local_nvme=True, max_usd_per_hour=1.1)

    assert NodeShape(instance_types=found).rows == found


@pytest.mark.parametrize(
    ("demands", "error", "message"),
    [
        ({"families": []}, ValueError, r"families must name at least one, got \[\]; leave it out for any"),
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
        ({"min_vcpus": "8"}, TypeError, r"min_vcpus must be a number, got '8'"),
        ({"min_gpus": None}, TypeError, r"min_gpus must be a number, got None"),
        ({"min_gpus": -1}, ValueError, r"min_gpus must be at least 0, got -1"),
        ({"efa": "true"}, TypeError, r"efa must be True or False, got 'true'"),
    ],
)
def test_refuses_arguments(demands: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"find_instance_types: {message}"):
        find_instance_types(**demands)
