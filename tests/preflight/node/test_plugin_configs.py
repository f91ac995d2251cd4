"""A node has the configuration of the device plugin that its label names, else the default of the chart."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.charts import DEVICE_PLUGIN, GPU_OPERATOR
from gpu_preflight.cluster.software import software
from gpu_preflight.model.label_values import Labels, LabelValues, exactly
from gpu_preflight.model.software import DaemonSet, MissingConfig
from gpu_preflight.node.devices import Offer, plugin_offer
from gpu_preflight.reading.objects import Chart, Origin
from gpu_preflight.reading.unknown import Unknown

SHARED = '{"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}}'
MIXED = '{"flags": {"migStrategy": "mixed"}}'
TEXTS = {"whole": '{"version": "v1"}', "shared": SHARED, "mixed": MIXED}
LABEL = "nvidia.com/device-plugin.config"
LATER = Unknown("${Later}")


def plugin(name: str, values: dict[str, Any]) -> DaemonSet:
    """Return the device plugin of a chart."""
    version = {GPU_OPERATOR: "v26.7.0", DEVICE_PLUGIN: "0.20.0"}[name]
    found = software([], [Chart(name, version, values, Origin("app.yaml", ""), {}, "gpu")], [])
    [daemon] = [each for each in found.daemon_sets if "nvidia.com/gpu" in each.advertises]
    return daemon


def operator(strategy: Any = "none", **config: Any) -> DaemonSet:
    """Return the device plugin of the GPU Operator."""
    told = {"create": True, "name": "plugin", "default": "whole", "data": TEXTS} | config
    return plugin(GPU_OPERATOR, {"mig": {"strategy": strategy}, "devicePlugin": {"config": told}})


def chart(**values: Any) -> DaemonSet:
    """Return the device plugin of NVIDIA's chart."""
    return plugin(DEVICE_PLUGIN, values)


def offer(daemon: DaemonSet, label: str | None = None) -> Offer:
    """Return what the plugin offers on a node with a label."""
    return plugin_offer(daemon.select_config({} if label is None else {LABEL: exactly(label)}))


@pytest.mark.parametrize("daemon", [operator(), chart(config={"map": TEXTS, "default": "whole"})])
def test_a_node_has_the_configuration_that_its_label_names(daemon: DaemonSet) -> None:
    assert offer(daemon).multiples == {"nvidia.com/gpu": 1}
    assert offer(daemon, "shared").multiples == {"nvidia.com/gpu": 4}


@pytest.mark.parametrize("daemon", [operator(), chart(config={"map": TEXTS, "default": "whole"})])
def test_a_label_of_no_configuration_keeps_the_plugin_from_starting(daemon: DaemonSet) -> None:
    assert daemon.select_config({LABEL: exactly("sliced")}) == MissingConfig("sliced")
    assert not offer(daemon, "sliced").multiples


@pytest.mark.parametrize(
    "labels", [{LABEL: LATER}, {LABEL: exactly("shared", "whole")}, {LABEL: LabelValues(frozenset("a"), unsure=True)}]
)
def test_a_label_that_is_not_known_leaves_the_configuration_open(labels: Labels) -> None:
    assert isinstance(operator().select_config(labels), Unknown)


@pytest.mark.parametrize(
    "daemon",
    [
        operator(create=False),
        operator(create=LATER),
        operator(data=LATER),
        operator(default=LATER),
        operator(name=LATER, create=False, data={}),
        plugin(GPU_OPERATOR, {"devicePlugin": LATER}),
        chart(config={"name": "elsewhere"}),
        chart(config={"map": LATER}),
        chart(config=LATER),
        chart(config={"map": TEXTS}),
        chart(config={"map": {"default": LATER}}),
        chart(config={"map": {"default": MIXED}, "fallbackStrategies": ["empty"]}),
        chart(migStrategy=LATER),
    ],
)
def test_a_configuration_that_cannot_be_read_is_unknown(daemon: DaemonSet) -> None:
    assert not offer(daemon).known


def test_without_a_default_the_operator_takes_an_empty_configuration() -> None:
    assert offer(operator(default="")).multiples == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize("texts", [{"only": SHARED}, {"default": SHARED, "mixed": MIXED}])
def test_without_a_default_the_chart_takes_the_one_of_that_name_or_the_only_one(texts: dict[str, str]) -> None:
    assert offer(chart(config={"map": texts})).multiples == {"nvidia.com/gpu": 4}


def test_a_default_that_there_is_not_is_missing() -> None:
    assert operator(default="sliced").config == MissingConfig("sliced")


def test_the_charts_strategy_overrides_a_configurations() -> None:
    assert not offer(operator(), "mixed").slices
    assert offer(operator("mixed")).slices
    assert offer(chart(config={"map": {"default": MIXED}}, migStrategy="single")).uniform
    assert offer(chart(config={"map": {"default": MIXED}})).slices


def test_the_operators_strategy_is_single_by_default() -> None:
    assert offer(plugin(GPU_OPERATOR, {})).uniform
