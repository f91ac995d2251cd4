"""Values that a node label can have, and the node selectors and affinities that require some.

Source: kubernetes-sigs/karpenter v1.14.0 pkg/scheduling/requirement.go, and the operators of node affinity in
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/ (2026-08).

The module also checks whether a pod's node selector and node affinity match a node.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.hardware.regions import is_no_zone, is_seen_zone
from gpu_facts.labels import EBS_ZONE, OLD_ZONE, ZONE, ZONE_ID
from gpu_facts.light import dataclass, regex
from gpu_preflight.model.answer import Answer, all_yes, any_yes, yes_if
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_text, mapping, mappings, may_equal

_OF_ZONES = (ZONE, OLD_ZONE, EBS_ZONE, ZONE_ID)
_WHOLE = regex(r"[+-]?\d{1,18}")
# For each comparison: whether it is an upper bound, and the distance from the bound to the nearest whole number.
_BOUNDS = {"Gt": (False, 1), "Gte": (False, 0), "Lt": (True, -1), "Lte": (True, 0)}
Labels = Mapping[str, "LabelValues | Unknown"]
_NAME = "metadata.name"


@dataclass(frozen=True, slots=True)
class LabelValues:
    """The values that a label may have on a future node. The launching component chooses one of them.

    Attributes:
        values: The values, or with ``all_but`` the excluded values.
        all_but: Whether the label may have any value except ``values``.
        may_be_absent: Whether the node may also be launched without the label. The launching component chooses.
        unsure: Whether it isn't known if nodes have the label, and no component can choose.
        least: With ``all_but``, the label is a whole number of at least this value; ``None`` without limit.
        most: With ``all_but``, the label is a whole number of at most this value; ``None`` without limit.
    """

    values: frozenset[str] = frozenset()
    all_but: bool = False
    may_be_absent: bool = False
    unsure: bool = False
    least: int | None = None
    most: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the label has more than one possible value, or may be absent."""
        return self.all_but or len(self.values) + self.may_be_absent > 1

    @property
    def only(self) -> str | None:
        """The value, if there is exactly one."""
        return next(iter(self.values)) if len(self.values) == 1 and not self.all_but else None

    @property
    def is_bounded(self) -> bool:
        """Whether it is any whole number within bounds."""
        return self.least is not None or self.most is not None

    def may_be(self, value: str) -> bool:
        """Whether the label may have a value."""
        if not self.all_but:
            return value in self.values
        return value not in self.values and (not self.is_bounded or self._is_within(value))

    def _is_within(self, value: str) -> bool:
        if not _WHOLE.fullmatch(value):
            return False
        number = int(value)
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    @property
    def is_possible(self) -> bool:
        """Whether the label has a possible value. For a long range, the excluded values can't cover all of it."""
        if not self.all_but:
            return bool(self.values)
        if self.least is None or self.most is None:
            return True
        longer = self.most - self.least >= len(self.values)
        return longer or any(self.may_be(str(each)) for each in range(self.least, self.most + 1))

    def within(self, least: int | None, most: int | None) -> LabelValues:
        """Return it as a whole number that is also within these bounds."""
        return replace(
            self,
            may_be_absent=False,
            least=max((each for each in (self.least, least) if each is not None), default=None),
            most=min((each for each in (self.most, most) if each is not None), default=None),
        )


def exactly(*values: str) -> LabelValues:
    """Return a label that has one of some values."""
    return LabelValues(frozenset(values))


ANY_VALUE = LabelValues(all_but=True)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One expression of a node selector.

    Attributes:
        key: The label.
        operator: ``In``, ``NotIn``, ``Exists``, ``DoesNotExist``, ``Gt``, ``Lt``; Karpenter also has ``Gte`` and
            ``Lte``.
        values: The operands; ``None`` if they aren't known.
    """

    key: str
    operator: str
    values: tuple[str, ...] | None = ()

    def __str__(self) -> str:
        values = "?" if self.values is None else ", ".join(self.values)
        if self.operator == "In" and self.values is not None and len(self.values) == 1:
            return f"{self.key}={values}"
        return f"{self.key} {self.operator}" + (f" ({values})" if self.values != () else "")

    def matches(self, labels: Labels) -> Answer:
        """Return whether a node with such labels can meet it."""
        value = labels.get(self.key)
        if self.is_nowhere:
            return Answer.NO
        if self.values is None and self.operator not in ("Exists", "DoesNotExist"):
            return Answer.UNKNOWN
        if is_expression(self.key):
            return Answer.UNKNOWN
        if isinstance(value, Unknown):
            return self._met_by_unknown(value)
        if value is None or value.may_be_absent:
            absent = self._met_by_none()
            if value is None or absent is Answer.YES:
                return absent
        present = yes_if(self._met_by_values(value))
        if present is Answer.YES and self._needs_a_newer_zone(value):
            return Answer.UNKNOWN
        return Answer.UNKNOWN if value.unsure and present is not self._met_by_none() else present

    def implies(self, other: Requirement) -> bool:
        """Whether each node that meets it also meets another one; ``False`` if its values or the other's are unknown.

        Example: ``family In (g6)`` implies ``family In (g6, p5)``, ``family NotIn (p5)`` and ``family Exists``.
        """
        if self.key != other.key or self.values is None or other.values is None:
            return False
        if self.operator == "In":
            return other.operator == "Exists" or all(map(other._accepts, self.values))
        if self.operator == other.operator == "NotIn":
            return set(other.values) <= set(self.values)
        return self.operator == other.operator and set(self.values) == set(other.values)

    @property
    def is_nowhere(self) -> bool:
        """Whether it requires zones that don't exist in AWS."""
        named = self.values if self.key in _OF_ZONES and self.operator == "In" else None
        return bool(named) and all(map(is_no_zone, named or ()))

    def _needs_a_newer_zone(self, value: LabelValues) -> bool:
        """Whether only a zone meets it that is newer than the catalogue of zones."""
        if self.key not in _OF_ZONES or self.operator != "In":
            return False
        return not any(value.may_be(each) and is_seen_zone(each) for each in self.values or ())

    def _met_by_unknown(self, value: Unknown) -> Answer:
        """Return whether a partly known value meets it. Only the value's start and end, or its choices, are known."""
        if self.operator in ("Exists", "DoesNotExist"):
            return yes_if(self.operator == "Exists")
        if value.choices:
            answers = {self._accepts(str(each)) for each in value.choices}
            return yes_if(answers.pop()) if len(answers) == 1 else Answer.UNKNOWN
        if self.operator in ("In", "NotIn") and not any(
            may_equal(value.expression, each) for each in self.values or ()
        ):
            return yes_if(self.operator == "NotIn")
        return Answer.UNKNOWN

    def _met_by_none(self) -> Answer:
        return yes_if(self.operator in ("NotIn", "DoesNotExist"))

    def narrowed(self, value: LabelValues) -> LabelValues:
        """Return the values that a label may have if it meets the requirement."""
        if self.values is None:
            return value
        if self.operator in ("NotIn", "DoesNotExist"):
            if self.operator == "DoesNotExist":
                return LabelValues(may_be_absent=True)
            left = value.values.union(self.values) if value.all_but else value.values.difference(self.values)
            return replace(value, values=left)
        if value.all_but:
            if self.operator == "In":
                return exactly(*filter(value.may_be, self.values))
            return value.within(*self._bounds())
        kept = value.values if self.operator == "Exists" else filter(self._accepts, value.values)
        return replace(value, values=frozenset(kept), may_be_absent=False)

    def _met_by_values(self, value: LabelValues) -> bool:
        if self.operator == "Exists":
            return value.is_possible
        if self.operator == "DoesNotExist":
            return False
        if value.all_but:
            return (self.operator in ("In", "NotIn") or self._is_comparable()) and self.narrowed(value).is_possible
        return any(self._accepts(each) for each in value.values)

    def _is_comparable(self) -> bool:
        wanted = self.values or ()
        return self.operator in _BOUNDS and len(wanted) == 1 and bool(_WHOLE.fullmatch(wanted[0]))

    def _bounds(self) -> tuple[int | None, int | None]:
        """Return the min and max of a comparison; ``None`` without limit."""
        if not self._is_comparable():
            return None, None
        upper, step = _BOUNDS[self.operator]
        bound = int((self.values or ("0",))[0]) + step
        return (None, bound) if upper else (bound, None)

    def _accepts(self, value: str) -> bool:
        wanted = self.values or ()
        if self.operator == "In":
            return value in wanted
        if self.operator == "NotIn":
            return value not in wanted
        return _compares(self.operator, value, wanted)


def _compares(operator: str, value: str, wanted: tuple[str, ...]) -> bool:
    if len(wanted) != 1 or not (_WHOLE.fullmatch(value) and _WHOLE.fullmatch(wanted[0])):
        return False
    left, right = int(value), int(wanted[0])
    return {"Gt": left > right, "Lt": left < right, "Gte": left >= right, "Lte": left <= right}.get(operator, False)


def met_together(wanted: Iterable[Requirement], labels: Labels) -> list[tuple[Requirement, Answer]]:
    """Return for each requirement whether a node meets it together with the earlier ones.

    The launching component chooses one value for each label, so two requirements for a label must accept the same
    value.
    """
    found, left = [], labels
    for each in wanted:
        answer = each.matches(left)
        found.append((each, answer))
        value = left.get(each.key)
        if answer is Answer.YES and isinstance(value, LabelValues) and value.is_open:
            left = {**left, each.key: each.narrowed(value)}
    return found


def requirement(expression: Mapping[str, Any]) -> Requirement:
    """Return the requirement of a ``matchExpressions`` item or of a Karpenter requirement."""
    key, operator, values = (expression.get(name) for name in ("key", "operator", "values"))
    known = [known_text(each) for each in items(values)]
    later = any(is_expression(each) for each in known if each is not None)
    is_known = (
        not later and None not in known and not any(isinstance(each, Unknown) for each in (key, operator, values))
    )
    return Requirement(
        str(key) if isinstance(key, Unknown) else known_text(key) or "",
        known_text(operator) or "",
        tuple(each for each in known if each is not None) if is_known else None,
    )


def equal(labels: Mapping[str, Any]) -> Iterable[Requirement]:
    """Yield the requirements of a ``nodeSelector``."""
    for key, value in labels.items():
        text = known_text(value)
        yield Requirement(key, "In", (text,) if text is not None else None)


@dataclass(frozen=True, slots=True)
class Term:
    """One of the alternatives of a node affinity.

    Attributes:
        labels: Its requirements for labels.
        fields: Its requirements for fields (the node's name).
    """

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The requirements of a pod for node labels.

    Attributes:
        selector: ``nodeSelector``. All of it must match.
        terms: Required node affinity. One term must match. ``None`` without affinity.
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[Term, ...] | None = None

    def takes(self, labels: Labels) -> Answer:
        """Return whether a node with such labels may run the pod."""
        if self.terms is None:
            return _together(self.selector, labels)
        return any_yes(self._holds(each, labels) for each in self.terms)

    def _holds(self, term: Term, labels: Labels) -> Answer:
        # A term without expressions matches no node.
        if not term.labels and not term.fields:
            return Answer.NO
        named = (Answer.NO if each.operator == "In" else Answer.YES for each in term.fields if each.key == _NAME)
        return all_yes((_together((*self.selector, *term.labels), labels), *named))

    def unmet(self, labels: Labels) -> list[tuple[Requirement, Answer]]:
        """Return the unmet requirements, of several terms only those in the nearest term."""
        found = _unmet(self.selector, labels)
        if self.terms is None or self.takes(labels) is Answer.YES:
            return found
        terms = [each for each in self.terms if each.labels or each.fields]
        added = (_unmet((*self.selector, *each.labels, *each.fields), labels)[len(found) :] for each in terms)
        nearest = min(added, key=_farness, default=[(Requirement("nodeAffinity", "without terms"), Answer.NO)])
        return [*found, *nearest]


def _together(wanted: tuple[Requirement, ...], labels: Labels) -> Answer:
    return all_yes(answer for _, answer in met_together(wanted, labels))


def _unmet(wanted: tuple[Requirement, ...], labels: Labels) -> list[tuple[Requirement, Answer]]:
    return [(each, answer) for each, answer in met_together(wanted, labels) if answer is not Answer.YES]


def _farness(unmet: list[tuple[Requirement, Answer]]) -> tuple[bool, int]:
    return any(answer is Answer.NO for _, answer in unmet), len(unmet)


def selection(pod: Mapping[str, Any]) -> Selection:
    """Return the requirements of a pod for node labels."""
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
    """Return a term of ``nodeSelectorTerms``."""
    labels = tuple(requirement(each) for each in mappings(raw.get("matchExpressions")))
    return Term(labels, tuple(requirement(each) for each in mappings(raw.get("matchFields"))))
