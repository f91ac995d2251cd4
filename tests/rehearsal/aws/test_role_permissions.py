"""The policies of a role allow or deny its calls, and each call is recorded with its principal."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ParamValidationError

from gpu_rehearsal.aws.region import Call
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.credentials import Credentials, FunctionError
from tests.rehearsal.aws.conftest import Role

OURS = {"StringEquals": {"aws:ResourceTag/team": "vision"}}


def name_of(role: str) -> str:
    return role.rpartition("/")[2]


def last(aws: Aws) -> Call:
    return aws.calls[-1]


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_an_allowed_call_names_role_resource_and_statement(aws: Aws, role: Role) -> None:
    reads = {
        "Sid": "Reads",
        "Effect": "Allow",
        "Action": "ssm:GetParameter",
        "Resource": "arn:aws:ssm:*:*:parameter/ours/*",
    }
    reader = role("Reader", reads)
    aws.client("ssm").put_parameter(Name="/ours/one", Value="1", Type="String")

    aws.client("ssm", role=reader).get_parameter(Name="/ours/one")

    assert last(aws) == Call(
        principal=reader,
        service="ssm",
        action="ssm:GetParameter",
        resources=("arn:aws:ssm:us-east-1:123456789012:parameter/ours/one",),
        statements=(f"{name_of(reader)}/own#Reads",),
    )


@pytest.mark.parametrize(
    ("service", "call", "arguments", "code"),
    [
        ("ec2", "describe_instances", {}, "UnauthorizedOperation"),
        ("eks", "describe_cluster", {"name": "demo"}, "AccessDeniedException"),
        ("iam", "list_instance_profiles", {}, "AccessDenied"),
    ],
)
def test_a_call_that_nothing_allows_is_refused(
    aws: Aws, role: Role, service: str, call: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as error:
        getattr(aws.client(service, role=role("WithoutPolicies")), call)(**arguments)

    assert code_of(error) == code
    assert not last(aws).allowed
    assert "no identity-based policy allows" in last(aws).message


def test_tags_of_a_resource_decide(aws: Aws, role: Role, subnets: list[str]) -> None:
    ec2 = aws.client("ec2")
    ours = role("Ours", {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*", "Condition": OURS})
    run = {"InstanceType": "g6.xlarge", "ImageId": "ami-12c6146b", "SubnetId": subnets[0], "MinCount": 1, "MaxCount": 1}
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "vision"}]}]
    theirs = ec2.run_instances(**run)["Instances"][0]["InstanceId"]
    mine = ec2.run_instances(**run, TagSpecifications=tags)["Instances"][0]["InstanceId"]

    aws.client("ec2", role=ours).terminate_instances(InstanceIds=[mine])
    with pytest.raises(ClientError) as error:
        aws.client("ec2", role=ours).terminate_instances(InstanceIds=[theirs])

    assert code_of(error) == "UnauthorizedOperation"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_role_is_passed_only_with_permission(aws: Aws, role: Role, allowed: bool) -> None:
    node, other = role("Node"), role("Other")
    to_ec2 = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    profiles = {"Effect": "Allow", "Action": "iam:AddRoleToInstanceProfile", "Resource": "*"}
    passes = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": node, "Condition": to_ec2}
    maker = role("Maker", profiles, passes)
    profile, passed = name_of(maker), name_of(node if allowed else other)
    aws.client("iam").create_instance_profile(InstanceProfileName=profile)

    try:
        aws.client("iam", role=maker).add_role_to_instance_profile(InstanceProfileName=profile, RoleName=passed)
    except ClientError:
        assert "iam:PassRole" in last(aws).message

    assert last(aws).allowed is allowed


def test_an_unknown_action_fails_even_if_everything_is_allowed(aws: Aws, role: Role) -> None:
    everything = role("Everything", {"Effect": "Allow", "Action": "*", "Resource": "*"})

    with pytest.raises(ClientError, match="the resource of ec2:CreateVpc"):
        aws.client("ec2", role=everything).create_vpc(CidrBlock="10.0.0.0/16")

    assert (last(aws).allowed, last(aws).error) == (False, "NotSimulated")


def test_a_condition_that_is_not_known_fails(aws: Aws, role: Role) -> None:
    condition = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    caller = role("Caller", {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition})

    with pytest.raises(ClientError, match="the condition key aws:SourceIp"):
        aws.client("eks", role=caller).list_clusters()


def test_the_administrator_may_do_everything(aws: Aws) -> None:
    aws.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")

    assert last(aws) == Call(principal="", service="ec2", action="ec2:CreateVpc")


def test_an_unknown_key_is_refused(aws: Aws) -> None:
    stranger = Credentials(role="", access_key="ASIAUNKNOWN000000000")

    with pytest.raises(ClientError) as error:
        aws.client("sts", credentials=stranger).get_caller_identity()

    assert code_of(error) == "InvalidClientTokenId"


def test_a_role_gets_its_own_identity(aws: Aws, role: Role) -> None:
    me = role("Me")

    identity = aws.client("sts", role=me).get_caller_identity()

    assert identity["Arn"] == f"arn:aws:sts::123456789012:assumed-role/{name_of(me)}/rehearsal"


def test_a_key_resolves_to_its_role(aws: Aws, role: Role) -> None:
    one = role("One")

    assert aws.resolve_role(aws.credentials(one).access_key) == one
    assert aws.resolve_role(aws.credentials().access_key) == ""


def test_a_call_that_is_not_simulated_is_refused(aws: Aws) -> None:
    with pytest.raises(ClientError, match="eks:ListFargateProfiles isn't simulated"):
        aws.client("eks").list_fargate_profiles(clusterName="demo")


@pytest.mark.parametrize(
    ("call", "arguments", "fault"),
    [
        (
            "create_addon",
            {"clusterName": "demo", "addonName": "dns", "resolveConflicts": "FORCE"},
            "must be one of",
        ),
        ("create_cluster", {"name": "-", "roleArn": "r", "resourcesVpcConfig": {}}, "name must match"),
    ],
)
def test_what_the_model_forbids_is_not_sent(aws: Aws, call: str, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(ParamValidationError, match=fault):
        getattr(aws.client("eks"), call)(**arguments)

    assert aws.calls == []


def test_a_function_invokes_another(aws: Aws, role: Role) -> None:
    invoker = role(
        "Invoker",
        {"Effect": "Allow", "Action": "lambda:InvokeFunction", "Resource": "arn:aws:lambda:*:*:function:one"},
    )
    aws.functions = lambda name, payload: name.encode() + payload
    client = aws.client("lambda", role=invoker)

    answer = client.invoke(FunctionName="arn:aws:lambda:us-east-1:123456789012:function:one", Payload=b"{}")

    assert answer["Payload"].read() == b"one{}"
    with pytest.raises(ClientError, match="not authorized to perform: lambda:InvokeFunction"):
        client.invoke(FunctionName="other")


def test_a_failed_function_is_reported_as_lambda_reports_it(aws: Aws) -> None:
    def fail(name: str, payload: bytes) -> bytes:
        raise FunctionError(b'{"errorType": "ValueError"}')

    aws.functions = fail

    answer = aws.client("lambda").invoke(FunctionName="one", Payload=b"{}")

    assert answer["FunctionError"] == "Unhandled"
    assert answer["Payload"].read() == b'{"errorType": "ValueError"}'


def test_an_absent_function_is_not_found(aws: Aws) -> None:
    def look(name: str, payload: bytes) -> bytes:
        raise LookupError(f"Function not found: {name}")

    aws.functions = look

    with pytest.raises(ClientError, match=r"\(ResourceNotFoundException\) .* Function not found: one"):
        aws.client("lambda").invoke(FunctionName="one", Payload=b"{}")
