"""Karpenter is installed as its pinned version asks: charts, policies, queue, roles, order."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import AutoModeNodePool, Karpenter, NodeShape, UpTo
from gpu_constructs.autoscaling.karpenter import controller_values
from gpu_constructs.autoscaling.karpenter_policies import KarpenterScope, karpenter_policies
from gpu_facts.versions import KARPENTER_RELEASES
from tests.chart_values import unknown_values
from tests.templates import CHART, depends_on, of_type, only, resources_of, resources_under

# An AWS managed or customer managed policy holds so many characters other than white space.
# Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
POLICY_CHARACTERS = 6_144


def policies(cluster_name: str = "demo") -> dict[str, Any]:
    """The statements of every policy, with plain values in place of those that exist only at deployment."""
    return karpenter_policies(
        KarpenterScope(
            cluster_name=cluster_name,
            partition="aws",
            region="us-east-1",
            account="111122223333",
            node_role_arn="arn:aws:iam::111122223333:role/nodes",
            queue_arn="arn:aws:sqs:us-east-1:111122223333:queue",
            string_equals=lambda _, tags: dict(tags),
        )
    )


def upstream() -> Any:
    """The statements of every policy of the pinned version, with the same plain values."""
    plain = {
        "${AWS::Partition}": "aws",
        "${AWS::Region}": "us-east-1",
        "${AWS::AccountId}": "111122223333",
        "${ClusterName}": "demo",
        "${KarpenterNodeRole.Arn}": "arn:aws:iam::111122223333:role/nodes",
        "${KarpenterInterruptionQueue.Arn}": "arn:aws:sqs:us-east-1:111122223333:queue",
    }
    text = (Path(__file__).parent / "karpenter_policies.yaml").read_text()
    return yaml.safe_load(re.sub(r"\$\{[^}]+\}", lambda each: plain[each[0]], text))["policies"]


def test_policies_are_upstreams_statement_by_statement() -> None:
    expected = upstream()

    assert len(expected) == 6
    assert policies() == expected


def test_policies(snapshot_yaml: SnapshotAssertion) -> None:
    assert policies() == snapshot_yaml


def test_every_policy_holds_the_longest_cluster_name() -> None:
    for name, statements in policies("c" * 100).items():
        document = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
        assert len(document) <= POLICY_CHARACTERS, name


def test_construct(stack: cdk.Stack, cluster: eks.ICluster, snapshot_yaml: SnapshotAssertion) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    resources = resources_under(stack, "Karpenter")
    assert {id: each for id, each in resources.items() if each["Type"] != "AWS::IAM::ManagedPolicy"} == snapshot_yaml


def test_crds_come_first_and_the_controller_outlives_nothing_it_needs(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    resources = resources_of(stack)
    charts = {each["Properties"]["Chart"]: id for id, each in of_type(resources, CHART).items()}
    needed = depends_on(resources, charts["karpenter"])
    assert charts["karpenter-crd"] in needed
    assert {resources[id]["Type"] for id in needed} >= {
        "AWS::EKS::PodIdentityAssociation",
        "AWS::EKS::AccessEntry",
        "AWS::IAM::ManagedPolicy",
        "AWS::SQS::QueuePolicy",
        "AWS::Events::Rule",
    }


def test_charts_are_pinned_named_and_given_less_time_than_the_lambda(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    for chart in of_type(resources_of(stack), CHART).values():
        properties = chart["Properties"]
        assert properties["Version"] == "1.14.1"
        assert properties["Release"] == properties["Chart"]
        assert properties["Wait"] is True
        assert int(properties["Timeout"].removesuffix("s")) < 15 * 60


def test_queue_is_encrypted_and_takes_tls_only(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    resources = resources_of(stack)
    assert only(resources, "AWS::SQS::Queue")["SqsManagedSseEnabled"] is True
    statements = only(resources, "AWS::SQS::QueuePolicy")["PolicyDocument"]["Statement"]
    assert [each["Condition"] for each in statements if each["Effect"] == "Deny"] == [
        {"Bool": {"aws:SecureTransport": "false"}}
    ]


def test_only_its_own_rules_fill_the_queue(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    resources = resources_of(stack)
    [allowed, _] = only(resources, "AWS::SQS::QueuePolicy")["PolicyDocument"]["Statement"]
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    rules = [each["Fn::GetAtt"] for each in allowed["Condition"]["ArnEquals"]["aws:SourceArn"]]
    assert rules == [[id, "Arn"] for id in of_type(resources, "AWS::Events::Rule")]


def test_only_its_pods_in_this_cluster_take_the_role(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    resources = resources_of(stack)
    association = only(resources, "AWS::EKS::PodIdentityAssociation")
    [statement] = resources[association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]["AssumeRolePolicyDocument"][
        "Statement"
    ]
    assert statement["Condition"]["StringEquals"] == {
        "aws:RequestTag/eks-cluster-arn": "arn:aws:eks:us-east-1:111122223333:cluster/demo",
        "aws:RequestTag/kubernetes-namespace": association["Namespace"],
        "aws:RequestTag/kubernetes-service-account": association["ServiceAccount"],
    }


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_an_isolated_controller_may_do_nothing_that_it_cannot_reach(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster, isolated=True)

    documents = [
        each["Properties"]["PolicyDocument"]
        for each in of_type(resources_of(stack), "AWS::IAM::ManagedPolicy").values()
    ]
    said = [each for document in documents for each in document["Statement"]]
    assert all(document["Statement"] for document in documents)
    actions = {action for each in said for action in _listed(each["Action"])}
    assert {each for each in actions if each.startswith(("iam:", "pricing:"))} == {"iam:PassRole"}
    everything = {each["Sid"] for statements in policies().values() for each in statements}
    assert len(everything) - len(said) == 6


def test_five_kinds_of_events_reach_the_queue(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    rules = of_type(resources_of(stack), "AWS::Events::Rule").values()
    assert sorted(each["Properties"]["EventPattern"]["detail-type"][0] for each in rules) == [
        "AWS Health Event",
        "EC2 Capacity Reservation Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Spot Instance Interruption Warning",
    ]


def test_a_given_node_role_gets_no_second_access_entry(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    role = iam.Role.from_role_arn(stack, "Nodes", "arn:aws:iam::111122223333:role/nodes")

    karpenter = Karpenter(stack, "Karpenter", cluster=cluster, node_role=role)

    assert karpenter.node_role is role
    assert of_type(resources_of(stack), "AWS::EKS::AccessEntry") == {}


def test_refuses_a_second_controller(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    Karpenter(stack, "Karpenter", cluster=cluster)

    with pytest.raises(
        ValueError, match="Test/Again: cluster must have one Karpenter, got a second one next to 'Test/Karpenter'"
    ):
        Karpenter(stack, "Again", cluster=cluster)


def test_refuses_a_cluster_in_auto_mode(stack: cdk.Stack) -> None:
    layer = lambda_.LayerVersion.from_layer_version_arn(
        stack, "Layer", "arn:aws:lambda:us-east-1:111122223333:layer:kubectl:1"
    )
    auto = eks.Cluster(
        stack,
        "Auto",
        version=eks.KubernetesVersion.of("1.36"),
        kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=layer),
    )

    with pytest.raises(ValueError, match="Test/Karpenter: cluster must not use EKS Auto Mode"):
        Karpenter(stack, "Karpenter", cluster=auto)
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket")
    assert AutoModeNodePool(stack, "Pool", cluster=auto, name="l4", shape=shape, size=UpTo(gpus=1)).name == "l4"


def test_conditions_take_a_name_known_only_at_deployment(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    Karpenter(stack, "Karpenter", cluster=created_cluster)

    assert len(of_type(resources_of(stack), "Custom::AWSCDKCfnJson")) == 6


def test_every_chart_value_exists(chart_values: Path) -> None:
    gates = {"staticCapacity": True, "nodeOverlay": True, "reservedCapacity": True, "nodeRepair": True}
    values = controller_values(cluster_name="demo", queue_name="queue", gates=gates, isolated=True)

    for release in KARPENTER_RELEASES:
        assert unknown_values(chart_values / f"karpenter-{release}.yaml", values) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cluster": 1}, r"Test/Karpenter: cluster must be a GpuCluster or a cluster of aws_cdk.aws_eks_v2, got int"),
        ({"node_role": "arn"}, r"Test/Karpenter: node_role must be an iam.IRole, got 'arn'"),
    ],
)
def test_refuses(stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Karpenter(stack, "Karpenter", **{"cluster": cluster} | changes)
