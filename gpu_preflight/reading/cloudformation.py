"""CloudFormation templates, with intrinsics resolved as far as possible before deployment.

Source, read 2026-08:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference.html
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from gpu_facts.hardware.regions import region_partition
from gpu_facts.labels import SIZE_RESOURCE
from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.construct_paths import ConstructPaths
from gpu_preflight.reading.documents import UnusableInput, refuse_endless
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import Unknown, dig, items, known_number, known_text, mapping, value_or_unknown
from gpu_preflight.reading.versions import (
    MAX_STEPS,
    MAX_TEXT,
    Work,
    characters,
    compact,
    equal,
    is_partly_unknown,
    scalar,
    typed,
    values_of_map,
)

_NO_VALUE = object()
_SUB = regex(r"\$\{(!?)([^}$]*)\}")
# CloudFormation replaces it at deployment.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references.html (2026-08)
_DYNAMIC = "{{resolve:"
# The function's arguments, by the names of its results. The desired size is the minimum at creation. Later it is the
# running number, unless the user sets it.
_SIZE_ARGUMENTS = {"MinSize": "Min", "MaxSize": "Max", "DesiredSize": None}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a template.

    Attributes:
        file: Path of the template.
        key: Name of the template and logical id, as in `Unknown`.
        type: CloudFormation type.
        properties: Properties with every value resolved, or `Unknown`.
        path: Construct path if CDK wrote one, otherwise the logical id.
        depends_on: Keys of the resources it is created after.
        metadata: Metadata of the resource.
        conditional: Whether its creation depends on an unknown condition.
        region: AWS Region of its stack; ``None`` if it isn't known.
        logical_id: Its logical id; empty if it isn't in a template.
        deletion_policy: Its DeletionPolicy; ``None`` if the template sets none.
        replace_policy: Its UpdateReplacePolicy; ``None`` if the template sets none.
        account: AWS account of its stack; ``None`` if it isn't known.
    """

    file: str
    key: str
    type: str
    properties: Mapping[str, Any]
    path: str
    depends_on: tuple[str, ...]
    metadata: Mapping[str, Any]
    conditional: bool
    region: str | None = None
    logical_id: str = ""
    deletion_policy: str | None = None
    replace_policy: str | None = None
    account: str | None = None

    @property
    def origin(self) -> Origin:
        """Its place in the input."""
        return Origin(self.file, self.path, self.key)

    def ref(self) -> Unknown:
        """Return the value of its ``Ref``."""
        return Unknown(f"${{{self.key}}}")


@dataclass(frozen=True, slots=True)
class Export:
    """A value of a stack that other stacks may import.

    Attributes:
        name: Its name, which is unique in an account and Region.
        stack: Name of the stack that exports it.
        value: The value, resolved, or `Unknown`.
        origin: The template of the stack.
        importers: Names of the stacks of the same input that import it.
    """

    name: str
    stack: str
    value: Any
    origin: Origin
    importers: tuple[str, ...]


@dataclass(slots=True)
class Template:
    """A template and where it will be deployed.

    Attributes:
        file: Path of the template.
        name: Name of the stack.
        body: The parsed template.
        region: AWS Region; ``None`` if it isn't known.
        account: AWS account; ``None`` if it isn't known.
        paths: Construct paths of the outermost stack and of its nested stacks, if an assembly has them.
        parameters: Values that the user sets.
        exports: Values of other stacks of the same app, by export name.
        parent: The template that contains this one as a nested stack.
        nesting: Logical ids of the nested stacks that contain it, the outermost first.
        passed: The parameters that the parent passes, not yet resolved.
        nested: Templates nested in this one, by logical id.
        stacks: Every stack of the same app, by name and Region.
        work: The remaining budget for resolving values.
        imports: Names of the exports that its resources and its own exports import.
    """

    file: str
    name: str
    body: Mapping[str, Any]
    region: str | None = None
    account: str | None = None
    paths: ConstructPaths = field(default_factory=ConstructPaths)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exports: Mapping[str, Any] = field(default_factory=dict)
    parent: Template | None = None
    nesting: tuple[str, ...] = ()
    passed: Mapping[str, Any] = field(default_factory=dict)
    nested: dict[str, Template] = field(default_factory=dict)
    stacks: Mapping[tuple[str, str | None], Template] = field(default_factory=dict)
    work: Work = field(default_factory=Work)
    imports: set[str] = field(default_factory=set)
    _conditions: dict[str, bool | None] = field(default_factory=dict)
    _resolved: dict[tuple[str, int], Any] = field(default_factory=dict)
    _outputs: dict[str, Any] = field(default_factory=dict)
    _resources: tuple[Resource, ...] | None = None

    def connect(self, exports: Mapping[str, Any]) -> None:
        """Add the exports of other stacks, and discard values that were resolved without them."""
        self.exports = exports
        for known in (self._conditions, self._resolved, self._outputs):
            known.clear()
        self._resources = None

    def resources(self) -> tuple[Resource, ...]:
        """Return the resources, without those whose condition is false. They are resolved once."""
        if self._resources is None:
            self._resources = tuple(self._existing_resources())
        return self._resources

    def _existing_resources(self) -> Iterator[Resource]:
        for logical_id, raw in mapping(self.body.get("Resources")).items():
            if not isinstance(raw, dict) or not isinstance(raw.get("Type"), str):
                continue
            condition = self._condition(raw["Condition"]) if isinstance(raw.get("Condition"), str) else True
            if condition is not False:
                yield self._resource(logical_id, raw, condition is None)

    def _resource(self, logical_id: str, raw: dict[str, Any], conditional: bool) -> Resource:
        metadata = mapping(raw.get("Metadata"))
        path = metadata.get("aws:cdk:path") or (self.paths.find(logical_id, self.nesting) or "").strip("/")
        after = raw.get("DependsOn")
        names = [after] if isinstance(after, str) else [each for each in items(after) if isinstance(each, str)]
        return Resource(
            file=self.file,
            key=f"{self.name}/{logical_id}",
            type=raw["Type"],
            properties=mapping(self.resolve(mapping(raw.get("Properties")))),
            path=path.removesuffix("/Resource") if path and isinstance(path, str) else f"{self.name}/{logical_id}",
            depends_on=tuple(f"{self.name}/{each}" for each in names),
            metadata=metadata,
            conditional=conditional,
            region=self.region,
            logical_id=str(logical_id),
            deletion_policy=known_text(raw.get("DeletionPolicy")),
            replace_policy=known_text(raw.get("UpdateReplacePolicy")),
            account=self.account,
        )

    def exported(self) -> dict[str, Any]:
        """Return the values of the outputs that other stacks may import, by export name."""
        found: dict[str, Any] = {}
        for output in mapping(self.body.get("Outputs")).values():
            name = self.resolve(dig(output, "Export", "Name"))
            if isinstance(name, str):
                found[name] = self.resolve(dig(output, "Value"))
        return found

    def output(self, name: str) -> Any:
        """Return the value of an output."""
        if name not in self._outputs:
            self._outputs[name] = self.resolve(dig(mapping(self.body.get("Outputs")).get(name), "Value"))
        return self._outputs[name]

    def resolve(self, value: Any) -> Any:
        """Return a value with its intrinsics resolved. A part that can't be resolved is `Unknown`."""
        resolved = self._resolve(value)
        return None if resolved is _NO_VALUE else resolved

    def _resolve(self, value: Any) -> Any:
        self.work.step(self.file)
        if isinstance(value, str):
            return Unknown(value) if _DYNAMIC in value else value
        if isinstance(value, list):
            return [each for each in map(self._resolve, value) if each is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, argument)] = value.items()
            if name == "Ref" or (isinstance(name, str) and name.startswith("Fn::")):
                return self._intrinsic(name, argument)
        pairs = ((key, self._resolve(each)) for key, each in value.items())
        return {str(key): each for key, each in pairs if each is not _NO_VALUE}

    def _intrinsic(self, name: str, argument: Any) -> Any:
        key = (name, id(argument))
        if key in self._resolved:
            return self._weighed(self._resolved[key])
        handler = {
            "Ref": self._ref,
            "Fn::GetAtt": self._get_att,
            "Fn::Join": self._join,
            "Fn::Sub": self._sub,
            "Fn::Select": self._select,
            "Fn::Split": self._split,
            "Fn::If": self._if,
            "Fn::FindInMap": self._find_in_map,
            "Fn::ImportValue": self._import_value,
            "Fn::GetStackOutput": self._stack_output,
            "Fn::Base64": self._base64,
            "Fn::ToJsonString": self._to_json,
            "Fn::Length": self._length,
        }.get(name)
        found = handler(argument) if handler else None
        found = self._weighed(self._opaque(name, argument) if found is None else found)
        if isinstance(argument, (dict, list)):
            # The body outlives the template, so the id of its part stays valid. Unresolved values are visited twice.
            self._resolved[key] = found
        return found

    def _weighed(self, value: Any) -> Any:
        if not isinstance(value, (dict, list)):
            return value
        try:
            self.work.step(self.file, refuse_endless(self.file, value))
        except UnusableInput:
            self.work.step(self.file, MAX_STEPS // 10)
            return self.work.give_up()
        return value

    def _opaque(self, name: str, argument: Any) -> Unknown:
        text = self._json(self.resolve(argument))
        return Unknown(f"${{{name} {text}}}") if isinstance(text, str) else self.work.give_up()

    def _json(self, value: Any) -> str | None:
        """Return a value as JSON; ``None`` if it is too long."""
        if characters(value) > MAX_TEXT:
            return None
        text = compact(value)
        return text if self.work.write(len(text)) else None

    def _text(self, parts: list[Any]) -> str | Unknown | None:
        """Return the parts as one text. It is unknown if a part is unknown."""
        if any(each is None or each is _NO_VALUE or isinstance(each, (dict, list)) for each in parts):
            return None
        texts = [each.expression if isinstance(each, Unknown) else scalar(each) for each in parts]
        self.work.step(self.file, len(texts))
        if not self.work.write(sum(map(len, texts))):
            return self.work.give_up()
        whole = "".join(texts)
        unknown = _DYNAMIC in whole or any(isinstance(each, Unknown) for each in parts)
        return Unknown(whole) if unknown else whole

    def _ref(self, argument: Any) -> Any:
        if not isinstance(argument, str):
            return None
        if argument.startswith("AWS::"):
            return self._pseudo(argument)
        if argument in mapping(self.body.get("Resources")):
            return Unknown(f"${{{self.name}/{argument}}}")
        return self._parameter(argument)

    def _pseudo(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        known = {
            "AWS::Region": self.region,
            "AWS::AccountId": self.account,
            "AWS::StackName": self.name if self.region else None,
            "AWS::Partition": region_partition(self.region) if self.region else None,
        }.get(name)
        return known or Unknown(f"${{{name}}}")

    def _parameter(self, name: str) -> Any:
        parameter = mapping(dig(self.body, "Parameters", name))
        kind, value = parameter.get("Type"), None
        if self.parent is not None and name in self.passed:
            value = self.parent.resolve(self.passed[name])
        elif name in self.parameters:
            value = self.parameters[name]
        if value is None:
            value = parameter.get("Default") if isinstance(kind, str) else None
        if value is None:
            allowed = [typed(kind, each) for each in items(parameter.get("AllowedValues"))]
            expression = f"${{{self.name}/{name}}}"
            return value_or_unknown(expression, allowed) if allowed else Unknown(expression)
        return typed(kind, value)

    def _get_att(self, argument: Any) -> Any:
        parts = argument.split(".", 1) if isinstance(argument, str) else argument
        if not isinstance(parts, list) or len(parts) != 2 or not isinstance(parts[0], str):
            return None
        attribute = self._resolve(parts[1])
        if parts[0] in self.nested and isinstance(attribute, str) and attribute.startswith("Outputs."):
            return self.nested[parts[0]].output(attribute.removeprefix("Outputs."))
        return Unknown(f"${{{self.name}/{parts[0]}.{attribute}}}") if isinstance(attribute, str) else None

    def _join(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 2:
            return None
        separator, parts = argument[0], self._resolve(argument[1])
        if not isinstance(separator, str) or not isinstance(parts, list):
            return None
        return self._text([each for part in parts for each in (separator, part)][1:])

    def _sub(self, argument: Any) -> Any:
        pattern, variables = argument if isinstance(argument, list) and len(argument) == 2 else (argument, {})
        if not isinstance(pattern, str):
            return None
        given = {name: self._resolve(each) for name, each in mapping(variables).items()}
        parts: list[Any] = []
        end = 0
        for found in _SUB.finditer(pattern):
            parts.append(pattern[end : found.start()])
            escape, name = found.groups()
            end = found.end()
            if escape:
                parts.append(f"${{{name}}}")
            elif name in given:
                parts.append(given[name])
            else:
                parts.append(self._intrinsic("Fn::GetAtt", name) if "." in name else self._intrinsic("Ref", name))
        return self._text([*parts, pattern[end:]])

    def _select(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 2:
            return None
        index, values = self._resolve(argument[0]), self._resolve(argument[1])
        place = known_number(index)
        return values[place] if isinstance(values, list) and place is not None and 0 <= place < len(values) else None

    def _split(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 2:
            return None
        separator, text = argument[0], self._resolve(argument[1])
        return text.split(separator) if isinstance(text, str) and isinstance(separator, str) and separator else None

    def _if(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) != 3 or not isinstance(argument[0], str):
            return None
        condition = self._condition(argument[0])
        if condition is None:
            return self._either(argument)
        return self._resolve(argument[1 if condition else 2])

    def _either(self, argument: list[Any]) -> Any:
        yes, no = (self._resolve(each) for each in argument[1:])
        if yes == no:
            return yes
        if yes is _NO_VALUE or no is _NO_VALUE:
            return None
        return value_or_unknown(self._opaque("Fn::If", argument).expression, (yes, no))

    def _find_in_map(self, argument: Any) -> Any:
        if not isinstance(argument, list) or len(argument) < 3:
            return None
        keys = [self._resolve(each) for each in argument[:3]]
        if all(isinstance(each, str) for each in keys):
            found = dig(self.body, "Mappings", *keys)
            return self.resolve(dig(argument[3], "DefaultValue")) if found is None and len(argument) > 3 else found
        found = values_of_map(self.body.get("Mappings"), keys, lambda count: self.work.step(self.file, count))
        if len(argument) > 3:
            found.append(self.resolve(dig(argument[3], "DefaultValue")))
        return value_or_unknown(self._opaque("Fn::FindInMap", argument).expression, found) if found else None

    def _import_value(self, argument: Any) -> Any:
        name = self._resolve(argument)
        if isinstance(name, str):
            self.imports.add(name)
        if not isinstance(name, str) or name in self.exports:
            return self.exports.get(name) if isinstance(name, str) else None
        # A template file doesn't have the name of its stack, with which eksctl begins every export.
        stack, separator, rest = name.partition("::")
        if not separator or not stack.startswith("eksctl-"):
            return None
        others = [(key.partition("::"), value) for key, value in self.exports.items() if not key.startswith("eksctl-")]
        alike = [value for (_, _, last), value in others if last == rest]
        return alike[0] if len(alike) == 1 else None

    def _stack_output(self, argument: Any) -> Any:
        name, output = dig(argument, "StackName"), dig(argument, "OutputName")
        region = dig(argument, "Region") or self.region
        stack = self.stacks.get((str(name), region if isinstance(region, str) else None))
        return stack.output(str(output)) if stack is not None else None

    def _base64(self, argument: Any) -> Any:
        text = self._resolve(argument)
        if isinstance(text, str):
            return self._text([base64.b64encode(text.encode()).decode()])
        return {"Fn::Base64": text} if isinstance(text, Unknown) else None

    def _to_json(self, argument: Any) -> Any:
        value = self.resolve(argument)
        text = self._text([self._json(value)])
        return Unknown(text) if isinstance(text, str) and is_partly_unknown(value) else text

    def _length(self, argument: Any) -> Any:
        values = self._resolve(argument)
        return len(values) if isinstance(values, list) else None

    def _condition(self, name: str) -> bool | None:
        if name not in self._conditions:
            self._conditions[name] = None  # A condition that refers to itself isn't known.
            self._conditions[name] = self._holds(dig(self.body, "Conditions", name))
        return self._conditions[name]

    def _holds(self, expression: Any) -> bool | None:
        if not isinstance(expression, dict) or len(expression) != 1:
            return None
        [(name, argument)] = expression.items()
        if name == "Condition":
            return self._condition(argument) if isinstance(argument, str) else None
        if name == "Fn::Equals":
            return equal(self._resolve(argument))
        parts = [self._holds(each) for each in items(argument)]
        if name == "Fn::Not" and len(parts) == 1:
            return None if parts[0] is None else not parts[0]
        if name == "Fn::And" and parts:
            return False if False in parts else None if None in parts else True
        if name == "Fn::Or" and parts:
            return True if True in parts else None if None in parts else False
        return None


def with_asked_sizes(properties: Mapping[str, Any], resources: Mapping[str, Resource]) -> dict[str, Any]:
    """Return the properties of a managed or Auto Scaling group with the sizes that deployment computes."""
    found = _filled(properties, resources)
    if "ScalingConfig" in found:
        found["ScalingConfig"] = _filled(mapping(found["ScalingConfig"]), resources) or found["ScalingConfig"]
    return found


def _filled(sizes: Mapping[str, Any], resources: Mapping[str, Resource]) -> dict[str, Any]:
    asked = {name: _answer(value, resources) for name, value in sizes.items() if _asks(value, resources)}
    return {name: asked.get(name, value) for name, value in sizes.items() if asked.get(name, value) is not None}


def _asks(value: Any, resources: Mapping[str, Resource]) -> bool:
    source = resources.get(value.resource or "") if isinstance(value, Unknown) else None
    return source is not None and source.type == SIZE_RESOURCE and value.attribute in _SIZE_ARGUMENTS


def _answer(value: Unknown, resources: Mapping[str, Resource]) -> Any:
    argument = _SIZE_ARGUMENTS[value.attribute or ""]
    return resources[value.resource or ""].properties.get(argument) if argument is not None else None
