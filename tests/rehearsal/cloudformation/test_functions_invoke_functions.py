"""A function invokes another one with its own role, and gets its answer or its error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.cloudformation.stack import Stack

# Like the CDK's provider framework, it invokes the function in `USER` and sends the answer to CloudFormation.
FRAMEWORK = """
import boto3, json, os, urllib.request

def handler(event, context):
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    try:
        response = boto3.client("lambda").invoke(FunctionName=os.environ["USER"], Payload=json.dumps(event))
        payload = json.load(response["Payload"])
        answer |= {"Status": "SUCCESS", "Data": payload}
        if "FunctionError" in response:
            reason = f"{response['FunctionError']}: {payload['errorMessage']}"
            answer |= {"Status": "FAILED", "Data": {}, "Reason": reason}
    except Exception as error:
        answer |= {"Status": "FAILED", "Reason": str(error)}
    answer["PhysicalResourceId"] = "thing"
    put = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=10)
"""
USER = """
def handler(event, context):
    if event["ResourceProperties"]["Size"] == "0":
        raise ValueError("size must not be 0")
    return {"Size": event["ResourceProperties"]["Size"]}
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    with Aws(region="us-east-1") as started:
        yield started


def role(*statements: dict[str, Any]) -> dict[str, Any]:
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    policy = {"PolicyName": "Own", "PolicyDocument": {"Version": "2012-10-17", "Statement": list(statements)}}
    properties = {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}}
    return {"Type": "AWS::IAM::Role", "Properties": {**properties, "Policies": [policy] if statements else []}}


def function(code: str, of_role: str, **variables: Any) -> dict[str, Any]:
    properties = {
        "Code": {"ZipFile": code},
        "Handler": "index.handler",
        "Role": {"Fn::GetAtt": [of_role, "Arn"]},
        "Runtime": "python3.13",
        "Timeout": 60,
        "Environment": {"Variables": variables},
    }
    return {"Type": "AWS::Lambda::Function", "Properties": properties}


def thing(aws: Aws, folder: Path, *, size: int, allowed: str) -> tuple[Stack, str]:
    """Create a thing of a size by a function that may do what is allowed; return the stack and why it failed."""
    may = {"Effect": "Allow", "Action": allowed, "Resource": {"Fn::GetAtt": ["User", "Arn"]}}
    resources = {
        "UserRole": role(),
        "User": function(USER, "UserRole"),
        "FrameworkRole": role(may),
        "Framework": function(FRAMEWORK, "FrameworkRole", USER={"Fn::GetAtt": ["User", "Arn"]}),
        "Thing": {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Framework", "Arn"]}, "Size": size},
        },
    }
    stack = Stack({"Resources": resources}, name=folder.name, assembly=folder, aws=aws, folder=folder)
    [event] = [each for each in stack.create() if each.logical_id == "Thing"]
    return stack, event.reason


def test_a_function_gets_the_answer_of_another(aws: Aws, tmp_path: Path) -> None:
    stack, reason = thing(aws, tmp_path, size=2, allowed="lambda:InvokeFunction")

    assert reason == ""
    assert stack.resources["Thing"].physical.attributes == {"Size": "2"}
    principals = {call.action: call.principal for call in aws.calls}
    assert principals["lambda:Invoke"] == stack.resources["FrameworkRole"].physical.attributes["Arn"]


def test_a_function_gets_the_error_of_another(aws: Aws, tmp_path: Path) -> None:
    _, reason = thing(aws, tmp_path, size=0, allowed="lambda:InvokeFunction")

    assert reason.endswith("Message returned: Unhandled: size must not be 0")


def test_a_function_may_not_invoke_without_permission(aws: Aws, tmp_path: Path) -> None:
    _, reason = thing(aws, tmp_path, size=2, allowed="lambda:GetFunction")

    assert "AccessDenied" in reason
