"""References of kustomizations that lead nowhere, and patches that change nothing.

Sources: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/ and kubernetes-sigs/kustomize v5.7.1
api/internal/builtins/PatchTransformer.go, which ignores a patch whose target selects no object (2026-11)
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.documents import UnusableInput, read
from gpu_preflight.reading.objects import BrokenReference, Origin
from gpu_preflight.reading.unknown import is_expression, items, mapping, mappings

_TAKEN = ("resources", "bases", "components")
_FILES = ("patchesStrategicMerge", "configurations", "crds", "transformers", "generators", "validators")
_WITH_PATH = ("patches", "patchesJson6902", "replacements")
_GENERATORS = ("configMapGenerator", "secretGenerator")
# A repository, which kustomize clones: with a host, or with a revision.
_REMOTE = regex(r"://|^git@|[?&](ref|version)=|//|^[\w-]+(\.[\w-]+)+/[\w.-]+/")
# What kustomize says of faults of a kustomization, rather than of how it is run.
_FAULT = regex(
    r"no matches for Id|unable to find .*target|failed to find unique target|no resource matches strategic merge patch"
    r"|unknown field|doc is missing (path|key)|already registered id|error unmarshaling|must be a valid|cycle detected"
    r"|invalid Kustomization|no such file or directory"
)
_BY_OPTION = regex(r"--enable|plugin|is not in or below|fetch|timeout|network|dial tcp|git ")


def broken_references(root: Path, parts: Iterable[tuple[Path, Mapping[str, Any]]]) -> Iterator[BrokenReference]:
    """Yield what kustomizations name that doesn't exist.

    Args:
        root: Folder that was read. Files outside of it may exist elsewhere.
        parts: File and content of each kustomization.
    """
    for file, content in parts:
        for field, name, unsure in _named(content):
            place = file.parent / name
            if is_expression(name) or _REMOTE.search(name) or "\n" in name or os.path.exists(place):
                continue
            outside = root.resolve() not in Path(os.path.normpath(place.absolute())).parents
            text = f"{field} of {file.name} names {name}, which doesn't exist"
            yield BrokenReference(Origin(str(file), str(file)), text, unsure=unsure or outside)


def _named(content: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Yield each file or folder that a kustomization names, with its field, and whether it may be made later."""
    for field in (*_TAKEN, *_FILES):
        yield from ((field, each, False) for each in items(content.get(field)) if isinstance(each, str))
    for field in _WITH_PATH:
        for each in mappings(content.get(field)):
            if isinstance(each.get("path"), str):
                yield field, each["path"], False
    for field in _GENERATORS:
        # Files of secrets are often kept out of the repository.
        secret = field == "secretGenerator"
        for each in mappings(content.get(field)):
            for name in items(each.get("files")):
                yield field, str(name).partition("=")[2] or str(name), secret
            for name in (*items(each.get("envs")), *([each["env"]] if isinstance(each.get("env"), str) else [])):
                yield field, str(name), True


def rejected(file: Path, why: str) -> Iterator[BrokenReference]:
    """Yield the fault that kustomize itself reports.

    Args:
        file: The kustomization.
        why: What kustomize reports.
    """
    program, said, text = why.partition(" refused it: ")
    if said and _FAULT.search(text) and not _BY_OPTION.search(text):
        yield BrokenReference(Origin(str(file), str(file)), f"{program} can't build {file.name}: {text}")


def idle_patches(parts: Iterable[tuple[Path, Mapping[str, Any]]]) -> Iterator[BrokenReference]:
    """Yield the patches whose targets select none of the objects that some kustomizations take in."""
    listed = list(parts)
    names = _objects([*listed])
    if names is None:
        return
    for file, content in listed:
        for field in ("patches", "patchesJson6902"):
            for each in mappings(content.get(field)):
                target = mapping(each.get("target"))
                if target and not any(_selects(target, kind, name) for kind, name in names):
                    what = " ".join(str(target[key]) for key in ("kind", "name") if key in target)
                    text = f"a patch of {file.name} has the target {what}, which selects no object"
                    yield BrokenReference(Origin(str(file), str(file)), text, silent=True)


def _selects(target: Mapping[str, Any], kind: str, name: str) -> bool:
    """Whether a target may select an object; other fields than its kind and name aren't compared."""
    try:
        by_kind = "kind" not in target or re.fullmatch(str(target["kind"]), kind) is not None
        by_name = "name" not in target or re.fullmatch(str(target["name"]), name) is not None
    except re.error:
        return True
    return by_kind and by_name


def _objects(parts: list[tuple[Path, Mapping[str, Any]]]) -> set[tuple[str, str]] | None:
    """Return kind and name of each object that kustomizations take in; ``None`` where not all are known."""
    found: set[tuple[str, str]] = set()
    folders = {file.parent.resolve() for file, _ in parts}
    for file, content in parts:
        if any(content.get(key) for key in ("helmCharts", "helmChartInflationGenerator", "generators", "transformers")):
            return None
        if any(content.get(key) for key in ("namePrefix", "nameSuffix", "components")):
            return None
        for kind, field in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
            found |= {(kind, str(each.get("name"))) for each in mappings(content.get(field))}
        for name in [each for field in _TAKEN for each in items(content.get(field))]:
            place = file.parent / str(name)
            if place.is_dir() and place.resolve() in folders:
                continue
            if not place.is_file():
                return None
            try:
                documents = [one.content for one in read(str(place))]
            except UnusableInput:
                return None
            for each in documents:
                inner = mappings(mapping(each).get("items")) or [mapping(each)]
                found |= {(str(one.get("kind")), str(mapping(one.get("metadata")).get("name"))) for one in inner}
    return found
