"""EC2 interruption warnings reach a queue if the stack's rules and queue policy allow it; pods use their roles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_rehearsal.aws.api import AwsError
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.credentials import Source
from tests.rehearsal.aws.conftest import Role

QUEUE = "arn:aws:sqs:us-east-1:123456789012:interruptions"


@pytest.fixture
def queue(aws: Aws) -> Iterator[str]:
    """The URL of a queue that a rule sends interruption warnings to."""
    url = aws.client("sqs").create_queue(QueueName="interruptions")["QueueUrl"]
    pattern = {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}
    events = aws.client("events")
    events.put_rule(Name="spot", EventPattern=json.dumps(pattern))
    events.put_targets(Rule="spot", Targets=[{"Id": "queue", "Arn": QUEUE}])
    yield str(url)
    aws.client("sqs").delete_queue(QueueUrl=url)


def allow_events(aws: Aws, queue: str, **condition: Any) -> None:
    statement = {"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage"}
    document = {"Statement": [statement | {"Resource": QUEUE} | condition]}
    aws.client("sqs").set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(document)})


def test_a_warning_reaches_the_queue(aws: Aws, queue: str) -> None:
    allow_events(aws, queue)

    aws.interrupt("i-0123456789abcdef0")

    (message,) = aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    warning = json.loads(message["Body"])
    assert warning["detail"] == {"instance-id": "i-0123456789abcdef0", "instance-action": "terminate"}


def test_a_queue_whose_policy_does_not_allow_the_rule_gets_nothing(aws: Aws, queue: str) -> None:
    allow_events(
        aws, queue, Condition={"ArnEquals": {"aws:SourceArn": "arn:aws:events:us-east-1:123456789012:rule/other"}}
    )

    aws.interrupt("i-0123456789abcdef0")

    assert (aws.calls[-1].action, aws.calls[-1].allowed) == ("sqs:SendMessage", False)
    assert "Messages" not in aws.client("sqs").receive_message(QueueUrl=queue)


def associate(aws: Aws, cluster: str, role: str) -> None:
    aws.client("eks").create_pod_identity_association(
        clusterName=cluster, namespace="kube-system", serviceAccount="karpenter", roleArn=role
    )


@pytest.fixture
def node(role: Role) -> str:
    return role("Node", {"Effect": "Allow", "Action": "eks-auth:AssumeRoleForPodIdentity", "Resource": "*"})


def pod(aws: Aws, cluster: str, node: str, account: str = "karpenter") -> Any:
    return aws.pod_credentials(
        cluster, namespace="kube-system", service_account=account, pod="one", node_role=node, source=Source(name="i-1")
    )


def test_a_pod_gets_the_role_of_its_account_with_tags_that_policies_may_ask_for(
    aws: Aws, cluster: str, role: Role, node: str
) -> None:
    condition = {"StringEquals": {"aws:PrincipalTag/kubernetes-service-account": "karpenter"}}
    descriptions = {"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "*", "Condition": condition}
    karpenter = role("Karpenter", descriptions, trusts="pods.eks.amazonaws.com")
    associate(aws, cluster, karpenter)

    credentials = pod(aws, cluster, node)

    assert pod(aws, cluster, node, "default") is None
    assert aws.resolve_role(credentials.access_key) == karpenter
    aws.client("eks", credentials=credentials).describe_cluster(name=cluster)
    with pytest.raises(ClientError, match="not authorized"):
        aws.client("eks", role=karpenter).describe_cluster(name=cluster)


def test_a_role_that_does_not_trust_these_pods_is_not_given(aws: Aws, cluster: str, role: Role, node: str) -> None:
    other = {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "other"}}
    associate(aws, cluster, role("Karpenter", trusts="pods.eks.amazonaws.com", Condition=other))

    with pytest.raises(AwsError, match=r"pods.eks.amazonaws.com is not authorized to perform: sts:AssumeRole"):
        pod(aws, cluster, node)
