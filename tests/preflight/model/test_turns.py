"""Whether pods of a job beyond the pools wait for each other, or for others to end."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.reading.objects import Object
from tests.preflight.readers import ORIGIN


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
    job = {"parallelism": 2, "completions": 2, **spec, "template": {"spec": {"containers": [], **pod}}}
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": job}

    [found] = workloads([Object(made, ORIGIN)])

    assert (found.takes_turns, found.may_take_turns) == (takes, may)
