"""Preflight reads nodes with every escape hatch as it reads nodes with none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam

from gpu_constructs import NodeShape, OnDemand
from gpu_constructs.pools import Host
from gpu_preflight.judging.check import Report, check
from gpu_preflight.reading.inputs import read_input
from tests.hosts import everything
from tests.matrix import joinable_cluster, make

COMBINATIONS = [
    (kind, system) for kind in ("managed", "self-managed", "karpenter") for system in ("al2023", "bottlerocket")
]


def judged(folder: Path, kind: str, system: Any, host: Host) -> Report:
    """Preflight's results about one pool."""
    app = cdk.App(outdir=str(folder), analytics_reporting=False)
    stack = cdk.Stack(app, "Test")
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system=system, host=host)
    role = iam.Role.from_role_name(stack, "Nodes", "nodes")
    make(stack, "P0P", kind, shape, OnDemand(), joinable_cluster(stack), role)
    cdk.Tags.of(stack).add("cost-centre", "4711")
    app.synth()
    return check(read_input([str(folder / "Test.template.json")]))


def rules_of(report: Report) -> set[tuple[str, str]]:
    return {(each.rule.id, each.problem.message) for each in report.findings}


@pytest.mark.parametrize(("kind", "system"), COMBINATIONS)
def test_nothing_is_found_that_is_not_found_without(kind: str, system: str, tmp_path: Path) -> None:
    with_all = judged(tmp_path / "all", kind, system, everything(system))
    without = judged(tmp_path / "none", kind, system, Host())

    assert rules_of(with_all) - rules_of(without) == set()


@pytest.mark.parametrize(("kind", "system"), COMBINATIONS)
def test_the_configuration_of_the_node_is_read(kind: str, system: str, tmp_path: Path) -> None:
    report = judged(tmp_path, kind, system, everything(system))

    [pool] = [pool for case in report.cases for pool in case.cluster.pools]
    assert pool.launch.hop_limit == 2
    assert pool.user_data.problem is None
    if system == "al2023":
        assert pool.user_data.kubelet_config["shutdownGracePeriod"] == "60s"
        assert len(pool.user_data.scripts) == 2
    else:
        assert pool.user_data.settings["network"]["https-proxy"] == "http://proxy.example.com:3128"
