"""References to what a template does not have, for which CloudFormation refuses all of it.

Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-ref.html
(2026-11)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.reading.cloudformation import Template
from gpu_preflight.reading.objects import Origin
from gpu_preflight.reading.unknown import items, mapping

_SUBSTITUTED = regex(r"\$\{([A-Za-z0-9]{1,255})(?:\.[^}]{1,255})?\}")
_LOOP = "Fn::ForEach"


@dataclass(frozen=True, slots=True)
class Dangling:
    """A reference to nothing.

    Attributes:
        origin: The resource that refers.
        name: The name that it refers to.
        known: Every name that it could mean.
    """

    origin: Origin
    name: str
    known: tuple[str, ...]


def dangling(template: Template) -> Iterator[Dangling]:
    """Yield the references of a template to nothing; where a macro may still make what they mean, none."""
    resources = {str(name): raw for name, raw in mapping(template.body.get("Resources")).items()}
    parameters = mapping(template.body.get("Parameters"))
    if "Transform" in template.body or any(name.startswith(_LOOP) for name in resources):
        return
    # Once for all: a template may have very many.
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
    """Yield each name that functions in a value refer to, but for those of CloudFormation itself."""
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
