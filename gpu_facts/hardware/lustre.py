"""What FSx for Lustre makes: sizes, throughput, the version of Lustre, and the ports by which it is reached.

Sources: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html,
https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html (2026-11-22)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What clients of AL2023 speak: of an older file system they say "Invalid argument".
# Source: https://github.com/kubernetes-sigs/aws-fsx-csi-driver/issues/437 (2025)
VERSION: Final = "2.15"
# Of a file system that states none, by its deployment type; of PERSISTENT_2 with settings of metadata it is the newest.
DEFAULT_VERSIONS: Final[Mapping[str, str]] = {
    "SCRATCH_1": "2.10",
    "SCRATCH_2": "2.10",
    "PERSISTENT_1": "2.10",
    "PERSISTENT_2": "2.12",
}
DEFAULT_TYPE: Final = "SCRATCH_1"

# MB/s for each TiB, by deployment type and kind of disk; of others there is no choice.
THROUGHPUT: Final[Mapping[tuple[str, str], tuple[int, ...]]] = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
# The smallest size in GiB, and the step of the sizes above.
LEAST_GIB, STEP_GIB = 1200, 2400
_STEP_OF_SCRATCH_1 = 3600
_STEPS_OF_HDD = {12: 6000, 40: 1800}

# TCP, in both directions between file system and clients, and among its own servers.
PORTS: Final = ((988, 988), (1018, 1023))
MOST_BACKUP_DAYS = 90


def is_size(gib: int, deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None) -> bool:
    """Whether FSx makes a file system of a size.

    Args:
        gib: Size in GiB.
        deployment: Deployment type.
        storage: ``SSD`` or ``HDD``.
        throughput: MB/s for each TiB, on which sizes of HDD depend.
    """
    if storage == "HDD":
        return gib > 0 and any(gib % step == 0 for key, step in _STEPS_OF_HDD.items() if throughput in (key, None))
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else STEP_GIB
    return gib in (LEAST_GIB, STEP_GIB) or (gib > 0 and gib % step == 0)


def sizes(deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None) -> str:
    """Return the sizes of file systems in words."""
    if storage == "HDD":
        return f"a multiple of {_STEPS_OF_HDD.get(throughput or 0, '1800 or 6000')} GiB"
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else STEP_GIB
    return f"{LEAST_GIB}, {STEP_GIB} or a multiple of {step} GiB"
