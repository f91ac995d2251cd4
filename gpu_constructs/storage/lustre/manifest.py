"""The volume of a file system of FSx for Lustre, and the claim that pods mount."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_facts.hardware.lustre import LEAST_GIB
from gpu_facts.labels import ZONE
from gpu_facts.storage import FSX

# The name of no class: nobody makes a volume for the claim.
_NO_CLASS = ""
# What every file system has: Kubernetes lets nobody change the request of a claim whose class doesn't resize volumes.
_REQUEST = k8s.Quantity.from_string(f"{LEAST_GIB}Gi")


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
    """Return a volume that is kept for one claim, and that claim.

    With a zone only nodes there take pods that claim it, and autoscalers make nodes there.
    """
    chart = cdk8s.Chart(cdk8s.App(), name)
    modes, size = ["ReadWriteMany"], k8s.Quantity.from_string(f"{size_gib}Gi")
    k8s.KubePersistentVolume(
        chart,
        "Volume",
        metadata=k8s.ObjectMeta(name=volume),
        spec=k8s.PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=modes,
            persistent_volume_reclaim_policy="Retain",
            storage_class_name=_NO_CLASS,
            claim_ref=k8s.ObjectReference(namespace=namespace, name=name),
            # Without it a lock that a program takes is refused.
            mount_options=["flock"],
            csi=k8s.CsiPersistentVolumeSource(
                driver=FSX,
                volume_handle=file_system_id,
                volume_attributes={"dnsname": dns_name, "mountname": mount_name},
            ),
            node_affinity=_only_in(zone) if zone is not None else None,
        ),
    )
    k8s.KubePersistentVolumeClaim(
        chart,
        "Claim",
        metadata=k8s.ObjectMeta(name=name, namespace=namespace),
        spec=k8s.PersistentVolumeClaimSpec(
            access_modes=modes,
            storage_class_name=_NO_CLASS,
            resources=k8s.ResourceRequirements(requests={"storage": _REQUEST}),
            volume_name=volume,
        ),
    )
    return chart


def _only_in(zone: str) -> k8s.VolumeNodeAffinity:
    there = k8s.NodeSelectorRequirement(key=ZONE, operator="In", values=[zone])
    return k8s.VolumeNodeAffinity(
        required=k8s.NodeSelector(node_selector_terms=[k8s.NodeSelectorTerm(match_expressions=[there])])
    )
