"""Queries of the catalogue, compared with the catalogue read row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_facts.hardware.capability import (
    Bound,
    Capability,
    Names,
    find_instance_types,
    matching,
    names,
    without_a_price,
)
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.image_releases import LTS

EXAMPLES = settings(max_examples=150)
ROWS = list(catalogue().values())
GIB = 1024


def test_the_names_are_those_of_the_catalogue() -> None:
    assert names() == Names(
        models=tuple(sorted({each.gpu_model for each in ROWS})),
        families=tuple(sorted({each.name.split(".")[0] for each in ROWS})),
        purchase_options=("capacity-block", "on-demand", "spot"),
    )


FIGURES: dict[str, Callable[[InstanceType], Any]] = {
    "gpu_memory_gib": lambda row: row.gpu_memory_mib and row.gpu_memory_mib / GIB,
    "gpus": lambda row: row.gpus,
    "vcpus": lambda row: row.vcpus,
    "memory_gib": lambda row: row.memory_mib and row.memory_mib / GIB,
}


@pytest.mark.parametrize("figure", FIGURES)
@EXAMPLES
@given(st.data())
def test_a_bound_is_kept_by_the_types_whose_figure_keeps_it(figure: str, data: st.DataObject) -> None:
    """Both sides of a figure of some type, and the figure itself; a type that states none is outside of every limit."""
    of = FIGURES[figure]
    known = sorted({of(row) for row in ROWS if of(row) is not None})
    limit, sign = data.draw(st.sampled_from(known)), data.draw(st.sampled_from((">=", ">", "<=", "<", "=")))
    compares = {
        ">=": lambda amount: amount >= limit,
        ">": lambda amount: amount > limit,
        "<=": lambda amount: amount <= limit,
        "<": lambda amount: amount < limit,
        "=": lambda amount: amount == limit,
    }
    bounds: dict[str, Any] = {figure: (Bound(sign, limit),)}

    found = matching(Capability(**bounds), order="name")

    assert [row.name for row in found] == sorted(
        row.name for row in ROWS if of(row) is not None and compares[sign](of(row))
    )


@pytest.mark.parametrize(
    ("demand", "has"),
    [
        ({}, lambda row: True),
        ({"models": ("h100", "L4")}, lambda row: row.gpu_model in ("H100", "L4")),
        ({"families": ("p5", "g6f")}, lambda row: row.name.split(".")[0] in ("p5", "g6f")),
        ({"architecture": "arm64"}, lambda row: row.architecture == "arm64"),
        ({"architecture": "x86_64"}, lambda row: row.architecture == "x86_64"),
        ({"efa": True}, lambda row: row.max_efa is not None and row.max_efa >= 1),
        ({"mig": True}, lambda row: row.mig),
        ({"local_nvme": True}, lambda row: row.nvme_disks >= 1),
        ({"purchase_option": "capacity-block"}, lambda row: "capacity-block" in row.purchase_options),
        ({"purchase_option": "spot"}, lambda row: "spot" in row.purchase_options),
        ({"max_usd_per_hour": 0.8048}, lambda row: row.usd_per_hour is not None and row.usd_per_hour <= 0.8048),
        ({"max_usd_per_hour": 0}, lambda row: False),
        ({"models": ("L4",), "families": ("g6", "p5")}, lambda row: row.name.startswith("g6.")),
    ],
)
def test_a_demand_is_met_by_the_types_that_have_it(demand: dict[str, Any], has: Any) -> None:
    assert {row.name for row in matching(Capability(**demand))} == {row.name for row in ROWS if has(row)}


def test_several_capabilities_are_all_met() -> None:
    found = matching(Capability(efa=True), Capability(families=("g6",)), Capability(gpus=(Bound("=", 4),)))

    assert {row.name for row in found} == {"g6.12xlarge", "g6.24xlarge"}


def test_orders_are_of_price_of_gpus_and_of_names() -> None:
    def priced(row: InstanceType) -> tuple[bool, float]:
        return row.usd_per_hour is None, row.usd_per_hour or 0

    assert matching(Capability()) == sorted(ROWS, key=lambda row: (*priced(row), row.name))
    assert matching(Capability(), order="gpus") == sorted(ROWS, key=lambda row: (-row.gpus, *priced(row), row.name))
    assert matching(Capability(), order="name") == sorted(ROWS, key=lambda row: row.name)


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (
            {"models": ("L4", "H1000")},
            f"instances: gpu must be one of {', '.join(names().models)}, got 'H1000'; did you mean 'H100'?",
        ),
        (
            {"families": ("g6", "g6x")},
            f"instances: family must be one of {', '.join(names().families)}, got 'g6x'; did you mean 'g6'?",
        ),
    ],
)
def test_refuses_names_that_no_type_has(demand: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="must be one of") as refused:
        Capability(**demand)

    assert str(refused.value).startswith(message[:-6])


DEMANDS = st.fixed_dictionaries(
    {},
    optional={
        "gpu_models": st.sampled_from((["L4"], ["H100", "A10G"], ["GB200"])),
        "families": st.sampled_from((["g6", "g5"], ["p5"], ["g7", "g7e"])),
        "min_gpus": st.sampled_from((0, 1, 2, 8)),
        "max_gpus": st.sampled_from((None, 1, 4)),
        "min_gpu_memory_gib": st.sampled_from((0, 0.5, 24, 80)),
        "min_vcpus": st.sampled_from((0, 4, 192)),
        "min_memory_gib": st.sampled_from((0, 16, 1024)),
        "architecture": st.sampled_from(("x86_64", "arm64")),
        "efa": st.booleans(),
        "mig": st.booleans(),
        "local_nvme": st.booleans(),
        "max_usd_per_hour": st.sampled_from((None, 0.8048, 5, 60)),
        "purchase_option": st.sampled_from(("on-demand", "spot", "capacity-block")),
    },
)


def is_found(
    row: InstanceType,
    *,
    gpu_models: Any = None,
    families: Any = None,
    min_gpus: int = 1,
    max_gpus: int | None = None,
    min_gpu_memory_gib: float = 0,
    min_vcpus: int = 0,
    min_memory_gib: float = 0,
    architecture: str = "x86_64",
    efa: bool = False,
    mig: bool = False,
    local_nvme: bool = False,
    max_usd_per_hour: float | None = None,
    purchase_option: str = "on-demand",
) -> bool:
    """Whether a row meets every demand, one after the other."""
    return (
        (gpu_models is None or row.gpu_model in gpu_models)
        and (families is None or row.family in families)
        and row.gpus >= min_gpus
        and (max_gpus is None or row.gpus <= max_gpus)
        and (row.gpu_memory_mib or 0) >= min_gpu_memory_gib * GIB
        and (row.vcpus or 0) >= min_vcpus
        and (row.memory_mib or 0) >= min_memory_gib * GIB
        and row.architecture == architecture
        and not (efa and not row.max_efa)
        and not (mig and not row.mig)
        and not (local_nvme and not row.nvme_disks)
        and (max_usd_per_hour is None or (row.usd_per_hour is not None and row.usd_per_hour <= max_usd_per_hour))
        and purchase_option in row.purchase_options
    )


@EXAMPLES
@given(DEMANDS)
def test_what_is_found_is_what_meets_every_demand_cheapest_first(demands: dict[str, Any]) -> None:
    met = [row for row in matching(Capability()) if is_found(row, **demands)]
    expected = [row for row in met if row.supports_driver((LTS,))] or met

    if expected:
        assert find_instance_types(**demands) == tuple(expected)
    else:
        with pytest.raises(ValueError, match="must leave"):
            find_instance_types(**demands)


@pytest.mark.parametrize(
    ("demands", "error", "message"),
    [
        ({"families": []}, ValueError, "families must name at least one, got []; leave it out for any"),
        ({"gpu_models": ()}, ValueError, "gpu_models must name at least one, got (); leave it out for any"),
        ({"families": "g6"}, TypeError, "families must be a list of names, got 'g6'; write ['g6']"),
        ({"gpu_models": 7}, TypeError, "gpu_models must be a list of names, got 7"),
        ({"gpu_models": ["l4"]}, ValueError, f"gpu_models must be one of {', '.join(names().models)}, got 'l4'"),
        (
            {"families": ["g6", "g6x"]},
            ValueError,
            f"families must be one of {', '.join(names().families)}, got 'g6x'",
        ),
        ({"architecture": "arm"}, ValueError, "architecture must be one of x86_64, arm64, got 'arm'"),
        (
            {"purchase_option": "free"},
            ValueError,
            "purchase_option must be one of capacity-block, on-demand, spot, got 'free'",
        ),
        *(
            ({argument: wrong}, TypeError, f"{argument} must be a number, got {wrong!r}; write it as a number")
            for argument in ("min_gpus", "max_gpus", "min_gpu_memory_gib", "min_vcpus", "min_memory_gib")
            for wrong in ("8", True)
        ),
        *(
            ({argument: -0.5}, ValueError, f"{argument} must be at least 0, got -0.5; raise it")
            for argument in ("min_gpus", "max_gpus", "min_gpu_memory_gib", "min_vcpus", "min_memory_gib")
        ),
        ({"max_usd_per_hour": "7"}, TypeError, ("max_usd_per_hour must be a number, got '7'; write it as a number")),
        ({"max_usd_per_hour": -1}, ValueError, "max_usd_per_hour must be at least 0, got -1; raise it"),
        *(
            ({argument: wrong}, TypeError, f"{argument} must be True or False, got {wrong!r}")
            for argument in ("efa", "mig", "local_nvme")
            for wrong in (1, None)
        ),
        (
            {"families": ["p5"], "max_gpus": 0},
            ValueError,
            "max_gpus must leave at least one instance type, got none of p5.4xlarge, p5.48xlarge",
        ),
        (
            {"families": ["p5"], "min_gpus": 9},
            ValueError,
            "min_gpus must leave at least one instance type, got none of p5.4xlarge, p5.48xlarge",
        ),
        (
            {"families": ["g6", "g5g"], "gpu_models": ["T4g"], "max_usd_per_hour": 9, "purchase_option": "spot"},
            ValueError,
            "architecture must leave at least one instance type, got none of g5g.xlarge, g5g.2xlarge, g5g.4xlarge, "
            "g5g.8xlarge, g5g.16xlarge, g5g.metal",
        ),
    ],
)
def test_refuses_demands(demands: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        find_instance_types(**demands)

    assert str(refused.value).partition("; did you mean")[0] == f"find_instance_types: {message}"


NOTHING: dict[str, Any] = {"min_gpu_memory_gib": 0, "min_vcpus": 0, "min_memory_gib": 0, "local_nvme": False}


@pytest.mark.parametrize("demands", [{}, NOTHING])
@pytest.mark.parametrize(
    ("chosen", "name"),
    [
        (
            {"families": ["p6e-gb200"], "architecture": "arm64", "purchase_option": "capacity-block"},
            "p6e-gb200.36xlarge",
        ),
        ({"families": ["g5g"], "architecture": "arm64", "max_usd_per_hour": 0.5}, "g5g.xlarge"),
    ],
)
def test_a_demand_of_nothing_is_none(chosen: dict[str, Any], name: str, demands: dict[str, Any]) -> None:
    """Also a type of which no source states the figure is taken, and one that has nothing of it."""
    assert [row.name for row in find_instance_types(**chosen, **demands)] == [name]


ARM: dict[str, Any] = {"families": ["g5g"], "architecture": "arm64"}


@pytest.mark.parametrize(
    ("before", "argument", "value"),
    [
        ({"gpu_models": ["L4"]}, "families", ["p5"]),
        ({}, "min_gpus", 99),
        ({}, "max_gpus", 0),
        ({}, "min_gpu_memory_gib", 9_999),
        ({}, "min_vcpus", 9_999),
        ({}, "min_memory_gib", 99_999),
        ({"families": ["g6"]}, "architecture", "arm64"),
        (ARM, "efa", True),
        (ARM, "mig", True),
        (ARM, "local_nvme", True),
        (ARM, "max_usd_per_hour", 0.4),
        (ARM, "purchase_option", "capacity-block"),
    ],
)
def test_the_demand_that_leaves_none_is_named(before: dict[str, Any], argument: str, value: Any) -> None:
    with pytest.raises(
        ValueError, match=f"^find_instance_types: {argument} must leave at least one instance type, got"
    ):
        find_instance_types(**{**before, argument: value})


def test_a_price_of_nothing_is_a_price() -> None:
    with pytest.raises(ValueError, match="max_usd_per_hour must leave at least one instance type, got none of g4dn"):
        find_instance_types(max_usd_per_hour=0)


def test_signs_with_and_without_spaces_are_one_bound() -> None:
    assert Bound.parse(" >= 80.5 ") == Bound.parse(">=80.5") == Bound(">=", 80.5)
    assert Bound.parse("8") == Bound("", 8)


@pytest.mark.parametrize("text", ["lots", "8 8"])
def test_a_bound_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number") as refused:
        Bound.parse(text)

    assert str(refused.value) == f"must be a number, with >=, >, =, <= or < before it, got {text!r}"


def test_a_highest_price_leaves_out_what_has_none() -> None:
    cheap = Capability(max_usd_per_hour=1, families=("p5e", "p5", "g6"))

    assert [row.name for row in without_a_price(cheap)] == ["p5e.48xlarge"]
    assert list(without_a_price(replace(cheap, families=("g6",)))) == []
    assert list(without_a_price(Capability(families=("p5e",)))) == []
