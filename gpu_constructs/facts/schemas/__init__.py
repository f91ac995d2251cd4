"""What services take: schemas of resources and objects without their prose, from `schemas.zip`.

A schema is JSON Schema in the words that `tools/schemas/reduce.py` keeps. `make schemas` writes the file; its index
names source, version and day of each.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from gpu_constructs.data_files import data_of
from gpu_constructs.light_dataclasses import dataclass

Schema = Mapping[str, Any]
_INDEX = "index.json"
# Whose schemas are read in another way than those of controllers.
KUBERNETES, EKSCTL = "Kubernetes", "eksctl"


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaSource:
    """Whose schemas were read.

    Attributes:
        name: What people call the publisher.
        version: Version of what was read.
        source: Where the next one is seen.
        as_of: Day it was read, ISO 8601.
        charts: Version of each chart that installs it, by name.
        deprecated: Those of the kinds that are served with a warning.
        rules: Whether rules in CEL stand in the schemas.
        kinds: Resource types, ``apiVersion/kind`` of objects, or ``chart/<name>``.
    """

    name: str
    version: str
    source: str
    as_of: str
    charts: Mapping[str, str]
    deprecated: tuple[str, ...]
    rules: bool
    kinds: tuple[str, ...]


@cache
def _archive() -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(data_of(__name__, "schemas.zip")))


@cache
def sources() -> tuple[SchemaSource, ...]:
    """Return every source."""
    index = json.loads(_archive().read(_INDEX))
    lists = ("kinds", "deprecated")
    return tuple(SchemaSource(**{**each, **{name: tuple(each[name]) for name in lists}}) for each in index)


@cache
def _by_kind() -> Mapping[str, SchemaSource]:
    return MappingProxyType({kind: each for each in sources() for kind in each.kinds})


def source_of(kind: str) -> SchemaSource | None:
    """Return whose schema of a kind is known, ``None`` where none is."""
    return _by_kind().get(kind)


def schema_of(kind: str) -> Schema | None:
    """Return the schema of a kind, as `SchemaSource.kinds` names it, ``None`` where it is not known."""
    source = source_of(kind)
    return _schemas(source.name)[kind] if source else None


def created_with(kind: str) -> tuple[str, ...]:
    """Return the properties of a resource type whose change makes another resource, with slashes; none if unknown."""
    return tuple((schema_of(kind) or {}).get("createOnly", ()))


@cache
def _schemas(name: str) -> Mapping[str, Schema]:
    """Read the schemas of a source: lines of parts that later ones refer to, then the kinds."""
    parts: list[Any] = []

    def linked(value: dict[str, Any]) -> Any:
        return parts[value["$ref"]] if value.keys() == {"$ref"} else value

    for line in _archive().read(name).decode().splitlines():
        parts.append(json.loads(line, object_hook=linked))
    return MappingProxyType(parts[-1])
