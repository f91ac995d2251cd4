"""Clusters that this library didn't create, for tests to build on."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

ENDPOINT = "https://0123456789ABCDEF.gr7.us-east-1.eks.amazonaws.com"
CERTIFICATE = "Y2VydGlmaWNhdGU="


def imported_vpc(scope: Construct, zones: tuple[str, ...] = ("us-east-1a", "us-east-1b")) -> ec2.IVpc:
    """Import a VPC with a private subnet in each zone."""
    return ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=list(zones),
        private_subnet_ids=[f"subnet-0123456789abcdef{number}" for number, _ in enumerate(zones)],
        private_subnet_route_table_ids=[f"rtb-0123456789abcdef{number}" for number, _ in enumerate(zones)],
    )


def imported_cluster(scope: Construct, vpc: ec2.IVpc, **attributes: Any) -> eks.ICluster:
    """Import a cluster called demo that manifests can be applied to, with more of its attributes if given."""
    provider = eks.KubectlProvider.from_kubectl_provider_attributes(
        scope,
        "Kubectl",
        service_token="arn:aws:lambda:us-east-1:111122223333:function:kubectl",
        role=iam.Role.from_role_arn(scope, "KubectlRole", "arn:aws:iam::111122223333:role/kubectl"),
    )
    return eks.Cluster.from_cluster_attributes(
        scope,
        "Cluster",
        cluster_name="demo",
        vpc=vpc,
        kubectl_provider=provider,
        cluster_security_group_id="sg-0123456789abcdef0",
        **attributes,
    )


def plain_cluster(stack: cdk.Stack, version: str) -> eks.Cluster:
    """Make a cluster and its VPC with plain aws_eks_v2, without an explicit name."""
    layer = "arn:aws:lambda:us-east-1:111122223333:layer"
    return eks.Cluster(
        stack,
        "Created",
        version=eks.KubernetesVersion.of(version),
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        kubectl_provider_options=eks.KubectlProviderOptions(
            kubectl_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Layer", f"{layer}:kubectl:1"),
            awscli_layer=lambda_.LayerVersion.from_layer_version_arn(stack, "Cli", f"{layer}:awscli:1"),
        ),
    )
