"""A job on a NodePool of every shape is Pending, gets one node and its device, runs, ends, and the node goes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gpu_rehearsal.report import Outcome, Report
from gpu_rehearsal.scenarios.pools import GpuPool, gpu_pools
from gpu_rehearsal.scenarios.scale import scale
from gpu_rehearsal.stage import Stage
from tests.e2e.rehearsal import many_pools

# Its nodes are there before a job: none is created for it.
STATIC = f"pool {many_pools.STATIC}: "
AT_ONCE = 4
STEP_SECONDS = 240.0


def test_a_job_on_each_shape_gets_one_node(many_pools_stage: Stage) -> None:
    stage = many_pools_stage
    pools = gpu_pools(stage.client, stage.aws, stage.cluster, tolerate=("team",))

    with ThreadPoolExecutor(AT_ONCE) as threads:
        reports = list(threads.map(partial(_played, stage), pools))

    assert {each.name for each in pools} == many_pools.SHAPES.keys()
    assert [f"{line.promise}: {line.text}" for each in reports for line in each.failed] == []
    held = [line.promise for each in reports for line in each.lines if line.outcome is Outcome.HELD]
    assert [each for each in held if each.endswith("one node for one pod")] == [
        f"pool {each.name}: one node for one pod" for each in pools if not each.static
    ]
    assert f"{STATIC}the job ends" in held


def _played(stage: Stage, pool: GpuPool) -> Report:
    report = Report(pool.name)
    scale(stage, [pool], report, seconds=STEP_SECONDS)
    return report
