"""How the nodes of a pool are bought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class OnDemand:
    """Instances at the list price, taken from what EC2 has free at that moment."""

    purchase_option: ClassVar[str] = "on-demand"
    managed_capacity_type: ClassVar[str] = "ON_DEMAND"


@dataclass(frozen=True, slots=True)
class Spot:
    """Spare instances at a discount, which EC2 takes back with two minutes' notice."""

    purchase_option: ClassVar[str] = "spot"
    managed_capacity_type: ClassVar[str] = "SPOT"


Capacity = OnDemand | Spot
CAPACITIES: dict[str, Capacity] = {each.purchase_option: each for each in (OnDemand(), Spot())}


def refuse_unless_capacity(who: object, capacity: object) -> None:
    """Refuse what is no `Capacity`.

    Raises:
        TypeError: ``capacity`` is a class, a string or something else.
    """
    if not isinstance(capacity, (OnDemand, Spot)):
        raise TypeError(f"{who}: capacity must be OnDemand() or Spot(), got {capacity!r}")
