"""Whether a pod's node selector and node affinity take a node.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_preflight.model.answer import Answer, all_of, any_of
from gpu_preflight.model.label_values import Labels, Requirement, equal, met_together, requirement
from gpu_preflight.reading.unknown import Unknown, dig, mapping, mappings

_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class Term:
    """One of the alternatives of a node affinity.

    Attributes:
        labels: What it asks of labels.
        fields: What it asks of fields, which is the node's name.
    """

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """What a pod asks of a node's labels.

    Attributes:
        selector: ``nodeSelector``; all of it must hold.
        terms: Required node affinity; one of them must hold. ``None`` without affinity.
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[Term, ...] | None = None

    def takes(self, labels: Labels) -> Answer:
        """Say whether a node with such labels may run the pod."""
        if self.terms is None:
            return _together(self.selector, labels)
        return any_of(self._holds(each, labels) for each in self.terms)

    def _holds(self, term: Term, labels: Labels) -> Answer:
        # A term without expressions takes no node.
        if not term.labels and not term.fields:
            return Answer.NO
        named = (Answer.NO if each.operator == "In" else Answer.YES for each in term.fields if each.key == _NAME)
        return all_of((_together((*self.selector, *term.labels), labels), *named))

    def unmet(self, labels: Labels) -> list[tuple[Requirement, Answer]]:
        """Return what keeps the pod off: of several terms what the one that comes nearest adds."""
        found = _unmet(self.selector, labels)
        if self.terms is None or self.takes(labels) is Answer.YES:
            return found
        terms = [each for each in self.terms if each.labels or each.fields]
        added = (_unmet((*self.selector, *each.labels, *each.fields), labels)[len(found) :] for each in terms)
        nearest = min(added, key=_farness, default=[(Requirement("nodeAffinity", "without terms"), Answer.NO)])
        return [*found, *nearest]


def _together(wanted: tuple[Requirement, ...], labels: Labels) -> Answer:
    return all_of(answer for _, answer in met_together(wanted, labels))


def _unmet(wanted: tuple[Requirement, ...], labels: Labels) -> list[tuple[Requirement, Answer]]:
    return [(each, answer) for each, answer in met_together(wanted, labels) if answer is not Answer.YES]


def _farness(unmet: list[tuple[Requirement, Answer]]) -> tuple[bool, int]:
    return any(answer is Answer.NO for _, answer in unmet), len(unmet)


def selection(pod: Mapping[str, Any]) -> Selection:
    """Return what a pod asks of a node's labels."""
    affinity = pod.get("affinity")
    for part in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        affinity = affinity if isinstance(affinity, Unknown) else dig(affinity, part)
    chosen = pod.get("nodeSelector")
    if isinstance(chosen, Unknown):
        selector: tuple[Requirement, ...] = (Requirement("nodeSelector", "In", None),)
    else:
        selector = tuple(equal(mapping(chosen)))
    if isinstance(affinity, Unknown):
        return Selection(selector, (Term((Requirement("nodeAffinity", "In", None),)),))
    if not isinstance(affinity, dict):
        return Selection(selector, None)
    return Selection(selector, tuple(term(each) for each in mappings(affinity.get("nodeSelectorTerms"))))


def term(raw: Mapping[str, Any]) -> Term:
    """Return one of the ``nodeSelectorTerms``."""
    labels = tuple(requirement(each) for each in mappings(raw.get("matchExpressions")))
    return Term(labels, tuple(requirement(each) for each in mappings(raw.get("matchFields"))))
