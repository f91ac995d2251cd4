"""GpuHorizontalAutoscaler scales by the right number, and refuses what would scale wrongly or never again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster, GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape, TimeSlicing
from gpu_constructs.metrics import DcgmExporter, ManagedPrometheus, PrometheusStack
from gpu_constructs.metrics.dcgm_exporter import recording_rules
from gpu_constructs.pod_scaling import (
    CpuMemoryRightsizing,
    CpuUtilization,
    Demand,
    GpuHorizontalAutoscaler,
    GpuMemory,
    GpuUtilization,
    Keda,
    MetricsServer,
    PrometheusAdapter,
    SmActivity,
    SqsQueue,
    VerticalPodAutoscaler,
)
from gpu_constructs.pod_scaling.gpu_horizontal_autoscaler import (
    Scale,
    horizontal_pod_autoscaler,
    keda_values,
    scaled_object,
    trigger_authentication,
)
from gpu_constructs.pod_scaling.rightsizing import controller_values, vertical_pod_autoscaler
from gpu_constructs.pod_scaling.signals import adapter_values
from tests.chart_values import unknown_values
from tests.clusters import imported_cluster, imported_vpc
from tests.schemas import validate, validate_custom
from tests.templates import CHART, depends_on, manifest, object_id, of_type, only, resources_of, resources_under

QUEUE = SqsQueue(url="https://sqs.us-east-1.amazonaws.com/111122223333/jobs", region="us-east-1", per_pod=2)
WAITING = Demand(query='sum(vllm:num_requests_waiting{namespace="chat"}) or vector(0)', per_pod=4)
URL = "http://prometheus.monitoring.svc:9090"


def scale(*signals: Any) -> Scale:
    return Scale(name="chat", namespace="inference", signals=signals, min_replicas=1, max_replicas=8)


def test_horizontal_pod_autoscaler(snapshot_yaml: SnapshotAssertion) -> None:
    assert horizontal_pod_autoscaler(scale(GpuUtilization(), GpuMemory())) == snapshot_yaml


def test_scaled_object(snapshot_yaml: SnapshotAssertion) -> None:
    assert scaled_object(scale(GpuUtilization(), WAITING, QUEUE), prometheus_url=URL) == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_horizontal_pod_autoscaler_is_valid(minor: str) -> None:
    validate(horizontal_pod_autoscaler(scale(GpuUtilization(), GpuMemory())), minor)


def test_a_workspace_of_aws_is_read_with_kedas_own_permissions(
    stack: cdk.Stack, cluster: eks.ICluster, crds: Path
) -> None:
    workspace = "arn:aws:aps:us-east-1:111122223333:workspace/ws-1"
    keda = Keda(stack, "Keda", cluster=cluster, prometheus_workspace_arns=[workspace])
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=1)
    pod = GpuPod(image="example.com/serve:1")
    target = GpuDeployment(stack, "Serve", cluster=cluster, pool=pool, name="chat", pod=pod, port=80)
    url = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1"
    GpuHorizontalAutoscaler(
        stack,
        "Scaler",
        cluster=cluster,
        target=target,
        signals=[GpuUtilization(), WAITING],
        max_replicas=2,
        through=keda,
        prometheus=ManagedPrometheus(url=url, region="us-east-1"),
    )

    resources = resources_of(stack)
    made, authentication = manifest(resources, "ScaledObject"), manifest(resources, "TriggerAuthentication")
    for trigger in made["spec"]["triggers"]:
        assert trigger["metadata"]["serverAddress"] == url
        assert trigger["metadata"]["awsRegion"] == "us-east-1"
        assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert authentication["spec"] == {"podIdentity": {"provider": "aws"}}
    validate_custom(made, crds)
    [policy] = only(resources_under(stack, "Keda"), "AWS::IAM::Role")["Policies"]
    [statement] = policy["PolicyDocument"]["Statement"]
    assert "aps:QueryMetrics" in statement["Action"]
    assert statement["Resource"] == [workspace]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (
            {"url": "https://prometheus.example.com"},
            "url must be the endpoint of a workspace, got 'https://prometheus.example.com'; write 'https://aps-workspaces",
        ),
        ({"url": None}, "url must be the endpoint of a workspace, got None"),
        ({"region": "US"}, "region must be a region, got 'US'"),
    ],
)
def test_refuses_workspaces(changes: dict[str, Any], rule: str) -> None:
    valid = {"url": "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1", "region": "us-east-1"}
    with pytest.raises(ValueError, match=f"managed prometheus: {rule}"):
        ManagedPrometheus(**valid | changes)


def test_objects_are_valid_for_their_definitions(crds: Path) -> None:
    keda = scaled_object(scale(GpuUtilization(), GpuMemory(), WAITING, QUEUE), prometheus_url=URL)
    vpa = vertical_pod_autoscaler(name="chat", namespace="inference", mode="Off", resources=("cpu",))
    for made, file in (
        (keda, None),
        (trigger_authentication(name="chat", namespace="inference"), None),
        (vpa, "autoscaling.k8s.io_vpa.yaml"),
    ):
        validate_custom(made, crds, file=file)


def test_every_value_of_a_trigger_is_a_string() -> None:
    triggers = scaled_object(scale(GpuMemory(), WAITING, QUEUE), prometheus_url=URL)["spec"]["triggers"]

    assert all(isinstance(value, str) for each in triggers for value in each["metadata"].values())


@pytest.mark.parametrize(
    ("pod", "counted"),
    [("chat-7d9f8b6c5-abc12", True), ("chat-big-7d9f8b6c5-abc12", False), ("chatter-7d9f8b6c5-abc12", False)],
)
def test_only_pods_of_the_deployment_are_counted(pod: str, counted: bool) -> None:
    [trigger] = scaled_object(scale(GpuUtilization()), prometheus_url=URL)["spec"]["triggers"]

    [pattern] = re.findall(r'exported_pod=~"([^"]+)"', trigger["metadata"]["query"])
    assert bool(re.fullmatch(pattern, pod)) == counted


def test_the_hpa_reads_what_prometheus_records() -> None:
    recorded = {each["record"] for each in recording_rules()}
    asked = {
        each["pods"]["metric"]["name"]
        for each in horizontal_pod_autoscaler(scale(GpuUtilization(), GpuMemory(), SmActivity()))["spec"]["metrics"]
    }
    shown = {each["name"]["as"] for each in adapter_values(URL)["rules"]["custom"]}

    assert asked == recorded == shown


def test_every_chart_value_exists(chart_values: Path) -> None:
    assert unknown_values(chart_values / "keda-2.20.2.yaml", keda_values(has_role=True)) == []
    assert unknown_values(chart_values / "prometheus-adapter-5.3.0.yaml", adapter_values(URL)) == []
    assert unknown_values(chart_values / "vertical-pod-autoscaler-0.11.yaml", controller_values()) == []


def test_what_scales_pods_asks_for_memory() -> None:
    parts = [adapter_values(URL), *controller_values().values()]

    assert len(parts) == 4
    assert all(part["resources"]["requests"]["memory"] for part in parts)


def test_cpu_is_read_by_the_plain_hpa_and_by_keda() -> None:
    [metric] = horizontal_pod_autoscaler(scale(CpuUtilization(percent=60)))["spec"]["metrics"]
    [trigger] = scaled_object(scale(CpuUtilization(percent=60)), prometheus_url="")["spec"]["triggers"]

    assert metric["resource"] == {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}
    assert trigger == {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
    validate(horizontal_pod_autoscaler(scale(CpuUtilization(), GpuUtilization())), "1.36")


class App:
    """A deployment and everything it can be scaled through."""

    def __init__(
        self, stack: cdk.Stack, cluster: eks.ICluster, *, shared: bool = False, replicas: int | None = None
    ) -> None:
        sharing = {"sharing": TimeSlicing(4)} if shared else {}
        shape = NodeShape(instance_types=("g6.xlarge",), **sharing)  # type: ignore[arg-type]
        pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=2)
        self.stack, self.cluster = stack, cluster
        self.target = GpuDeployment(
            stack,
            "Chat",
            cluster=cluster,
            pool=pool,
            name="chat",
            pod=GpuPod(image="registry.example.com/chat:1.0"),
            port=8000,
            replicas=replicas,
        )
        self.prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
        self.keda = Keda(stack, "Keda", cluster=cluster, sqs_queue_arns=["arn:aws:sqs:us-east-1:111122223333:jobs"])
        self.adapter = PrometheusAdapter(stack, "Adapter", cluster=cluster, prometheus=self.prometheus)

    def scaler(self, id: str = "Scaler", **changes: Any) -> GpuHorizontalAutoscaler:
        """A valid scaler, with ``changes`` applied."""
        says: dict[str, Any] = {
            "target": self.target,
            "signals": [GpuUtilization()],
            "max_replicas": 4,
            "through": self.keda,
            "prometheus": self.prometheus,
        }
        return GpuHorizontalAutoscaler(self.stack, id, cluster=self.cluster, **says | changes)


@pytest.fixture
def app(stack: cdk.Stack, cluster: eks.ICluster) -> App:
    """A deployment and everything it can be scaled through."""
    return App(stack, cluster)


def test_a_queue_wakes_a_deployment_from_none(app: App) -> None:
    app.scaler(min_replicas=0, signals=[QUEUE, WAITING])

    resources = resources_of(app.stack)
    made = manifest(resources, "ScaledObject")
    assert made["spec"]["minReplicaCount"] == 0
    assert manifest(resources, "TriggerAuthentication")["spec"] == {"podIdentity": {"provider": "aws"}}
    assert made["spec"]["triggers"][0]["metadata"]["activationQueueLength"] == "0"
    role = only(resources_under(app.stack, "Keda"), "AWS::IAM::Role")
    assert "arn:aws:sqs:us-east-1:111122223333:jobs" in json.dumps(role["Policies"])


def test_the_chain_is_there_before_its_end(app: App) -> None:
    app.scaler(through=app.adapter)

    resources = resources_of(app.stack)
    scaler = object_id(resources, "HorizontalPodAutoscaler")
    charts = {each["Properties"]["Chart"]: id for id, each in of_type(resources, CHART).items()}
    needed = depends_on(resources, scaler)
    assert {charts["prometheus-adapter"], charts["kube-prometheus-stack"]} <= needed
    assert object_id(resources, "Deployment") in needed
    assert manifest(resources, "HorizontalPodAutoscaler")["spec"]["minReplicas"] == 1


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"target": "chat"}, TypeError, r"target must be a GpuDeployment, got 'chat'"),
        ({"signals": []}, ValueError, r"signals must name at least one, got none"),
        (
            {"signals": GpuUtilization()},
            TypeError,
            r"signals must be a list of signals, got .*; write \[GpuUtilization",
        ),
        ({"signals": ["cpu"]}, TypeError, "signals must be a list of signals"),
        (
            {"min_replicas": 0},
            ValueError,
            "min_replicas must be at least 1 without a Demand or SqsQueue, got 0; add one, because without pods no "
            "GPU is",
        ),
        ({"max_replicas": 0}, ValueError, r"max_replicas must be at least 1, got 0"),
        ({"min_replicas": 5}, ValueError, r"max_replicas must be at least 5, got 4"),
        ({"prometheus": None}, ValueError, r"prometheus must be given for signals that it measures, got None"),
        (
            {"prometheus": "http://x"},
            TypeError,
            r"prometheus must be a PrometheusStack or ManagedPrometheus, got 'http://x'",
        ),
        ({"through": "keda"}, TypeError, r"through must be a Keda or a PrometheusAdapter, got 'keda'"),
    ],
)
def test_refuses(app: App, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Test/Scaler: {message}"):
        app.scaler(**changes)


def test_by_cpu_alone_nothing_else_is_needed(app: App) -> None:
    app.scaler(signals=[CpuUtilization()], through=None, prometheus=None)

    assert manifest(resources_of(app.stack), "HorizontalPodAutoscaler")["spec"]["maxReplicas"] == 4
    with pytest.raises(ValueError, match="through must be given for GpuUtilization, got None; create a Keda"):
        app.scaler("Other", signals=[CpuUtilization(), GpuUtilization()], through=None)
    with pytest.raises(ValueError, match="min_replicas must be at least 1 without a Keda, got 0"):
        app.scaler("Zero", signals=[CpuUtilization()], through=None, min_replicas=0)
    with pytest.raises(ValueError, match="min_replicas must be at least 1 without a Demand or SqsQueue, got 0"):
        app.scaler("Asleep", signals=[CpuUtilization()], prometheus=None, min_replicas=0)


def metrics_servers(stack: cdk.Stack) -> list[dict[str, Any]]:
    """The add-ons of that name."""
    addons = of_type(resources_of(stack), "AWS::EKS::Addon").values()
    return [each["Properties"] for each in addons if each["Properties"]["AddonName"] == "metrics-server"]


def test_a_cluster_of_the_app_gets_one_metrics_server(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    VerticalPodAutoscaler(stack, "Vpa", cluster=gpu)
    pool = gpu.add_pool("l4", "g6.xlarge", max_nodes=2)
    for name in ("chat", "draw"):
        pod = GpuPod(image="registry.example.com/serve:1.0")
        target = GpuDeployment(stack, name, cluster=gpu, pool=pool, name=name, pod=pod, port=80)
        GpuHorizontalAutoscaler(
            stack, f"{name}Scaler", cluster=gpu, target=target, signals=[CpuUtilization()], max_replicas=2
        )

    resources = resources_of(stack)
    [addon] = [id for id in of_type(resources, "AWS::EKS::Addon") if "MetricsServer" in id]
    assert len(metrics_servers(stack)) == 1
    # Its pods need nodes.
    assert of_type(resources, "AWS::EKS::Nodegroup").keys() & depends_on(resources, addon)


def test_a_metrics_server_that_was_made_is_taken(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    MetricsServer(stack, "Metrics", cluster=gpu, version="v0.8.0-eksbuild.2")
    VerticalPodAutoscaler(stack, "Vpa", cluster=gpu)

    [made] = metrics_servers(stack)
    assert made["AddonVersion"] == "v0.8.0-eksbuild.2"
    with pytest.raises(ValueError, match="Test/Again: cluster must have one metrics server, got a second one next"):
        MetricsServer(stack, "Again", cluster=gpu)


def test_an_imported_cluster_gets_a_metrics_server_when_asked(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    other = cdk.Stack(cast("Construct", stack.node.root), "Other")
    MetricsServer(other, "Metrics", cluster=imported_cluster(other, imported_vpc(other)))
    VerticalPodAutoscaler(stack, "Vpa", cluster=cluster)
    with pytest.raises(TypeError, match="Test/Wrong: version must be a string, got 1"):
        MetricsServer(stack, "Wrong", cluster=cluster, version=1)  # type: ignore[arg-type]

    assert (len(metrics_servers(stack)), len(metrics_servers(other))) == (0, 1)


def test_the_plain_hpa_takes_neither_queues_nor_zero(app: App) -> None:
    with pytest.raises(ValueError, match="through must be a Keda for SqsQueue, got a PrometheusAdapter"):
        app.scaler(through=app.adapter, signals=[QUEUE])
    with pytest.raises(ValueError, match="min_replicas must be at least 1 through a PrometheusAdapter, got 0"):
        app.scaler("Other", through=app.adapter, min_replicas=0)


def test_one_scaler_a_deployment(app: App) -> None:
    app.scaler()

    with pytest.raises(
        ValueError, match="cluster must have one scaler of default/chat, got a second one next to 'Test/Scaler'"
    ):
        app.scaler("Again", through=app.adapter)


def test_sm_activity_is_read_from_its_record_or_the_field() -> None:
    [metric] = horizontal_pod_autoscaler(scale(SmActivity(percent=80)))["spec"]["metrics"]
    [trigger] = scaled_object(scale(SmActivity(percent=80)), prometheus_url=URL)["spec"]["triggers"]

    assert metric["pods"] == {
        "metric": {"name": "gpu_sm_active_percent"},
        "target": {"type": "AverageValue", "averageValue": "80"},
    }
    # The field is a part of one.
    assert trigger["metadata"]["query"].startswith("sum(100 * avg by (exported_namespace, exported_pod) (DCGM_FI_PROF_")
    assert trigger["metadata"]["threshold"] == "80"


@pytest.mark.parametrize(
    ("signal", "fields", "missing"),
    [
        (SmActivity(), ["DCGM_FI_DEV_GPU_UTIL"], "SmActivity without DCGM_FI_PROF_SM_ACTIVE"),
        (GpuMemory(), ["DCGM_FI_DEV_FB_USED"], "GpuMemory without DCGM_FI_DEV_FB_FREE"),
    ],
)
def test_a_signal_is_what_the_exporter_reports(
    stack: cdk.Stack, cluster: eks.ICluster, signal: Any, fields: list[str], missing: str
) -> None:
    DcgmExporter(stack, "Dcgm", cluster=cluster, fields=fields)
    app = App(stack, cluster)

    rule = "Test/Scaler: signals must be reported by the exporter, got"
    with pytest.raises(ValueError, match=f"{rule} {missing}; add it to fields of 'Test/Dcgm'"):
        app.scaler(signals=[signal])


def test_the_exporter_may_come_after_those_who_count_on_it(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    App(stack, cluster).scaler(signals=[SmActivity()])

    with pytest.raises(ValueError, match="got SmActivity without DCGM_FI_PROF_SM_ACTIVE; add it to fields of"):
        DcgmExporter(stack, "Dcgm", cluster=cluster, fields=["DCGM_FI_DEV_GPU_UTIL"])


def test_the_exporter_reports_what_every_signal_needs_by_default(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DcgmExporter(stack, "Dcgm", cluster=cluster)

    assert App(stack, cluster).scaler(signals=[SmActivity(), GpuMemory(), GpuUtilization()])


def test_use_is_not_known_by_pod_where_pods_share_gpus(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    app = App(stack, cluster, shared=True)

    with pytest.raises(
        ValueError,
        match=r"signals must not measure GPUs of a pool with TimeSlicing\(replicas=4\), .*, got GpuUtilization",
    ):
        app.scaler()
    assert app.scaler("Demanded", signals=[WAITING])


def test_a_deployment_with_replicas_of_its_own_would_fight(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(
        ValueError, match=r"target must be without replicas, got 2; remove .*each deployment would reset them"
    ):
        App(stack, cluster, replicas=2).scaler()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: GpuUtilization(percent=0), ValueError, "percent must be at least 1, got 0; write a percentage"),
        (lambda: GpuUtilization(percent=0.7), TypeError, r"percent must be a whole number, got 0.7"),  # type: ignore[arg-type]
        (
            lambda: CpuUtilization(percent=0),
            ValueError,
            "cpu utilization: percent must be at least 1, got 0; write 70 for",
        ),
        (lambda: GpuMemory(percent=101), ValueError, r"gpu memory: percent must be at most 100, got 101"),
        (lambda: Demand(query=" ", per_pod=1), ValueError, r"demand: query must be PromQL, got ' '"),
        (lambda: Demand(query="x", per_pod=0), ValueError, r"demand: per_pod must be at least 1"),
        (
            lambda: SqsQueue(url="jobs", region="us-east-1", per_pod=1),
            ValueError,
            "sqs queue: url must be the URL of a queue, got 'jobs'",
        ),
    ],
)
def test_refuses_a_signal(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_rightsizing_recommends_and_changes_nothing_by_itself(app: App) -> None:
    vpa = VerticalPodAutoscaler(app.stack, "Vpa", cluster=app.cluster)
    CpuMemoryRightsizing(app.stack, "Right", cluster=app.cluster, target=app.target, vpa=vpa)

    made = manifest(resources_of(app.stack), "VerticalPodAutoscaler")["spec"]
    assert made["updatePolicy"] == {"updateMode": "Off"}
    [policy] = made["resourcePolicy"]["containerPolicies"]
    assert policy["controlledResources"] == ["cpu", "memory"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"resources": ["nvidia.com/gpu"]},
            ValueError,
            "resources must be of cpu, memory, got 'nvidia.com/gpu'; remove it, because a VerticalPod",
        ),
        ({"resources": []}, ValueError, r"resources must name cpu or memory"),
        ({"mode": "Auto"}, ValueError, r"mode must be one of Off, Initial, InPlaceOrRecreate, got 'Auto'"),
        ({"target": "chat"}, TypeError, r"target must be a GpuDeployment"),
        ({"vpa": "yes"}, TypeError, r"vpa must be a VerticalPodAutoscaler"),
    ],
)
def test_refuses_to_rightsize(app: App, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"Test/Right: {message}"):
        CpuMemoryRightsizing(app.stack, "Right", cluster=app.cluster, **{"target": app.target} | changes)
