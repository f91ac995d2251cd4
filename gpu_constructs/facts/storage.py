"""Names of drivers for storage, by which classes and volumes name them, and of the class that is the default."""

from __future__ import annotations

from typing import Final

# Source: https://docs.aws.amazon.com/eks/latest/userguide/storage.html (2026-11)
EBS: Final = "ebs.csi.aws.com"
EBS_OF_AUTO_MODE: Final = "ebs.csi.eks.amazonaws.com"
EBS_OF_THE_TREE: Final = "kubernetes.io/aws-ebs"
EFS: Final = "efs.csi.aws.com"
FSX: Final = "fsx.csi.aws.com"
S3: Final = "s3.csi.aws.com"

# Source: https://kubernetes.io/docs/concepts/storage/storage-classes/ (2026-11)
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
