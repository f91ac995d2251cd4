"""Certain typos, and values that a newer service may accept."""

from __future__ import annotations

import pytest

from gpu_preflight.schema.validation import Fault, is_slip, is_typo, meant


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("ondemand", "ON_DEMAND"),
        ("AL2023_X86_64_NVIDIA", "AL2023_x86_64_NVIDIA"),
        ("AL2023_x86_64_NVIDAI", "AL2023_x86_64_NVIDIA"),
        ("AL2023_ARM64_NVIDIA", "AL2023_ARM_64_NVIDIA"),
        ("AL2023_x86_64", "AL2023_x86_64_NVIDIA"),
        ("WhenUnderutilized", "WhenEmptyOrUnderutilized"),
        ("Noschedule", "NoSchedule"),
        ("nodeselector", "nodeSelector"),
        ("NetworkCard", "NetworkCardIndex"),
    ],
)
def test_a_slip(said: str, word: str) -> None:
    assert meant(said, ["other", word]) == word
    assert is_slip(said, word)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("AL2027_x86_64_NVIDIA", "AL2023_x86_64_NVIDIA"),
        ("BOTTLEROCKET_x86_64_NEURON", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("AL2023_x86_64_NVIDIA_FIPS", "AL2023_x86_64_NVIDIA"),
        ("SPOT_BLOCK", "SPOT"),
        ("gp4", "gp3"),
        ("Terminate", "Replace"),
    ],
)
def test_what_a_service_may_have_learnt(said: str, word: str) -> None:
    assert not is_slip(said, word)


def test_nothing_is_meant_by_what_is_no_text() -> None:
    assert meant(7, ["a"]) is None
    assert meant(True, ["true"]) is None
    assert not is_slip("a", None)


def test_a_kind_is_known_by_its_letters_alone() -> None:
    assert is_typo("EC2Nodeclass", "EC2NodeClass")
    assert is_typo("NodePol", "NodePool")
    assert not is_typo("Workload", "WorkloadPriorityClass")


def test_a_long_value_is_cut() -> None:
    assert len(Fault("value", "a", "be short", "x" * 1_000).text) < 100
