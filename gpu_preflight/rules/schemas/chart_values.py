"""Values that a chart does not have."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.light_patterns import regex
from gpu_facts.schemas import source_of
from gpu_preflight.case import Case
from gpu_preflight.rules.rule import Problem, rule

# Switches in GPU243, gates of Karpenter in GPU197.
_SAID_ELSEWHERE = regex(r"(^|\.)enable$|^settings\.featureGates\.")


@rule("GPU307", "warning", source="https://helm.sh/docs/chart_template_guide/values_files/")
def value_that_the_chart_does_not_have(case: Case) -> Iterator[Problem]:
    """Value that the chart does not have.

    Helm takes any name and says nothing: what the value was for does not happen.

    Fix: Write the value as the chart's own values do.
    """
    for chart in case.cluster.charts:
        source = source_of(f"chart/{chart.name}")
        faults = (each for each in case.fields.of_chart(chart) if not _SAID_ELSEWHERE.search(each.path))
        for fault in faults:
            read = source.version.removeprefix("v") if source else ""
            text = f"chart {chart.name}: {fault.path} is no value of {read}; did you mean {fault.nearest!r}?"
            yield Problem(chart, text, unknown=(chart.version or "").removeprefix("v") != read)
