"""Folders and charts that Kustomizations and HelmReleases of Flux deploy.

Sources: https://fluxcd.io/flux/components/helm/helmreleases/, fluxcd/pkg 0180cac2f kustomize/kustomize_generator.go,
https://fluxcd.io/flux/components/kustomize/kustomizations/, https://fluxcd.io/flux/components/source/ocirepositories/
(2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.merging import merged
from gpu_preflight.reading.gitops.deployments import (
    Beside,
    Deployment,
    build_chart,
    parts_of_chart,
    read_values,
    typed,
    variables,
    with_parameter,
)
from gpu_preflight.reading.objects import Chart, Object, Unread
from gpu_preflight.reading.unknown import dig, items, known_text, mapping, mappings

_HELM, _KUSTOMIZE = "helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"
_SOURCES = "source.toolkit.fluxcd.io"
_IGNORED = ".sourceignore"
# Sources of files, not of packed charts.
_OF_FILES = ("GitRepository", "Bucket")
# Fields of a Kustomization with the same name in a kustomization file.
_SAME = ("images", "namePrefix", "nameSuffix", "patches", "patchesStrategicMerge")


def is_release(each: Object) -> bool:
    """Whether an object is a HelmRelease."""
    return each.group == _HELM and each.kind == "HelmRelease"


def deployments(each: Object, every: list[Object]) -> Iterator[Deployment]:
    """Yield the folder of a Kustomization, or the folder of a HelmRelease's chart."""
    if is_release(each) and (path := chart_path(each)) is not None:
        values, missing = _values(each, every)
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
    added = {key: each.spec[key] for key in _SAME if each.spec.get(key)}
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


def left_out(each: Object, every: list[Object], beside: Beside) -> Iterator[Unread]:
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


def chart_path(each: Object) -> str | None:
    """Return the path of a HelmRelease's chart in its repository; ``None`` if the chart is in a registry."""
    spec = mapping(dig(each.spec, "chart", "spec"))
    return known_text(spec.get("chart")) if dig(spec, "sourceRef", "kind") in _OF_FILES else None


def _json_patch(patch: Mapping[str, Any]) -> dict[str, Any]:
    return {"target": patch.get("target"), "patch": json.dumps(patch.get("patch"), default=str)}


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": [{"pairs": metadata["labels"], "includeSelectors": False}]} if metadata.get("labels") else {}
    return labels | ({"commonAnnotations": metadata["annotations"]} if metadata.get("annotations") else {})


def release(owner: Object, every: list[Object], charts: list[Chart], problems: list[Unread]) -> None:
    """Add the chart of a HelmRelease, and its parts that can't be read."""
    chart = mapping(dig(owner.spec, "chart", "spec"))
    name, version = chart.get("chart"), chart.get("version")
    if (reference := mapping(owner.spec.get("chartRef"))) and (found := _source(reference, owner, every)):
        name, version = _chart_name_and_version(found)
    if name is None:
        problems.append(Unread(owner.origin, "its chart isn't in the input and isn't read"))
        return
    values, missing = _values(owner, every)
    held = parts_of_chart(name)
    problems += [Unread(owner.origin, f"values of chart {name} in {each} aren't read", held) for each in missing]
    if owner.spec.get("postRenderers"):
        problems.append(Unread(owner.origin, f"changes by its postRenderers in chart {name} aren't read", held))
    namespace = known_text(owner.spec.get("targetNamespace")) or owner.namespace
    space = known_text(owner.spec.get("targetNamespace"))
    default = f"{space}-{owner.name}" if space else owner.name
    release_ = known_text(owner.spec.get("releaseName")) or default
    charts.append(build_chart(owner, name, version, values, namespace, release_))


def _values(owner: Object, every: list[Object]) -> tuple[dict[str, Any], list[str]]:
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
