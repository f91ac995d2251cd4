"""EfaDevicePlugin reaches every node with EFA interfaces, whatever its taints."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import NodeShape
from gpu_constructs.devices import EfaDevicePlugin
from gpu_constructs.devices.device_plugin import efa_plugin_values
from tests.templates import CHART, only, resources_of


def test_selects_the_nodes_that_say_they_have_efa() -> None:
    labels = NodeShape(instance_types=("p5.48xlarge",), efa=True).node_labels("h100")
    selected = efa_plugin_values()["supportedInstanceLabels"]

    assert [labels[key] for key in selected["keys"]] == selected["values"]
    assert not set(selected["keys"]) & NodeShape(instance_types=("p5.48xlarge",)).node_labels("h100").keys()


def test_tolerates_every_taint() -> None:
    assert efa_plugin_values()["tolerations"] == [{"operator": "Exists"}]


def test_chart_is_pinned_and_named(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    EfaDevicePlugin(stack, "Efa", cluster=cluster, values={"image": {"repository": "example.com/efa"}})

    properties = only(resources_of(stack), CHART)
    assert (properties["Chart"], properties["Version"]) == ("aws-efa-k8s-device-plugin", "v0.5.30")
    assert properties["Release"] == properties["Chart"]
    assert '"repository":"example.com/efa"' in properties["Values"]


def test_every_chart_value_exists(chart_values: Path) -> None:
    defaults = yaml.safe_load((chart_values / "aws-efa-k8s-device-plugin.yaml").read_text())

    for key, value in efa_plugin_values().items():
        assert key in defaults
        assert not isinstance(value, dict) or value.keys() <= defaults[key].keys()


def test_refuses_a_second_one(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    EfaDevicePlugin(stack, "Efa", cluster=cluster)

    with pytest.raises(ValueError, match="Test/Again: cluster must have one EFA device plugin"):
        EfaDevicePlugin(stack, "Again", cluster=cluster)


def test_refuses_values_that_are_none(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(TypeError, match="Test/Efa: values must be a mapping, got 7"):
        EfaDevicePlugin(stack, "Efa", cluster=cluster, values=7)  # type: ignore[arg-type]
