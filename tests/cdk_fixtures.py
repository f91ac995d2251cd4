"""Fixtures of the CDK: an app with the flags that are deployed, clusters created and imported."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from jsii._kernel.providers import process

from tests.clusters import imported_cluster, imported_vpc, plain_cluster
from tests.conftest import FLAGS

# The output of the CDK's Node.js process comes at any time, and must not get into the output that another test reads.
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
    """A cluster made with plain aws_eks_v2, without an explicit name."""
    return plain_cluster(stack, "1.35")
