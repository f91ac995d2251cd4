"""Intrinsics that double, nest, chain or mean nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.hostile.files import GROUP, everything, file_of, refusal, template, valued
from tests.preflight.hostile.work import steps_at_most


def subs(levels: int, separator: str = "") -> Any:
    value: Any = "xx"
    for _ in range(levels):
        value = {"Fn::Sub": [f"${{A}}{separator}${{A}}", {"A": value}]}
    return value


def test_a_text_that_doubles_is_known_while_it_is_short(tmp_path: Path) -> None:
    assert valued(tmp_path, subs(10)) == "xx" * 2**10


def test_a_text_that_doubles_is_given_up_when_it_is_long(tmp_path: Path) -> None:
    with steps_at_most(1_000):
        assert isinstance(valued(tmp_path, subs(60)), Unknown)


def test_two_texts_that_are_too_long_are_not_called_equal(tmp_path: Path) -> None:
    long = {"Fn::Join": ["", [subs(30), "a"]]}, {"Fn::Join": ["", [subs(30), "b"]]}
    chosen = {"Fn::If": ["Same", "yes", "no"]}

    assert isinstance(valued(tmp_path, chosen, Conditions={"Same": {"Fn::Equals": list(long)}}), Unknown)


def test_many_long_texts_end_in_bounded_memory(tmp_path: Path) -> None:
    joins = [{"Fn::Join": ["", [{"Ref": "Long"}, str(each)]]} for each in range(20_000)]
    parameters = {"Long": {"Type": "String", "Default": "x" * 900_000}}

    values = valued(tmp_path, joins, Parameters=parameters)

    known = [each for each in values if isinstance(each, str)]
    assert sum(map(len, known)) < 200 * 1024**2


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"Fn::Anything": inner},
        lambda inner: {"Fn::Select": [{"Ref": "Nodes"}, [inner, inner]]},
        lambda inner: {"Fn::If": ["Missing", inner, "x"]},
        lambda inner: {"Fn::Join": [",", {"Fn::GetAZs": inner}]},
        lambda inner: {"Fn::Base64": inner},
        lambda inner: {"Fn::ToJsonString": {"a": inner}},
        lambda inner: {"Fn::Sub": ["${A}", {"A": inner}]},
        lambda inner: {"Fn::Split": [",", inner]},
        lambda inner: {"Fn::FindInMap": ["A", inner, "B"]},
        lambda inner: {"Fn::ImportValue": inner},
        lambda inner: {"Fn::Length": [inner]},
        lambda inner: {"Fn::GetAtt": ["Nodes", inner]},
        lambda inner: {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": inner}},
    ],
    ids=lambda wrap: next(iter(wrap(None))),
)
def test_nested_intrinsics_end(tmp_path: Path, wrap: Any) -> None:
    """Each is resolved once, and quotes inside quotes, which double, are given up at 1 MiB."""
    value: Any = {"Ref": "Nodes"}
    for _ in range(14):
        value = wrap(value)
    other = {"Type": "A::B::C", "Properties": {"P": value}}

    with steps_at_most(200_000):
        everything(file_of(tmp_path, {"Resources": {"Nodes": GROUP, "Other": other}}))


def test_deeply_nested_unknown_intrinsics_end(tmp_path: Path) -> None:
    value: Any = {"Ref": "Nodes"}
    for _ in range(60):
        value = {"Fn::Anything": {"a": value}}

    with steps_at_most(1_000):
        assert isinstance(valued(tmp_path, value), Unknown)


def test_outputs_that_double_end(tmp_path: Path) -> None:
    def output(name: str) -> Any:
        return {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": name}}

    outputs = {f"O{n}": {"Value": [output(f"O{n + 1}")] * 2} for n in range(60)}

    with steps_at_most(1_000):
        everything(file_of(tmp_path, template(Outputs={**outputs, "O60": {"Value": "x"}})))


def test_an_output_of_itself_ends(tmp_path: Path) -> None:
    value = {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": "A"}}

    with steps_at_most(100):
        everything(file_of(tmp_path, template(Outputs={"A": {"Value": {"Fn::Sub": ["${B}", {"B": value}]}}})))


def test_refuses_a_list_of_long_lists(tmp_path: Path) -> None:
    parameters = {"Long": {"Type": "CommaDelimitedList", "Default": "," * 900_000}}
    nodes = {**GROUP, "Properties": {"Subnets": [{"Ref": "Long"}] * 50_000}}

    assert "must resolve in 10,000,000 steps" in refusal(
        file_of(tmp_path, {"Parameters": parameters, "Resources": {"Nodes": nodes}})
    )


@pytest.mark.parametrize(
    "conditions",
    [
        {"A": {"Condition": "A"}},
        {"A": {"Fn::Not": [{"Condition": "A"}]}},
        {"A": {"Condition": "B"}, "B": {"Fn::Or": [{"Condition": "A"}, {"Condition": "B"}]}},
        {"A": {"Fn::And": []}},
        {"A": {"Fn::Equals": [{"Ref": "AWS::NoValue"}, "a"]}},
        {"A": {"Fn::Equals": [{"Fn::If": ["A", "a", "b"]}, "a"]}},
        {"A": []},
        [],
    ],
)
def test_conditions_that_mean_nothing_are_not_known(tmp_path: Path, conditions: Any) -> None:
    resources = {"Nodes": {**GROUP, "Condition": "A"}}

    given = read_input([file_of(tmp_path, {"Resources": resources, "Conditions": conditions})])

    assert given.resources["stack/Nodes"].conditional


def test_refuses_a_long_chain_of_conditions(tmp_path: Path) -> None:
    conditions = {f"C{n}": {"Condition": f"C{n + 1}"} for n in range(10_000)}
    nodes = {**GROUP, "Condition": "C0"}

    assert "at most 200 deep" in refusal(file_of(tmp_path, {"Resources": {"Nodes": nodes}, "Conditions": conditions}))


def test_a_long_chain_of_outputs_ends(tmp_path: Path) -> None:
    def value(number: int) -> Any:
        return {"Fn::GetStackOutput": {"StackName": "stack", "OutputName": f"O{number}"}}

    outputs = {f"O{n}": {"Value": {"Fn::Sub": ["${A}", {"A": value(n + 1)}]}} for n in range(10_000)}

    with steps_at_most(20_000):
        everything(file_of(tmp_path, template(Outputs=outputs)))


def test_a_parameter_that_names_itself_is_a_text(tmp_path: Path) -> None:
    found = valued(tmp_path, {"Ref": "P"}, Parameters={"P": {"Type": "String", "Default": "${P}"}})

    assert found == "${P}"


@pytest.mark.parametrize("index", ["²", "-1", "9" * 5_000, True, 1.5, None, "1e0", []])
def test_an_index_that_is_none_is_not_known(tmp_path: Path, index: Any) -> None:
    assert isinstance(valued(tmp_path, {"Fn::Select": [index, ["a", "b"]]}), Unknown)
