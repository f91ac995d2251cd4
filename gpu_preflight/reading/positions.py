"""Line and column of an object or resource in its YAML or JSON file, found only after a rule has reported it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

import yaml

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import MAX_DEPTH, UnusableInput, read_text
from gpu_preflight.reading.notation import events
from gpu_preflight.reading.objects import Marks, Origin, Position, has_actions, marked

# A larger file is a dump of a running cluster, in which nobody edits a line. This much takes half a second to read.
MAX_BYTES = 2 * 1024**2
# Half of a character that JSON escapes as two, which YAML doesn't allow.
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")
# A repeated key's origin has its line.
_LINE = regex(r"line ([0-9]{1,8}) of ")
_CONFIG = "ClusterConfig"
# How the resources that eksctl makes of a list are named, next to node groups.
_PREFIXES = {"addons": "addon ", "fargateProfiles": "fargate "}


@dataclass(slots=True)
class _Node:
    """A value of a document and where it begins.

    Attributes:
        index: How many characters are before it.
        scalar: Its text; ``None`` for a mapping or a sequence.
        is_mapping: Whether its children are keys and values in turn.
        children: What it contains.
    """

    index: int
    scalar: str | None = None
    is_mapping: bool = False
    children: list[_Node] = field(default_factory=list)

    @property
    def entries(self) -> dict[str, tuple[_Node, _Node]]:
        """Key and value by the text of the key; the last of equal keys counts."""
        pairs = zip(self.children[::2], self.children[1::2], strict=False) if self.is_mapping else ()
        return {key.scalar: (key, value) for key, value in pairs if key.scalar is not None}

    def get(self, *path: str) -> _Node | None:
        """Return the value at a path of keys."""
        node: _Node | None = self
        for key in path:
            node = node.entries.get(key, (None, None))[1] if node else None
        return node

    def text(self, *path: str) -> str:
        """Return the text at a path of keys; empty where there is none."""
        node = self.get(*path)
        return node.scalar or "" if node else ""


@dataclass(frozen=True, slots=True)
class _File:
    """A file and what it has.

    Attributes:
        text: Its text, with marks in place of what another program fills in.
        marks: The marks.
        indexes: How many characters are before each object and resource, by its name in `_names`.
    """

    text: str
    marks: Marks
    indexes: Mapping[str, int]


class Positions:
    """Finds the line and column of origins. Each file is read once, when the first origin in it is asked for."""

    def __init__(self) -> None:
        """Begin without a file."""
        self._files: dict[str, _File | None] = {}

    def find(self, origin: Origin) -> Position | None:
        """Return where an origin is in its file; ``None`` where that isn't known."""
        if found := _LINE.match(origin.path):
            return Position(origin.file, int(found[1]), None)
        if origin.file not in self._files:
            self._files[origin.file] = _read(origin.file)
        file = self._files[origin.file]
        index = next((file.indexes[each] for each in _names(origin) if each in file.indexes), None) if file else None
        if file is None or index is None:
            return None
        # YAML also ends lines at characters at which editors don't.
        before = file.text[file.text.rfind("\n", 0, index) + 1 : index]
        return Position(origin.file, file.text.count("\n", 0, index) + 1, len(file.marks.restore(before)) + 1)


def _names(origin: Origin) -> Iterator[str]:
    """Yield the names under which an origin may be known, the most exact first.

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


def _read(path: str) -> _File | None:
    """Return what a file has; ``None`` where it can't be read again, as a pipe can't."""
    try:
        if not Path(path).is_file() or Path(path).stat().st_size > MAX_BYTES:
            return None
        text = read_text(Path(path))
    except (UnusableInput, OSError, ValueError):
        return None
    for plain, marks in _readings(text):
        try:
            named = [each for document in _documents(plain) for each in _named(document)]
        except (yaml.YAMLError, ValueError):
            continue
        return _File(plain, marks, {marks.restore(name): node.index for name, node in named})
    return None


def _readings(text: str) -> Iterator[tuple[str, Marks]]:
    """Yield a text as YAML, then what YAML doesn't allow in it replaced by as many characters, or by marks."""
    yield text, Marks(text)
    if text.lstrip()[:1] in ("{", "["):
        yield _SURROGATE.sub(r"\\u00", text).replace("\t", " "), Marks(text)
    if has_actions(text):
        yield marked(text)


def _documents(text: str) -> Iterator[_Node]:
    """Yield the tree of each document of a text. It is built of events: of a deep tree, libyaml's composer crashes."""
    path: list[_Node] = []
    anchors: dict[str, _Node] = {}
    for event in events(text):
        if isinstance(event, yaml.CollectionEndEvent):
            done = path.pop()
            if not path:
                yield done
        elif isinstance(event, yaml.NodeEvent):
            index = event.start_mark.index if event.start_mark else 0
            node = _Node(index, getattr(event, "value", None), isinstance(event, yaml.MappingStartEvent))
            if isinstance(event, yaml.AliasEvent):
                node = anchors.get(str(event.anchor), node)
            elif event.anchor:
                anchors[event.anchor] = node
            if path:
                path[-1].children.append(node)
            if isinstance(event, yaml.CollectionStartEvent):
                path.append(node)
            if len(path) > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} deep, which takes libyaml ever longer to read")


def _named(document: _Node) -> Iterator[tuple[str, _Node]]:
    """Yield what a document has with the names of `_names`: resources of a template, else objects."""
    resources = document.get("Resources")
    if resources and not document.text("kind"):
        for name, (key, _) in resources.entries.items():
            yield f"/{name}", key
        return
    # A List whose items are an alias of itself has no end.
    seen: set[int] = set()
    nodes = [document]
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        items = node if not node.is_mapping else node.get("items") if node.text("kind").endswith("List") else None
        if items and not items.is_mapping:
            nodes += reversed(items.children)
        elif node.text("kind") and node.text("apiVersion"):
            yield from _object_names(node)


def _object_names(node: _Node) -> Iterator[tuple[str, _Node]]:
    kind, name, space = node.text("kind"), node.text("metadata", "name"), node.text("metadata", "namespace")
    place = f"{kind} {f'{space}/' if space else ''}{name}"
    yield place, node
    if kind == _CONFIG:
        for section, (key, value) in node.entries.items():
            yield f"{place}/{section}", key
            for number, each in enumerate(value.children if not value.is_mapping else ()):
                called = each.text("name") or f"{section}[{number}]"
                yield f"{place}/{_PREFIXES.get(section, '')}{called}", each
