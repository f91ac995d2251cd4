"""EBS volume types of a storage class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_choice, refuse_unless_whole_number
from gpu_facts.storage import (
    BASE_IOPS,
    BASE_THROUGHPUT,
    IOPS_PER_GIB,
    MAX_IOPS,
    MAX_THROUGHPUT,
    MIB_PER_SECOND_PER_IOPS,
)

FileSystem = Literal["ext4", "xfs"]


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
