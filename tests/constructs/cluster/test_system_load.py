"""The system nodes hold the controllers that an app installs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks as older_eks
from aws_cdk.assertions import Template

from gpu_constructs import ClusterAutoscaler, GpuCluster, Karpenter, NodeShape, SystemNodes, UpTo
from gpu_constructs.exposure import LoadBalancerController
from gpu_constructs.metrics import DcgmExporter, PrometheusStack
from gpu_constructs.pod_scaling import Keda
from gpu_constructs.queueing import JobSets, Kueue, LeaderWorkerSets
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input

_PLATFORM = (PrometheusStack, DcgmExporter, Keda, LoadBalancerController, Kueue, LeaderWorkerSets, JobSets)


def _platform(stack: cdk.Stack, *controllers: Any, nodes: SystemNodes | None = None) -> GpuCluster:
    gpu = GpuCluster(stack, "Gpu", system_nodes=nodes)
    for each in controllers:
        each(stack, each.__name__, cluster=gpu)
    return gpu


def _found(template: Mapping[str, Any], folder: Path) -> list[str]:
    """The findings of rule GPU481 in a template."""
    file = folder / "app.template.json"
    file.write_text(json.dumps(template))
    report = check(read_input([str(file)], stack="app"))
    return [each.problem.message for each in report.findings if each.rule.id == "GPU481"]


def _sizes(stack: cdk.Stack) -> tuple[int, int]:
    groups = Template.from_stack(stack).find_resources("AWS::EKS::Nodegroup")
    [group] = [each for name, each in groups.items() if "SystemNodes" in name]
    scaling = group["Properties"]["ScalingConfig"]
    return scaling["MinSize"], scaling["MaxSize"]


def test_platform_gets_nodes_for_all_of_its_controllers(stack: cdk.Stack) -> None:
    gpu = _platform(stack, Karpenter, *_PLATFORM)
    gpu.add_pool("infer", "g6.xlarge", size=UpTo(gpus=4))

    assert _sizes(stack) == (5, 5)


@pytest.mark.parametrize("autoscaler", [(), (Karpenter,), (ClusterAutoscaler,)])
def test_two_nodes_stay_two(stack: cdk.Stack, autoscaler: tuple[Any, ...]) -> None:
    _platform(stack, *autoscaler)

    assert _sizes(stack) == (2, 4)


def test_cluster_autoscaler_launches_the_nodes_beyond_two(stack: cdk.Stack) -> None:
    _platform(stack, ClusterAutoscaler, *_PLATFORM)

    assert _sizes(stack) == (2, 4)


def test_function_that_sizes_the_group_gets_the_same_numbers(stack: cdk.Stack) -> None:
    _platform(stack, Karpenter, *_PLATFORM)

    [size] = Template.from_stack(stack).find_resources("Custom::GpuNodeGroupSize").values()
    assert (size["Properties"]["Min"], size["Properties"]["Max"]) == (5, 5)


def test_larger_nodes_are_fewer(stack: cdk.Stack) -> None:
    _platform(stack, Karpenter, *_PLATFORM, nodes=SystemNodes(instance_types=("m6i.2xlarge",)))

    assert _sizes(stack) == (2, 4)


def test_unknown_types_keep_two_nodes(stack: cdk.Stack) -> None:
    _platform(stack, Karpenter, *_PLATFORM, nodes=SystemNodes(instance_types=("i7i.large",)))

    assert _sizes(stack) == (2, 4)


def test_sizes_that_may_do_are_kept(stack: cdk.Stack) -> None:
    _platform(stack, Karpenter, *_PLATFORM, nodes=SystemNodes(min_nodes=3, max_nodes=3))

    assert _sizes(stack) == (3, 3)


@pytest.mark.parametrize(
    ("nodes", "autoscaler", "message"),
    [
        (
            {"min_nodes": 2},
            Karpenter,
            r"Gpu/SystemNodes: system_nodes.min_nodes must be at least 3, got 2; .*4010m cpu",
        ),
        ({"max_nodes": 2}, Karpenter, r"system_nodes.max_nodes must be at least 3, got 2; .* 1740m cpu .*GPU481"),
        ({"min_nodes": 1, "max_nodes": 1}, ClusterAutoscaler, r"system_nodes.max_nodes must be at least 2, got 1"),
    ],
)
def test_rejects_sizes_that_cannot_hold_them(
    stack: cdk.Stack, nodes: dict[str, Any], autoscaler: Any, message: str
) -> None:
    _platform(stack, autoscaler, *_PLATFORM, nodes=SystemNodes(**nodes))

    with pytest.raises(RuntimeError, match=message):
        cdk.App.of(stack).synth()  # type: ignore[union-attr]


def test_rejects_nodes_smaller_than_a_pod(stack: cdk.Stack) -> None:
    values = {"resources": {"requests": {"cpu": "3"}}}
    gpu = _platform(stack, nodes=SystemNodes(instance_types=("t3.medium",)))
    LeaderWorkerSets(stack, "Sets", cluster=gpu, values=values)

    with pytest.raises(
        RuntimeError, match=r"system_nodes.instance_types must be large enough for each pod, got t3.medi"
    ):
        cdk.App.of(stack).synth()  # type: ignore[union-attr]


def test_checker_finds_what_two_nodes_cannot_hold(stack: cdk.Stack, tmp_path: Path) -> None:
    gpu = _platform(stack, Karpenter, *_PLATFORM)
    gpu.add_pool("infer", "g6.xlarge", size=UpTo(gpus=4))
    template = Template.from_stack(stack).to_json()

    assert not _found(template, tmp_path)
    for each in template["Resources"].values():
        if each["Type"] == "Custom::GpuNodeGroupSize":
            each["Properties"] |= {"Min": 2, "Max": 4}
        if each["Type"] == "AWS::EKS::Nodegroup":
            each["Properties"]["ScalingConfig"] |= {"MinSize": 2, "MaxSize": 4}
    [message] = _found(template, tmp_path)
    assert "request at least 4010m cpu (karpenter 1, lws 1, " in message
    assert message.endswith("2 nodes of pool GpuSystemNodes00DF7D5A offer 3860m for pods")


def test_nodes_of_ones_own_may_hold_them(stack: cdk.Stack) -> None:
    gpu = _platform(stack, Karpenter, *_PLATFORM, nodes=SystemNodes(min_nodes=2))
    older_eks.CfnNodegroup(stack, "Own", cluster_name=gpu.name, node_role="arn:aws:iam::1:role/r", subnets=["subnet-1"])

    cdk.App.of(stack).synth()  # type: ignore[union-attr]


def test_gpu_nodes_without_a_taint_may_hold_them(stack: cdk.Stack) -> None:
    gpu = _platform(stack, Karpenter, *_PLATFORM, nodes=SystemNodes(min_nodes=2))
    gpu.add_pool("any", NodeShape(instance_types=("g6.xlarge",), gpu_taint=False), size=UpTo(gpus=4))

    cdk.App.of(stack).synth()  # type: ignore[union-attr]
