"""Disks that are too small, at the wrong place, idle, or that EC2 refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.hardware.gp3 import (
    BASE_IOPS,
    BASE_THROUGHPUT,
    IOPS_PER_GIB,
    MAX_IOPS,
    MAX_THROUGHPUT,
    MIB_PER_SECOND_PER_IOPS,
)
from gpu_facts.image_releases import AL2023_SNAPSHOT_GIB
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import is_image_of_eks
from gpu_preflight.cluster.launch import is_visible
from gpu_preflight.cluster.objects.storage import gp3_of
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.launch import Disk
from gpu_preflight.node.node_size import root_device, root_gib, uses_local_disks
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_true,
    items,
    known_number,
    known_text,
)
from gpu_preflight.rules.rule import Problem, rule

_DEVICES = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
# One CUDA image takes 10 to 25 GiB, and kubelet deletes images from 85 % on.
_SMALL_GIB = 50
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md
_FAST_PULL_THROUGHPUT = 600
# With a snapshot of its own, a volume has nothing of the image.
_SNAPSHOT = regex("[sS]napshotI[dD]")
_KNOWN_SYSTEMS = ("al2023", "al2", "bottlerocket")


def _sized_by_input(case: Case) -> Iterator[Pool]:
    """Yield the GPU pools whose disks are told by what is in the input."""
    for pool in case.gpu_pools:
        told = is_visible(pool) if pool.is_group else pool.kind == "karpenter" and bool(pool.launch)
        if told and pool.operating_system in _KNOWN_SYSTEMS and not _uses_local_disks(pool):
            yield pool


def _uses_local_disks(pool: Pool) -> bool:
    """Whether images are, or may be, on local disks; scripts and user data that is not known may see to it."""
    hidden = pool.user_data.format == "unknown" or any("nvme" in each for each in pool.user_data.scripts)
    has_disks = any(catalogue()[name].nvme_disks for name in gpu_types(pool))
    return has_disks and (hidden or uses_local_disks(pool))


@rule("GPU048", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def disk_too_small_for_cuda_images(case: Case) -> Iterator[Problem]:
    """Disk too small for CUDA images.

    An image unpacks to 10 to 25 GiB; the pull ends with no space left, or kubelet evicts the pods.

    Fix: Give it 100 GiB or more, or put images on the local NVMe disks.
    """
    for pool in _sized_by_input(case):
        size = root_gib(pool)
        if size is not None and size < _SMALL_GIB and not _misses_root(pool):
            yield Problem.of(pool, f"{root_device(pool)}, for images and pods, has {size} GiB")


@rule("GPU504", "error", source="https://github.com/cilium/cilium/pull/43051")
def volume_smaller_than_the_snapshot_of_its_image(case: Case) -> Iterator[Problem]:
    """Volume is smaller than the snapshot of its image.

    EKS rejects the node group, or EC2 each launch: "Volume of size 10GB is smaller than snapshot, expect size >= 20GB".

    Fix: Give /dev/xvda 100 GiB, and never less than 20 GiB on Amazon Linux 2023.
    """
    for pool in case.cluster.pools:
        sized = pool.launch.disk_sizes or {"/dev/xvda": known_number(pool.properties.get("DiskSize"))}
        size = sized.get("/dev/xvda") if pool.operating_system == "al2023" and is_image_of_eks(pool) else None
        if size is not None and size < AL2023_SNAPSHOT_GIB and not _SNAPSHOT.search(str(pool.launch.written)):
            text = f"/dev/xvda has {size} GiB, and the snapshot of its image has {AL2023_SNAPSHOT_GIB} GiB"
            yield Problem.of(pool, text)


def _misses_root(pool: Pool) -> bool:
    mapped = pool.launch.disk_sizes
    return bool(mapped) and "" not in mapped and root_device(pool) not in mapped


@rule("GPU050", "warning", source=_DEVICES)
def volume_under_a_name_that_the_image_does_not_use(case: Case) -> Iterator[Problem]:
    """Volume under a name that the image does not use.

    The volume is attached beside the one for images and pods, which keeps its default size.

    Fix: Size /dev/xvda on Amazon Linux, /dev/xvdb on Bottlerocket.
    """
    for pool in _sized_by_input(case):
        if _misses_root(pool):
            named, size = ", ".join(pool.launch.disk_sizes), root_gib(pool)
            message = f"sizes {named}, images and pods are on {root_device(pool)} with {size} GiB"
            yield Problem.of(pool, message)


@rule("GPU049", "note", source="awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md")
def local_nvme_disks_that_nothing_uses(case: Case) -> Iterator[Problem]:
    """Local NVMe disks that nothing uses.

    Images and emptyDirs stay on the EBS volume, which is slower and fills up.

    Fix: Set instanceStorePolicy RAID0 in the EC2NodeClass. In a node group, set instance.localStorage.strategy RAID0 in
    the NodeConfig, or Bottlerocket's ephemeral-storage commands.
    """
    for pool in case.gpu_pools:
        disks = {name: catalogue()[name].nvme_gb for name in gpu_types(pool) if catalogue()[name].nvme_gb}
        told = is_visible(pool) and pool.operating_system in ("al2023", "bottlerocket")
        # A NodePool that may launch any of many types isn't made for the disks of some.
        chosen = pool.is_group or (pool.kind == "karpenter" and len(disks) == len(gpu_types(pool)))
        open_policy = isinstance(pool.launch.store_policy, Unknown)
        if disks and told and chosen and not open_policy and not _uses_local_disks(pool):
            sizes = ", ".join(f"{size} GB of {name}" for name, size in list(disks.items())[:4])
            yield Problem.of(pool, f"nothing uses the local NVMe, {sizes}")


@rule(
    "GPU051",
    "warning",
    source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html",
)
def volume_key_that_auto_scaling_may_not_use(case: Case) -> Iterator[Problem]:
    """Volume key that Auto Scaling may not use.

    The instance ends right after its launch with Client.InternalError, and Auto Scaling starts the next.

    Fix: Let AWSServiceRoleForAutoScaling use the key and create grants in the policy of the key.
    """
    for pool in case.gpu_groups:
        for key in dict.fromkeys(_keys(pool)):
            resource = case.cluster.resources.get(key.resource or "")
            policy = resource.properties.get("KeyPolicy") if resource and resource.type == "AWS::KMS::Key" else None
            if resource and isinstance(policy, dict) and not _lets_auto_scaling_use(policy):
                message = f"the policy of key {resource.path} does not let Auto Scaling use it"
                yield Problem.of(pool, message)


def _keys(pool: Pool) -> list[Unknown]:
    return [each.key for each in pool.launch.disks if isinstance(each.key, Unknown)]


def _lets_auto_scaling_use(policy: dict[str, Any]) -> bool:
    statements = policy.get("Statement")
    for each in items(statements) if isinstance(statements, list) else [statements]:
        principal = json.dumps(dig(each, "Principal"), default=str)
        anybody = dig(each, "Principal") == "*" or dig(each, "Principal", "AWS") == "*"
        if anybody or "AWSServiceRoleForAutoScaling" in principal or "${Fn::" in principal:
            return True
    return False


@rule("GPU052", "error", source="https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html")
def volume_faster_than_its_size_allows(case: Case) -> Iterator[Problem]:
    """Volume faster than its size allows.

    EC2 refuses each launch with InvalidParameterValue, and the volume of a claim, whose pod stays Pending.

    Fix: Stay within 500 iops a GiB and a quarter MiB/s per iops, or enlarge the volume.
    """
    for pool in case.cluster.pools:
        for disk in pool.launch.disks:
            for why in _excess(disk):
                yield Problem.of(pool, f"{disk.device or 'a volume'} {why}")
    for workload, claim in case.gpu_claims:
        made = gp3_of(claim, case.cluster)
        # A volume may be there already, and drivers differ in what they lower.
        for why in _excess(made) if made else ():
            yield Problem.of(workload, f"the volume of {claim.title} {why}", unknown=True)


def _excess(disk: Disk) -> Iterator[str]:
    kind, size = known_text(disk.kind), disk.gib
    iops, throughput = known_number(disk.iops), known_number(disk.throughput)
    if kind is not None and kind != "gp3" and throughput is not None:
        yield f"has throughput {throughput}, which only gp3 takes, and is {kind}"
    if kind != "gp3":
        return
    most = max(BASE_IOPS, min(MAX_IOPS, (size or MAX_IOPS) * IOPS_PER_GIB))
    if iops is not None and iops > most:
        yield f"has {iops} iops, {f'{size} GiB of ' if size else ''}gp3 can have {most}"
    operations = BASE_IOPS if disk.iops is None else iops or MAX_IOPS
    fastest = min(MAX_THROUGHPUT, operations * MIB_PER_SECOND_PER_IOPS)
    if throughput is not None and throughput > fastest:
        yield f"has {throughput} MiB/s, gp3 with {operations} iops can have {fastest:.0f}"


@rule("GPU065", "note", source="awslabs/amazon-eks-ami v20260724 nodeadm/doc/api-concepts.md")
def parallel_image_pull_on_a_slow_disk(case: Case) -> Iterator[Problem]:
    """Parallel image pull on a slow disk.

    Unpacking in parallel saturates the disk, so that pulls take longer than without.

    Fix: Give the volume 600 MiB/s or more, or put images on the local NVMe disks.
    """
    for pool in case.gpu_groups:
        fast = is_true(dig(pool.user_data.node_config, "featureGates", "FastImagePull"))
        throughput = _root_throughput(pool) if fast and not _uses_local_disks(pool) else None
        if throughput is not None and throughput < _FAST_PULL_THROUGHPUT:
            message = f"FastImagePull on a disk of {throughput} MiB/s"
            yield Problem.of(pool, message)


def _root_throughput(pool: Pool) -> int | None:
    for disk in pool.launch.disks:
        if disk.device == root_device(pool):
            written = BASE_THROUGHPUT if disk.throughput is None else disk.throughput
            return known_number(written) if disk.kind == "gp3" else None
    return BASE_THROUGHPUT if not pool.launch.disk_sizes and is_visible(pool) else None
