"""The headline of a review: the consequence in one sentence, and its sign."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_preflight.command_line.console import renderer
from gpu_preflight.command_line.parameter_types import JUDGED
from gpu_preflight.judging.changes import ResourceChange
from gpu_preflight.judging.cluster_changes import ClusterChange
from gpu_preflight.judging.pool_changes import Evicted, PoolChange
from gpu_preflight.judging.review import Fate, Move, Review, ReviewLimits
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.folder_files import Skipped
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.report import markdown
from gpu_preflight.report.review_headline import price_note, usd
from gpu_preflight.report.review_view import review_view
from gpu_preflight.report.review_wording import cost_rows, quota_commands
from tests.preflight.report import samples

DRAINED = PoolChange("demo", "Train", "managed", "replaced", drains=True, evicted=(Evicted("Job a", 1, "runs"),))
PASS, FAIL, ATTENTION = "✅", "❌", "⚠️"


def cost(least: float, now: float, most: float | None, **changes: Any) -> Any:
    """The cost of a pool."""
    figures = {"min_usd_per_hour": least, "requested_usd_per_hour": now, "max_usd_per_hour": most}
    return samples.cost(**{**figures, **changes})


def money(before: Any, after: Any) -> dict[str, Any]:
    """A change of the costs of pools."""
    return {"costs_before": (before,), "costs_after": (after,)}


@pytest.mark.parametrize(
    ("changes", "sign", "headline"),
    [
        ({}, PASS, "no change for GPUs"),
        ({"changes": (ResourceChange("Service a", "added", ""),)}, PASS, "no change for GPUs (1 added)"),
        ({"pools": (DRAINED,)}, ATTENTION, "1 pool replaced (every node is drained), 1 workload evicted"),
        (
            {"pools": (replace(DRAINED, evicted=(Evicted("Job a", None, "runs"),)),)},
            ATTENTION,
            "1 pool replaced (every node is drained), 1 workload that may be evicted",
        ),
        (
            {"pools": (PoolChange("demo", "a", "managed", "removed"),)},
            ATTENTION,
            # eksctl leaves its nodes.
            "1 pool removed",
        ),
        (
            {"pools": (PoolChange("demo", "a", "karpenter", "changed", drains=True),)},
            ATTENTION,
            "all nodes of 1 pool replaced",
        ),
        ({"pools": (PoolChange("demo", "a", "karpenter", "added"),)}, PASS, "1 pool added"),
        ({"pools": (PoolChange("demo", "a", "managed", "refused"),)}, FAIL, "1 rejected change"),
        ({"control_planes": (ClusterChange("demo", "replaced", ""),)}, ATTENTION, "1 cluster replaced"),
        ({"changes": (ResourceChange("Job a", "destructive", ""),)}, ATTENTION, "1 destructive change"),
        ({"changes": (ResourceChange("A::B::C a", "unknown", ""),)}, ATTENTION, "1 unknown change"),
        ({"moves": (Move("Kubernetes of demo", "1.35", "1.36"),)}, PASS, "Kubernetes 1.35 -> 1.36"),
        ({"fates": (Fate("Job a", Answer.YES, Answer.NO, "runs", "pending"),)}, FAIL, "1 workload would stay Pending"),
        ({"fates": (Fate("Job a", None, Answer.UNKNOWN, None, "unknown"),)}, ATTENTION, "1 workload may not run"),
        ({"fates": (Fate("Job a", Answer.NO, Answer.YES, "pending", "runs"),)}, PASS, "1 workload more can run"),
        ({"fates": (Fate("Job a", Answer.YES, None, "runs", None),)}, PASS, "1 workload removed"),
        (
            money(cost(1, 2, 2), cost(1, 2, 4)),
            PASS,
            "$0 to +$1,460 a month ($0 to +$2.00 an hour; on-demand list prices of us-east-1)",
        ),
        (
            money(cost(1, 1, 1), cost(3, 3, 3, max_gpus=20)),
            PASS,
            "+4 GPUs, +$1,460 a month (+$2.00 an hour; on-demand list prices of us-east-1)",
        ),
        (
            money(cost(0, 0, 4), cost(1, 1, 3)),
            PASS,
            "+$730 at least and -$730 at most a month (+$1.00 at least and -$1.00 at most an hour; "
            "on-demand list prices of us-east-1)",
        ),
        (
            money(cost(0, 1, 4), cost(0, 2, 4)),
            PASS,
            "+$730 a month now (+$1.00 an hour; on-demand list prices of us-east-1)",
        ),
        (
            money(cost(0, 0, 4), cost(0, 0, None, max_gpus=None, unknown="it has no known bound")),
            ATTENTION,
            "cost unknown (pool Train: it has no known bound)",
        ),
        (
            money(cost(0, 1, 4), cost(0, 1, 4, capacity_types=("spot",))),
            PASS,
            "cost unknown (pool Train: on-demand -> Spot; only on-demand prices are known)",
        ),
        ({"new": (samples.finding(),)}, FAIL, "1 new error"),
        ({"new": (samples.finding(unknown=True),)}, ATTENTION, "1 new possible error"),
        ({"new": (samples.finding(severity="warning"),)}, PASS, "1 new warning"),
        (
            {"new": (samples.finding(acknowledged="small images"),)},
            # It passes, and an error is hidden.
            ATTENTION,
            "no change for GPUs; 1 error hidden by acknowledgements",
        ),
        ({"standing": (samples.finding(),)}, FAIL, "1 error stays"),
        ({"fixed": (samples.finding(),)}, PASS, "1 error fixed"),
    ],
)
def test_a_headline(changes: Any, sign: str, headline: str) -> None:
    written = markdown.render(review_view(Review(**changes))).splitlines()[0]

    assert written == f"### {sign} GPU review: {headline}"


def test_a_limit_is_in_the_headline_and_a_row() -> None:
    change = Review(**money(cost(0, 0, 50), cost(0, 0, 69.39)))
    limits = ReviewLimits(max_usd_per_month=40_000, max_added_gpus=4)

    view = review_view(change, limits)

    assert view.outcome == "fail"
    assert "limit $40,000 a month exceeded by $10,655" in view.headline
    assert "limit +4" not in view.headline
    written = markdown.render(view)
    assert "| Limit $40,000 a month |  | $50,655 a month | exceeded by $10,655 |" in written
    assert "| Limit +4 GPUs |  | +0 GPUs | kept |" in written


@pytest.mark.parametrize(
    ("types", "cells"),
    [
        (("p4d.24xlarge",), ("192", "unknown", "unknown")),
        ((), ("192", "unknown", "unknown")),
        # It needs another quota.
        (("g6.xlarge",), ("192", "0", "-192")),
    ],
)
def test_a_pool_without_a_bound_does_not_need_fewer_vcpus(types: Any, cells: Any) -> None:
    before, after = samples.cost(), replace(samples.UNBOUNDED, pool="Train", instance_types=types)
    view = review_view(Review(costs_before=(before,), costs_after=(after,)))

    [row] = (each for each in cost_rows(view) if each[0].startswith("vCPUs"))

    assert row[1:] == cells


@pytest.mark.parametrize("form", JUDGED)
def test_each_format_names_the_parts_of_the_new_version_that_are_not_read(form: str) -> None:
    unread = Unread(Origin("app.yaml", "Stack/Hidden"), "its manifest is a parameter")
    view = review_view(Review(unread=(unread,), skipped=(Skipped("too large", ("huge.yaml",)),)))

    written = renderer(form)(view)

    assert (view.outcome, view.needs_attention) == ("unknown", True)
    assert view.headline == "GPU review: 1 part not read"
    assert "its manifest is a parameter" in written
    assert form == "concise" or "huge.yaml" in written


def test_a_missing_price_fails_a_limit_as_unknown() -> None:
    spill = cost(0, 0, None, unknown="p6e.36xlarge has no list price in US dollars")

    view = review_view(Review(costs_before=(spill,), costs_after=(spill,)), ReviewLimits(max_usd_per_month=1e9))

    assert view.outcome == "fail"
    reason = "fails, as the value is unknown (pool Train: p6e.36xlarge has no list price in US dollars)"
    assert f"limit $1,000,000,000 a month {reason}" in view.headline


@pytest.mark.parametrize(
    ("costs", "note"),
    [
        ([], ""),
        ([samples.cost()], "on-demand list prices of us-east-1"),
        ([samples.cost(region="eu-west-1")], "on-demand list prices of us-east-1, not of eu-west-1"),
        (
            [samples.cost(region="eu-west-1", capacity_types=("spot",))],
            "on-demand list prices of us-east-1, not Spot prices of eu-west-1",
        ),
        ([samples.cost(capacity_types=("spot", "on-demand"))], "on-demand list prices of us-east-1, not Spot prices"),
        ([samples.cost(region=None)], "on-demand list prices of us-east-1; the region isn't known"),
        (
            [samples.cost(region="us-gov-west-1", price_list="us-gov-west-1"), samples.cost()],
            "on-demand list prices of us-gov-west-1 and us-east-1",
        ),
    ],
)
def test_which_prices_they_are(costs: Any, note: str) -> None:
    assert price_note(costs) == note


def test_a_quota_command_can_be_copied_and_runs_nothing_of_a_name() -> None:
    costs = samples.cost(region="eu-west-1"), samples.cost("b", region="x; rm -rf /", vcpus={"L-DB2E81BA": 8})

    commands = [command for _, command in quota_commands(review_view(Review(costs_after=costs)))]

    begin = "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code"
    assert commands == [
        f"{begin} L-417A185B --desired-value 192 --region eu-west-1",
        f"{begin} L-DB2E81BA --desired-value 8 --region REGION",
    ]


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0"), (8.454, "+$8.45"), (-8.454, "-$8.45"), (99.994, "+$99.99"), (100, "+$100"), (-1234.6, "-$1,235")],
)
def test_an_amount(amount: float, text: str) -> None:
    assert usd(amount, sign=True) == text
