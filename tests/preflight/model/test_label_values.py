"""The possible values of a node's label, and their match with a requirement."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.answer import Answer
from gpu_preflight.model.label_values import (
    ANY_VALUE,
    LabelValues,
    Requirement,
    equal,
    exactly,
    met_together,
    requirement,
)
from gpu_preflight.reading.unknown import Unknown

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
NOT_A = LabelValues(frozenset(("a",)), all_but=True, may_be_absent=True)
PERHAPS_A = LabelValues(frozenset(("a",)), unsure=True)
LATER = Unknown("${Later}")


@pytest.mark.parametrize(
    ("have", "operator", "values", "answer"),
    [
        (exactly("a"), "In", ("a", "b"), YES),
        (exactly("a"), "In", ("b",), NO),
        (exactly("a"), "In", (), NO),
        (None, "In", ("a",), NO),
        (exactly("a"), "NotIn", ("a",), NO),
        (exactly("a", "b"), "NotIn", ("a",), YES),
        (None, "NotIn", ("a",), YES),
        (exactly("a"), "Exists", (), YES),
        (None, "Exists", (), NO),
        (exactly("a"), "DoesNotExist", (), NO),
        (None, "DoesNotExist", (), YES),
        (exactly("5"), "Gt", ("4",), YES),
        (exactly("5"), "Gt", ("5",), NO),
        (exactly("5"), "Lt", ("5",), NO),
        (exactly("5"), "Lt", ("6",), YES),
        (exactly("5"), "Gte", ("5",), YES),
        (exactly("5"), "Lte", ("4",), NO),
        (exactly("-5"), "Lt", ("-4",), YES),
        (exactly("x"), "Gt", ("4",), NO),
        (exactly("5"), "Gt", ("4", "3"), NO),
        (exactly("5"), "Gt", ("4.5",), NO),
        (None, "Gt", ("4",), NO),
        (ANY_VALUE, "In", ("a",), YES),
        (NOT_A, "In", ("a",), NO),
        (NOT_A, "In", ("b",), YES),
        (NOT_A, "DoesNotExist", (), YES),
        (NOT_A, "Exists", (), YES),
        (PERHAPS_A, "In", ("a",), UNKNOWN),
        (PERHAPS_A, "In", ("b",), NO),
        (PERHAPS_A, "NotIn", ("b",), YES),
        (PERHAPS_A, "Exists", (), UNKNOWN),
        (LATER, "In", ("a",), UNKNOWN),
        (LATER, "NotIn", ("a",), UNKNOWN),
        (LATER, "Exists", (), YES),
        (LATER, "DoesNotExist", (), NO),
        (Unknown("us-east-1${zone}"), "In", ("us-east-1a",), UNKNOWN),
        (Unknown("us-east-1${zone}"), "In", ("eu-west-1a", "us-east-1a"), UNKNOWN),
        (Unknown("us-east-1${zone}"), "In", ("eu-west-1a",), NO),
        (Unknown("us-east-1${zone}"), "NotIn", ("eu-west-1a",), YES),
        (Unknown("us-east-1${zone}"), "NotIn", ("us-east-1a",), UNKNOWN),
        (Unknown("${A}", ("a", "b")), "In", ("a", "b", "c"), YES),
        (Unknown("${A}", ("a", "b")), "In", ("a",), UNKNOWN),
        (Unknown("${A}", ("a", "b")), "In", ("c",), NO),
        (Unknown("${A}", ("a", "b")), "NotIn", ("c",), YES),
        (exactly("a"), "In", None, UNKNOWN),
        (None, "In", None, UNKNOWN),
    ],
)
def test_requirement(have: Any, operator: str, values: Any, answer: Answer) -> None:
    labels = {} if have is None else {"key": have}

    assert Requirement("key", operator, values).matches(labels) is answer


@pytest.mark.parametrize("part", ["key", "operator", "values"])
def test_an_expression_with_a_part_that_is_not_known_is_not_known(part: str) -> None:
    expression = {"key": "key", "operator": "In", "values": ["a"], part: LATER}

    assert requirement(expression).matches({"key": exactly("a")}) is UNKNOWN
    assert requirement(expression).matches({}) is UNKNOWN


def test_one_value_that_is_not_known_makes_them_all_not_known() -> None:
    assert requirement({"key": "key", "operator": "In", "values": ["a", LATER]}).values is None


def test_a_selector_is_one_requirement_a_label() -> None:
    assert list(equal({"a": "b", "c": LATER})) == [Requirement("a", "In", ("b",)), Requirement("c", "In", None)]


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (Requirement("a", "In", ("b",)), "a=b"),
        (Requirement("a", "In", ("b", "c")), "a In (b, c)"),
        (Requirement("a", "Exists"), "a Exists"),
        (Requirement("a", "In", None), "a In (?)"),
    ],
)
def test_words(requirement: Requirement, text: str) -> None:
    assert str(requirement) == text


@pytest.mark.parametrize(
    ("one", "other", "implied"),
    [
        (("In", ("a",)), ("In", ("b", "a")), True),
        (("In", ("a", "b")), ("In", ("a",)), False),
        (("In", ("a",)), ("NotIn", ("b",)), True),
        (("In", ("a",)), ("NotIn", ("a",)), False),
        (("In", ("a",)), ("Exists", ()), True),
        (("In", ("a",)), ("DoesNotExist", ()), False),
        (("In", ("5",)), ("Gt", ("4",)), True),
        (("NotIn", ("a", "b")), ("NotIn", ("a",)), True),
        (("NotIn", ("a",)), ("NotIn", ("a", "b")), False),
        (("NotIn", ("a",)), ("In", ("b",)), False),
        (("Exists", ()), ("Exists", ()), True),
        (("Exists", ()), ("In", ("a",)), False),
        (("Gt", ("4",)), ("Gt", ("4",)), True),
        (("Gt", ("4",)), ("Gt", ("5",)), False),
        (("In", None), ("In", ("a",)), False),
        (("In", ("a",)), ("In", None), False),
    ],
)
def test_a_requirement_implies_another_one(one: Any, other: Any, implied: bool) -> None:
    assert Requirement("key", *one).implies(Requirement("key", *other)) is implied
    assert not Requirement("key", *one).implies(Requirement("else", *other))


@pytest.mark.parametrize("have", [ANY_VALUE, NOT_A])
@pytest.mark.parametrize(("values", "answer"), [(("five",), NO), (("5", "6"), NO), (("5",), YES)])
def test_no_value_is_greater_than_what_is_no_number(have: LabelValues, values: tuple[str, ...], answer: Answer) -> None:
    assert Requirement("key", "Gt", values).matches({"key": have}) is answer


@pytest.mark.parametrize(
    ("have", "wanted", "answers"),
    [
        (exactly("a", "b"), [("In", ("a",)), ("NotIn", ("a",))], [YES, NO]),
        (exactly("a", "b"), [("In", ("a", "b")), ("NotIn", ("a",))], [YES, YES]),
        (exactly("a", "b"), [("NotIn", ("a",)), ("In", ("a",))], [YES, NO]),
        (exactly("4", "6"), [("Gt", ("5",)), ("In", ("4",))], [YES, NO]),
        (exactly("4", "6"), [("Gt", ("5",)), ("In", ("6",))], [YES, YES]),
        (ANY_VALUE, [("In", ("a", "b")), ("In", ("b", "c")), ("NotIn", ("b",))], [YES, YES, NO]),
        (ANY_VALUE, [("NotIn", ("b",)), ("In", ("b",))], [YES, NO]),
        (ANY_VALUE, [("Gt", ("5",)), ("Exists", ())], [YES, YES]),
        (ANY_VALUE, [("Gt", ("5",)), ("In", ("5",))], [YES, NO]),
        (ANY_VALUE, [("Gt", ("5",)), ("In", ("6",))], [YES, YES]),
        (ANY_VALUE, [("Gte", ("5",)), ("In", ("5",))], [YES, YES]),
        (ANY_VALUE, [("Gt", ("5",)), ("In", ("x",))], [YES, NO]),
        (ANY_VALUE, [("Gt", ("5",)), ("Lt", ("7",))], [YES, YES]),
        (ANY_VALUE, [("Gt", ("5",)), ("Lt", ("6",))], [YES, NO]),
        (ANY_VALUE, [("Gte", ("5",)), ("Lte", ("5",))], [YES, YES]),
        (ANY_VALUE, [("Gte", ("5",)), ("Lte", ("5",)), ("NotIn", ("5",))], [YES, YES, NO]),
        (ANY_VALUE, [("Lte", ("5",)), ("NotIn", ("5",)), ("Gte", ("4",))], [YES, YES, YES]),
        (NOT_A, [("DoesNotExist", ()), ("Exists", ())], [YES, NO]),
        (NOT_A, [("DoesNotExist", ()), ("NotIn", ("b",))], [YES, YES]),
        (NOT_A, [("Exists", ()), ("DoesNotExist", ())], [YES, NO]),
        (NOT_A, [("In", ("b",)), ("DoesNotExist", ())], [YES, NO]),
        (exactly("a", "b"), [("In", None), ("In", ("a",))], [UNKNOWN, YES]),
        (exactly("a"), [("In", ("b",)), ("In", ("a",))], [NO, YES]),
    ],
)
def test_requirements_of_one_label_want_one_value(have: Any, wanted: Any, answers: list[Answer]) -> None:
    requirements = [Requirement("key", *each) for each in wanted]

    assert [answer for _, answer in met_together(requirements, {"key": have})] == answers


def test_requirements_of_two_labels_do_not_meet() -> None:
    labels = {"team": exactly("a", "b"), "tier": exactly("a", "b")}
    wanted = [Requirement("team", "In", ("a",)), Requirement("tier", "In", ("b",))]

    assert [answer for _, answer in met_together(wanted, labels)] == [YES, YES]
    assert labels["team"] == exactly("a", "b")


@pytest.mark.parametrize(
    ("operator", "values", "answer"),
    [
        ("In", ("us-east-1z",), Answer.NO),
        ("In", ("us-east-1z", "us-east-1g"), Answer.UNKNOWN),
        ("In", ("us-east-1g",), Answer.UNKNOWN),
        ("In", ("us-east-1a", "us-east-1z"), Answer.YES),
        ("NotIn", ("us-east-1z",), Answer.YES),
    ],
)
def test_no_node_is_in_a_zone_that_there_is_not(operator: str, values: tuple[str, ...], answer: Answer) -> None:
    labels = {"topology.kubernetes.io/zone": exactly("us-east-1a", "us-east-1g", "us-east-1z")}

    assert Requirement("topology.kubernetes.io/zone", operator, values).matches(labels) is answer
