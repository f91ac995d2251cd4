"""Which operations are played here rather than by moto: methods that say so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpu_constructs.rehearsal.players.aws.api.requests import Request

# What is answered; nothing when moto's answer will do.
Play = Callable[[Request], Mapping[str, Any] | None]
Method = TypeVar("Method", bound=Callable[..., Mapping[str, Any] | None])


def plays(service: str, operation: str) -> Callable[[Method], Method]:
    """Mark a method as the one that answers an operation.

    Args:
        service: Name of the SDK's client.
        operation: Name of the operation, as the API reference has it.
    """

    def mark(method: Method) -> Method:
        method.operation = (service, operation)  # type: ignore[attr-defined]  # functions carry attributes
        return method

    return mark


def operations_of(player: object) -> dict[tuple[str, str], Play]:
    """Return what a player's marked methods answer, by service and operation."""
    methods = (getattr(player, name) for name in dir(player) if not name.startswith("_"))
    return {method.operation: method for method in methods if hasattr(method, "operation")}
