"""GPU pods whose disks or whose network tie them to one zone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.model import EFA, Cluster, Object, Pool, Workload
from gpu_constructs.preflight.pod_size import pod_requests
from gpu_constructs.preflight.pools import ZONE
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.rules.verdicts import taking
from gpu_constructs.preflight.unknown import dig, items, mapping, mappings

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode"
_EBS = ("ebs.csi.aws.com", "ebs.csi.eks.amazonaws.com", "kubernetes.io/aws-ebs")
_ZONE_KEYS = (ZONE, "topology.ebs.csi.aws.com/zone", "topology.ebs.csi.eks.amazonaws.com/zone")


def _disks(workload: Workload, cluster: Cluster) -> Iterator[Object]:
    """Yield the storage classes of a workload's EBS volumes, as far as they are in the input."""
    claims = {each.name: each.spec for each in cluster.of_kind("PersistentVolumeClaim") if _same_space(each, workload)}
    named = [dig(each, "persistentVolumeClaim", "claimName") for each in mappings(workload.pod.get("volumes"))]
    specs = [claims[name] for name in named if isinstance(name, str) and name in claims]
    specs += [mapping(each.get("spec")) for each in mappings(workload.owner.spec.get("volumeClaimTemplates"))]
    specs += [
        mapping(dig(each, "ephemeral", "volumeClaimTemplate", "spec")) for each in mappings(workload.pod.get("volumes"))
    ]
    for spec in specs:
        found = _storage_class(spec.get("storageClassName"), cluster)
        if found is not None and found.content.get("provisioner") in _EBS:
            yield found


def _same_space(each: Object, workload: Workload) -> bool:
    return each.namespace == workload.namespace


def _storage_class(name: Any, cluster: Cluster) -> Object | None:
    return next((each for each in cluster.of_kind("StorageClass") if each.name == name), None)


def _early(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        if not workload.asks_for_gpu:
            continue
        for each in dict.fromkeys(one.name for one in _disks(workload, cluster) if _is_early(one)):
            text = f"StorageClass {each} makes the disk in any zone, before the pod has a node"
            yield Problem(workload.origin, f"{workload.name}: {text}")


def _is_early(storage: Object) -> bool:
    early = storage.content.get("volumeBindingMode") in (None, "Immediate")
    return early and not items(storage.content.get("allowedTopologies"))


def _surely_apart(pool: Pool) -> bool:
    """Whether at least two zones of a pool are surely different; subnets of which nothing is known may share one."""
    return sum(isinstance(each, str) or "Fn::GetAZs" in each.expression for each in pool.zones) > 1


def _template_zone(cluster: Cluster) -> Iterator[Problem]:
    if cluster.autoscaler("cluster-autoscaler") is None:
        return
    for workload in cluster.workloads:
        if not workload.asks_for_gpu or not any(_disks(workload, cluster)):
            continue
        for pool in taking(cluster, workload):
            if pool.is_group and pool.min_nodes == 0 and len(pool.zones) > 1:
                text = f"has a disk of one zone, and pool {pool.name} spans {len(pool.zones)}"
                yield Problem(workload.origin, f"{workload.name}: {text}", unknown=not _surely_apart(pool))


def _fabric(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        if not pod_requests(workload.pod).get(EFA) or workload.replicas == 1:
            continue
        for pool in taking(cluster, workload):
            if pool.kind == "karpenter" and len(pool.zones) > 1 and not pool.launch.get("placementGroupSelector"):
                text = f"its pods may land in {len(pool.zones)} zones of pool {pool.name}, which EFA does not cross"
                yield Problem(workload.origin, f"{workload.name}: {text}", unknown=not _surely_apart(pool))


RULES = (
    Rule(
        id="GPU135",
        severity="warning",
        title="Disk made before the GPU pod has a node",
        why="The volume may be made in a zone without GPU nodes; the pod then has a volume node affinity conflict.",
        source=_VOLUMES,
        fix="Set volumeBindingMode to WaitForFirstConsumer in the StorageClass.",
        causes=("E8", "G15"),
        check=_early,
    ),
    Rule(
        id="GPU137",
        severity="warning",
        title="Disk of one zone on a group of several",
        why="Of an empty group cluster autoscaler expects nodes in the first zone only, so that a pod whose disk is in "
        "another starts none.",
        source="kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_manager.go buildNodeFromTemplate",
        fix="Make one node group for each zone.",
        causes=("F13",),
        check=_template_zone,
    ),
    Rule(
        id="GPU139",
        severity="warning",
        title="EFA pods that may land in different zones",
        why="EFA traffic does not leave its zone; pods of one job that are apart cannot talk over it.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html",
        fix="Keep the pool to one zone, or name a placement group in the EC2NodeClass.",
        causes=("K14",),
        check=_fabric,
    ),
)
