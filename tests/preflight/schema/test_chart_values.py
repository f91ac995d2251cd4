"""Values of charts: told where the chart's own values are known, and name something of nearly that name."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.reading.objects import Chart, Origin
from gpu_preflight.schema.fields import Fields


@pytest.mark.parametrize(
    ("chart", "values", "told"),
    [
        ("karpenter", {"settings": {"clusterNam": "demo"}}, ["settings.clusterNam"]),
        # Below an empty mapping anything may stand.
        ("karpenter", {"podAnnotations": {"tolerations": "none"}}, []),
        ("karpenter", {"controller": {"resources": {"request": {}}}}, []),
        # No value of another chart is known.
        ("somebodys-karpenter", {"settings": {"clusterNam": "demo"}}, []),
    ],
)
def test_only_a_typo_of_a_known_value_is_reported(chart: str, values: dict[str, Any], told: list[str]) -> None:
    release = Chart(chart, "1.15.1", values, Origin("file", "chart"), {}, "kube-system")

    assert [each.path for each in Fields().chart_faults(release)] == told
