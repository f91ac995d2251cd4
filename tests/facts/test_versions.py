"""A rejected Kubernetes version gets the reason, and no misleading nearest version."""

from __future__ import annotations

import re
from datetime import date

import pytest

from gpu_facts.kubernetes import SUPPORT
from gpu_facts.versions import DEFAULT_KUBERNETES, KUBERNETES, karpenter_release, kubernetes_minor

RULE = "context: kubernetes_version must be one of 1.33, 1.34, 1.35, 1.36, 1.37, got"


@pytest.mark.parametrize("version", KUBERNETES)
def test_what_is_known_is_taken(version: str) -> None:
    assert kubernetes_minor(version, who="context") is KUBERNETES[version]


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        ("1.30", ValueError, "'1.30'; EKS ended its support, use 1.33, the oldest supported version, or a newer one"),
        ("1.10", ValueError, "'1.10'; EKS ended its support, use 1.33, the oldest supported version, or a newer one"),
        # Never on EKS.
        ("1.9", ValueError, "'1.9'; use 1.33, the oldest supported version, or a newer one"),
        (
            "1.31",
            ValueError,
            "'1.31'; EKS ended its standard support on 2025-11-26, use 1.33, the oldest supported "
            "version, or a newer one",
        ),
        (
            "1.32",
            ValueError,
            "'1.32'; EKS ended its standard support on 2026-03-23, use 1.33, the oldest supported "
            "version, or a newer one",
        ),
        ("1.38", ValueError, "'1.38'; upgrade this library, which supports no version newer than 1.37"),
        ("2.0", ValueError, "'2.0'; upgrade this library, which supports no version newer than 1.37"),
        ("1.63", ValueError, "'1.63'; did you mean '1.36'?"),
        ("v1.36", ValueError, "'v1.36'; write '1.36', because EKS versions are minor versions"),
        ("1.36.2", ValueError, "'1.36.2'; write '1.36', because EKS versions are minor versions"),
        ("1.36 ", ValueError, "'1.36 '; write '1.36', because EKS versions are minor versions"),
        ("latest", ValueError, "'latest'"),
        ("", ValueError, "''"),
        (1.36, TypeError, "1.36, a number; quote it: '1.36'"),
        # YAML and JSON read 1.30 so.
        (1.3, TypeError, "1.3, a number; quote it: '1.30'"),
        (None, TypeError, "None; write '1.36'"),
        (136, TypeError, "136; write '1.36'"),
    ],
)
def test_an_unsupported_version_gets_the_reason(version: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(f'{RULE} {message}')}$"):
        kubernetes_minor(version, who="context")


def test_every_version_from_the_ended_to_the_newest_has_its_days() -> None:
    newest = max(int(each.partition(".")[2]) for each in KUBERNETES)

    assert list(SUPPORT) == [f"1.{minor}" for minor in range(31, newest + 1)]
    assert DEFAULT_KUBERNETES in KUBERNETES
    days = [
        (date.fromisoformat(each.standard_ends), date.fromisoformat(each.extended_ends)) for each in SUPPORT.values()
    ]
    assert days == sorted(days)
    assert all(extended == standard.replace(year=standard.year + 1) for standard, extended in days)


@pytest.mark.parametrize(
    ("asked", "kubernetes", "version"),
    [
        (None, "1.36", "1.14.1"),
        (None, None, "1.14.1"),
        (None, "1.37", "1.15.1"),
        ("1.15.1", "1.36", "1.15.1"),
        ("1.15.1", None, "1.15.1"),
        ("1.14.1", "1.33", "1.14.1"),
    ],
)
def test_karpenter_follows_the_cluster(asked: str | None, kubernetes: str | None, version: str) -> None:
    release = karpenter_release(asked, kubernetes, who="Test")

    assert (release.crds.version, release.controller.version) == (version, version)


@pytest.mark.parametrize(
    ("asked", "kubernetes", "message"),
    [
        ("1.14.1", "1.37", "Test: version must be one of 1.15.1 on Kubernetes 1.37, got '1.14.1'"),
        ("1.13.0", None, "Test: version must be one of 1.14.1, 1.15.1, got '1.13.0'"),
        (1.14, "1.36", "Test: version must be one of 1.14.1, 1.15.1 on Kubernetes 1.36, got 1.14"),
    ],
)
def test_another_karpenter_is_refused(asked: object, kubernetes: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        karpenter_release(asked, kubernetes, who="Test")
