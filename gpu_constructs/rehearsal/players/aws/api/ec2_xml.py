"""Answers of EC2 as XML, written straight from the SDK's model: a list of all instance types takes moto 15 seconds.

Source: https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html#response-serialization
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4
from xml.sax.saxutils import escape


def ec2_xml(operation: Any, result: Mapping[str, Any]) -> str:
    """Write the result of an operation.

    Args:
        operation: The SDK's model of it.
        result: By the names of the model; what is ``None`` is left out.
    """
    name, version = operation.name, operation.service_model.api_version
    body = "".join(_members(result, operation.output_shape)) if operation.output_shape else "<return>true</return>"
    space = f'xmlns="http://ec2.amazonaws.com/doc/{version}/"'
    return f"<{name}Response {space}><requestId>{uuid4()}</requestId>{body}</{name}Response>"


def _members(value: Mapping[str, Any], shape: Any) -> Iterator[str]:
    members = shape.members
    for key, one in value.items():
        if one is not None and key in members:
            tag = members[key].serialization.get("name", key)
            yield f"<{tag}>{_written(one, members[key])}</{tag}>"


def _written(value: Any, shape: Any) -> str:
    kind = shape.type_name
    if kind == "structure":
        return "".join(_members(value, shape))
    if kind == "list":
        tag = shape.member.serialization.get("name", "item")
        return "".join(f"<{tag}>{_written(one, shape.member)}</{tag}>" for one in value)
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "timestamp":
        return _instant(value)
    return escape(str(value))


def _instant(value: datetime) -> str:
    return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
