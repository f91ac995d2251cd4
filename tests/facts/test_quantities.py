"""Quantities as Kubernetes reads them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.quantities import GIB, MIB, add, millicores, quantity, resources, show, total


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        ("cpu", "100m", 100),
        ("cpu", "0.5", 500),
        ("cpu", 2, 2000),
        ("cpu", 0.1, 100),
        ("cpu", "1u", 1),
        ("memory", "1Ki", 1024),
        ("memory", "1.5Gi", 3 * GIB // 2),
        ("memory", "1e9", 10**9),
        ("memory", "1E3", 1000),
        ("memory", "2E", 2 * 10**18),
        ("memory", "512Mi", 512 * MIB),
        ("memory", "100m", 1),
        ("nvidia.com/gpu", "1", 1),
        ("nvidia.com/gpu", 0, 0),
        ("memory", "+5", 5),
        ("memory", "-5", -5),
        ("memory", ".5k", 500),
    ],
)
def test_reads_a_quantity(name: str, value: Any, amount: int) -> None:
    assert quantity(name, value) == amount


@pytest.mark.parametrize(
    "value", [None, True, "", "x", "1 Gi", "1gi", "1KI", "1ee3", "1e1000", "--1", [], {}, float("nan")]
)
def test_what_is_no_quantity_is_none(value: Any) -> None:
    assert quantity("memory", value) is None


def test_only_quantities_of_a_mapping_count() -> None:
    assert resources({"cpu": "1", "memory": "x", "nvidia.com/gpu": None}) == {"cpu": 1000}


def test_adds_what_one_part_lacks() -> None:
    assert add({"cpu": 1}, {"cpu": 2, "memory": 3}) == {"cpu": 3, "memory": 3}


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 3920, "3920m"),
        ("cpu", 4000, "4"),
        ("memory", 14162 * MIB, "13.8Gi"),
        ("memory", GIB, "1Gi"),
        ("memory", GIB - MIB, "1023Mi"),
        ("nvidia.com/gpu", 8, "8"),
    ],
)
def test_shows_as_people_write(name: str, amount: int, text: str) -> None:
    assert show(name, amount) == text


@pytest.mark.parametrize(
    ("amounts", "sum_of_all"),
    [
        (["100m"], "100m"),
        (["0.5", "250m"], "750m"),
        (["1", "1"], "2000m"),
    ],
)
def test_cpu_is_summed_in_thousandths(amounts: list[str], sum_of_all: str) -> None:
    assert total([{"cpu": each} for each in amounts]) == {"cpu": sum_of_all}


@pytest.mark.parametrize(
    ("amounts", "sum_of_all"), [(["1Gi", "1Mi"], "1025Mi"), (["1M", "1M"], "2000000"), (["64Mi"], "64Mi")]
)
def test_memory_is_summed_in_mebibytes_where_it_is_whole(amounts: list[str], sum_of_all: str) -> None:
    assert total([{"memory": each} for each in amounts]) == {"memory": sum_of_all}


@pytest.mark.parametrize(
    ("cpus", "written"), [(1, "1000m"), (0.001, "1m"), (1.005, "1005m"), (0.1 + 0.2, "300m"), (3.92, "3920m")]
)
def test_cpus_are_written_to_the_nearest_thousandth(cpus: float, written: str) -> None:
    assert millicores(cpus) == written
