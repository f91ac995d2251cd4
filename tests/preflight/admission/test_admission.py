"""Every check of a pod includes the effects of admission and of priorities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.software import Autoscaler
from tests.preflight.readers import ORIGIN, manifest, pool, workload


def test_a_limit_range_makes_a_pod_ask_for_gpus() -> None:
    job = workload("Job", {"template": {"spec": {"containers": [{"name": "main"}]}}})
    given = manifest("LimitRange", {"limits": [{"type": "Container", "default": {"nvidia.com/gpu": 1}}]})

    assert Case(Cluster("demo", workloads=(job,))).gpu_workloads == ()
    assert Case(Cluster("demo", workloads=(job,), objects=(given,))).gpu_workloads == (job,)


@pytest.mark.parametrize(("priority", "told"), [(-11, True), (-10, False), (None, False)])
def test_a_pool_does_not_grow_for_a_priority_below_the_cutoff(priority: int | None, told: bool) -> None:
    limits: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    job = workload("Job", {"template": {"spec": {"containers": [{"name": "main", **limits}]}}})
    autoscaler = Autoscaler("cluster-autoscaler", ORIGIN)
    pools = (pool(instance_types=("g6.xlarge",)),)
    job = replace(job, priority=priority)
    [verdict] = Case(Cluster("demo", workloads=(job,), pools=pools, autoscalers=(autoscaler,))).verdicts

    assert any(each.rule == "GPU129" for one in verdict.pools for each in one.reasons) is told
