"""The autoscaler's view of a pool's node that isn't launched yet.

Sources: kubernetes/autoscaler cluster-autoscaler 1.36.1 cluster-autoscaler/cloudprovider/aws/aws_manager.go
``buildNodeFromTemplate``; aws/karpenter-provider-aws v1.14.1 pkg/providers/instancetype/types.go

The module also reads the settings of a cluster's Karpenter, from the values of its chart or from the environment of its
Deployment.

Source: aws/karpenter-provider-aws v1.14.1 charts/karpenter/templates/deployment.yaml; sigs.k8s.io/karpenter v1.14.1
pkg/operator/options/options.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_facts.charts import KARPENTER
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.labels import EBS_ZONE, EKS_CAPACITY_TYPE, HOSTNAME, LABEL_TAG, NODE_GROUP, REGION, TAINT_TAG, ZONE
from gpu_facts.light import dataclass
from gpu_facts.quantities import MIB, resources
from gpu_facts.resources import DISK, EFA, GPU
from gpu_preflight.cluster.pools import group_tags
from gpu_preflight.model.answer import Answer, all_yes, yes_if
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.label_values import Labels, LabelValues, Requirement, exactly, requirement
from gpu_preflight.model.taints import Taint, flag_taint
from gpu_preflight.node.devices import declared, efa_interfaces
from gpu_preflight.node.instance_types import allocatable, kubelet_labels
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

_GATES = "featureGates"
# The settings if the input has no Karpenter, or more than one.
_ELSEWHERE = Unknown("${settings of Karpenter}")
_PRICE = "price"
_GROUP_PODS = 110


def option(cluster: Cluster, name: str) -> Any:
    """Return a setting by its name in the chart; ``None`` if its default applies, `Unknown` if it isn't known."""
    chart = cluster.chart(KARPENTER)
    if chart is not None:
        settings = chart.values.get("settings", {})
        value = _environment(mappings(dig(chart.values, "controller", "env")), _variable(name))
        return value if value is not None else settings if isinstance(settings, Unknown) else dig(settings, name)
    deployed = [each for each in cluster.autoscalers if each.kind == "karpenter"]
    return deployed[0].flags.get(_variable(name)) if len(deployed) == 1 else _ELSEWHERE


def feature_gate(cluster: Cluster, name: str, *, default: bool) -> Answer:
    """Return whether a feature gate is on, by its name in the chart."""
    gates = option(cluster, _GATES)
    if isinstance(gates, Unknown):
        return Answer.UNKNOWN
    value = _listed(gates, name) if isinstance(gates, str) else dig(gates, name)
    if isinstance(value, Unknown):
        return Answer.UNKNOWN
    return yes_if(default if value is None else is_true(value))


def _listed(gates: str, name: str) -> str | None:
    """Return the value of a gate in a text such as ``NodeRepair=true,StaticCapacity=false``."""
    named = dict(each.strip().partition("=")[::2] for each in gates.split(","))
    return named.get(f"{name[0].upper()}{name[1:]}")


def _variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _environment(variables: Iterable[dict[str, Any]], name: str) -> Any:
    found = [each.get("value", _ELSEWHERE) for each in variables if known_text(each.get("name")) == name]
    return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A NodeOverlay that Karpenter ignores.

    Attributes:
        overlay: The overlay that Karpenter ignores, for all nodes.
        other: The overlay that applies.
        about: The values that both set: names of resources, or the price.
        labels: The first node for which both set it.
    """

    overlay: Object
    other: Object
    about: tuple[str, ...]
    labels: Labels


def active_overlays(cluster: Cluster) -> list[Object]:
    """Return the NodeOverlays that Karpenter reads: none while their feature gate is off."""
    found = cluster.objects_of_kind("NodeOverlay")
    return [] if found and feature_gate(cluster, "nodeOverlay", default=False) is Answer.NO else found


def overlaid(given: Labels, overlays: Iterable[Object]) -> dict[str, int]:
    """Return the capacity that NodeOverlays add to a node with such labels."""
    found: dict[str, int] = {}
    for overlay in sorted(overlays, key=_rank):
        if _overlay_matches(overlay, given) is not Answer.NO:
            found |= resources(overlay.spec.get("capacity"))
    return found


def may_conflict(overlays: Iterable[Object]) -> bool:
    """Whether two overlays have the same weight."""
    weights = [_rank(each)[0] for each in overlays]
    return len(set(weights)) < len(weights)


def conflicts(overlays: Iterable[Object], nodes: Iterable[Labels]) -> list[Conflict]:
    """Return the NodeOverlays that set a value that another overlay of the same weight already sets for the same node.

    Karpenter processes them by weight, and within a weight from the last name to the first. An overlay in conflict gets
    the condition Conflict and is ignored for every node. Karpenter compares it only with the nearest earlier overlay.

    Source: sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/controllers/nodeoverlay/controller.go
    ``validateAndUpdateInstanceTypeOverrides``, store.go ``isCapacityUpdateConflicting``

    Args:
        overlays: The overlays that Karpenter reads.
        nodes: Labels of the nodes that its NodePools may launch.
    """
    found = []
    places = list(nodes)
    nearest: dict[tuple[int, bool], Object] = {}
    for overlay in sorted(overlays, key=_rank, reverse=True):
        reached = [place for place, labels in enumerate(places) if _overlay_matches(overlay, labels) is Answer.YES]
        kinds = {name == _PRICE for name in _says(overlay)}
        before = ((place, nearest.get((place, kind))) for place in reached for kind in sorted(kinds))
        clashing = ((other, place, _clash(overlay, other, places[place])) for place, other in before if other)
        clash = next((each for each in clashing if each[2]), None)
        if clash:
            other, place, about = clash
            found.append(Conflict(overlay, other, about, places[place]))
        else:
            nearest |= {(place, kind): overlay for place in reached for kind in kinds}
    return found


def _clash(one: Object, other: Object, labels: Labels) -> tuple[str, ...]:
    """Return what two overlays for the same node both set.

    A resource applies to an instance type as a whole. A price applies to the zones and capacity types that an overlay
    selects.
    """
    if _rank(one)[0] != _rank(other)[0]:
        return ()
    both = _says(one) & _says(other)
    return tuple(sorted(both if _meet(one, other, labels) else both - {_PRICE}))


def _meet(one: Object, other: Object, labels: Labels) -> bool:
    """Whether both overlays match one choice of the labels that the launching component makes."""
    wanted = [*_requirements(one), *_requirements(other)]

    def is_met(key: str) -> bool:
        given, asked = labels.get(key), [each for each in wanted if each.key == key]
        choices = given.values if isinstance(given, LabelValues) and not given.all_but else ()
        return any(all(each.matches({key: exactly(value)}) is Answer.YES for each in asked) for value in choices)

    return all(is_met(each.key) for each in wanted if each.key in labels)


def _says(overlay: Object) -> set[str]:
    priced = overlay.spec.get("price") is not None or overlay.spec.get("priceAdjustment") is not None
    return {*resources(overlay.spec.get("capacity")), *((_PRICE,) if priced else ())}


def _overlay_matches(overlay: Object, given: Labels) -> Answer:
    return all_yes(each.matches(given) for each in _requirements(overlay))


def _requirements(overlay: Object) -> list[Requirement]:
    return [requirement(each) for each in mappings(overlay.spec.get("requirements"))]


def _rank(overlay: Object) -> tuple[int, str]:
    """Return the sort key of overlays. If two set a resource, the higher weight applies, otherwise the last name.

    Source: sigs.k8s.io/karpenter v1.14.1 pkg/apis/v1alpha1/nodeoverlay.go ``OrderByWeight``
    """
    return known_number(overlay.spec.get("weight")) or 0, overlay.name


@dataclass(frozen=True, slots=True)
class Belief:
    """The autoscaler's view of a node.

    Attributes:
        resources: Its amounts for pods, before the pods of DaemonSets.
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
    """Return the autoscaler's view of a node.

    Args:
        pool: The pool.
        row: Its row in the catalogue.
        given: Labels with which the node registers.
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
    """Return Karpenter's view: the values of EC2, and the capacity that NodeOverlays add."""
    least, most = allocatable(pool, row) if row else ({}, {})
    # Karpenter counts the whole volume as file system.
    believed = {name: most[name] if name == DISK else amount for name, amount in least.items()}
    if row is not None:
        believed[GPU] = row.ec2_gpus if pool.kind == "karpenter" else row.gpus
        efa = efa_interfaces(pool, row)
        if efa:
            believed[EFA] = efa
    return believed | overlaid(given, overlays)


def _template(pool: Pool, given: Labels, row: InstanceType | None) -> tuple[Labels, tuple[Taint, ...]]:
    """Return the labels and taints of the template node that Cluster Autoscaler builds for an empty group."""
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
        # Cluster Autoscaler ignores a taint without a value.
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
