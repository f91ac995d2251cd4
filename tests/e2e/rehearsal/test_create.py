"""Every stack and every example is created, its software runs, and the report names the parts that weren't played."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gpu_rehearsal.assemblies import why_not_simulated
from gpu_rehearsal.report import Outcome, Report
from gpu_rehearsal.scenarios.deployment import create
from gpu_rehearsal.stage import Props, stage
from tools.plays import PLAYS, ROOT, synthesize_app
from tools.rehearse import DEFINITIONS

OBJECTS, RELEASE = "Custom::AWSCDK-EKS-KubernetesResource", "Custom::AWSCDK-EKS-HelmChart"
# Promises that can't be played here: charts that are missing, parts of EKS, nodes of the cluster autoscaler.
NOT_PLAYED: Mapping[str, frozenset[str]] = {
    "llm-service": frozenset(
        {
            f"Llm: {RELEASE} KedaD250CD0E is created",
            f"Llm: {RELEASE} Prometheus84672C11 is created",
            "Llm: Custom::GpuChartDefinitions PrometheusResourceDefinitionsF1DDCCC9 is created",
        }
    ),
    "newest-kubernetes": frozenset({"the program of public.ecr.aws/karpenter/controller:1.15.1 runs"}),
    "mig-on-p5": frozenset({"its autoscaler creates the nodes that its pods wait for"}),
    "multi-node-training": frozenset(
        {
            f"Training: {RELEASE} GpuEfaDevicePluginEBF9179E is created",
            "pods of default/pretrain-52a7d17b run",
            "webhooks of kueue-system/kueue-webhook-service allow and reject the right objects",
        }
    ),
    "auto-mode": frozenset(
        f"AutoMode: {OBJECTS} {each} is created" for each in ("Pool9439FBB3", "PoolNodeClass469914F5")
    ),
    "training": frozenset({f"Training: {RELEASE} EfaDevicePlugin8C8FCFC2 is created"}),
}


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_created_runs(name: str, tmp_path: Path, props: Props) -> None:
    if props.definitions is None:
        pytest.skip(f"{DEFINITIONS} names no folder of definitions of charts that are not there")
    assemblies, report = PLAYS[name].assemblies(tmp_path), Report(name)

    with stage(assemblies[0], props) as made:
        create(made, assemblies, report)

    assert [f"{each.promise}: {each.text}" for each in report.failed] == []
    not_simulated = {each.promise for each in report.lines if each.outcome is Outcome.NOT_PLAYED}
    assert not_simulated == NOT_PLAYED.get(name, frozenset())


def test_a_cluster_of_another_owner_is_not_played(tmp_path: Path) -> None:
    found = {each.stack: each for each in synthesize_app(ROOT / "examples/existing_cluster/app.py", tmp_path, {})}

    why = why_not_simulated(found["GpuPools"].template)
    assert why.startswith("a rehearsal plays one cluster with a name in the template, got []; pass --stack")
