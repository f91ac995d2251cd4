"""The storage that pods claim, as far as it is in the input.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ (2026-11)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import GIB, quantity
from gpu_facts.storage import BASE_IOPS, IOPS_PER_GIB
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.launch import Disk
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.storage import EBS_PROVISIONERS, PersistentVolume, StorageClass
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mappings


@dataclass(frozen=True, slots=True)
class Claimed:
    """Storage that a workload claims.

    Attributes:
        name: Name of the claim; ``None`` if it is created for each pod.
        spec: ``spec`` of the claim; ``None`` if the claim isn't in the input.
        storage_class: The StorageClass that it names, or else the default StorageClass, if it is in the input.
        volume: The PersistentVolume that it is bound to by name, if it is in the input.
    """

    name: str | None
    spec: Mapping[str, Any] | None
    storage_class: StorageClass | None
    volume: PersistentVolume | None

    @property
    def title(self) -> str:
        """The claim in messages."""
        return f"PersistentVolumeClaim {self.name}" if self.name else "the claim created for each pod"

    @property
    def modes(self) -> list[Any]:
        """Its access modes."""
        listed = (self.spec or {}).get("accessModes")
        return list(listed) if isinstance(listed, list) else []

    @property
    def size(self) -> int | None:
        """The bytes that it requests; ``None`` if the size isn't known."""
        return quantity("memory", dig(self.spec, "resources", "requests", "storage"))

    @property
    def is_ebs(self) -> bool:
        """Whether it is certainly an EBS volume."""
        made_by = self.storage_class or self.volume
        return made_by is not None and made_by.driver in EBS_PROVISIONERS


def claimed(workload: Workload, cluster: Cluster) -> Iterator[Claimed]:
    """Yield the storage that a workload claims, except claims that are known at deployment only."""
    for volume in workload.pod.volumes:
        if isinstance(volume.claim, str):
            found = cluster.volume_claims.get((workload.namespace, volume.claim))
            yield _claim(volume.claim, found.spec if found else None, cluster)
        elif volume.claim_spec is not None and not isinstance(volume.claim_spec, Unknown):
            yield _claim(None, volume.claim_spec, cluster)
    for each in workload.claim_templates:
        yield _claim(None, each, cluster)


def _claim(name: str | None, written: Mapping[str, Any] | None, cluster: Cluster) -> Claimed:
    spec = written or {}
    if spec.get("storageClassName") is None and not spec.get("volumeName"):
        defaults = [each for each in cluster.storage_classes if each.is_default]
        storage = defaults[0] if len(defaults) == 1 else None
    else:
        storage = next(
            (each for each in cluster.storage_classes if each.object.name == spec.get("storageClassName")), None
        )
    volume = next((each for each in cluster.volumes if each.object.name == spec.get("volumeName")), None)
    return Claimed(name, written, storage, volume)


def gp3_volume(claim: Claimed) -> Disk | None:
    """Return the gp3 volume that the EBS CSI driver requests from EC2, if the class and the size of a claim are known.

    The driver lowers iops to the maximum for the size, but not below the baseline of gp3.

    Source: kubernetes-sigs/aws-ebs-csi-driver pkg/cloud/cloud.go ``capIOPS`` (2026-08)
    """
    storage = claim.storage_class
    if storage is None or storage.driver not in EBS_PROVISIONERS or claim.size is None:
        return None
    parameters = {str(key).lower(): value for key, value in storage.parameters.items()}
    if (
        str(parameters.get("type", "gp3")).lower() != "gp3"
        or "iopspergb" in parameters
        or (claim.spec or {}).get("volumeName")
    ):
        return None
    gib = math.ceil(claim.size / GIB)
    iops, most = known_number(parameters.get("iops")), gib * IOPS_PER_GIB
    lowered = min(iops, most) if iops is not None and most >= BASE_IOPS else parameters.get("iops")
    return Disk("", gib, "gp3", lowered, parameters.get("throughput"))


def is_stateful_set_claim(name: str, workload: Workload, cluster: Cluster) -> bool:
    """Whether a StatefulSet of the input creates a claim for one of its pods."""
    for each in cluster.objects_of_kind("StatefulSet"):
        for template in mappings(each.spec.get("volumeClaimTemplates")):
            made = str((template.get("metadata") or {}).get("name"))
            if each.namespace == workload.namespace and name.startswith(f"{made}-{each.name}-"):
                return True
    return False


def claim_source(claim: Claimed, cluster: Cluster) -> PersistentVolume | StorageClass | None:
    """Return the volume or the class that sets the driver of a claim's storage."""
    return claim.volume or _volume_of_class(claim, cluster) or claim.storage_class


def _volume_of_class(claim: Claimed, cluster: Cluster) -> PersistentVolume | None:
    """Return a PersistentVolume of a claim's class, if nothing provisions volumes and all of them have the same driver.

    A claim with class "", or with a class that doesn't exist, is bound to such a volume.
    """
    name = known_text((claim.spec or {}).get("storageClassName"))
    if name is None or claim.storage_class is not None:
        return None
    volumes = [each for each in cluster.volumes if (each.class_name or "") == name]
    free = [each for each in volumes if each.claim.get("name") in (None, claim.name)]
    return free[0] if len({each.driver for each in free}) == 1 else None


def installs(name: str, cluster: Cluster) -> bool:
    """Whether an add-on, a chart, Argo CD, Flux or a manifest installs the driver of an add-on."""
    named = any(name in str(each.content.get("spec")) for each in cluster.objects_of_kind("Application", "HelmRelease"))
    return bool(cluster.addon(name) or cluster.chart(name) or node_daemons(name, cluster)) or named


def node_daemons(name: str, cluster: Cluster) -> list[DaemonSet]:
    """Return the DaemonSets with which the driver of an add-on mounts volumes."""
    node = name.removeprefix("aws-").replace("csi-driver", "csi-node").replace("mountpoint-", "")
    return [each for each in cluster.daemon_sets if each.name.startswith(node)]
