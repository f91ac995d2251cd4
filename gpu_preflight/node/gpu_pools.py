"""NodePools that are meant for GPUs, in contrast to NodePools that only don't exclude them."""

from __future__ import annotations

from gpu_facts.hardware.catalogue import catalogue, may_be_newer, retired
from gpu_facts.labels import GPU_TAINT
from gpu_facts.light import regex
from gpu_facts.resources import GPU
from gpu_preflight.cluster.images import always_has_driver, has_driver
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.node.nodes import gpu_types, may_have_gpus

_GPU_FAMILY = regex(r"(g\d|gr\d|p[3-9])[a-z0-9-]*(\..+)?")
_NAMED_BY = ("/instance-family", "/instance-type", "/instance-category")
_CATEGORIES = ("g", "gr", "p")


def names_gpus(pool: Pool) -> bool:
    """Whether a NodePool requires nodes with NVIDIA GPUs."""
    if any(_names_gpus(each) for each in pool.requirements):
        return not any(_names_others(each) for each in pool.requirements)
    return GPU in pool.limits or any(each.key == GPU_TAINT for each in pool.taints)


def pools_for_gpus(cluster: Cluster) -> tuple[Pool, ...]:
    """Return the pools that are meant for GPUs.

    A NodePool that doesn't exclude GPUs counts if pods request GPUs and no other pool is meant for them.
    """
    able = [each for each in cluster.pools if may_have_gpus(each)]
    meant = [each for each in able if each.is_group or names_gpus(each)]
    asked = not meant and any(each.asks_for_gpu for each in cluster.workloads)
    return tuple(able if asked else meant)


def pools_of_unknown_types(cluster: Cluster) -> tuple[Pool, ...]:
    """Return the pools that aren't known to be meant for GPUs, but may launch GPU types, as their types aren't known.

    A managed group that names no type, in no launch template either, has t3.medium, unless its image is for GPUs.

    Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html instanceTypes (2026-11)
    """
    found = []
    for pool in cluster.pools:
        has_default = (
            pool.kind == "managed"
            and "InstanceTypes" not in pool.properties
            and ("LaunchTemplate" not in pool.properties or pool.launch_resource is not None)
            and has_driver(pool) is not Answer.YES
        )
        if not may_have_gpus(pool) and pool.max_nodes != 0 and may_launch_unknown_types(pool) and not has_default:
            found.append(pool)
    return tuple(found)


def may_launch_unknown_types(pool: Pool) -> bool:
    """Whether a pool names no type that is known, or one that may be a GPU type newer than the catalogue."""
    names = (
        pool.instance_types
        if pool.is_group
        else tuple(
            name
            for each in pool.requirements
            if each.operator == "In" and each.key.endswith("/instance-type")
            for name in each.values or ()
        )
    )
    return (pool.is_group and not names) or any(map(may_be_newer, names))


def types_without_gpus(pool: Pool) -> tuple[str, ...]:
    """Return the types of a group that certainly have no NVIDIA GPUs."""
    known = (each for each in pool.instance_types if each not in catalogue() and each not in retired())
    return tuple(each for each in known if not may_be_newer(each))


def nodes_never_join(pool: Pool) -> Answer:
    """Return whether nodes of a pool stop while they boot: Bottlerocket with NVIDIA's driver, and no GPU of NVIDIA.

    Amazon Linux 2023 with the driver joins without a GPU, so it isn't checked.

    Sources: https://github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/321, awslabs/amazon-eks-ami 81fec2e
    templates/al2023/runtime/gpu/nvidia-kmod-load.sh, https://github.com/pulumi/pulumi-eks/pull/1534 (2026-11-23)
    """
    if pool.operating_system != "bottlerocket" or not always_has_driver(pool):
        return Answer.NO
    if pool.kind == "karpenter":
        return Answer.NO if may_have_gpus(pool) else Answer.YES
    without = types_without_gpus(pool)
    if not without:
        return Answer.NO
    return Answer.YES if set(without) == set(pool.instance_types) else Answer.UNKNOWN


def _names_gpus(each: Requirement) -> bool:
    if "/instance-gpu-" in each.key:
        return each.operator in ("In", "Exists", "Gt", "Gte")
    if each.operator != "In" or not each.values or not each.key.endswith(_NAMED_BY):
        return False
    return all(one in _CATEGORIES or _GPU_FAMILY.fullmatch(one) for one in each.values)


def _names_others(each: Requirement) -> bool:
    """Whether a requirement allows only GPUs of other vendors."""
    amd = each.key.endswith("/instance-gpu-manufacturer") and "nvidia" not in (each.values or ("nvidia",))
    family = each.key.endswith("/instance-family") and each.values and set(each.values) <= {"g4ad"}
    return bool(amd or family) and each.operator == "In"


def gpu_node_pools(cluster: Cluster) -> list[Pool]:
    """Return the NodePools that are meant for GPUs and can have them."""
    found = [each for each in cluster.pools if each.kind in ("karpenter", "auto-mode")]
    return [each for each in found if names_gpus(each) and gpu_types(each)]
