"""The EC2 quotas that NVIDIA instances count against. All of them are in vCPUs, and new accounts may have 0."""

from __future__ import annotations

from gpu_facts.hardware.catalogue import InstanceType
from gpu_facts.light_dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """A quota of Service Quotas, service ``ec2``.

    Attributes:
        code: Its code, ``L-...``.
        name: Its name.
        quota_family: Family of the catalogue that it is for.
        purchase_option: How the instances are bought: ``on-demand`` or ``spot``.
        generations: Beginnings of the EC2 families that it is for; empty for all of the quota family.
    """

    code: str
    name: str
    quota_family: str
    purchase_option: str
    generations: tuple[str, ...] = ()

    def counts(self, row: InstanceType, capacity_type: str) -> bool:
        """Whether instances of a type, bought that way, count against it."""
        alike = (self.quota_family, self.purchase_option) == (row.quota_family, capacity_type)
        return alike and (not self.generations or row.family.startswith(self.generations))


# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-08-21).
# Of spot P6 no source says which one counts it.
QUOTAS = (
    Quota(
        code="L-DB2E81BA",
        name="Running On-Demand G and VT instances",
        quota_family="G and VT",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-417A185B",
        name="Running On-Demand P instances",
        quota_family="P",
        purchase_option="on-demand",
    ),
    Quota(
        code="L-3819A6DF",
        name="All G and VT Spot Instance Requests",
        quota_family="G and VT",
        purchase_option="spot",
    ),
    Quota(
        code="L-7212CCBC",
        name="All P4, P3 and P2 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p2", "p3", "p4"),
    ),
    Quota(
        code="L-C4BD4855",
        name="All P5 Spot Instance Requests",
        quota_family="P",
        purchase_option="spot",
        generations=("p5",),
    ),
)


def quota_of(row: InstanceType, capacity_type: str) -> Quota | None:
    """Return the quota that instances of a type count against; ``None`` where there is none or none is documented.

    Args:
        row: The instance type.
        capacity_type: ``on-demand``, ``spot``, ``reserved`` or ``capacity-block``.
    """
    return next((each for each in QUOTAS if each.counts(row, capacity_type)), None)
