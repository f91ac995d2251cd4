"""A stack is created on moto's server: in order, as far as nothing fails, with the functions of custom resources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.cloudformation import lambdas
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cloudformation.stack import Stack
from gpu_rehearsal.cloudformation.template import bootstrap
from gpu_rehearsal.credentials import Authority
from tests.conftest import ROOT
from tests.rehearsal.cloudformation.accounts import MotoAccount, moto_account

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {
        "AssumeRolePolicyDocument": {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
            ],
        }
    },
}
VERSION = "/cdk-bootstrap/hnb659fds/version"
# Returns the properties that it received, as attributes of the custom resource.
ECHO = """
import json, urllib.request

def handler(event, context):
    properties = event["ResourceProperties"]
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": properties.get("Status", "SUCCESS"), "PhysicalResourceId": "made", "Reason": "as asked"}
    answer["Data"] = {"Received": json.dumps(properties, sort_keys=True)}
    answer["Data"] |= {"Much": "x" * 4096} if "Much" in properties else {}
    if "Raise" in properties:
        raise RuntimeError(properties["Raise"])
    put = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=10)
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAccount]:
    with moto_account() as account:
        yield account


def subnet(zone: int, block: str, **more: Any) -> dict[str, Any]:
    properties = {
        "VpcId": {"Ref": "Vpc"},
        "AvailabilityZone": {"Fn::Select": [zone, {"Fn::GetAZs": ""}]},
        "CidrBlock": block,
        "Tags": [{"Key": "Name", "Value": {"Fn::Sub": "${AWS::StackName}-${Vpc}"}}],
        **more,
    }
    return {"Type": "AWS::EC2::Subnet", "Properties": properties}


VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True}}


def stack_of(aws: MotoAccount, folder: Path, resources: Mapping[str, Any], name: str = "", **more: Any) -> Stack:
    return Stack({"Resources": resources, **more}, name=name or folder.name, assembly=folder, aws=aws, folder=folder)


def events_by_id(events: list[Event]) -> dict[str, Event]:
    return {event.logical_id: event for event in events}


def test_resources_are_made_in_the_order_of_their_references(aws: MotoAccount, tmp_path: Path) -> None:
    outputs = {"Vpc": {"Value": {"Ref": "Vpc"}, "Export": {"Name": {"Fn::Sub": "${AWS::StackName}:Vpc"}}}}
    resources = {"One": subnet(0, "10.0.0.0/24"), "Other": subnet(1, "10.0.1.0/24"), "Vpc": VPC}
    stack = stack_of(aws, tmp_path, resources, "Test", Outputs=outputs)

    events = events_by_id(stack.create())

    vpc_id = stack.resources["Vpc"].physical.ref
    assert {event.status for event in events.values()} == {"CREATE_COMPLETE"}
    assert events["One"].after == events["Other"].after == ("Vpc",)
    assert events["Vpc"].ended <= min(events["One"].started, events["Other"].started)
    assert stack.outputs == {"Vpc": vpc_id}
    assert stack.exports == {"Test:Vpc": vpc_id}
    ec2 = aws.client("ec2")
    [found] = ec2.describe_subnets(SubnetIds=[events["Other"].physical_id])["Subnets"]
    assert (found["VpcId"], found["AvailabilityZone"]) == (vpc_id, "us-east-1b")
    assert found["Tags"] == [{"Key": "Name", "Value": f"Test-{vpc_id}"}]
    assert ec2.describe_vpc_attribute(VpcId=vpc_id, Attribute="enableDnsHostnames")["EnableDnsHostnames"]["Value"]


def test_a_failure_ends_the_creation(aws: MotoAccount, tmp_path: Path) -> None:
    resources = {"Vpc": VPC, "Outside": subnet(0, "10.9.0.0/24"), "After": {**VPC, "DependsOn": "Outside"}}
    stack = stack_of(aws, tmp_path, resources, Outputs={"Vpc": {"Value": {"Ref": "Vpc"}}})

    events = events_by_id(stack.create())

    assert {name: event.status for name, event in events.items()} == {
        "Vpc": "CREATE_COMPLETE",
        "Outside": "CREATE_FAILED",
        "After": "NOT_BEGUN",
    }
    assert "InvalidSubnet.Range" in events["Outside"].reason
    assert stack.outputs == {}


def test_a_property_that_reaches_no_call_is_a_failure(aws: MotoAccount, tmp_path: Path) -> None:
    [event] = stack_of(aws, tmp_path, {"Vpc": {**VPC, "Properties": {"CidrBloc": "10.0.0.0/16"}}}).create()

    assert event.status == "CREATE_FAILED"
    assert "property CidrBloc isn't a parameter of CreateVpcRequest" in event.reason


def test_a_resource_that_is_not_simulated_is_reported_and_fails_nothing(aws: MotoAccount, tmp_path: Path) -> None:
    resources = {
        "Topic": {"Type": "AWS::SNS::Topic"},
        "Refers": {**VPC, "Properties": {"CidrBlock": {"Ref": "Topic"}}},
        "Waits": {**VPC, "DependsOn": "Topic"},
    }

    events = events_by_id(stack_of(aws, tmp_path, resources).create())

    assert {name: (event.status, event.reason) for name, event in events.items()} == {
        "Topic": ("NOT_PLAYED", "nothing here simulates AWS::SNS::Topic"),
        "Refers": ("NOT_PLAYED", "refers to Topic, which isn't simulated"),
        "Waits": ("CREATE_COMPLETE", ""),
    }


def test_conditions_parameters_and_rules_are_obeyed(aws: MotoAccount, tmp_path: Path) -> None:
    bootstrap(aws, version=30)
    stack = stack_of(
        aws,
        tmp_path,
        {"Vpc": {**VPC, "Condition": "Here"}, "Other": {**VPC, "Condition": "Elsewhere"}},
        Parameters={
            "Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}
        },
        Conditions={
            "Here": {"Fn::Equals": [{"Ref": "AWS::Partition"}, "aws"]},
            "Elsewhere": {"Fn::Not": [{"Condition": "Here"}]},
        },
        Rules={
            "Bootstrapped": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": [["5"], {"Ref": "Version"}]}]}}]}
        },
    )

    assert [event.logical_id for event in stack.create()] == ["Vpc"]


def test_refuses_what_a_rule_forbids(aws: MotoAccount, tmp_path: Path) -> None:
    rules = {"No": {"Assertions": [{"Assert": {"Fn::Equals": ["a", "b"]}, "AssertDescription": "Never."}]}}

    with pytest.raises(ValueError, match=r"rule No: Never\."):
        stack_of(aws, tmp_path, {"Vpc": VPC}, Rules=rules).create()


def custom(code: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the resources of a custom resource whose function is `code`."""
    function = {
        "Code": {"ZipFile": code},
        "Handler": "index.handler",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Runtime": "python3.13",
        **more,
    }
    return {
        "Role": ROLE,
        "Function": {"Type": "AWS::Lambda::Function", "Properties": function},
        "Thing": {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, **properties},
        },
    }


def test_a_custom_resource_gets_texts_and_gives_attributes(aws: MotoAccount, tmp_path: Path) -> None:
    outputs = {"Received": {"Value": {"Fn::GetAtt": ["Thing", "Received"]}}, "Thing": {"Value": {"Ref": "Thing"}}}
    properties = {"Min": 2, "On": True, "Many": [1, {"Deep": False}], "None": {"Ref": "AWS::NoValue"}}
    stack = stack_of(aws, tmp_path, custom(ECHO, properties, Timeout=60), Outputs=outputs)

    events = events_by_id(stack.create())

    assert events["Thing"].status == "CREATE_COMPLETE", events["Thing"].reason
    assert events["Function"].reason.startswith("python3.13 runs on Python 3.")
    assert stack.outputs["Thing"] == "made"
    received = json.loads(stack.outputs["Received"])
    assert {key: received[key] for key in properties if key in received} == {
        "Min": "2",
        "On": "true",
        "Many": ["1", {"Deep": "false"}],
    }
    [run] = stack.runs
    assert (run.role, run.error) == (stack.resources["Role"].physical.attributes["Arn"], "")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"Status": "FAILED"}, r"Received response status \[FAILED\] from custom resource. Message returned: as asked"),
        ({"Much": "1"}, r"Response object is too long: \d+ bytes of at most 4096"),
    ],
)
def test_a_custom_resource_fails(aws: MotoAccount, tmp_path: Path, properties: Any, message: str) -> None:
    events = events_by_id(stack_of(aws, tmp_path, custom(ECHO, properties, Timeout=60)).create())

    assert events["Thing"].status == "CREATE_FAILED"
    assert re.search(message, events["Thing"].reason), events["Thing"].reason


def test_a_function_that_raises_runs_again(aws: MotoAccount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lambdas, "_RETRY_SECONDS", (0, 0))
    stack = stack_of(aws, tmp_path, custom(ECHO, {"Raise": "no"}, Timeout=60))

    reason = events_by_id(stack.create())["Thing"].reason

    assert "CloudFormation did not receive a response from your Custom Resource" in reason
    assert '"errorType": "RuntimeError"' in reason
    assert len(stack.runs) == 3


def test_a_group_that_does_not_exist_yet_gets_its_minimum_size(aws: MotoAccount, tmp_path: Path) -> None:
    made = {"name": "demo", "roleArn": "arn:aws:iam::123456789012:role/demo", "resourcesVpcConfig": {}}
    aws.client("eks").create_cluster(**made)
    handler = (ROOT / "gpu_constructs/nodes/desired_size_handler.py").read_text()
    properties = {"Cluster": "demo", "Group": {"LogicalId": "Nodes"}, "Min": 2, "Max": 4, "ServiceTimeout": "120"}
    resources = custom(handler, properties, Timeout=90)
    stack = stack_of(aws, tmp_path, resources)

    events = events_by_id(stack.create())

    assert events["Thing"].reason == ""
    assert stack.resources["Thing"].physical.attributes == {"MinSize": 2, "MaxSize": 4, "DesiredSize": 2}


def test_a_stack_uses_the_function_of_another(aws: MotoAccount, tmp_path: Path) -> None:
    made = custom(ECHO, {}, Timeout=60)
    thing = {"Thing": {"Type": "Custom::Thing", "Properties": {"ServiceToken": {"Fn::ImportValue": "Echo"}}}}
    exports = {"Echo": {"Value": {"Fn::GetAtt": ["Function", "Arn"]}, "Export": {"Name": "Echo"}}}
    shared: dict[str, Any] = {"assembly": tmp_path, "aws": aws, "authority": Authority(tmp_path)}
    first = {"Resources": {**made, "Thing": VPC}, "Outputs": exports}
    stack = Stack(first, name="Echoes", folder=tmp_path / "first", **shared)
    stack.create()

    [event] = Stack(
        {"Resources": thing}, name="Asks", folder=tmp_path / "other", exports=stack.exports, **shared
    ).create()

    assert (event.status, event.reason) == ("CREATE_COMPLETE", "")


def test_a_role_that_lambda_cannot_assume_fails_its_function(aws: MotoAccount, tmp_path: Path) -> None:
    resources = custom(ECHO, {})
    trusted = json.loads(json.dumps(ROLE).replace("lambda.amazonaws.com", "ec2.amazonaws.com"))

    events = events_by_id(stack_of(aws, tmp_path, {**resources, "Role": trusted}).create())

    assert "The role defined for the function cannot be assumed by Lambda." in events["Function"].reason
    assert events["Thing"].status == "NOT_BEGUN"


SLEEPS = """
import time

def handler(event, context):
    time.sleep(600)
"""


def test_a_custom_resource_is_given_up_when_nothing_can_come_of_it(aws: MotoAccount, tmp_path: Path) -> None:
    template, why = {"Resources": custom(SLEEPS, {}, Timeout=900)}, "pod kube-system/karpenter crashed 2 times"
    runs = tmp_path / "runs"
    stack = Stack(
        template,
        name=tmp_path.name,
        assembly=tmp_path,
        aws=aws,
        folder=tmp_path,
        stopped=lambda: why if runs.exists() else "",
    )

    events = events_by_id(stack.create())

    assert events["Thing"].status == "CREATE_FAILED"
    assert events["Thing"].reason == f"CreationFailed: Thing: {why}"
    [run] = stack.runs
    assert why in run.error


def test_an_error_that_does_not_count_is_not_played(aws: MotoAccount, tmp_path: Path) -> None:
    resources = custom(ECHO, {"Status": "FAILED"}, Timeout=60)
    excused: list[str] = []
    template = {"Resources": resources}

    def excuse(error: str) -> str:
        excused.append(error)
        return "its chart is not here"

    stack = Stack(template, name=tmp_path.name, assembly=tmp_path, aws=aws, folder=tmp_path, excuse=excuse)

    events = events_by_id(stack.create())

    assert (events["Thing"].status, events["Thing"].reason) == ("NOT_PLAYED", "its chart is not here")
    assert "as asked" in excused[0]
