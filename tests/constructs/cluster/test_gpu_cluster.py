"""GpuCluster makes a cluster whose nodes are private, whose secrets are encrypted and whose access is named."""

from __future__ import annotations

import json
import sys
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import Disk, GpuCluster, Karpenter, ManagedNodeGroup, NodeShape, SystemNodes, gpu_vpc
from tests.templates import CHART, depends_on, of_type, only, resources_of, resources_under, slice_of, text_of

# Where aws-cdk-lib 2.275 keeps what Validations.acknowledge accepts.
ACCEPTED = "aws:cdk:acknowledged-rules"
ADMIN = "arn:aws:iam::111122223333:role/Admin"


def gpu_cluster(stack: cdk.Stack, **changes: Any) -> GpuCluster:
    return GpuCluster(stack, "Gpu", **changes)


def control_plane(stack: cdk.Stack) -> dict[str, Any]:
    return only(resources_of(stack), "AWS::EKS::Cluster")


def test_control_plane(stack: cdk.Stack, vpc: ec2.IVpc, snapshot_yaml: SnapshotAssertion) -> None:
    gpu_cluster(stack, vpc=vpc)

    assert control_plane(stack) == snapshot_yaml


@pytest.mark.parametrize("protected", [False, True])
def test_protection_from_deletion_is_stated_either_way(stack: cdk.Stack, vpc: ec2.IVpc, protected: bool) -> None:
    gpu_cluster(stack, vpc=vpc, deletion_protection=protected)

    # Left out, EKS would keep what was set before.
    assert control_plane(stack)["DeletionProtection"] is protected


def test_logs_are_kept_for_a_time_and_go_with_the_stack(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc, cluster_name="demo", log_days=30)

    resources = resources_of(stack)
    groups = of_type(slice_of(resources, "GpuLogs"), "AWS::Logs::LogGroup")
    assert [each["Properties"]["RetentionInDays"] for each in groups.values()] == [30, 30]
    assert not any(each.get("DeletionPolicy", "Delete") != "Delete" for each in groups.values())
    [control_plane] = [id for id, each in groups.items() if each["Properties"].get("LogGroupName")]
    assert groups[control_plane]["Properties"]["LogGroupName"] == "/aws/eks/demo/cluster"
    # EKS would make it first, and CloudFormation then fail.
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    assert control_plane in depends_on(resources, cluster)


def test_what_applies_manifests_writes_to_a_group_of_the_stack(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    resources = resources_of(stack)
    functions = [
        each["Properties"] for id, each in of_type(resources, "AWS::Lambda::Function").items() if "Kubectl" in id
    ]
    assert len(functions) == 2
    for function in functions:
        assert resources[function["LoggingConfig"]["LogGroup"]["Ref"]]["Type"] == "AWS::Logs::LogGroup"


@pytest.mark.parametrize("days", [0, 31, "30", None, True])
def test_refuses_a_time_for_which_cloudwatch_keeps_no_logs(stack: cdk.Stack, vpc: ec2.IVpc, days: Any) -> None:
    with pytest.raises(ValueError, match=f"Test/Gpu: log_days must be one of 1, 3, .*, got {days!r}"):
        gpu_cluster(stack, vpc=vpc, log_days=days)


def test_nothing_that_starts_in_the_network_gets_a_public_address(stack: cdk.Stack) -> None:
    gpu_vpc(stack, "Net")

    subnets = of_type(resources_of(stack), "AWS::EC2::Subnet").values()
    assert subnets
    assert [each["Properties"].get("MapPublicIpOnLaunch", False) for each in subnets] == [False] * len(subnets)


def test_only_its_service_account_takes_the_role_of_an_add_on(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    resources = resources_of(stack)
    taken = {}
    for addon in of_type(resources, "AWS::EKS::Addon").values():
        for association in addon["Properties"].get("PodIdentityAssociations", []):
            role = resources[association["RoleArn"]["Fn::GetAtt"][0]]["Properties"]
            [statement] = role["AssumeRolePolicyDocument"]["Statement"]
            session = statement["Condition"]["StringEquals"]
            assert session["aws:RequestTag/kubernetes-service-account"] == association["ServiceAccount"]
            assert text_of(session["aws:RequestTag/eks-cluster-arn"]).startswith("arn:aws:eks:us-east-1:111122223333:")
            taken[association["ServiceAccount"]] = session["aws:RequestTag/kubernetes-namespace"]
    assert taken == {"aws-node": "kube-system", "ebs-csi-controller-sa": "kube-system"}


def test_addons_and_system_nodes(stack: cdk.Stack, vpc: ec2.IVpc, snapshot_yaml: SnapshotAssertion) -> None:
    gpu_cluster(stack, vpc=vpc)

    assert resources_under(stack, "Gpu/Addons") | resources_under(stack, "Gpu/SystemNodes") == snapshot_yaml


def test_two_clusters_of_one_name_in_a_stack_are_refused(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    with pytest.raises(
        ValueError, match="Test/Other: cluster_name must differ from the name of the other cluster in the"
    ):
        GpuCluster(stack, "Other", vpc=vpc)
    GpuCluster(stack, "Third", vpc=vpc, cluster_name="third")


def test_a_cluster_outside_a_stack_is_refused() -> None:
    with pytest.raises(ValueError, match=r"scope must be in a cdk.Stack, got one that isn't; create a stack first"):
        GpuCluster(cdk.App(), "Gpu")


def addon_ids(resources: dict[str, Any]) -> dict[str, str]:
    return {each["Properties"]["AddonName"]: id for id, each in of_type(resources, "AWS::EKS::Addon").items()}


def test_the_network_plugin_is_there_before_any_node(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = gpu_cluster(stack, vpc=vpc)
    shape = NodeShape(instance_types=("g6.xlarge",))
    ManagedNodeGroup(stack, "Nodes", cluster=gpu.cluster, name="l4", shape=shape, max_nodes=1)

    resources = resources_of(stack)
    groups = of_type(resources, "AWS::EKS::Nodegroup")
    assert len(groups) == 2
    for group in groups:
        assert addon_ids(resources)["vpc-cni"] in depends_on(resources, group)


def test_addons_that_run_pods_wait_for_nodes(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    resources = resources_of(stack)
    [group] = of_type(resources, "AWS::EKS::Nodegroup")
    waiting = {name for name, id in addon_ids(resources).items() if group in depends_on(resources, id)}
    assert waiting == {"coredns", "aws-ebs-csi-driver", "eks-node-monitoring-agent"}


def test_xid_errors_are_seen_on_tainted_nodes(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    resources = resources_of(stack)
    agent = resources[addon_ids(resources)["eks-node-monitoring-agent"]]["Properties"]
    assert json.loads(agent["ConfigurationValues"]) == {"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}


def test_nodes_may_not_do_what_the_network_plugin_does(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    roles = of_type(resources_of(stack), "AWS::IAM::Role")
    [nodes] = [each for id, each in roles.items() if "NodeRole" in id]
    [cni] = [each for id, each in roles.items() if "CniRole" in id]
    assert "AmazonEKS_CNI_Policy" not in str(nodes)
    assert "AmazonEKS_CNI_Policy" in str(cni)


@pytest.mark.parametrize(
    ("cidrs", "expected"),
    [
        (None, {"EndpointPrivateAccess": True, "EndpointPublicAccess": True}),
        ((), {"EndpointPrivateAccess": True, "EndpointPublicAccess": False}),
        (
            ("203.0.113.0/24",),
            {"EndpointPrivateAccess": True, "EndpointPublicAccess": True, "PublicAccessCidrs": ["203.0.113.0/24"]},
        ),
    ],
)
def test_endpoint(stack: cdk.Stack, vpc: ec2.IVpc, cidrs: Any, expected: dict[str, Any]) -> None:
    gpu_cluster(stack, vpc=vpc, public_access_cidrs=cidrs)

    config = control_plane(stack)["ResourcesVpcConfig"]
    assert {key: value for key, value in config.items() if "Access" in key} == expected


def test_only_named_administrators_get_in(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc, admins=(ADMIN,))

    resources = resources_of(stack)
    assert control_plane(stack)["AccessConfig"]["BootstrapClusterCreatorAdminPermissions"] is False
    principals = [
        str(each["Properties"]["PrincipalArn"]) for each in of_type(resources, "AWS::EKS::AccessEntry").values()
    ]
    assert len(principals) == 2
    assert ADMIN in principals


def test_name_and_version_are_literals(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc, cluster_name="research", kubernetes_version="1.34")

    properties = control_plane(stack)
    assert (properties["Name"], properties["Version"]) == ("research", "1.34")


def test_a_second_cluster_in_a_stack_brings_no_warning_of_the_cdks_own_conditions(
    stack: cdk.Stack, vpc: ec2.IVpc
) -> None:
    def accepted() -> list[str]:
        return [rule for each in stack.node.metadata if each.type == ACCEPTED for rule in each.data]

    gpu_cluster(stack, vpc=vpc)
    assert accepted() == []
    GpuCluster(stack, "Other", vpc=vpc, cluster_name="other")
    assert accepted() == ["CloudFormation-Validate::W9053"]


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_every_minor_has_its_kubectl(stack: cdk.Stack, vpc: ec2.IVpc, minor: str) -> None:
    gpu_cluster(stack, vpc=vpc, kubernetes_version=minor)

    descriptions = [
        each["Properties"].get("Description", "")
        for each in of_type(resources_of(stack), "AWS::Lambda::LayerVersion").values()
    ]
    assert any(f"kubectl {minor}" in text or f"kubectl v{minor}" in text for text in descriptions), descriptions


def test_a_kubectl_that_is_not_installed_is_named_by_its_extra(
    stack: cdk.Stack, vpc: ec2.IVpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aws_cdk.lambda_layer_kubectl_v35", None)

    with pytest.raises(ValueError, match=r"got none; run pip install 'gpu-constructs\[kubectl-v35\]'$"):
        gpu_cluster(stack, vpc=vpc, kubernetes_version="1.35")


def test_a_given_key_and_addon_version_are_used(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111122223333:key/a")
    gpu_cluster(stack, vpc=vpc, secrets_key=key, addon_versions={"vpc-cni": "v1.21.1-eksbuild.1"})

    resources = resources_of(stack)
    assert of_type(resources, "AWS::KMS::Key") == {}
    assert resources[addon_ids(resources)["vpc-cni"]]["Properties"]["AddonVersion"] == "v1.21.1-eksbuild.1"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cluster_name": "-x"}, ValueError, r"cluster_name must be 1 to 100 letters.*got '-x'"),
        ({"cluster_name": "x" * 101}, ValueError, r"cluster_name must be 1 to 100"),
        ({"cluster_name": cdk.Aws.STACK_NAME}, ValueError, r"cluster_name must be a literal, got a token"),
        ({"cluster_name": 7}, TypeError, r"cluster_name must be a string, got 7"),
        ({"kubernetes_version": "1.63"}, ValueError, r"must be one of 1.33, .* got '1.63'; did you mean '1.36'\?"),
        (
            {"public_access_cidrs": ["10.0.0.0/8"]},
            ValueError,
            "must be public, got '10.0.0.0/8'",
        ),
        ({"public_access_cidrs": ["198.51.100.7"]}, ValueError, r"'198.51.100.7'; did you mean '198.51.100.7/32'\?"),
        (
            {"public_access_cidrs": ("10.0.0.1/8",)},
            ValueError,
            r"block such as '203.0.113.0/24', got '10.0.0.1/8'; did you",
        ),
        ({"public_access_cidrs": "0.0.0.0/0"}, TypeError, r"must be a list of names, got '0.0.0.0/0'; write"),
        ({"admins": ("admin",)}, ValueError, r"admins must be literal ARNs of IAM users or roles, got 'admin'"),
        ({"admins": ("arn:aws:sts::111122223333:assumed-role/A/me",)}, ValueError, r"admins must be literal ARNs"),
        ({"admins": (ADMIN, ADMIN)}, ValueError, r"admins must differ"),
        ({"system_nodes": 2}, TypeError, r"system_nodes must be SystemNodes\(\), got 2"),
        ({"addon_versions": {"vpc_cni": "v1"}}, ValueError, r"got 'vpc_cni'; did you mean 'vpc-cni'\?"),
        ({"addon_versions": {"vpc-cni": 1}}, TypeError, r"versions\['vpc-cni'\] must be a version"),
        ({"addon_versions": "v1"}, TypeError, r"versions must map add-on names to versions"),
        ({"vpc": "vpc-1"}, TypeError, r"vpc must be an ec2.IVpc, got 'vpc-1'"),
        ({"secrets_key": "alias/x"}, TypeError, r"secrets_key must be a kms.IKey, got 'alias/x'"),
    ],
)
def test_refuses_before_a_child_is_created(
    stack: cdk.Stack, vpc: ec2.IVpc, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Gpu: .*{message}"):
        gpu_cluster(stack, **{"vpc": vpc} | changes)

    assert stack.node.find_child("Gpu").node.children == []


def test_accepts_the_longest_name(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc, cluster_name="x" * 100)

    assert len(control_plane(stack)["Name"]) == 100


def test_refuses_a_vpc_without_private_subnets(stack: cdk.Stack) -> None:
    public = ec2.Vpc.from_vpc_attributes(
        stack, "Public", vpc_id="vpc-1", availability_zones=["a"], public_subnet_ids=["subnet-0123456789abcdef0"]
    )

    with pytest.raises(ValueError, match="Test/Gpu: vpc must have private or isolated subnets in at least 2 zones"):
        gpu_cluster(stack, vpc=public)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"instance_types": ()}, ValueError, r"must name at least one type"),
        ({"instance_types": "m6i.large"}, TypeError, r"write \['m6i.large'\]"),
        ({"instance_types": ("m6i",)}, ValueError, r"EC2 types such as 'm6i.large', got 'm6i'; m6i has large, "),
        ({"instance_types": ("m6i.large", "m6i.large")}, ValueError, r"must differ"),
        (
            {"instance_types": ("t3.small",)},
            ValueError,
            "support 12 pods, got 't3.small', which supports 11; use 't3.medium'",
        ),
        ({"instance_types": ("g6.xlarge",)}, ValueError, r"without GPU, got 'g6.xlarge'"),
        ({"instance_types": ("m6i.large", "m7g.large")}, ValueError, r"must share one CPU architecture"),
        ({"min_nodes": 0}, ValueError, r"min_nodes must be at least 1, got 0"),
        ({"max_nodes": 1}, ValueError, r"max_nodes must be at least 2, got 1"),
        ({"disk": 50}, TypeError, r"disk must be a Disk, got 50; write Disk\(size_gib=50\)"),
    ],
)
def test_refuses_system_nodes(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"system nodes: .*{message}"):
        SystemNodes(**changes)


def test_system_nodes_on_graviton() -> None:
    nodes = SystemNodes(instance_types=("m7g.large", "c8gn.large"), disk=Disk(size_gib=20))

    assert nodes.ami_type == "AL2023_ARM_64_STANDARD"


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"nat_gateways": -1}, ValueError, r"Test/Net: nat_gateways must be at least 0, got -1"),
        ({"availability_zones": ["us-east-1a"]}, ValueError, r"availability_zones must name at least two zones"),
        ({"availability_zones": ["us-east-1a", "us-east-1a"]}, ValueError, r"availability_zones must differ"),
        (
            {"availability_zones": ["us-east-1a", "us-west-2b"]},
            ValueError,
            "availability_zones must be in one region",
        ),
        ({"availability_zones": ["us-east-1a", "b"]}, ValueError, r"must be a zone name such as 'us-east-1a', got 'b'"),
        (
            {"availability_zones": ["eu-west-1a", "eu-west-1b"]},
            ValueError,
            "must be in 'us-east-1', the region of the",
        ),
        ({"ip_family": "dual"}, ValueError, r"ip_family must be one of ipv4, ipv6, got 'dual'"),
        ({"availability_zones": "us-east-1a"}, TypeError, r"must be a list of names"),
    ],
)
def test_refuses_a_network(stack: cdk.Stack, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        gpu_vpc(stack, "Net", **changes)


def test_network_has_the_zones_it_is_given(stack: cdk.Stack) -> None:
    gpu_vpc(stack, "Net", availability_zones=["us-east-1b", "us-east-1c", "us-east-1d"], nat_gateways=3)

    resources = resources_of(stack)
    subnets = [each["Properties"] for each in of_type(resources, "AWS::EC2::Subnet").values()]
    zones = {each["AvailabilityZone"] for each in subnets if "AvailabilityZoneId" not in each}
    assert zones == {"us-east-1b", "us-east-1c", "us-east-1d"}
    assert len(of_type(resources, "AWS::EC2::NatGateway")) == 3


def test_a_role_that_is_granted_access_is_the_users_business(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = gpu_cluster(stack, vpc=vpc)
    role = iam.Role.from_role_arn(stack, "Dev", "arn:aws:iam::111122223333:role/dev")

    gpu.cluster.grant_cluster_admin("Dev", role.role_arn)

    assert len(of_type(resources_of(stack), "AWS::EKS::AccessEntry")) == 2


@pytest.mark.parametrize("policy", ["extended", "standard"])
def test_the_upgrade_policy_is_in_the_template(stack: cdk.Stack, vpc: ec2.IVpc, policy: Any) -> None:
    GpuCluster(stack, "Gpu", vpc=vpc, upgrade_policy=policy)

    assert only(resources_of(stack), "AWS::EKS::Cluster")["UpgradePolicy"] == {"SupportType": policy.upper()}


def test_refuses_another_upgrade_policy(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    with pytest.raises(ValueError, match="Test/Gpu: upgrade_policy must be one of extended, standard, got 'EXTENDED'"):
        GpuCluster(stack, "Gpu", vpc=vpc, upgrade_policy="EXTENDED")  # type: ignore[arg-type]


@pytest.mark.parametrize("tier", ["standard", "tier-xl", "tier-8xl"])
def test_the_tier_of_the_control_plane_is_said(stack: cdk.Stack, vpc: ec2.IVpc, tier: Any) -> None:
    gpu_cluster(stack, vpc=vpc, control_plane_tier=tier)

    assert control_plane(stack)["ControlPlaneScalingConfig"] == {"Tier": tier}


@pytest.mark.parametrize("tier", ["xl", "tier-3xl", "", 2, True])
def test_refuses_a_tier_that_eks_does_not_have(stack: cdk.Stack, vpc: ec2.IVpc, tier: Any) -> None:
    with pytest.raises(ValueError, match=r"Test/Gpu: control_plane_tier must be one of standard, tier-xl, .*tier-8xl"):
        gpu_cluster(stack, vpc=vpc, control_plane_tier=tier)


@pytest.mark.parametrize("shifts", [False, True])
def test_zonal_shift_is_switched_on_and_off_again(stack: cdk.Stack, vpc: ec2.IVpc, shifts: bool) -> None:
    gpu_cluster(stack, vpc=vpc, zonal_shift=shifts)

    assert control_plane(stack)["ZonalShiftConfig"] == {"Enabled": shifts}


@pytest.mark.parametrize("shifts", [None, False, True])
def test_karpenter_is_configured_for_zonal_shift(stack: cdk.Stack, vpc: ec2.IVpc, shifts: bool | None) -> None:
    Karpenter(stack, "Karpenter", cluster=gpu_cluster(stack, vpc=vpc, zonal_shift=shifts))

    [controller] = [
        each["Properties"]
        for each in of_type(resources_of(stack), CHART).values()
        if each["Properties"]["Chart"].endswith("/karpenter") or each["Properties"]["Chart"] == "karpenter"
    ]
    assert ('"enableZonalShift":true' in text_of(controller["Values"])) is (shifts is True)


def test_refuses_a_word_for_zonal_shift(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    with pytest.raises(TypeError, match="Test/Gpu: zonal_shift must be True or False, got 'on'"):
        gpu_cluster(stack, vpc=vpc, zonal_shift="on")


def test_tier_and_zonal_shift_are_left_to_eks(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu_cluster(stack, vpc=vpc)

    assert not {"ControlPlaneScalingConfig", "ZonalShiftConfig"} & control_plane(stack).keys()


def test_the_newest_version_runs_karpenter_and_no_cluster_autoscaler(stack: cdk.Stack, vpc: ec2.IVpc) -> None:
    gpu = GpuCluster(stack, "Gpu", vpc=vpc, kubernetes_version="1.37")

    with pytest.raises(ValueError, match=r"ClusterAutoscaler must have an image on Kubernetes 1\.37, .*use Karpenter"):
        gpu.add_pool("g", "g6.xlarge", max_nodes=1)
    assert gpu.node.try_find_child("Pool-g") is None
    with pytest.raises(ValueError, match=r"version must be one of 1\.15\.1 on Kubernetes 1\.37, got '1\.14\.1'"):
        Karpenter(stack, "Old", cluster=gpu, version="1.14.1")
    Karpenter(stack, "Karpenter", cluster=gpu)
    gpu.add_pool("l4", "g6.xlarge", max_nodes=1)

    resources = resources_of(stack)
    charts = [each["Properties"] for each in of_type(resources, CHART).values()]
    assert {each["Version"] for each in charts if "karpenter" in each["Chart"]} == {"1.15.1"}
    assert only(resources, "AWS::EKS::Nodegroup")["ReleaseVersion"] == "1.37.1-20261023"
