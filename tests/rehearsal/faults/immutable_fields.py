"""Second deployments that change, under one name, a field that Kubernetes never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import pair

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_CONSEQUENCE = "The API server rejects the object with 422 and the update is rolled back."


def _apply_both(
    old: CloudAssembly, new: CloudAssembly, manifest: dict[str, Any], change: Callable[[dict[str, Any]], object]
) -> None:
    """Add an object to both versions, and change it in the new one."""
    for app in (old, new):
        app.apply(f"Own{manifest['kind']}", manifest)
    new.edit(manifest["kind"], change)


@pair(
    consequence=_CONSEQUENCE,
    cause=("Job", "train", "template|image|immutable|never changes"),
    changes="Job",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/job/",
)
def job_image_under_one_name(old: CloudAssembly, new: CloudAssembly) -> None:
    """The training job gets another image under the same name."""

    def change(job: dict[str, Any]) -> None:
        job["spec"]["template"]["spec"]["containers"][0]["image"] = "pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"

    new.edit("Job", change)


@pair(
    consequence=_CONSEQUENCE,
    cause=("Deployment", "chat", "selector"),
    changes="Deployment",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#label-selector-updates",
)
def deployment_selector(old: CloudAssembly, new: CloudAssembly) -> None:
    """The server's Deployment gets another selector."""

    def change(deployment: dict[str, Any]) -> None:
        spec = deployment["spec"]
        for labels in (spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]):
            labels["app.kubernetes.io/part-of"] = "llm"

    new.edit("Deployment", change)


@pair(
    consequence=_CONSEQUENCE,
    cause=("Service", "chat", "clusterIP"),
    changes="Service",
    source="https://kubernetes.io/docs/concepts/services-networking/service/#choosing-your-own-ip-address",
)
def service_becomes_headless(old: CloudAssembly, new: CloudAssembly) -> None:
    """The server's Service becomes headless under the same name."""
    new.edit("Service", lambda it: it["spec"].update(clusterIP="None"))


@pair(
    consequence=_CONSEQUENCE,
    cause=("PersistentVolumeClaim", "weights", "accessModes"),
    changes="PersistentVolumeClaim",
    source=_VOLUMES,
)
def claim_access_modes(old: CloudAssembly, new: CloudAssembly) -> None:
    """A claim gets other access modes under the same name."""
    spec = {"accessModes": ["ReadOnlyMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "weights", "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    _apply_both(old, new, claim, lambda it: it["spec"].update(accessModes=["ReadWriteMany"]))


@pair(
    consequence=_CONSEQUENCE,
    cause=("PersistentVolume", "weights", "csi|source|volumeHandle"),
    changes="PersistentVolume",
    source=_VOLUMES,
)
def volume_source(old: CloudAssembly, new: CloudAssembly) -> None:
    """A volume of a bucket gets another bucket under the same name."""
    attributes = {"bucketName": "weights"}
    spec: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadOnlyMany"],
        "csi": {"driver": "s3.csi.aws.com", "volumeHandle": "weights", "volumeAttributes": attributes},
    }
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "weights"}, "spec": spec}
    _apply_both(old, new, volume, lambda it: it["spec"]["csi"]["volumeAttributes"].update(bucketName="models"))


@pair(
    consequence=_CONSEQUENCE,
    cause=("StorageClass", "fast", "parameters"),
    changes="StorageClass",
    source="https://kubernetes.io/docs/concepts/storage/storage-classes/",
)
def storage_class_parameters(old: CloudAssembly, new: CloudAssembly) -> None:
    """A StorageClass gets another volume type under the same name."""
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3"},
    }
    _apply_both(old, new, storage, lambda it: it["parameters"].update(type="io2"))


@pair(
    consequence=_CONSEQUENCE,
    cause=("ResourceClaim", "shared-gpu", "spec|devices"),
    changes="ResourceClaim",
    source="https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/",
)
def resource_claim_devices(old: CloudAssembly, new: CloudAssembly) -> None:
    """A ResourceClaim requests more devices under the same name."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared-gpu", "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }

    def change(it: dict[str, Any]) -> None:
        it["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2

    _apply_both(old, new, claim, change)
