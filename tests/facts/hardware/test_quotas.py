"""Each type counts against the quota of its family and of the way it is bought."""

from __future__ import annotations

import pytest

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.regions import QUOTAS, find_quota


@pytest.mark.parametrize(
    ("name", "capacity_type", "code"),
    [
        ("g6.xlarge", "on-demand", "L-DB2E81BA"),
        ("gr6f.4xlarge", "on-demand", "L-DB2E81BA"),
        ("p5en.48xlarge", "on-demand", "L-417A185B"),
        ("p6-b200.48xlarge", "on-demand", "L-417A185B"),
        ("g5g.xlarge", "spot", "L-3819A6DF"),
        ("p3dn.24xlarge", "spot", "L-7212CCBC"),
        ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ("p5.48xlarge", "spot", "L-C4BD4855"),
    ],
)
def test_type_has_its_quota(name: str, capacity_type: str, code: str) -> None:
    quota = find_quota(catalogue()[name], capacity_type)

    assert quota is not None
    assert quota.code == code


@pytest.mark.parametrize(
    ("name", "capacity_type"),
    [("p6-b200.48xlarge", "spot"), ("p5.48xlarge", "capacity-block"), ("g6.xlarge", "reserved")],
)
def test_no_quota_where_none_is_documented(name: str, capacity_type: str) -> None:
    assert find_quota(catalogue()[name], capacity_type) is None


def test_every_type_has_a_quota_on_demand() -> None:
    assert all(find_quota(row, "on-demand") for row in catalogue().values())


def test_no_type_counts_against_two() -> None:
    for row in catalogue().values():
        for option in row.purchase_options:
            assert sum(each.counts(row, option) for each in QUOTAS) <= 1
