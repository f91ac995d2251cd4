"""GPU pools on an existing EKS cluster, and a new cluster in an existing VPC. Another app owns both."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from gpu_constructs import (
    ClusterAutoscaler,
    DevicePlugin,
    Disk,
    GpuCluster,
    GpuSmokeTest,
    Karpenter,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    OnDemand,
    Spot,
    SystemNodes,
    UpTo,
)


class GpuPools(cdk.Stack):
    """Two GPU pools for an existing cluster."""

    def __init__(self, scope: Construct, id: str, *, env: cdk.Environment) -> None:
        super().__init__(scope, id, env=env)
        cluster = existing_cluster(self, existing_vpc(self))

        DevicePlugin(self, "DevicePlugin", cluster=cluster)
        ClusterAutoscaler(self, "ClusterAutoscaler", cluster=cluster, kubernetes_version="1.36")
        inference = ManagedNodeGroup(
            self,
            "Inference",
            cluster=cluster,
            name="inference",
            shape=NodeShape(instance_types=("g6.xlarge",), disk=Disk(size_gib=200)),
            capacity=Spot(),
            max_nodes=8,
        )
        ManagedNodeGroup(
            self,
            "Training",
            cluster=cluster,
            name="training",
            shape=NodeShape(instance_types=("p5.48xlarge",)),
            capacity=OnDemand(),
            max_nodes=2,
        )
        GpuSmokeTest(self, "SmokeTest", cluster=cluster, pool=inference)


class GpuResearch(cdk.Stack):
    """A new cluster with Karpenter, in an existing VPC."""

    def __init__(self, scope: Construct, id: str, *, env: cdk.Environment) -> None:
        super().__init__(scope, id, env=env)
        gpu = GpuCluster(
            self,
            "Gpu",
            cluster_name="research",
            vpc=existing_vpc(self),
            admins=("arn:aws:iam::111122223333:role/Platform",),
            system_nodes=SystemNodes(max_nodes=2),
        )
        DevicePlugin(self, "DevicePlugin", cluster=gpu)
        karpenter = Karpenter(self, "Karpenter", cluster=gpu)
        KarpenterNodePool(
            self,
            "Notebooks",
            cluster=gpu,
            karpenter=karpenter,
            name="notebooks",
            shape=NodeShape(instance_types=("g6.xlarge", "g6.2xlarge", "g5.xlarge")),
            size=UpTo(gpus=16),
        )


def existing_vpc(stack: cdk.Stack) -> ec2.IVpc:
    """Import the VPC by the exports of its stack."""
    return ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a", "us-east-1b"],
        private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
    )


def existing_cluster(stack: cdk.Stack, vpc: ec2.IVpc) -> eks.ICluster:
    """Import the cluster and its kubectl provider by the exports of their stack."""
    kubectl = eks.KubectlProvider.from_kubectl_provider_attributes(
        stack,
        "Kubectl",
        service_token="arn:aws:lambda:us-east-1:111122223333:function:platform-kubectl",
        role=iam.Role.from_role_arn(stack, "KubectlRole", "arn:aws:iam::111122223333:role/platform-kubectl"),
    )
    return eks.Cluster.from_cluster_attributes(
        stack,
        "Cluster",
        cluster_name="platform",
        vpc=vpc,
        kubectl_provider=kubectl,
        cluster_security_group_id="sg-0123456789abcdef0",
    )


if __name__ == "__main__":
    app = cdk.App()
    env = cdk.Environment(account="111122223333", region="us-east-1")
    GpuPools(app, "GpuPools", env=env)
    GpuResearch(app, "GpuResearch", env=env)
    app.synth()
