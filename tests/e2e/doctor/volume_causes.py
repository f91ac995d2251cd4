"""Causes in volumes: ids V1 to V7."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.cause import UNTOLERATED, Cause, job, trainer
from tests.e2e.doctor.fleet import GPU, TOLERANT_PLUGIN, cpu_node, deployment, gpu_node


def _mounting(claim: str, *, cpu: str = "4", memory: str = "16Gi", tolerations: Sequence[Object] = ()) -> Object:
    made = trainer(cpu=cpu, memory=memory, tolerations=list(tolerations))
    made["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    made["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return made


def _claim(name: str, storage_class: str, *, mode: str = "ReadWriteOnce", volume: str = "") -> Object:
    spec: Object = {
        "accessModes": [mode],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "500Gi"}},
    }
    spec |= {"volumeName": volume} if volume else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def _class(name: str, binding: str) -> Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": binding,
        "parameters": {"type": "gp3"},
    }


def _volume(name: str, zone: str, storage_class: str, *, mode: str = "ReadWriteOnce") -> Object:
    expression = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"us-east-1{zone}"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "500Gi"},
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": storage_class,
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-0a1b2c3d4e5f60718", "fsType": "ext4"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
        },
    }


VOLUME_CAUSES = (
    Cause(
        name="v1-missing-claim",
        why="The Job mounts the PersistentVolumeClaim datasets, which doesn't exist.",
        first=("V1",),
        never=("V2", "V3", "S1", "P4"),
        until=(r'FailedScheduling: .*persistentvolumeclaim "datasets" not found',),
        objects=(job(_mounting("datasets")),),
    ),
    Cause(
        name="v2-no-provisioner",
        why="The claim's StorageClass binds at once, and its provisioner isn't installed.",
        first=("V2",),
        never=("V1", "V3", "V5", "S1"),
        before=(_class("gp3-immediate", "Immediate"), _claim("datasets", "gp3-immediate")),
        until=(r"FailedScheduling: .*unbound immediate PersistentVolumeClaims", r"ExternalProvisioning"),
        objects=(job(_mounting("datasets")),),
    ),
    Cause(
        name="v2-missing-storage-class",
        why="The claim names the StorageClass fast, which doesn't exist.",
        first=("V2",),
        never=("V1", "V3", "V5", "S1"),
        before=(_claim("datasets", "fast"),),
        until=(r"FailedScheduling: .*unbound immediate PersistentVolumeClaims", r"ProvisioningFailed"),
        objects=(job(_mounting("datasets")),),
    ),
    Cause(
        name="p5-with-a-claim-that-waits",
        why="The Job doesn't tolerate dedicated=training; its claim waits for the pod, which is only an effect.",
        first=("P5",),
        never=("V3", "V2", "V1", "S4", "S1"),
        plugin=TOLERANT_PLUGIN,
        nodes=(cpu_node(), gpu_node(taints=({"key": "dedicated", "value": "training", "effect": "NoSchedule"},))),
        before=(_class("gp3", "WaitForFirstConsumer"), _claim("datasets", "gp3")),
        until=(rf"FailedScheduling: .*{UNTOLERATED}", r"WaitForFirstConsumer|WaitForPodScheduled"),
        objects=(job(_mounting("datasets")),),
    ),
    Cause(
        name="v5-volume-in-another-zone",
        why="The volume is in us-east-1b, and the GPU node is in us-east-1a.",
        first=("V5",),
        never=("P6", "V2", "V1", "S1"),
        nodes=(cpu_node(), gpu_node(), cpu_node(zone="b")),
        before=(_volume("pv-datasets", "b", "gp3"), _claim("datasets", "gp3", volume="pv-datasets")),
        until=(r"FailedScheduling: .*node\(s\) didn't match PersistentVolume's node affinity",),
        objects=(job(_mounting("datasets")),),
    ),
    Cause(
        name="v7-read-write-once-pod",
        why="A running notebook has the ReadWriteOncePod volume that the Job mounts.",
        first=("V7",),
        never=("V5", "V2", "S1"),
        before=(
            _volume("pv-datasets", "a", "gp3", mode="ReadWriteOncePod"),
            _claim("datasets", "gp3", mode="ReadWriteOncePod", volume="pv-datasets"),
            deployment("notebook", _mounting("datasets", cpu="2", memory="4Gi")),
        ),
        until=(r"FailedScheduling: .*ReadWriteOncePod access mode already in-use",),
        objects=(job(_mounting("datasets", tolerations=[{"key": GPU, "operator": "Exists"}])),),
    ),
)
