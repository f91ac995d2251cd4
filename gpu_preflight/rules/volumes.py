"""Rules for volumes, disks and StorageClasses that EC2 rejects or that are too small."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.image_releases import AL2023_SNAPSHOT_GIB
from gpu_facts.light import regex
from gpu_facts.quantities import quantity, show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DISK
from gpu_facts.storage import (
    BASE_IOPS,
    BASE_THROUGHPUT,
    EBS_OF_AUTO_MODE,
    INSTALLED_BY,
    IOPS_PER_GIB,
    MAX_IOPS,
    MAX_THROUGHPUT,
    MIB_PER_SECOND_PER_IOPS,
)
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import is_image_of_eks
from gpu_preflight.cluster.pools import is_visible
from gpu_preflight.cluster.storage import claim_source, gp3_volume, installs
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.launch import Disk
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.model.storage import EBS_PROVISIONERS, PersistentVolume
from gpu_preflight.node.instance_types import local_disks_fix, root_device, root_gib, uses_local_disks
from gpu_preflight.node.nodes import gpu_types, minor
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_number, known_text
from gpu_preflight.rule import Problem, rule
from gpu_preflight.schema.validation import is_slip_for_one

if TYPE_CHECKING:
    from gpu_preflight.scheduling.verdict import PoolVerdict

_DEVICES = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
# One CUDA image needs 10 to 25 GiB, and kubelet deletes images when the disk is 85 % full.
_SMALL_GIB = 50
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md
_FAST_PULL_THROUGHPUT = 600
# A volume with its own snapshot doesn't contain the image.
_SNAPSHOT = regex("[sS]napshotI[dD]")
_KNOWN_SYSTEMS = ("al2023", "al2", "bottlerocket")
_CLASSES = "https://kubernetes.io/docs/concepts/storage/storage-classes/"
# EKS creates this class in every cluster. Since 1.30 it isn't the default class.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html (2026-11)
_OF_EKS = "gp2"
_WITHOUT_DEFAULT = (1, 30)
_EBS_TYPES = ("gp2", "gp3", "io1", "io2", "sc1", "st1", "standard", "sbg1", "sbp1")
# Provisioners without a driver. Users create the volumes.
_BY_HAND = ("kubernetes.io/no-provisioner",)


def _sized_by_input(case: Case) -> Iterator[Pool]:
    """Yield the GPU pools whose disks are known from the input."""
    for pool in case.gpu_pools:
        known = is_visible(pool) if pool.is_group else pool.kind == "karpenter" and bool(pool.launch)
        if known and pool.operating_system in _KNOWN_SYSTEMS and not _uses_local_disks(pool):
            yield pool


def _uses_local_disks(pool: Pool) -> bool:
    """Whether images are, or may be, on local disks, for example because of scripts or unknown user data."""
    hidden = pool.user_data.format == "unknown" or any("nvme" in each for each in pool.user_data.scripts)
    has_disks = any(catalogue()[name].nvme_disks for name in gpu_types(pool))
    return has_disks and (hidden or uses_local_disks(pool))


@rule("GPU048", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def disk_too_small_for_cuda_images(case: Case) -> Iterator[Problem]:
    """Disk is too small for CUDA images.

    An image unpacks to 10 to 25 GiB. The pull fails with "no space left on device", or kubelet evicts the pods.

    Fix: Set the size of the volume to 100 GiB or more.
    """
    for pool in _sized_by_input(case):
        size = root_gib(pool)
        if size is not None and size < _SMALL_GIB and not _misses_root(pool):
            text = (
                f"its disk {root_device(pool)} for images and pods has {size} GiB, but CUDA images need {_SMALL_GIB} "
                "GiB or more"
            )
            has_disks = any(catalogue()[name].nvme_disks for name in gpu_types(pool))
            fix = f"Set the size of {root_device(pool)} to 100 GiB or more, or put images on the local NVMe disks."
            problem = Problem.from_subject(pool, text, fix=fix if has_disks else "")
            yield problem.in_object(pool.node_class, _disks_field(pool))


def _disks_field(pool: Pool) -> str:
    """Return the field of a node class that sets the volume for images and pods."""
    return "spec.ephemeralStorage" if pool.kind == "auto-mode" else "spec.blockDeviceMappings"


@rule("GPU504", "error", source="https://github.com/cilium/cilium/pull/43051")
def volume_smaller_than_the_snapshot_of_its_image(case: Case) -> Iterator[Problem]:
    """Volume is smaller than the snapshot of its image.

    EKS rejects the node group, or EC2 rejects each launch: "Volume of size 10GB is smaller than snapshot, expect size
    >= 20GB".

    Fix: Set /dev/xvda to 100 GiB, and never to less than 20 GiB on Amazon Linux 2023.
    """
    for pool in case.cluster.pools:
        sized = pool.launch.disk_sizes or {"/dev/xvda": known_number(pool.properties.get("DiskSize"))}
        size = sized.get("/dev/xvda") if pool.operating_system == "al2023" and is_image_of_eks(pool) else None
        if size is not None and size < AL2023_SNAPSHOT_GIB and not _SNAPSHOT.search(str(pool.launch.written)):
            text = f"its volume /dev/xvda has {size} GiB, but the snapshot of its image has {AL2023_SNAPSHOT_GIB} GiB"
            yield Problem.from_subject(pool, text).in_object(pool.node_class, _disks_field(pool))


def _misses_root(pool: Pool) -> bool:
    mapped = pool.launch.disk_sizes
    return bool(mapped) and "" not in mapped and root_device(pool) not in mapped


@rule("GPU050", "warning", source=_DEVICES)
def volume_under_a_name_that_the_image_does_not_use(case: Case) -> Iterator[Problem]:
    """Volume has a device name that the image doesn't use.

    The volume is attached in addition to the volume for images and pods, which keeps its default size.

    Fix: Set the size of the volume for images and pods.
    """
    for pool in _sized_by_input(case):
        if _misses_root(pool):
            named, size = ", ".join(pool.launch.disk_sizes), root_gib(pool)
            message = f"it sets the size of {named}, but images and pods are on {root_device(pool)} with {size} GiB"
            fix = f"Set the size of {root_device(pool)}."
            yield Problem.from_subject(pool, message, fix=fix).in_object(pool.node_class, _disks_field(pool))


@rule("GPU049", "note", source="awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md")
def local_nvme_disks_that_nothing_uses(case: Case) -> Iterator[Problem]:
    """Local NVMe disks are unused.

    Images and emptyDirs stay on the EBS volume, which is slower and may become full.

    Fix: Set instanceStorePolicy RAID0 in the EC2NodeClass. In a node group, set instance.localStorage.strategy RAID0 in
    the NodeConfig, or Bottlerocket's ephemeral-storage commands.
    """
    for pool in case.gpu_pools:
        disks = {name: catalogue()[name].nvme_gb for name in gpu_types(pool) if catalogue()[name].nvme_gb}
        known = is_visible(pool) and pool.operating_system in ("al2023", "bottlerocket")
        # A NodePool that may launch many types isn't meant for the disks of some of them.
        chosen = pool.is_group or (pool.kind == "karpenter" and len(disks) == len(gpu_types(pool)))
        open_policy = isinstance(pool.launch.store_policy, Unknown)
        if disks and known and chosen and not open_policy and not _uses_local_disks(pool):
            sizes = ", ".join(f"{size} GB of {name}" for name, size in list(disks.items())[:4])
            problem = Problem.from_subject(pool, f"its local NVMe disks are unused: {sizes}", fix=local_disks_fix(pool))
            yield problem.in_object(pool.node_class, "spec.instanceStorePolicy")


@rule(
    "GPU051",
    "warning",
    source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html",
)
def volume_key_that_auto_scaling_may_not_use(case: Case) -> Iterator[Problem]:
    """Key policy doesn't allow Auto Scaling to use the volume key.

    The instance terminates right after its launch with Client.InternalError, and Auto Scaling starts the next.

    Fix: Allow AWSServiceRoleForAutoScaling to use the key and create grants in the policy of the key.
    """
    for pool in case.gpu_groups:
        for key in dict.fromkeys(_keys(pool)):
            resource = case.cluster.resources.get(key.resource or "")
            policy = resource.properties.get("KeyPolicy") if resource and resource.type == "AWS::KMS::Key" else None
            if resource and isinstance(policy, dict) and not _lets_auto_scaling_use(policy):
                message = (
                    f"KMS key {resource.path} encrypts its volumes, but doesn't allow Auto Scaling to use the key, so "
                    "its instances terminate right after launch"
                )
                yield Problem.from_subject(pool, message)


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
    """IOPS or throughput of a volume exceed the limits of EBS.

    EC2 rejects each launch with InvalidParameterValue. EC2 also rejects the volume of a claim, whose pod stays Pending.

    Fix: Set 4 IOPS or more per MiB/s, and 1 GiB or more per 500 IOPS, or lower the IOPS and throughput.
    """
    for pool in case.cluster.pools:
        for disk in pool.launch.disks:
            for why, fix in _excess(disk):
                text = f"its volume {disk.device} {why}" if disk.device else f"a volume {why}"
                yield Problem.from_subject(pool, text, fix=fix).in_object(pool.node_class, _disks_field(pool))
    for workload, claim in case.gpu_claims:
        made = gp3_volume(claim)
        # A volume may exist already, and drivers differ in the values that they lower.
        for why, fix in _excess(made) if made else ():
            yield Problem.from_subject(workload, f"the volume of {claim.title} {why}", fix=fix, unknown=True)


def _excess(disk: Disk) -> Iterator[tuple[str, str]]:
    """Yield why EC2 rejects a volume, and the fix."""
    kind, size = known_text(disk.kind), disk.gib
    iops, throughput = known_number(disk.iops), known_number(disk.throughput)
    if kind is not None and kind != "gp3" and throughput is not None:
        text = f"has throughput {throughput} MiB/s, which only gp3 supports, but its type is {kind}"
        yield text, "Set the volume type to gp3, or remove the throughput."
    if kind != "gp3":
        return
    most = max(BASE_IOPS, min(MAX_IOPS, (size or MAX_IOPS) * IOPS_PER_GIB))
    if iops is not None and iops > most:
        larger = f"Set the size to {-(-iops // IOPS_PER_GIB)} GiB or more, or the IOPS" if iops <= MAX_IOPS else ""
        fix = f"{larger or 'Set the IOPS'} to {most} or less."
        yield f"has {iops} IOPS, but {f'{size} GiB of ' if size else ''}gp3 allows at most {most} IOPS", fix
    operations = BASE_IOPS if disk.iops is None else iops or MAX_IOPS
    fastest = min(MAX_THROUGHPUT, operations * MIB_PER_SECOND_PER_IOPS)
    if throughput is not None and throughput > fastest:
        text = f"has throughput {throughput} MiB/s, but gp3 with {operations} IOPS allows at most {fastest:.0f} MiB/s"
        more = f"Set the IOPS to {math.ceil(throughput / MIB_PER_SECOND_PER_IOPS)} or more, or the throughput"
        yield text, f"{more if throughput <= MAX_THROUGHPUT else 'Set the throughput'} to {fastest:.0f} MiB/s or less."


@rule("GPU065", "note", source="awslabs/amazon-eks-ami v20260724 nodeadm/doc/api-concepts.md")
def parallel_image_pull_on_a_slow_disk(case: Case) -> Iterator[Problem]:
    """Parallel image pull uses a slow disk.

    Parallel unpacking saturates the disk, so pulls take longer than without it.

    Fix: Set the volume's throughput to 600 MiB/s or more, or put images on the local NVMe disks.
    """
    for pool in case.gpu_groups:
        fast = pool.user_data.has_feature_gate("FastImagePull")
        throughput = _root_throughput(pool) if fast and not _uses_local_disks(pool) else None
        if throughput is not None and throughput < _FAST_PULL_THROUGHPUT:
            message = f"FastImagePull needs {_FAST_PULL_THROUGHPUT} MiB/s, but its disk has {throughput} MiB/s"
            yield Problem.from_subject(pool, message)


def _root_throughput(pool: Pool) -> int | None:
    for disk in pool.launch.disks:
        if disk.device == root_device(pool):
            written = BASE_THROUGHPUT if disk.throughput is None else disk.throughput
            return known_number(written) if disk.kind == "gp3" else None
    return BASE_THROUGHPUT if not pool.launch.disk_sizes and is_visible(pool) else None


@rule("GPU321", "error", source=_CLASSES)
def storage_class_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """StorageClass doesn't exist.

    No driver creates the volume of the claim, and its pod stays Pending until the class exists. It may be created
    outside the input. The result is certain only if the name must be a typo of an existing one.

    Fix: Create the StorageClass, or set storageClassName in the claim to an existing one.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    classes = [*(each.object.name for each in cluster.storage_classes), _OF_EKS]
    for workload, claim in case.gpu_claims:
        spec = claim.spec
        if spec is None or spec.get("volumeName") or spec.get("selector") or spec.get("dataSource"):
            continue
        name = spec.get("storageClassName")
        if name is None and not _has_default(cluster):
            text = f"{claim.title} names no StorageClass, but EKS with Kubernetes {cluster.version} has no default one"
            fix = "Set storageClassName in the claim."
            yield Problem.from_subject(workload, text, fix=fix, unknown=True)
        elif isinstance(name, str) and name and claim.storage_class is None and not _may_be(name, cluster):
            text = f"{claim.title} has StorageClass {name}, which doesn't exist{did_you_mean(name, classes)}"
            certain = cluster.sees_objects and is_slip_for_one(name, classes)
            yield Problem.from_subject(workload, text, unknown=not certain)


def _has_default(cluster: Cluster) -> bool:
    """Whether a class is, or may be, the default: add-ons and charts create one if their values define it."""
    if cluster.version is None or minor(cluster.version) < _WITHOUT_DEFAULT:
        return True
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    written = any(each.is_default for each in cluster.storage_classes)
    return written or any("storageclass" in str(each).lower() for each in values)


def _may_be(name: str, cluster: Cluster) -> bool:
    """Whether a class that isn't in the input may exist, or volumes with its name exist."""
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    by_hand = any(each.class_name == name for each in cluster.volumes)
    return name == _OF_EKS or by_hand or any(name in str(each) for each in values)


@rule("GPU324", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/storage.html")
def storage_class_whose_driver_is_absent(case: Case) -> Iterator[Problem]:
    """Driver of a StorageClass or PersistentVolume isn't installed.

    No driver creates the volume, and the pod stays Pending.

    Fix: Install the driver, or use the provisioner of an installed one.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for workload, claim in case.gpu_claims:
        source = claim_source(claim, cluster)
        made = source.driver if source else None
        if source is None or made is None or made in _BY_HAND or _runs(made, cluster):
            continue
        known = [*INSTALLED_BY, EBS_OF_AUTO_MODE]
        near = get_close_matches(made, known, 1, 0.8) if made not in known else []
        text = f"{claim.title} has {source.object.kind} {source.object.name}, whose driver {made}"
        field = "provisioner" if source.object.kind == "StorageClass" else "spec.csi.driver"
        if made == EBS_OF_AUTO_MODE:
            fix = f"Set {field}: ebs.csi.aws.com and install add-on aws-ebs-csi-driver, or turn EKS Auto Mode on."
            yield Problem.from_subject(workload, f"{text} needs EKS Auto Mode, which is off", fix=fix)
        elif near:
            fix = f"Set {field}: {near[0]}."
            yield Problem.from_subject(workload, f"{text} doesn't exist; did you mean '{near[0]}'?", fix=fix)
        else:
            brought = INSTALLED_BY.get(made)
            what = f"isn't installed{'' if brought else ' by the input'}, so the pod can't start"
            fix = f"Add the add-on {brought}." if brought else ""
            unknown = brought is None or not cluster.sees_objects
            yield Problem.from_subject(workload, f"{text} {what}", fix=fix, unknown=unknown, doubt=cluster.doubt)


def _runs(driver: str, cluster: Cluster) -> bool:
    if driver == EBS_OF_AUTO_MODE:
        return cluster.auto_mode
    brought = INSTALLED_BY.get(driver)
    listed = any(each.name == driver for each in cluster.objects_of_kind("CSIDriver"))
    return listed or (brought is not None and installs(brought, cluster))


@rule("GPU396", "error", source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html")
def storage_class_of_a_volume_type_that_ebs_does_not_have(case: Case) -> Iterator[Problem]:
    """EBS doesn't have the volume type of a StorageClass.

    The driver rejects the volume, and the pod stays Pending.

    Fix: Set parameters.type: gp3 in the StorageClass.
    """
    for workload, claim in case.gpu_claims:
        storage = claim.storage_class
        written = storage.parameters.get("type") if storage and storage.driver in EBS_PROVISIONERS else None
        if storage and isinstance(written, str) and written.lower() not in _EBS_TYPES and not is_expression(written):
            text = f"{claim.title} has StorageClass {storage.object.name} with type {written}, which EBS doesn't have"
            yield Problem.from_subject(workload, text)


@rule("GPU401", "warning", source=_CLASSES)
def two_default_storage_classes(case: Case) -> Iterator[Problem]:
    """Two StorageClasses are the default.

    A claim without a class gets the class that was created last, which may be either in this cluster.

    Fix: Keep the annotation storageclass.kubernetes.io/is-default-class on only one of them.
    """
    defaults = [each.object for each in case.cluster.storage_classes if each.is_default]
    for each in defaults[1:]:
        text = (
            f"both StorageClass {each.name} and StorageClass {defaults[0].name} are the default, so a claim without a "
        )
        yield Problem(each, text + "class gets the one that was created last")


@rule("GPU409", "warning", source="https://kubernetes.io/docs/concepts/storage/ephemeral-storage/")
def scratch_larger_than_the_disk_of_its_node(case: Case) -> Iterator[Problem]:
    """Scratch volumes are larger than the disk of the node.

    The limit of an emptyDir reserves no space. One pod or several fill the disk before the limit is reached, and
    kubelet evicts them, often hours into their work.

    Fix: Request the size as ephemeral-storage, and give the nodes a larger volume or local NVMe disks.
    """
    for workload in case.gpu_workloads:
        wanted = _scratch(workload.pod)
        if not wanted:
            continue
        # If pods request the size, the scheduler uses only nodes with enough space.
        pools = [each for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        disks = [(each, case.disk_max(each.pool)) for each in pools]
        small = [
            (each, most) for each, most in disks if most is not None and wanted * _pods_per_node(workload, each) > most
        ]
        for each, most in small:
            pods = 1 if wanted > most else _pods_per_node(workload, each)
            who = "its emptyDirs" if pods == 1 else f"emptyDirs of {pods} of its pods on one node"
            text = (
                f"{who} may use {show(DISK, wanted * pods)}, but {_disk_of_pods(each.pool.name, most)}, so kubelet may"
            )
            text += " evict the pod"
            yield Problem.from_subject(workload, text, unknown=pods > 1 or len(small) < len(pools))


@rule("GPU419", "warning", source="https://github.com/awslabs/mountpoint-s3-csi-driver/blob/main/docs/CACHING.md")
def cache_of_a_bucket_larger_than_the_disk(case: Case) -> Iterator[Problem]:
    """Cache of a bucket is larger than the disk of the node.

    The limit reserves no space. The cached files fill the disk before the limit is reached, and kubelet evicts pods of
    the node.

    Fix: Lower cacheEmptyDirSizeLimit, or give the nodes a larger volume or local NVMe disks.
    """
    for workload, claim in case.gpu_claims:
        volume = claim.volume
        bound = _bound(volume) if volume is not None else None
        if volume is None or bound is None:
            continue
        pools = case.candidate_pools(workload)
        disks = [(pool, case.disk_max(pool)) for pool in pools]
        small = [(pool, most) for pool, most in disks if most is not None and bound > most]
        for pool, most in small:
            text = f"the cache of {volume.title} may use {show(DISK, bound)}, but {_disk_of_pods(pool.name, most)}, so"
            text += " kubelet may evict pods"
            yield Problem.from_subject(workload, text, unknown=len(small) < len(pools))


def _disk_of_pods(pool: str, most: int) -> str:
    return f"a node of pool {pool} has {show(DISK, most)} of disk for pods"


def _bound(volume: PersistentVolume) -> int | None:
    """Return the size limit in bytes of a bucket's cache on the node's disk; ``None`` if there is none."""
    attributes = volume.attributes or {}
    on_disk = attributes.get("cache") == "emptyDir" and not attributes.get("cacheEmptyDirMedium")
    return quantity(DISK, attributes.get("cacheEmptyDirSizeLimit")) if volume.is_bucket and on_disk else None


def _pods_per_node(workload: Workload, judged: PoolVerdict) -> int:
    """Return how many pods of a workload may be on one node of a pool, if known."""
    return max(1, min(judged.per_node or 1, workload.replicas or 1))


def _scratch(pod: Pod) -> int:
    """Return how many bytes of disk the volumes of a pod may use, as far as known."""
    return sum(quantity(DISK, each.size_limit) or 0 for each in pod.volumes)
