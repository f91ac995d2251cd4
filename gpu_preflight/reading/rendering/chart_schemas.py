"""Schemas of a chart's values, which helm reads, and what they refer to.

helm fetches a reference to an address, and reads one to a file, when it checks values (4.3.1, 2026-11). A reference
within the schema begins with ``#``.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.documents import MAX_FILE_BYTES, MAX_FILES
from gpu_preflight.reading.rendering.network import is_closable

_SCHEMA = "values.schema.json"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
# Definitions of the language itself, which helm contains.
_DRAFT = regex(r"https?://json-schema\.org/(draft-0[467]|draft/(2019-09|2020-12))/schema#?")


def outside_reference(chart: Path) -> str | None:
    """Return the first reference by which helm would read something outside a chart; ``None`` if there is none.

    Args:
        chart: The folder of a chart, or a packed chart.
    """
    if not chart.is_dir():
        return _packed(chart)
    count = 0
    # helm follows links, too.
    for folder, _, names in os.walk(chart, followlinks=True):
        count += 1 + len(names)
        if count > MAX_FILES:
            return f"one of more than {MAX_FILES:,} files"
        for name in names:
            file = Path(folder, name)
            found = _reference_of(file) if name == _SCHEMA else _packed(file)
            if found is not None:
                return found
    return None


def _packed(file: Path) -> str | None:
    """Return what a packed chart may refer to: helm may read it only where it has no way to a network."""
    if file.suffix not in (".tgz", ".gz") or is_closable():
        return None
    return f"anything that the packed chart {file.name} names"


def _reference_of(file: Path) -> str | None:
    unreadable = f"an unreadable file, {file.name}"
    try:
        if not stat.S_ISREG(file.stat().st_mode) or file.stat().st_size > MAX_FILE_BYTES:
            return unreadable
        found: list[str] = []
        # Checks every occurrence of a duplicate key.
        json.loads(file.read_bytes(), object_pairs_hook=lambda pairs: found.extend(_outside(pairs)))
    except (OSError, ValueError, RecursionError):
        return unreadable
    return found[0] if found else None


def _outside(pairs: list[tuple[str, Any]]) -> Iterator[str]:
    for key, value in pairs:
        if not isinstance(value, str):
            continue
        if (key in _REFERENCES and not value.startswith("#")) or (key == "$schema" and not _DRAFT.fullmatch(value)):
            yield value[:200]
