"""CloudFormation accepts the response of a custom resource, or reports what is wrong with it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from gpu_rehearsal.cloudformation.changes import MAX_ANSWER_BYTES, Answers, checked
from gpu_rehearsal.credentials import Authority

REQUEST = {"StackId": "stack", "RequestId": "request", "LogicalResourceId": "Thing"}
ANSWER = {**REQUEST, "Status": "SUCCESS", "PhysicalResourceId": "thing"}


def test_accepts_an_answer() -> None:
    assert checked(json.dumps(ANSWER).encode(), REQUEST) == ANSWER


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Status": "DONE"}, r"Invalid response status 'DONE'"),
        ({"RequestId": "other"}, r"RequestId must be 'request', got 'other'"),
        ({"PhysicalResourceId": ""}, r"Invalid PhysicalResourceId"),
        ({"Status": "FAILED"}, r"a failure must have a Reason"),
        ({"Data": {"a": "x" * MAX_ANSWER_BYTES}}, r"Response object is too long: \d+ bytes of at most 4096"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked(json.dumps(ANSWER | changes).encode(), REQUEST)


def test_accepts_the_longest_answer() -> None:
    room = MAX_ANSWER_BYTES - len(json.dumps(ANSWER | {"Data": ""}))

    assert checked(json.dumps(ANSWER | {"Data": "x" * room}).encode(), REQUEST)


def test_an_address_rejects_a_content_type(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with Answers(authority) as answers:
        address = answers.expect("request")
        trusts = ssl.create_default_context(cafile=str(authority.bundle))

        with pytest.raises(urllib.error.HTTPError, match="403"):
            put(address, trusts, {"Content-Type": "application/json"})
        assert answers.wait(REQUEST, 0) is None
        put(address, trusts, {"Content-Type": ""})

        assert answers.wait(REQUEST, 1) == ANSWER


def put(address: str, trusts: ssl.SSLContext, headers: dict[str, str]) -> None:
    """Send the answer."""
    request = urllib.request.Request(address, json.dumps(ANSWER).encode(), headers, method="PUT")
    with urllib.request.urlopen(request, timeout=10, context=trusts):
        pass
