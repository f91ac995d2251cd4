"""What a pod asks of where its like, and others, run: spread, affinity between pods, volumes of a zone.

Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/{podtopologyspread,interpodaffinity,volumezone}/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_facts.labels import EBS_ZONE, HOSTNAME, OLD_ZONE, ZONE
from gpu_facts.light import dataclass
from gpu_preflight.cluster.storage import claimed
from gpu_preflight.model.answer import Answer, all_yes
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Labels, Requirement, exactly, requirement
from gpu_preflight.model.pod import PodTerm, Spread, Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_number, known_text, mapping, mappings

OF_ZONES = (ZONE, OLD_ZONE, EBS_ZONE)

# Labels that the cloud controller gives a node, e.g. of the network layers above it.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-topology-labels.html (2026-11)
_GIVEN_LATER = "topology.k8s.aws/"


@dataclass(frozen=True, slots=True)
class Evenly:
    """How evenly pods are spread over domains.

    Attributes:
        skew: How many more pods than the emptiest domain another may have.
        domains: Least number of domains, below which the emptiest counts as one without pods.
        honors_labels: Whether only nodes count that the pod's node selector takes.
        honors_taints: Whether only nodes count whose taints the pod tolerates.
    """

    skew: int
    domains: int = 0
    honors_labels: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """What a pod asks of where it runs, beside its node selector.

    Attributes:
        keys: Labels that its node must have, whatever their value.
        zones: Zones that its volumes are in; ``None`` where they are in none.
        one_per_node: Whether each of its replicas wants a node without another of them.
        one_per_zone: Whether each of its replicas wants a zone without another of them.
        on_one_node: Whether all of its replicas want the node of the first.
        in_one_zone: Whether they want its zone.
        may_follow: Whether the pods that they want to be beside may be others, too.
        over_zones: How evenly its replicas are spread over zones; ``None`` where they are not.
        over_nodes: Likewise over nodes.
        company: Whether it must run beside pods that are none of its own.
        nobody: Whether nothing in the cluster makes those pods.
        unclear: Whether a spread is known at deployment only.
        exclusive: Whether groups of its replicas want a domain each.
    """

    keys: tuple[str, ...] = ()
    zones: tuple[str, ...] | None = None
    one_per_node: bool = False
    one_per_zone: bool = False
    on_one_node: bool = False
    in_one_zone: bool = False
    may_follow: bool = False
    over_zones: Evenly | None = None
    over_nodes: Evenly | None = None
    company: bool = False
    nobody: bool = False
    unclear: bool = False
    exclusive: bool = False

    def problems(self, labels: Labels) -> list[tuple[Answer, str]]:
        """Say what keeps the pods off nodes with such labels."""
        found = [
            (Answer.UNKNOWN, f"spreads or keeps apart by {key}, which the node may have once it runs")
            if key.startswith(_GIVEN_LATER)
            else (Answer.NO, f"spreads or keeps apart by {key}, a label that the node has not")
            for key in self.keys
            if key not in labels
        ]
        if self.zones is not None:
            answer = Requirement(ZONE, "In", self.zones).matches(labels)
            if answer is not Answer.YES:
                found.append((answer, f"has a volume in {', '.join(self.zones)}, where the pool may have no node"))
        if self.company:
            text = "must run beside other pods, and where these run is not known"
            found.append(
                (Answer.NO, "must run beside pods that nothing here makes") if self.nobody else (Answer.UNKNOWN, text)
            )
        if self.unclear:
            found.append((Answer.UNKNOWN, "spreads by a constraint that is known at deployment only"))
        return found


def topology(workload: Workload, cluster: Cluster) -> Topology:
    """Return what the pods of a workload ask of where they run."""
    pod = workload.pod
    every = [each for each in pod.spreads if each.unsatisfiable != "ScheduleAnyway"]
    unclear = [each for each in every if _is_unclear(each, workload)]
    spreads = [each for each in every if each not in unclear]
    # Pods that it does not count itself among keep it off no node that has the label, as far as is known.
    of_own = [each for each in spreads if _selects(each.selector, workload)]
    own = [known_text(each.key) for each in pod.apart if _means(each, workload)]
    beside = [each for each in pod.beside if _means(each, workload)]
    exclusive = [] if workload.exclusive is None or workload.exclusive.labelled else [workload.exclusive.key]
    keys = [
        known_text(key) for key in (*(each.key for each in spreads), *(each.key for each in pod.beside), *exclusive)
    ]
    return Topology(
        keys=tuple(dict.fromkeys(key for key in keys if key is not None)),
        zones=_volume_zones(workload, cluster),
        one_per_node=HOSTNAME in own,
        one_per_zone=any(key in OF_ZONES for key in own),
        on_one_node=any(each.key == HOSTNAME for each in beside),
        in_one_zone=any(each.key in OF_ZONES for each in beside),
        may_follow=any(_is_of_others(each, workload, cluster) for each in beside),
        over_zones=_evenly(each for each in of_own if each.key in OF_ZONES),
        over_nodes=_evenly(each for each in of_own if each.key == HOSTNAME),
        company=any(not _means(each, workload) for each in pod.beside),
        nobody=any(_is_nobody(each, workload, cluster) for each in pod.beside),
        unclear=bool(unclear) or any(isinstance(each.key, Unknown) for each in (*pod.apart, *pod.beside)),
        exclusive=workload.exclusive is not None,
    )


def _is_unclear(spread: Spread, workload: Workload) -> bool:
    said = spread.unsatisfiable, spread.key, spread.max_skew, spread.affinity_policy, spread.taints_policy
    return any(isinstance(each, Unknown) for each in said) or selected(spread.selector, workload) is Answer.UNKNOWN


def _evenly(spreads: Iterable[Spread]) -> Evenly | None:
    """Return how evenly the tightest of some spreads wants pods."""
    every = [
        Evenly(
            known_number(each.max_skew) or 1,
            known_number(each.min_domains) or 0,
            honors_labels=each.affinity_policy != "Ignore",
            honors_taints=each.taints_policy == "Honor",
        )
        for each in spreads
    ]
    return min(every, key=lambda each: (each.skew, -each.domains), default=None)


def _means(term: PodTerm, workload: Workload) -> bool:
    """Whether a term is about a workload's own pods."""
    return term.among(workload.namespace, workload.namespace) and _selects(term.selector, workload)


def _is_of_others(term: PodTerm, workload: Workload, cluster: Cluster) -> bool:
    """Whether a term may be about pods of another workload, too."""
    others = (each for each in cluster.workloads if each.origin != workload.origin or each.name != workload.name)
    return any(
        selected(term.selector, each) is not Answer.NO
        for each in others
        if term.namespaces is None or term.among(each.namespace, workload.namespace)
    )


def _is_nobody(term: PodTerm, workload: Workload, cluster: Cluster) -> bool:
    """Whether a term certainly is about no pod of the cluster; what charts bring is not known."""
    if not (cluster.shows_software or cluster.sees_programs):
        return False
    if not isinstance(term.selector, dict) or term.namespaces is None:
        return False
    if any(term.among(each.namespace, workload.namespace) for each in cluster.charts):
        return False
    others = [each for each in cluster.workloads if term.among(each.namespace, workload.namespace)]
    return not any(_selects(term.selector, each) for each in others)


def _selects(selector: Any, workload: Workload) -> bool:
    """Whether a label selector takes a workload's own pods; one that cannot be read does not."""
    return selected(selector, workload) is Answer.YES


def selected(selector: Any, workload: Workload) -> Answer:
    """Say whether a label selector takes a workload's own pods; none takes no pods."""
    if not isinstance(selector, dict):
        return Answer.UNKNOWN if isinstance(selector, Unknown) else Answer.NO
    labels = {
        key: value if isinstance(value, Unknown) else exactly(str(value)) for key, value in workload.labels.items()
    }
    written = mapping(selector.get("matchLabels")).items()
    wanted = [Requirement(key, "In", None if isinstance(value, Unknown) else (str(value),)) for key, value in written]
    wanted += [requirement(each) for each in mappings(selector.get("matchExpressions"))]
    return all_yes(each.matches(labels) for each in wanted)


def _volume_zones(workload: Workload, cluster: Cluster) -> tuple[str, ...] | None:
    """Return the zones of the volumes that a pod's claims are bound to, or that their class allows."""
    found: list[tuple[str, ...]] = []
    for claim in claimed(workload, cluster):
        if claim.volume is not None:
            found += _zones_of_volume(claim.volume.object)
        elif claim.storage_class is not None:
            found += _zones_of_class(claim.storage_class.object)
    if not found:
        return None
    common = set(found[0]).intersection(*found[1:])
    return tuple(sorted(common)) or found[0]


def _zones_of_volume(volume: Object) -> list[tuple[str, ...]]:
    terms = mappings(dig(volume.spec, "nodeAffinity", "required", "nodeSelectorTerms"))
    return _zone_values(each for term in terms for each in mappings(term.get("matchExpressions")))


def _zones_of_class(storage: Object) -> list[tuple[str, ...]]:
    topologies = mappings(storage.content.get("allowedTopologies"))
    return _zone_values(
        {**each, "operator": "In"} for term in topologies for each in mappings(term.get("matchLabelExpressions"))
    )


def _zone_values(expressions: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    wanted = [requirement(each) for each in expressions]
    return [each.values for each in wanted if each.key in OF_ZONES and each.operator == "In" and each.values]
