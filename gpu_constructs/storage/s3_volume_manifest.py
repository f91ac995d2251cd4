"""The volume of a bucket, and the claim that pods mount."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_constructs.storage.s3_mount import S3Mount
from gpu_facts.storage import S3

# Kubernetes asks for a size, and Mountpoint for none.
_SIZE = k8s.Quantity.from_string("1Gi")
# Also of a mount that is read-only, which its option says: Kubernetes changes no access mode of a claim.
_MODES = ["ReadWriteMany"]
# The name of no class: nobody makes a volume for the claim.
_NO_CLASS = ""


def s3_volume_chart(
    *, name: str, namespace: str, volume: str, bucket_name: str, region: str, prefix: str, mount: S3Mount, by_pod: bool
) -> cdk8s.Chart:
    """Return a volume that is kept for one claim, and that claim.

    Of two volumes with one handle in a pod Kubernetes mounts one, so the handle is the name of the volume, unique in
    the cluster. The region is stated, because the metadata service, which would tell it, does not answer pods.
    """
    chart = cdk8s.Chart(cdk8s.App(), name)
    attributes = {
        "bucketName": bucket_name,
        "authenticationSource": "pod" if by_pod else "driver",
        **mount.attributes,
    }
    k8s.KubePersistentVolume(
        chart,
        "Volume",
        metadata=k8s.ObjectMeta(name=volume),
        spec=k8s.PersistentVolumeSpec(
            capacity={"storage": _SIZE},
            access_modes=_MODES,
            persistent_volume_reclaim_policy="Retain",
            storage_class_name=_NO_CLASS,
            claim_ref=k8s.ObjectReference(namespace=namespace, name=name),
            mount_options=[*mount.options, f"region {region}", *([f"prefix {prefix}"] if prefix else [])],
            csi=k8s.CsiPersistentVolumeSource(driver=S3, volume_handle=volume, volume_attributes=attributes),
        ),
    )
    k8s.KubePersistentVolumeClaim(
        chart,
        "Claim",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace),
        spec=k8s.PersistentVolumeClaimSpec(
            access_modes=_MODES,
            storage_class_name=_NO_CLASS,
            resources=k8s.ResourceRequirements(requests={"storage": _SIZE}),
            volume_name=volume,
        ),
    )
    return chart
