"""GPU pods whose disks or whose network tie them to one zone."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.labels import EBS_ZONE, ZONE
from gpu_facts.resources import EFA
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import EBS_PROVISIONERS, claimed, storage_class
from gpu_preflight.cluster.subnets import spans_zones
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import items
from gpu_preflight.rules.rule import Problem, rule

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode"
_ZONE_KEYS = (ZONE, EBS_ZONE, "topology.ebs.csi.eks.amazonaws.com/zone")


def _disks(workload: Workload, cluster: Cluster) -> Iterator[Object]:
    """Yield the storage classes of a workload's EBS volumes, as far as they are in the input."""
    for claim in claimed(workload, cluster):
        found = storage_class(claim, cluster)
        if found is not None and found.content.get("provisioner") in EBS_PROVISIONERS:
            yield found


@rule("GPU135", "warning", source=_VOLUMES)
def disk_made_before_the_gpu_pod_has_a_node(case: Case) -> Iterator[Problem]:
    """Disk made before the GPU pod has a node.

    The volume may be made in a zone without GPU nodes; the pod then has a volume node affinity conflict.

    Fix: Set volumeBindingMode to WaitForFirstConsumer in the StorageClass.
    """
    cluster = case.cluster
    for workload in cluster.workloads:
        if not workload.asks_for_gpu:
            continue
        for each in dict.fromkeys(one.name for one in _disks(workload, cluster) if _is_early(one)):
            text = f"StorageClass {each} makes the disk in any zone, before the pod has a node"
            yield Problem.of(workload, text)


def _is_early(storage: Object) -> bool:
    early = storage.content.get("volumeBindingMode") in (None, "Immediate")
    return early and not items(storage.content.get("allowedTopologies"))


def _may_span(pool: Pool) -> bool:
    return bool(pool.zones) and spans_zones(pool) is not Answer.NO


@rule(
    "GPU137",
    "warning",
    source=(
        "kubernetes/autoscaler cluster-autoscaler 1.36.1 "
        "cluster-autoscaler/cloudprovider/aws/aws_manager.go buildNodeFromTemplate"
    ),
)
def disk_of_one_zone_on_a_group_of_several(case: Case) -> Iterator[Problem]:
    """Disk of one zone on a group of several.

    Of an empty group cluster autoscaler expects nodes in the first zone only, so that a pod whose disk is in another
    starts none.

    Fix: Make one node group for each zone.
    """
    cluster = case.cluster
    if cluster.autoscaler("cluster-autoscaler") is None:
        return
    for workload in cluster.workloads:
        if not workload.asks_for_gpu or not any(_disks(workload, cluster)):
            continue
        for pool in case.pools_open_to(workload):
            if pool.is_group and pool.min_nodes == 0 and _may_span(pool):
                text = f"has a disk of one zone, and pool {pool.name} spans {len(pool.zones)}"
                yield Problem.of(workload, text, unknown=spans_zones(pool) is Answer.UNKNOWN)


@rule("GPU139", "warning", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html")
def efa_pods_that_may_land_in_different_zones(case: Case) -> Iterator[Problem]:
    """EFA pods that may land in different zones.

    EFA traffic does not leave its zone; pods of one job that are apart cannot talk over it.

    Fix: Keep the pool to one zone, or name a placement group in the EC2NodeClass.
    """
    for workload in case.cluster.workloads:
        if not workload.pod.requests.get(EFA) or workload.replicas == 1:
            continue
        for pool in case.pools_open_to(workload):
            if pool.kind == "karpenter" and _may_span(pool) and not pool.launch.placement_terms:
                text = f"its pods may land in {len(pool.zones)} zones of pool {pool.name}, which EFA does not cross"
                yield Problem.of(workload, text, unknown=spans_zones(pool) is Answer.UNKNOWN)
