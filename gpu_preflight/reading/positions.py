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

# A larger file is a dump of a running cluster, in which nobody edits a line. This much takes half a second to read.
MAX_BYTES = 2 * 1024**2
# Half of a character that JSON escapes as two, which YAML doesn't allow.
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")
# A repeated key's origin has its line.
_LINE = regex(r"line ([0-9]{1,8}) of ")
_CONFIG = "ClusterConfig"
# How the resources that eksctl makes of a list are named, next to node groups.
_PREFIXES = {"addons": "addon ", "fargateProfiles": "fargate "}


class _Text(str):
    """A text, and how many characters are before it."""

    start = 0


class _Map(dict[Any, Any]):
    """A mapping, and how many characters are before it."""

    start = 0


class _List(list[Any]):
    """A sequence, and how many characters are before it."""

    start = 0


_KINDS: Mapping[type, type] = {yaml.MappingStartEvent: _Map, yaml.SequenceStartEvent: _List}
# How many characters are before a named part of a text, and its content.
_Place = tuple[int, Any]
# A text with marks in place of what another program fills in, the marks, and its named parts.
_File = tuple[str, Marks, Mapping[str, _Place]]
# An index of a list in the path of a field.
_INDEX = regex(r"\[([0-9]{1,7})\]")


class Positions:
    """Finds the line and column of origins. Each file is read once, when the first origin in it is asked for."""

    def __init__(self) -> None:
        """Begin without a file."""
        self._files: dict[str, _File] = {}

    def find(self, origin: Origin, field: str = "") -> Position | None:
        """Return where an origin is in its file, or a field of it; ``None`` where that isn't known.

        Args:
            origin: The object or resource.
            field: Path in the object, or in the properties of the resource. The position of a field that isn't written
                is that of the mapping or list around it.
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
    """Yield the names under which `named_parts` may know an origin, the most exact first.

    A resource that eksctl makes of a config: ``demo/l4 template`` of node group ``l4`` gives ``ClusterConfig demo/l4``,
    and then ``ClusterConfig demo``.
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
    """Return what a file has: nothing, where it can't be read again, as a pipe can't."""
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
    """Yield a text as YAML, then what YAML doesn't allow in it replaced by as many characters, or by marks."""
    yield text, Marks(text)
    if text.lstrip()[:1] in ("{", "["):
        yield _SURROGATE.sub(r"\\u00", text).replace("\t", " "), Marks(text)
    if has_actions(text):
        yield marked(text)


def _field_start(content: Any, field: str, start: int) -> int:
    """Return where a field begins, or what is around it as far as it is written.

    ``spec.taints[0].effect`` begins where its key does, and ``spec.taints[0]`` where the item does. Keys may have dots.
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
    """Yield the named parts of a text, and the place of each; of equal names the last counts."""
    for document in documents(text):
        yield from named_parts(file, document)


def named_parts(file: str, document: Any) -> Iterator[tuple[str, tuple[int, Any]]]:
    """Yield the names that `origin_names` returns in one of `documents`, each with its start and content."""
    # Before anything follows its aliases.
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
    """Yield the documents of a text. They are built of events: libyaml's composer crashes on a deep tree."""
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
