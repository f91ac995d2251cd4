"""Applications that an ApplicationSet of Argo CD makes.

Sources: argoproj/argo-cd v3.2 docs/operator-manual/applicationset/Generators-List.md, GoTemplate.md (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_constructs.preflight.reading.gitops.argo import GROUP
from gpu_constructs.preflight.reading.objects import Object, Origin
from gpu_constructs.preflight.reading.placeholders import with_placeholders
from gpu_constructs.preflight.reading.unknown import Unknown, dig, mapping, mappings

Problem = tuple[Origin, str]
_PARAMETER = re.compile(r"\{\{-?\s*\.?([A-Za-z0-9_.-]+?)\s*-?\}\}")
_MAX_APPLICATIONS = 200
# Not of a generator but of what it makes.
_SETTINGS = ("selector", "template", "values")


def applications(each: Object) -> tuple[list[Object], list[Problem]]:
    """Return what stands for an ApplicationSet, and what of it is not read.

    Each element of a list is an Application. What other generators make only the controller knows: for them the set
    stays, with its template.
    """
    if each.group != GROUP or each.kind != "ApplicationSet":
        return [each], []
    problems = [(each.origin, f"what its {kind} generator makes is not read") for kind in _others(each)]
    if each.spec.get("templatePatch"):
        problems.append((each.origin, "what its templatePatch changes is not read"))
    made = list(_listed(each))
    if len(made) > _MAX_APPLICATIONS:
        problems.append((each.origin, f"more than its first {_MAX_APPLICATIONS} applications are not read"))
    return (made[:_MAX_APPLICATIONS] if made and not _others(each) else [*made[:_MAX_APPLICATIONS], each]), problems


def _others(each: Object) -> list[str]:
    """Return the kinds of generators that are not read."""
    kinds = [key for one in mappings(each.spec.get("generators")) for key in one if key not in _SETTINGS]
    lists = [one["list"] for one in mappings(each.spec.get("generators")) if "list" in one]
    unread = [kind for kind in kinds if kind != "list"]
    return unread + ["list" for one in lists if mapping(one).get("elementsYaml")]


def _listed(each: Object) -> Iterator[Object]:
    template = mapping(each.spec.get("template"))
    for generator in mappings(each.spec.get("generators")):
        if dig(generator, "selector") is not None:
            continue
        own = _over(template, mapping(dig(generator, "list", "template")))
        for element in mappings(dig(generator, "list", "elements")):
            metadata = mapping(_filled(own.get("metadata"), element))
            space = {"namespace": each.namespace} if "namespace" not in metadata else {}
            content = {
                "apiVersion": each.content.get("apiVersion"),
                "kind": "Application",
                "metadata": {**metadata, **space},
                "spec": _filled(own.get("spec"), element),
            }
            yield replace(each, content=with_placeholders(content))


def _over(template: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template with what the one of a generator says instead."""
    both = {
        key: _over(template[key], other[key])
        for key in template.keys() & other.keys()
        if isinstance(template[key], dict) and isinstance(other[key], dict)
    }
    return {**template, **other, **both}


def _filled(value: Any, element: Mapping[str, Any]) -> Any:
    """Return a value with the parameters of an element in their places; what is no plain parameter stays."""
    if isinstance(value, dict):
        return {_text(str(key), element): _filled(each, element) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, element) for each in value]
    if isinstance(value, Unknown):
        return _text(value.expression, element)
    return _text(value, element) if isinstance(value, str) else value


def _text(text: str, element: Mapping[str, Any]) -> str:
    return _PARAMETER.sub(lambda found: _parameter(found, element), text)


def _parameter(found: re.Match[str], element: Mapping[str, Any]) -> str:
    name = found.group(1)
    value = element.get(name, dig(element, *name.split(".")))
    if value is None or isinstance(value, (dict, list, Unknown)):
        return found.group()
    return str(value).lower() if isinstance(value, bool) else str(value)
