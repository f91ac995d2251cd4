"""The context keys of this library. Set them for a whole app or for part of its tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from gpu_facts.refusals import near, refuse_unless_choice

_PREFIX = "gpu-constructs"
# Tool that applies manifests and charts.
DELIVERY = f"{_PREFIX}:delivery"
# Folder of the files that Argo CD or Flux applies.
FOLDER = f"{_PREFIX}:manifests"
# Your own registry with copies of the charts, for networks without a route to the internet.
CHART_MIRROR = f"{_PREFIX}:chartMirror"
# Whether the library applies the CRDs inside a chart before its release. With ``false`` you apply them.
CHART_DEFINITIONS = f"{_PREFIX}:chartDefinitions"

Delivery = Literal["kubectl", "argocd", "flux"]

# Similarity above which a key is a typo of the prefix. "my-gpu-constructs" is below: it belongs to someone else.
_CLOSENESS = 0.92
_SEPARATOR = re.compile(r"[:/.]+")


def refuse_wrong_context(context: Mapping[str, Any]) -> None:
    """Reject unknown keys with the prefix of this library, and invalid values of known keys.

    Raises:
        ValueError: A key or value is invalid.
    """
    for key, value in context.items():
        if key in _CHECKS:
            _CHECKS[key](value)
        elif _is_ours(key):
            raise ValueError(
                f"context: key must be one of {', '.join(_CHECKS)}, got {key!r}{_hint(key) or '; remove it'}"
            )


def _is_ours(key: str) -> bool:
    """Whether a context key has the prefix of this library, or a typo of it."""
    prefix, *names = _SEPARATOR.split(key, maxsplit=1)
    return bool(names) and near(prefix.replace("_", "-"), [_PREFIX], closeness=_CLOSENESS) is not None


def _hint(key: str) -> str:
    return hint_of_a_bare_name(_SEPARATOR.split(key, maxsplit=1)[-1])


def hint_of_a_bare_name(name: str) -> str:
    """Return ``; did you mean 'gpu-constructs:delivery'?`` for a key of this library without its prefix."""
    nearest = near(name, [each.partition(":")[2] for each in _CHECKS])
    return f"; did you mean '{_PREFIX}:{nearest}'?" if nearest else ""


def _refuse_delivery(value: object) -> None:
    refuse_unless_choice("context", DELIVERY, value, get_args(Delivery))


def _refuse_folder(value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"context: {FOLDER} must be a folder, got {value!r}; write a relative path")


def _refuse_mirror(value: object) -> None:
    if not isinstance(value, str) or not value.startswith("oci://"):
        raise ValueError(
            f"context: {CHART_MIRROR} must be an OCI registry, got {value!r}; write one such as "
            "'oci://111122223333.dkr.ecr.us-east-1.amazonaws.com/charts'"
        )


def _refuse_definitions(value: object) -> None:
    # The command line passes strings.
    if value not in (True, False, "true", "false"):
        raise ValueError(f"context: {CHART_DEFINITIONS} must be true or false, got {value!r}; write one of them")


_CHECKS: dict[str, Callable[[object], None]] = {
    DELIVERY: _refuse_delivery,
    FOLDER: _refuse_folder,
    CHART_MIRROR: _refuse_mirror,
    CHART_DEFINITIONS: _refuse_definitions,
}
