"""Lines of YAML and JSON files: line and column of an object, resource or field, and comments for the checker.

The line is searched after a rule has reported the object. The comment
``# gpu-constructs: ignore GPU048 images are small here`` belongs to the object or resource around it. A comment that
is alone on its line belongs to the next line, so it can be above an object or a logical id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import COMMENT_MARK, MAX_DEPTH, UnusableInput, read_text, refuse_endless
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
# The number of characters before a named part of a text, and the content of that part.
_Place = tuple[int, Any]
# A text with marks instead of placeholders, the marks, and the named parts of the text.
_File = tuple[str, Marks, Mapping[str, _Place]]
# An index of a list in the path of a field.
_INDEX = regex(r"\[([0-9]{1,7})\]")
_COMMENT = regex(rf"(?:^|(?<=\s))#+\s*{COMMENT_MARK}[ \t]*(.*?)\s*$")
_SEPARATOR = "---"
_LINE_END = regex(r"\n")


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


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment for the checker.

    Attributes:
        file: Path of the file.
        line: Its line, from 1.
        text: Its text after ``gpu-constructs:``.
        names: Names of the object or resource that it belongs to, as
            `gpu_preflight.reading.positions.origin_names` returns them; empty if it belongs to none.
    """

    file: str
    line: int
    text: str
    names: tuple[str, ...]


def comments(file: str, text: str) -> Iterator[Comment]:
    """Yield the comments for the checker in a YAML file."""
    lines = text.split("\n")
    found = [(number, each[1]) for number, line in enumerate(lines) if (each := _COMMENT.search(line))]
    parts = _parts(file, text) if found and len(text) <= MAX_BYTES else []
    starts = [line for line, _ in parts]
    for number, content in found:
        place = bisect_right(starts, _line_of_target(lines, number)) - 1
        yield Comment(file, number + 1, content, parts[place][1] if place >= 0 else ())


def _line_of_target(lines: list[str], number: int) -> int:
    """Return the line that a comment belongs to: its own, or the next with content if it is alone on its line."""
    if not lines[number].lstrip().startswith("#"):
        return number
    for following in range(number + 1, len(lines)):
        line = lines[following].strip()
        if line.startswith((_SEPARATOR, "...")):
            # The comment is at the beginning of the file, before the first object.
            return following + 1 if not any(map(_has_content, lines[:number])) else number
        if _has_content(line):
            return following
    return number


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "%", _SEPARATOR))


def _parts(file: str, text: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return the first line of each part, with the names that apply up to the next part."""
    for plain, marks in readings(text):
        starts = [0, *(each.end() for each in _LINE_END.finditer(plain))]
        separators = [number for number, at in enumerate(starts) if plain.startswith(_SEPARATOR, at)]

        def line_number(index: int, starts: list[int] = starts) -> int:
            return bisect_right(starts, index) - 1

        try:
            found: dict[int, list[str]] = {}
            for document in documents(plain):
                start = getattr(document, "start", 0)
                first = _first_line(separators, line_number(start))
                found.setdefault(first, [])
                for key in _ends(document):
                    found.setdefault(line_number(key), [])
                for name, (index, _) in named_parts(file, document):
                    alone = index == start
                    found.setdefault(first if alone else line_number(index), []).append(_restored(marks, name))
            return sorted((line, tuple(names)) for line, names in found.items())
        except (yaml.YAMLError, UnusableInput, ValueError, TypeError):
            continue
    return []


def _ends(document: Any) -> Iterator[int]:
    """Yield the start of each top-level key of a template. The last resource ends at the next such key."""
    if isinstance(document, dict) and "Resources" in document and "kind" not in document:
        yield from (key.start for key in document)


def _first_line(separators: list[int], own: int) -> int:
    """Return the line after the separator before a document, or its own if it begins there; 0 without a separator."""
    place = bisect_right(separators, own) - 1
    return min(separators[place] + 1, own) if place >= 0 else 0


def _restored(marks: Marks, name: str) -> str:
    return str(marks.restore(name))
