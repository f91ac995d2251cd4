"""A chart that an object of Argo CD or Flux installs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_facts.software.daemon_sets import daemon_sets_of_chart
from gpu_preflight.reading.objects import ANYTHING, SOFTWARE, Chart, Object, Part
from gpu_preflight.reading.unknown import known_text

# Of a range of versions only the controller knows which one it takes.
_VERSION = regex(r"v?\d+\.\d+\.\d+[^\s*<>=~^|,]*")


def parts_of_chart(name: Any) -> frozenset[Part]:
    """Return what a chart may install that can't be read: software that preflight knows installs no pool."""
    known = daemon_sets_of_chart(str(name).rstrip("/").rsplit("/", 1)[-1], None, {}) is not None
    return SOFTWARE if known else ANYTHING


def chart_of(owner: Object, name: Any, version: Any, values: Mapping[str, Any], namespace: str, release: str) -> Chart:
    """Return the release of a chart that an object stands for."""
    text = known_text(version) or ""
    return Chart(
        name=str(name).rstrip("/").rsplit("/", 1)[-1],
        version=text if _VERSION.fullmatch(text) else None,
        values=values,
        origin=owner.origin,
        properties={"Release": release},
        namespace=namespace,
        cluster=owner.cluster,
    )
