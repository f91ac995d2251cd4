"""Intrinsic functions, dynamic references and rules of templates, and properties as parameters of an API.

Most properties have the API's names in another case. botocore's models list these names. Exceptions are in the module
of the resource type. A property without a parameter is rejected, so that no property is dropped.

Source, 2026-11:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
"""

from __future__ import annotations

import base64
import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from botocore.exceptions import ParamValidationError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import ParamValidator

NO_VALUE = object()
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")
_REFERENCE = re.compile(r"\{\{resolve:([a-z-]+):([^}]*)\}\}")


class _Scope(Protocol):
    """The values that functions can read."""

    def ref(self, name: str) -> Any:
        """Return the value of ``Ref`` for a parameter or resource; `NO_VALUE` for AWS::NoValue."""

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute of a resource."""

    def condition(self, name: str) -> bool:
        """Whether a condition of the template holds."""

    def mapping(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a mapping of the template."""

    def zones(self, region: str) -> list[str]:
        """Return the names of the Availability Zones of a region. An empty name is the stack's region."""

    def imported(self, name: str) -> Any:
        """Return the value that another stack exports."""

    def output(self, stack: str, name: str, region: str) -> Any:
        """Return the value of another stack's output. An empty region is the stack's region."""


def evaluate(value: Any, scope: _Scope) -> Any:
    """Return a value with its functions evaluated, without members that are `NO_VALUE`.

    Raises:
        ValueError: A function isn't simulated, or its arguments are invalid.
        LookupError: A name doesn't exist.
    """
    if isinstance(value, list):
        return [got for each in value if (got := evaluate(each, scope)) is not NO_VALUE]
    if not isinstance(value, Mapping):
        return value
    name = next(iter(value), "")
    if len(value) == 1 and is_function(name):
        return _call(name, value[name], scope)
    return {key: got for key, each in value.items() if (got := evaluate(each, scope)) is not NO_VALUE}


def is_function(name: str) -> bool:
    """Whether a key is the name of a function."""
    return name in ("Ref", "Condition") or name.startswith("Fn::")


def as_text(value: Any) -> str:
    """Return a scalar as text, as CloudFormation converts it.

    Raises:
        ValueError: It isn't a scalar.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"a text must consist of texts and numbers, got {value!r}")
    return str(value)


def _call(name: str, argument: Any, scope: _Scope) -> Any:
    if name == "Condition" and not isinstance(argument, str):
        # Policies have an element of the same name.
        return {name: evaluate(argument, scope)}
    if name in _LAZY:
        return _LAZY[name](argument, scope)
    if name not in _EAGER:
        raise ValueError(f"{name} isn't simulated; it must be one of {sorted([*_LAZY, *_EAGER])}")
    return _EAGER[name](evaluate(argument, scope), scope)


def _get_att(argument: Any, scope: _Scope) -> Any:
    logical_id, name = argument if isinstance(argument, list) else argument.split(".", 1)
    return scope.attribute(logical_id, evaluate(name, scope))


def _if(argument: Any, scope: _Scope) -> Any:
    name, then, otherwise = argument
    return evaluate(then if scope.condition(name) else otherwise, scope)


def _sub(argument: Any, scope: _Scope) -> str:
    text, own = (argument, {}) if isinstance(argument, str) else argument

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("!"):
            return "${" + name[1:] + "}"
        return as_text(_named(name.strip(), own, scope))

    return _PLACEHOLDER.sub(fill, text)


def _named(name: str, own: Mapping[str, Any], scope: _Scope) -> Any:
    if name in own:
        return evaluate(own[name], scope)
    logical_id, dot, attribute = name.partition(".")
    return scope.attribute(logical_id, attribute) if dot else scope.ref(name)


def _find_in_map(argument: Any, scope: _Scope) -> Any:
    name, first, second = argument
    return scope.mapping(name)[first][second]


def _get_stack_output(argument: Any, scope: _Scope) -> Any:
    """Return another stack's output.

    Source, 2026-11:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getstackoutput.html
    """
    if others := sorted(set(argument) - {"StackName", "OutputName", "Region"}):
        raise ValueError(f"Fn::GetStackOutput: {others} aren't simulated")
    return scope.output(argument["StackName"], argument["OutputName"], argument.get("Region", ""))


def _join(argument: Any, _scope: _Scope) -> str:
    separator, parts = argument
    return str(separator).join(as_text(part) for part in parts)


def _select(argument: Any, _scope: _Scope) -> Any:
    index, values = argument
    if not 0 <= int(index) < len(values):
        raise LookupError(f"Fn::Select cannot select nonexistent value at index {index} of {values!r}")
    return values[int(index)]


def _split(argument: Any, _scope: _Scope) -> list[str]:
    separator, text = argument
    return str(text).split(separator)


def _cidr(argument: Any, _scope: _Scope) -> list[str]:
    block, count, bits = argument
    networks = ipaddress.ip_network(block).subnets(new_prefix=ipaddress.ip_network(block).max_prefixlen - int(bits))
    return [str(each) for each in itertools.islice(networks, int(count))]


def _contains(argument: Any, _scope: _Scope) -> bool:
    values, value = argument
    return value in values


# Their arguments are names, or are evaluated only in part.
_LAZY: dict[str, Callable[[Any, _Scope], Any]] = {
    "Condition": lambda argument, scope: scope.condition(argument),
    "Fn::GetAtt": _get_att,
    "Fn::If": _if,
    "Fn::Sub": _sub,
    "Ref": lambda argument, scope: scope.ref(argument),
}
_EAGER: dict[str, Callable[[Any, _Scope], Any]] = {
    "Fn::And": lambda argument, _scope: all(argument),
    "Fn::Base64": lambda argument, _scope: base64.b64encode(as_text(argument).encode()).decode(),
    "Fn::Cidr": _cidr,
    "Fn::Contains": _contains,
    "Fn::Equals": lambda argument, _scope: argument[0] == argument[1],
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": lambda argument, scope: scope.zones(argument),
    "Fn::GetStackOutput": _get_stack_output,
    "Fn::ImportValue": lambda argument, scope: scope.imported(argument),
    "Fn::Join": _join,
    "Fn::Not": lambda argument, _scope: not argument[0],
    "Fn::Or": lambda argument, _scope: any(argument),
    "Fn::Select": _select,
    "Fn::Split": _split,
}


def resolve(value: Any, stored: Callable[[str], str]) -> Any:
    """Return a value with every dynamic reference replaced.

    Args:
        value: Properties, with functions evaluated.
        stored: Reads a parameter by its name, which may end with a version: ``name:3``.

    Raises:
        ValueError: It refers to another service, which isn't simulated.
    """
    if isinstance(value, Mapping):
        return {key: resolve(each, stored) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, stored) for each in value]
    return _REFERENCE.sub(lambda found: _read(found, stored), value) if isinstance(value, str) else value


def _read(found: re.Match[str], stored: Callable[[str], str]) -> str:
    if found[1] != "ssm":
        raise ValueError(f"dynamic reference {found[0]}: service must be 'ssm', got {found[1]!r}")
    return stored(found[2])


def refuse_unless_asserted(rules: Mapping[str, Any], scope: _Scope) -> None:
    """Reject parameters that violate a rule.

    Raises:
        ValueError: An assertion doesn't hold.
    """
    for name, rule in rules.items():
        if "RuleCondition" in rule and not evaluate(rule["RuleCondition"], scope):
            continue
        for each in rule["Assertions"]:
            if not evaluate(each["Assert"], scope):
                raise ValueError(f"rule {name}: {each.get('AssertDescription', each['Assert'])}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shaping:
    """How the properties of one type differ from the parameters of its call.

    Attributes:
        renamed: Name of the parameter by the path of a property, e.g. ``{"Logging.Types": "types"}``.
        documents: Paths of properties that the API accepts as JSON text.
        tagged: Resource type of the created resource in TagSpecifications of EC2.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    documents: frozenset[str] = frozenset()
    tagged: str = ""

    def parameters(self, shape: Shape, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call.

        Raises:
            ValueError: The call has no such parameter.
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
                raise ValueError(f"property {here} isn't a parameter of {shape.name}, which accepts {list(members)}")
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
            raise ValueError(f"property {path} must have keys in {known}, got {others}")
        return {key: self._any(shape.value, each, f"{path}.{key}") for key, each in value.items()}


def tags(shape: Shape, written: list[Mapping[str, Any]]) -> Any:
    """Return tags in the format of a service: a map, or a list with the service's key names."""
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
    """Return a value in the API's type. CloudFormation accepts numbers and booleans as texts, and texts as numbers.

    Raises:
        ValueError: It can't be converted.
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
    """Validate the parameters of a call that is simulated here and not sent.

    Args:
        client: Client of the service, with additional checks.
        operation: Operation, e.g. ``CreateFunction``.
        parameters: Parameters of the call.

    Raises:
        ParamValidationError: Parameters are invalid.
    """
    meta = client.meta
    model = meta.service_model.operation_model(operation)
    name = f"provide-client-params.{meta.service_model.service_id.hyphenize()}.{operation}"
    meta.events.emit(name, params=parameters, model=model, context={})
    report = ParamValidator().validate(parameters, model.input_shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())
