"""The app around a construct: the stack, with its account and region, and the context keys of this library.

Set the keys for a whole app or for part of its tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from weakref import ReferenceType, WeakKeyDictionary

import aws_cdk as cdk
from constructs import Construct

from gpu_facts.refusals import near, refuse_unless_choice

# Each CDK call crosses a process boundary, so results are cached.
_STACKS: WeakKeyDictionary[object, ReferenceType[cdk.Stack]] = WeakKeyDictionary()
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


def owning_stack(construct: Construct) -> cdk.Stack:
    """Return the stack of a construct."""
    known = _STACKS.get(construct)
    found = known() if known is not None else None
    if found is None:
        found = cdk.Stack.of(construct)
        _STACKS[construct] = ReferenceType(found)
    return found


def keep_stack(construct: Construct, scope: Construct) -> None:
    """Record that a construct is in the stack of its scope, to save a call to the CDK."""
    _STACKS[construct] = ReferenceType(owning_stack(scope))


@dataclass(frozen=True, slots=True)
class Place:
    """Account and region of a stack. Each is a token unless the stack sets it."""

    partition: str
    region: str
    account: str


_PLACES: WeakKeyDictionary[cdk.Stack, Place] = WeakKeyDictionary()


def stack_place(construct: Construct) -> Place:
    """Return account and region of a construct's stack."""
    stack = owning_stack(construct)
    if stack not in _PLACES:
        _PLACES[stack] = Place(stack.partition, stack.region, stack.account)
    return _PLACES[stack]
