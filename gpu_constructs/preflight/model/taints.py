"""Taints as each source writes them, and whether a pod tolerates them.

Source: kubernetes/kubernetes v1.36.1 staging/src/k8s.io/api/core/v1/toleration.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_constructs.preflight.model.answer import Answer, any_of, yes_if
from gpu_constructs.preflight.model.cluster import Taint
from gpu_constructs.preflight.reading.unknown import Unknown, is_expression, known_text, mappings

_EKS_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_EFFECTS = tuple(_EKS_EFFECTS.values())
_FLAG = re.compile(rf"([^=:]+)(?:=([^:]*))?:({'|'.join(_EFFECTS)})")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,18})")
# Kubernetes adds them to every pod of a DaemonSet.
# Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations (2026-08)
DAEMON_SET_TOLERATIONS = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
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
    """Return taints as Kubernetes objects write them."""
    return tuple(_taint(each, "key", "value", "effect") for each in mappings(values))


def _taint(raw: Mapping[str, Any], key: str, value: str, effect: str) -> Taint:
    written = raw.get(value)
    text = "" if written is None else known_text(written)
    text = None if text is not None and is_expression(text) else text
    named = known_text(raw.get(effect)) or ""
    name = raw.get(key)
    return Taint(str(name), text, _EKS_EFFECTS.get(named, named), written_without_value=written is None)


def kubelet_taints(flags: Iterable[str]) -> tuple[Taint, ...]:
    """Return the taints of ``--register-with-taints`` among flags of kubelet."""
    found = []
    for flag in flags:
        name, equals, values = flag.partition("=")
        if equals and name == "--register-with-taints":
            found += [flag_taint(each) for each in values.strip("\"'").split(",")]
    return tuple(each for each in found if each is not None)


def flag_taint(text: str) -> Taint | None:
    """Return the taint of ``key=value:Effect``, or ``None`` when it is none."""
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


def tolerates(tolerations: Iterable[Mapping[str, Any]], taint: Taint) -> Answer:
    """Say whether one of a pod's tolerations matches a taint."""
    return any_of(_matches(each, taint) for each in tolerations)


def _matches(toleration: Mapping[str, Any], taint: Taint) -> Answer:
    key, effect = toleration.get("key"), toleration.get("effect")
    operator = toleration.get("operator") or "Equal"
    if any(isinstance(each, Unknown) for each in (key, effect, operator)):
        return _matches_unknown(toleration, taint)
    if (key and is_expression(taint.key)) or (effect and not taint.effect):
        return Answer.UNKNOWN
    if (effect and effect != taint.effect) or (key and key != taint.key):
        return Answer.NO
    if operator == "Exists":
        return Answer.YES
    if not key:
        return Answer.NO
    value = toleration.get("value") or ""
    if taint.value is None or isinstance(value, Unknown):
        return Answer.UNKNOWN
    if operator in ("Lt", "Gt"):
        return Answer.UNKNOWN if _WHOLE.fullmatch(taint.value) else Answer.NO
    return yes_if(operator == "Equal" and value == taint.value)


def _matches_unknown(toleration: Mapping[str, Any], taint: Taint) -> Answer:
    """Say no where what is known of a toleration is of another taint already."""
    key, effect = known_text(toleration.get("key")), known_text(toleration.get("effect"))
    other_key = bool(key) and key != taint.key and not is_expression(taint.key)
    other_effect = bool(effect) and bool(taint.effect) and effect != taint.effect
    return Answer.NO if other_key or other_effect else Answer.UNKNOWN


def untolerated(pod: Mapping[str, Any], taints: Iterable[Taint], *, daemon: bool = False) -> list[tuple[Taint, Answer]]:
    """Return the taints that keep a pod off a node, with no, or unknown where it may tolerate them.

    Args:
        pod: ``spec`` of the pod.
        taints: Taints of the node.
        daemon: Whether the pod belongs to a DaemonSet.
    """
    tolerations = [*mappings(pod.get("tolerations")), *(DAEMON_SET_TOLERATIONS if daemon else ())]
    found: list[tuple[Taint, Answer]] = []
    for taint in taints:
        if taint.effect not in ("NoSchedule", "NoExecute", ""):
            continue
        if (answer := tolerates(tolerations, taint)) is not Answer.YES:
            found.append((taint, answer if taint.effect else Answer.UNKNOWN))
    return found
