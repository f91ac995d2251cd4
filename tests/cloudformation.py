"""CloudFormation, as the function behind a custom resource meets it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/Test/0a1b"


class Answers:
    """A function's answers.

    Attributes:
        sent: The answers so far.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: ModuleType) -> None:
        self.sent: list[dict[str, Any]] = []
        monkeypatch.setattr(code.urllib.request, "urlopen", self.take)

    def take(self, request: Any, timeout: int) -> None:
        """Keep what is sent."""
        assert request.get_method() == "PUT"
        assert timeout
        # As CDK's own answers: some addresses are signed for no content type, and urllib adds one.
        assert request.get_header("Content-type") == ""
        self.sent.append(json.loads(request.data))


def event_of(resource: str, kind: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what CloudFormation sends: ``Create``, ``Update`` or ``Delete`` of a resource."""
    made = {} if kind == "Create" else {"PhysicalResourceId": resource}
    return {
        "RequestType": kind,
        "ResponseURL": "https://cloudformation.example.com/answer",
        "StackId": STACK,
        "RequestId": "1",
        "LogicalResourceId": resource,
        "ResourceProperties": dict(properties),
        **made,
    }
