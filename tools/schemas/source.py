"""Where schemas come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Schemas of one publisher.

    Attributes:
        name: Name of the publisher.
        version: Version of the source.
        url: Address that shows the next version.
        as_of: Day of the version, ISO 8601.
        kinds: Reduced schemas by kind: a resource type, ``apiVersion/kind``, or ``chart/<name>``.
        charts: Version of each chart that installs it, by name.
        rules: Whether the schemas contain CEL rules.
        deprecated: The kinds that are served with a warning.
    """

    name: str
    version: str
    url: str
    as_of: str
    kinds: Mapping[str, Any]
    charts: Mapping[str, str] = field(default_factory=dict)
    deprecated: tuple[str, ...] = ()
    rules: bool = False
