"""Images that do not fit the instance types, or that nobody publishes any more."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_constructs.hardware.catalogue import catalogue
from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.images import architecture_of, has_driver
from gpu_constructs.preflight.model import Cluster
from gpu_constructs.preflight.nodes import gpu_types
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import known_text

_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"


def _without_driver(cluster: Cluster) -> Iterator[Problem]:
    operator = cluster.chart("gpu-operator")
    for pool in cluster.gpu_pools:
        if pool.is_group and has_driver(pool) is Answer.NO and operator is None:
            types = ", ".join(gpu_types(pool))
            image = known_text(pool.properties.get("AmiType")) or "the default image"
            yield Problem(pool.origin, f"pool {pool.name}: {types} gets {image}, which has no NVIDIA driver")


def _other_architecture(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        image = architecture_of(pool) if pool.is_group else None
        wrong = [name for name in gpu_types(pool) if image and catalogue()[name].architecture != image]
        if wrong:
            yield Problem(pool.origin, f"pool {pool.name}: the image is {image}, {', '.join(wrong)} is not")


RULES = (
    Rule(
        id="GPU001",
        severity="error",
        title="Image without NVIDIA driver on GPU instances",
        why="The node becomes Ready, never advertises nvidia.com/gpu, and its GPU pods stay Pending.",
        source=_AMI_TYPES,
        fix="Set AmiType to AL2023_x86_64_NVIDIA, AL2023_ARM_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA.",
        causes=("B9",),
        check=_without_driver,
    ),
    Rule(
        id="GPU002",
        severity="error",
        title="Image for another CPU architecture",
        why="EKS refuses the node group, or the instance does not boot.",
        source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html",
        fix="Choose the image of the instance type's architecture.",
        causes=("B8",),
        check=_other_architecture,
    ),
)
