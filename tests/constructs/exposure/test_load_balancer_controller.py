"""The controller has the permissions that its release needs, for its own cluster, and needs no instance metadata."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuCluster
from gpu_constructs.cluster import gpu_vpc
from gpu_constructs.exposure import LoadBalancerController
from gpu_constructs.exposure.load_balancer_controller import controller_values, load_balancer_statements
from gpu_facts.labels import LOAD_BALANCER_TAG
from tests.templates import CHART, depends_on, of_type, resources_of, text_of

REQUESTED, HAD = f"aws:RequestTag/{LOAD_BALANCER_TAG}", f"aws:ResourceTag/{LOAD_BALANCER_TAG}"

VPC = "vpc-0123456789abcdef0"


def statements(*, partition: str = "aws", isolated: bool = False) -> list[dict[str, Any]]:
    return load_balancer_statements(cluster_name="gpu", vpc_id=VPC, partition=partition, isolated=isolated)


def of_action(action: str) -> list[dict[str, Any]]:
    return [each for each in statements() if action in each["Action"]]


def test_what_it_makes_is_tagged_as_the_clusters() -> None:
    [made] = of_action("elasticloadbalancing:CreateLoadBalancer")

    assert made["Condition"] == {"StringEquals": {REQUESTED: "gpu"}}


def test_it_deletes_load_balancers_of_its_cluster_alone() -> None:
    [deleted] = of_action("elasticloadbalancing:DeleteLoadBalancer")

    assert deleted["Condition"] == {"StringEquals": {HAD: "gpu"}}


@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_it_opens_security_groups_of_its_vpc_alone(partition: str) -> None:
    opening = [
        each for each in statements(partition=partition) if "ec2:AuthorizeSecurityGroupIngress" in each["Action"]
    ]

    assert [each["Condition"] for each in opening] == [
        {"ArnLike": {"ec2:Vpc": f"arn:{partition}:ec2:*:*:vpc/{VPC}"}},
        {"StringEquals": {HAD: "gpu"}},
    ]


# Listeners and rules of an older release have no tag, and a TargetGroupBinding may name any target group.
NOT_BOUND = {
    "ec2:CreateSecurityGroup",
    *(f"elasticloadbalancing:{verb}{what}" for verb in ("Create", "Delete", "Modify") for what in ("Listener", "Rule")),
    *(f"elasticloadbalancing:{verb}Targets" for verb in ("Register", "Deregister")),
    *(f"elasticloadbalancing:{verb}ListenerCertificates" for verb in ("Add", "Remove")),
    *(f"elasticloadbalancing:{each}" for each in ("AddTags", "RemoveTags", "SetWebAcl", "SetRulePriorities")),
    *(f"{waf}:{verb}WebACL" for waf in ("wafv2", "waf-regional") for verb in ("Associate", "Disassociate")),
    *(f"shield:{verb}Protection" for verb in ("Create", "Delete")),
}


def test_what_is_not_bound_to_the_cluster_is_what_the_page_names() -> None:
    free = {action for each in statements() if "Condition" not in each for action in each["Action"]}
    reading = ("Describe", "Get", "List")

    assert {each for each in free if not each.partition(":")[2].startswith(reading)} == NOT_BOUND


def test_it_takes_nothing_over_from_another_cluster() -> None:
    """The tag that says whose something is can be neither written nor taken where it is another's."""
    [tagged] = of_action("ec2:DeleteTags")

    assert tagged["Condition"] == {"StringEquals": {HAD: "gpu"}, "Null": {REQUESTED: "true"}}


def test_conditions_of_upstream_stay_beside_its_own() -> None:
    [created] = [each for each in of_action("ec2:CreateTags") if "DeleteTags" not in str(each["Action"])]

    assert created["Condition"] == {
        "StringEquals": {"ec2:CreateAction": "CreateSecurityGroup", REQUESTED: "gpu"},
    }


def test_no_condition_of_upstream_takes_any_clusters_tag() -> None:
    assert [each for each in statements() if "false" in each.get("Condition", {}).get("Null", {}).values()] == []


@pytest.mark.parametrize("partition", ["aws-cn", "aws-us-gov", "aws-eusc"])
def test_arns_are_of_the_partition(partition: str) -> None:
    said = json.dumps(statements(partition=partition))

    assert "arn:aws:" not in said
    assert said.count(f"arn:{partition}:") == json.dumps(statements()).count("arn:aws:") == 14


def test_a_role_takes_the_policy() -> None:
    """IAM takes 10,240 characters of inline policies, white space not counted."""
    longest = load_balancer_statements(cluster_name="c" * 100, vpc_id=VPC, partition="aws-us-gov", isolated=False)

    assert len(json.dumps(longest, separators=(",", ":"))) < 10_240


def test_an_isolated_one_asks_for_nothing_out_of_reach() -> None:
    said, isolated = json.dumps(statements()), json.dumps(statements(isolated=True))

    assert "shield:" in said
    for service in ("shield:", "wafv2:", "waf-regional:", "cognito-idp:"):
        assert service not in isolated
    assert "acm:DescribeCertificate" in isolated
    values = controller_values(cluster_name="gpu", region="us-east-1", vpc_id="vpc-0123456789abcdef0", isolated=True)
    assert [values[each] for each in ("enableShield", "enableWaf", "enableWafv2")] == [False] * 3


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    """The resources of a cluster with the controller, and of the stack."""
    stack = cdk.Stack(cdk.App(), "Test", env=cdk.Environment(account="111122223333", region="eu-west-1"))
    cluster = GpuCluster(stack, "Cluster")
    LoadBalancerController(stack, "Controller", cluster=cluster)
    return resources_of(stack)


def controller(resources: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    [found] = [
        (id, each["Properties"])
        for id, each in of_type(resources, CHART).items()
        if each["Properties"]["Chart"] == "aws-load-balancer-controller"
    ]
    return found


def test_it_gets_region_and_vpc_without_instance_metadata(made: dict[str, Any]) -> None:
    values = json.loads(text_of(controller(made)[1]["Values"]))

    [vpc] = of_type(made, "AWS::EC2::VPC")
    assert values["region"] == "eu-west-1"
    assert values["vpcId"] == f"${{{vpc}}}"
    assert values["clusterName"] == f"${{{next(iter(of_type(made, 'AWS::EKS::Cluster')))}}}"
    assert values["enableServiceMutatorWebhook"] is False


def test_it_starts_after_its_role_its_definitions_and_the_nodes(made: dict[str, Any]) -> None:
    before = {made[each]["Type"] for each in depends_on(made, controller(made)[0])}

    assert {"AWS::EKS::PodIdentityAssociation", "Custom::GpuChartDefinitions", "AWS::EKS::Nodegroup"} <= before


def test_its_pods_alone_take_its_role(made: dict[str, Any]) -> None:
    [role] = [each for id, each in of_type(made, "AWS::IAM::Role").items() if id.startswith("PodIdentityRole")]

    [statement] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"]["StringEquals"].items() >= {
        ("aws:RequestTag/kubernetes-namespace", "kube-system"),
        ("aws:RequestTag/kubernetes-service-account", "aws-load-balancer-controller"),
    }


def test_the_subnets_say_which_load_balancers_they_take(made: dict[str, Any]) -> None:
    roles = [
        each["Key"]
        for subnet in of_type(made, "AWS::EC2::Subnet").values()
        for each in subnet["Properties"]["Tags"]
        if each["Key"].startswith("kubernetes.io/role/")
    ]

    assert sorted(roles) == ["kubernetes.io/role/elb"] * 2 + ["kubernetes.io/role/internal-elb"] * 2


def test_an_imported_cluster_needs_its_vpc() -> None:
    stack = cdk.Stack(cdk.App(context={"gpu-constructs:delivery": "argocd"}), "Test")
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="gpu")

    with pytest.raises(ValueError, match=r"^Test/Lb: vpc_id must be given when the cluster was imported without"):
        LoadBalancerController(stack, "Lb", cluster=bare)


@pytest.mark.parametrize(
    ("vpc_id", "message"),
    [
        (
            "main",
            r"^Test/Lb: vpc_id must be an id such as 'vpc-0123456789abcdef0', got 'main'; list yours with",
        ),
        (7, r"^Test/Lb: vpc_id must be a string, got 7$"),
    ],
)
def test_refuses_what_is_no_vpc(stack: cdk.Stack, cluster: eks.ICluster, vpc_id: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        LoadBalancerController(stack, "Lb", cluster=cluster, vpc_id=vpc_id)


def test_a_vpc_construct_is_no_id(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(TypeError, match=r"; write vpc.vpc_id$"):
        LoadBalancerController(stack, "Lb", cluster=cluster, vpc_id=cluster.vpc)  # type: ignore[arg-type]


def test_a_cluster_has_one(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    LoadBalancerController(stack, "Lb", cluster=cluster)

    with pytest.raises(
        ValueError, match=r"^Test/Second: cluster must have one helm release 'aws-load-balancer-controller'"
    ):
        LoadBalancerController(stack, "Second", cluster=cluster)


def test_a_vpc_without_a_way_out_is_seen(stack: cdk.Stack) -> None:
    stack.node.set_context("gpu-constructs:chartMirror", "oci://example.com/charts")
    gpu = GpuCluster(stack, "Gpu", vpc=gpu_vpc(stack, "Net", nat_gateways=0))
    LoadBalancerController(stack, "Lb", cluster=gpu)

    values = json.loads(text_of(controller(resources_of(stack))[1]["Values"]))
    assert (values["enableShield"], values["enableWafv2"]) == (False, False)
