"""The query language of the catalogue: required capabilities, and the instance types that have them."""

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
    """A number with a comparison operator.

    Attributes:
        sign: ``>=``, ``>``, ``=``, ``<=``, ``<``. Empty is ``=``.
        amount: The number.
    """

    sign: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Bound:
        """Read a bound, e.g. ``>=80``.

        Raises:
            ValueError: The text isn't a bound.
        """
        found = _BOUND.fullmatch(text)
        if not found:
            raise ValueError(f"must be a number, with >=, >, =, <= or < before it, got {text!r}")
        return cls(found.group(1), float(found.group(2)))

    def holds(self, amount: float | None) -> bool:
        """Whether a number satisfies the bound. A number that no source states doesn't."""
        return amount is not None and _OPERATORS[self.sign](amount, self.amount)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capability:
    """Required properties of an instance type.

    Attributes:
        gpu_memory_gib: Memory of one GPU, in GiB.
        gpus: GPUs of a node.
        vcpus: Virtual CPUs.
        memory_gib: Memory of a node, in GiB.
        models: EC2's names of GPUs, or empty for any.
        families: EC2 families, or empty for any.
        architecture: CPU architecture, or ``None`` for any.
        efa: Only types with EFA.
        mig: Only types whose GPUs support MIG.
        local_nvme: Only types with local NVMe disks.
        max_usd_per_hour: Highest list price, US dollars an hour, or ``None`` for any.
        purchase_option: Required purchase option, or ``None`` for any.

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
        """Reject names that no type has."""
        for model in self.models:
            _refuse_unknown("gpu", model, names().models)
        for family in self.families:
            _refuse_unknown("family", family, names().families)

    def matches(self, row: InstanceType) -> bool:
        """Whether an instance type has the properties."""
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
    """The names that instance types have, sorted.

    Attributes:
        models: EC2's names of GPUs.
        families: EC2 families.
        purchase_options: Purchase options.
    """

    models: tuple[str, ...]
    families: tuple[str, ...]
    purchase_options: tuple[str, ...]


@cache
def names() -> Names:
    """Return the names that instance types have."""
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
    """Return the instance types that have every capability. Types without a list price come last."""
    found = [row for row in catalogue().values() if all(each.matches(row) for each in capabilities)]
    keys: dict[Order, Callable[[InstanceType], tuple[object, ...]]] = {
        "price": lambda each: (each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "gpus": lambda each: (-each.gpus, each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "name": lambda each: (each.name,),
    }
    return sorted(found, key=keys[order])


def without_a_price(capability: Capability) -> Sequence[InstanceType]:
    """Return the types that a max price excludes because they have no list price."""
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
    """Return the NVIDIA types that meet all requirements and that every current EKS image supports, cheapest first.

    If there is no such type, return the types that only the newest images support, e.g. family ``g7``.

    A type meets a requirement only if a source states the number. Types without a list price come last. `NodeShape`
    accepts the result as its ``instance_types``.

    Args:
        gpu_models: EC2's names of GPUs, e.g. ``L4``, ``H100``. Default: any.
        families: EC2 families, e.g. ``g6``. Default: any.
        min_gpus: Min GPUs of a node.
        max_gpus: Max GPUs of a node. Default: any number.
        min_gpu_memory_gib: Min memory of one GPU, in GiB.
        min_vcpus: Min virtual CPUs.
        min_memory_gib: Min memory of the node, in GiB.
        architecture: CPU architecture. A pool has one.
        efa: Only types with EFA.
        mig: Only types whose GPUs support MIG.
        local_nvme: Only types with local NVMe disks.
        max_usd_per_hour: Highest on-demand list price in us-east-1, US dollars an hour. Default: any price.
        purchase_option: ``on-demand``, ``spot`` or ``capacity-block``.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name is unknown, or no type meets all requirements.
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
    # Types that only newer images support are the last choice, because a pinned release may be older.
    found = [each for each in met if each.supports_driver((LTS,))] or [each for each in met if each.is_driven]
    if not found:
        raise ValueError(f"{_FINDER}: {_why_none(asked)}")
    return tuple(found)


def _why_none(asked: Mapping[str, Capability]) -> str:
    """Return the first requirement that excludes all remaining types."""
    left = list(catalogue().values())
    for argument, capability in asked.items():
        before, left = _listed(left), [each for each in left if capability.matches(each)]
        if not left:
            return f"{argument} must leave at least one instance type, got none of {before}"
    return (
        f"the arguments must leave a type that the EKS images support, got {_listed(left)}; use "
        "NodeShape(instance_types=..., image=CustomImage(...)) with these types"
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
    # A min of 0 is no requirement, so it also includes types without a stated number.
    return (Bound(">=", number),) if _amount(argument, number) else ()


def _max_bounds(argument: str, number: float | None) -> tuple[Bound, ...]:
    return () if number is None else (Bound("<=", _amount(argument, number)),)


def _price(argument: str, dollars: float | None) -> float | None:
    return None if dollars is None else _amount(argument, dollars)


def _amount(argument: str, number: object) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{_FINDER}: {argument} must be a number, got {number!r}; write it as a number")
    if number < 0:
        raise ValueError(f"{_FINDER}: {argument} must be at least 0, got {number}; raise it")
    return number
