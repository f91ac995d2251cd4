"""Functions and layers of Lambda, which is played here: calls are checked, and not sent.

Source of every type: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_Lambda.html (2026-11)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.functions.function import Function
from gpu_constructs.rehearsal.players.cloudformation.functions.opt import merge
from gpu_constructs.rehearsal.players.cloudformation.functions.runtimes import played_on
from gpu_constructs.rehearsal.players.cloudformation.shaping import Shaping

# What Lambda takes where a function does not say.
# Source: https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html (2026-11)
TIMEOUT, MEMORY_MB = 3, 128
SERVICE = "lambda.amazonaws.com"


def function(creation: Creation) -> Made:
    """Make a function of its code and layers."""
    name = creation.named("FunctionName", 64)
    inline = creation.properties.get("Code", {}).get("ZipFile")
    said = creation.check("lambda", "CreateFunction", FunctionName=name)
    arn = creation.arn("lambda", f"function:{name}")
    _refuse_unless_assumed(creation, said["Role"])
    _refuse_unless_in_network(creation, said)
    folder = creation.functions.folder
    creation.functions.add(
        Function(
            name=name,
            arn=arn,
            role=said["Role"],
            runtime=said["Runtime"],
            handler=said["Handler"],
            code=_inline(inline, folder / "code" / name, said) if inline else _asset(creation, said["Code"]),
            opt=merge([creation.functions.layers[each] for each in said.get("Layers", [])], folder / "opt" / name),
            variables=said.get("Environment", {}).get("Variables", {}),
            timeout=said.get("Timeout", TIMEOUT),
            memory_mb=said.get("MemorySize", MEMORY_MB),
            log_group=said.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}"),
        )
    )
    note = f"{said['Runtime']} played on {played_on(said['Runtime'])}"
    return Made(ref=name, attributes={"Arn": arn}, note=note)


def layer_version(creation: Creation) -> Made:
    """Make the first version of a layer."""
    name = creation.named("LayerName", 140)
    said = creation.check("lambda", "PublishLayerVersion", LayerName=name)
    arn = creation.arn("lambda", f"layer:{name}:1")
    creation.functions.layers[arn] = _asset(creation, said["Content"])
    return Made(ref=arn, attributes={"LayerVersionArn": arn})


def permission(creation: Creation) -> Made:
    """Let a service invoke a function; nothing here that invokes one asks."""
    creation.check("lambda", "AddPermission", Shaping(), StatementId=creation.name(100))
    return Made(ref=creation.name(100), note="checked only: who may invoke is not judged")


def _asset(creation: Creation, said: dict[str, Any]) -> Path:
    return creation.assets.unpack(said["S3Key"], creation.functions.folder / "assets")


def _inline(text: str, folder: Path, said: dict[str, Any]) -> Path:
    """Write code of the template to a file, whose name CloudFormation takes from the runtime."""
    folder.mkdir(parents=True)
    (folder / ("index.py" if said["Runtime"].startswith("python") else "index.js")).write_text(text)
    return folder


def _refuse_unless_assumed(creation: Creation, role: str) -> None:
    """Refuse a role that Lambda could not assume."""
    found = creation.ask("iam", "GetRole", RoleName=role.rpartition("/")[2])["Role"]["AssumeRolePolicyDocument"]
    trusted = [each for each in found["Statement"] if SERVICE in json.dumps(each.get("Principal"))]
    if not any(each["Effect"] == "Allow" for each in trusted):
        creation.fail("The role defined for the function cannot be assumed by Lambda.")


def _refuse_unless_in_network(creation: Creation, said: dict[str, Any]) -> None:
    """Refuse a function in a VPC whose role may make no network interface there: Lambda makes them as that role.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions (2026-11)
    """
    for subnet in said.get("VpcConfig", {}).get("SubnetIds", []):
        groups = said["VpcConfig"].get("SecurityGroupIds", [])
        try:
            creation.as_role("ec2", said["Role"]).create_network_interface(SubnetId=subnet, Groups=groups)
        except ClientError as error:
            creation.fail(
                "The provided execution role does not have permissions to call CreateNetworkInterface on EC2: "
                f"{error.response['Error']['Message']}"
            )
