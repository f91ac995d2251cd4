"""Fields of Kubernetes objects that an update may not change, because the API server or a webhook rejects it.

Sources, read 2026-11: pkg/apis/{apps,batch,core,rbac,resource,scheduling,storage}/validation of kubernetes 1.36.3;
the transition rules (``oldSelf``) of the definitions of Karpenter 1.15.1, Kueue 0.19.2, JobSet 0.12.0, KubeRay 1.7.0,
Kubeflow Trainer 2.0.0 and NVIDIA's DRA driver 0.4.1; pkg/controller/jobs/leaderworkerset and pkg/util/pod (SpecShape)
of Kueue 0.19.2; pkg/webhooks of JobSet 0.12.0 and LeaderWorkerSet (2026-08).
Assumption, without a public source: the NodeClass of EKS Auto Mode has the rule of earlier EC2NodeClasses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_facts.kubernetes import queued_pod
from gpu_facts.labels import EKS_DOMAIN, KARPENTER_DOMAIN, KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_preflight.judging.deployed import differ
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping

# By API group and kind: paths into the object.
_FIXED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "PersistentVolume"): (
        *("spec/csi", "spec/nfs", "spec/hostPath", "spec/local", "spec/awsElasticBlockStore"),
        "spec/volumeMode",
    ),
    ("", "PersistentVolumeClaim"): (
        *("spec/accessModes", "spec/storageClassName", "spec/volumeName", "spec/volumeMode", "spec/selector"),
        *("spec/dataSource", "spec/dataSourceRef"),
    ),
    ("", "Secret"): ("type",),
    ("", "Service"): ("spec/clusterIP",),
    ("apps", "DaemonSet"): ("spec/selector",),
    ("apps", "Deployment"): ("spec/selector",),
    ("apps", "StatefulSet"): (
        *("spec/selector", "spec/serviceName", "spec/volumeClaimTemplates", "spec/podManagementPolicy"),
    ),
    ("batch", "Job"): (
        *("spec/template", "spec/selector", "spec/completionMode"),
        *("spec/podFailurePolicy", "spec/successPolicy", "spec/backoffLimitPerIndex", "spec/managedBy"),
    ),
    ("jobset.x-k8s.io", "JobSet"): (
        *("spec/replicatedJobs", "spec/managedBy", "spec/failurePolicy", "spec/network", "spec/startupPolicy"),
        *("spec/successPolicy", "spec/volumeClaimPolicies"),
    ),
    (KUEUE_DOMAIN, "AdmissionCheck"): ("spec/controllerName",),
    (KUEUE_DOMAIN, "LocalQueue"): ("spec/clusterQueue",),
    (KUEUE_DOMAIN, "Topology"): ("spec/levels",),
    ("ray.io", "RayCluster"): ("spec/managedBy",),
    ("ray.io", "RayJob"): ("spec/managedBy",),
    ("ray.io", "RayService"): ("spec/managedBy",),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("resource.k8s.io", "ResourceClaim"): ("spec",),
    ("resource.k8s.io", "ResourceClaimTemplate"): ("spec",),
    ("resource.nvidia.com", "ComputeDomain"): ("spec",),
    ("scheduling.k8s.io", "PriorityClass"): ("value", "preemptionPolicy"),
    ("storage.k8s.io", "StorageClass"): ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    ("storage.k8s.io", "VolumeAttributesClass"): ("driverName", "parameters"),
    ("trainer.kubeflow.org", "TrainJob"): ("spec/managedBy", "spec/runtimeRef"),
}
# Fields that an update may change, but not add or remove.
_KEPT: Mapping[tuple[str, str], tuple[str, ...]] = {
    (KARPENTER_DOMAIN, "NodePool"): ("spec/replicas",),
    (EKS_DOMAIN, "NodeClass"): ("spec/role", "spec/instanceProfile"),
}


def immutable_differences(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield path and both values of each field that differs between two versions of an object and may not change."""
    kind = after.group, after.kind
    for path in _FIXED.get(kind, ()):
        old, new = _field_value(before, path), _field_value(after, path)
        if differ(old, new):
            yield path.replace("/", "."), old, new
    for path in _KEPT.get(kind, ()):
        old, new = _field_value(before, path), _field_value(after, path)
        if (old is None) != (new is None):
            yield path.replace("/", "."), old, new
    for each in _OTHERS.get(kind, ()):
        yield from each(before, after)


def _field_value(value: Object, path: str) -> Any:
    return dig(dict(value.content), *path.split("/"))


def _moved_volume(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield other zones of a volume. Kubernetes accepts zones for a volume that has none."""
    old, new = (_field_value(each, "spec/nodeAffinity") for each in (before, after))
    if old is not None and differ(old, new):
        yield "spec.nodeAffinity", old, new


def _completions(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield a changed number of completions. An Indexed Job may change it together with its parallelism."""
    old, new = (_field_value(each, "spec/completions") for each in (before, after))
    elastic = _field_value(after, "spec/completionMode") == "Indexed" and not differ(
        new, _field_value(after, "spec/parallelism")
    )
    if differ(old, new) and not elastic:
        yield "spec.completions", old, new


def _flavor_of_topology(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield changes that Kueue rejects in a flavor with a topology."""
    if _field_value(before, "spec/topologyName") is not None:
        for name in ("topologyName", "nodeLabels", "tolerations"):
            old, new = (_field_value(each, f"spec/{name}") for each in (before, after))
            if differ(old, new):
                yield f"spec.{name}", old, new


def _smaller_claim(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield a changed size of a claim without a class: Kubernetes expands only volumes with a class."""
    old, new = (_field_value(each, "spec/resources") for each in (before, after))
    if _field_value(after, "spec/volumeName") is not None and differ(old, new):
        yield "spec.resources", old, new


def _queued_group(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield changes of a queued LeaderWorkerSet that Kueue rejects."""
    was, becomes = before.labels.get(KUEUE_QUEUE), after.labels.get(KUEUE_QUEUE)
    if differ(was, becomes):
        yield f"metadata.labels.{KUEUE_QUEUE}", was, becomes
    if was is None and becomes is None:
        return
    template = "spec/leaderWorkerTemplate"
    old, new = (_field_value(each, f"{template}/size") for each in (before, after))
    if differ(old, new):
        yield "spec.leaderWorkerTemplate.size", old, new
    for name in ("leaderTemplate", "workerTemplate"):
        written = [_field_value(each, f"{template}/{name}") for each in (before, after)]
        if (written[0] is None) != (written[1] is None):
            yield f"{template.replace('/', '.')}.{name}", *written
            continue
        pods = [queued_pod(mapping(mapping(each).get("spec"))) for each in written]
        for field in pods[0]:
            if differ(pods[0][field], pods[1][field]):
                yield f"{template.replace('/', '.')}.{name}.spec.{field}", pods[0][field], pods[1][field]


def _sub_groups(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield changed sizes of the parts of a group, or new parts."""
    old, new = (_field_value(each, "spec/leaderWorkerTemplate/subGroupPolicy/subGroupSize") for each in (before, after))
    if differ(old, new):
        yield "spec.leaderWorkerTemplate.subGroupPolicy.subGroupSize", old, new


def _node_class(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield a changed kind of a NodePool's node class."""
    for name in ("group", "kind"):
        old, new = (_field_value(each, f"spec/template/spec/nodeClassRef/{name}") for each in (before, after))
        if differ(old, new):
            yield f"spec.template.spec.nodeClassRef.{name}", old, new


def _sealed(before: Object, after: Object) -> Iterator[tuple[str, Any, Any]]:
    """Yield differences in an immutable ConfigMap or Secret."""
    if before.content.get("immutable") is True:
        for name in ("data", "binaryData", "immutable"):
            old, new = before.content.get(name), after.content.get(name)
            if differ(old, new):
                yield name, old, new


_OTHERS: Mapping[tuple[str, str], tuple[Callable[[Object, Object], Iterator[tuple[str, Any, Any]]], ...]] = {
    ("", "ConfigMap"): (_sealed,),
    ("", "PersistentVolume"): (_moved_volume,),
    ("", "PersistentVolumeClaim"): (_smaller_claim,),
    ("", "Secret"): (_sealed,),
    ("batch", "Job"): (_completions,),
    (KARPENTER_DOMAIN, "NodePool"): (_node_class,),
    (KUEUE_DOMAIN, "ResourceFlavor"): (_flavor_of_topology,),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (_queued_group, _sub_groups),
}
