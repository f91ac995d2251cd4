"""Only pods of the service account can assume the role, and they have the permissions granted to the identity."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster
from gpu_constructs.identity import WorkloadIdentity
from gpu_facts.versions import KUBERNETES
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import MANIFEST, depends_on, manifest, manifests_of, of_type, only, resources_of, resources_under

ASSOCIATION = "AWS::EKS::PodIdentityAssociation"
THERE = "arn:aws:iam::444455556666:role/data"
# The newest version that kubernetes-validate has schemas of.
SCHEMAS = [each for each in KUBERNETES if each <= "1.36"]


class Define(Protocol):
    """Create identities in a stack."""

    def __call__(self, **changes: Any) -> WorkloadIdentity:
        """Make one with changes."""


@pytest.fixture
def define(stack: cdk.Stack, cluster: eks.ICluster) -> Define:
    """A valid identity, with ``changes`` applied."""
    says = {"service_account": "train", "namespace": "research"}
    return lambda id="Train", **changes: WorkloadIdentity(stack, id, cluster=cluster, **says | changes)


@pytest.fixture
def target(stack: cdk.Stack) -> iam.IRole:
    """A role of another account."""
    return iam.Role.from_role_arn(stack, "Target", THERE)


def granted(stack: cdk.Stack, identity: WorkloadIdentity) -> None:
    s3.Bucket(stack, "Data", bucket_name="data").grant_read(identity)


def test_resources(stack: cdk.Stack, define: Define, snapshot_yaml: SnapshotAssertion) -> None:
    granted(stack, define())

    assert resources_under(stack, "Train") == snapshot_yaml


def test_resources_with_a_target_role(
    stack: cdk.Stack, define: Define, target: iam.IRole, snapshot_yaml: SnapshotAssertion
) -> None:
    define(target_role=target)

    assert resources_under(stack, "Train") == snapshot_yaml


@pytest.mark.parametrize("minor", SCHEMAS)
def test_the_service_account_is_valid(stack: cdk.Stack, define: Define, minor: str) -> None:
    define()

    validate(manifest(resources_of(stack), "ServiceAccount"), minor)


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, define: Define, target: iam.IRole, tmp_path: Path) -> None:
    granted(stack, define())
    define(id="Other", service_account="other", target_role=target)

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    assert cfn_lint([template]) == []


def test_the_service_account_comes_after_all_that_its_pods_need(stack: cdk.Stack, define: Define) -> None:
    granted(stack, define())

    resources = resources_of(stack)
    [account] = of_type(resources, MANIFEST)
    for kind in (ASSOCIATION, "AWS::IAM::Role", "AWS::IAM::Policy"):
        assert of_type(resources, kind).keys() <= depends_on(resources, account)


def test_an_existing_service_account_is_left_alone(stack: cdk.Stack, define: Define) -> None:
    define(create_service_account=False, service_account="default")

    resources = resources_of(stack)
    assert list(manifests_of(resources)) == []
    assert only(resources, ASSOCIATION)["ServiceAccount"] == "default"


def test_an_association_alone_needs_no_kubectl(stack: cdk.Stack) -> None:
    cluster = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare")

    WorkloadIdentity(stack, "Train", cluster=cluster, service_account="train", create_service_account=False)

    assert only(resources_of(stack), ASSOCIATION)["ClusterName"] == "bare"


def test_what_is_granted_goes_to_the_role_that_pods_act_as(stack: cdk.Stack, define: Define, target: iam.IRole) -> None:
    granted(stack, define(target_role=target))

    resources = resources_of(stack)
    [statement] = only(resources, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert statement["Principal"] == {"AWS": THERE}
    [own] = only(resources, "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert own["Action"] == ["sts:AssumeRole", "sts:TagSession"]


def test_a_namespace_has_service_accounts_of_its_own(stack: cdk.Stack, define: Define) -> None:
    define()
    define(id="Served", namespace="serving")
    define(id="Other", service_account="other")

    assert len(of_type(resources_of(stack), ASSOCIATION)) == 3


def test_a_cluster_made_here_tells_its_name(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    WorkloadIdentity(stack, "Train", cluster=gpu, service_account="train")

    resources = resources_under(stack, "Train")
    association = only(resources, ASSOCIATION)
    [trusted] = only(resources, "AWS::IAM::Role")["AssumeRolePolicyDocument"]["Statement"]
    reference = stack.resolve(gpu.cluster.cluster_name)
    assert association["ClusterName"] == reference
    assert reference in trusted["Condition"]["StringEquals"]["aws:RequestTag/eks-cluster-arn"]["Fn::Join"][1]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"service_account": "default"}, ValueError, "service_account must not be 'default', which Kubernetes creates"),
        ({"service_account": "Train"}, ValueError, "service_account must be 1 to 63 lower-case letters"),
        ({"namespace": ""}, ValueError, "namespace must be 1 to 63 lower-case letters"),
        ({"service_account": 1}, TypeError, "service_account must be a string, got 1"),
        ({"create_service_account": "no"}, TypeError, "create_service_account must be True or False, got 'no'"),
        ({"target_role": THERE}, TypeError, f"target_role must be an iam.IRole, got '{THERE}'; import one"),
    ],
)
def test_refuses(
    stack: cdk.Stack, define: Define, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(f"Test/Train: {message}")):
        define(**changes)

    assert stack.node.find_child("Train").node.children == []


def test_refuses_a_second_role_of_one_account(define: Define) -> None:
    define()

    with pytest.raises(ValueError, match="one role of service account research/train, got a second one next"):
        define(id="Again")


def test_refuses_to_make_a_service_account_without_kubectl(stack: cdk.Stack) -> None:
    cluster = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare")

    with pytest.raises(ValueError, match="Test/Train: cluster must have a kubectl provider"):
        WorkloadIdentity(stack, "Train", cluster=cluster, service_account="train")
