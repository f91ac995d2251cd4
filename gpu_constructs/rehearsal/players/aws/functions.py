"""Lambda, as far as one function invokes another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request
from gpu_constructs.rehearsal.players.function_error import FunctionError

Invoke = Callable[[str, bytes], bytes]


class Functions:
    """The functions of an account.

    Attributes:
        invoke: What runs one, called with name and payload.
    """

    def __init__(self) -> None:
        self.invoke: Invoke | None = None

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


def function_name(reference: str) -> str:
    """Return the name in a name, a partial ARN or an ARN of a function.

    Source: https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html (2026-11)
    """
    parts = unquote(reference).split(":")
    return parts[parts.index("function") + 1] if "function" in parts else parts[-1]
