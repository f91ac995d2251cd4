"""Folders and charts that Applications of Argo CD, and Kustomizations and HelmReleases of Flux, deploy.

The module expands an ApplicationSet into its Applications.

Sources of Argo CD: argoproj/argo-cd v3.2 docs/user-guide/helm.md, docs/user-guide/kustomize.md,
docs/user-guide/multiple_sources.md, manifests/crds/application-crd.yaml and
docs/operator-manual/applicationset/Generators-List.md, GoTemplate.md (2026-11)
Sources of Flux: https://fluxcd.io/flux/components/helm/helmreleases/, fluxcd/pkg 0180cac2f
kustomize/kustomize_generator.go, https://fluxcd.io/flux/components/kustomize/kustomizations/,
https://fluxcd.io/flux/components/source/ocirepositories/ (2026-11)
"""

from __future__ import annotations

import json
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
    variables,
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
_ARGO_KUSTOMIZATION_FIELDS = ("commonAnnotations", "commonLabels", "namePrefix", "nameSuffix", "namespace", "patches")
_SAYS_NOTHING = ("forceCommonAnnotations", "forceCommonLabels", "version")
_NOT_OF_VALUES = ("releaseName", "skipCrds", "version", "passCredentials", "skipTests", "ignoreMissingValueFiles")
_PARAMETER = regex(r"\{\{-?\s*\.?([A-Za-z0-9_.-]+?)\s*-?\}\}")
_MAX_APPLICATIONS = 200
# Keys that belong to the generated Application, not to the generator.
_SETTINGS = ("selector", "template", "values")
_HELM, _KUSTOMIZE = "helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"
_SOURCES = "source.toolkit.fluxcd.io"
_IGNORED = ".sourceignore"
# Sources of files, not of packed charts.
_OF_FILES = ("GitRepository", "Bucket")
# Fields of a Kustomization with the same name in a kustomization file.
_FLUX_KUSTOMIZATION_FIELDS = ("images", "namePrefix", "nameSuffix", "patches", "patchesStrategicMerge")


def is_application(each: Object) -> bool:
    """Whether an object is an Application, or an ApplicationSet whose template is one."""
    return each.group == GROUP and each.kind in ("Application", "ApplicationSet")


def application_spec(each: Object) -> Mapping[str, Any]:
    """Return ``spec`` of an Application, or the ``spec`` in the template of an ApplicationSet."""
    return mapping(dig(each.spec, "template", "spec")) if each.kind == "ApplicationSet" else each.spec


def _sources(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*mappings(spec.get("sources")), *([mapping(spec["source"])] if "source" in spec else [])]


def argo_deployments(each: Object, beside: Beside) -> Iterator[Deployment]:
    """Yield the folders that an Application deploys."""
    if not is_application(each):
        return
    spec = application_spec(each)
    for source in _sources(spec):
        if "path" in source and "chart" not in source:
            yield _deployment(each, spec, source, beside)


def _deployment(owner: Object, spec: Mapping[str, Any], source: Mapping[str, Any], beside: Beside) -> Deployment:
    settings, helm = mapping(source.get("kustomize")), mapping(source.get("helm"))
    added = {key: settings[key] for key in _ARGO_KUSTOMIZATION_FIELDS if settings.get(key)}
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


def add_argo_charts(each: Object, beside: Beside, charts: list[Chart], problems: list[Unread]) -> None:
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


def is_helm_release(each: Object) -> bool:
    """Whether an object is a HelmRelease."""
    return each.group == _HELM and each.kind == "HelmRelease"


def flux_deployments(each: Object, every: list[Object]) -> Iterator[Deployment]:
    """Yield the folder of a Kustomization, or the folder of a HelmRelease's chart."""
    if is_helm_release(each) and (path := helm_release_path(each)) is not None:
        values, missing = _helm_release_values(each, every)
        space = known_text(each.spec.get("targetNamespace"))
        default = f"{space}-{each.name}" if space else each.name
        yield Deployment(
            owner=each,
            path=path,
            namespace=space or each.namespace,
            values=values,
            release=known_text(each.spec.get("releaseName")) or default,
            unread=(*missing, *(["postRenderers"] if each.spec.get("postRenderers") else [])),
        )
    if each.group != _KUSTOMIZE or each.kind != "Kustomization":
        return
    added = {key: each.spec[key] for key in _FLUX_KUSTOMIZATION_FIELDS if each.spec.get(key)}
    if merging := items(each.spec.get("patchesStrategicMerge")):
        # Flux has patches as objects, kustomize as texts.
        added["patchesStrategicMerge"] = [json.dumps(one, default=str) for one in merging]
    if each.spec.get("patchesJson6902"):
        added["patchesJson6902"] = [_json_patch(one) for one in mappings(each.spec["patchesJson6902"])]
    if each.spec.get("targetNamespace"):
        added["namespace"] = each.spec["targetNamespace"]
    if metadata := mapping(each.spec.get("commonMetadata")):
        added |= _metadata(metadata)
    yield Deployment(
        owner=each,
        path=known_text(each.spec.get("path")) or "./",
        kustomization=added,
        components=tuple(str(one) for one in items(each.spec.get("components"))),
        variables=variables(each, every),
    )


def unread_flux_parts(each: Object, every: list[Object], beside: Beside) -> Iterator[Unread]:
    """Yield the settings by which Flux may skip files of a Kustomization's folder. The checker reads all files.

    Source: https://fluxcd.io/flux/components/source/gitrepositories/#ignore (2026-11)
    """
    if each.group != _KUSTOMIZE or each.kind != "Kustomization":
        return
    path = known_text(each.spec.get("path")) or "./"
    source = _source(mapping(each.spec.get("sourceRef")), each, every)
    if source is not None and source.spec.get("ignore"):
        yield Unread(each.origin, f"spec.ignore of {source.origin.path} may exclude files of {path}", frozenset())
    folder = beside.folder(path, each)
    above = [one / _IGNORED for one in (folder, *folder.parents) if beside.holds(one)] if folder else []
    for file in (one for one in above if one.is_file()):
        yield Unread(each.origin, f"{file.name} of {file.parent.name} may exclude files of {path}", frozenset())


def helm_release_path(each: Object) -> str | None:
    """Return the path of a HelmRelease's chart in its repository; ``None`` if the chart is in a registry."""
    spec = mapping(dig(each.spec, "chart", "spec"))
    return known_text(spec.get("chart")) if dig(spec, "sourceRef", "kind") in _OF_FILES else None


def _json_patch(patch: Mapping[str, Any]) -> dict[str, Any]:
    return {"target": patch.get("target"), "patch": json.dumps(patch.get("patch"), default=str)}


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": [{"pairs": metadata["labels"], "includeSelectors": False}]} if metadata.get("labels") else {}
    return labels | ({"commonAnnotations": metadata["annotations"]} if metadata.get("annotations") else {})


def add_flux_chart(owner: Object, every: list[Object], charts: list[Chart], problems: list[Unread]) -> None:
    """Add the chart of a HelmRelease, and its parts that can't be read."""
    chart = mapping(dig(owner.spec, "chart", "spec"))
    name, version = chart.get("chart"), chart.get("version")
    if (reference := mapping(owner.spec.get("chartRef"))) and (found := _source(reference, owner, every)):
        name, version = _chart_name_and_version(found)
    if name is None:
        problems.append(Unread(owner.origin, "its chart isn't in the input and isn't read"))
        return
    values, missing = _helm_release_values(owner, every)
    held = parts_of_chart(name)
    problems += [Unread(owner.origin, f"values of chart {name} in {each} aren't read", held) for each in missing]
    if owner.spec.get("postRenderers"):
        problems.append(Unread(owner.origin, f"changes by its postRenderers in chart {name} aren't read", held))
    namespace = known_text(owner.spec.get("targetNamespace")) or owner.namespace
    space = known_text(owner.spec.get("targetNamespace"))
    default = f"{space}-{owner.name}" if space else owner.name
    release_ = known_text(owner.spec.get("releaseName")) or default
    charts.append(build_chart(owner, name, version, values, namespace, release_))


def _helm_release_values(owner: Object, every: list[Object]) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a HelmRelease, and the values that aren't read."""
    values: dict[str, Any] = {}
    missing: list[str] = []
    for each in mappings(owner.spec.get("valuesFrom")):
        given = _given(each, owner, every)
        if given is None:
            missing.append(f"{each.get('kind')} {each.get('name')}")
        elif each.get("targetPath"):
            values = with_parameter(values, str(each["targetPath"]), typed(given))
        else:
            values = merged(values, read_values(owner, given))
    return merged(values, mapping(owner.spec.get("values"))), missing


def _source(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Object | None:
    space = reference.get("namespace") or owner.namespace
    alike = [each for each in every if each.group == _SOURCES and each.kind == reference.get("kind")]
    named = [each for each in alike if each.name == str(reference.get("name"))]
    return next((each for each in named if each.namespace == space), named[0] if len(named) == 1 else None)


def _chart_name_and_version(source: Object) -> tuple[Any, Any]:
    """Return name and version of the chart of an OCIRepository or a HelmChart."""
    if source.kind == "HelmChart":
        return source.spec.get("chart"), source.spec.get("version")
    return source.spec.get("url"), dig(source.spec, "ref", "tag") or dig(source.spec, "ref", "semver")


def _given(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Any:
    """Return the values in a ConfigMap for a release; ``None`` if it isn't in the input."""
    key = reference.get("valuesKey") or "values.yaml"
    for each in every:
        if each.kind == "ConfigMap" and (each.namespace, each.name) == (owner.namespace, str(reference.get("name"))):
            return dig(each.content, "data", str(key)) if reference.get("kind") == "ConfigMap" else None
    return "" if reference.get("optional") is True else None
