"""NodeTerminationHandler hears of every end of a node, and may let go of the cluster's nodes only."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import NodeShape, Spot
from gpu_constructs.nodes import Bootstrap, NodeTerminationHandler, SelfManagedNodeGroup
from gpu_constructs.nodes.node_termination_handler import handler_values
from gpu_constructs.pools import ScalingOptions
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster
from tests.templates import CHART, depends_on, of_type, only, resources_of, resources_under

ASG = "AWS::AutoScaling::AutoScalingGroup"


@pytest.fixture
def joinable(stack: cdk.Stack, vpc: Any) -> eks.ICluster:
    """An imported cluster with everything a node joins by."""
    return imported_cluster(stack, vpc, cluster_endpoint=ENDPOINT, cluster_certificate_authority_data=CERTIFICATE)


def group(stack: cdk.Stack, cluster: eks.ICluster, **changes: Any) -> SelfManagedNodeGroup:
    says: dict[str, Any] = {
        "cluster": cluster,
        "name": "l4",
        "shape": NodeShape(instance_types=("g6.xlarge",)),
        "max_nodes": 4,
        "bootstrap": Bootstrap(kubernetes_version="1.36", service_cidr="10.100.0.0/16"),
    }
    return SelfManagedNodeGroup(stack, "Nodes", **says | changes)


def test_construct(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    NodeTerminationHandler(stack, "Handler", cluster=cluster)

    assert resources_under(stack, "Handler") == snapshot_yaml


def test_nodes_are_held_until_they_are_drained(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    handler = NodeTerminationHandler(stack, "Handler", cluster=joinable)
    group(stack, joinable, capacity=Spot(), termination_handler=handler)

    resources = resources_of(stack)
    properties = only(resources, ASG)
    [hook] = properties["LifecycleHookSpecificationList"]
    assert hook["LifecycleTransition"] == "autoscaling:EC2_INSTANCE_TERMINATING"
    assert hook["DefaultResult"] == "CONTINUE"
    tags = {each["Key"]: each for each in properties["Tags"] if isinstance(each["Key"], str)}
    assert tags["aws-node-termination-handler/managed"]["PropagateAtLaunch"] is True
    [asg], [chart] = of_type(resources, ASG), of_type(resources, CHART)
    assert chart in depends_on(resources, asg)


def test_a_handler_that_is_there_already_is_only_counted_on(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable, capacity=Spot(), termination_handler="installed")

    resources = resources_of(stack)
    assert len(only(resources, ASG)["LifecycleHookSpecificationList"]) == 1
    assert of_type(resources, CHART) == {}


def test_without_a_handler_nothing_is_held(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable)

    properties = only(resources_of(stack), ASG)
    assert "LifecycleHookSpecificationList" not in properties
    assert "termination-handler" not in str(properties["Tags"])


def test_scaling_options_are_tags_of_the_group(stack: cdk.Stack, joinable: eks.ICluster) -> None:
    group(stack, joinable, scaling_options=ScalingOptions(gpu_utilization=0.7))

    assert "scaledowngpuutilizationthreshold" in str(only(resources_of(stack), ASG)["Tags"])


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"capacity": Spot()},
            ValueError,
            r"termination_handler must be given with Spot\(\), got None; pass one, because EC2 reclaims",
        ),
        ({"termination_handler": "yes"}, TypeError, r"must be a NodeTerminationHandler or 'installed', got 'yes'"),
        ({"scaling_options": {}}, TypeError, r"scaling_options must be a ScalingOptions, got \{\}"),
    ],
)
def test_refuses(
    stack: cdk.Stack, joinable: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        group(stack, joinable, **changes)


def test_refuses_a_second_handler(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    NodeTerminationHandler(stack, "Handler", cluster=cluster)

    with pytest.raises(ValueError, match="Test/Again: cluster must have one node termination handler"):
        NodeTerminationHandler(stack, "Again", cluster=cluster)


# Keys of config/helm/aws-node-termination-handler/values.yaml at v1.25.6, of those that are set here.
KNOWN = {
    "enableSqsTerminationDraining",
    "queueURL",
    "awsRegion",
    "managedTag",
    "nodeTerminationGracePeriod",
    "serviceAccount",
    "affinity",
    "resources",
}


def test_every_chart_value_exists() -> None:
    values = handler_values(queue_url="https://sqs", region="us-east-1", drain_seconds=300)

    assert set(values) == KNOWN
    assert yaml.safe_dump(dict(values))
