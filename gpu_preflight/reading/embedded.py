"""Texts inside a template that are documents of their own, with unknown parts in the middle of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.marks import Marks
from gpu_preflight.reading.unknown import Unknown

# What is known at deployment only: an intrinsic, and a dynamic reference.
_UNKNOWN = regex(r"\$\{|\{\{resolve:")
# Policies of IAM, which a template may give as an object or as JSON text.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-iam-role.html (2026-08)
_DOCUMENTS = ("AssumeRolePolicyDocument", "PolicyDocument")


def parse_embedded(file: str, text: Any) -> Any:
    """Return the document of a JSON or YAML text of a template, or `Unknown` when it cannot be parsed."""
    if isinstance(text, (dict, list)):
        return text
    if isinstance(text, str):
        return _load(file, text)
    if not isinstance(text, Unknown):
        return None
    marks = Marks(text.expression)
    marked = _mark(text.expression, marks)
    if marked is None:
        return text
    found = _load(file, marked)
    return text if isinstance(found, Unknown) else marks.put_back(found, Unknown)


def _load(file: str, text: str) -> Any:
    try:
        # Not as a file of JSON: a number that is not known makes it YAML.
        documents = [each.content for each in parse(f"text in {file},", text)]
    except UnusableInput:
        return Unknown(text[:80])
    return documents[0] if len(documents) == 1 else documents


def _mark(expression: str, marks: Marks) -> str | None:
    """Replace every ``${...}`` and ``{{resolve:...}}``, which may hold braces and quotes of their own, by a mark."""
    parts: list[str] = []
    place = 0
    while found := _UNKNOWN.search(expression, place):
        start = found.start()
        end = _closing(expression, start + 2, 1 if found.group() == "${" else 2)
        if end is None:
            return None
        parts += [expression[place:start], marks.mark(expression[start : end + 1])]
        place = end + 1
    return "".join([*parts, expression[place:]])


def _closing(expression: str, place: int, depth: int) -> int | None:
    for index in range(place, len(expression)):
        depth += {"{": 1, "}": -1}.get(expression[index], 0)
        if depth == 0:
            return index
    return None


def with_read_policies(resource: Resource) -> Resource:
    """Return a resource with the policies of a role, or of itself, as objects, whichever way they are written."""
    if not resource.type.startswith("AWS::IAM::"):
        return resource
    properties = {name: _read(resource.file, name, value) for name, value in resource.properties.items()}
    return replace(resource, properties=properties)


def _read(file: str, name: str, value: Any) -> Any:
    if name == "Policies" and isinstance(value, list):
        return [_with_document(file, each) if isinstance(each, dict) else each for each in value]
    if name in _DOCUMENTS and isinstance(value, (str, Unknown)):
        found = parse_embedded(file, value)
        return found if isinstance(found, dict) else value
    return value


def _with_document(file: str, policy: dict[str, Any]) -> dict[str, Any]:
    return {name: _read(file, name, value) for name, value in policy.items()}
