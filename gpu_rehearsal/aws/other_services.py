"""Parts of Lambda, CloudFormation and ECR that programs call."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

from gpu_rehearsal.aws.api import AwsRefusal, Request, Unplayed, plays
from gpu_rehearsal.credentials import FunctionError

Invoke = Callable[[str, bytes], bytes]


_VALID = timedelta(hours=12)


class OtherServices:
    """Lambda functions, stacks and registries of an account.

    Attributes:
        invoke: What runs a function, called with name and payload.
        resources: What returns the physical id of a resource by its logical id, by name and ARN of the stack.
    """

    def __init__(self) -> None:
        self.invoke: Invoke | None = None
        self.resources: dict[str, Callable[[str], str]] = {}

    @plays("lambda", "Invoke")
    def run(self, request: Request) -> Mapping[str, Any]:
        """Run a function and return what it answers.

        Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
        """
        name = function_name(request.parameters["FunctionName"])
        if self.invoke is None:
            raise Unplayed(f"the function {name}")
        answered: dict[str, Any] = {"StatusCode": 200, "ExecutedVersion": "$LATEST"}
        try:
            return answered | {"Payload": self.invoke(name, request.parameters.get("Payload") or b"{}")}
        except FunctionError as error:
            return answered | {"FunctionError": error.kind, "Payload": error.payload}
        except LookupError as error:
            raise AwsRefusal("ResourceNotFoundException", str(error)) from error

    @plays("cloudformation", "DescribeStackResource")
    def stack_resource(self, request: Request) -> Mapping[str, Any]:
        """Return the resource that a stack had before the operation that runs; of a creation, none.

        Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResource.html
        """
        stack, name = (str(request.parameters[each]) for each in ("StackName", "LogicalResourceId"))
        find = self.resources.get(stack)
        if not (found := find(name) if find else ""):
            raise AwsRefusal("ValidationError", f"Resource {name} does not exist for stack {stack}")
        return {"StackResourceDetail": {"LogicalResourceId": name, "PhysicalResourceId": found}}

    @plays("ecr-public", "GetAuthorizationToken")
    def log_in_to_public(self, request: Request) -> Mapping[str, Any]:
        """Return a token of the public registry.

        Source: https://docs.aws.amazon.com/AmazonECRPublic/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": _token()}

    @plays("ecr", "GetAuthorizationToken")
    def log_in_to_private(self, request: Request) -> Mapping[str, Any]:
        """Return a token of a registry of an account.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
        """
        return {"authorizationData": [_token()]}


def function_name(reference: str) -> str:
    """Return the name in a name, a partial ARN or an ARN of a function.

    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)
    """
    parts = unquote(reference).split(":")
    return parts[parts.index("function") + 1] if "function" in parts else parts[-1]


def _token() -> dict[str, Any]:
    token = base64.b64encode(b"AWS:rehearsal").decode()
    return {"authorizationToken": token, "expiresAt": datetime.now(timezone.utc) + _VALID}
