"""EBS volumes of type gp3: the volumes of a node, and the type of a storage class."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from gpu_facts.image_releases import OperatingSystem
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import is_token, refuse_unless_choice, refuse_unless_whole_number
from gpu_facts.storage import (
    BASE_IOPS,
    BASE_THROUGHPUT,
    IOPS_PER_GIB,
    MAX_IOPS,
    MAX_THROUGHPUT,
    MIB_PER_SECOND_PER_IOPS,
)

FileSystem = Literal["ext4", "xfs"]
_MAX_GIB = 65_536
# Source: https://docs.aws.amazon.com/ebs/latest/userguide/initalize-volume.html
_MAX_INITIALIZATION = 300
_KEY_ARN = re.compile(r"arn:[\w-]+:kms:[\w-]+:\d{12}:key/[\w-]+", re.ASCII)
_SNAPSHOT = re.compile(r"snap-[0-9a-f]{8,17}")
# Size of the EKS images' snapshots. EC2 rejects a volume that is smaller than its snapshot.
_MIN_GIB = 20
# Bottlerocket's first volume has only the OS. This is Karpenter's default size for it.
# Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bottlerocket.go
_BOTTLEROCKET_OS_GIB = 4


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """An encrypted gp3 volume for images, writable layers and emptyDirs.

    A CUDA image unpacks to 10 to 25 GiB, and the kubelet starts to delete images at 85 % full.

    Attributes:
        size_gib: Size, in GiB.
        iops: Operations per second.
        throughput_mib_s: Throughput, in MiB/s.
        kms_key_arn: Customer-managed key. Its policy must allow its use to the principals that start nodes, see
            `grant_volume_key`. Default: the account's key for EBS.
        snapshot_id: Snapshot of a data volume with preloaded images, ``snap-...``. Only Bottlerocket supports it,
            which has a separate data volume. Default: an empty volume.
        initialization_mib_s: Rate at which EBS loads the snapshot, in MiB/s. It costs per GiB. Without it the first
            read of a block is slow.

    Raises:
        ValueError: EC2 would reject the volume.
    """

    size_gib: int = 100
    iops: int = BASE_IOPS
    throughput_mib_s: int = BASE_THROUGHPUT
    kms_key_arn: str | None = None
    snapshot_id: str | None = None
    initialization_mib_s: int | None = None

    def __post_init__(self) -> None:
        refuse_unless_whole_number(
            "disk", "size_gib", self.size_gib, least=_MIN_GIB, fix="write 100 for a few CUDA images"
        )
        refuse_unless_whole_number("disk", "iops", self.iops, least=BASE_IOPS)
        refuse_unless_whole_number("disk", "throughput_mib_s", self.throughput_mib_s, least=BASE_THROUGHPUT)
        if self.kms_key_arn is not None and not isinstance(self.kms_key_arn, str):
            raise TypeError(f"disk: kms_key_arn must be a string, got {self.kms_key_arn!r}; pass key.key_arn")
        if self.kms_key_arn is not None and not (is_token(self.kms_key_arn) or _KEY_ARN.fullmatch(self.kms_key_arn)):
            raise ValueError(
                f"disk: kms_key_arn must be the ARN of a key, 'arn:aws:kms:...:key/...', got {self.kms_key_arn!r}; "
                "pass key.key_arn"
            )
        if self.snapshot_id is not None and not _SNAPSHOT.fullmatch(str(self.snapshot_id)):
            raise ValueError(
                f"disk: snapshot_id must be an id such as 'snap-0123456789abcdef0', got {self.snapshot_id!r}; list "
                "yours with 'aws ec2 describe-snapshots --owner-ids self'"
            )
        if self.initialization_mib_s is not None:
            refuse_unless_whole_number("disk", "initialization_mib_s", self.initialization_mib_s, least=100)
            self._refuse_above(
                "initialization_mib_s",
                self.initialization_mib_s,
                _MAX_INITIALIZATION,
                "lower it, because EBS supports no more",
            )
            if self.snapshot_id is None:
                raise ValueError(
                    "disk: initialization_mib_s must have a snapshot_id, got None; remove it, because nothing is loaded"
                )
        self._refuse_above("size_gib", self.size_gib, _MAX_GIB, "lower it, because gp3 supports no more")
        most_iops = min(MAX_IOPS, self.size_gib * IOPS_PER_GIB)
        self._refuse_above("iops", self.iops, most_iops, f"lower it, or raise size_gib from {self.size_gib}")
        most_throughput = min(MAX_THROUGHPUT, int(self.iops * MIB_PER_SECOND_PER_IOPS))
        self._refuse_above(
            "throughput_mib_s", self.throughput_mib_s, most_throughput, f"lower it, or raise iops from {self.iops}"
        )

    @staticmethod
    def _refuse_above(argument: str, value: int, most: int, fix: str) -> None:
        if value > most:
            raise ValueError(f"disk: {argument} must be at most {most}, got {value}; {fix}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """One EBS volume of a node.

    Attributes:
        device: Device name that the image expects.
        disk: Settings of the volume.
        size_gib: Size, in GiB; differs from the disk's on Bottlerocket's OS volume.
    """

    device: str
    disk: Disk
    size_gib: int


def node_volumes(operating_system: OperatingSystem, disk: Disk) -> tuple[Volume, ...]:
    """Return the volumes of a node: one on AL2023. On Bottlerocket it is the data volume, next to an OS volume."""
    if operating_system == "al2023":
        return (Volume(device="/dev/xvda", disk=disk, size_gib=disk.size_gib),)
    system = Disk(kms_key_arn=disk.kms_key_arn)
    return (
        Volume(device="/dev/xvda", disk=system, size_gib=_BOTTLEROCKET_OS_GIB),
        Volume(device="/dev/xvdb", disk=disk, size_gib=disk.size_gib),
    )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Gp3:
    """An EBS volume of type gp3. Each claim sets its size.

    Attributes:
        iops: Operations per second. Above the base the volume costs more, and a claim must request a GiB for every 500.
        throughput_mib_s: Throughput, in MiB/s, at most a quarter of ``iops``.
        file_system: File system with which the driver formats a new volume.

    Raises:
        TypeError: A number isn't an integer.
        ValueError: EBS doesn't support such a volume.
    """

    iops: int = BASE_IOPS
    throughput_mib_s: int = BASE_THROUGHPUT
    file_system: FileSystem = "ext4"

    def __post_init__(self) -> None:
        refuse_unless_whole_number("gp3", "iops", self.iops, least=BASE_IOPS, most=MAX_IOPS)
        refuse_unless_whole_number("gp3", "throughput_mib_s", self.throughput_mib_s, least=BASE_THROUGHPUT)
        refuse_unless_choice("gp3", "file_system", self.file_system, get_args(FileSystem))
        most = min(MAX_THROUGHPUT, int(self.iops * MIB_PER_SECOND_PER_IOPS))
        if self.throughput_mib_s > most:
            raise ValueError(
                f"gp3: throughput_mib_s must be at most {most} with {self.iops} iops, got {self.throughput_mib_s}; "
                "lower it, or raise iops"
            )

    @property
    def min_gib(self) -> int:
        """Smallest size that a claim may request, in GiB."""
        return -(-self.iops // IOPS_PER_GIB)

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of a StorageClass.

        Source: https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md (2026-08)
        """
        return {
            "type": "gp3",
            "iops": str(self.iops),
            "throughput": str(self.throughput_mib_s),
            "csi.storage.k8s.io/fstype": self.file_system,
        }
