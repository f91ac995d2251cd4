"""Taints of every source, and tolerations."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.taints import (
    Taint,
    flag_taint,
    kubelet_taints,
    node_group_taints,
    object_taints,
    setting_taints,
    tolerates,
    tolerations,
    untolerated,
)
from gpu_constructs.preflight.reading.unknown import Unknown

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
TAINT = Taint("nvidia.com/gpu", "true", "NoSchedule")
LATER = Unknown("${Later}")


@pytest.mark.parametrize(
    ("toleration", "answer"),
    [
        ({"operator": "Exists"}, YES),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, YES),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, YES),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, NO),
        ({"key": "nvidia.com/gpu", "value": "true"}, YES),
        ({"key": "nvidia.com/gpu", "operator": "Equal", "value": "false"}, NO),
        ({"key": "nvidia.com/gpu"}, NO),
        ({"key": "other", "operator": "Exists"}, NO),
        ({"value": "true"}, NO),
        ({"key": "nvidia.com/gpu", "operator": "exists"}, NO),
        ({"key": "nvidia.com/gpu", "operator": "Gt", "value": "1"}, NO),
        ({"key": LATER, "operator": "Exists"}, UNKNOWN),
        ({"key": "nvidia.com/gpu", "operator": LATER}, UNKNOWN),
        ({"key": "nvidia.com/gpu", "value": LATER}, UNKNOWN),
        ({"operator": "Exists", "effect": LATER}, UNKNOWN),
        ({"key": "other", "operator": LATER}, NO),
    ],
)
def test_toleration(toleration: Any, answer: Answer) -> None:
    assert tolerates(tolerations([toleration]), TAINT) is answer


def test_a_number_may_be_compared_once_the_gate_is_known() -> None:
    toleration = {"key": "rank", "operator": "Gt", "value": "1"}

    assert tolerates(tolerations([toleration]), Taint("rank", "5", "NoSchedule")) is UNKNOWN


@pytest.mark.parametrize(("effect", "kept_off"), [("NoSchedule", 1), ("NoExecute", 1), ("PreferNoSchedule", 0)])
def test_an_effect_that_only_prefers_keeps_nobody_off(effect: str, kept_off: int) -> None:
    assert len(untolerated((), [Taint("a", "", effect)])) == kept_off


def test_a_pod_of_a_daemon_set_tolerates_what_kubernetes_adds() -> None:
    taint = Taint("node.kubernetes.io/not-ready", "", "NoExecute")

    assert untolerated((), [taint], daemon=True) == []
    assert untolerated((), [taint]) == [(taint, NO)]


@pytest.mark.parametrize("part", ["Key", "Value", "Effect"])
def test_a_taint_with_a_part_that_is_not_known_may_keep_a_pod_off(part: str) -> None:
    group = {"Taints": [{"Key": "a", "Value": "b", "Effect": "NO_SCHEDULE", part: LATER}]}
    taints = node_group_taints(group)

    assert untolerated(tolerations([{"operator": "Exists"}]), taints) == []
    [(_, answer)] = untolerated(tolerations([{"key": "a", "value": "b", "effect": "NoSchedule"}]), taints)
    assert answer is UNKNOWN


def test_a_group_spells_effects_in_its_own_way() -> None:
    assert node_group_taints({"Taints": [{"Key": "a", "Effect": "NO_EXECUTE"}]}) == (
        Taint("a", "", "NoExecute", written_without_value=True),
    )


def test_an_empty_value_is_a_value() -> None:
    [taint] = object_taints([{"key": "a", "value": "", "effect": "NoSchedule"}])

    assert not taint.written_without_value


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("a=b:NoSchedule", Taint("a", "b", "NoSchedule")),
        ("a:NoExecute", Taint("a", "", "NoExecute")),
        ("a=:NoSchedule", Taint("a", "", "NoSchedule")),
        ("a=${Later}:NoSchedule", Taint("a", None, "NoSchedule")),
        ("a=b", None),
        ("a=b:Never", None),
        ("", None),
    ],
)
def test_a_taint_of_a_flag(text: str, taint: Taint | None) -> None:
    assert flag_taint(text) == taint


def test_kubelet_is_told_several() -> None:
    found = kubelet_taints(["--v=2", "--register-with-taints=a=b:NoSchedule,c:NoExecute"])

    assert [str(each) for each in found] == ["a=b:NoSchedule", "c:NoExecute"]


def test_bottlerocket_is_told_by_key() -> None:
    assert setting_taints({"a": ["b:NoSchedule"], "c": "d:NoExecute", "e": ["nothing"]}) == (
        Taint("a", "b", "NoSchedule"),
        Taint("c", "d", "NoExecute"),
    )
