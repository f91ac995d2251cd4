"""What the SDK's models say of strings and the SDK itself does not check: enumerations, patterns and lengths."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from botocore.exceptions import ParamValidationError

# As many as a reader takes in.
_FEW = 12
# The models are written for Java's regular expressions, which know classes of Unicode by name; some are escaped twice.
# Source: https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/regex/Pattern.html
_IN_PYTHON = {
    r"\\u": r"\u",
    r"\\r\\n\\t": r"\r\n\t",
    r"\uD800\uDC00-\uDBFF\uDFFF": r"\U00010000-\U0010FFFF",
    r"\w-_": r"\w_-",
    r"\p{L}": r"\w",
    r"\p{N}": r"\d",
    r"\p{Z}": r"\s",
    r"\p{ASCII}": r"\x00-\x7f",
    r"\p{Alnum}": "A-Za-z0-9",
    r"\p{Alpha}": "A-Za-z",
    r"\p{Graph}": r"\x21-\x7e",
    r"\p{Print}": r"\x20-\x7e",
}
# Enumerations that lack what AWS takes: ReceiveMessage has long taken the names of attributes of messages there.
# Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html
_INCOMPLETE = frozenset({"QueueAttributeName"})


def add_to(client: Any) -> None:
    """Have a client of the SDK check what it sends by all that its model says.

    Args:
        client: A client of boto3.
    """
    client.meta.events.register("provide-client-params.*.*", _check, unique_id="gpu-constructs-model")


def _check(params: Mapping[str, Any], model: Any, **_: object) -> None:
    said = faults(params, model.input_shape) if model.input_shape else []
    if said:
        raise ParamValidationError(report=f"{model.name}: {'; '.join(said)}")


def faults(value: Any, shape: Any, path: str = "") -> list[str]:
    """Return what in a value breaks an enumeration, a pattern or a length of its model.

    Args:
        value: What is said.
        shape: The SDK's model of it.
        path: Where it stands.
    """
    if value is None:
        return []
    if shape.type_name == "structure":
        known = [(name, shape.members[name]) for name in value if name in shape.members]
        return [each for name, member in known for each in faults(value[name], member, f"{path}.{name}")]
    if shape.type_name == "list":
        return [each for number, one in enumerate(value) for each in faults(one, shape.member, f"{path}[{number}]")]
    if shape.type_name == "map":
        return [each for key, one in value.items() for each in faults(one, shape.value, f"{path}.{key}")]
    if shape.type_name == "string" and isinstance(value, str):
        return list(_faults_of_string(value, shape, path.lstrip(".")))
    return []


def _faults_of_string(value: str, shape: Any, path: str) -> Iterator[str]:
    if shape.enum and value not in shape.enum and shape.name not in _INCOMPLETE:
        near = shape.enum if len(shape.enum) <= _FEW else get_close_matches(value, shape.enum)
        yield f"{path} must be one of {len(shape.enum)} values, got {value!r}; such are {', '.join(near)}"
    longest = shape.metadata.get("max")
    if longest is not None and len(value) > longest:
        yield f"{path} must have at most {longest} characters, got {len(value)}"
    pattern = shape.metadata.get("pattern")
    if pattern and not _compiled(pattern).fullmatch(value):
        yield f"{path} must match {pattern}, got {value!r}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    for java, python in _IN_PYTHON.items():
        pattern = pattern.replace(java, python)
    return re.compile(pattern)
