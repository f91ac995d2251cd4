"""Construct paths of the resources of an assembly, from its metadata, which lists them by logical id."""

from __future__ import annotations

from collections.abc import Iterable

_NESTED = ".NestedStackResource"
# Max characters of a construct path. No app has longer paths, and the search time grows with the length.
MAX_PATH = 4096


class ConstructPaths:
    """Construct paths of a stack and of the stacks nested in it.

    The metadata lists both, and a logical id is unique in its own template only.
    """

    def __init__(self) -> None:
        """Begin without a path."""
        self._ids: dict[str, list[str]] = {}
        self._scopes: set[str] = set()
        self._by_scope: dict[tuple[str, str], list[str]] | None = None

    def note(self, logical_id: str, path: str) -> None:
        """Add the path of a resource."""
        if len(path) <= MAX_PATH:
            self._ids.setdefault(logical_id, []).append(path)
            self._scopes |= {_scope(path)} if path.endswith(_NESTED) else set()
            self._by_scope = None

    def find(self, logical_id: str, nested: Iterable[str] = ()) -> str | None:
        """Return the construct path of a resource; ``None`` if no path, or more than one, matches.

        ``Group2`` of the nested stack ``Inner1`` is the only ``Group2`` below ``/App/Inner/``, where ``Inner1`` is
        ``/App/Inner.NestedStack/Inner.NestedStackResource``.

        Args:
            logical_id: Its logical id.
            nested: Logical ids of the nested stacks that it is in, the outermost first.
        """
        if self._by_scope is None:
            self._by_scope = self._sorted_by_scope()
        scope, path = "", None
        for each in (*nested, logical_id):
            paths = self._by_scope.get((scope, each), [])
            path = paths[0] if len(paths) == 1 else None
            scope = _scope(path or "")
        return path

    def _sorted_by_scope(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for logical_id, paths in self._ids.items():
            for path in paths:
                found.setdefault((self._innermost_scope(path), logical_id), []).append(path)
        return found

    def _innermost_scope(self, path: str) -> str:
        while path and f"{path}/" not in self._scopes:
            path = path.rpartition("/")[0]
        return f"{path}/" if path else ""


def _scope(path: str) -> str:
    """Return the common prefix of the construct paths in a nested stack."""
    return f"{path.rpartition('.NestedStack/')[0]}/"
