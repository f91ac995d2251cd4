"""A known DaemonSet with the values that somebody sets, whatever these are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_constructs.facts.software.model import (
    Container,
    DaemonSetSpec,
    KnownDaemonSet,
    KnownSoftware,
    NodeSelectorTerm,
    Switch,
    Toleration,
)
from gpu_constructs.facts.software.quantities import REQUESTS, is_quantity, total

_ABSENT = object()
_TOLERATION_KEYS = {"key", "operator", "value", "effect", "tolerationSeconds"}


class _Misread(Exception):
    """A value is not of the type it must have."""


def resolve(software: KnownSoftware, values: object, *, version_was_read: bool) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets that software has with some values; ``None`` when a value installs what was not read.

    A value of another type than it must have leaves the default, and what it would have changed is not exact.
    """
    if any(_is_set(values, path) for path in software.opaque_paths):
        return None
    exact = version_was_read and isinstance(values, Mapping)
    found = (_Resolution(each, values, exact).spec() for each in software.daemon_sets)
    return tuple(each for each in found if each is not None)


class _Resolution:
    """One DaemonSet being resolved; remembers whether a value could not be read."""

    def __init__(self, known: KnownDaemonSet, values: object, exact: bool) -> None:
        self.known, self.values = known, values
        self.exact = exact and all(_find(values, path) is _ABSENT for path in known.inexact_paths)

    def spec(self) -> DaemonSetSpec | None:
        known = self.known
        if not all([self._is_on(each) for each in known.switches]):
            return None
        return DaemonSetSpec(
            name=known.name,
            tolerations=self._tolerations(),
            node_selector=self._node_selector(),
            node_affinity=self._node_affinity(),
            requests=total([self._requests(each) for each in known.containers]),
            advertises=known.advertises,
            source=known.source,
            exact=self.exact,  # last: what stands above may clear it
        )

    def _is_on(self, switch: Switch) -> bool:
        value = _find(self.values, switch.path)
        if value is _ABSENT:
            value = switch.default
        elif not isinstance(value, type(switch.on)):
            value, self.exact = switch.default, False
        return value == switch.on

    def _tolerations(self) -> tuple[Toleration, ...]:
        known = self.known
        if known.tolerate_all_path and not self._is_on(Switch(path=known.tolerate_all_path)):
            return known.tolerations_unless_all + (self._listed_tolerations() or ())
        if known.tolerate_all_path:
            return known.tolerations
        listed = self._listed_tolerations()
        if listed is None or (known.tolerations_kept_when_empty and not listed):
            return known.tolerations
        return known.tolerations + listed if known.tolerations_added else listed

    def _listed_tolerations(self) -> tuple[Toleration, ...] | None:
        value = _find(self.values, self.known.tolerations_path)
        if value is _ABSENT:
            return None
        try:
            return tuple(_toleration(each) for each in _list(value))
        except _Misread:
            self.exact = False
            return None

    def _node_selector(self) -> Mapping[str, str]:
        value = _find(self.values, self.known.selector_path)
        if value is _ABSENT:
            return self.known.node_selector
        if not isinstance(value, Mapping) or not all(_is_label(key, each) for key, each in value.items()):
            self.exact = False
            return self.known.node_selector
        return {key: each for key, each in {**self.known.node_selector, **value}.items() if each is not None}

    def _labelled(self) -> tuple[NodeSelectorTerm, ...] | None:
        """Return the terms of labels that the values name, ``None`` without them."""
        labels = _find(self.values, self.known.labels_path)
        if labels is _ABSENT:
            return None
        keys, values = _find(labels, "keys"), _find(labels, "values")
        if not _is_texts(keys) or not _is_texts(values) or not keys:
            self.exact = False
            return None
        terms = [[{"key": key, "operator": "In", "values": sorted(values)}] for key in keys]
        # What the chart's template writes behind its loop belongs to the last of the terms.
        terms[-1] += self.known.node_affinity[-1]["matchExpressions"][1:]
        return tuple({"matchExpressions": each} for each in terms)

    def _node_affinity(self) -> tuple[NodeSelectorTerm, ...]:
        if (labelled := self._labelled()) is not None:
            return labelled
        default, affinity = self.known.node_affinity, _find(self.values, self.known.affinity_path)
        keys = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
        for key in keys:
            if affinity is _ABSENT:
                return default
            if affinity is None:
                return ()
            if not isinstance(affinity, Mapping):
                self.exact = False
                return default
            affinity = affinity.get(key, _ABSENT)
        if affinity is _ABSENT:
            return default
        if not isinstance(affinity, (list, tuple)) or not all(_is_term(each) for each in affinity):
            self.exact = False
            return default
        return tuple(affinity)

    def _requests(self, container: Container) -> Mapping[str, str]:
        value, default = _find(self.values, container.replacing_path, empty=({}, None)), {}
        if value is _ABSENT:
            value, default = _find(self.values, container.path, empty=({}, None)), dict(container.requests)
        if value is _ABSENT:
            return default
        try:
            requests, limits = (_amounts(_mapping(value).get(part)) for part in ("requests", "limits"))
        except _Misread:
            self.exact = False
            return container.requests
        # A container that only limits a resource asks for as much.
        merged = {**limits, **default, **requests}
        return {name: amount for name, amount in merged.items() if amount is not None}


def _find(values: object, paths: str, *, empty: tuple[object, ...] = ()) -> Any:
    """Return what stands at the first of some paths that is set, and is none of ``empty``."""
    for path in filter(None, paths.split(",")):
        found = values
        for key in path.split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT and found not in empty:
            return found
    return _ABSENT


def _is_set(values: object, path: str) -> bool:
    found = _find(values, path)
    return found is not _ABSENT and found is not None and found is not False


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


def _list(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise _Misread
    return list(value)


def _mapping(value: object) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _Misread
    return value


def _toleration(value: object) -> Toleration:
    fields = {key: each for key, each in _mapping(value).items() if each is not None}
    if not fields.keys() <= _TOLERATION_KEYS:
        raise _Misread
    return {key: str(each) if key == "tolerationSeconds" else _text(each) for key, each in fields.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _Misread
    return value


def _amounts(value: object) -> dict[str, str | None]:
    found = {} if value is None else _mapping(value)
    return {name: _amount(found[name]) for name in REQUESTS if name in found}


def _amount(value: object) -> str | None:
    if value is None:
        return None
    text = str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else _text(value)
    if not is_quantity(text):
        raise _Misread
    return text


def _is_label(key: object, value: object) -> bool:
    return isinstance(key, str) and (value is None or isinstance(value, str))


def _is_term(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    parts = [value.get(key, ()) for key in ("matchExpressions", "matchFields")]
    return all(isinstance(part, (list, tuple)) and all(isinstance(each, Mapping) for each in part) for part in parts)
