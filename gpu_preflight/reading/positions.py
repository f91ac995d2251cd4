"""Line and column of an object, resource or field in its YAML or JSON file, found after a rule has reported it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_facts.light import regex
from gpu_preflight.reading.documents import MAX_DEPTH, UnusableInput, read_text, refuse_endless
from gpu_preflight.reading.notation import events
from gpu_preflight.reading.objects import Marks, Origin, Position, has_actions, marked, parse_objects
from gpu_preflight.reading.unknown import items, mapping

# A larger file is a dump of a running cluster, which users don't edit. Reading this much takes half a second.
MAX_BYTES = 2 * 1024**2
# One half of a surrogate pair in JSON, which YAML doesn't allow.
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")
# The origin of a repeated key states the line.
_LINE = regex(r"line ([0-9]{1,8}) of ")
_CONFIG = "ClusterConfig"
# Name prefixes of the resources that eksctl creates from a list. Node groups have no prefix.
_PREFIXES = {"addons": "addon ", "fargateProfiles": "fargate "}


class _Text(str):
    """A text, and the number of characters before it."""

    start = 0


class _Map(dict[Any, Any]):
    """A mapping, and the number of characters before it."""

    start = 0


class _List(list[Any]):
    """A sequence, and the number of characters before it."""

    start = 0


_KINDS: Mapping[type, type] = {yaml.MappingStartEvent: _Map, yaml.SequenceStartEvent: _List}
# The number of characters before a named part of a text, and the content of that part.
_Place = tuple[int, Any]
# A text with marks instead of placeholders, the marks, and the named parts of the text.
_File = tuple[str, Marks, Mapping[str, _Place]]
# An index of a list in the path of a field.
_INDEX = regex(r"\[([0-9]{1,7})\]")


class Positions:
    """Finds the line and column of origins. It reads each file once, at the first `find` of an origin in it."""

    def __init__(self) -> None:
        """Begin without a file."""
        self._files: dict[str, _File] = {}

    def find(self, origin: Origin, field: str = "") -> Position | None:
        """Return the position of an origin in its file, or of a field of it; ``None`` if it isn't known.

        Args:
            origin: The object or resource.
            field: Path in the object, or in the properties of the resource. A field that isn't written has the position
                of the mapping or list around it.
        """
        if found := _LINE.match(origin.path):
            return Position(origin.file, int(found[1]), None)
        if origin.file not in self._files:
            self._files[origin.file] = _read(origin.file)
        text, marks, places = self._files[origin.file]
        place = next((places[each] for each in origin_names(origin) if each in places), None)
        if place is None:
            return None
        index, content = place
        if field:
            properties = mapping(content).get("Properties") if origin.resource is not None else content
            index = _field_start(properties, field, index)
        # YAML also ends lines at characters at which editors don't.
        before = text[text.rfind("\n", 0, index) + 1 : index]
        return Position(origin.file, text.count("\n", 0, index) + 1, len(marks.restore(before)) + 1)


def origin_names(origin: Origin) -> Iterator[str]:
    """Yield the names that `named_parts` may use for an origin, the most exact first.

    Example: eksctl creates the resource ``demo/l4 template`` for node group ``l4`` of a config. Its names are
    ``ClusterConfig demo/l4`` and then ``ClusterConfig demo``.
    """
    stack, _, name = (origin.resource or "").rpartition("/")
    if origin.resource is None:
        yield origin.path
        if origin.path.startswith(f"{_CONFIG} "):
            yield origin.path.partition("/")[0]
    else:
        yield f"/{name}"
        yield f"{_CONFIG} {stack}/{name.removesuffix(' template')}"
        yield f"{_CONFIG} {stack}"


def _read(path: str) -> _File:
    """Return the text and named parts of a file; empty if it can't be read again, for example a pipe."""
    try:
        text = read_text(Path(path)) if Path(path).is_file() and Path(path).stat().st_size <= MAX_BYTES else ""
    except (UnusableInput, OSError, ValueError):
        text = ""
    for plain, marks in readings(text):
        try:
            return plain, marks, {marks.restore(name): place for name, place in _places(path, plain)}
        except (yaml.YAMLError, UnusableInput, ValueError, TypeError):
            continue
    return text, Marks(text), {}


def readings(text: str) -> Iterator[tuple[str, Marks]]:
    """Yield a text unchanged, then with same-length replacements, or marks, for the parts that YAML doesn't allow."""
    yield text, Marks(text)
    if text.lstrip()[:1] in ("{", "["):
        yield _SURROGATE.sub(r"\\u00", text).replace("\t", " "), Marks(text)
    if has_actions(text):
        yield marked(text)


def _field_start(content: Any, field: str, start: int) -> int:
    """Return the start of a field, or of the innermost part around it that is written.

    ``spec.taints[0].effect`` starts at its key, and ``spec.taints[0]`` at the item. Keys may have dots.
    """
    while field:
        if isinstance(content, _List) and (found := _INDEX.match(field)) and int(found[1]) < len(content):
            content, rest = content[int(found[1])], field[found.end() :]
            start = content.start
        elif isinstance(content, _Map):
            keys = [each for each in content if field.startswith(each) and field[len(each) : len(each) + 1] in "[."]
            if not keys:
                break
            key = max(keys, key=len)
            content, rest, start = content[key], field[len(key) :], key.start
        else:
            break
        field = rest.removeprefix(".")
    return start


def _places(file: str, text: str) -> Iterator[tuple[str, _Place]]:
    """Yield the named parts of a text, each with its place. If two names are equal, the last one counts."""
    for document in documents(text):
        yield from named_parts(file, document)


def named_parts(file: str, document: Any) -> Iterator[tuple[str, tuple[int, Any]]]:
    """Yield the names that `origin_names` returns in one of `documents`, each with its start and content."""
    # Checked before other code follows aliases.
    refuse_endless(file, document)
    resources: Any = mapping(mapping(document).get("Resources")) if "kind" not in document else ()
    yield from ((f"/{name}", (name.start, resources[name])) for name in resources)
    for each in parse_objects(document, file):
        content: Any = each.content
        yield each.origin.path, (content.start, content)
        for section, value in content.items() if each.kind == _CONFIG else ():
            yield f"{each.origin.path}/{section}", (section.start, value)
            for number, part in enumerate(items(value)):
                name = mapping(part).get("name") or f"{section}[{number}]"
                yield f"{each.origin.path}/{_PREFIXES.get(section, '')}{name}", (part.start, part)


def documents(text: str) -> Iterator[Any]:
    """Yield the documents of a text, built from events because libyaml's composer crashes on a deep tree."""
    path: list[tuple[Any, list[Any]]] = []
    anchors: dict[str | None, Any] = {}
    for event in events(text):
        if isinstance(event, yaml.CollectionEndEvent):
            node, children = path.pop()
            if isinstance(node, _Map):
                node.update(zip(children[::2], children[1::2], strict=True))
            else:
                node += children
            if not path:
                yield node
        elif isinstance(event, yaml.NodeEvent):
            node = _KINDS[type(event)]() if type(event) in _KINDS else _Text(getattr(event, "value", ""))
            node.start = event.start_mark.index if event.start_mark else 0
            node = anchors.get(event.anchor, node) if isinstance(event, yaml.AliasEvent) else node
            anchors[event.anchor] = node
            if path:
                path[-1][1].append(node)
            if isinstance(event, yaml.CollectionStartEvent):
                path.append((node, []))
            if len(path) > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} deep, which takes libyaml ever longer to read")
