"""Folders of kustomizations and charts: which to render, and which faults they have.

Faults are references of kustomizations to missing files, and patches that change nothing.

Sources: https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/ and kubernetes-sigs/kustomize v5.7.1
api/internal/builtins/PatchTransformer.go, which ignores a patch whose target selects no object (2026-11)

The module also finds external references in the schemas of a chart's values.

helm fetches a reference to an address, and reads a reference to a file, when it checks values (4.3.1, 2026-11). A
reference within the schema begins with ``#``.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import (
    KUSTOMIZATIONS,
    MAX_FILE_BYTES,
    MAX_FILES,
    UnusableInput,
    parse,
    read,
)
from gpu_preflight.reading.folder_files import walk
from gpu_preflight.reading.objects import BrokenReference, Origin, Unread
from gpu_preflight.reading.rendering.programs import MAX_FOLDERS, Rendering, is_closable, kustomize, program
from gpu_preflight.reading.unknown import is_expression, items, known_text, mapping, mappings

_TAKEN = ("resources", "bases", "components")
_FILES = ("patchesStrategicMerge", "configurations", "crds", "transformers", "generators", "validators")
_WITH_PATH = ("patches", "patchesJson6902", "replacements")
_GENERATORS = ("configMapGenerator", "secretGenerator")
# A repository, which kustomize clones: with a host, or with a revision.
_REMOTE = regex(r"://|^git@|[?&](ref|version)=|//|^[\w-]+(\.[\w-]+)+/[\w.-]+/")
# Parts of kustomize's messages about faults of a kustomization, not about how it is run.
_FAULT = regex(
    r"no matches for Id|unable to find .*target|failed to find unique target|no resource matches strategic merge patch"
    r"|unknown field|doc is missing (path|key)|already registered id|error unmarshaling|must be a valid|cycle detected"
    r"|invalid Kustomization|no such file or directory"
)
_BY_OPTION = regex(r"--enable|plugin|is not in or below|fetch|timeout|network|dial tcp|git ")
_PLUGINS = ("generators", "transformers", "validators")
_CHANGING = ("patchesstrategicmerge", *_PLUGINS, "configurations", "crds")
_LOWERCASE_WITH_PATH = ("patches", "patchesjson6902", "replacements")
# An address, alone or as the file of a key. kustomize fetches it in any field with a file.
_ADDRESS = regex(r"([^\n]*=)?\s*(https?:[^\n]*)", re.IGNORECASE)
# Fields whose texts are values of objects, not names of files.
_WITHOUT_FILES = ("commonAnnotations", "commonLabels", "labels", "literals", "images", "patch")
_SCHEMA = "values.schema.json"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Definitions of JSON Schema itself, which helm contains.
_DRAFT = regex(r"https?://json-schema\.org/(draft-0[467]|draft/(2019-09|2020-12))/schema#?")
_CHART = "Chart.yaml"
_UNCHECKED = "--skip-schema-validation"
# A DNS name, as helm requires; https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (2026-11).
_RELEASE = regex(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def broken_references(root: Path, parts: Iterable[tuple[Path, Mapping[str, Any]]]) -> Iterator[BrokenReference]:
    """Yield the references of kustomizations to files that don't exist.

    Args:
        root: Folder of the input. Files outside of it may exist elsewhere.
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
    """Yield each file or folder that a kustomization names, with its field, and whether it may be created later."""
    for field in (*_TAKEN, *_FILES):
        yield from ((field, each, False) for each in items(content.get(field)) if isinstance(each, str))
    for field in _WITH_PATH:
        for each in mappings(content.get(field)):
            if isinstance(each.get("path"), str):
                yield field, each["path"], False
    for field in _GENERATORS:
        # Files of secrets are often not in the repository.
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
        why: The error of kustomize.
    """
    program, failed, text = why.partition(" failed: ")
    if failed and _FAULT.search(text) and not _BY_OPTION.search(text):
        yield BrokenReference(Origin(str(file), str(file)), f"{program} can't build {file.name}: {text}")


def idle_patches(parts: Iterable[tuple[Path, Mapping[str, Any]]]) -> Iterator[BrokenReference]:
    """Yield patches whose targets select none of the objects of some kustomizations."""
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
    """Whether a target may select an object. Only kind and name are compared."""
    try:
        by_kind = "kind" not in target or re.fullmatch(str(target["kind"]), kind) is not None
        by_name = "name" not in target or re.fullmatch(str(target["name"]), name) is not None
    except re.error:
        return True
    return by_kind and by_name


def _objects(parts: list[tuple[Path, Mapping[str, Any]]]) -> set[tuple[str, str]] | None:
    """Return kind and name of each object of some kustomizations; ``None`` if not all are known."""
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


@dataclass(frozen=True, slots=True)
class Kustomization:
    """A kustomization file, and the files that it names."""

    file: Path
    content: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The folder from which its paths start."""
        return self.file.parent

    def taken(self) -> list[str]:
        """The files and folders whose objects it includes."""
        return [str(each) for each in self._listed(_TAKEN)]

    def changing(self) -> list[str]:
        """The files that change those objects."""
        named = [each.get("path") for each in mappings(self._listed(_LOWERCASE_WITH_PATH))]
        return [each for each in (*self._listed(_CHANGING), *named) if isinstance(each, str) and "\n" not in each]

    def plugins(self) -> list[str]:
        """The built-in plugins that it uses: each is a file, a folder or the content of such a file."""
        return [str(each) for each in self._listed(_PLUGINS)]

    def _listed(self, names: tuple[str, ...]) -> list[Any]:
        # kustomize accepts fields in any case.
        return [each for key, value in self.content.items() if str(key).lower() in names for each in items(value)]


def render_kustomizations(folder: Path, made: Rendering) -> None:
    """Render the kustomizations of a folder that no other kustomization includes."""
    found = {each.folder.resolve(): each for each in _kustomizations(folder, made)}
    inner = {child for each in found.values() for child in _children(each)}
    for place, each in found.items():
        made.covered.add(each.file)
        if place not in inner and each.content.get("kind") != "Component":
            _render_kustomization(each, folder, made)


def _kustomizations(folder: Path, made: Rendering) -> Iterator[Kustomization]:
    found = sorted(walk(folder))
    for file in [each for name in KUSTOMIZATIONS for each in found if each.name == name][:MAX_FOLDERS]:
        try:
            content: Any = next((each.content for each in read(str(file))), {})
        except UnusableInput as error:
            made.problems.append(Unread(Origin(str(file), str(file)), f"its kustomization can't be read: {error}"))
            continue
        yield Kustomization(file, mapping(content))


def _children(each: Kustomization) -> list[Path]:
    return [(each.folder / name).resolve() for name in each.taken() if os.path.isdir(each.folder / name)]


def _closure(root: Kustomization) -> list[Kustomization]:
    """Return a kustomization and all kustomizations that it includes, in any folder.

    Raises:
        UnusableInput: A kustomization can't be read, or there are too many.
    """
    found = {root.folder.resolve(): root}
    left = [root]
    while left:
        if len(found) > MAX_FOLDERS:
            raise UnusableInput(f"{root.file}: must include at most {MAX_FOLDERS} folders, got more")
        for place in _children(left.pop()):
            if place not in found and (base := _read_kustomization(place)) is not None:
                found[place] = base
                left.append(base)
    return list(found.values())


def _render_kustomization(root: Kustomization, folder: Path, made: Rendering) -> None:
    try:
        parts = _closure(root)
    except UnusableInput as error:
        made.problems.append(Unread(Origin(str(root.file), str(root.file)), f"a base can't be read: {error}"))
        return
    changing = {(part.folder / name) for part in parts for name in part.changing()}
    text, why = _built(root.folder, parts, made)
    named = [(part.file, part.content) for part in parts]
    broken = [*broken_references(folder, named)]
    made.broken += broken or [*rejected(root.file, why), *idle_patches(named)]
    made.covered |= changing
    if text is not None:
        made.texts[str(root.folder)] = text
        made.covered |= {part.folder / name for part in parts for name in part.taken()}
        return
    reason = f"it isn't rendered, because {why}; its base is checked without its patches, as far as it is in the input"
    made.problems.append(Unread(Origin(str(root.file), str(root.file)), reason))


def kustomize_build(folder: Path, made: Rendering) -> tuple[str | None, str]:
    """Return the rendered text of a kustomization, or else the reason why it isn't known.

    Args:
        folder: Its folder.
        made: Time limit and results of rendering.
    """
    try:
        parts = _closure(root) if (root := _read_kustomization(folder)) else []
    except UnusableInput as error:
        return None, f"a base can't be read: {error}"
    return _built(folder, parts, made)


def _read_kustomization(folder: Path) -> Kustomization | None:
    file = next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)
    return Kustomization(file, mapping(next((each.content for each in read(str(file))), {}))) if file else None


def _built(folder: Path, parts: Iterable[Kustomization], made: Rendering) -> tuple[str | None, str]:
    try:
        refused = next((why for part in parts for why in _refused(part)), None)
    except UnusableInput as error:
        return None, f"a part of it can't be read: {error}"
    if refused:
        return None, f"it includes {refused}"
    command = kustomize()
    if command is None:
        return None, "neither kubectl nor kustomize is on PATH"
    # An absolute path is neither a flag nor the address of a repository.
    return made.run([*command, "--", os.path.abspath(folder)])


def _refused(part: Kustomization) -> Iterator[str]:
    """Yield addresses that kustomize would fetch, and folders of plugins, whose files aren't known before."""
    yield from (f"{each[:300]}, which isn't fetched" for each in _addresses(dict(part.content)))
    # kustomize treats it as the address of a repository.
    absent = [each for each in part.taken() if not os.path.exists(part.folder / each)]
    for each in absent:
        yield f"{each[:300]}, which " + ("isn't fetched" if "://" in each else "doesn't exist")
    for name in part.plugins():
        if os.path.isdir(part.folder / name):
            yield f"plugins of {name}, which aren't run"
        else:
            parsed = parse(str(part.file), name) if "\n" in name else read(str(part.folder / name))
            found = (one for each in parsed for one in _addresses(each.content))
            yield from (f"{each[:300]}, which isn't fetched" for each in found)


def _addresses(content: Any) -> Iterator[str]:
    left = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [each for key, each in value.items() if key not in _WITHOUT_FILES]
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str) and (found := _ADDRESS.fullmatch(value.strip())):
            yield found.group(2)


def outside_reference(chart: Path) -> str | None:
    """Return the first reference by which helm would read something outside a chart; ``None`` if there is none.

    Args:
        chart: The folder of a chart, or a packed chart.
    """
    if not chart.is_dir():
        return _packed(chart)
    count = 0
    # helm follows links too.
    for folder, _, names in os.walk(chart, followlinks=True):
        count += 1 + len(names)
        if count > MAX_FILES:
            return f"one of more than {MAX_FILES:,} files"
        for name in names:
            file = Path(folder, name)
            found = _external_schema_reference(file) if name == _SCHEMA else _packed(file)
            if found is not None:
                return found
    return None


def _packed(file: Path) -> str | None:
    """Return references that a packed chart may contain. helm may read it only without network access."""
    if file.suffix not in (".tgz", ".gz") or is_closable():
        return None
    return f"anything that the packed chart {file.name} names"


def _external_schema_reference(file: Path) -> str | None:
    unreadable = f"an unreadable file, {file.name}"
    try:
        if not stat.S_ISREG(file.stat().st_mode) or file.stat().st_size > MAX_FILE_BYTES:
            return unreadable
        found: list[str] = []
        # Checks every occurrence of a duplicate key.
        json.loads(file.read_bytes(), object_pairs_hook=lambda pairs: found.extend(_outside(pairs)))
    except (OSError, ValueError, RecursionError):
        return unreadable
    return found[0] if found else None


def _outside(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    for key, value in pairs:
        if not isinstance(value, str):
            continue
        if (key in _REFERENCES and not value.startswith("#")) or (key == "$schema" and not _DRAFT.fullmatch(value)):
            yield value[:200]


def render_charts(folder: Path, made: Rendering) -> None:
    """Render the charts of a folder."""
    charts: list[Path] = []
    found = sorted(each for each in walk(folder) if each.name == _CHART)
    for file in sorted(found, key=lambda each: len(each.parts)):
        inside = any(each in file.parents for each in charts)
        if not inside and len(charts) < MAX_FOLDERS:
            charts.append(file.parent)
    for chart in charts:
        _render_chart(chart, made)


def _render_chart(chart: Path, made: Rendering) -> None:
    made.covered |= {each for each in chart.rglob("*") if each.is_file()}
    try:
        content = mapping(next((each.content for each in read(str(chart / _CHART))), {}))
    except UnusableInput as error:
        made.problems.append(Unread(Origin(str(chart), str(chart)), f"its chart can't be read: {error}"))
        return
    if content.get("type") == "library":
        return
    text, why = helm_template(chart, known_text(content.get("name")) or chart.name, made)
    if text is not None:
        made.texts[str(chart)] = text
    else:
        reason = f"its chart isn't rendered, because {why}; run helm template, and check its output"
        made.problems.append(Unread(Origin(str(chart), str(chart)), reason))


def helm_template(
    chart: Path, release: str, made: Rendering, *, values: Path | None = None, namespace: str | None = None
) -> tuple[str | None, str]:
    """Return the rendered text of a chart, or else the reason why it isn't known.

    Args:
        chart: Its folder.
        release: Name of the release.
        made: Time limit and results of rendering.
        values: A file of values that override the default values.
        namespace: Namespace of the release.
    """
    helm = program("helm")
    if helm is None:
        return None, "helm isn't on PATH"
    options = [*([f"--values={values}"] if values else []), *([f"--namespace={namespace}"] if namespace else [])]
    if not _RELEASE.fullmatch(release):
        return None, f"helm doesn't accept the release name {release[:100]!r}"
    outside = outside_reference(chart)
    flags = [*options, *([_UNCHECKED] if outside else [])]
    # Names from the input follow the last flag, so none of them is read as a flag.
    text, why = made.run([helm, "template", "--include-crds", *flags, "--", release, str(chart)])
    if outside is None:
        return text, why
    if text is None:
        old = f"a schema of its values refers to {outside}, which this helm would read; use helm 3.16 or newer"
        return None, old if _UNCHECKED in why else why
    reason = f"its values aren't checked against a schema that refers to {outside}, which isn't fetched"
    made.problems.append(Unread(Origin(str(chart), str(chart)), reason, frozenset()))
    return text, why


def render(folder: Path) -> Rendering:
    """Render the kustomizations and the charts of a folder."""
    made = Rendering()
    render_charts(folder, made)
    render_kustomizations(folder, made)
    return made
