"""Instance types that EC2 does not sell, or does not sell like that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from gpu_facts.hardware.catalogue import catalogue, columns, retired
from gpu_facts.labels import EKS_DOMAIN, INSTANCE_TYPE, KARPENTER_AWS_DOMAIN
from gpu_facts.light_patterns import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.launch import is_capacity_known
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import gpu_types, surely_launches
from gpu_preflight.rules.rule import Problem, rule

_FAMILY_LABELS = (f"{KARPENTER_AWS_DOMAIN}/instance-family", f"{EKS_DOMAIN}/instance-family")
# Families g, gr and p have GPUs; those of g4ad are not NVIDIA's. SageMaker's names have a prefix.
_LIKE_A_GPU_TYPE = regex(r"(ml\.)?(gr?|p)\d(?!ad\b)", re.IGNORECASE)


@rule(
    "GPU004", "error", source="awslabs/amazon-eks-ami v20260724 templates/al2023/provisioners/install-nvidia-driver.sh"
)
def retired_instance_type(case: Case) -> Iterator[Problem]:
    """Retired instance type.

    EC2 no longer sells it, or no current image has a driver for its GPU.

    Fix: Use a type of a current family.
    """
    for pool in (*case.cluster.pools, *case.cluster.unclaimed):
        for name in _retired_choices(pool):
            entry = retired().get(name) or _of_family(name)
            message = f"{name} is retired: {entry['reason']}"
            fix = f"Use a size of family {entry['successor']}."
            yield Problem.of(pool, message, fix=fix, unknown=not surely_launches(pool, _retired_choices(pool)))


def _of_family(family: str) -> dict[str, str]:
    return dict(next(entry for name, entry in retired().items() if name.partition(".")[0] == family))


def _retired_choices(pool: Pool) -> list[str]:
    """Return the retired types of a group, and those that a NodePool leaves nothing beside."""
    if pool.is_group:
        return [name for name in pool.instance_types if name in retired()]
    families = {name.partition(".")[0] for name in retired()} - {each.family for each in catalogue().values()}
    found: list[str] = []
    for each in pool.requirements:
        known = set(retired()) if each.key == INSTANCE_TYPE else families if each.key in _FAMILY_LABELS else set()
        if each.operator == "In" and each.values and known.issuperset(each.values):
            found += each.values
    return found


@rule("GPU005", "warning", source="https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html")
def instance_type_that_nobody_knows(case: Case) -> Iterator[Problem]:
    """Instance type that nobody knows.

    EKS refuses the node group, and Karpenter ignores the name; a type newer than this list is fine.

    Fix: Correct the name; 'gpu-constructs instances' lists the types.
    """
    as_of = columns()["architecture"]["as_of"]
    for pool in case.cluster.pools:
        for name in dict.fromkeys(_named(pool)):
            if _LIKE_A_GPU_TYPE.match(name) and name not in catalogue() and name not in retired():
                hint = did_you_mean(name.lower().removeprefix("ml."), catalogue(), closeness=0.85)
                yield Problem.of(pool, f"EC2 had no type {name} on {as_of}{hint}")


def _named(pool: Pool) -> list[str]:
    if pool.is_group:
        return list(pool.instance_types)
    wanted = [each for each in pool.requirements if each.key == INSTANCE_TYPE and each.operator == "In"]
    return [name for each in wanted for name in each.values or ()]


@rule("GPU024", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html")
def instance_type_that_is_not_sold_as_asked(case: Case) -> Iterator[Problem]:
    """Instance type that is not sold that way.

    Each launch fails, whatever the quota is.

    Fix: Set the CapacityType that EC2 sells it with; UltraServers need a Capacity Block.
    """
    for pool in filter(is_capacity_known, case.gpu_groups):
        pairs = product((catalogue()[name] for name in gpu_types(pool)), pool.capacity_types)
        for row, capacity in pairs:
            if capacity not in row.purchase_options:
                sold = ", ".join(row.purchase_options)
                text = f"{row.name} is not sold as {capacity}, only as {sold}"
                yield Problem.of(pool, text, unknown=not surely_launches(pool, [row.name]))
