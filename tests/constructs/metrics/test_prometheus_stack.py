"""Prometheus scrapes deployments, and sends the measurements to a workspace with its own role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_aps as aps
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.metrics import PrometheusStack
from gpu_constructs.metrics.prometheus_stack import RemoteWrite, stack_values
from tests.chart_values import unknown_values
from tests.schemas import validate_custom
from tests.templates import CHART, MANIFEST, depends_on, manifest, of_type, only, resources_of, resources_under, text_of

OTHER_CHARTS = ("kube-state-metrics", "grafana")
ARN = "arn:aws:aps:eu-central-1:111122223333:workspace/ws-0a1b2c3d"


def deployment(stack: cdk.Stack, cluster: eks.ICluster) -> GpuDeployment:
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=1)
    pod = GpuPod(image="example.com/serve:1")
    return GpuDeployment(stack, "Serve", cluster=cluster, pool=pool, name="chat", pod=pod, port=80)


def test_a_deployment_is_scraped_through_its_service(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
    prometheus.scrape(deployment(stack, cluster), path="/stats")

    resources = resources_of(stack)
    monitor, service = manifest(resources, "ServiceMonitor"), manifest(resources, "Service")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint == {"port": service["spec"]["ports"][0]["name"], "path": "/stats"}
    validate_custom(monitor, crds, file="crd-servicemonitors.yaml")
    [made] = [id for id, each in of_type(resources, MANIFEST).items() if "ServiceMonitor" in str(each["Properties"])]
    [chart] = of_type(resources, CHART)
    assert chart in depends_on(resources, made)


def test_metrics_go_to_the_workspace(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    PrometheusStack(stack, "Prometheus", cluster=cluster, workspace_arn=ARN)

    resources = resources_of(stack)
    prometheus = json.loads(only(resources, CHART)["Values"])["prometheus"]
    [target] = prometheus["prometheusSpec"]["remoteWrite"]
    host = "https://aps-workspaces.eu-central-1.amazonaws.com"
    assert target == {
        "url": f"{host}/workspaces/ws-0a1b2c3d/api/v1/remote_write",
        "sigv4": {"region": "eu-central-1"},
    }
    association = only(resources, "AWS::EKS::PodIdentityAssociation")
    assert association["ServiceAccount"] == prometheus["serviceAccount"]["name"]
    [policy] = only(resources_under(stack, "Prometheus"), "AWS::IAM::Role")["Policies"]
    [statement] = policy["PolicyDocument"]["Statement"]
    assert (statement["Action"], statement["Resource"]) == ("aps:RemoteWrite", ARN)


def test_a_workspace_of_the_same_app(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    workspace = aps.CfnWorkspace(stack, "Workspace")
    PrometheusStack(stack, "Prometheus", cluster=cluster, workspace_arn=workspace.attr_arn)

    resources = resources_of(stack)
    values = text_of(only(resources, CHART)["Values"])
    assert "/api/v1/remote_write" in values
    assert of_type(resources, "AWS::APS::Workspace").keys() <= depends_on(
        resources, next(iter(of_type(resources, CHART)))
    )


def test_what_the_stack_runs_asks_for_memory() -> None:
    ours = stack_values(storage_gib=0, storage_class=None, retention_days=15)

    parts = [ours["prometheus"]["prometheusSpec"], *(ours[each] for each in (*OTHER_CHARTS, "prometheusOperator"))]
    assert all(part["resources"]["requests"]["memory"] for part in parts)


def test_every_chart_value_exists(chart_values: Path) -> None:
    sends = RemoteWrite(arn=ARN, region="eu-central-1", workspace="ws-0a1b2c3d")
    values = stack_values(storage_gib=50, storage_class="gp3", retention_days=15, sends=sends)

    # It repeats only the values of its subcharts that it changes.
    asked = [f"{chart}.resources.requests.{what}" for chart in OTHER_CHARTS for what in ("cpu", "memory")]
    defaults = chart_values / "kube-prometheus-stack-88.yaml"
    assert unknown_values(defaults, values) == asked
    assert unknown_values(defaults, {"prometheus": {"prometheusSpecs": {}, "x": 1}})


def test_objects_of_every_kind_are_taken_up(chart_values: Path) -> None:
    theirs = yaml.safe_load((chart_values / "kube-prometheus-stack-88.yaml").read_text())["prometheus"][
        "prometheusSpec"
    ]
    ours = stack_values(storage_gib=0, storage_class=None, retention_days=15)["prometheus"]["prometheusSpec"]

    kinds = [key for key in theirs if key.endswith("SelectorNilUsesHelmValues")]
    assert len(kinds) >= 5
    assert [key for key in kinds if ours.get(key) is not False] == []


def test_refuses_what_is_no_workspace(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/Prometheus: workspace_arn must be the ARN of a workspace, got 'ws-1'"):
        PrometheusStack(stack, "Prometheus", cluster=cluster, workspace_arn="ws-1")


def test_refuses_a_volume_that_does_not_exist(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="storage_class must be given with storage_gib=50, got None"):
        PrometheusStack(stack, "Prometheus", cluster=cluster, storage_gib=50)
    with pytest.raises(ValueError, match="storage_class must be 1 to 63"):
        PrometheusStack(stack, "Other", cluster=cluster, storage_gib=50, storage_class="GP 3")


@pytest.mark.parametrize(
    ("target", "path", "error", "rule"),
    [
        ("chat", "/metrics", TypeError, "deployment must be a GpuDeployment, got 'chat'"),
        (None, "metrics", ValueError, "path must begin with '/', got 'metrics'"),
    ],
)
def test_refuses_what_cannot_be_scraped(
    stack: cdk.Stack, cluster: eks.ICluster, target: Any, path: str, error: type[Exception], rule: str
) -> None:
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)

    with pytest.raises(error, match=rule):
        prometheus.scrape(target or deployment(stack, cluster), path=path)
