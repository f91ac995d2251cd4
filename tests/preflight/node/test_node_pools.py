"""Which instance types the requirements of a NodePool leave, and which values of labels."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.hardware.catalogue import catalogue
from gpu_preflight.cluster.pools import node_pool
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.node.nodes import gpu_types
from tests.preflight.readers import manifest

KARPENTER = "karpenter.k8s.aws"
AUTO_MODE = "eks.amazonaws.com"


def asking(*requirements: tuple[str, str, str], group: str = KARPENTER) -> Pool:
    """A NodePool with requirements."""
    listed = [{"key": key, "operator": operator, "values": [value]} for key, operator, value in requirements]
    spec: dict[str, Any] = {"nodeClassRef": {"group": group, "name": "gpu"}, "requirements": listed}
    return node_pool(manifest("NodePool", {"template": {"spec": spec}}), (), {})


@pytest.mark.parametrize("group", [KARPENTER, AUTO_MODE])
@pytest.mark.parametrize(
    ("label", "operator", "value", "taken", "left"),
    [
        ("instance-gpu-count", "Gt", "4", "g6.48xlarge", "g6.24xlarge"),
        ("instance-gpu-count", "Gte", "4", "g6.24xlarge", "g6.xlarge"),
        ("instance-gpu-count", "Lt", "4", "g6.xlarge", "g6.24xlarge"),
        ("instance-gpu-count", "Lte", "1", "g6.16xlarge", "g6.12xlarge"),
        ("instance-cpu", "Gt", "4", "g6.2xlarge", "g6.xlarge"),
        ("instance-memory", "Lt", "32768", "g6.xlarge", "g6.2xlarge"),
        ("instance-generation", "Gt", "5", "g6.xlarge", "g5.xlarge"),
        ("instance-gpu-memory", "Gt", "40000", "g6e.xlarge", "g6.xlarge"),
    ],
)
def test_comparisons_are_checked_with_the_catalogue(
    group: str, label: str, operator: str, value: str, taken: str, left: str
) -> None:
    types = gpu_types(asking((f"{group}/{label}", operator, value), group=group))

    assert taken in types
    assert left not in types


def test_a_label_of_the_other_chooses_no_instance_type() -> None:
    assert set(gpu_types(asking((f"{AUTO_MODE}/instance-family", "In", "p5")))) == set(catalogue())


@pytest.mark.parametrize(
    ("requirements", "value", "answer"),
    [
        ([("tier", "Gt", "3")], "4", Answer.YES),
        ([("tier", "Gt", "3")], "3", Answer.NO),
        ([("tier", "Gt", "3"), ("tier", "Lte", "5")], "5", Answer.YES),
        ([("tier", "Gt", "3"), ("tier", "Lte", "5")], "6", Answer.NO),
        ([("tier", "In", "4"), ("tier", "Gt", "3")], "4", Answer.YES),
        ([("tier", "NotIn", "4"), ("tier", "Gt", "3")], "4", Answer.NO),
        ([("tier", "Gt", "${LEAST}")], "3", Answer.UNKNOWN),
    ],
)
def test_a_label_has_a_value_that_every_requirement_takes(requirements: Any, value: str, answer: Answer) -> None:
    labels = asking(*requirements).labels

    assert Requirement("tier", "In", (value,)).matches(labels) is answer
