"""Charts that Argo CD and Flux install, with the values that stand in their objects or beside them.

Sources: argoproj/argo-cd v3.2 docs/user-guide/helm.md and manifests/crds/application-crd.yaml;
https://fluxcd.io/flux/components/helm/helmreleases/,
https://fluxcd.io/flux/components/source/ocirepositories/ (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_constructs.preflight.reading.embedded import parse_embedded
from gpu_constructs.preflight.reading.objects import Chart, Object, Origin
from gpu_constructs.preflight.reading.unknown import Unknown, dig, known_text, mapping, mappings

Problem = tuple[Origin, str]
_ARGO, _FLUX = "argoproj.io", "helm.toolkit.fluxcd.io"
_KUSTOMIZE, _SOURCES = "kustomize.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"
# Of a range of versions only the controller knows which one it takes.
_VERSION = re.compile(r"v?\d+\.\d+\.\d+[^\s*<>=~^|,]*")
_INDEX = re.compile(r"(.+)\[(\d{1,3})\]")
_MAX_INDEX = 100
_DOT = re.compile(r"(?<!\\)\.")


def releases(objects: Iterable[Object]) -> tuple[list[Chart], list[Problem]]:
    """Return the charts that objects of Argo CD and Flux install, and what of them cannot be read."""
    every = list(objects)
    charts: list[Chart] = []
    problems: list[Problem] = []
    for each in every:
        if each.group == _ARGO and each.kind in ("Application", "ApplicationSet"):
            spec = mapping(dig(each.spec, "template", "spec")) if each.kind == "ApplicationSet" else each.spec
            for source in _sources(spec):
                if source.get("kustomize"):
                    problems.append(
                        (each.origin, f"what its kustomize settings change in {source.get('path')} is not read")
                    )
                if "chart" in source:
                    _argo(each, spec, source, charts, problems)
                elif "path" in source and not _is_here(str(source["path"]), every):
                    where = f"path {source['path']} of {source.get('repoURL')}"
                    problems.append((each.origin, f"what {where} holds is not among the files that are judged"))
        elif each.group == _FLUX and each.kind == "HelmRelease":
            _flux(each, every, charts, problems)
        elif each.group == _KUSTOMIZE and each.kind == "Kustomization":
            problems += _of_kustomization(each)
    return charts, problems


def _is_here(path: str, every: list[Object]) -> bool:
    """Whether files of a folder are among those that were read."""
    folder = path.strip("./")
    return any(f"/{folder}/" in f"/{each.origin.file}" for each in every) if folder else True


def _sources(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*mappings(spec.get("sources")), *([mapping(spec["source"])] if "source" in spec else [])]


def _argo(
    owner: Object, spec: Mapping[str, Any], source: Mapping[str, Any], charts: list[Chart], problems: list[Problem]
) -> None:
    helm = mapping(source.get("helm"))
    values = _merged(_read(owner, helm.get("values")), mapping(helm.get("valuesObject")))
    for each in mappings(helm.get("parameters")):
        values = _with(values, str(each.get("name")), each.get("value"))
    if helm.get("valueFiles"):
        problems.append(
            (owner.origin, f"values of chart {source['chart']} that stand in files of a repository are not read")
        )
    namespace = known_text(dig(spec, "destination", "namespace")) or "default"
    charts.append(_chart(owner, source["chart"], source.get("targetRevision"), values, namespace))


def _flux(owner: Object, every: list[Object], charts: list[Chart], problems: list[Problem]) -> None:
    chart = mapping(dig(owner.spec, "chart", "spec"))
    name, version = chart.get("chart"), chart.get("version")
    if (reference := mapping(owner.spec.get("chartRef"))) and (found := _source(reference, owner, every)):
        name, version = _of_source(found)
    if name is None:
        problems.append((owner.origin, "its chart stands elsewhere and is not read"))
        return
    values: dict[str, Any] = {}
    for each in mappings(owner.spec.get("valuesFrom")):
        given = _given(each, owner, every)
        if given is None:
            text = f"values of chart {name} in {each.get('kind')} {each.get('name')} are not read"
            problems.append((owner.origin, text))
        elif each.get("targetPath"):
            values = _with(values, str(each["targetPath"]), given)
        else:
            values = _merged(values, _read(owner, given))
    values = _merged(values, mapping(owner.spec.get("values")))
    if owner.spec.get("postRenderers"):
        problems.append((owner.origin, f"what its postRenderers change in chart {name} is not read"))
    namespace = known_text(owner.spec.get("targetNamespace")) or owner.namespace
    charts.append(_chart(owner, name, version, values, namespace))


def _source(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Object | None:
    space = reference.get("namespace") or owner.namespace
    alike = [each for each in every if each.group == _SOURCES and each.kind == reference.get("kind")]
    named = [each for each in alike if each.name == str(reference.get("name"))]
    return next((each for each in named if each.namespace == space), named[0] if len(named) == 1 else None)


def _of_source(source: Object) -> tuple[Any, Any]:
    """Return name and version of the chart that an OCIRepository or a HelmChart stands for."""
    if source.kind == "HelmChart":
        return source.spec.get("chart"), source.spec.get("version")
    return source.spec.get("url"), dig(source.spec, "ref", "tag") or dig(source.spec, "ref", "semver")


def _given(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Any:
    """Return what a ConfigMap of the input gives a release, ``None`` where it is not there."""
    key = reference.get("valuesKey") or "values.yaml"
    for each in every:
        if each.kind == "ConfigMap" and (each.namespace, each.name) == (owner.namespace, str(reference.get("name"))):
            return dig(each.content, "data", str(key)) if reference.get("kind") == "ConfigMap" else None
    return "" if reference.get("optional") is True else None


def _of_kustomization(owner: Object) -> Iterator[Problem]:
    """Yield what a Kustomization of Flux changes in files that are judged as they stand."""
    changed = [each for each in ("patches", "components", "images", "namePrefix") if owner.spec.get(each)]
    if changed:
        yield owner.origin, f"what its {', '.join(changed)} change in {owner.spec.get('path') or './'} is not read"


def _chart(owner: Object, name: Any, version: Any, values: Mapping[str, Any], namespace: str) -> Chart:
    text = known_text(version) or ""
    return Chart(
        name=str(name).rstrip("/").rsplit("/", 1)[-1],
        version=text if _VERSION.fullmatch(text) else None,
        values=values,
        origin=owner.origin,
        properties={},
        namespace=namespace,
        cluster=owner.cluster,
    )


def _read(owner: Object, text: Any) -> dict[str, Any]:
    """Return values that are written as a text of YAML."""
    return mapping(parse_embedded(owner.origin.file, text if isinstance(text, (str, Unknown)) else None))


def _merged(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return values on top of others, as Helm merges them."""
    both = {
        key: _merged(left[key], right[key])
        for key in left.keys() & right.keys()
        if isinstance(left[key], dict) and isinstance(right[key], dict)
    }
    return {**left, **right, **both}


def _with(values: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return values with one more at a path such as ``a.b[0].c``; a dot of a key is written with a backslash."""
    keys = [each.replace("\\.", ".") for each in _DOT.split(path)]
    return _put(values, keys, value)


def _put(values: Mapping[str, Any], keys: list[str], value: Any) -> dict[str, Any]:
    head, rest = keys[0], keys[1:]
    if found := _INDEX.fullmatch(head):
        return {**values, found[1]: _item(values.get(found[1]), int(found[2]), rest, value)}
    return {**values, head: _put(mapping(values.get(head)), rest, value) if rest else _typed(value)}


def _item(listed: Any, index: int, rest: list[str], value: Any) -> list[Any]:
    found, place = list(listed) if isinstance(listed, list) else [], min(index, _MAX_INDEX)
    found += [{} for _ in range(place + 1 - len(found))]
    found[place] = _put(mapping(found[place]), rest, value) if rest else _typed(value)
    return found


def _typed(value: Any) -> Any:
    """Return a value as ``helm --set`` types it."""
    if not isinstance(value, str):
        return value
    known = {"true": True, "false": False, "null": None}
    return int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) else known.get(value, value)
