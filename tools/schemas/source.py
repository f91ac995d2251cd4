"""Where schemas come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Schemas of one publisher.

    Attributes:
        name: What people call the publisher.
        version: Version of what was read.
        url: Where the next one is seen.
        as_of: Day of the version, ISO 8601.
        kinds: Reduced schemas by kind: a resource type, ``apiVersion/kind``, or ``chart/<name>``.
        charts: Version of each chart that installs it, by name.
        rules: Whether rules in CEL stand in the schemas.
        deprecated: Those of the kinds that are served with a warning.
    """

    name: str
    version: str
    url: str
    as_of: str
    kinds: Mapping[str, Any]
    charts: Mapping[str, str] = field(default_factory=dict)
    deprecated: tuple[str, ...] = ()
    rules: bool = False
