"""Disruption budgets of NodePools: values that are set, absent, or set only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.cluster import Pool
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import Unknown

OPEN = Unknown("${Open}")


def pool(**spec: Any) -> Pool:
    return Pool("l4", "karpenter", Origin("a.yaml", "NodePool l4"), properties=spec)


@pytest.mark.parametrize(
    ("budget", "blocks"),
    [
        ({"nodes": "0"}, True),
        ({"nodes": 0, "reasons": ["Empty"]}, True),
        ({"nodes": "0%", "reasons": ["Drifted"]}, False),
        ({"nodes": "0", "schedule": "@daily"}, False),
        ({"nodes": "10%"}, False),
        ({"nodes": OPEN}, False),
        ({"nodes": "0", "reasons": OPEN}, False),
        ({"nodes": "0", "schedule": OPEN}, False),
        ({}, False),
    ],
)
def test_budget(budget: dict[str, Any], blocks: bool) -> None:
    [found] = pool(disruption={"budgets": [budget, "x"]}).budgets

    assert found.blocks("Empty") is blocks


@pytest.mark.parametrize("written", [None, OPEN, "x", [], {"budgets": OPEN, "spec": OPEN}])
def test_no_settings(written: Any) -> None:
    found = pool(disruption=written, template=written)

    assert (found.budgets, found.node_template, found.template_labels) == ((), {}, {})
