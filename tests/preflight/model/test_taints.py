"""Taints of every source, and tolerations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_preflight.model.answer import Answer
from gpu_preflight.model.taints import (
    Taint,
    Toleration,
    flag_taint,
    kubelet_taints,
    merged,
    node_group_taints,
    object_taints,
    setting_taints,
    tolerates,
    tolerations,
    untolerated,
)
from gpu_preflight.reading.unknown import Unknown

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
def test_an_effect_that_only_prefers_keeps_no_pod_off(effect: str, kept_off: int) -> None:
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


def test_kubelet_gets_several() -> None:
    found = kubelet_taints(["--v=2", "--register-with-taints=a=b:NoSchedule,c:NoExecute"])

    assert [str(each) for each in found] == ["a=b:NoSchedule", "c:NoExecute"]


def test_bottlerocket_gets_settings_by_key() -> None:
    assert setting_taints({"a": ["b:NoSchedule"], "c": "d:NoExecute", "e": ["nothing"]}) == (
        Taint("a", "b", "NoSchedule"),
        Taint("c", "d", "NoExecute"),
    )


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        (Taint("a", "b", "NoSchedule"), "a=b:NoSchedule"),
        (Taint("a", "", "NoExecute"), "a:NoExecute"),
        (Taint("a", None, ""), "a:"),
    ],
)
def test_a_taint_reads_as_people_write_it(taint: Taint, text: str) -> None:
    assert str(taint) == text


HALF_KNOWN = Taint("${Key}", "b", "NoSchedule")
NO_EFFECT = Taint("a", "b", "")


@pytest.mark.parametrize(
    ("toleration", "taint", "answer"),
    [
        ({"operator": "Exists"}, HALF_KNOWN, YES),
        ({"key": "a", "operator": "Exists"}, HALF_KNOWN, UNKNOWN),
        ({"operator": "Exists", "effect": "NoSchedule"}, HALF_KNOWN, YES),
        ({"operator": "Exists", "effect": "NoExecute"}, HALF_KNOWN, NO),
        ({"key": "a", "operator": "Exists"}, NO_EFFECT, YES),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, NO_EFFECT, UNKNOWN),
        ({"key": "c", "operator": "Exists"}, NO_EFFECT, NO),
        # The operator is read before the value, and a value is compared with a key only.
        ({"key": "a", "operator": "exists", "value": "b"}, NO_EFFECT, NO),
        ({"key": "a", "operator": "Exists", "value": "c"}, NO_EFFECT, YES),
        ({"operator": "Equal", "value": "b"}, NO_EFFECT, NO),
        ({"key": "a", "operator": "", "value": "b"}, NO_EFFECT, YES),
        ({"key": "a", "value": None}, Taint("a", "", "NoSchedule"), YES),
        ({"key": "a"}, Taint("a", "", "NoSchedule"), YES),
        ({"key": "a", "value": "b"}, Taint("a", None, "NoSchedule"), UNKNOWN),
        ({"key": "a", "operator": "Exists"}, Taint("a", None, "NoSchedule"), YES),
        # Lt and Gt are for whole numbers.
        ({"key": "a", "operator": "Lt", "value": "1"}, Taint("a", "0", "NoSchedule"), UNKNOWN),
        ({"key": "a", "operator": "Lt", "value": "1"}, Taint("a", "-5", "NoSchedule"), UNKNOWN),
        ({"key": "a", "operator": "Lt", "value": "1"}, Taint("a", "05", "NoSchedule"), NO),
        ({"key": "a", "operator": "Gt", "value": "1"}, Taint("a", "1", "NoSchedule"), UNKNOWN),
        ({"key": "a", "operator": "Gt", "value": "b"}, Taint("a", "b", "NoSchedule"), NO),
        # The known part of a toleration can already rule a taint out.
        ({"key": LATER, "operator": "Exists", "effect": "NoExecute"}, TAINT, NO),
        ({"key": LATER, "operator": "Exists", "effect": "NoSchedule"}, TAINT, UNKNOWN),
        ({"key": LATER, "operator": "Exists", "effect": "NoExecute"}, NO_EFFECT, UNKNOWN),
        ({"key": "c", "operator": LATER}, HALF_KNOWN, UNKNOWN),
        ({"key": "c", "operator": "Exists", "effect": LATER}, NO_EFFECT, NO),
        ({"key": "a", "operator": "Exists", "effect": LATER}, NO_EFFECT, UNKNOWN),
        ({"operator": LATER}, TAINT, UNKNOWN),
        ({"operator": LATER, "effect": "NoExecute"}, TAINT, NO),
    ],
)
def test_which_taint_a_toleration_matches(toleration: Any, taint: Taint, answer: Answer) -> None:
    assert tolerates(tolerations([toleration]), taint) is answer


def test_what_a_toleration_leaves_out_is_every_key_every_effect_and_no_value() -> None:
    assert tolerations([{}, "nothing"]) == (Toleration(None, "Equal", "", None),)
    assert Toleration() == Toleration(None, "Equal", "", None)


def test_of_tolerations_that_are_not_known_nothing_is() -> None:
    assert tolerations(LATER) == (Toleration(LATER, LATER, LATER, LATER),)


TEXTS = st.sampled_from(("a", "b", "${Later}"))
EFFECTS = st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule", ""))
TAINTS = st.lists(st.builds(Taint, TEXTS, st.sampled_from(("1", "", None)), EFFECTS), max_size=3)
PARTS = st.one_of(st.none(), st.just(LATER), TEXTS)
TOLERATIONS = st.lists(
    st.builds(
        Toleration,
        PARTS,
        st.sampled_from(("Exists", "Equal", "Lt", LATER)),
        st.sampled_from(("1", "", LATER)),
        st.one_of(st.none(), st.just(LATER), EFFECTS),
    ),
    max_size=3,
)
EXAMPLES = settings(max_examples=100)


@EXAMPLES
@given(TOLERATIONS, TOLERATIONS, TAINTS)
def test_one_toleration_more_never_keeps_a_pod_off(
    told: list[Toleration], more: list[Toleration], taints: list[Taint]
) -> None:
    rank = {YES: 0, UNKNOWN: 1, NO: 2}
    before, after = dict(untolerated(told, taints)), dict(untolerated([*told, *more], taints))

    assert all(rank[answer] <= rank[before.get(taint, YES)] for taint, answer in after.items())


@EXAMPLES
@given(TOLERATIONS, TAINTS)
def test_a_taint_alone_is_as_a_taint_among_others(told: list[Toleration], taints: list[Taint]) -> None:
    alone = [found for taint in taints for found in untolerated(told, [taint])]

    assert untolerated(told, taints) == alone


@EXAMPLES
@given(TAINTS)
def test_who_tolerates_everything_is_kept_off_by_nothing(taints: list[Taint]) -> None:
    assert untolerated([Toleration(operator="Exists")], taints) == []


def test_a_taint_whose_effect_is_not_known_may_be_one_that_only_prefers() -> None:
    assert untolerated((), [NO_EFFECT, TAINT]) == [(NO_EFFECT, UNKNOWN), (TAINT, NO)]


def test_a_taint_that_only_prefers_hides_no_other() -> None:
    assert untolerated((), [Taint("a", "", "PreferNoSchedule"), TAINT]) == [(TAINT, NO)]


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ],
)
def test_what_kubernetes_adds_is_for_one_effect(name: str, effect: str) -> None:
    other = {"NoExecute": "NoSchedule", "NoSchedule": "NoExecute"}[effect]
    taints = [Taint(f"node.kubernetes.io/{name}", "x", each) for each in (effect, other)]

    assert untolerated((), taints, daemon=True) == [(taints[1], NO)]


@pytest.mark.parametrize(
    ("written", "taint"),
    [
        (
            {"Key": "a", "Value": "b", "Effect": "PREFER_NO_SCHEDULE"},
            Taint("a", "b", "PreferNoSchedule"),
        ),
        ({"Key": "a", "Value": "", "Effect": "NoSchedule"}, Taint("a", "", "NoSchedule")),
        ({"Key": "a", "Effect": "Never"}, Taint("a", "", "Never", written_without_value=True)),
        ({"Key": "a", "Value": "${Later}", "Effect": "NO_SCHEDULE"}, Taint("a", None, "NoSchedule")),
        ({"Key": "a", "Value": LATER, "Effect": "NO_SCHEDULE"}, Taint("a", None, "NoSchedule")),
        ({"Key": LATER, "Value": "b", "Effect": LATER}, Taint("${Later}", "b", "")),
        ({"Key": "a", "Value": 7, "Effect": "NO_SCHEDULE"}, Taint("a", None, "NoSchedule")),
    ],
)
def test_a_taint_of_a_group(written: Any, taint: Taint) -> None:
    lower = [{name.lower(): value for name, value in written.items()}]

    assert node_group_taints({"Taints": [written]}) == object_taints(lower) == (taint,)
    assert node_group_taints({"taints": [written]}) == node_group_taints({}) == ()


def test_kubelet_is_configured_by_one_flag_only() -> None:
    flags = ["--register-with-taints", "--node-labels=a=b:NoSchedule", '--register-with-taints="a=b:NoSchedule,b=c"']

    assert kubelet_taints(flags) == (Taint("a", "b", "NoSchedule"),)
    assert kubelet_taints(["--register-with-taints='X:NoExecute, b=x:NoSchedule'"]) == (
        Taint("X", "", "NoExecute"),
        Taint("b", "x", "NoSchedule"),
    )


def test_the_last_flag_of_taints_holds() -> None:
    flags = ["--register-with-taints=a:NoExecute", "--register-with-taints=b:NoExecute", "--v=2"]

    assert kubelet_taints(flags) == (Taint("b", "", "NoExecute"),)


@pytest.mark.parametrize(
    ("written", "taints"),
    [
        (None, ()),
        (["a"], ()),
        ({"a": ["x:y:NoSchedule"]}, (Taint("a", "x:y", "NoSchedule"),)),
        ({"a": ["${Later}:NoSchedule"]}, (Taint("a", None, "NoSchedule"),)),
        ({"a": [":NoSchedule"]}, (Taint("a", "", "NoSchedule"),)),
        ({"a": [LATER, "b:NoExecute"]}, (Taint("a", "b", "NoExecute"),)),
    ],
)
def test_settings_of_bottlerocket(written: Any, taints: tuple[Taint, ...]) -> None:
    assert setting_taints(written) == taints


ALL = Toleration(None, "Exists")
GPUS = Toleration("nvidia.com/gpu", "Exists")
FOR_A_MINUTE = Toleration("nvidia.com/gpu", "Exists", effect="NoExecute", seconds=60)
FOR_AN_HOUR = Toleration("nvidia.com/gpu", "Exists", effect="NoExecute", seconds=3600)
OF_A_VALUE = Toleration("nvidia.com/gpu", "Equal", "true")


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (ALL, GPUS),
        (ALL, Toleration("a", "Gt", "5")),
        (GPUS, OF_A_VALUE),
        (GPUS, FOR_A_MINUTE),
        (FOR_AN_HOUR, FOR_A_MINUTE),
        (Toleration("a", "Exists", effect="NoExecute"), Toleration("a", "Exists", effect="NoExecute", seconds=1)),
        (OF_A_VALUE, Toleration("nvidia.com/gpu", "Equal", "true", "NoSchedule")),
    ],
)
def test_one_toleration_covers_another(wide: Toleration, narrow: Toleration) -> None:
    assert wide.covers(narrow)
    assert wide.covers(wide)
    assert not narrow.covers(wide)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (GPUS, Toleration("a", "Exists")),
        (OF_A_VALUE, Toleration("nvidia.com/gpu", "Equal", "false")),
        (FOR_A_MINUTE, Toleration("nvidia.com/gpu", "Exists", effect="NoSchedule")),
    ],
)
def test_neither_toleration_covers_the_other(left: Toleration, right: Toleration) -> None:
    assert not left.covers(right)
    assert not right.covers(left)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ([GPUS], [ALL], (ALL,)),
        ([ALL], [GPUS], (ALL,)),
        ([GPUS], [GPUS], (GPUS,)),
        ([FOR_A_MINUTE], [FOR_AN_HOUR], (FOR_AN_HOUR,)),
        ([OF_A_VALUE], [Toleration("a", "Exists")], (OF_A_VALUE, Toleration("a", "Exists"))),
        ([], [], ()),
    ],
)
def test_tolerations_that_another_covers_are_left_out(first: Any, second: Any, kept: Any) -> None:
    assert merged(first, second) == kept
