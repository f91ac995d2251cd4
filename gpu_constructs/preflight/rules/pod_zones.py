"""GPU pods whose disks or whose spreading need a zone that their pools do not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.model import EFA, Cluster, Object, Pool, Workload
from gpu_constructs.preflight.pod_size import pod_requests
from gpu_constructs.preflight.pools import ZONE
from gpu_constructs.preflight.rules.rule import OutOfReach, Problem, Rule
from gpu_constructs.preflight.rules.verdicts import taking
from gpu_constructs.preflight.unknown import Unknown, dig, items, known_number, known_text, mapping, mappings

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


def _zones(pools: tuple[Pool, ...]) -> tuple[str | Unknown, ...] | None:
    """Return the zones of some pools, ``None`` where those of one are not known."""
    if not pools or not all(each.zones for each in pools):
        return None
    return tuple(dict.fromkeys(zone for each in pools for zone in each.zones))


def _early(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        if not workload.asks_for_gpu:
            continue
        for each in dict.fromkeys(one.name for one in _disks(workload, cluster) if _is_early(one)):
            text = f"StorageClass {each} makes the disk in any zone, before the pod has a node"
            yield Problem(workload.origin, f"{workload.name}: {text}")


def _is_early(storage: Object) -> bool:
    return storage.content.get("volumeBindingMode") in (None, "Immediate") and not _topology(storage)


def _topology(storage: Object) -> tuple[str, ...]:
    expressions = [
        one
        for each in mappings(storage.content.get("allowedTopologies"))
        for one in mappings(each.get("matchLabelExpressions"))
    ]
    return tuple(
        value
        for each in expressions
        if each.get("key") in _ZONE_KEYS
        for value in items(each.get("values"))
        if isinstance(value, str)
    )


def _elsewhere(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        zones = _zones(taking(cluster, workload)) if workload.asks_for_gpu else None
        if zones is None or any(isinstance(each, Unknown) for each in zones):
            continue
        for each in _disks(workload, cluster):
            allowed = _topology(each)
            if allowed and not set(allowed) & set(zones):
                where = f"{', '.join(allowed)}, its pools are in {', '.join(map(str, zones))}"
                yield Problem(workload.origin, f"{workload.name}: StorageClass {each.name} makes disks in {where}")


def _template_zone(cluster: Cluster) -> Iterator[Problem]:
    if cluster.autoscaler("cluster-autoscaler") is None:
        return
    for workload in cluster.workloads:
        if not workload.asks_for_gpu or not any(_disks(workload, cluster)):
            continue
        for pool in taking(cluster, workload):
            if pool.is_group and pool.min_nodes == 0 and len(pool.zones) > 1:
                text = f"has a disk of one zone, and pool {pool.name} spans {len(pool.zones)}"
                yield Problem(workload.origin, f"{workload.name}: {text}")


def _spread(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        zones = _zones(taking(cluster, workload)) if workload.asks_for_gpu else None
        most = _most(workload, len(zones)) if zones else None
        if most is not None and workload.replicas is not None and workload.replicas > most:
            count = f"{len(zones or ())} zones allow {most} of {workload.replicas} pods"
            yield Problem(workload.origin, f"{workload.name}: {count}", unknown=not cluster.whole)


def _most(workload: Workload, zones: int) -> int | None:
    """Return how many pods may run in so many zones, ``None`` without a bound."""
    bounds = [zones] if _alone_in_zone(workload) else []
    for each in mappings(workload.pod.get("topologySpreadConstraints")):
        least, skew = known_number(each.get("minDomains")), known_number(each.get("maxSkew"))
        strict = each.get("whenUnsatisfiable") in (None, "DoNotSchedule") and each.get("topologyKey") == ZONE
        if strict and least is not None and skew is not None and zones < least and _selects(each, workload):
            bounds.append(skew * zones)
    return min(bounds, default=None)


def _alone_in_zone(workload: Workload) -> bool:
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = mappings(dig(dict(workload.pod), "affinity", "podAntiAffinity", rule))
    return any(each.get("topologyKey") == ZONE and _selects(each, workload) for each in terms)


def _selects(term: dict[str, Any], workload: Workload) -> bool:
    labels = mapping(dig(term, "labelSelector", "matchLabels"))
    plain = not dig(term, "labelSelector", "matchExpressions") and all(known_text(each) for each in labels.values())
    return bool(labels) and plain and all(workload.labels.get(key) == value for key, value in labels.items())


def _fabric(cluster: Cluster) -> Iterator[Problem]:
    for workload in cluster.workloads:
        if not pod_requests(workload.pod).get(EFA) or workload.replicas == 1:
            continue
        for pool in taking(cluster, workload):
            if pool.kind == "karpenter" and len(pool.zones) > 1 and not pool.launch.get("placementGroupSelector"):
                text = f"its pods may land in {len(pool.zones)} zones of pool {pool.name}, which EFA does not cross"
                yield Problem(workload.origin, f"{workload.name}: {text}")


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
        id="GPU136",
        severity="error",
        title="Disk in a zone where the pools have no nodes",
        why="An EBS volume is reached from its own zone only, so the pod never gets a node.",
        source=_VOLUMES,
        fix="Allow a zone of the pools in allowedTopologies, or give the pools a subnet in the zone of the disk.",
        causes=("E8", "G15"),
        check=_elsewhere,
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
        id="GPU138",
        severity="error",
        title="Pods that keep apart by zone, and too few zones",
        why="The pods beyond one for each zone stay Pending.",
        source="https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/",
        fix="Prefer the spreading instead of requiring it, or give the pools more zones.",
        causes=("E9", "G15"),
        check=_spread,
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

OUT_OF_REACH: tuple[OutOfReach, ...] = ()
