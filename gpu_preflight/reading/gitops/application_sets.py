"""Applications that an ApplicationSet of Argo CD makes.

Sources: argoproj/argo-cd v3.2 docs/operator-manual/applicationset/Generators-List.md, GoTemplate.md (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.gitops.argo import GROUP
from gpu_preflight.reading.gitops.chart_values import merged
from gpu_preflight.reading.objects import Object, Unread
from gpu_preflight.reading.placeholders import with_placeholders
from gpu_preflight.reading.unknown import Unknown, dig, mapping, mappings

_PARAMETER = regex(r"\{\{-?\s*\.?([A-Za-z0-9_.-]+?)\s*-?\}\}")
_MAX_APPLICATIONS = 200
# Not of a generator but of what it makes.
_SETTINGS = ("selector", "template", "values")


def applications(each: Object) -> tuple[list[Object], list[Unread]]:
    """Return what stands for an ApplicationSet, and what of it is not read.

    Each element of a list is an Application; of several clusters nobody knows which one is judged, so that of their
    elements only what all have in common is known. What other generators make only the controller knows: for them the
    set stays, with its template.
    """
    if each.group != GROUP or each.kind != "ApplicationSet":
        return [each], []
    unread = _unread(each)
    problems = [Unread(each.origin, f"what its {kind} makes is not read") for kind in unread]
    if each.spec.get("templatePatch"):
        problems.append(Unread(each.origin, "what its templatePatch changes is not read"))
    made = [_application(each, template, element) for template, element in _elements(each)]
    if len({_destination(one) for one in made}) > 1:
        problems.append(Unread(each.origin, "it installs into several clusters, and which one is judged is not known"))
        made = [_common(each)]
    if len(made) > _MAX_APPLICATIONS:
        problems.append(Unread(each.origin, f"more than its first {_MAX_APPLICATIONS} applications are not read"))
    return [*made[:_MAX_APPLICATIONS], *([each] if unread or not made else [])], problems


def _destination(application: Object) -> tuple[str, str]:
    said = mapping(application.spec.get("destination"))
    return str(said.get("server")), str(said.get("name"))


def _common(each: Object) -> Object:
    """Return an application with what all elements of a set have in common."""
    elements = list(_elements(each))
    template, first = elements[0]
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for _, other in elements)}
    return _application(each, template, shared)


def _unread(each: Object) -> list[str]:
    """Return the generators that are not read."""
    generators = mappings(each.spec.get("generators"))
    others = [f"{kind} generator" for one in generators for kind in one if kind not in ("list", *_SETTINGS)]
    chosen = [one for one in generators if "list" in one and one.get("selector")]
    computed = [one for one in generators if mapping(one.get("list")).get("elementsYaml")]
    return others + ["selector"] * len(chosen) + ["elementsYaml"] * len(computed)


def _elements(each: Object) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the elements of lists, each with its template."""
    template = mapping(each.spec.get("template"))
    for generator in mappings(each.spec.get("generators")):
        if dig(generator, "selector") is not None:
            continue
        own = merged(template, mapping(dig(generator, "list", "template")))
        for element in mappings(dig(generator, "list", "elements")):
            yield own, element


def _application(each: Object, template: Mapping[str, Any], element: Mapping[str, Any]) -> Object:
    metadata = mapping(_filled(template.get("metadata"), element))
    content = {
        "apiVersion": each.content.get("apiVersion"),
        "kind": "Application",
        "metadata": {"namespace": each.namespace, **metadata},
        "spec": _filled(template.get("spec"), element),
    }
    return replace(each, content=with_placeholders(content))


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
