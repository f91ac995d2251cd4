"""Functions and layers of Lambda, and custom resources that functions of the template create, update and delete.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/AWS_Lambda.html,
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html (2026-11)
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

from botocore.exceptions import ClientError

from gpu_rehearsal.cloudformation.assets import merge_layers
from gpu_rehearsal.cloudformation.changes import Created, Creation
from gpu_rehearsal.cloudformation.intrinsics import Shaping, as_text
from gpu_rehearsal.cloudformation.invocation import Function, local_runtime
from gpu_rehearsal.credentials import FunctionError, Source

# Lambda's defaults.
# Source: https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html (2026-11)
_TIMEOUT, _MEMORY_MB = 3, 128
_SERVICE = "lambda.amazonaws.com"


def function(creation: Creation) -> Created:
    """Create a function from its code and layers."""
    name = creation.named("FunctionName", 64)
    inline = creation.properties.get("Code", {}).get("ZipFile")
    parameters = creation.check("lambda", "CreateFunction", FunctionName=name)
    arn = creation.arn("lambda", f"function:{name}")
    _refuse_unless_assumed(creation, parameters["Role"])
    _refuse_unless_in_network(creation, parameters)
    code, opt = (creation.functions.new_folder(kind, name) for kind in ("code", "opt"))
    creation.functions.add(
        Function(
            name=name,
            arn=arn,
            role=parameters["Role"],
            runtime=parameters["Runtime"],
            handler=parameters["Handler"],
            code=_write_inline_code(inline, code, parameters)
            if inline
            else _unpack_asset(creation, parameters["Code"]),
            opt=merge_layers([creation.functions.layers[each] for each in parameters.get("Layers", [])], opt),
            variables=parameters.get("Environment", {}).get("Variables", {}),
            timeout=parameters.get("Timeout", _TIMEOUT),
            memory_mb=parameters.get("MemorySize", _MEMORY_MB),
            log_group=parameters.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}"),
            source=_source(name, parameters.get("VpcConfig", {})),
        )
    )
    note = f"{parameters['Runtime']} runs on {local_runtime(parameters['Runtime'])}"
    return Created(ref=name, attributes={"Arn": arn}, note=note)


def layer_version(creation: Creation) -> Created:
    """Create a version of a layer."""
    name = creation.named("LayerName", 140)
    parameters = creation.check("lambda", "PublishLayerVersion", LayerName=name)
    arn = creation.functions.next_layer(creation.arn("lambda", f"layer:{name}"))
    creation.functions.layers[arn] = _unpack_asset(creation, parameters["Content"])
    return Created(ref=arn, attributes={"LayerVersionArn": arn})


def delete_function(creation: Creation) -> None:
    """Delete a function."""
    creation.functions.remove(creation.physical_id)


def delete_layer_version(creation: Creation) -> None:
    """Delete a version of a layer. Functions that use it keep it, as in Lambda."""
    creation.functions.layers.pop(creation.physical_id, None)


def permission(creation: Creation) -> Created:
    """Validate a permission to invoke a function. It isn't enforced."""
    creation.check("lambda", "AddPermission", Shaping(), StatementId=creation.name(100))
    return Created(ref=creation.name(100), note="only validated: permissions to invoke functions aren't enforced")


def _source(name: str, network: dict[str, Any]) -> Source:
    subnets, groups = network.get("SubnetIds", []), network.get("SecurityGroupIds", [])
    return Source(name=f"function {name}", subnet=subnets[0] if subnets else "", groups=tuple(groups))


def _unpack_asset(creation: Creation, parameters: dict[str, Any]) -> Path:
    return creation.assets.unpack(parameters["S3Key"], creation.functions.folder / "assets")


def _write_inline_code(text: str, folder: Path, parameters: dict[str, Any]) -> Path:
    """Write inline code to a file. CloudFormation derives its name from the runtime."""
    folder.mkdir(parents=True)
    (folder / ("index.py" if parameters["Runtime"].startswith("python") else "index.js")).write_text(text)
    return folder


def _refuse_unless_assumed(creation: Creation, role: str) -> None:
    """Reject a role that Lambda can't assume."""
    found = creation.send("iam", "GetRole", RoleName=role.rpartition("/")[2])["Role"]["AssumeRolePolicyDocument"]
    trusted = [each for each in found["Statement"] if _SERVICE in json.dumps(each.get("Principal"))]
    if not any(each["Effect"] == "Allow" for each in trusted):
        creation.fail("The role defined for the function cannot be assumed by Lambda.")


def _refuse_unless_in_network(creation: Creation, parameters: dict[str, Any]) -> None:
    """Reject a function in a VPC if its role can't create network interfaces, which Lambda creates with the role.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions (2026-11)
    """
    for subnet in parameters.get("VpcConfig", {}).get("SubnetIds", []):
        groups = parameters["VpcConfig"].get("SecurityGroupIds", [])
        try:
            creation.as_role("ec2", parameters["Role"]).create_network_interface(SubnetId=subnet, Groups=groups)
        except ClientError as error:
            creation.fail(
                "The provided execution role does not have permissions to call CreateNetworkInterface on EC2: "
                f"{error.response['Error']['Message']}"
            )


# Seconds that CloudFormation waits for a response by default.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
_SERVICE_TIMEOUT = 3600
# Seconds before each retry of a failed asynchronous invocation.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html (2026-11)
_RETRY_SECONDS = (60, 120)


def create_custom(creation: Creation) -> Created:
    """Create a custom resource. A failed one is deleted too, by the id in the response of its function.

    Assumption, without a source: CloudFormation generates the id if there is no response.
    """
    creation.physical_id = creation.name(64)
    return _send(creation, "Create")


def update_custom(creation: Creation) -> Created:
    """Update a custom resource. If the response has another id, CloudFormation deletes the old resource afterwards.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
    """
    if "ServiceToken" in creation.properties:
        creation.fail("Modifying service token is not allowed.")
    return _send(creation, "Update", OldResourceProperties=_with_text_scalars(creation.old.properties))


def delete_custom(creation: Creation) -> None:
    """Delete a custom resource."""
    _send(creation, "Delete")


def _send(creation: Creation, kind: str, **more: Any) -> Created:
    """Send a request to the function of ServiceToken, and wait for its response."""
    request = _request(creation, kind) | more
    creation.has_called = True
    seconds = float(creation.declared.get("ServiceTimeout", _SERVICE_TIMEOUT))
    name = creation.declared["ServiceToken"].split(":function:")[-1]
    creation.properties = {}
    ends = time.monotonic() + seconds
    invocation = _AsyncInvocation(creation, name, request, ends)
    invocation.start()
    answer = _wait_for_answer(creation, invocation, request, ends)
    if answer is None:
        creation.fail(
            f"CloudFormation did not receive a response from your Custom Resource within {seconds:.0f} seconds"
            f"{invocation.failed and ': ' + invocation.failed}"
        )
    if kind == "Create":
        creation.physical_id = answer["PhysicalResourceId"]
    if answer["Status"] == "FAILED":
        creation.fail(f"Received response status [FAILED] from custom resource. Message returned: {answer['Reason']}")
    return Created(ref=answer["PhysicalResourceId"], attributes=answer.get("Data") or {})


def _with_text_scalars(value: Any) -> Any:
    """Return properties as a function receives them: every scalar is text."""
    if isinstance(value, Mapping):
        return {key: _with_text_scalars(each) for key, each in value.items()}
    return [_with_text_scalars(each) for each in value] if isinstance(value, list) else as_text(value)


class _AsyncInvocation(Thread):
    """An asynchronous invocation with retries after errors.

    Args:
        creation: The custom resource.
        name: Name of the function.
        request: The event.
        ends: Monotonic time of the timeout.

    Attributes:
        failed: Error of the last run; empty if it succeeded.
        given_up: Set to prevent further retries.
    """

    def __init__(self, creation: Creation, name: str, request: Mapping[str, Any], ends: float) -> None:
        super().__init__(daemon=True)
        self._creation, self._name, self._request, self._ends = creation, name, request, ends
        self.failed, self.given_up = "", Event()

    def run(self) -> None:
        """Invoke the function until it succeeds, at most three times."""
        for seconds in (*_RETRY_SECONDS, None):
            if self._succeeds() or seconds is None or time.monotonic() + seconds > self._ends:
                return
            if self.given_up.wait(seconds):
                return

    def _succeeds(self) -> bool:
        try:
            self._creation.functions.invoke(self._name, json.dumps(self._request).encode())
        except FunctionError as error:
            self.failed = str(error)
            return False
        self.failed = ""
        return True


def _request(creation: Creation, kind: str) -> dict[str, Any]:
    request_id = str(uuid.uuid4())
    return {
        "RequestType": kind,
        **({} if kind == "Create" else {"PhysicalResourceId": creation.physical_id}),
        "ServiceToken": creation.declared["ServiceToken"],
        "ResponseURL": creation.answers.expect(request_id),
        "StackId": creation.stack.id,
        "RequestId": request_id,
        "LogicalResourceId": creation.logical_id,
        "ResourceType": creation.type,
        "ResourceProperties": _with_text_scalars(creation.declared),
    }


def _wait_for_answer(
    creation: Creation, invocation: _AsyncInvocation, request: Mapping[str, Any], ends: float
) -> dict[str, Any] | None:
    """Return the response; ``None`` as soon as no response can follow, without a wait for the timeout."""
    while time.monotonic() < ends:
        if why := creation.functions.stopped():
            invocation.given_up.set()
            creation.fail(why)
        running = invocation.is_alive()
        if answer := creation.answers.wait(request, min(ends - time.monotonic(), 0.5)):
            return answer
        if not running:
            return None
    return None
