"""Parts of an input that can't be read, and references that lead nowhere.

Sources: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/template-macros.html,
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-nested-stacks.html (2026-11)

CloudFormation rejects a template that refers to a name that it doesn't have.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-ref.html
(2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.cloudformation import Resource, Template
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.reading.unknown import items, mapping

# These transforms change only parts that the checker doesn't check, or that it resolves itself.
_KNOWN_TRANSFORMS = (
    "AWS::LanguageExtensions",
    "AWS::SecretsManager-2020-07-23",
    "AWS::SecretsManager-2024-09-16",
    "AWS::Serverless-2016-10-31",
    "AWS::CodeDeployBlueGreen",
)
_STACK = "AWS::CloudFormation::Stack"
_STACKS = (_STACK, "AWS::CloudFormation::StackSet", "AWS::ServiceCatalog::CloudFormationProvisionedProduct")
# Nested stacks of CDK with the Lambda functions for its clusters and manifests. They contain no part of a cluster.
# Source: aws-cdk-lib 2.275 aws-eks/lib/cluster-resource-provider.ts, aws-eks/lib/kubectl-provider.ts
_PROVIDERS = ("awscdkawseksClusterResourceProviderNestedStack", "awscdkawseksKubectlProviderNestedStack")
_LATER = "can't be read before deployment"
_SUBSTITUTED = regex(r"\$\{([A-Za-z0-9]{1,255})(?:\.[^}]{1,255})?\}")
_LOOP = "Fn::ForEach"


def unread(template: Template) -> Iterator[Unread]:
    """Yield the parts of a template that can't be read before deployment, each with the reason."""
    for name in _transforms(template.body.get("Transform")):
        yield Unread(
            Origin(template.file, f"{template.name}/Transform"), f"the template that macro {name} returns {_LATER}"
        )
    resources = mapping(template.body.get("Resources"))
    for logical_id in resources:
        if logical_id.startswith("Fn::ForEach::"):
            origin = Origin(template.file, logical_id, f"{template.name}/{logical_id}")
            yield Unread(origin, f"the output of this loop {_LATER}")
    for place, name in _included(resources):
        yield Unread(Origin(template.file, f"{template.name}/{place}"), f"the output of transform {name} {_LATER}")
    for resource in template.resources():
        if why := _unread_reason(resource, template):
            yield Unread(resource.origin, why)


def _transforms(written: Any) -> list[str]:
    listed = written if isinstance(written, list) else [] if written is None else [written]
    names = [str(each.get("Name")) if isinstance(each, dict) else str(each) for each in listed]
    return [each for each in names if each not in _KNOWN_TRANSFORMS]


def _included(resources: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each part of a template that a transform replaces or adds to, and the transform's name."""
    left: list[tuple[str, Any]] = [("Resources", resources)]
    while left:
        place, value = left.pop()
        if isinstance(value, dict):
            if "Fn::Transform" in value:
                yield place, str(mapping(value["Fn::Transform"]).get("Name"))
            top = place == "Resources"
            left += [(str(key) if top else place, each) for key, each in value.items() if key != "Fn::Transform"]
        else:
            left += [(place, each) for each in items(value)]


def _unread_reason(resource: Resource, template: Template) -> str | None:
    if resource.type.endswith("::MODULE"):
        return f"the content of module {resource.type} {_LATER}"
    logical_id = resource.logical_id
    if resource.type not in _STACKS or logical_id in template.nested or logical_id.startswith(_PROVIDERS):
        return None
    address = resource.properties.get("TemplateURL")
    return f"the template {address} {_LATER}" if address else f"the template of its stacks {_LATER}"


@dataclass(frozen=True, slots=True)
class Dangling:
    """A reference to a name that doesn't exist.

    Attributes:
        origin: The resource with the reference.
        name: The missing name.
        known: All names that it could refer to.
    """

    origin: Origin
    name: str
    known: tuple[str, ...]


def dangling(template: Template) -> Iterator[Dangling]:
    """Yield references to names that a template doesn't have; nothing if a macro may still add the names."""
    resources = {str(name): raw for name, raw in mapping(template.body.get("Resources")).items()}
    parameters = mapping(template.body.get("Parameters"))
    if "Transform" in template.body or any(name.startswith(_LOOP) for name in resources):
        return
    # Computed once, because a template may have very many names.
    of_resources, of_both = (*resources,), (*resources, *parameters)
    for each in template.resources():
        raw = resources[each.logical_id]
        before = raw.get("DependsOn")
        needed = {name for name in ([before] if isinstance(before, str) else items(before)) if isinstance(name, str)}
        missing = [(name, of_resources) for name in sorted(needed) if name not in resources]
        named = {name for name in _names(raw.get("Properties")) if name not in resources and name not in parameters}
        missing += [(name, of_both) for name in sorted(named)]
        yield from (Dangling(each.origin, name, known) for name, known in dict(missing).items())


def _names(value: Any) -> Iterator[str]:
    """Yield each name that functions in a value refer to, except CloudFormation's pseudo parameters."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            yield from _named(each)
            left += each.values()
        else:
            left += items(each)


def _named(function: dict[Any, Any]) -> Iterator[str]:
    if len(function) != 1:
        return
    [(name, argument)] = function.items()
    if name == "Ref" and isinstance(argument, str) and "::" not in argument:
        yield argument
    elif name == "Fn::GetAtt":
        first = argument.partition(".")[0] if isinstance(argument, str) else next(iter(items(argument)), None)
        if isinstance(first, str):
            yield first
    elif name == "Fn::Sub":
        text, *given = [argument] if isinstance(argument, str) else items(argument) or [None]
        own = mapping(given[0]) if given else {}
        yield from (each for each in _SUBSTITUTED.findall(str(text)) if each not in own)
