"""EKS clusters, access entries, add-ons, images and instance types behave as in AWS.

A cluster is active once it has an API server.
"""

from __future__ import annotations

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.credentials import Source
from tests.rehearsal.aws.conftest import Role

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
POD_IDENTITY = {"Effect": "Allow", "Action": "eks-auth:AssumeRoleForPodIdentity", "Resource": "*"}
PARAMETER = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/{}/image_id"


def create(aws: Aws, name: str, subnets: list[str], **changes: Any) -> dict[str, Any]:
    arguments = {
        "version": "1.36",
        "roleArn": "arn:aws:iam::123456789012:role/c",
        "resourcesVpcConfig": {"subnetIds": subnets},
    }
    return dict(aws.client("eks").create_cluster(name=name, **arguments | changes)["cluster"])


def test_a_cluster_is_active_once_it_is_served(aws: Aws, subnets: list[str]) -> None:
    assert create(aws, "late", subnets)["status"] == "CREATING"

    aws.serve_cluster("late", endpoint="https://127.0.0.1:6443", certificate_authority=b"pem")

    description = aws.client("eks").describe_cluster(name="late")["cluster"]
    assert (description["status"], description["endpoint"]) == ("ACTIVE", "https://127.0.0.1:6443")
    assert base64.b64decode(description["certificateAuthority"]["data"]) == b"pem"
    # The VPC has 10.0.0.0/16, so EKS chooses a service range outside of it.
    assert description["kubernetesNetworkConfig"]["serviceIpv4Cidr"] == "10.100.0.0/16"
    group = description["resourcesVpcConfig"]["clusterSecurityGroupId"]
    tags = aws.client("ec2").describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["Tags"]
    assert {"Key": "aws:eks:cluster-name", "Value": "late"} in tags


def test_an_add_on_needs_an_active_cluster(aws: Aws, subnets: list[str]) -> None:
    create(aws, "never", subnets)

    with pytest.raises(ClientError, match="Cluster 'never' is not in ACTIVE status"):
        aws.client("eks").create_addon(clusterName="never", addonName="coredns")


def test_a_cluster_needs_two_zones(aws: Aws, subnets: list[str]) -> None:
    with pytest.raises(ClientError, match=r"at least two different AZs, got \['us-east-1a'\]"):
        create(aws, "narrow", subnets[:1])


@pytest.mark.parametrize("bootstraps", [True, False])
def test_its_creator_has_access_if_the_cluster_requests_it(aws: Aws, subnets: list[str], bootstraps: bool) -> None:
    name = f"bootstraps-{bootstraps}"
    access = {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": bootstraps}
    create(aws, name, subnets, accessConfig=access)

    entries = aws.client("eks").list_access_entries(clusterName=name)["accessEntries"]

    assert entries == ([aws.administrator] if bootstraps else [])


def test_an_entry_names_a_role_and_its_policies(aws: Aws, cluster: str, role: Role) -> None:
    eks, admin = aws.client("eks"), role("Admin")
    eks.create_access_entry(clusterName=cluster, principalArn=admin)

    eks.associate_access_policy(
        clusterName=cluster, principalArn=admin, policyArn=ADMIN, accessScope={"type": "cluster"}
    )

    description = eks.describe_access_entry(clusterName=cluster, principalArn=admin)["accessEntry"]
    policies = eks.list_associated_access_policies(clusterName=cluster, principalArn=admin)["associatedAccessPolicies"]
    assert description["username"].endswith("/{{SessionName}}")
    assert [(one["policyArn"], one["accessScope"]["type"]) for one in policies] == [(ADMIN, "cluster")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"principalArn": "arn:aws:iam::123456789012:role/absent"}, "invalid principal"),
        ({"kubernetesGroups": ["system:masters"]}, "must not begin with 'system:'"),
        ({"type": "EC2_LINUX", "username": "me"}, "An access entry of type EC2_LINUX can.t have a username"),
    ],
)
def test_refuses_entries(aws: Aws, cluster: str, role: Role, arguments: dict[str, Any], message: str) -> None:
    entry = {"clusterName": cluster, "principalArn": role("One")} | arguments

    with pytest.raises(ClientError, match=message):
        aws.client("eks").create_access_entry(**entry)


def test_an_add_on_gives_its_account_a_role(aws: Aws, cluster: str, role: Role) -> None:
    eks, cni = aws.client("eks"), role("Cni", trusts="pods.eks.amazonaws.com")
    eks.create_addon(
        clusterName=cluster,
        addonName="vpc-cni",
        podIdentityAssociations=[{"serviceAccount": "aws-node", "roleArn": cni}],
    )

    credentials = aws.pod_credentials(
        cluster,
        namespace="kube-system",
        service_account="aws-node",
        pod="one",
        node_role=role("Node", POD_IDENTITY),
        source=Source(name="i-1"),
    )

    assert credentials is not None
    assert credentials.role == cni


def test_one_image_for_each_release(aws: Aws) -> None:
    ssm = aws.client("ssm")
    # The last is later than the list of releases.
    paths = ("x86_64/nvidia/recommended", "arm64/nvidia/recommended", "x86_64/nvidia/amazon-eks-node-1.36-v29990101")
    ids = [ssm.get_parameter(Name=PARAMETER.format(path))["Parameter"]["Value"] for path in paths]

    images = aws.client("ec2").describe_images(ImageIds=ids)["Images"]

    assert len(set(ids)) == 3
    assert {one["ImageId"]: one["Architecture"] for one in images}[ids[1]] == "arm64"


@pytest.mark.parametrize("path", ["gpu/recommended", "nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.36-v20190101"])
def test_an_image_that_is_not_published_is_not_found(aws: Aws, path: str) -> None:
    with pytest.raises(ClientError, match="ParameterNotFound"):
        aws.client("ssm").get_parameter(Name=PARAMETER.format(f"x86_64/{path}"))


def test_a_type_is_described_with_its_gpus(aws: Aws) -> None:
    (description,) = aws.client("ec2").describe_instance_types(InstanceTypes=["p5.48xlarge"])["InstanceTypes"]

    assert description["GpuInfo"]["Gpus"][0]["Count"] == 8
    assert description["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32


def test_a_type_that_the_region_does_not_sell_does_not_exist_there(aws: Aws) -> None:
    with pytest.raises(ClientError, match="InvalidInstanceType"):
        aws.client("ec2").describe_instance_types(InstanceTypes=["cg1.4xlarge"])


def test_a_placement_group_is_found_by_its_name(aws: Aws) -> None:
    aws.client("ec2").create_placement_group(GroupName="close", Strategy="cluster")

    found = aws.client("ec2").describe_placement_groups(Filters=[{"Name": "group-name", "Values": ["cl*"]}])

    assert [one["Strategy"] for one in found["PlacementGroups"]] == ["cluster"]
    with pytest.raises(ClientError, match="the filter spread-level isn't simulated"):
        aws.client("ec2").describe_placement_groups(Filters=[{"Name": "spread-level", "Values": ["host"]}])


def test_a_managed_policy_of_aws_allows_calls(aws: Aws, role: Role) -> None:
    node = role("Node")
    name = node.rpartition("/")[2]
    policy = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy"
    aws.client("iam").attach_role_policy(RoleName=name, PolicyArn=policy)

    aws.client("ec2", role=node).describe_instances()

    assert aws.calls[-1].statement.startswith(f"{policy}#")
    with pytest.raises(ClientError, match="NoSuchEntity"):
        aws.client("iam").attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/NoPolicyOfAws")
