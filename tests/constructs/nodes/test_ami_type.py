"""Which image a managed group boots, and which releases of it EKS has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.nodes.ami_type import LATEST, Release, nvidia_ami_type, pinned_release
from gpu_facts.versions import KUBERNETES


def cluster(version: str | None = "1.36") -> ClusterRef:
    """A cluster as far as a release minds it: the version that its template states."""
    return cast("ClusterRef", SimpleNamespace(stated_version=version))


def release(given: Any, version: str | None = "1.36", system: Any = "al2023") -> Release:
    return pinned_release("Test/Nodes", cluster(version), system, given)


@pytest.mark.parametrize(
    ("system", "architecture", "ami_type"),
    [
        ("al2023", "x86_64", "AL2023_x86_64_NVIDIA"),
        ("al2023", "arm64", "AL2023_ARM_64_NVIDIA"),
        ("bottlerocket", "x86_64", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("bottlerocket", "arm64", "BOTTLEROCKET_ARM_64_NVIDIA"),
    ],
)
def test_every_system_has_an_image_with_the_driver_for_every_architecture(
    system: Any, architecture: Any, ami_type: str
) -> None:
    assert nvidia_ami_type(system, architecture) == ami_type


@pytest.mark.parametrize("version", KUBERNETES)
def test_a_group_of_al2023_boots_the_release_of_its_own_kubernetes(version: str) -> None:
    found = release(None, version)

    assert found == Release(kubernetes_version=version, ami_release=KUBERNETES[version].al2023.version)
    assert found.ami_release is not None
    assert release(found.ami_release, version) == found


@pytest.mark.parametrize(
    ("given", "version", "system", "found"),
    [
        (LATEST, "1.36", "al2023", Release(kubernetes_version="1.36")),
        (LATEST, None, "al2023", Release()),
        (LATEST, "1.36", "bottlerocket", Release(kubernetes_version="1.36")),
        (None, None, "al2023", Release()),
        (None, "1.99", "al2023", Release(kubernetes_version="1.99")),
        (None, "1.36", "bottlerocket", Release(kubernetes_version="1.36")),
        (
            "1.36.0-20260101",
            "1.36",
            "al2023",
            Release(kubernetes_version="1.36", ami_release="1.36.0-20260101"),
        ),
        ("1.36.0-20260101", None, "al2023", Release(ami_release="1.36.0-20260101")),
        # A release of Bottlerocket is one of every minor.
        (
            "1.34.0-18d04e52",
            "1.36",
            "bottlerocket",
            Release(kubernetes_version="1.36", ami_release="1.34.0-18d04e52"),
        ),
        ("1.34.0-18d04e52", None, "bottlerocket", Release(ami_release="1.34.0-18d04e52")),
        ("${Token[TOKEN.7]}", None, "al2023", Release(ami_release="${Token[TOKEN.7]}")),
        (
            "${Token[TOKEN.7]}",
            "1.36",
            "bottlerocket",
            Release(kubernetes_version="1.36", ami_release="${Token[TOKEN.7]}"),
        ),
    ],
)
def test_what_a_group_boots(given: Any, version: str | None, system: str, found: Release) -> None:
    assert release(given, version, system) == found


@pytest.mark.parametrize(
    ("given", "version", "system", "error", "message"),
    [
        (
            7,
            "1.36",
            "al2023",
            TypeError,
            r"Test/Nodes: ami_release must be a string, got 7; write one such as '1\.36\.3-20260903'",
        ),
        (
            7,
            None,
            "bottlerocket",
            TypeError,
            r"Test/Nodes: ami_release must be a string, got 7; write one such as '1\.34\.0-18d04e52'",
        ),
        (
            "1.36.2",
            "1.36",
            "al2023",
            ValueError,
            r"Test/Nodes: ami_release must be 'latest' or a release name of EKS for al2023, got '1\.36\.2'; write "
            r"one such "
            r"as '1\.36\.3-20260903'",
        ),
        (
            "1.34.0-18d04e5",
            None,
            "bottlerocket",
            ValueError,
            r"Test/Nodes: ami_release must be 'latest' or a release name of EKS for bottlerocket, got "
            r"'1\.34\.0-18d04e5'; "
            r"write one such as '1\.34\.0-18d04e52'",
        ),
        (
            "1.3.2-20260714",
            "1.36",
            "al2023",
            ValueError,
            r"Test/Nodes: ami_release must be for Kubernetes 1\.36 of the cluster, or for one of the 3 "
            r"minor versions before it, got '1\.3\.2-20260714'; use another release \[GPU093\]",
        ),
        (
            "1.36.3-20260903",
            "1.3",
            "al2023",
            ValueError,
            "Test/Nodes: ami_release must be for Kubernetes 1.3 of the cluster, or",
        ),
    ],
)
def test_refuses_what_eks_has_not(
    given: Any, version: str | None, system: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{message}"):
        release(given, version, system)


@pytest.mark.parametrize(
    ("given", "version"),
    [("1.36.3-20260903", "1.36"), ("1.35.6-20260714", "1.35"), ("1.33.13-20260714", "1.33")],
)
def test_a_group_may_stay_behind_its_cluster(given: str, version: str) -> None:
    kept = release(given, "1.36", "al2023")

    assert (kept.kubernetes_version, kept.ami_release) == (version, given)


@pytest.mark.parametrize("given", ["1.37.1-20261023", "1.32.9-20260714", "2.36.2-20260714"])
def test_no_group_is_ahead_of_its_cluster_or_more_than_three_behind(given: str) -> None:
    with pytest.raises(ValueError, match=f"one of the 3 minor versions before it, got '{given}'"):
        release(given, "1.36", "al2023")


def test_a_release_that_is_known_at_deployment_is_of_the_clusters_version() -> None:
    assert release("${Token[TOKEN.7]}", "1.36", "al2023").kubernetes_version == "1.36"
