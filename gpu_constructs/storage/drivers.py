"""Drivers that pools of nodes need before their pods can mount."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from gpu_constructs.facts.storage import TAINT_REMOVED_SINCE
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.shared import CsiDriver
from gpu_constructs.pools.taint import DRIVER_NAMES, StorageDriver
from gpu_constructs.storage.ebs_csi_driver import ebs_csi_driver
from gpu_constructs.storage.fsx_csi_driver import fsx_csi_driver
from gpu_constructs.storage.s3_csi_driver import s3_csi_driver

_BRING: Mapping[StorageDriver, Callable[[ClusterRef], CsiDriver | None]] = {
    "ebs": ebs_csi_driver,
    "fsx": fsx_csi_driver,
    "s3": s3_csi_driver,
}
_VERSION = re.compile(r"v(\d+)\.(\d+)\.")


def bring_drivers(who: object, cluster: ClusterRef, drivers: Iterable[StorageDriver]) -> None:
    """Bring drivers into a cluster of this app; an imported one may have its own.

    Raises:
        ValueError: One is there, and too old to take its startup taint away.
    """
    for each in drivers:
        made = _BRING[each](cluster)
        since = TAINT_REMOVED_SINCE.get(DRIVER_NAMES[each])
        stated = _VERSION.match(made.addon.addon_version or "") if made is not None else None
        if since is not None and stated and (int(stated[1]), int(stated[2])) < since:
            raise ValueError(
                f"{who}: storage_drivers must have drivers that take their startup taint away, got {each!r} of version "
                f"v{stated[1]}.{stated[2]}; v{since[0]}.{since[1]} does, or leave it out"
            )
