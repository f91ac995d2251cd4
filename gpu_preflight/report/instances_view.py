"""Rows of the catalogue in a report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gpu_facts.hardware.catalogue import Architecture, InstanceType
from gpu_facts.light import dataclass
from gpu_preflight.report.finding_view import View


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceTypeView:
    """An instance type; ``None`` means that no source states the figure.

    Attributes:
        eks_driver: Whether a current EKS image has a driver for it.
        driver_branch: NVIDIA driver branch that the image loads.
        without_price: Why it has no price.
    """

    name: str
    family: str
    architecture: Architecture
    gpu_model: str
    gpus: int
    gpu_memory_gib: float | None
    vcpus: int | None
    memory_gib: float | None
    nvme_gb: int
    efa_interfaces: int
    mig: bool
    eks_driver: bool
    driver_branch: int | None
    purchase_options: tuple[str, ...]
    quota_family: str
    usd_per_hour: float | None
    without_price: str | None
    usd_per_gpu_hour: float | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An instance type that would match, but has no price to compare."""

    name: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InstancesView(View):
    """Instance types that match.

    Attributes:
        left_out_without_price: Instance types that would match, but have no price to compare.
    """

    command: Literal["instances"] = "instances"
    instance_types: tuple[InstanceTypeView, ...]
    left_out_without_price: tuple[LeftOut, ...]


def instances_view(rows: Iterable[InstanceType], without_price: Iterable[InstanceType] = ()) -> InstancesView:
    """Return rows of the catalogue, and the types that a max price excludes because they have no price."""
    left_out = tuple(LeftOut(each.name, each.without_price or "unknown") for each in without_price)
    return InstancesView(instance_types=tuple(map(_instance, rows)), left_out_without_price=left_out)


def _instance(row: InstanceType) -> InstanceTypeView:
    return InstanceTypeView(
        name=row.name,
        family=row.family,
        architecture=row.architecture,
        gpu_model=row.gpu_model,
        gpus=row.gpus,
        gpu_memory_gib=rounded(row.gpu_memory_gib),
        vcpus=row.vcpus,
        memory_gib=rounded(row.memory_gib),
        nvme_gb=row.nvme_gb,
        efa_interfaces=row.max_efa or 0,
        mig=row.mig,
        eks_driver=row.is_driven,
        driver_branch=row.driver_branch,
        purchase_options=row.purchase_options,
        quota_family=row.quota_family,
        usd_per_hour=row.usd_per_hour,
        without_price=row.without_price,
        usd_per_gpu_hour=None if row.usd_per_hour is None else round(row.usd_per_hour / row.gpus, 4),
    )


def rounded(gib: float | None) -> float | None:
    """Return an amount of memory, rounded to one digit after the point."""
    return None if gib is None else round(gib, 1)
