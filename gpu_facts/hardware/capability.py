"""The one query language over the catalogue: what somebody asks of an instance type, and the types that have it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, cast, get_args

from gpu_facts.hardware.catalogue import Architecture, InstanceType, catalogue
from gpu_facts.image_releases import LTS
from gpu_facts.light import dataclass, regex
from gpu_facts.named_arguments import named_call
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_choice, words

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}
_BOUND = regex(r"\s*(>=|<=|>|<|=|)\s*(\d{1,9}(?:\.\d{1,6})?)\s*", re.ASCII)
Order = Literal["price", "gpus", "name"]
_FINDER = "find_instance_types"


@dataclass(frozen=True, slots=True)
class Bound:
    """A figure and how another compares to it.

    Attributes:
        sign: ``>=``, ``>``, ``=``, ``<=``, ``<``; empty is ``=``.
        amount: The figure.
    """

    sign: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Read a bound, e.g. ``>=80``.

        Raises:
            ValueError: The text is no bound.
        """
        found = _BOUND.fullmatch(text)
        if not found:
            raise ValueError(f"must be a number, with >=, >, =, <= or < before it, got {text!r}")
        return cls(found.group(1), float(found.group(2)))

    def holds(self, amount: float | None) -> bool:
        """Whether a figure keeps the bound; one that no source states keeps none."""
        return amount is not None and _OPERATORS[self.sign](amount, self.amount)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """What an instance type has to have.

    Attributes:
        gpu_memory_gib: Memory of one GPU, in GiB.
        gpus: GPUs of a node.
        vcpus: Virtual CPUs.
        memory_gib: Memory of a node, in GiB.
        models: GPUs as EC2 names them; empty for any.
        families: EC2 families; empty for any.
        architecture: CPU architecture; ``None`` for any.
        efa: Only types with EFA.
        mig: Only types whose GPUs can be partitioned with MIG.
        local_nvme: Only types with local NVMe disks.
        max_usd_per_hour: Highest list price, US dollars an hour; ``None`` for any.
        purchase_option: How it must be sold; ``None`` for any way.

    Raises:
        ValueError: No type has such a GPU or family.
    """

    gpu_memory_gib: tuple[Bound, ...] = ()
    gpus: tuple[Bound, ...] = ()
    vcpus: tuple[Bound, ...] = ()
    memory_gib: tuple[Bound, ...] = ()
    models: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    architecture: str | None = None
    efa: bool = False
    mig: bool = False
    local_nvme: bool = False
    max_usd_per_hour: float | None = None
    purchase_option: str | None = None

    def __post_init__(self) -> None:
        """Refuse names that no type bears."""
        for model in self.models:
            _refuse_unknown("gpu", model, names().models)
        for family in self.families:
            _refuse_unknown("family", family, names().families)

    def matches(self, row: InstanceType) -> bool:
        """Whether an instance type has it."""
        return self._meets_bounds(row) and self._is_named(row) and self._is_built_into(row)

    def _meets_bounds(self, row: InstanceType) -> bool:
        price = () if self.max_usd_per_hour is None else (Bound("<=", self.max_usd_per_hour),)
        figures = (
            (self.gpu_memory_gib, row.gpu_memory_gib),
            (self.gpus, row.gpus),
            (self.vcpus, row.vcpus),
            (self.memory_gib, row.memory_gib),
            (price, row.usd_per_hour),
        )
        return all(bound.holds(figure) for bounds, figure in figures for bound in bounds)

    def _is_named(self, row: InstanceType) -> bool:
        named = not self.models or row.gpu_model.lower() in map(str.lower, self.models)
        return named and (not self.families or row.family in self.families)

    def _is_built_into(self, row: InstanceType) -> bool:
        asked = (
            (self.architecture, row.architecture == self.architecture),
            (self.efa, bool(row.max_efa)),
            (self.mig, row.mig),
            (self.local_nvme, row.nvme_disks > 0),
            (self.purchase_option, self.purchase_option in row.purchase_options),
        )
        return all(has for wanted, has in asked if wanted)


@dataclass(frozen=True, slots=True)
class Names:
    """The names that some instance type bears, sorted.

    Attributes:
        models: GPUs as EC2 names them.
        families: EC2 families.
        purchase_options: Ways of selling.
    """

    models: tuple[str, ...]
    families: tuple[str, ...]
    purchase_options: tuple[str, ...]


@cache
def names() -> Names:
    """Return the names that some instance type bears."""
    rows = catalogue().values()
    return Names(
        models=tuple(sorted({each.gpu_model for each in rows})),
        families=tuple(sorted({each.family for each in rows})),
        purchase_options=tuple(sorted({option for each in rows for option in each.purchase_options})),
    )


def _refuse_unknown(argument: str, name: str, known: Sequence[str]) -> None:
    if name.lower() not in map(str.lower, known):
        refuse_unless_choice("instances", argument, name, known)


def matching(*capabilities: Capability, order: Order = "price") -> Sequence[InstanceType]:
    """Return the instance types that have every capability; those without a list price come last."""
    found = [row for row in catalogue().values() if all(each.matches(row) for each in capabilities)]
    keys: dict[Order, Callable[[InstanceType], tuple[object, ...]]] = {
        "price": lambda each: (each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "gpus": lambda each: (-each.gpus, each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "name": lambda each: (each.name,),
    }
    return sorted(found, key=keys[order])


def without_a_price(capability: Capability) -> Sequence[InstanceType]:
    """Return the types that a highest price leaves out because they have none to compare."""
    if capability.max_usd_per_hour is None:
        return ()
    alike = matching(replace(capability, max_usd_per_hour=None))
    return [each for each in alike if each.usd_per_hour is None]


@named_call
def find_instance_types(
    *,
    gpu_models: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
    min_gpus: int = 1,
    max_gpus: int | None = None,
    min_gpu_memory_gib: float = 0,
    min_vcpus: int = 0,
    min_memory_gib: float = 0,
    architecture: Architecture = "x86_64",
    efa: bool = False,
    mig: bool = False,
    local_nvme: bool = False,
    max_usd_per_hour: float | None = None,
    purchase_option: str = "on-demand",
) -> tuple[InstanceType, ...]:
    """Return the NVIDIA types that can do what is asked and that every current EKS image drives, cheapest first.

    Where no such type is left, those that the newest images drive: family ``g7`` where it is asked for.

    A type of which no source states a figure does not meet a demand on that figure; one without a list price comes
    last. `NodeShape` takes the result as its ``instance_types``.

    Args:
        gpu_models: GPUs as EC2 names them, e.g. ``L4``, ``H100``. Default: any.
        families: EC2 families, e.g. ``g6``. Default: any.
        min_gpus: Least GPUs of a node.
        max_gpus: Most GPUs of a node. Default: any number.
        min_gpu_memory_gib: Least memory of one GPU, in GiB.
        min_vcpus: Least virtual CPUs.
        min_memory_gib: Least memory of the node, in GiB.
        architecture: CPU architecture; a pool has one.
        efa: Only types with EFA.
        mig: Only types whose GPUs can be partitioned with MIG.
        local_nvme: Only types with local NVMe disks.
        max_usd_per_hour: Highest on-demand list price in us-east-1, US dollars an hour. Default: any price.
        purchase_option: ``on-demand``, ``spot`` or ``capacity-block``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is unknown, or no type meets all demands.
    """
    options = names().purchase_options
    asked = {
        "gpu_models": Capability(models=_given("gpu_models", gpu_models, names().models)),
        "families": Capability(families=_given("families", families, names().families)),
        "min_gpus": Capability(gpus=_min_bounds("min_gpus", min_gpus)),
        "max_gpus": Capability(gpus=_max_bounds("max_gpus", max_gpus)),
        "min_gpu_memory_gib": Capability(gpu_memory_gib=_min_bounds("min_gpu_memory_gib", min_gpu_memory_gib)),
        "min_vcpus": Capability(vcpus=_min_bounds("min_vcpus", min_vcpus)),
        "min_memory_gib": Capability(memory_gib=_min_bounds("min_memory_gib", min_memory_gib)),
        "architecture": Capability(architecture=_check_choice("architecture", architecture, get_args(Architecture))),
        "efa": Capability(efa=_switch("efa", efa)),
        "mig": Capability(mig=_switch("mig", mig)),
        "local_nvme": Capability(local_nvme=_switch("local_nvme", local_nvme)),
        "max_usd_per_hour": Capability(max_usd_per_hour=_price("max_usd_per_hour", max_usd_per_hour)),
        "purchase_option": Capability(purchase_option=_check_choice("purchase_option", purchase_option, options)),
    }
    met = matching(*asked.values())
    # What only newer images drive comes where nothing else is left: a pinned release may be older.
    found = [each for each in met if each.supports_driver((LTS,))] or [each for each in met if each.is_driven]
    if not found:
        raise ValueError(f"{_FINDER}: {_why_none(asked)}")
    return tuple(found)


def _why_none(asked: Mapping[str, Capability]) -> str:
    """Return which demand leaves none of the types that those before it left."""
    left = list(catalogue().values())
    for argument, capability in asked.items():
        before, left = _listed(left), [each for each in left if capability.matches(each)]
        if not left:
            return f"{argument} must leave at least one instance type, got none of {before}"
    return (
        f"the demands must leave a type that the EKS images drive, got {_listed(left)}; name those in "
        "NodeShape(instance_types=..., image=CustomImage(...))"
    )


def _listed(rows: Sequence[InstanceType]) -> str:
    return ", ".join(each.name for each in rows)


def _given(argument: str, value: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    if value is None:
        return ()
    given = words(_FINDER, argument, value)
    if not given:
        raise ValueError(f"{_FINDER}: {argument} must name at least one, got {value!r}; leave it out for any")
    return tuple(_check_choice(argument, each, known) for each in given)


def _check_choice(argument: str, word: str, known: Sequence[str]) -> str:
    refuse_unless_choice(_FINDER, argument, word, known)
    return word


def _switch(argument: str, value: object) -> bool:
    refuse_unless_bool(_FINDER, argument, value)
    return cast("bool", value)


def _min_bounds(argument: str, number: float) -> tuple[Bound, ...]:
    # A demand of nothing is none: it also takes the types of which no source states the figure.
    return (Bound(">=", number),) if _amount(argument, number) else ()


def _max_bounds(argument: str, number: float | None) -> tuple[Bound, ...]:
    return () if number is None else (Bound("<=", _amount(argument, number)),)


def _price(argument: str, dollars: float | None) -> float | None:
    return None if dollars is None else _amount(argument, dollars)


def _amount(argument: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{_FINDER}: {argument} must be a number, got {number!r}")
    if number < 0:
        raise ValueError(f"{_FINDER}: {argument} must be at least 0, got {number}")
    return number
