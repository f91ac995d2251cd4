"""Custom resources: a function of the template makes them, and answers when it has.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/crpg-ref-requests.html (2026-11)
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from threading import Thread
from typing import Any

from gpu_constructs.rehearsal.players.cloudformation.creation import Creation, Made
from gpu_constructs.rehearsal.players.cloudformation.templates.intrinsics import as_text
from gpu_constructs.rehearsal.players.function_error import FunctionError

# Seconds that CloudFormation waits for an answer where the resource does not say.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-cloudformation-customresource.html
SERVICE_TIMEOUT = 3600
# Seconds before Lambda runs again an asynchronous invocation whose function ended with an error.
# Source: https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html (2026-11)
RUNS_AGAIN_AFTER = (60, 120)


def custom_resource(creation: Creation) -> Made:
    """Ask the function behind ServiceToken, and wait for its answer."""
    request = _request(creation)
    seconds = float(creation.properties.get("ServiceTimeout", SERVICE_TIMEOUT))
    name = creation.properties["ServiceToken"].split(":function:")[-1]
    creation.properties = {}
    ends = time.monotonic() + seconds
    asking = Asking(creation, name, request, ends)
    asking.start()
    answer = _answer(creation, asking, request, ends)
    if answer is None:
        creation.fail(
            f"CloudFormation did not receive a response from your Custom Resource within {seconds:.0f} seconds"
            f"{asking.failed and ': ' + asking.failed}"
        )
    if answer["Status"] == "FAILED":
        creation.fail(f"Received response status [FAILED] from custom resource. Message returned: {answer['Reason']}")
    return Made(ref=answer["PhysicalResourceId"], attributes=answer.get("Data") or {})


def as_texts(value: Any) -> Any:
    """Return properties as a function gets them: every scalar a text."""
    if isinstance(value, Mapping):
        return {key: as_texts(each) for key, each in value.items()}
    return [as_texts(each) for each in value] if isinstance(value, list) else as_text(value)


class Asking(Thread):
    """An asynchronous invocation, again after a while where the function ends with an error.

    Args:
        creation: Whose functions these are.
        name: Of the function.
        request: What it is asked.
        ends: Moment after which nobody waits for an answer.

    Attributes:
        failed: What the last run ended with; empty where it answered Lambda.
    """

    def __init__(self, creation: Creation, name: str, request: Mapping[str, Any], ends: float) -> None:
        super().__init__(daemon=True)
        self._creation, self._name, self._request, self._ends = creation, name, request, ends
        self.failed = ""

    def run(self) -> None:
        """Invoke until the function ends without an error, at most three times."""
        for seconds in (*RUNS_AGAIN_AFTER, None):
            if self._succeeds() or seconds is None or time.monotonic() + seconds > self._ends:
                return
            time.sleep(seconds)

    def _succeeds(self) -> bool:
        try:
            self._creation.functions.invoke(self._name, json.dumps(self._request).encode())
        except FunctionError as error:
            self.failed = str(error)
            return False
        self.failed = ""
        return True


def _request(creation: Creation) -> dict[str, Any]:
    request_id = str(uuid.uuid4())
    return {
        "RequestType": "Create",
        "ServiceToken": creation.properties["ServiceToken"],
        "ResponseURL": creation.answers.expect(request_id),
        "StackId": creation.stack.id,
        "RequestId": request_id,
        "LogicalResourceId": creation.logical_id,
        "ResourceType": creation.type,
        "ResourceProperties": as_texts(creation.properties),
    }


def _answer(creation: Creation, asking: Asking, request: Mapping[str, Any], ends: float) -> dict[str, Any] | None:
    """Return the answer; nothing as soon as none can come any more, since nobody here waits for an hour."""
    while time.monotonic() < ends:
        running = asking.is_alive()
        if answer := creation.answers.wait(request, min(ends - time.monotonic(), 0.5)):
            return answer
        if not running:
            return None
    return None
