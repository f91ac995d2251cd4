"""Fixtures of the CDK: an app with the flags that are deployed, clusters created and imported."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_lambda as lambda_
from jsii._kernel.providers import process

from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS

# What the process behind the CDK says comes when it likes, and must not get into the output that another test reads.
process.sys = SimpleNamespace(**{**vars(sys), "stderr": sys.__stderr__, "stdout": sys.__stdout__})  # type: ignore[assignment, attr-defined]


@pytest.fixture
def stack() -> cdk.Stack:
    """An empty stack of a known account and region."""
    app = cdk.App(context=FLAGS, analytics_reporting=False)
    return cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))


@pytest.fixture
def vpc(stack: cdk.Stack) -> ec2.IVpc:
    """An imported VPC with two private subnets."""
    return imported_vpc(stack)


@pytest.fixture
def cluster(stack: cdk.Stack, vpc: ec2.IVpc) -> eks.ICluster:
    """An imported cluster that manifests can be applied to."""
    return imported_cluster(stack, vpc)


@pytest.fixture
def created_cluster(stack: cdk.Stack) -> eks.Cluster:
    """A cluster made with plain aws_eks_v2, without a name of its own."""
    layer = "arn:aws:lambda:us-east-1:111122223333:layer"
    return eks.Cluster(
        stack,
        "Created",
        version=eks.KubernetesVersion.of("1.35"),
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        kubectl_provider_options=eks.KubectlProviderOptions(
            kubectl_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Layer", f"{layer}:kubectl:1"),
            awscli_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Cli", f"{layer}:awscli:1"),
        ),
    )
