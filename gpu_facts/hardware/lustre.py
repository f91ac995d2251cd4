"""Limits of FSx for Lustre: sizes, throughput, the version of Lustre, and its ports.

Sources: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html,
https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html (2026-11-22)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Version of AL2023's client. With an older file system the client reports "Invalid argument".
# Source: https://github.com/kubernetes-sigs/aws-fsx-csi-driver/issues/437 (2025)
VERSION: Final = "2.15"
# Default version by deployment type. For PERSISTENT_2 with metadata settings it is the newest.
DEFAULT_VERSIONS: Final[Mapping[str, str]] = {
    "SCRATCH_1": "2.10",
    "SCRATCH_2": "2.10",
    "PERSISTENT_1": "2.10",
    "PERSISTENT_2": "2.12",
}
DEFAULT_TYPE: Final = "SCRATCH_1"

# MB/s for each TiB, by deployment type and kind of disk. Others have no choice.
THROUGHPUT: Final[Mapping[tuple[str, str], tuple[int, ...]]] = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
# The smallest size in GiB, and the step of larger sizes.
LEAST_GIB, STEP_GIB = 1200, 2400
_STEP_OF_SCRATCH_1 = 3600
_STEPS_OF_HDD = {12: 6000, 40: 1800}

# TCP, in both directions, between file system and clients, and between its servers.
PORTS: Final = ((988, 988), (1018, 1023))
MOST_BACKUP_DAYS = 90


def is_size(gib: int, deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None) -> bool:
    """Whether FSx supports a size of a file system.

    Args:
        gib: Size in GiB.
        deployment: Deployment type.
        storage: ``SSD`` or ``HDD``.
        throughput: MB/s for each TiB, which determines the sizes of HDD.
    """
    if storage == "HDD":
        return gib > 0 and any(gib % step == 0 for key, step in _STEPS_OF_HDD.items() if throughput in (key, None))
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else STEP_GIB
    return gib in (LEAST_GIB, STEP_GIB) or (gib > 0 and gib % step == 0)


def sizes(deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None) -> str:
    """Return a description of the supported sizes."""
    if storage == "HDD":
        return f"a multiple of {_STEPS_OF_HDD.get(throughput or 0, '1800 or 6000')} GiB"
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else STEP_GIB
    return f"{LEAST_GIB}, {STEP_GIB} or a multiple of {step} GiB"
