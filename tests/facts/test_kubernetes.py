"""What Kubernetes fixes."""

from __future__ import annotations

import pytest

from gpu_facts.kubernetes import RESTRICTED_DOMAINS, is_under


@pytest.mark.parametrize(
    ("key", "under"),
    [
        ("kubernetes.io/os", True),
        ("node.kubernetes.io/instance-type", True),
        ("k8s.io/x", True),
        ("mykubernetes.io/os", False),
        ("example.com/kubernetes.io", False),
        ("kubernetes.io", False),
    ],
)
def test_a_label_is_under_a_domain_or_a_part_of_one(key: str, under: bool) -> None:
    assert is_under(key, RESTRICTED_DOMAINS) is under
