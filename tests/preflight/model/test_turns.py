"""Whether pods of a job beyond the pools wait for each other, or for others to end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.preflight.readers import workload


@pytest.mark.parametrize(
    ("spec", "pod", "takes", "may"),
    [
        ({}, {}, True, False),
        ({"completionMode": "Indexed"}, {}, False, True),
        ({"completionMode": "Indexed"}, {"subdomain": "workers"}, False, False),
    ],
)
def test_pods_that_find_each_other_by_name_need_one_another(
    spec: dict[str, Any], pod: dict[str, Any], takes: bool, may: bool
) -> None:
    found = workload(
        "Job", {"parallelism": 2, "completions": 2, **spec, "template": {"spec": {"containers": [], **pod}}}
    )

    assert (found.takes_turns, found.may_take_turns) == (takes, may)
