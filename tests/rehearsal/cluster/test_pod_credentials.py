"""A pod requests the credentials of its service account's role, and waits if it doesn't get them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.identities import PodCredentials
from gpu_rehearsal.cluster.instances import Instance, Node
from tests.rehearsal.aws.conftest import Role, aws, cluster, role, subnets, world

__all__ = ["aws", "cluster", "role", "subnets", "world"]
AGENT: Object = {
    "metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "eks-pod-identity-agent"}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
POD_IDENTITY = {"Effect": "Allow", "Action": "eks-auth:AssumeRoleForPodIdentity", "Resource": "*"}
LATER, EARLIER = "2999-01-01T00:00:00Z", "2001-01-01T00:00:00Z"


class Server:
    """A server with service accounts and the pods of one node.

    Attributes:
        annotations: Annotations of every service account.
        pods: The pods.
    """

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.pods = [AGENT]

    def get(self, path: str) -> Object:
        """Return a service account."""
        return {"metadata": {"name": path.rpartition("/")[2], "annotations": self.annotations}}

    def list(self, path: str, **_: str) -> list[Object]:
        """Return the pods."""
        return self.pods


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def node(aws: Aws, role: Role, subnets: list[str]) -> Node:
    made = aws.client("ec2").create_network_interface(SubnetId=subnets[0])["NetworkInterface"]
    return node_of(role("Node", POD_IDENTITY), made["NetworkInterfaceId"])


def node_of(role: str, interface: str = "") -> Node:
    description = {
        "NetworkInterfaces": [{"NetworkInterfaceId": interface}],
        "Placement": {"AvailabilityZone": "us-east-1a"},
    }
    description |= {"InstanceId": "i-1", "SubnetId": "", "SecurityGroups": []}
    return Node("node-1", Instance(description, None, cast("Any", None), 100, role), cast("Client", None), 0.0)


@pytest.fixture
def pods(aws: Aws, cluster: str, server: Server) -> PodCredentials:
    return PodCredentials(aws, cast("Client", server), cluster=cluster, pace=0.0)


def pod(account: str = "apps/web", *, created: str = LATER, **spec: Any) -> Object:
    namespace, name = account.split("/")
    metadata = {"name": "web-1", "namespace": namespace, "uid": f"{account}-{created}", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"serviceAccountName": name} | spec}


def associate(aws: Aws, cluster: str, role: str, account: str = "apps/web", **more: Any) -> None:
    namespace, name = account.split("/")
    aws.client("eks").create_pod_identity_association(
        clusterName=cluster, namespace=namespace, serviceAccount=name, roleArn=role, **more
    )


def test_a_pod_gets_the_role_of_its_account(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node
) -> None:
    web = role("Web", trusts="pods.eks.amazonaws.com")
    associate(aws, cluster, web)

    assert pods.lacks(pod(), node) == ""
    found = pods.credentials(pod(), node)

    assert found is not None
    assert found.role == web


def test_session_tags_decide(aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node) -> None:
    condition = {"StringEquals": {"aws:RequestTag/kubernetes-service-account": "other"}}
    associate(aws, cluster, role("Web", trusts="pods.eks.amazonaws.com", Condition=condition))

    why = pods.lacks(pod(), node)

    assert "AWS credentials of service account apps/web: " in why
    assert "'kubernetes-service-account': 'web'" in why


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        ({"trusts": "ec2.amazonaws.com"}, "pods.eks.amazonaws.com is not authorized to perform: sts:AssumeRole"),
        ({"trusts": "pods.eks.amazonaws.com", "Action": "sts:AssumeRole"}, "to perform: sts:TagSession"),
    ],
)
def test_a_role_that_does_not_trust_the_pod_gives_no_credentials(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node, trust: dict[str, Any], why: str
) -> None:
    associate(aws, cluster, role("Web", **trust))

    assert why in pods.lacks(pod(), node)
    assert pods.lacks_agent(pod(), node) == ""
    with pytest.raises(ClientError, match=why):
        aws.client("ec2", credentials=pods.credentials(pod(), node)).describe_instances()
    assert (aws.calls[-1].principal, aws.calls[-1].allowed) == ("pods.eks.amazonaws.com", False)


def test_a_session_without_tags_needs_no_right_to_tag(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node
) -> None:
    trusting = role("Web", trusts="pods.eks.amazonaws.com", Action="sts:AssumeRole")
    associate(aws, cluster, trusting, disableSessionTags=True)

    assert pods.lacks(pod(), node) == ""


def test_the_agent_requests_them_as_the_role_of_the_node(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials
) -> None:
    associate(aws, cluster, role("Web", trusts="pods.eks.amazonaws.com"))

    assert "to perform: eks-auth:AssumeRoleForPodIdentity" in pods.lacks(pod(), node_of(role("Node")))


def test_without_an_agent_nothing_answers(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node, server: Server
) -> None:
    associate(aws, cluster, role("Web", trusts="pods.eks.amazonaws.com"))
    server.pods = []

    assert "no ready pod of eks-pod-identity-agent on node node-1" in pods.lacks(pod(), node)
    assert pods.lacks_agent(pod(), node) == pods.lacks(pod(), node)
    server.pods = [AGENT]
    assert pods.lacks(pod(), node) == ""


def test_an_association_is_for_pods_that_are_created_later(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node
) -> None:
    associate(aws, cluster, role("Web", trusts="pods.eks.amazonaws.com"))

    assert pods.lacks(pod(created=EARLIER), node) == ""
    assert pods.credentials(pod(created=EARLIER), node) is None


def test_an_annotation_names_the_role_too(role: Role, pods: PodCredentials, node: Node, server: Server) -> None:
    web = role("Web")
    server.annotations = {"eks.amazonaws.com/role-arn": web}

    assert pods.lacks(pod(), node) == ""
    found = pods.credentials(pod(), node)
    assert found is not None
    assert found.role == web


def test_only_the_network_of_the_host_reaches_the_role_of_the_node(pods: PodCredentials, node: Node) -> None:
    assert pods.credentials(pod(), node) is None
    found = pods.credentials(pod(hostNetwork=True), node)
    assert found is not None
    assert found.role == node.instance.role


@pytest.mark.parametrize(
    ("account", "policy", "action"),
    [
        ("kube-system/aws-node", "AmazonEKS_CNI_Policy", "ec2:AssignPrivateIpAddresses"),
        ("kube-system/ebs-csi-controller-sa", "service-role/AmazonEBSCSIDriverPolicy", "ec2:CreateVolume"),
    ],
)
def test_some_pods_try_the_call_that_they_are_for(
    aws: Aws, cluster: str, role: Role, pods: PodCredentials, node: Node, account: str, policy: str, action: str
) -> None:
    own = role("Own", trusts="pods.eks.amazonaws.com")
    associate(aws, cluster, own, account)

    assert f"is not authorized to perform: {action}" in pods.lacks(pod(account), node)

    aws.client("iam").attach_role_policy(RoleName=own.rpartition("/")[2], PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    assert pods.lacks(pod(account), node) == ""


def test_the_network_plugin_without_an_association_has_the_role_of_its_node(pods: PodCredentials, node: Node) -> None:
    why = pods.lacks(pod("kube-system/aws-node", hostNetwork=True), node)

    assert node.instance.role.rpartition("/")[2] in why
