"""Drivers that pools of nodes need before their pods can mount."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.shared import CsiDriver
from gpu_constructs.pools.taint import DRIVER_NAMES, StorageDriver
from gpu_constructs.storage.ebs_csi_driver import ebs_csi_driver
from gpu_constructs.storage.fsx_csi_driver import fsx_csi_driver
from gpu_constructs.storage.s3_csi_driver import s3_csi_driver
from gpu_facts.storage import TAINT_REMOVED_SINCE, keeps_its_taint

_BRING: Mapping[StorageDriver, Callable[[ClusterRef], CsiDriver | None]] = {
    "ebs": ebs_csi_driver,
    "fsx": fsx_csi_driver,
    "s3": s3_csi_driver,
}


def bring_drivers(who: object, cluster: ClusterRef, drivers: Iterable[StorageDriver]) -> None:
    """Bring drivers into a cluster of this app; an imported one may have its own.

    Raises:
        ValueError: One is there, and too old to take its startup taint away.
    """
    for each in drivers:
        made = _BRING[each](cluster)
        version = made.addon.addon_version if made is not None else None
        if keeps_its_taint(DRIVER_NAMES[each], version):
            first, second = TAINT_REMOVED_SINCE[DRIVER_NAMES[each]]
            raise ValueError(
                f"{who}: storage_drivers must have drivers that take their startup taint away, got {each!r} of version "
                f"{version}; v{first}.{second} does, or leave it out"
            )
