"""GpuOperator installs what AL2023's image lacks, on the nodes of its pools and on no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from aws_cdk.assertions import Annotations, Match

from gpu_constructs import DevicePlugin, ManagedNodeGroup, Mig, Mps, NodeShape, TimeSlicing
from gpu_constructs.devices import DraDriver, GpuOperator
from gpu_constructs.devices.gpu_operator import KNOWN, gpu_operator_values
from gpu_constructs.pools import Exclusive, Sharing
from tests.chart_values import unknown_values
from tests.templates import CHART, depends_on, of_type, only, resources_of

SHARED = NodeShape(instance_types=("g6.xlarge",), device_manager="gpu-operator", sharing=TimeSlicing(4))


def values(stack: cdk.Stack) -> dict[str, Any]:
    return dict(json.loads(only(resources_of(stack), CHART)["Values"]))


@pytest.mark.parametrize("first", [True, False])
def test_every_way_of_sharing_is_a_part_of_its_configuration(
    stack: cdk.Stack, cluster: eks.ICluster, first: bool
) -> None:
    if first:
        GpuOperator(stack, "Operator", cluster=cluster)
    ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=SHARED, max_nodes=2)
    if not first:
        GpuOperator(stack, "Operator", cluster=cluster)

    config = values(stack)["devicePlugin"]["config"]
    assert config["data"].keys() == {"exclusive", "time-slicing-4"}
    assert config["default"] in config["data"]
    asked = SHARED.node_labels("l4")["nvidia.com/device-plugin.config"]
    [resource] = json.loads(config["data"][asked])["sharing"]["timeSlicing"]["resources"]
    assert resource == {"name": "nvidia.com/gpu", "replicas": 4}


@pytest.mark.parametrize("sharing", [Exclusive(), TimeSlicing(4), Mps(4), Mig(geometry={"1g.10gb": 7})])
def test_a_node_names_its_part_of_the_configuration(sharing: Sharing) -> None:
    shape = NodeShape(instance_types=("p5.48xlarge",), device_manager="gpu-operator", sharing=sharing)

    assert shape.node_labels("p5")["nvidia.com/device-plugin.config"] == sharing.profile


def test_only_its_own_nodes_are_searched_for_gpus() -> None:
    selected = gpu_operator_values({})["node-feature-discovery"]["worker"]["nodeSelector"]
    others = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket").node_labels("l4")

    assert selected.items() <= SHARED.node_labels("l4").items()
    assert not selected.items() <= others.items()


def test_its_pods_tolerate_every_taint() -> None:
    found = gpu_operator_values({})

    for each in (found["daemonsets"], found["node-feature-discovery"]["worker"]):
        assert each["tolerations"] == [{"operator": "Exists"}]


def test_chart_is_pinned(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    GpuOperator(stack, "Operator", cluster=cluster, values={"devicePlugin": {"hostNetwork": True}})

    properties = only(resources_of(stack), CHART)
    assert (properties["Chart"], properties["Version"]) == ("gpu-operator", "v26.7.0")
    assert values(stack)["devicePlugin"].keys() == {"env", "config", "hostNetwork"}


def test_a_deployment_does_not_fail_for_one_node_that_is_not_ready(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    GpuOperator(stack, "Operator", cluster=cluster)

    # "Wait": helm would wait for the ClusterPolicy.
    assert "Wait" not in only(resources_of(stack), CHART)


def test_every_chart_value_exists(chart_values: Path) -> None:
    ours = dict(gpu_operator_values({"exclusive": "{}"}))
    feature_discovery = ours.pop("node-feature-discovery")

    defaults = chart_values / "gpu-operator-v26.7.0.yaml"
    assert unknown_values(defaults, ours) == []
    # A separate chart, whose other values the operator's file doesn't repeat.
    assert unknown_values(defaults, {"node-feature-discovery": feature_discovery}) == [
        "node-feature-discovery.worker.nodeSelector.gpu-constructs.io/device-manager"
    ]
    assert unknown_values(defaults, {"driver": {"enable": False}}) == ["driver.enable"]


def test_known_values_are_the_charts(chart_values: Path) -> None:
    theirs = yaml.safe_load((chart_values / "gpu-operator-v26.7.0.yaml").read_text())

    assert theirs.keys() == KNOWN.keys()
    for section, names in KNOWN.items():
        assert not names or theirs[section].keys() <= names


def test_bottlerockets_own_device_plugin_stays_the_only_one(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    GpuOperator(stack, "Operator", cluster=cluster, acknowledge_bottlerocket=True)

    made = values(stack)
    assert made["devicePlugin"] == {"enabled": False}
    selected = made["node-feature-discovery"]["worker"]["nodeSelector"]
    nodes = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket").node_labels("l4")
    assert selected.items() <= nodes.items()


@pytest.mark.parametrize("first", [True, False])
def test_gpus_both_counted_and_claimed_are_warned_of_and_installed_in_order(
    stack: cdk.Stack, cluster: eks.ICluster, first: bool
) -> None:
    makers: list[Callable[[], object]] = [
        lambda: GpuOperator(stack, "Operator", cluster=cluster),
        lambda: DraDriver(stack, "Dra", cluster=cluster, kubernetes_version="1.36"),
    ]
    for make in makers if first else reversed(makers):
        make()

    resources = resources_of(stack)
    charts = {each["Properties"]["Chart"]: id for id, each in of_type(resources, CHART).items()}
    # Both have a definition of ComputeDomain, which only the driver reads.
    assert charts["gpu-operator"] in depends_on(resources, charts["dra-driver-nvidia-gpu"])
    warnings = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("device plugin and the DRA driver")
    )
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("told", "error", "rule"),
    [
        ({"drivers": {}}, ValueError, "values must have sections of the chart, got 'drivers'; did you mean 'driver'"),
        (
            {"gfd": {"enable": True}},
            ValueError,
            "values.'gfd'. must have names of the chart, got 'enable'; did you mean",
        ),
        ({"gfd": True}, TypeError, "values.'gfd'. must be a mapping, got True"),
        (["gfd"], TypeError, "values must be a mapping, got"),
    ],
)
def test_refuses_values_that_the_chart_would_ignore(
    stack: cdk.Stack, cluster: eks.ICluster, told: Any, error: type[Exception], rule: str
) -> None:
    with pytest.raises(error, match=f"Test/Operator: {rule}"):
        GpuOperator(stack, "Operator", cluster=cluster, values=told)


@pytest.mark.parametrize("component", ["driver", "toolkit"])
def test_refuses_what_the_image_has(stack: cdk.Stack, cluster: eks.ICluster, component: str) -> None:
    with pytest.raises(ValueError, match=f"Test/Operator: values must leave {component}.enabled False, got True"):
        GpuOperator(stack, "Operator", cluster=cluster, values={component: {"enabled": True}})


def test_refuses_a_second_device_manager(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    DevicePlugin(stack, "Plugin", cluster=cluster)

    with pytest.raises(ValueError, match="Test/Operator: cluster must have one device manager"):
        GpuOperator(stack, "Operator", cluster=cluster)
