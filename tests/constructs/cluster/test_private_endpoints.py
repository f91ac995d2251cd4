"""The endpoints of isolated subnets allow only the calls that the cluster needs."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from gpu_constructs import GpuCluster, gpu_vpc
from gpu_constructs.cluster import PrivateEndpoints
from tests.templates import depends_on, of_type, resources_of, text_of

IMAGES = "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/*"


def statement(action: str, resource: str) -> iam.PolicyStatement:
    """Somebody's permission."""
    return iam.PolicyStatement(actions=[action], resources=[resource], principals=[iam.AnyPrincipal()])


@pytest.fixture
def isolated(stack: cdk.Stack) -> ec2.IVpc:
    """A VPC that was imported with its addresses."""
    return ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        vpc_cidr_block="10.0.0.0/16",
        availability_zones=["us-east-1a"],
        isolated_subnet_ids=["subnet-0123456789abcdef0"],
        isolated_subnet_route_table_ids=["rtb-0123456789abcdef0"],
    )


def test_each_has_the_policy_that_is_given_for_it(stack: cdk.Stack, isolated: ec2.IVpc) -> None:
    policies = {
        "sqs": [statement("sqs:*", "arn:aws:sqs:us-east-1:111122223333:*")],
        "s3": [statement("s3:GetObject", IMAGES)],
    }
    PrivateEndpoints(stack, "Ends", vpc=isolated, services=["sqs", "ec2"], policies=policies)

    made = of_type(resources_of(stack), "AWS::EC2::VPCEndpoint").values()
    said = {text_of(each["Properties"]["ServiceName"]): each["Properties"].get("PolicyDocument") for each in made}
    by_service = {name.rpartition(".")[2]: policy for name, policy in said.items()}
    assert by_service["sqs"]["Statement"][0]["Action"] == "sqs:*"
    assert by_service["s3"]["Statement"][0]["Resource"] == IMAGES
    assert by_service["ec2"] is None


@pytest.mark.parametrize(
    ("policies", "error", "message"),
    [
        ({"lambda": [statement("a:b", "*")]}, ValueError, "policies must be one of sqs, s3, got 'lambda'"),
        ({"sqs": []}, TypeError, r"policies\['sqs'\] must be a list of iam.PolicyStatement, got \[\]"),
        ({"sqs": ["*"]}, TypeError, r"policies\['sqs'\] must be a list of iam.PolicyStatement, got \['\*'\]"),
        ("sqs", TypeError, "policies must be a mapping of services to statements, got 'sqs'"),
    ],
)
def test_refuses_policies_of_no_endpoint(
    stack: cdk.Stack, isolated: ec2.IVpc, policies: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Ends: {message}"):
        PrivateEndpoints(stack, "Ends", vpc=isolated, services=["sqs"], policies=policies)


def test_custom_resources_answer_cloudformation_through_a_gateway_with_a_policy(
    stack: cdk.Stack, isolated: ec2.IVpc
) -> None:
    images = statement("s3:GetObject", "arn:aws:s3:::prod-us-east-1-starport-layer-bucket/*")
    PrivateEndpoints(stack, "Ends", vpc=isolated, services=["sqs"], policies={"s3": [images]})

    [gateway] = [
        each["Properties"]
        for each in of_type(resources_of(stack), "AWS::EC2::VPCEndpoint").values()
        if each["Properties"]["VpcEndpointType"] == "Gateway"
    ]
    answers = gateway["PolicyDocument"]["Statement"][-1]
    assert answers["Action"] == "s3:PutObject"
    assert "s3:::cloudformation-custom-resource-response-*/*" in str(answers["Resource"])


@pytest.mark.parametrize("first", [True, False])
def test_a_cluster_in_their_vpc_waits_for_them_and_goes_before_them(stack: cdk.Stack, first: bool) -> None:
    kind = ec2.SubnetConfiguration(name="Nodes", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    vpc = ec2.Vpc(stack, "Own", max_azs=2, subnet_configuration=[kind])
    if first:
        PrivateEndpoints(stack, "Ends", vpc=vpc)
    GpuCluster(stack, "Gpu", vpc=vpc)
    if not first:
        PrivateEndpoints(stack, "Ends", vpc=vpc)

    resources = resources_of(stack)
    ends = {id for id in of_type(resources, "AWS::EC2::VPCEndpoint") if id.startswith("Ends")}
    [cluster] = of_type(resources, "AWS::EKS::Cluster")
    assert len(ends) > 10
    assert ends <= depends_on(resources, cluster)


def test_rejects_a_second_gateway_for_s3(stack: cdk.Stack) -> None:
    vpc = gpu_vpc(stack, "Net")

    with pytest.raises(ValueError, match=r"Test/Ends: s3_gateway must be False .*, got True with 'Test/Net/S3'"):
        PrivateEndpoints(stack, "Ends", vpc=vpc)

    PrivateEndpoints(stack, "More", vpc=vpc, s3_gateway=False)


def test_rejects_a_second_endpoint_for_a_service(stack: cdk.Stack) -> None:
    vpc = gpu_vpc(stack, "Net", nat_gateways=0)

    with pytest.raises(ValueError, match=r"Test/Ends: services .*, got ec2, sts, which 'Test/Net/Endpoints' has"):
        PrivateEndpoints(stack, "Ends", vpc=vpc, services=("ec2", "sts", "monitoring"), s3_gateway=False)

    PrivateEndpoints(stack, "More", vpc=vpc, services=("monitoring",), s3_gateway=False)


def test_rejects_a_second_gateway_of_its_own(stack: cdk.Stack) -> None:
    vpc = cast("ec2.IVpc", ec2.Vpc(stack, "Net"))
    PrivateEndpoints(stack, "Ends", vpc=vpc)

    with pytest.raises(ValueError, match=r"got s3, which 'Test/Ends' has; .* pass s3_gateway=False"):
        PrivateEndpoints(stack, "More", vpc=vpc, services=("monitoring",))
