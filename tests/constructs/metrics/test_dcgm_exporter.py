"""DcgmExporter runs on every GPU node and on no other, and Prometheus understands what comes with it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import NodeShape
from gpu_constructs.metrics import DcgmExporter, PrometheusStack
from gpu_constructs.metrics.dcgm_exporter import (
    DEFAULT_FIELDS,
    FIELDS,
    alerting_rules,
    counters_csv,
    prometheus_rule,
    recording_rules,
)
from gpu_constructs.metrics.dcgm_manifests import dashboard, exporter_chart, service_monitor
from tests.schemas import validate_custom
from tests.templates import (
    CHART,
    depends_on,
    ids_of_objects,
    manifest,
    manifests_of,
    of_type,
    only,
    resources_of,
    resources_under,
)

IMAGE = "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3-4.8.2-distroless"


def test_manifests(snapshot_yaml: SnapshotAssertion) -> None:
    chart = exporter_chart(image=IMAGE, counters=counters_csv("test", DEFAULT_FIELDS[:2]), shared=False)

    assert chart.to_json() == snapshot_yaml


def daemon_set(shared: bool = False) -> dict[str, Any]:
    made = exporter_chart(image=IMAGE, counters="", shared=shared).to_json()
    return dict(next(each for each in made if each["kind"] == "DaemonSet"))


@pytest.mark.parametrize(
    ("labels", "runs"),
    [
        (NodeShape(instance_types=("g6.xlarge",)).node_labels("a"), True),
        (NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket").node_labels("a"), True),
        ({"gpu-constructs.io/device-manager": "auto-mode"}, True),
        ({"node.kubernetes.io/instance-type": "m6i.large"}, False),
    ],
)
def test_runs_on_gpu_nodes_only(labels: dict[str, str], runs: bool) -> None:
    spec = daemon_set()["spec"]["template"]["spec"]

    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [[expression]] = [term["matchExpressions"] for term in affinity["nodeSelectorTerms"]]
    assert expression["operator"] == "Exists"
    assert (expression["key"] in labels) == runs
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_shared_gpus_are_counted_by_process() -> None:
    spec = daemon_set(shared=True)["spec"]["template"]["spec"]

    assert {"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"} in spec["containers"][0]["env"]
    assert spec["hostPID"] is True
    assert "hostPID" not in daemon_set()["spec"]["template"]["spec"]


def test_every_field_is_a_line_the_exporter_reads() -> None:
    for line in counters_csv("test", tuple(FIELDS)).splitlines():
        field, kind, text = line.split(", ", 2)
        assert re.fullmatch(r"DCGM_FI_(DEV|PROF)_[A-Z_]+", field)
        assert kind in ("gauge", "counter")
        assert text
        assert "," not in text


def test_with_prometheus_come_scrape_rules_and_dashboard(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
    DcgmExporter(stack, "Dcgm", cluster=cluster, prometheus=prometheus)

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    made = {kind: id for (kind, _), id in ids_of_objects(resources_under(stack, "Dcgm")).items()}
    for kind in ("ServiceMonitor", "PrometheusRule", "ConfigMap"):
        assert chart in depends_on(resources, made[kind])


def test_only_prometheus_reaches_the_exporter(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    prometheus = PrometheusStack(stack, "Prometheus", cluster=cluster)
    DcgmExporter(stack, "Dcgm", cluster=cluster, prometheus=prometheus)

    resources = resources_of(stack)
    policy = manifest(resources, "NetworkPolicy")
    exporter = manifest(resources, "DaemonSet")["spec"]["template"]
    assert policy["metadata"]["namespace"] == "kube-system"
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= exporter["metadata"]["labels"].items()
    [allowed] = policy["spec"]["ingress"]
    where = only(resources, CHART)["Namespace"]
    assert allowed["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": where}}}]
    [port] = exporter["spec"]["containers"][0]["ports"]
    assert allowed["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]


def test_a_prometheus_of_ones_own_is_not_locked_out(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DcgmExporter(stack, "Dcgm", cluster=cluster)

    assert not any(each["kind"] == "NetworkPolicy" for each in manifests_of(resources_of(stack)))


def test_the_exporter_has_the_runtimes_seccomp_profile() -> None:
    [container] = daemon_set()["spec"]["template"]["spec"]["containers"]

    assert container["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_without_prometheus_nothing_asks_for_its_definitions(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DcgmExporter(stack, "Dcgm", cluster=cluster)

    assert not any("monitoring.coreos.com" in each["apiVersion"] for each in manifests_of(resources_of(stack)))


def test_rules(snapshot_yaml: SnapshotAssertion) -> None:
    assert prometheus_rule(name="dcgm-exporter", namespace="kube-system") == snapshot_yaml


def test_objects_are_valid_for_the_operators_definitions(crds: Path) -> None:
    for made, kind in (
        (service_monitor(), "servicemonitors"),
        (prometheus_rule(name="a", namespace="b"), "prometheusrules"),
    ):
        validate_custom(made, crds, file=f"crd-{kind}.yaml")


def test_rules_and_dashboard_name_fields_that_are_reported() -> None:
    expressions = [each["expr"] for each in [*recording_rules(), *alerting_rules()]]
    panels = json.loads(dashboard()["data"]["gpus.json"])["panels"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]

    named = {field for text in expressions for field in re.findall(r"DCGM_\w+", text)}
    assert named
    assert named <= set(DEFAULT_FIELDS)


def test_panels_do_not_overlap() -> None:
    panels = json.loads(dashboard()["data"]["gpus.json"])["panels"]

    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        covers = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & covers
        assert at["x"] + at["w"] <= 24
        cells |= covers
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_prometheus_takes_up_what_is_not_of_its_own_release(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = PrometheusStack(stack, "Prometheus", cluster=cluster, storage_gib=0)

    chart = only(resources_of(stack), CHART)
    spec = json.loads(chart["Values"])["prometheus"]["prometheusSpec"]
    assert spec["serviceMonitorSelectorNilUsesHelmValues"] is spec["ruleSelectorNilUsesHelmValues"] is False
    assert "storageSpec" not in spec
    assert chart["CreateNamespace"] is True
    assert made.url == "http://kube-prometheus-stack-prometheus.monitoring.svc:9090"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"fields": ["DCGM_FI_DEV_GPU_UTILS"]},
            ValueError,
            r"fields must be one of .* did you mean 'DCGM_FI_DEV_GPU_UTIL'",
        ),
        ({"fields": []}, ValueError, r"fields must name at least one field"),
        ({"fields": "DCGM_FI_DEV_GPU_UTIL"}, TypeError, r"fields must be a list of names"),
        ({"prometheus": "http://prometheus"}, TypeError, r"prometheus must be a PrometheusStack, got 'http"),
        ({"image": "dcgm-exporter"}, ValueError, r"image must end in a tag"),
    ],
)
def test_refuses(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Dcgm: {message}"):
        DcgmExporter(stack, "Dcgm", cluster=cluster, **changes)
