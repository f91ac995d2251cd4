"""Kubernetes objects and Helm releases as they stand in an input, and where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.notation.loader import RepeatedKey
from gpu_preflight.reading.placeholders import with_placeholders
from gpu_preflight.reading.unknown import dig, mapping


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something stands.

    Attributes:
        file: Path of the file.
        path: Construct path of a resource, ``Kind namespace/name`` of an object.
        resource: Key of the resource that it stands in.
    """

    file: str
    path: str
    resource: str | None = None

    def __str__(self) -> str:
        return f"{self.path} in {self.file}"


# What an unread part of an input may hold. Each question considers only its kind.
Part = Literal["pools", "software", "device-plugin", "objects"]
ANYTHING: frozenset[Part] = frozenset(get_args(Part))
# What known software installs: no pool, and no object that limits pods of others.
SOFTWARE: frozenset[Part] = frozenset(("software", "device-plugin"))


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of the input that preflight can't read.

    Attributes:
        origin: Where it is.
        reason: Why it can't be read.
        may_hold: What it may contain: ``pools``, ``software`` (controllers and DaemonSets), a ``device-plugin``,
            ``objects`` of Kubernetes.
    """

    origin: Origin
    reason: str
    may_hold: frozenset[Part] = ANYTHING


@dataclass(frozen=True, slots=True)
class BrokenReference:
    """A reference of a kustomization, an Application or a release to something that doesn't exist.

    Attributes:
        origin: Where it is.
        text: What refers to what.
        unsure: Whether the target may exist outside of the input.
        silent: Whether the program that reads it ignores it, rather than failing.
    """

    origin: Origin
    text: str
    unsure: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that stands twice in one mapping of a document, or that is read as another.

    Attributes:
        origin: Where it stands, the last time.
        key: The key.
    """

    origin: Origin
    key: RepeatedKey


@dataclass(frozen=True, slots=True)
class Object:
    """A Kubernetes object.

    Attributes:
        content: The object; parts that are not known are `Unknown`.
        origin: Where it stands.
        cluster: What its cluster is called where it stands; ``None`` in a plain file.
        alternative: Name of the only alternative that has this version of it; empty where all have it.
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
    # Read once: rules ask every object for them.
    kind: str = field(init=False, repr=False, compare=False)
    group: str = field(init=False, repr=False, compare=False)
    name: str = field(init=False, repr=False, compare=False)
    namespace: str = field(init=False, repr=False, compare=False)
    spec: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        metadata = mapping(self.content.get("metadata"))
        object.__setattr__(self, "name", str(metadata.get("name")))
        object.__setattr__(self, "namespace", str(metadata.get("namespace") or "default"))
        object.__setattr__(self, "spec", mapping(self.content.get("spec")))
        group, slash, _ = str(self.content.get("apiVersion")).partition("/")
        object.__setattr__(self, "kind", str(self.content.get("kind")))
        object.__setattr__(self, "group", group if slash else "")

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
        """Whether it was read from a running cluster: the API server writes these fields, and no author does."""
        written = mapping(self.content.get("metadata"))
        return any(isinstance(written.get(key), str) for key in ("uid", "resourceVersion", "creationTimestamp"))


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm release.

    Attributes:
        name: Name of the chart, without registry.
        version: Its version, ``None`` where it is not known.
        values: Its values; `Unknown` parts included.
        origin: Where it stands.
        properties: Properties of the resource that installs it.
        namespace: Namespace of the release.
        cluster: What its cluster is called where it stands.
        alternative: Name of the only alternative that has this version of it; empty where all have it.
    """

    name: str
    version: str | None
    values: Mapping[str, Any]
    origin: Origin
    properties: Mapping[str, Any]
    namespace: str
    cluster: Any = None
    alternative: str = ""


def objects_of(
    content: Any, file: str, resource: str | None = None, cluster: Any = None, *, templated: bool = False
) -> Iterator[Object]:
    """Yield the Kubernetes objects of a document, those of lists included.

    Args:
        content: The document.
        file: Path of its file.
        resource: Key of the resource that it stands in.
        cluster: What its cluster is called there.
        templated: Whether another program may fill in a part of it.
    """
    for each in content if isinstance(content, list) else [content]:
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str):
            continue
        if each["kind"].endswith("List") and isinstance(each.get("items"), list):
            yield from objects_of(each["items"], file, resource, cluster, templated=templated)
        elif "apiVersion" in each:
            name, space = dig(each, "metadata", "name"), dig(each, "metadata", "namespace")
            place = f"{each['kind']} {f'{space}/' if space else ''}{name}"
            own = {**with_placeholders(each), "kind": each["kind"]} if templated else each
            yield Object(own, Origin(file, place, resource), cluster)
