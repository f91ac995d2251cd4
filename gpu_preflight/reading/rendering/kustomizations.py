"""Kustomizations: what they take in, and what they come to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.reading.documents import KUSTOMIZATIONS, UnusableInput, is_hidden, parse, read
from gpu_preflight.reading.objects import Origin, Unread
from gpu_preflight.reading.rendering.broken_kustomizations import broken_references, idle_patches, rejected
from gpu_preflight.reading.rendering.programs import kustomize
from gpu_preflight.reading.rendering.rendering import MAX_FOLDERS, Rendering
from gpu_preflight.reading.unknown import items, mapping, mappings

# Lists of a kustomization: what it takes in, and what changes that.
_TAKEN = ("resources", "bases", "components")
_PLUGINS = ("generators", "transformers", "validators")
_CHANGING = ("patchesstrategicmerge", *_PLUGINS, "configurations", "crds")
_WITH_PATH = ("patches", "patchesjson6902", "replacements")
# An address, which kustomize fetches wherever it takes a file; alone, or as the file of a key.
_ADDRESS = regex(r"([^\n]*=)?\s*(https?:[^\n]*)", re.IGNORECASE)
# Fields whose texts are put into objects, and name no file.
_WITHOUT_FILES = ("commonAnnotations", "commonLabels", "labels", "literals", "images", "patch")


@dataclass(frozen=True, slots=True)
class Kustomization:
    """A kustomization file, and what it names."""

    file: Path
    content: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """The folder that its paths begin at."""
        return self.file.parent

    def taken(self) -> list[str]:
        """The files and folders whose objects it takes in."""
        return [str(each) for each in self._listed(_TAKEN)]

    def changing(self) -> list[str]:
        """The files that change those objects."""
        named = [each.get("path") for each in mappings(self._listed(_WITH_PATH))]
        return [each for each in (*self._listed(_CHANGING), *named) if isinstance(each, str) and "\n" not in each]

    def plugins(self) -> list[str]:
        """The plugins that are part of kustomize: each a file, a folder or what stands in such a file."""
        return [str(each) for each in self._listed(_PLUGINS)]

    def _listed(self, names: tuple[str, ...]) -> list[Any]:
        # kustomize takes fields in any case.
        return [each for key, value in self.content.items() if str(key).lower() in names for each in items(value)]


def render_kustomizations(folder: Path, made: Rendering) -> None:
    """Render the kustomizations of a folder that no other one takes in."""
    found = {each.folder.resolve(): each for each in _kustomizations(folder, made)}
    inner = {child for each in found.values() for child in _children(each)}
    for place, each in found.items():
        made.covered.add(each.file)
        if place not in inner and each.content.get("kind") != "Component":
            _render_kustomization(each, folder, made)


def _kustomizations(folder: Path, made: Rendering) -> Iterator[Kustomization]:
    files = [each for name in KUSTOMIZATIONS for each in sorted(folder.rglob(name))]
    for file in [each for each in files if not is_hidden(each, folder)][:MAX_FOLDERS]:
        try:
            content: Any = next((each.content for each in read(str(file))), {})
        except UnusableInput as error:
            made.problems.append(Unread(Origin(str(file), str(file)), f"its kustomization cannot be read: {error}"))
            continue
        yield Kustomization(file, mapping(content))


def _children(each: Kustomization) -> list[Path]:
    return [(each.folder / name).resolve() for name in each.taken() if os.path.isdir(each.folder / name)]


def _closure(root: Kustomization) -> list[Kustomization]:
    """Return a kustomization and those that it takes in, wherever they are.

    Raises:
        UnusableInput: One cannot be read, or there are too many.
    """
    found = {root.folder.resolve(): root}
    left = [root]
    while left:
        if len(found) > MAX_FOLDERS:
            raise UnusableInput(f"{root.file}: must take in at most {MAX_FOLDERS} folders, got more")
        for place in _children(left.pop()):
            if place not in found and (base := _of_folder(place)) is not None:
                found[place] = base
                left.append(base)
    return list(found.values())


def _render_kustomization(root: Kustomization, folder: Path, made: Rendering) -> None:
    try:
        parts = _closure(root)
    except UnusableInput as error:
        made.problems.append(Unread(Origin(str(root.file), str(root.file)), f"a base cannot be read: {error}"))
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
    told = f"it is not rendered, because {why}; what the input has of its base is judged without its patches"
    made.problems.append(Unread(Origin(str(root.file), str(root.file)), told))


def kustomize_build(folder: Path, made: Rendering) -> tuple[str | None, str]:
    """Return what a kustomization comes to, or else why that is not known.

    Args:
        folder: Its folder.
        made: How long rendering may take, and what it has come to.
    """
    try:
        parts = _closure(root) if (root := _of_folder(folder)) else []
    except UnusableInput as error:
        return None, f"a base cannot be read: {error}"
    return _built(folder, parts, made)


def _of_folder(folder: Path) -> Kustomization | None:
    file = next((folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()), None)
    return Kustomization(file, mapping(next((each.content for each in read(str(file))), {}))) if file else None


def _built(folder: Path, parts: Iterable[Kustomization], made: Rendering) -> tuple[str | None, str]:
    try:
        refused = next((why for part in parts for why in _refused(part)), None)
    except UnusableInput as error:
        return None, f"a part of it cannot be read: {error}"
    if refused:
        return None, f"it takes in {refused}"
    command = kustomize()
    if command is None:
        return None, "neither kubectl nor kustomize is on PATH"
    # A path from the root is neither a flag nor the address of a repository.
    return made.run([*command, "--", os.path.abspath(folder)])


def _refused(part: Kustomization) -> Iterator[str]:
    """Yield what kustomize would fetch, and folders of plugins, whose files nobody can tell before."""
    yield from (f"{each[:300]}, which is not fetched" for each in _addresses(dict(part.content)))
    # kustomize takes it for the address of a repository.
    absent = [each for each in part.taken() if not os.path.exists(part.folder / each)]
    yield from (f"{each[:300]}, which is not {'fetched' if '://' in each else 'there'}" for each in absent)
    for name in part.plugins():
        if os.path.isdir(part.folder / name):
            yield f"plugins of {name}, which are not run"
        else:
            parsed = parse(str(part.file), name) if "\n" in name else read(str(part.folder / name))
            found = (one for each in parsed for one in _addresses(each.content))
            yield from (f"{each[:300]}, which is not fetched" for each in found)


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
