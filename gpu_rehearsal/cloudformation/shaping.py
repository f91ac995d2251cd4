"""Properties of CloudFormation in the form that an API takes, by the models that botocore brings.

Most properties have the API's names in another case. What a resource type has otherwise it says; what then reaches no
parameter is refused, so that nothing of a template is dropped silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ParamValidationError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator

from gpu_rehearsal.cloudformation.intrinsics import as_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Shaping:
    """How the properties of one type differ from the parameters of its call.

    Attributes:
        renamed: Name of the parameter by the path of a property, e.g. ``{"Logging.Types": "types"}``.
        documents: Paths of properties that the API takes as text of JSON.
        tagged: What the call of EC2 makes, by its name in TagSpecifications.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    documents: frozenset[str] = frozenset()
    tagged: str = ""

    def parameters(self, shape: Shape, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call.

        Raises:
            ValueError: A property is none of the call's.
        """
        if not isinstance(shape, StructureShape):
            raise TypeError(f"{shape.name}: shape must be a structure, got {shape.type_name}")
        return self._structure(shape, properties, "")

    def _structure(self, shape: StructureShape, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        members = {name.lower(): name for name in shape.members}
        found: dict[str, Any] = {}
        for key, each in value.items():
            here = f"{path}.{key}".lstrip(".")
            name = members.get(self.renamed.get(here, key).lower(), "")
            if name:
                found[name] = self._any(shape.members[name], each, here)
            elif here == "Tags" and self.tagged:
                found["TagSpecifications"] = [{"ResourceType": self.tagged, "Tags": each}]
            else:
                raise ValueError(f"property {here} reaches no parameter of {shape.name}, which takes {list(members)}")
        return found

    def _any(self, shape: Shape, value: Any, path: str) -> Any:
        if path in self.documents:
            return value if isinstance(value, str) else json.dumps(value)
        if path == "Tags" and isinstance(value, list):
            return tags(shape, value)
        if isinstance(shape, StructureShape) and isinstance(value, Mapping):
            return self._structure(shape, value, path)
        if isinstance(shape, ListShape) and isinstance(value, list):
            return [self._any(shape.member, each, path) for each in value]
        if isinstance(shape, MapShape) and isinstance(value, Mapping):
            return self._map(shape, value, path)
        return scalar(shape, value, path)

    def _map(self, shape: MapShape, value: Mapping[str, Any], path: str) -> dict[str, Any]:
        if (known := shape.key.metadata.get("enum")) and (others := sorted(set(value) - set(known))):
            raise ValueError(f"property {path} takes no {others}, but {known}")
        return {key: self._any(shape.value, each, f"{path}.{key}") for key, each in value.items()}


def tags(shape: Shape, written: list[Mapping[str, Any]]) -> Any:
    """Return tags in the form of a service: a map, or a list under its own names."""
    if isinstance(shape, MapShape):
        return {each["Key"]: as_text(each["Value"]) for each in written}
    assert isinstance(shape, ListShape)
    assert isinstance(shape.member, StructureShape)
    members = shape.member.members
    key, value = ("TagKey", "TagValue") if "TagKey" in members else ("Key", "Value")
    names = {"Key": key, "Value": value}
    return [
        {
            names.get(name, name): scalar(members[names.get(name, name)], one, f"Tags.{name}")
            for name, one in each.items()
        }
        for each in written
    ]


def scalar(shape: Shape, value: Any, path: str) -> Any:
    """Return a value as the API's type: CloudFormation takes numbers and booleans as texts, and texts as numbers.

    Raises:
        ValueError: It is none of that type.
    """
    if isinstance(value, (list, Mapping)) or shape.type_name not in _SCALARS:
        raise ValueError(f"property {path} must be a {shape.type_name}, got {value!r}")
    try:
        return _SCALARS[shape.type_name](value)
    except (KeyError, ValueError):
        raise ValueError(f"property {path} must be a {shape.type_name}, got {value!r}") from None


def _boolean(value: Any) -> bool:
    return {"true": True, "false": False}[as_text(value)]


def _bytes(value: Any) -> bytes:
    return as_text(value).encode()


_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "blob": _bytes,
    "boolean": _boolean,
    "double": float,
    "float": float,
    "integer": int,
    "long": int,
    "string": as_text,
    "timestamp": as_text,
}


def validate(client: Any, operation: str, parameters: Mapping[str, Any]) -> None:
    """Refuse what a client would not send, for a call that is played here and not sent.

    Args:
        client: Of the service, with its own checks.
        operation: E.g. ``CreateFunction``.
        parameters: Of the call.

    Raises:
        ParamValidationError: As botocore says it.
    """
    meta = client.meta
    model = meta.service_model.operation_model(operation)
    name = f"provide-client-params.{meta.service_model.service_id.hyphenize()}.{operation}"
    meta.events.emit(name, params=parameters, model=model, context={})
    report = ParamValidator().validate(parameters, model.input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
