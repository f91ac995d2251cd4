"""Disruption and Budget render a NodePool's fields, and reject values that the API server would reject."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpu_constructs.pools import Budget, Disruption
from tests.schemas import strict_schema

WORKDAYS = Budget(nodes="0", reasons=("Drifted",), schedule="0 8 * * 1-5", minutes=600)


def test_training_moves_no_running_pod() -> None:
    assert Disruption.training().to_manifest() == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "10m",
        "budgets": [
            {"nodes": "100%", "reasons": ["Empty"]},
            {"nodes": "0", "reasons": ["Drifted", "Underutilized"]},
        ],
    }


def test_inference_moves_a_few_at_a_time() -> None:
    says = Disruption.inference().to_manifest()

    assert says["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert {"nodes": "10%", "reasons": ["Drifted", "Underutilized"]} in says["budgets"]


def test_a_budget_may_hold_in_a_window() -> None:
    assert WORKDAYS.to_manifest() == {
        "nodes": "0",
        "reasons": ["Drifted"],
        "schedule": "0 8 * * 1-5",
        "duration": "600m",
    }


@pytest.mark.parametrize(
    ("says", "longest", "lifetime"),
    [
        ({}, None, {"expireAfter": "Never"}),
        ({"expire_after_hours": 720}, None, {"expireAfter": "720h"}),
        ({}, 504, {"expireAfter": "504h"}),
        ({"expire_after_hours": 720}, 504, {"expireAfter": "504h"}),
        ({"termination_grace_minutes": 30}, None, {"expireAfter": "Never", "terminationGracePeriod": "30m"}),
    ],
)
def test_nodes_live_as_long_as_is_said(says: dict[str, Any], longest: int | None, lifetime: dict[str, str]) -> None:
    assert Disruption(consolidation="WhenEmpty", **says).node_lifetime(longest_hours=longest) == lifetime


@pytest.mark.parametrize(
    "disruption",
    [
        Disruption.training(),
        Disruption.inference(),
        Disruption(consolidation="Balanced"),
        Disruption(consolidation="WhenEmpty", consolidate_after_minutes=0, budgets=(WORKDAYS, Budget(nodes="3"))),
    ],
)
def test_every_profile_is_valid_for_karpenters_definition(disruption: Disruption, crds: Path) -> None:
    schema = strict_schema(crds, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool"})

    spec = schema["properties"]["spec"]["properties"]
    jsonschema.validate(disruption.to_manifest(), spec["disruption"])
    template = spec["template"]["properties"]["spec"]["properties"]
    for key, value in disruption.node_lifetime().items():
        jsonschema.validate(value, template[key])


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        (
            {"nodes": "-1"},
            ValueError,
            "budget: nodes must be a number or a percentage, got '-1'; write one such as '0' or '10%'",
        ),
        ({"nodes": "101%"}, ValueError, r"got '101%'"),
        ({"nodes": 1}, ValueError, "nodes must be a number or a percentage, got 1"),
        ({"nodes": "1", "reasons": "Empty"}, TypeError, r"reasons must be a list of names, got 'Empty'"),
        ({"nodes": "1", "reasons": ("Emty",)}, ValueError, r"did you mean 'Empty'\?"),
        ({"nodes": "1", "schedule": "@daily"}, ValueError, "schedule and minutes must be given together, got '@daily'"),
        ({"nodes": "1", "minutes": 5}, ValueError, "schedule and minutes must be given together, got None and 5"),
        (
            {"nodes": "1", "schedule": "8 am", "minutes": 5},
            ValueError,
            "schedule must be a cron expression, got '8 am'",
        ),
        ({"nodes": "1", "schedule": "@daily", "minutes": 0}, ValueError, r"minutes must be at least 1, got 0"),
    ],
)
def test_refuses_a_budget(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Budget(**says)


@pytest.mark.parametrize(
    ("says", "error", "message"),
    [
        ({"consolidation": "WhenIdle"}, ValueError, r"disruption: consolidation must be one of WhenEmpty"),
        ({"budgets": [{"nodes": "0"}]}, TypeError, r"budgets must be a tuple of Budget"),
        ({"budgets": (Budget(nodes="0"),) * 51}, ValueError, r"budgets must be at most 50, got 51"),
        ({"expire_after_hours": 0}, ValueError, r"expire_after_hours must be at least 1, got 0"),
        ({"consolidate_after_minutes": "10m"}, TypeError, r"consolidate_after_minutes must be a whole number"),
    ],
)
def test_refuses_a_disruption(says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Disruption(**{"consolidation": "WhenEmpty"} | says)


@pytest.mark.parametrize(
    ("purpose", "static", "profile"),
    [
        (None, False, Disruption.training()),
        ("training", False, Disruption.training()),
        ("inference", False, Disruption.inference()),
        (None, True, Disruption.static()),
        ("inference", True, Disruption.static()),
    ],
)
def test_what_runs_on_the_nodes_says_how_they_may_go(purpose: str | None, static: bool, profile: Disruption) -> None:
    assert Disruption.suited_to(purpose, static=static) == profile


def test_accepts_the_most_budgets() -> None:
    assert len(Disruption(consolidation="WhenEmpty", budgets=(Budget(nodes="0"),) * 50).budgets) == 50
