"""What a pool's autoscaler expects of a node that it has not made yet.

Sources: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``; aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.labels import (
    EBS_ZONE,
    EKS_CAPACITY_TYPE,
    HOSTNAME,
    LABEL_TAG,
    NODE_GROUP,
    REGION,
    TAINT_TAG,
    ZONE,
)
from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import MIB
from gpu_facts.resources import DISK, EFA, GPU
from gpu_preflight.cluster.pools import group_tags
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.label_values import Labels, LabelValues, exactly
from gpu_preflight.model.taints import Taint, flag_taint
from gpu_preflight.node.gpu_devices import declared, efa_interfaces
from gpu_preflight.node.instance_labels import kubelet_labels
from gpu_preflight.node.node_size import allocatable
from gpu_preflight.node.overlays import overlaid
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, known_text, mapping

_GROUP_PODS = 110


@dataclass(frozen=True, slots=True)
class Belief:
    """What an autoscaler expects of a node.

    Attributes:
        resources: What it has for pods, before the pods of DaemonSets.
        labels: Its labels.
        taints: Its taints.
    """

    resources: Mapping[str, int]
    labels: Labels
    taints: tuple[Taint, ...]


def belief(
    pool: Pool,
    row: InstanceType | None,
    given: Labels,
    overlays: list[Object],
) -> Belief:
    """Return what an autoscaler expects.

    Args:
        pool: The pool.
        row: Its row in the catalogue.
        given: Labels that the node registers with.
        overlays: NodeOverlays that Karpenter applies.
    """
    if pool.autoscaler != "cluster-autoscaler":
        return Belief(_offering(pool, row, given, overlays), given, (*pool.taints, *pool.mistaken_taints))
    first = catalogue().get(pool.instance_types[0]) if pool.instance_types and not pool.undecided else row
    believed = {"pods": _GROUP_PODS}
    if first is not None:
        if first.vcpus is not None:
            believed["cpu"] = first.vcpus * 1000
        if first.memory_mib is not None:
            believed["memory"] = first.memory_mib * MIB
        believed[GPU] = first.ec2_gpus
    labels, taints = _template(pool, given, row)
    return Belief({**believed, **declared(pool)}, labels, taints)


def _offering(pool: Pool, row: InstanceType | None, given: Labels, overlays: list[Object]) -> dict[str, int]:
    """Return what Karpenter expects: what EC2 reports, and what NodeOverlays add."""
    least, most = allocatable(pool, row) if row else ({}, {})
    # Karpenter takes the whole volume for the file system.
    believed = {name: most[name] if name == DISK else amount for name, amount in least.items()}
    if row is not None:
        believed[GPU] = row.ec2_gpus if pool.kind == "karpenter" else row.gpus
        efa = efa_interfaces(pool, row)
        if efa:
            believed[EFA] = efa
    return believed | overlaid(given, overlays)


def _template(pool: Pool, given: Labels, row: InstanceType | None) -> tuple[Labels, tuple[Taint, ...]]:
    """Return labels and taints of the node that cluster autoscaler makes up for an empty group."""
    first_zone = pool.zones[0] if pool.zones else None
    zone: LabelValues | Unknown = exactly(first_zone) if isinstance(first_zone, str) else Unknown("${zone}")
    first = row.name if row is not None and pool.undecided else next(iter(pool.instance_types), None)
    typed = kubelet_labels(first) if first else {}
    known = {key: given[key] for key in (REGION, HOSTNAME)}
    base: dict[str, LabelValues | Unknown] = {**known, **typed, ZONE: zone, EBS_ZONE: zone}
    if pool.kind == "managed":
        written = {key: given[key] for key in mapping(pool.properties.get("Labels")) if key in given}
        described = {
            EKS_CAPACITY_TYPE: given.get(EKS_CAPACITY_TYPE, Unknown("${capacity}")),
            NODE_GROUP: Unknown("${nodegroup}"),
        }
        # A taint without a value is dropped by cluster autoscaler.
        return base | described | written, (
            *(each for each in pool.taints if not each.written_without_value),
            *pool.mistaken_taints,
        )
    tags = group_tags(pool.properties)
    labels = {
        key.removeprefix(LABEL_TAG): value if isinstance(value, Unknown) else exactly(str(value))
        for key, value in tags.items()
        if key.startswith(LABEL_TAG)
    }
    taints = [
        flag_taint(f"{key.removeprefix(TAINT_TAG)}={value}")
        for key, value in tags.items()
        if key.startswith(TAINT_TAG) and known_text(value) is not None
    ]
    temporary = set(pool.startup_taints).difference(pool.mistaken_taints)
    return base | labels, tuple(each for each in taints if each is not None and each not in temporary)
