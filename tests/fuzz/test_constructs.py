"""Constructs with random arguments: rejected in words before anything changes, or rendered completely."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs import (
    ClusterAutoscaler,
    DevicePlugin,
    GpuCluster,
    GpuDeployment,
    GpuJob,
    GpuPod,
    GpuSmokeTest,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    Reservation,
    UpTo,
)
from gpu_constructs.cluster import PrivateEndpoints
from gpu_constructs.devices import DraDriver, EfaDevicePlugin, GpuOperator
from gpu_constructs.exposure import LoadBalancerController
from gpu_constructs.metrics import DcgmExporter, PrometheusStack, ReservationAlarm
from gpu_constructs.nodes import NodeTerminationHandler
from gpu_constructs.pod_scaling import Keda
from gpu_constructs.queueing import KaiScheduler, Kueue
from gpu_constructs.workloads import MultiNodeDeployment
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS
from tests.fuzz.hostile import HOSTILE, made_or_refused
from tests.long import count
from tests.schemas import validate
from tests.templates import manifests_of, resources_of

SHAPE = NodeShape(instance_types=("g6.xlarge",))
POD = GpuPod(image="example.com/app:1")
# Valid arguments that each needs in addition to its cluster; `pool` is one that the test creates.
GOOD: dict[Callable[..., Any], dict[str, Any]] = {
    ClusterAutoscaler: {"kubernetes_version": "1.36"},
    DcgmExporter: {},
    DevicePlugin: {},
    DraDriver: {"kubernetes_version": "1.36"},
    EfaDevicePlugin: {},
    GpuDeployment: {"name": "chat", "pod": POD},
    GpuJob: {"name": "train", "pod": POD},
    GpuOperator: {},
    GpuSmokeTest: {},
    KaiScheduler: {},
    Karpenter: {},
    KarpenterNodePool: {"name": "l4", "shape": SHAPE, "size": UpTo(gpus=4)},
    Keda: {},
    Kueue: {},
    LoadBalancerController: {},
    ManagedNodeGroup: {"name": "l4", "shape": SHAPE, "max_nodes": 2},
    MultiNodeDeployment: {
        "name": "r1",
        "pod": POD,
        "nodes": 2,
        "leader": ("serve",),
        "worker": ("join",),
        "port": 8000,
    },
    NodeTerminationHandler: {},
    PrometheusStack: {},
    ReservationAlarm: {"reservation": Reservation(id="cr-0123456789abcdef0", availability_zone="us-east-1a")},
}
_GIVEN = ("self", "scope", "id", "cluster", "pool", "karpenter", "vpc")
_OBJECTS_OF_KUBERNETES = ("Deployment", "Job", "DaemonSet", "ConfigMap", "Service", "NetworkPolicy", "PriorityClass")


def arguments(construct: Callable[..., Any]) -> list[str]:
    """The arguments of a construct that may be anything."""
    return [each for each in parameters(construct) if each not in _GIVEN]


def parameters(construct: Callable[..., Any]) -> tuple[str, ...]:
    """All arguments of a construct, which is wrapped to refuse those without a name."""
    found = tuple(inspect.signature(inspect.unwrap(vars(construct)["__init__"])).parameters)
    assert "scope" in found
    return found


def world(construct: Callable[..., Any]) -> tuple[cdk.Stack, dict[str, Any]]:
    """A stack with a cluster, and the parts of it that the construct accepts."""
    stack = cdk.Stack(
        cdk.App(context=FLAGS, analytics_reporting=False),
        "Test",
        env=cdk.Environment(account="111122223333", region="us-east-1"),
    )
    cluster = imported_cluster(stack, imported_vpc(stack))
    taken = parameters(construct)
    has: dict[str, Any] = {"cluster": cluster} if "cluster" in taken else {}
    if "pool" in taken:
        has["pool"] = ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="nodes", shape=SHAPE, max_nodes=2)
    if "karpenter" in taken:
        has["karpenter"] = Karpenter(stack, "Karpenter", cluster=cluster)
    return stack, has


@pytest.mark.parametrize("construct", GOOD, ids=lambda each: each.__name__)
@settings(max_examples=count(6, 200))
@given(data=st.data())
def test_a_construct_is_made_whole_or_refused_in_words(construct: Callable[..., Any], data: st.DataObject) -> None:
    wrong = data.draw(st.lists(st.sampled_from(arguments(construct)), min_size=1, max_size=2, unique=True))
    says = GOOD[construct] | {argument: data.draw(HOSTILE) for argument in wrong}
    stack, has = world(construct)

    if made_or_refused(lambda: construct(stack, "It", **has, **says)) is None:
        return

    for each in manifests_of(resources_of(stack)):
        if each["kind"] in _OBJECTS_OF_KUBERNETES:
            validate(each, "1.36")


@settings(max_examples=count(12, 200))
@given(data=st.data())
def test_a_cluster_is_made_whole_or_refused_in_words(data: st.DataObject) -> None:
    wrong = data.draw(st.lists(st.sampled_from(arguments(GpuCluster)), min_size=1, max_size=2, unique=True))
    says = {argument: data.draw(HOSTILE) for argument in wrong}
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")

    if made_or_refused(lambda: GpuCluster(stack, "It", **says)) is not None:
        assert resources_of(stack)


@settings(max_examples=count(12, 200))
@given(data=st.data())
def test_endpoints_are_made_whole_or_refused_in_words(data: st.DataObject) -> None:
    says = {
        argument: data.draw(HOSTILE) for argument in data.draw(st.lists(st.sampled_from(arguments(PrivateEndpoints))))
    }
    stack = cdk.Stack(cdk.App(context=FLAGS, analytics_reporting=False), "Test")
    vpc = GpuCluster(stack, "Gpu").vpc

    if made_or_refused(lambda: PrivateEndpoints(stack, "It", vpc=vpc, **says)) is not None:
        assert resources_of(stack)
