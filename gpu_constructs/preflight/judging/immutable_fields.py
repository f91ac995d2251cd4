"""Fields of Kubernetes objects that an update may not change, because the API server or a webhook rejects it.

From memory, to be verified against: pkg/apis/{apps,batch,core,rbac,resource,scheduling,storage}/validation of
kubernetes 1.36; the validation rules of the definitions of Karpenter 1.15, EKS Auto Mode and Kueue 0.19; the webhooks
of Kueue 0.19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_constructs.facts.labels import EKS_DOMAIN, KARPENTER_AWS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_constructs.preflight.judging.written import differ
from gpu_constructs.preflight.reading.objects import Object
from gpu_constructs.preflight.reading.unknown import dig, mapping, mappings

# By API group and kind: paths into the object.
_FIXED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolume"): (
        *("spec/csi", "spec/nfs", "spec/hostPath", "spec/local", "spec/awsElasticBlockStore"),
        *("spec/nodeAffinity", "spec/volumeMode"),
    ),
    ("", "PersistentVolumeClaim"): (
        *("spec/accessModes", "spec/storageClassName", "spec/volumeName", "spec/volumeMode", "spec/selector"),
        *("spec/dataSource", "spec/dataSourceRef"),
    ),
    ("", "Service"): ("spec/clusterIP",),
    ("apps", "DaemonSet"): ("spec/selector",),
    ("apps", "Deployment"): ("spec/selector",),
    ("apps", "StatefulSet"): ("spec/selector", "spec/serviceName", "spec/volumeClaimTemplates"),
    ("batch", "Job"): (
        *("spec/template", "spec/selector", "spec/completions", "spec/completionMode"),
        *("spec/podFailurePolicy", "spec/successPolicy", "spec/backoffLimitPerIndex", "spec/managedBy"),
    ),
    (KUEUE_DOMAIN, "LocalQueue"): ("spec/clusterQueue",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("resource.k8s.io", "ResourceClaim"): ("spec",),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("spec",),
    ("resource.nvidia.com", "ComputeDomain"): ("spec",),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("storage.k8s.io", "VolumeAttributesClass"): ("driverName", "parameters"),
}
# Fields that one may change, but neither add nor leave out.
_KEPT: Mapping[tuple[str, str], tuple[str, ...]] = {
    (KARPENTER_DOMAIN, "NodePool"): ("spec/replicas",),
    (KARPENTER_AWS_DOMAIN, "EC2NodeClass"): ("spec/role", "spec/instanceProfile"),
    (EKS_DOMAIN, "NodeClass"): ("spec/role", "spec/instanceProfile"),
}
# What Kueue's webhooks compare in the pods of a group of pods that it admitted.
KUEUE_QUEUED_POD = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "overhead",
    "resourceClaims",
)
KUEUE_QUEUED_CONTAINER = ("resources", "ports")


def immutable_differences(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values of each field that differs between two versions of an object and may not change."""
    kind = after.group, after.kind
    for path in _FIXED.get(kind, ()):
        old, new = _at(before, path), _at(after, path)
        if differ(old, new):
            yield path.replace("/", "."), old, new
    for path in _KEPT.get(kind, ()):
        old, new = _at(before, path), _at(after, path)
        if (old is None) != (new is None):
            yield path.replace("/", "."), old, new
    for each in _OTHERS.get(kind, ()):
        yield from each(before, after)


def _at(value: Object, path: str) -> Any:
    return dig(dict(value.content), *path.split("/"))


def _smaller_claim(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield another size of a claim of no class: Kubernetes grows the volumes of classes alone."""
    old, new = (_at(each, "spec/resources") for each in (before, after))
    if _at(after, "spec/volumeName") is not None and differ(old, new):
        yield "spec.resources", old, new


def _queued_group(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield what Kueue refuses to change of a LeaderWorkerSet that is in a queue."""
    was, becomes = before.labels.get(KUEUE_QUEUE), after.labels.get(KUEUE_QUEUE)
    if differ(was, becomes):
        yield f"metadata.labels.{KUEUE_QUEUE}", was, becomes
    if was is None and becomes is None:
        return
    template = "spec/leaderWorkerTemplate"
    old, new = (_at(each, f"{template}/size") for each in (before, after))
    if differ(old, new):
        yield "spec.leaderWorkerTemplate.size", old, new
    for name in ("leaderTemplate", "workerTemplate"):
        pods = [_queued_pod(mapping(_at(each, f"{template}/{name}/spec"))) for each in (before, after)]
        for field in pods[0]:
            if differ(pods[0][field], pods[1][field]):
                yield f"{template.replace('/', '.')}.{name}.spec.{field}", pods[0][field], pods[1][field]


def _queued_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {field: spec.get(field) for field in KUEUE_QUEUED_POD}
    for containers in ("containers", "initContainers"):
        listed = mappings(spec.get(containers))
        found[containers] = [{field: each.get(field) for field in KUEUE_QUEUED_CONTAINER} for each in listed]
    return found


def _node_class(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield another kind of node class of a NodePool."""
    for name in ("group", "kind"):
        old, new = (_at(each, f"spec/template/spec/nodeClassRef/{name}") for each in (before, after))
        if differ(old, new):
            yield f"spec.template.spec.nodeClassRef.{name}", old, new


def _sealed(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs in a ConfigMap or Secret that says that it never changes."""
    if before.content.get("immutable") is True:
        for name in ("data", "binaryData", "immutable"):
            old, new = before.content.get(name), after.content.get(name)
            if differ(old, new):
                yield name, old, new


_OTHERS: Mapping[tuple[str, str], tuple[Callable[[Object, Object], Iterator[tuple[str, Any, Any]]], ...]] = {
    ("", "ConfigMap"): (_sealed,),
    ("", "PersistentVolumeClaim"): (_smaller_claim,),
    ("", "Secret"): (_sealed,),
    (KARPENTER_DOMAIN, "NodePool"): (_node_class,),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (_queued_group,),
}
