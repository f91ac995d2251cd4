"""Pods that an operator makes of an object."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, known_number

# What an object that is not in the input may add to a pod.
OPEN = {name: Unknown(f"${{{name} of the runtime}}") for name in ("nodeSelector", "affinity", "tolerations")}


@dataclass(frozen=True, slots=True)
class Part:
    """Pods of an object that are alike.

    Attributes:
        name: Name of the part; empty for the whole.
        template: Template of its pods.
        replicas: How many; ``None`` where it is not known.
        together: Whether all must run at once.
    """

    name: str
    template: Any
    replicas: int | None
    together: bool = False


def count(value: Any, absent: int = 1) -> int | None:
    """Return a number of pods, ``None`` where it is not known."""
    if value is None:
        return absent
    number = known_number(value)
    return max(number, 0) if number is not None else None


def named(name: Any, kinds: tuple[str, ...], every: Iterable[Object]) -> Object | None:
    """Return the object of some kinds that has a name."""
    return next((each for each in every if each.kind in kinds and each.name == str(name)), None)
