"""The storage that pods claim, as far as it is in the input.

Source: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ (2026-11)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.hardware.gp3 import BASE_IOPS, IOPS_PER_GIB
from gpu_facts.light import dataclass
from gpu_facts.quantities import GIB, quantity
from gpu_facts.storage import DEFAULT_CLASS, EBS, EBS_OF_AUTO_MODE, EBS_OF_THE_TREE, S3
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.launch import Disk
from gpu_preflight.model.pod import Workload
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

EBS_PROVISIONERS = (EBS, EBS_OF_AUTO_MODE, EBS_OF_THE_TREE)
_DEFAULT = (DEFAULT_CLASS, "storageclass.beta.kubernetes.io/is-default-class")


@dataclass(frozen=True, slots=True)
class Claimed:
    """Storage that a workload claims.

    Attributes:
        name: Name of the claim; ``None`` of one that is made for each pod.
        spec: ``spec`` of the claim; ``None`` where the claim is not in the input.
    """

    name: str | None
    spec: Mapping[str, Any] | None

    @property
    def title(self) -> str:
        """The claim as people say it."""
        return f"PersistentVolumeClaim {self.name}" if self.name else "the claim made for each pod"

    @property
    def modes(self) -> list[Any]:
        """Its access modes."""
        listed = (self.spec or {}).get("accessModes")
        return list(listed) if isinstance(listed, list) else []


def claimed(workload: Workload, cluster: Cluster) -> Iterator[Claimed]:
    """Yield the storage that a workload claims; what is known at deployment only is left out."""
    for volume in workload.pod.volumes:
        if isinstance(volume.claim, str):
            found = cluster.volume_claims.get((workload.namespace, volume.claim))
            yield Claimed(volume.claim, found.spec if found else None)
        elif volume.claim_spec is not None and not isinstance(volume.claim_spec, Unknown):
            yield Claimed(None, volume.claim_spec)
    for each in workload.claim_templates:
        yield Claimed(None, each)


def storage_class(claim: Claimed, cluster: Cluster) -> Object | None:
    """Return the StorageClass that a claim names, or the default one for a claim that names none, when it is there."""
    spec = claim.spec or {}
    if spec.get("storageClassName") is None and not spec.get("volumeName"):
        defaults = default_classes(cluster)
        return defaults[0] if len(defaults) == 1 else None
    name = known_text(spec.get("storageClassName"))
    return next((each for each in cluster.objects_of_kind("StorageClass") if each.name == name), None)


def default_classes(cluster: Cluster) -> list[Object]:
    """Return the StorageClasses of the input that are marked as the default."""
    classes = cluster.objects_of_kind("StorageClass")
    return [each for each in classes if any(is_true(str(each.annotations.get(key))) for key in _DEFAULT)]


def bound_volume(claim: Claimed, cluster: Cluster) -> Object | None:
    """Return the PersistentVolume that a claim is bound to by name, when it is in the input."""
    name = known_text((claim.spec or {}).get("volumeName"))
    return next((each for each in cluster.objects_of_kind("PersistentVolume") if each.name == name), None)


def is_bucket(volume: Object) -> bool:
    """Whether a PersistentVolume is a bucket that Mountpoint shows."""
    return known_text(dig(dict(volume.spec), "csi", "driver")) == S3


def option_names(options: Any) -> list[str]:
    """Return the names of mount options, each of which may be ``--name value``, ``name value`` or ``name=value``."""
    texts = [each for each in options if isinstance(each, str)] if isinstance(options, list) else []
    return [each.lstrip("-").replace("=", " ").split(" ")[0] for each in texts]


def gp3_volume(claim: Claimed, cluster: Cluster) -> Disk | None:
    """Return the gp3 volume that the driver of EBS asks EC2 for, where the class and the size of a claim are known.

    It lowers iops to what the size allows, unless that is less than every gp3 volume has.

    Source: kubernetes-sigs/aws-ebs-csi-driver pkg/cloud/cloud.go ``capIOPS`` (2026-08)
    """
    storage, spec = storage_class(claim, cluster), dict(claim.spec or {})
    size = quantity("memory", dig(spec, "resources", "requests", "storage"))
    if storage is None or storage.content.get("provisioner") not in EBS_PROVISIONERS or size is None:
        return None
    said = {str(key).lower(): value for key, value in mapping(storage.content.get("parameters")).items()}
    if str(said.get("type", "gp3")).lower() != "gp3" or "iopspergb" in said or spec.get("volumeName"):
        return None
    gib = math.ceil(size / GIB)
    iops, most = known_number(said.get("iops")), gib * IOPS_PER_GIB
    lowered = min(iops, most) if iops is not None and most >= BASE_IOPS else said.get("iops")
    return Disk("", gib, "gp3", lowered, said.get("throughput"))


def is_stateful_set_claim(name: str, workload: Workload, cluster: Cluster) -> bool:
    """Whether a claim is one that a StatefulSet of the input makes for one of its pods."""
    for each in cluster.objects_of_kind("StatefulSet"):
        for template in mappings(each.spec.get("volumeClaimTemplates")):
            made = str((template.get("metadata") or {}).get("name"))
            if each.namespace == workload.namespace and name.startswith(f"{made}-{each.name}-"):
                return True
    return False


def storage_driver(claim: Claimed, cluster: Cluster) -> tuple[Object | None, str | None]:
    """Return the volume or the class that says who brings a claim its storage, and the name of that driver."""
    volume, storage = bound_volume(claim, cluster) or _volume_of_class(claim, cluster), storage_class(claim, cluster)
    written = dig(dict(volume.spec), "csi", "driver") if volume else storage and storage.content.get("provisioner")
    return volume or storage, known_text(written)


def _volume_of_class(claim: Claimed, cluster: Cluster) -> Object | None:
    """Return a PersistentVolume of the class that a claim names, where nothing makes one and all have one driver.

    A claim of class "" or of a class that isn't there is bound to such a volume.
    """
    name = known_text((claim.spec or {}).get("storageClassName"))
    if name is None or storage_class(claim, cluster) is not None:
        return None
    volumes = [
        each
        for each in cluster.objects_of_kind("PersistentVolume")
        if (each.spec.get("storageClassName") or "") == name
    ]
    free = [each for each in volumes if dig(dict(each.spec), "claimRef", "name") in (None, claim.name)]
    drivers = {known_text(dig(dict(each.spec), "csi", "driver")) for each in free}
    return free[0] if len(drivers) == 1 else None


def installs(name: str, cluster: Cluster) -> bool:
    """Whether an add-on, a chart, Argo CD, Flux or a manifest brings the driver of an add-on."""
    named = any(name in str(each.content.get("spec")) for each in cluster.objects_of_kind("Application", "HelmRelease"))
    return bool(cluster.addon(name) or cluster.chart(name) or node_daemons(name, cluster)) or named


def node_daemons(name: str, cluster: Cluster) -> list[DaemonSet]:
    """Return the DaemonSets by which the driver of an add-on mounts."""
    node = name.removeprefix("aws-").replace("csi-driver", "csi-node").replace("mountpoint-", "")
    return [each for each in cluster.daemon_sets if each.name.startswith(node)]


def is_ebs(claim: Claimed, cluster: Cluster) -> bool:
    """Whether a claim is known to be a volume of EBS."""
    storage, volume = storage_class(claim, cluster), bound_volume(claim, cluster)
    made = (
        storage.content.get("provisioner") if storage else dig(dict(volume.spec), "csi", "driver") if volume else None
    )
    return made in EBS_PROVISIONERS
