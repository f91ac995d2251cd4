"""Taints in the notation of each source, and whether a pod tolerates them.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/api/core/v1/toleration.go
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.model.answer import Answer, any_yes, yes_if
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_number, known_text, mappings
from gpu_preflight.reading.user_data import UserData

_EKS_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_EFFECTS = tuple(_EKS_EFFECTS.values())
_FLAG = regex(rf"([^=:]+)(?:=([^:]*))?:({'|'.join(_EFFECTS)})")
_WHOLE = regex(r"-?(0|[1-9]\d{0,18})")


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node.

    Attributes:
        key: Its key.
        value: Its value; empty if it has none, ``None`` if it isn't known.
        effect: ``NoSchedule``, ``PreferNoSchedule`` or ``NoExecute``; empty if it isn't known.
        written_without_value: Whether the template sets no value.
    """

    key: str
    value: str | None
    effect: str
    written_without_value: bool = False

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod.

    Attributes:
        key: The taint's key; ``None`` for every key.
        operator: ``Exists``, ``Equal``, ``Lt`` or ``Gt``.
        value: The taint's value.
        effect: The taint's effect; ``None`` for every effect.
        seconds: How long the pod stays on a node that gets the taint; ``None`` if it isn't set.
    """

    key: str | Unknown | None = None
    operator: str | Unknown = "Equal"
    value: Any = ""
    effect: str | Unknown | None = None
    seconds: Any = None

    def matches(self, taint: Taint) -> Answer:
        """Return whether it matches a taint."""
        if any(isinstance(each, Unknown) for each in (self.key, self.operator, self.effect)):
            return self._may_match(taint)
        if (self.key and is_expression(taint.key)) or (self.effect and not taint.effect):
            return Answer.UNKNOWN
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return Answer.NO
        if self.operator == "Exists":
            return Answer.YES
        return self._compares(taint) if self.key else Answer.NO

    def covers(self, other: Toleration) -> bool:
        """Whether it tolerates everything that another toleration tolerates, with the same certainty and for as long.

        Source: kubernetes/kubernetes v1.36.3 pkg/util/tolerations/tolerations.go ``isSuperset``
        """
        if self == other:
            return True
        of_every_key = not self.key and self.operator == "Exists"
        if (self.key != other.key and not of_every_key) or (self.effect and self.effect != other.effect):
            return False
        if self.effect == "NoExecute" and not _as_long(known_number(self.seconds), known_number(other.seconds)):
            return False
        same = (self.operator, self.value) == (other.operator, other.value) and self.operator == "Equal"
        return self.operator == "Exists" or same

    def _compares(self, taint: Taint) -> Answer:
        if taint.value is None or isinstance(self.value, Unknown):
            return Answer.UNKNOWN
        if self.operator in ("Lt", "Gt"):
            return Answer.UNKNOWN if _WHOLE.fullmatch(taint.value) else Answer.NO
        return yes_if(self.operator == "Equal" and self.value == taint.value)

    def _may_match(self, taint: Taint) -> Answer:
        """Return no if the known part of the toleration already excludes the taint."""
        key, effect = known_text(self.key), known_text(self.effect)
        other_key = bool(key) and key != taint.key and not is_expression(taint.key)
        other_effect = bool(effect) and bool(taint.effect) and effect != taint.effect
        return Answer.NO if other_key or other_effect else Answer.UNKNOWN


def tolerations(raw: Any) -> tuple[Toleration, ...]:
    """Return the tolerations of a manifest. For an unknown list, return a toleration that may match everything."""
    if isinstance(raw, Unknown):
        return (Toleration(raw, raw, raw, raw),)
    return tuple(map(_toleration, mappings(raw)))


def _toleration(raw: Mapping[str, Any]) -> Toleration:
    operator, value = raw.get("operator") or "Equal", raw.get("value") or ""
    return Toleration(raw.get("key"), operator, value, raw.get("effect"), raw.get("tolerationSeconds"))


def _as_long(wide: int | None, narrow: int | None) -> bool:
    return wide is None or (narrow is not None and narrow <= wide)


def merged(first: Iterable[Toleration], second: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Merge two lists of tolerations, and remove each toleration that another one covers.

    Source: kubernetes/kubernetes v1.36.3 pkg/util/tolerations/tolerations.go ``MergeTolerations``
    """
    every = (*first, *second)
    kept: list[Toleration] = []
    for place, each in enumerate(every):
        wider = (other for other in every[place + 1 :] if other != each and other.covers(each))
        if not any(other.covers(each) for other in kept) and next(wider, None) is None:
            kept.append(each)
    return tuple(kept)


# Kubernetes adds them to every pod of a DaemonSet.
# Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations (2026-08)
DAEMON_SET_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)


def node_group_taints(properties: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return the taints of an ``AWS::EKS::Nodegroup``."""
    return tuple(_taint(each, "Key", "Value", "Effect") for each in mappings(properties.get("Taints")))


def object_taints(values: Any) -> tuple[Taint, ...]:
    """Return taints in the notation of Kubernetes objects."""
    return tuple(_taint(each, "key", "value", "effect") for each in mappings(values))


def _taint(raw: Mapping[str, Any], key: str, value: str, effect: str) -> Taint:
    written = raw.get(value)
    text = "" if written is None else known_text(written)
    text = None if text is not None and is_expression(text) else text
    named = known_text(raw.get(effect)) or ""
    name = raw.get(key)
    return Taint(str(name), text, _EKS_EFFECTS.get(named, named), written_without_value=written is None)


def kubelet_taints(flags: Iterable[str]) -> tuple[Taint, ...]:
    """Return the taints of the last ``--register-with-taints`` among flags of kubelet, which replaces earlier ones.

    Source: kubernetes/kubernetes v1.36.3 pkg/util/flag/flags.go ``RegisterWithTaintsVar.Set`` (2026-11-23)
    """
    found: list[Taint | None] = []
    for flag in flags:
        name, equals, values = flag.partition("=")
        if equals and name == "--register-with-taints":
            found = [flag_taint(each) for each in values.strip("\"'").split(",")]
    return tuple(each for each in found if each is not None)


def boot_taints(user_data: UserData) -> tuple[Taint, ...]:
    """Return the taints that user data sets on a node. A kubelet flag replaces the list in kubelet's configuration.

    Source: kubernetes/kubernetes v1.36.3 cmd/kubelet/app/server.go ``kubeletConfigFlagPrecedence`` (2026-11-23)
    """
    of_flags = kubelet_taints(user_data.kubelet_flags)
    of_kubelet = of_flags or object_taints(user_data.kubelet_config.get("registerWithTaints"))
    return (*of_kubelet, *setting_taints(dig(user_data.settings, "kubernetes", "node-taints")))


def flag_taint(text: str) -> Taint | None:
    """Return the taint of ``key=value:Effect``, or ``None`` if the text isn't a taint."""
    found = _FLAG.fullmatch(text.strip())
    if not found:
        return None
    value = found.group(2) or ""
    return Taint(found.group(1), None if is_expression(value) else value, found.group(3))


def setting_taints(settings: Any) -> tuple[Taint, ...]:
    """Return the taints of Bottlerocket's ``node-taints``."""
    found: list[Taint] = []
    for key, values in settings.items() if isinstance(settings, dict) else ():
        for each in values if isinstance(values, list) else [values]:
            value, colon, effect = str(each).rpartition(":")
            if colon:
                found.append(Taint(key, None if is_expression(value) else value, effect))
    return tuple(found)


def tolerates(given: Iterable[Toleration], taint: Taint) -> Answer:
    """Return whether one of a pod's tolerations matches a taint."""
    return any_yes(each.matches(taint) for each in given)


def stay(given: Iterable[Toleration], taint: Taint) -> int | Unknown | None:
    """Return for how many seconds a pod stays on a node with a taint that it tolerates; ``None`` without a limit.

    The first toleration that matches decides, even if another toleration lasts longer.
    Sources: kubernetes/kubernetes v1.36.3 pkg/controller/tainteviction/taint_eviction.go ``getMinTolerationTime``,
    pkg/apis/core/v1/helper/helpers.go ``GetMatchingTolerations``
    """
    if taint.effect != "NoExecute":
        return None
    first = next((each for each in given if each.matches(taint) is not Answer.NO), None)
    if first is None or first.seconds is None or first.matches(taint) is not Answer.YES:
        return None
    seconds = known_number(first.seconds)
    return Unknown("${tolerationSeconds}") if seconds is None else max(seconds, 0)


def evicting(given: Iterable[Toleration], taints: Iterable[Taint]) -> list[tuple[Taint, Answer]]:
    """Return the taints that a pod tolerates but that evict it at once, or may evict it."""
    every = tuple(given)
    stays = ((taint, stay(every, taint)) for taint in taints)
    return [(taint, Answer.NO if seconds == 0 else Answer.UNKNOWN) for taint, seconds in stays if _may_be_none(seconds)]


def _may_be_none(seconds: int | Unknown | None) -> bool:
    return isinstance(seconds, Unknown) or seconds == 0


def untolerated(
    given: Iterable[Toleration], taints: Iterable[Taint], *, daemon: bool = False
) -> list[tuple[Taint, Answer]]:
    """Return the taints that a pod doesn't tolerate with no, and the taints that it may not tolerate with unknown.

    Args:
        given: Tolerations of the pod.
        taints: Taints of the node.
        daemon: Whether the pod belongs to a DaemonSet.
    """
    every = (*given, *(DAEMON_SET_TOLERATIONS if daemon else ()))
    found: list[tuple[Taint, Answer]] = []
    for taint in taints:
        if taint.effect not in ("NoSchedule", "NoExecute", ""):
            continue
        if (answer := tolerates(every, taint)) is not Answer.YES:
            found.append((taint, answer if taint.effect else Answer.UNKNOWN))
    return found
