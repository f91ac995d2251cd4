"""Cluster autoscaler uses the first of several types of an empty group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.model.answer import Answer
from tests.preflight.rule_cases import FIXTURES
from tests.preflight.scheduling.test_in_a_cluster import NO, UNKNOWN, deployment, group, verdicts

SMALL, LARGE = "g6.xlarge", "g6.8xlarge"
AUTOSCALER = FIXTURES / "GPU163" / "fails_types_of_one_and_of_four_gpus.yaml"


def autoscaler() -> dict[str, Any]:
    """Cluster autoscaler, as people install it."""
    written: dict[str, Any] = yaml.safe_load(AUTOSCALER.read_text().rpartition("---\n")[2])
    return written


def asking(**requests: str) -> dict[str, Any]:
    """Pods of one GPU that ask for more beside it."""
    found = deployment("chat", 1)
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = requests
    return found


@pytest.mark.parametrize(
    ("types", "least", "requests", "expected"),
    [
        ([SMALL, LARGE], 0, {"cpu": "16"}, NO),
        ([LARGE, SMALL], 0, {"cpu": "16"}, UNKNOWN),
        # A running node has its own type.
        ([SMALL, LARGE], 1, {"cpu": "16"}, UNKNOWN),
        # More than a node has for pods, and no more than the autoscaler counts on.
        ([SMALL, LARGE], 0, {"memory": "15500Mi"}, UNKNOWN),
    ],
)
def test_the_first_type_of_an_empty_group_counts(
    tmp_path: Path, types: list[str], least: int, requests: dict[str, str], expected: Answer
) -> None:
    pool = {key: value for key, value in group("pool", "a", least, 4).items() if key != "instanceType"}

    system = {**group("system", "a", 2, kind="m6i.large"), "iam": {"withAddonPolicies": {"autoScaler": True}}}
    groups = [{**pool, "instanceTypes": types}, system]

    found = verdicts(tmp_path, groups, asking(**requests), autoscaler())["chat"]

    assert found.answer is expected
    assert any("its first type" in each.text for one in found.pools for each in one.reasons) is (expected is NO)
