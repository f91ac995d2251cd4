"""The JSON schema of the commands' output, from the fields, types and docstrings of the views."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpu_preflight.remedies.remedy import SmallestType
from gpu_preflight.report.doctor_view import DoctorView
from gpu_preflight.report.images_view import ImagesView
from gpu_preflight.report.instances_view import InstancesView
from gpu_preflight.report.json import keys
from gpu_preflight.report.review_view import ReviewView
from gpu_preflight.report.view import CheckView, ExplainView, RulesView

_Schema = dict[str, Any]
_VIEWS = (CheckView, ExplainView, ReviewView, DoctorView, InstancesView, ImagesView, RulesView)
_TYPES: Mapping[Any, _Schema] = {
    Any: {},
    bool: {"type": "boolean"},
    float: {"type": "number", "minimum": 0},
    int: {"type": "integer", "minimum": 0},
    str: {"type": "string"},
}
_ID = {"type": "string", "pattern": "^GPU[0-9]{3}$"}
# Constraints that types don't state.
NARROWER: Mapping[tuple[str, str], _Schema] = {
    ("finding", "id"): _ID,
    ("instanceType", "purchaseOptions"): {
        "type": "array",
        "items": {"enum": ["on-demand", "spot", "capacity-block"]},
    },
    # A change may be negative.
    ("limitResult", "value"): {"type": ["number", "null"]},
    ("nodeCost", "nodes"): {"type": "integer", "minimum": 1},
    ("reason", "answer"): {"enum": ["no", "unknown"]},
    ("rule", "id"): _ID,
    ("rule", "place"): {"type": "string", "pattern": "\\.py:[0-9]+$"},
    ("workload", "priority"): {"type": ["integer", "null"]},
}
_ATTRIBUTE = r"^    (\w+): (.*(?:\n {8}.*)*)"


def schema() -> str:
    """Return the JSON schema of the output of `gpu_preflight.report.json.render`."""
    definitions: dict[str, _Schema] = {}
    views = [_schema(each, definitions) for each in _VIEWS]
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:gpu-constructs:schema:1",
        "title": "JSON output of gpu-constructs",
        "description": "schemaVersion changes if a key is renamed, removed or changes its meaning. "
        "New keys don't change it.",
        "type": "object",
        "required": ["schemaVersion", "tool", "command"],
    }
    return json.dumps({**head, "oneOf": views, "$defs": definitions}, indent=2) + "\n"


def _schema(kind: Any, definitions: dict[str, _Schema]) -> _Schema:
    """Return the schema of a type, and add the schemas of its classes to the definitions."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _TYPES:
        return dict(_TYPES[kind])
    if origin is Literal:
        return {"const": arguments[0]} if len(arguments) == 1 else {"enum": list(arguments)}
    if origin in (Union, UnionType):
        [given] = (each for each in arguments if each is not NoneType)
        return _nullable(_schema(given, definitions))
    if origin is tuple:
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin in (dict, Mapping):
        values = _schema(arguments[1], definitions)
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    name = re.sub("View$", "", (origin or kind).__name__)
    name = name[0].lower() + name[1:]
    if origin is not None:
        return _object(name, origin, arguments, definitions)
    if name not in definitions:
        # Added before the classes of its fields, so that readers see it first.
        definitions[name] = {}
        definitions[name] |= _object(name, kind, (), definitions) if is_dataclass(kind) else _enum(kind)
    return {"$ref": f"#/$defs/{name}"}


def _nullable(schema: _Schema) -> _Schema:
    if "type" in schema:
        return schema | {"type": [schema["type"], "null"]}
    return {"enum": [*schema["enum"], None]} if "enum" in schema else {"anyOf": [schema, {"type": "null"}]}


def _enum(kind: type[Enum]) -> _Schema:
    return {"description": _text(kind), "enum": [each.value for each in kind]}


def _object(name: str, kind: Any, arguments: tuple[Any, ...], definitions: dict[str, _Schema]) -> _Schema:
    attributes, properties = _attributes(kind), dict[str, _Schema]()
    for attribute, key in keys(kind).items():
        of_type, text = attributes[attribute]
        given = arguments[0] if isinstance(of_type, TypeVar) else of_type
        described = {"description": text} if text else {}
        properties[key] = described | (NARROWER.get((name, key)) or _schema(given, definitions))
    return {
        "description": _text(kind),
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _attributes(kind: type) -> dict[str, tuple[Any, str]]:
    """Return type and description of fields and properties. A class overrides its bases."""
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        listed = (inspect.getdoc(each) or "").partition("Attributes:\n")[2].partition("\n\n")[0]
        texts |= dict(re.findall(_ATTRIBUTE, listed, re.MULTILINE))
    types = get_type_hints(kind, localns={SmallestType.__name__: SmallestType})
    found = {name: (each, _one_line(texts.get(name, ""))) for name, each in types.items()}
    for name, each in inspect.getmembers(kind, lambda each: isinstance(each, property)):
        found[name] = get_type_hints(each.fget)["return"], _text(each)
    return found


def _text(documented: object) -> str:
    return _one_line((inspect.getdoc(documented) or "").partition("\n\n")[0])


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("``None``", "null").replace("``", "")
