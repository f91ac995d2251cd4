"""A job on a NodePool of every shape is Pending, gets one node and its device, runs, ends, and the node goes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.pools import Asked, asked_of
from gpu_constructs.rehearsal.report import Outcome, Report
from gpu_constructs.rehearsal.scenes.scale import scale
from gpu_constructs.rehearsal.stage import Stage
from tests.e2e.rehearsal import many_pools

# Nodes of the first are there before a job; of the second one DaemonSet, whose chart is not, is not either.
NOT_ASKED = {many_pools.STATIC, "efa"}
AT_ONCE = 4
STEP_SECONDS = 240.0


def test_a_job_on_each_shape_gets_one_node(many_pools_stage: Stage, stacks_of_many_pools: list[Assembly]) -> None:
    pools = [each for each in asked_of(stacks_of_many_pools) if each.pool not in NOT_ASKED]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        reports = list(threads.map(partial(_played, many_pools_stage), pools))

    assert {each.pool for each in pools} == many_pools.SHAPES.keys() - NOT_ASKED
    assert [f"{line.promise}: {line.text}" for each in reports for line in each.failed] == []
    held = [line.promise for each in reports for line in each.lines if line.outcome is Outcome.HELD]
    assert [each for each in held if each.endswith("one node for one pod")] == [
        f"pool {each.pool}: one node for one pod" for each in pools
    ]


def _played(stage: Stage, pool: Asked) -> Report:
    report = Report(pool.pool)
    scale(stage, [pool], report, seconds=STEP_SECONDS)
    return report
