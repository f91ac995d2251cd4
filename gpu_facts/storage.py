"""Storage drivers, and limits of gp3 volumes and of file systems of FSx for Lustre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_facts.charts import EBS_CSI_DRIVER, EFS_CSI_DRIVER, FSX_CSI_DRIVER, S3_CSI_DRIVER
from gpu_facts.labels import EBS_NOT_READY, EFS_NOT_READY, FSX_NOT_READY, S3_NOT_READY
from gpu_facts.light import regex

# Source: https://docs.aws.amazon.com/eks/latest/userguide/storage.html (2026-11)
EBS: Final = "ebs.csi.aws.com"
EBS_OF_AUTO_MODE: Final = "ebs.csi.eks.amazonaws.com"
EBS_IN_TREE: Final = "kubernetes.io/aws-ebs"
EFS: Final = "efs.csi.aws.com"
FSX: Final = "fsx.csi.aws.com"
S3: Final = "s3.csi.aws.com"

# The add-on and chart that installs a driver, by the driver's name. The API server passes in-tree EBS volumes to the
# EBS driver.
INSTALLED_BY: Final[Mapping[str, str]] = {
    EBS: EBS_CSI_DRIVER,
    EBS_IN_TREE: EBS_CSI_DRIVER,
    EFS: EFS_CSI_DRIVER,
    FSX: FSX_CSI_DRIVER,
    S3: S3_CSI_DRIVER,
}

# Key of the taint that a driver removes from a node when it can mount there, for any effect and value.
# Sources: kubernetes-sigs/aws-ebs-csi-driver v1.64.0 docs/install.md, kubernetes-sigs/aws-fsx-csi-driver v1.9.0
# docs/install.md, awslabs/mountpoint-s3-csi-driver v2.7.0 docs/CONFIGURATION.md (2026-11-22)
STARTUP_TAINTS: Final[Mapping[str, str]] = {
    EBS: EBS_NOT_READY,
    EFS: EFS_NOT_READY,
    FSX: FSX_NOT_READY,
    S3: S3_NOT_READY,
}
# First version of a driver that does this, if older ones are still in use.
# Source: awslabs/mountpoint-s3-csi-driver v2.7.0 CHANGELOG.md
TAINT_REMOVED_SINCE: Final[Mapping[str, tuple[int, int]]] = {S3: (2, 1)}
_VERSION = regex(r"v?(\d+)\.(\d+)\.")

# Source: https://kubernetes.io/docs/concepts/storage/storage-classes/ (2026-11)
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"

# Included and max performance of a gp3 volume, and the ratios between the limits.
# Source: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html (2026-08)
BASE_IOPS, MAX_IOPS = 3_000, 80_000
BASE_THROUGHPUT, MAX_THROUGHPUT = 125, 2_000
IOPS_PER_GIB = 500
MIB_PER_SECOND_PER_IOPS = 0.25

# Sources of the limits of FSx for Lustre: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html,
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html,
# https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html (2026-11-22)

# Version of AL2023's client. With an older file system the client reports "Invalid argument".
# Source: https://github.com/kubernetes-sigs/aws-fsx-csi-driver/issues/437 (2025)
LUSTRE_VERSION: Final = "2.15"
# Default version by deployment type. For PERSISTENT_2 with metadata settings it is the newest.
LUSTRE_DEFAULT_VERSIONS: Final[Mapping[str, str]] = {
    "SCRATCH_1": "2.10",
    "SCRATCH_2": "2.10",
    "PERSISTENT_1": "2.10",
    "PERSISTENT_2": "2.12",
}
LUSTRE_DEFAULT_TYPE: Final = "SCRATCH_1"

# MB/s for each TiB, by deployment type and kind of disk. Others have no choice.
LUSTRE_THROUGHPUT: Final[Mapping[tuple[str, str], tuple[int, ...]]] = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
# The smallest size in GiB, and the step of larger sizes.
LUSTRE_MIN_GIB, _LUSTRE_STEP_GIB = 1200, 2400
_STEP_OF_SCRATCH_1 = 3600
_STEPS_OF_HDD = {12: 6000, 40: 1800}

# TCP, in both directions, between file system and clients, and between its servers.
LUSTRE_PORTS: Final = ((988, 988), (1018, 1023))
LUSTRE_MAX_BACKUP_DAYS = 90


def keeps_its_taint(driver: str, version: str | None) -> bool:
    """Whether a version of a driver's add-on or chart doesn't remove its startup taint from nodes."""
    since, stated = TAINT_REMOVED_SINCE.get(driver), _VERSION.match(version or "")
    return since is not None and stated is not None and (int(stated[1]), int(stated[2])) < since


def is_lustre_size(
    gib: int, deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None
) -> bool:
    """Whether FSx supports a size of a file system.

    Args:
        gib: Size in GiB.
        deployment: Deployment type.
        storage: ``SSD`` or ``HDD``.
        throughput: MB/s for each TiB, which determines the sizes of HDD.
    """
    if storage == "HDD":
        return gib > 0 and any(gib % step == 0 for key, step in _STEPS_OF_HDD.items() if throughput in (key, None))
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else _LUSTRE_STEP_GIB
    return gib in (LUSTRE_MIN_GIB, _LUSTRE_STEP_GIB) or (gib > 0 and gib % step == 0)


def lustre_sizes(deployment: str = "PERSISTENT_2", storage: str = "SSD", throughput: int | None = None) -> str:
    """Return a description of the supported sizes."""
    if storage == "HDD":
        return f"a multiple of {_STEPS_OF_HDD.get(throughput or 0, '1800 or 6000')} GiB"
    step = _STEP_OF_SCRATCH_1 if deployment == "SCRATCH_1" else _LUSTRE_STEP_GIB
    return f"{LUSTRE_MIN_GIB}, {_LUSTRE_STEP_GIB} or a multiple of {step} GiB"
