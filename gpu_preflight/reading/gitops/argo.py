"""Applications and ApplicationSets of Argo CD.

Sources: argoproj/argo-cd v3.2 docs/user-guide/helm.md, docs/user-guide/kustomize.md,
docs/user-guide/multiple_sources.md and manifests/crds/application-crd.yaml (2026-11)

The module expands an ApplicationSet into its Applications.

Sources: argoproj/argo-cd v3.2 docs/operator-manual/applicationset/Generators-List.md, GoTemplate.md (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light import regex
from gpu_facts.merging import merged
from gpu_preflight.reading.documents import UnusableInput, read
from gpu_preflight.reading.gitops.deployments import (
    Beside,
    Deployment,
    Files,
    build_chart,
    parts_of_chart,
    read_values,
    typed,
    with_parameter,
)
from gpu_preflight.reading.objects import Chart, Object, Unread, with_placeholders
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_expression,
    is_true,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
)

GROUP = "argoproj.io"
# Settings with the same name in a kustomization, and settings that don't affect the objects.
_SAME = ("commonAnnotations", "commonLabels", "namePrefix", "nameSuffix", "namespace", "patches")
_SAYS_NOTHING = ("forceCommonAnnotations", "forceCommonLabels", "version")
_NOT_OF_VALUES = ("releaseName", "skipCrds", "version", "passCredentials", "skipTests", "ignoreMissingValueFiles")
_PARAMETER = regex(r"\{\{-?\s*\.?([A-Za-z0-9_.-]+?)\s*-?\}\}")
_MAX_APPLICATIONS = 200
# Keys that belong to the generated Application, not to the generator.
_SETTINGS = ("selector", "template", "values")


def is_application(each: Object) -> bool:
    """Whether an object is an Application, or an ApplicationSet whose template is one."""
    return each.group == GROUP and each.kind in ("Application", "ApplicationSet")


def application_spec(each: Object) -> Mapping[str, Any]:
    """Return ``spec`` of an Application, or the ``spec`` in the template of an ApplicationSet."""
    return mapping(dig(each.spec, "template", "spec")) if each.kind == "ApplicationSet" else each.spec


def _sources(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*mappings(spec.get("sources")), *([mapping(spec["source"])] if "source" in spec else [])]


def deployments(each: Object, beside: Beside) -> Iterator[Deployment]:
    """Yield the folders that an Application deploys."""
    if not is_application(each):
        return
    spec = application_spec(each)
    for source in _sources(spec):
        if "path" in source and "chart" not in source:
            yield _deployment(each, spec, source, beside)


def _deployment(owner: Object, spec: Mapping[str, Any], source: Mapping[str, Any], beside: Beside) -> Deployment:
    settings, helm = mapping(source.get("kustomize")), mapping(source.get("helm"))
    added = {key: settings[key] for key in _SAME if settings.get(key)}
    if settings.get("images"):
        added["images"] = [_image(str(each)) for each in items(settings["images"])]
    if settings.get("replicas"):
        added["replicas"] = [_replicas(each) for each in mappings(settings["replicas"])]
    known = {*added, *_SAYS_NOTHING, "components"}
    unread = [f"kustomize.{key}" for key, value in settings.items() if value and key not in known]
    directory = mapping(source.get("directory"))
    unread += ["plugin"] if mapping(source.get("plugin")) else []
    unread += ["directory"] if "jsonnet" in directory or any(map(_is_open, directory.values())) else []
    values: dict[str, Any] | None = None
    if any(key not in _NOT_OF_VALUES for key in helm):
        values, missing = _values(owner, spec, source, beside)
        unread += missing
    return Deployment(
        owner=owner,
        path=str(source["path"]),
        kustomization=added,
        components=tuple(str(each) for each in items(settings.get("components"))),
        namespace=known_text(dig(spec, "destination", "namespace")),
        values=values,
        release=known_text(helm.get("releaseName")) or owner.name,
        source=str(source.get("repoURL") or ""),
        unread=tuple(unread),
        files=Files(
            recursive=is_true(directory.get("recurse")),
            include=known_text(directory.get("include")) or "",
            exclude=known_text(directory.get("exclude")) or "",
        ),
        needs_kustomization=bool(settings),
    )


def _is_open(value: Any) -> bool:
    return isinstance(value, Unknown) or is_expression(str(value))


def _image(text: str) -> dict[str, Any]:
    """Return an image entry of kustomize for Argo CD's notation ``[name=]image[:tag][@digest]``."""
    name, equals, image = text.partition("=")
    path, _, digest = (image if equals else name).partition("@")
    before, colon, tag = path.rpartition(":")
    if not colon or "/" in tag:
        before, tag = path, ""
    entry = {"name": name if equals else before, "newName": before if equals else "", "newTag": tag, "digest": digest}
    return {key: value for key, value in entry.items() if value}


def _replicas(replicas: Mapping[str, Any]) -> dict[str, Any]:
    number = known_number(replicas.get("count"))
    return {"name": replicas.get("name"), "count": replicas.get("count") if number is None else number}


def releases(each: Object, beside: Beside, charts: list[Chart], problems: list[Unread]) -> None:
    """Add the charts of an Application, and their parts that can't be read."""
    spec = application_spec(each)
    for source in _sources(spec):
        if "chart" in source:
            values, missing = _values(each, spec, source, beside)
            if missing:
                text = f"values of chart {source['chart']} in {', '.join(missing)} aren't read"
                problems.append(Unread(each.origin, text, parts_of_chart(source["chart"])))
            namespace = known_text(dig(spec, "destination", "namespace")) or "default"
            release = known_text(dig(source, "helm", "releaseName")) or each.name
            charts.append(build_chart(each, source["chart"], source.get("targetRevision"), values, namespace, release))


def _values(
    owner: Object, spec: Mapping[str, Any], source: Mapping[str, Any], beside: Beside
) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a chart, and the missing values files."""
    helm = mapping(source.get("helm"))
    values: dict[str, Any] = {}
    missing = [str(each.get("path")) for each in mappings(helm.get("fileParameters"))]
    for name in map(str, items(helm.get("valueFiles"))):
        found = _read_values_file(owner, name, spec, source, beside)
        missing += [name] if found is None and helm.get("ignoreMissingValueFiles") is not True else []
        values = merged(values, found or {})
    # If `valuesObject` is set, Argo CD ignores `values`.
    # Source: argoproj/argo-cd pkg/apis/application/v1alpha1/values.go (2026-11)
    written = helm.get("valuesObject")
    values = merged(values, read_values(owner, helm.get("values")) if written is None else mapping(written))
    for each in mappings(helm.get("parameters")):
        value = each.get("value")
        typed_value = value if each.get("forceString") is True else typed(value)
        values = with_parameter(values, str(each.get("name")), typed_value)
    return values, missing


def _read_values_file(
    owner: Object, name: str, spec: Mapping[str, Any], source: Mapping[str, Any], beside: Beside
) -> dict[str, Any] | None:
    """Return the values of a file, or ``None`` if it isn't in the input."""
    reference, slash, rest = name.partition("/")
    if name.startswith("$") and slash:
        named = any(each.get("ref") == reference[1:] for each in _sources(spec))
        path = rest if named else ""
    elif "chart" in source or "://" in name:
        return None
    else:
        path = name if name.startswith("/") else f"{source.get('path')}/{name}"
    file = beside.file(path, owner)
    try:
        return mapping(next((each.content for each in read(str(file))), {})) if file else None
    except UnusableInput:
        return None


def applications(each: Object) -> tuple[list[Object], list[Unread]]:
    """Return the Applications of an ApplicationSet, and its unread parts.

    Each element of a list generator becomes an Application. With elements for several clusters, it isn't known which
    cluster the input describes, so only the settings that all elements share are known. For other generators, only the
    controller knows the Applications. Then the set itself is returned with its template.
    """
    if each.group != GROUP or each.kind != "ApplicationSet":
        return [each], []
    unread = _unread(each)
    problems = [Unread(each.origin, f"the applications of its {kind} aren't read") for kind in unread]
    if each.spec.get("templatePatch"):
        problems.append(Unread(each.origin, "its templatePatch isn't read"))
    made = [_application(each, template, element) for template, element in _elements(each)]
    if len({_destination(one) for one in made}) > 1:
        problems.append(Unread(each.origin, "it deploys to several clusters, and it is unknown which one this is"))
        made = [_common(each)]
    if len(made) > _MAX_APPLICATIONS:
        problems.append(Unread(each.origin, f"applications after its first {_MAX_APPLICATIONS} aren't read"))
    return [*made[:_MAX_APPLICATIONS], *([each] if unread or not made else [])], problems


def _destination(application: Object) -> tuple[str, str]:
    destination = mapping(application.spec.get("destination"))
    return str(destination.get("server")), str(destination.get("name"))


def _common(each: Object) -> Object:
    """Return an Application with the settings that all elements of a set share."""
    elements = list(_elements(each))
    template, first = elements[0]
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for _, other in elements)}
    return _application(each, template, shared)


def _unread(each: Object) -> list[str]:
    """Return the generators that aren't read."""
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
    """Return a value with the parameters of an element filled in. Anything but a plain parameter stays."""
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
