"""How large and how fast a file system of FSx for Lustre is, and whether it lasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from gpu_facts.hardware.lustre import LEAST_GIB, MOST_BACKUP_DAYS, is_size, sizes
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_whole_number

MbPerSecondPerTib = Literal[125, 250, 500, 1000]


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class PersistentLustre:
    """A file system that keeps its data while servers fail, in one zone: ``PERSISTENT_2`` on SSD.

    It is paid by the GB and the hour, read or not, and a GB costs more the faster it is.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. It may grow later, never shrink.
        mb_s_per_tib: Throughput, in MB/s for each TiB of its size; may change later.
        compress: Compress with LZ4 what is written.
        backup_days: Days for which a daily backup is kept, at most 90; 0 for none.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx makes no such file system.
    """

    size_gib: int = LEAST_GIB
    mb_s_per_tib: MbPerSecondPerTib = 125
    compress: bool = False
    backup_days: int = 0

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        known = get_args(MbPerSecondPerTib)
        if isinstance(self.mb_s_per_tib, bool) or self.mb_s_per_tib not in known:
            raise ValueError(
                f"lustre: mb_s_per_tib must be one of {', '.join(map(str, known))}, got {self.mb_s_per_tib!r}"
            )
        refuse_unless_bool("lustre", "compress", self.compress)
        refuse_unless_whole_number("lustre", "backup_days", self.backup_days, least=0, most=MOST_BACKUP_DAYS)

    def configuration(self) -> dict[str, object]:
        """Return the ``LustreConfiguration``."""
        return {
            "deploymentType": "PERSISTENT_2",
            "perUnitStorageThroughput": self.mb_s_per_tib,
            "automaticBackupRetentionDays": self.backup_days,
            "dataCompressionType": _compression(self.compress),
        }


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ScratchLustre:
    """A file system whose data is lost with a server, for what can be made again: ``SCRATCH_2``, at 200 MB/s a TiB.

    Source: https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-fsx-lustre.html (2026-11)

    Attributes:
        size_gib: Size in GiB: 1200, 2400 or a multiple of 2400. It may grow later, never shrink.
        compress: Compress with LZ4 what is written.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: FSx makes no such file system.
    """

    size_gib: int = LEAST_GIB
    compress: bool = False

    def __post_init__(self) -> None:
        _refuse_unless_size(self.size_gib)
        refuse_unless_bool("lustre", "compress", self.compress)

    def configuration(self) -> dict[str, object]:
        """Return the ``LustreConfiguration``."""
        return {"deploymentType": "SCRATCH_2", "dataCompressionType": _compression(self.compress)}


LustreStorage: TypeAlias = PersistentLustre | ScratchLustre


def _refuse_unless_size(size: object) -> None:
    refuse_unless_whole_number("lustre", "size_gib", size, least=LEAST_GIB)
    if isinstance(size, int) and not is_size(size):
        raise ValueError(f"lustre: size_gib must be {sizes()}, got {size}")


def _compression(compress: bool) -> str:
    return "LZ4" if compress else "NONE"
