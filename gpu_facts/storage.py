"""Names of storage drivers in classes and volumes, and the annotation of the default class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_facts.charts import EBS_CSI_DRIVER, EFS_CSI_DRIVER, FSX_CSI_DRIVER, S3_CSI_DRIVER
from gpu_facts.labels import EBS_NOT_READY, EFS_NOT_READY, FSX_NOT_READY, S3_NOT_READY
from gpu_facts.light import regex

# Source: https://docs.aws.amazon.com/eks/latest/userguide/storage.html (2026-11)
EBS: Final = "ebs.csi.aws.com"
EBS_OF_AUTO_MODE: Final = "ebs.csi.eks.amazonaws.com"
EBS_OF_THE_TREE: Final = "kubernetes.io/aws-ebs"
EFS: Final = "efs.csi.aws.com"
FSX: Final = "fsx.csi.aws.com"
S3: Final = "s3.csi.aws.com"

# The add-on and chart that installs a driver, by the driver's name. The API server passes in-tree EBS volumes to the
# EBS driver.
BROUGHT_BY: Final[Mapping[str, str]] = {
    EBS: EBS_CSI_DRIVER,
    EBS_OF_THE_TREE: EBS_CSI_DRIVER,
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


def keeps_its_taint(driver: str, version: str | None) -> bool:
    """Whether a version of a driver's add-on or chart doesn't remove its startup taint from nodes."""
    since, stated = TAINT_REMOVED_SINCE.get(driver), _VERSION.match(version or "")
    return since is not None and stated is not None and (int(stated[1]), int(stated[2])) < since
