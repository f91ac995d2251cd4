"""Variables that Flux puts into what it applies.

Sources: https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution,
fluxcd/pkg 0180cac2f kustomize/kustomize_varsub.go (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, known_text, mapping, mappings

_DISABLED = "kustomize.toolkit.fluxcd.io/substitute"
# A name, and what stands in place of one that is not set or empty.
_VARIABLE = regex(r"(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Variables:
    """Values of variables.

    Attributes:
        values: What is known.
        hidden: Names whose value is not known.
        open: Whether there may be others.
        unread: Where values stand that are not read.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    open: bool = False
    unread: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether Flux substitutes at all; without a variable it leaves every text as it is."""
        return bool(self.values or self.hidden or self.open)

    def put_into(self, text: str) -> str:
        """Return a text with the values of its variables; one that is not known stays."""
        return _VARIABLE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        escaped, name, kind, default = found.groups()
        if escaped:
            return found.group()[1:]
        if name in self.hidden or (self.open and name not in self.values):
            return found.group()
        return self.values.get(name) or (default or "" if kind else "")


def variables(owner: Object, every: list[Object]) -> Variables:
    """Return the variables of a Kustomization: those of ConfigMaps and Secrets, then those that it states itself."""
    values: dict[str, str] = {}
    hidden: set[str] = set()
    unread: list[str] = []
    for reference in mappings(dig(owner.spec, "postBuild", "substituteFrom")):
        found = _source(reference, owner, every)
        if found is None:
            unread += [] if reference.get("optional") is True else [f"{reference.get('kind')} {reference.get('name')}"]
            continue
        known = mapping(found.content.get("data")) if found.kind == "ConfigMap" else {}
        texts = {key: text for key, each in known.items() if (text := known_text(each)) is not None}
        names = {*mapping(found.content.get("data")), *mapping(found.content.get("stringData"))}
        values |= {key: text.replace("\n", "") for key, text in texts.items()}
        hidden = (hidden - texts.keys()) | (names - texts.keys())
    stated = mapping(dig(owner.spec, "postBuild", "substitute"))
    values |= {key: str(value).replace("\n", "") for key, value in stated.items()}
    return Variables(values, frozenset(hidden - stated.keys()), bool(unread), tuple(unread))


def _source(reference: Mapping[str, Any], owner: Object, every: list[Object]) -> Object | None:
    for each in every:
        named = (each.kind, each.name) == (reference.get("kind"), str(reference.get("name")))
        if named and each.namespace == owner.namespace:
            return each
    return None


def is_left_alone(content: Mapping[str, Any]) -> bool:
    """Whether an object says that nothing is put into it."""
    metadata = mapping(content.get("metadata"))
    return any(mapping(metadata.get(each)).get(_DISABLED) == "disabled" for each in ("labels", "annotations"))
