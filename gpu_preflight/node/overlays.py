"""What NodeOverlays add to the nodes that Karpenter expects, and which of them it leaves out."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.quantities import resources
from gpu_preflight.model.answer import Answer, all_of
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Labels, LabelValues, Requirement, exactly, requirement
from gpu_preflight.node.karpenter_options import feature_gate
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import known_number, mappings

_PRICE = "price"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A NodeOverlay that Karpenter leaves out.

    Attributes:
        overlay: The one that it leaves out, for all nodes.
        other: The one that stays.
        about: What both say: names of resources, or the price.
        labels: The first node for which both say it.
    """

    overlay: Object
    other: Object
    about: tuple[str, ...]
    labels: Labels


def looked_at(cluster: Cluster) -> list[Object]:
    """Return the NodeOverlays that Karpenter looks at: none of them while their gate is off."""
    found = cluster.of_kind("NodeOverlay")
    return [] if found and feature_gate(cluster, "nodeOverlay", default=False) is Answer.NO else found


def overlaid(given: Labels, overlays: Iterable[Object]) -> dict[str, int]:
    """Return what NodeOverlays say that a node with such labels has."""
    found: dict[str, int] = {}
    for overlay in sorted(overlays, key=_rank):
        if _is_for(overlay, given) is not Answer.NO:
            found |= resources(overlay.spec.get("capacity"))
    return found


def may_conflict(overlays: Iterable[Object]) -> bool:
    """Whether two of them have one weight."""
    weights = [_rank(each)[0] for each in overlays]
    return len(set(weights)) < len(weights)


def conflicts(overlays: Iterable[Object], nodes: Iterable[Labels]) -> list[Conflict]:
    """Return the NodeOverlays that say of some node what another one of the same weight says already.

    Karpenter goes through them by weight, and of one weight from the last name to the first. One in conflict gets the
    condition Conflict and is left out for every node. It compares with the nearest before it only.

    Source: sigs.k8s.io/karpenter 2266468 (2026-08-20) pkg/controllers/nodeoverlay/controller.go
    ``validateAndUpdateInstanceTypeOverrides``, store.go ``isCapacityUpdateConflicting``

    Args:
        overlays: Those that Karpenter looks at.
        nodes: Labels of the nodes that its NodePools may make.
    """
    found = []
    places = list(nodes)
    nearest: dict[tuple[int, bool], Object] = {}
    for overlay in sorted(overlays, key=_rank, reverse=True):
        reached = [place for place, labels in enumerate(places) if _is_for(overlay, labels) is Answer.YES]
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
    """Return what two overlays that are for a node both say of it.

    Resources count for an instance type as a whole, a price for the zones and capacity types that an overlay means.
    """
    if _rank(one)[0] != _rank(other)[0]:
        return ()
    both = _says(one) & _says(other)
    return tuple(sorted(both if _meet(one, other, labels) else both - {_PRICE}))


def _meet(one: Object, other: Object, labels: Labels) -> bool:
    """Whether both are for one choice of the labels that whoever launches the node picks."""
    wanted = [*_requirements(one), *_requirements(other)]

    def is_met(key: str) -> bool:
        given, asked = labels.get(key), [each for each in wanted if each.key == key]
        choices = given.values if isinstance(given, LabelValues) and not given.all_but else ()
        return any(all(each.met_by({key: exactly(value)}) is Answer.YES for each in asked) for value in choices)

    return all(is_met(each.key) for each in wanted if each.key in labels)


def _says(overlay: Object) -> set[str]:
    priced = overlay.spec.get("price") is not None or overlay.spec.get("priceAdjustment") is not None
    return {*resources(overlay.spec.get("capacity")), *((_PRICE,) if priced else ())}


def _is_for(overlay: Object, given: Labels) -> Answer:
    return all_of(each.met_by(given) for each in _requirements(overlay))


def _requirements(overlay: Object) -> list[Requirement]:
    return [requirement(each) for each in mappings(overlay.spec.get("requirements"))]


def _rank(overlay: Object) -> tuple[int, str]:
    """Return what orders overlays: of two that give one resource the heavier counts, else the last by name.

    Source: sigs.k8s.io/karpenter v1.14.1 pkg/apis/v1alpha1/nodeoverlay.go ``OrderByWeight``
    """
    return known_number(overlay.spec.get("weight")) or 0, overlay.name
