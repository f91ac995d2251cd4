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
            f"Llm: {RELEASE} ReleaseKeda94C9D2A4 is created",
            f"Llm: {RELEASE} ReleaseKubePrometheusStack582737E4 is created",
            "probes and ports answer",
            "Llm: Custom::GpuChartDefinitions PrometheusResourceDefinitionsF1DDCCC9 is created",
        }
    ),
    "newest-kubernetes": frozenset({"the program of public.ecr.aws/karpenter/controller:1.15.1 runs"}),
    "mig-on-p5": frozenset({"its autoscaler creates the nodes that its pods wait for"}),
    "multi-node-training": frozenset(
        {
            f"Training: {RELEASE} ReleaseAwsEfaK8sDevicePlugin77572450 is created",
            "pods of default/pretrain-aaf1e67d run",
            "webhooks of kueue-system/kueue-webhook-service allow and reject the right objects",
        }
    ),
    "auto-mode": frozenset(
        f"AutoMode: {OBJECTS} {each} is created" for each in ("NodePoolGpuA017FF1D", "NodeClassGpuB03AE79D")
    ),
    "training-on-lustre": frozenset({f"Research: {RELEASE} ReleaseAwsEfaK8sDevicePlugin40AFED39 is created"}),
    "model-from-s3": frozenset(
        {
            f"Model: {RELEASE} ReleaseAwsLoadBalancerController94ABF694 is created",
            f"Model: {RELEASE} ReleaseKubePrometheusStack1E5EED74 is created",
            "Model: Custom::GpuChartDefinitions LoadBalancersResourceDefinitions6D321AA3 is created",
            "Model: Custom::GpuChartDefinitions PrometheusResourceDefinitionsF1DDCCC9 is created",
        }
    ),
    "training": frozenset({f"Training: {RELEASE} ReleaseAwsEfaK8sDevicePlugin77572450 is created"}),
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
