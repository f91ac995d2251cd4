"""Kubernetes objects and Helm releases of an input, their places, and placeholders in them.

Placeholders are values of a manifest that another program sets before the API server reads it.

Sources: https://www.gnu.org/software/gettext/manual/html_node/envsubst-Invocation.html,
https://helm.sh/docs/chart_template_guide/,
https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution
(2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.notation import RepeatedKey
from gpu_preflight.reading.unknown import Unknown, dig, mapping

# Private-use characters. Manifests rarely contain them, and YAML reads them as letters of a word.
_OPENING = tuple(map(chr, range(0xE000, 0xE010)))
_CLOSE = "\ue010"
# ${NAME}, $NAME, $(NAME) and {{ ... }}.
_PLACEHOLDER = regex(r"\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$\([A-Za-z_.][A-Za-z0-9_.]*\)|\{\{[^{}]*\}\}")
# A line that contains only a template action. The lines below it may be absent.
_BLOCK = regex(r"^[ \t]*(?:-[ \t]*)?\{\{.*\}\}[ \t]*(?:#.*)?$", re.MULTILINE)
_ACTION = regex(r"\{\{[^{}\n]*\}\}")
# Texts of programs that a shell, Prometheus or a kubelet reads, with the same signs in another meaning.
_PROGRAMS = (
    "annotations",
    "args",
    "binaryData",
    "command",
    "data",
    "env",
    "exec",
    "expr",
    "query",
    "script",
    "stringData",
    "userData",
)
# Content that an unread part of an input may have. Each check considers only the kinds that it needs.
Part = Literal["pools", "software", "device-plugin", "objects"]
ANYTHING: frozenset[Part] = frozenset(get_args(Part))
# Content of known software: no pool, and no object that limits pods of other software.
SOFTWARE: frozenset[Part] = frozenset(("software", "device-plugin"))


class Marks:
    """Marks in a text that replace some of its parts.

    Args:
        text: The text, which may already contain such characters.
    """

    def __init__(self, text: str) -> None:
        """Start without a mark."""
        self._parts: list[str] = []
        self._open = next((each for each in _OPENING if each not in text), _OPENING[-1])
        self._pattern = re.compile(f"{self._open}([0-9]{{1,9}}){_CLOSE}")

    def mark(self, part: str) -> str:
        """Return a new mark that replaces a part."""
        self._parts.append(part)
        return f"{self._open}{len(self._parts) - 1}{_CLOSE}"

    def restore(self, content: Any, made: Callable[[str], Any] = str) -> Any:
        """Return parsed content with the parts put back in place of the marks.

        Args:
            content: The parsed content.
            made: Function for a value that had a mark in it. Keys stay texts.
        """
        if isinstance(content, dict):
            return {self._text(key): self.restore(value, made) for key, value in content.items()}
        if isinstance(content, list):
            return [self.restore(each, made) for each in content]
        return made(self._text(content)) if isinstance(content, str) and self._open in content else content

    def _text(self, text: Any) -> Any:
        # An escape in the text may produce a mark that isn't in the list.
        return self._pattern.sub(self._part, text) if isinstance(text, str) else text

    def _part(self, found: re.Match[str]) -> str:
        number = int(found.group(1))
        return self._parts[number] if number < len(self._parts) else found.group()


def with_placeholders(content: Any) -> Any:
    """Return an object in which each value with a placeholder is `Unknown`."""
    if isinstance(content, dict):
        return {key: value if key in _PROGRAMS else with_placeholders(value) for key, value in content.items()}
    if isinstance(content, list):
        return [with_placeholders(each) for each in content]
    if isinstance(content, str) and "\n" not in content and _PLACEHOLDER.search(content):
        return Unknown(content)
    return content


def has_actions(text: str) -> bool:
    """Whether a text has template actions."""
    return bool(_ACTION.search(text))


def is_block_template(text: str) -> bool:
    """Whether a text has template actions on separate lines, so that its content is known only after rendering."""
    return bool(_BLOCK.search(text))


def marked(text: str) -> tuple[str, Marks]:
    """Return a template's text with each action replaced by a mark, which YAML reads as a word, and the marks."""
    marks = Marks(text)
    return _ACTION.sub(lambda found: marks.mark(found.group()), text), marks


@dataclass(frozen=True, slots=True)
class Origin:
    """A place in the input.

    Attributes:
        file: Path of the file, as the user wrote it.
        path: Construct path of a resource, ``Kind namespace/name`` of an object.
        resource: Key of the resource that contains it: template and logical id.
        template: Template that helm rendered it from, beginning with the name of the chart; ``None`` for plain objects.
    """

    file: str
    path: str
    resource: str | None = None
    template: str | None = None

    def __str__(self) -> str:
        return f"{self.path} in {self.file}"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a file.

    Attributes:
        file: Path of the file.
        line: Line, from 1; 0 if only the file is known.
        column: Column, from 1; ``None`` if only the line is known.
    """

    file: str
    line: int
    column: int | None

    def __str__(self) -> str:
        return ":".join(str(each) for each in (self.file, self.line, self.column) if each)


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of the input that the checker can't read.

    Attributes:
        origin: Its place.
        reason: Why it can't be read.
        may_hold: Possible content: ``pools``, ``software`` (controllers and DaemonSets), a ``device-plugin``,
            ``objects`` of Kubernetes.
    """

    origin: Origin
    reason: str
    may_hold: frozenset[Part] = ANYTHING


@dataclass(frozen=True, slots=True)
class BrokenReference:
    """A reference of a kustomization, an Application or a release to a target that doesn't exist.

    Attributes:
        origin: Its place.
        text: The reference and its target.
        unsure: Whether the target may exist outside of the input.
        silent: Whether the program that reads it ignores it and doesn't fail.
    """

    origin: Origin
    text: str
    unsure: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that occurs twice in one mapping of a document, or that is read as another key.

    Attributes:
        origin: Its place, of the last occurrence.
        key: The key.
    """

    origin: Origin
    key: RepeatedKey


@dataclass(frozen=True, slots=True)
class Object:
    """A Kubernetes object.

    Attributes:
        content: The object. Unknown parts are `Unknown`.
        origin: Its place in the input.
        cluster: The name of its cluster at that place; ``None`` in a plain file.
        alternative: Name of the only alternative that has this version of it; empty if all have it.
        kind: Its kind.
        group: Its API group, empty for the core.
        name: Its name.
        namespace: Its namespace.
        spec: Its ``spec``.
    """

    content: Mapping[str, Any]
    origin: Origin
    cluster: Any = None
    alternative: str = ""
    # Read once, because rules read them from every object.
    kind: str = field(init=False, repr=False, compare=False)
    group: str = field(init=False, repr=False, compare=False)
    name: str = field(init=False, repr=False, compare=False)
    namespace: str = field(init=False, repr=False, compare=False)
    spec: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        metadata = mapping(self.content.get("metadata"))
        # The API server completes generateName to a name.
        unnamed = f"{metadata['generateName']}*" if "generateName" in metadata else "(no name)"
        object.__setattr__(self, "name", str(metadata.get("name") or unnamed))
        object.__setattr__(self, "namespace", str(metadata.get("namespace") or "default"))
        object.__setattr__(self, "spec", mapping(self.content.get("spec")))
        group, slash, _ = str(self.content.get("apiVersion")).partition("/")
        object.__setattr__(self, "kind", str(self.content.get("kind")))
        object.__setattr__(self, "group", group if slash else "")

    @property
    def title(self) -> str:
        """Its kind, namespace and name."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def labels(self) -> Mapping[str, Any]:
        """Its labels."""
        return mapping(dig(self.content, "metadata", "labels"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its annotations."""
        return mapping(dig(self.content, "metadata", "annotations"))

    @property
    def is_live(self) -> bool:
        """Whether it was read from a running cluster. Only the API server writes these fields."""
        written = mapping(self.content.get("metadata"))
        return any(isinstance(written.get(key), str) for key in ("uid", "resourceVersion", "creationTimestamp"))


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm release.

    Attributes:
        name: Name of the chart, without registry.
        version: Its version; ``None`` if it isn't known.
        values: Its values, including `Unknown` parts.
        origin: Its place in the input.
        properties: Properties of the resource that installs it.
        namespace: Namespace of the release.
        cluster: The name of its cluster at that place.
        alternative: Name of the only alternative that has this version of it; empty if all have it.
    """

    name: str
    version: str | None
    values: Mapping[str, Any]
    origin: Origin
    properties: Mapping[str, Any]
    namespace: str
    cluster: Any = None
    alternative: str = ""


def parse_objects(
    content: Any,
    file: str,
    resource: str | None = None,
    cluster: Any = None,
    *,
    templated: bool = False,
    template: str | None = None,
) -> Iterator[Object]:
    """Yield the Kubernetes objects of a document, including objects in lists.

    Args:
        content: The document.
        file: Path of its file.
        resource: Key of the resource that contains it.
        cluster: The name of its cluster at that place.
        templated: Whether another program may set a part of it.
        template: Template of a chart from which helm rendered it.
    """
    for each in content if isinstance(content, list) else [content]:
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str):
            continue
        if each["kind"].endswith("List") and isinstance(each.get("items"), list):
            yield from parse_objects(each["items"], file, resource, cluster, templated=templated, template=template)
        elif "apiVersion" in each:
            name, space = dig(each, "metadata", "name"), dig(each, "metadata", "namespace")
            place = f"{each['kind']} {f'{space}/' if space else ''}{name}"
            own = {**with_placeholders(each), "kind": each["kind"]} if templated else each
            yield Object(own, Origin(file, place, resource, template), cluster)
