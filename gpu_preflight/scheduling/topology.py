"""Constraints of a pod on its place: spread, affinity between pods, and volumes in a zone.

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

# Labels that the cloud controller sets on a running node, for example the network layers above it.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/node-topology-labels.html (2026-11)
_GIVEN_LATER = "topology.k8s.aws/"


@dataclass(frozen=True, slots=True)
class Evenly:
    """How evenly pods are spread over domains.

    Attributes:
        skew: How many more pods than the emptiest domain another domain may have.
        domains: Min number of domains. With fewer domains, the emptiest counts as a domain without pods.
        honors_labels: Whether only nodes count that match the pod's node selector.
        honors_taints: Whether only nodes count whose taints the pod tolerates.
    """

    skew: int
    domains: int = 0
    honors_labels: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """Constraints of a pod on its place, except its node selector.

    Attributes:
        keys: Labels that its node must have, with any value.
        zones: Zones of its volumes; ``None`` if its volumes are in no zone.
        one_per_node: Whether each replica requires a node without another replica.
        one_per_zone: Whether each replica requires a zone without another replica.
        on_one_node: Whether all replicas require the node of the first.
        in_one_zone: Whether all replicas require the zone of the first.
        may_follow: Whether its affinity may also select pods of other workloads.
        over_zones: How evenly its replicas are spread over zones; ``None`` without a spread.
        over_nodes: How evenly its replicas are spread over nodes; ``None`` without a spread.
        company: Whether it must run next to pods of another workload.
        nobody: Whether nothing in the cluster creates those pods.
        unclear: Whether a spread is known at deployment only.
        exclusive: Whether groups of its replicas require a domain each.
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
        """Return why the pods can't run on nodes with such labels."""
        found = [
            (Answer.UNKNOWN, f"has a spread or anti-affinity by {key}, which the node may have once it runs")
            if key.startswith(_GIVEN_LATER)
            else (Answer.NO, f"has a spread or anti-affinity by {key}, a label that the node does not have")
            for key in self.keys
            if key not in labels
        ]
        if self.zones is not None:
            answer = Requirement(ZONE, "In", self.zones).matches(labels)
            if answer is not Answer.YES:
                found.append((answer, f"has a volume in {', '.join(self.zones)}, where the pool may have no node"))
        if self.company:
            text = "must run next to other pods, and it is unknown where these run"
            found.append(
                (Answer.NO, "must run next to pods that the input lacks") if self.nobody else (Answer.UNKNOWN, text)
            )
        if self.unclear:
            found.append((Answer.UNKNOWN, "spreads by a constraint that is known only at deployment"))
        return found


def topology(workload: Workload, cluster: Cluster) -> Topology:
    """Return the constraints of a workload's pods on their place."""
    pod = workload.pod
    every = [each for each in pod.spreads if each.unsatisfiable != "ScheduleAnyway"]
    unclear = [each for each in every if _is_unclear(each, workload)]
    spreads = [each for each in every if each not in unclear]
    # If a spread constraint doesn't count the pod itself, the pod fits on any node that has the label, as far as is
    # known.
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
    fields = spread.unsatisfiable, spread.key, spread.max_skew, spread.affinity_policy, spread.taints_policy
    return any(isinstance(each, Unknown) for each in fields) or selected(spread.selector, workload) is Answer.UNKNOWN


def _evenly(spreads: Iterable[Spread]) -> Evenly | None:
    """Return the tightest of some spread constraints."""
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
    """Whether a term selects the workload's own pods."""
    return term.among(workload.namespace, workload.namespace) and _selects(term.selector, workload)


def _is_of_others(term: PodTerm, workload: Workload, cluster: Cluster) -> bool:
    """Whether a term may also select pods of another workload."""
    others = (each for each in cluster.workloads if each.origin != workload.origin or each.name != workload.name)
    return any(
        selected(term.selector, each) is not Answer.NO
        for each in others
        if term.namespaces is None or term.among(each.namespace, workload.namespace)
    )


def _is_nobody(term: PodTerm, workload: Workload, cluster: Cluster) -> bool:
    """Whether a term certainly selects no pod of the cluster. It isn't known which pods charts create."""
    if not (cluster.shows_software or cluster.sees_programs):
        return False
    if not isinstance(term.selector, dict) or term.namespaces is None:
        return False
    if any(term.among(each.namespace, workload.namespace) for each in cluster.charts):
        return False
    others = [each for each in cluster.workloads if term.among(each.namespace, workload.namespace)]
    return not any(_selects(term.selector, each) for each in others)


def _selects(selector: Any, workload: Workload) -> bool:
    """Whether a label selector selects the workload's own pods. A selector that can't be read doesn't."""
    return selected(selector, workload) is Answer.YES


def selected(selector: Any, workload: Workload) -> Answer:
    """Return whether a label selector selects the workload's own pods. A missing selector selects no pods."""
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
    """Return the zones of the volumes that a pod's claims are bound to, or the zones that their class allows."""
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
