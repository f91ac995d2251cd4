"""PersistentVolumes, claims and StorageClasses as Kubernetes objects."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_constructs.pools.disk import Gp3
from gpu_constructs.storage.s3_mount import S3Mount
from gpu_facts.labels import COMPUTE_TYPE, ZONE
from gpu_facts.storage import DEFAULT_CLASS, EBS, EBS_OF_AUTO_MODE, FSX, LUSTRE_MIN_GIB, S3

# A claim with an empty class name: Kubernetes doesn't create a volume for it.
_NO_CLASS = ""
# Min size of a file system. Kubernetes doesn't allow changes of a claim's request if its class doesn't resize volumes.
_REQUEST = k8s.Quantity.from_string(f"{LUSTRE_MIN_GIB}Gi")
# Kubernetes requires a size, and Mountpoint ignores it.
_SIZE = k8s.Quantity.from_string("1Gi")
# A read-only mount has a mount option, not another access mode, because the access mode of a claim is immutable.
_MODES = ["ReadWriteMany"]


def lustre_chart(
    *,
    name: str,
    namespace: str,
    volume: str,
    size_gib: int,
    file_system_id: str,
    dns_name: str,
    mount_name: str,
    zone: str | None,
) -> cdk8s.Chart:
    """Return a volume that is reserved for one claim, and that claim.

    With a zone, only nodes in it run pods with the claim, and autoscalers launch nodes there.
    """
    return _claimed_volume(
        name,
        namespace,
        volume,
        capacity=k8s.Quantity.from_string(f"{size_gib}Gi"),
        request=_REQUEST,
        # Without it, the client rejects file locks.
        mount_options=["flock"],
        csi=k8s.CsiPersistentVolumeSource(
            driver=FSX,
            volume_handle=file_system_id,
            volume_attributes={"dnsname": dns_name, "mountname": mount_name},
        ),
        node_affinity=_zone_affinity(zone) if zone is not None else None,
    )


def _claimed_volume(
    name: str,
    namespace: str,
    volume: str,
    *,
    capacity: k8s.Quantity,
    request: k8s.Quantity,
    mount_options: list[str],
    csi: k8s.CsiPersistentVolumeSource,
    node_affinity: k8s.VolumeNodeAffinity | None = None,
) -> cdk8s.Chart:
    """Return a volume that is reserved for one claim, and that claim."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    k8s.KubePersistentVolume(
        chart,
        "Volume",
        metadata=k8s.ObjectMeta(name=volume),
        spec=k8s.PersistentVolumeSpec(
            capacity={"storage": capacity},
            access_modes=_MODES,
            persistent_volume_reclaim_policy="Retain",
            storage_class_name=_NO_CLASS,
            claim_ref=k8s.ObjectReference(namespace=namespace, name=name),
            mount_options=mount_options,
            csi=csi,
            node_affinity=node_affinity,
        ),
    )
    k8s.KubePersistentVolumeClaim(
        chart,
        "Claim",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace),
        spec=k8s.PersistentVolumeClaimSpec(
            access_modes=_MODES,
            storage_class_name=_NO_CLASS,
            resources=k8s.ResourceRequirements(requests={"storage": request}),
            volume_name=volume,
        ),
    )
    return chart


def _zone_affinity(zone: str) -> k8s.VolumeNodeAffinity:
    there = k8s.NodeSelectorRequirement(key=ZONE, operator="In", values=[zone])
    return k8s.VolumeNodeAffinity(
        required=k8s.NodeSelector(node_selector_terms=[k8s.NodeSelectorTerm(match_expressions=[there])])
    )


def s3_volume_chart(
    *, name: str, namespace: str, volume: str, bucket_name: str, region: str, prefix: str, mount: S3Mount, by_pod: bool
) -> cdk8s.Chart:
    """Return a volume that is reserved for one claim, and that claim.

    If a pod has two volumes with one handle, Kubernetes mounts only one. So the handle is the name of the volume,
    unique in the cluster. The region is set, because the metadata service doesn't answer pods.
    """
    attributes = {"bucketName": bucket_name, "authenticationSource": "pod" if by_pod else "driver", **mount.attributes}
    return _claimed_volume(
        name,
        namespace,
        volume,
        capacity=_SIZE,
        request=_SIZE,
        mount_options=[*mount.options, f"region {region}", *([f"prefix {prefix}"] if prefix else [])],
        csi=k8s.CsiPersistentVolumeSource(driver=S3, volume_handle=volume, volume_attributes=attributes),
    )


def storage_class_chart(
    *, name: str, volume: Gp3, key_arn: str | None, is_default: bool, retain: bool, auto_mode: bool
) -> cdk8s.Chart:
    """Return a class that waits for the first pod of a claim, because only then the zone is known."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    # A cluster can have other nodes next to Auto Mode nodes. The driver of Auto Mode doesn't run on them.
    # Source: https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html (2026-08)
    of_auto_mode = k8s.TopologySelectorLabelRequirement(key=COMPUTE_TYPE, values=["auto"])
    term = k8s.TopologySelectorTerm(match_label_expressions=[of_auto_mode])
    k8s.KubeStorageClass(
        chart,
        "StorageClass",
        metadata=k8s.ObjectMeta(name=name, annotations={DEFAULT_CLASS: "true"} if is_default else None),
        provisioner=EBS_OF_AUTO_MODE if auto_mode else EBS,
        parameters={
            **volume.parameters,
            "encrypted": "true",
            **({"kmsKeyId": key_arn} if key_arn is not None else {}),
        },
        reclaim_policy="Retain" if retain else "Delete",
        volume_binding_mode="WaitForFirstConsumer",
        allow_volume_expansion=True,
        allowed_topologies=[term] if auto_mode else None,
    )
    return chart
