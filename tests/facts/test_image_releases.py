"""The software versions in releases of the EKS images, and known faults of some."""

from __future__ import annotations

import pytest

from gpu_facts.hardware.catalogue import catalogue, instance_type
from gpu_facts.image_releases import (
    DRIVER_BRANCHES,
    FAULTS,
    LTS,
    NEWEST_WITHOUT_FAULT,
    driver_branches,
    release_date,
)
from gpu_facts.versions import AMI_RELEASES, KUBERNETES

BOTH, OLD, OLDER, UNSTATED = DRIVER_BRANCHES, (LTS,), (570,), None


@pytest.mark.parametrize(
    ("release", "carried"),
    [
        ("v20260903", OLD),
        ("1.36.3-20260916", OLD),
        ("v20260917", BOTH),
        ("1.37.0-20261003", BOTH),
        ("latest", BOTH),
        (None, UNSTATED),
        ("${Token[TOKEN.7]}", UNSTATED),
    ],
)
def test_al2023_carries_both_branches_from_one_release_on(release: str | None, carried: object) -> None:
    assert driver_branches("al2023", release, "1.36") == carried


@pytest.mark.parametrize(
    ("release", "version", "carried"),
    [
        ("1.35.0-20251023", "1.35", OLD),
        ("1.34.1-20251022", "1.34", OLDER),
        ("v20251029", "1.33", OLD),
        ("v20251028", "1.33", OLDER),
        ("v20251108", "1.31", OLD),
        ("v20251107", "1.32", OLDER),
        ("v20251119", "1.30", OLDER),
        ("v20251022", None, OLDER),
        ("v20251023", None, UNSTATED),
        ("v20251120", None, OLD),
        ("v20250501", "1.33", OLDER),
        ("v20250430", "1.33", UNSTATED),
    ],
)
def test_al2023_had_an_older_branch_until_late_in_2025(release: str, version: str | None, carried: object) -> None:
    assert driver_branches("al2023", release, version) == carried


@pytest.mark.parametrize(
    ("release", "version", "fips", "carried"),
    [
        ("1.65.0", "1.37", False, OLD),
        ("1.66.0", "1.37", False, BOTH),
        ("1.66.0-18d04e52", "1.37", True, BOTH),
        ("1.67.0", "1.36", False, OLD),
        ("1.68.0", "1.36", False, UNSTATED),
        ("1.68.0", "1.36", True, BOTH),
        ("1.67.0", "1.35", False, OLD),
        ("1.68.0", "1.35", False, BOTH),
        ("latest", "1.36", False, UNSTATED),
        ("latest", "1.31", False, BOTH),
        ("1.65.0", None, False, OLD),
        ("1.68.0", None, False, UNSTATED),
        (None, "1.35", False, UNSTATED),
    ],
)
def test_bottlerocket_carries_both_by_release_and_kubernetes(
    release: str | None, version: str | None, fips: bool, carried: object
) -> None:
    assert driver_branches("bottlerocket", release, version, fips=fips) == carried


def test_other_systems_have_no_image_of_eks_with_a_driver() -> None:
    assert driver_branches("windows", "latest", "1.36") is None


def test_only_g7_needs_the_newer_branch() -> None:
    undriven = {row.family for row in catalogue().values() if not row.supports_driver(OLD)}

    assert undriven == {"g7"}
    assert all(row.is_driven for row in catalogue().values())


def test_the_last_branch_of_an_old_gpu_is_the_older_one() -> None:
    assert instance_type("p3dn.24xlarge").supports_driver(BOTH)
    assert not instance_type("p3dn.24xlarge").supports_driver((595,))


@pytest.mark.parametrize(
    ("release", "version", "faults"),
    [
        ("v20260916", "1.35", 0),
        ("v20260917", "1.35", 1),
        ("v20260923", "1.37", 1),
        ("1.35.7-20260930", "1.35", 1),
        ("1.36.3-20261003", "1.36", 0),
        ("v20261003", None, 1),
        (NEWEST_WITHOUT_FAULT, None, 0),
        ("latest", "1.35", 0),
    ],
)
def test_a_fault_is_in_releases_from_the_first_to_the_last(release: str, version: str | None, faults: int) -> None:
    assert sum(each.affects(release, version) for each in FAULTS) == faults


def test_a_fault_ends_before_the_release_that_fixed_it() -> None:
    assert all(each.first <= each.last < str(release_date(each.mended)) for each in FAULTS)


def test_no_pinned_release_has_a_known_fault() -> None:
    pinned = [AMI_RELEASES["al2023"].version, *(each.al2023.version for each in KUBERNETES.values())]

    assert [release for release in pinned if any(each.affects(release, None) for each in FAULTS)] == []
