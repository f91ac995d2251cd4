"""Instance types by what they can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from gpu_constructs.facts.hardware.catalogue import Architecture, InstanceType, catalogue
from gpu_constructs.facts.versions import DRIVER_BRANCH
from gpu_constructs.refusals import refuse_unless_one_of, words

_MIB_PER_GIB = 1024


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
    """Return the NVIDIA types that can do what is asked and that a current EKS image drives, cheapest first.

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
    who, everything = "find_instance_types", catalogue().values()
    for argument, number in (
        ("min_gpus", min_gpus),
        ("max_gpus", min_gpus if max_gpus is None else max_gpus),
        ("min_vcpus", min_vcpus),
        ("min_gpu_memory_gib", min_gpu_memory_gib),
        ("min_memory_gib", min_memory_gib),
        ("max_usd_per_hour", 1 if max_usd_per_hour is None else max_usd_per_hour),
    ):
        _refuse_unless_amount(who, argument, number)
    for argument, switch in (("efa", efa), ("mig", mig), ("local_nvme", local_nvme)):
        if not isinstance(switch, bool):
            raise TypeError(f"{who}: {argument} must be True or False, got {switch!r}")
    models = _known(who, "gpu_models", gpu_models, {each.gpu_model for each in everything})
    allowed = _known(who, "families", families, {each.family for each in everything})
    refuse_unless_one_of(who, "architecture", architecture, get_args(Architecture))
    options = {option for each in everything for option in each.purchase_options}
    refuse_unless_one_of(who, "purchase_option", purchase_option, sorted(options))
    demands: dict[str, Callable[[InstanceType], bool]] = {
        "gpu_models": lambda each: each.gpu_model in models,
        "families": lambda each: each.family in allowed,
        "min_gpus": lambda each: each.gpus >= min_gpus,
        "max_gpus": lambda each: max_gpus is None or each.gpus <= max_gpus,
        "min_gpu_memory_gib": lambda each: (each.gpu_memory_mib or 0) >= min_gpu_memory_gib * _MIB_PER_GIB,
        "min_vcpus": lambda each: (each.vcpus or 0) >= min_vcpus,
        "min_memory_gib": lambda each: (each.memory_mib or 0) >= min_memory_gib * _MIB_PER_GIB,
        "architecture": lambda each: each.architecture == architecture,
        "efa": lambda each: not efa or bool(each.max_efa),
        "mig": lambda each: not mig or each.mig,
        "local_nvme": lambda each: not local_nvme or each.nvme_disks > 0,
        "max_usd_per_hour": lambda each: _costs_at_most(each, max_usd_per_hour),
        "purchase_option": lambda each: purchase_option in each.purchase_options,
    }
    found = list(everything)
    for demand, meets in demands.items():
        left = [each for each in found if meets(each)]
        if not left:
            before = ", ".join(each.name for each in found)
            raise ValueError(f"{who}: {demand} must leave at least one instance type, got none of {before}")
        found = left
    driven = [each for each in found if is_driven(each)]
    if not driven:
        names = ", ".join(each.name for each in found)
        raise ValueError(
            f"{who}: the demands must leave a type that the EKS images drive, got {names}; name those in "
            "NodeShape(instance_types=..., image=CustomImage(...))"
        )
    found = driven
    return tuple(sorted(found, key=lambda each: (each.usd_per_hour is None, each.usd_per_hour or 0, each.name)))


def _known(who: str, argument: str, given: Sequence[str] | None, known: set[str]) -> set[str]:
    if given is None:
        return known
    names = words(who, argument, given)
    for name in names:
        refuse_unless_one_of(who, argument, name, sorted(known))
    return set(names)


def _refuse_unless_amount(who: str, argument: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise TypeError(f"{who}: {argument} must be a number, got {number!r}")
    if number < 0:
        raise ValueError(f"{who}: {argument} must be at least 0, got {number}")


def _costs_at_most(each: InstanceType, most: float | None) -> bool:
    return most is None or (each.usd_per_hour is not None and each.usd_per_hour <= most)


def is_driven(each: InstanceType) -> bool:
    """Whether the current EKS images have a driver for a type."""
    return (each.driver_min or 0) <= DRIVER_BRANCH <= (each.driver_max or DRIVER_BRANCH)
