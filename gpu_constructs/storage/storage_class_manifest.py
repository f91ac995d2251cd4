"""The StorageClass of EBS volumes."""

from __future__ import annotations

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_constructs.storage.gp3 import Gp3
from gpu_facts.labels import COMPUTE_TYPE
from gpu_facts.storage import DEFAULT_CLASS, EBS, EBS_OF_AUTO_MODE


def storage_class_chart(
    *, name: str, volume: Gp3, key_arn: str | None, is_default: bool, retain: bool, auto_mode: bool
) -> cdk8s.Chart:
    """Return a class that waits for the first pod of a claim, because only then a zone is known."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    # Beside nodes of Auto Mode a cluster may have others, where its driver does not run.
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
