"""Three answers."""

from __future__ import annotations

import pytest

from gpu_preflight.model.answer import Answer, all_yes, any_yes, yes_if
from gpu_preflight.reading.unknown import Unknown, is_expression, is_true, known_number, may_equal, value_or_unknown

YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN


@pytest.mark.parametrize(
    ("answers", "every", "one"),
    [
        ((), YES, NO),
        ((YES,), YES, YES),
        ((YES, UNKNOWN), UNKNOWN, YES),
        ((YES, NO), NO, YES),
        ((NO, UNKNOWN), NO, UNKNOWN),
        ((UNKNOWN,), UNKNOWN, UNKNOWN),
        ((NO, NO), NO, NO),
    ],
)
def test_all_and_any(answers: tuple[Answer, ...], every: Answer, one: Answer) -> None:
    assert all_yes(answers) is every
    assert any_yes(answers) is one


def test_yes_if() -> None:
    assert (yes_if(True), yes_if(False)) == (YES, NO)


@pytest.mark.parametrize(
    ("value", "number"),
    [(1, 1), ("-3", -3), (2.0, 2), (10**18 - 1, 10**18 - 1), ("9" * 18, 10**18 - 1), (-0.0, 0)],
)
def test_numbers_that_are_known(value: object, number: int) -> None:
    assert known_number(value) == number


@pytest.mark.parametrize(
    "value", [True, 1.5, 10**18, "9" * 19, "1e3", "²", "٣", "", None, [], float("inf"), float("nan")]
)
def test_what_is_no_number(value: object) -> None:
    assert known_number(value) is None


def test_an_unknown_names_its_resource_and_attribute() -> None:
    found = Unknown("${Stack/Nodes.Arn}")

    assert (found.resource, found.attribute) == ("Stack/Nodes", "Arn")
    assert Unknown("a${A/B}c${D}").resources == ("A/B", "D")
    assert Unknown("x${A}").resource is None


def test_switches() -> None:
    assert [is_true(each) for each in (True, "true", "True", 1, "yes", None)] == [True, True, True, False, False, False]


def test_expressions() -> None:
    assert [is_expression(each) for each in ("${A}", "{{resolve:ssm:/a}}", "{a}", "$a")] == [True, True, False, True]


@pytest.mark.parametrize(
    ("left", "right", "answer"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a/${B}", "a/demo", True),
        ("a/${B}", "b/demo", False),
        ("a/${B}/c", "a/demo/d", False),
        ("a/${B}", "${C}", True),
        ("a-$B", "a-demo", True),
        ("a-$B", "b-demo", False),
    ],
)
def test_texts_that_may_be_equal(left: str, right: str, answer: bool) -> None:
    assert may_equal(left, right) is answer
    assert may_equal(right, left) is answer


def test_one_of_several_values() -> None:
    assert value_or_unknown("${A}", ["a", "a"]) == "a"
    assert value_or_unknown("${A}", ["a", Unknown("${B}", ("b", "a"))]).choices == ("a", "b")
    assert value_or_unknown("${A}", ["a", Unknown("${B}")]).choices == ()
    assert value_or_unknown("${A}", range(101)).choices == ()
