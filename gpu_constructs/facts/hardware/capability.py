"""Demands on instance types in the words of a command line, e.g. ``>=80``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpu_constructs.facts.hardware.catalogue import InstanceType, catalogue
from gpu_constructs.refusals import refuse_unless_one_of

Order = Literal["price", "gpus", "name"]
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "": operator.eq,
}
_BOUND = re.compile(r"\s*(>=|<=|>|<|=|)\s*(\d{1,9}(?:\.\d{1,6})?)\s*")
_MIB_PER_GIB = 1024


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
        ValueError: No type has such a GPU, family or architecture, or is sold that way.
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
        rows = catalogue().values()
        for model in self.models:
            _refuse_unknown("gpu", model, {each.gpu_model for each in rows})
        for family in self.families:
            _refuse_unknown("family", family, {each.family for each in rows})

    def of(self, row: InstanceType) -> bool:
        """Whether an instance type has it."""
        gpu_memory, memory = _gib(row.gpu_memory_mib), _gib(row.memory_mib)
        return all(
            (
                *(each.holds(gpu_memory) for each in self.gpu_memory_gib),
                *(each.holds(row.gpus) for each in self.gpus),
                *(each.holds(row.vcpus) for each in self.vcpus),
                *(each.holds(memory) for each in self.memory_gib),
                not self.models or row.gpu_model.lower() in map(str.lower, self.models),
                not self.families or row.family in self.families,
                self.architecture in (None, row.architecture),
                not self.efa or bool(row.max_efa),
                not self.mig or row.mig,
                not self.local_nvme or row.nvme_disks > 0,
                self.max_usd_per_hour is None or Bound("<=", self.max_usd_per_hour).holds(row.usd_per_hour),
                self.purchase_option is None or self.purchase_option in row.purchase_options,
            )
        )


def _refuse_unknown(argument: str, name: str, known: Iterable[str]) -> None:
    words = sorted(known)
    if name.lower() not in map(str.lower, words):
        refuse_unless_one_of("instances", argument, name, words)


def _gib(mib: int | None) -> float | None:
    return None if mib is None else mib / _MIB_PER_GIB


def matching(capability: Capability, *, order: Order = "price") -> Sequence[InstanceType]:
    """Return the instance types that have a capability; those without a list price come last."""
    found = [each for each in catalogue().values() if capability.of(each)]
    keys: dict[Order, Callable[[InstanceType], tuple[object, ...]]] = {
        "price": lambda each: (each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "gpus": lambda each: (-each.gpus, each.usd_per_hour is None, each.usd_per_hour or 0, each.name),
        "name": lambda each: (each.name,),
    }
    return sorted(found, key=keys[order])
