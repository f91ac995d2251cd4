"""Each keyword of a schema, on both sides of its limit, and values known only at deployment."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.schema.fields import Fields
from gpu_preflight.schema.validation import CLOUDFORMATION, CUSTOM_RESOURCE, KUBERNETES, Dialect, Judge

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "additionalProperties": False,
}


def faults(value: Any, schema: dict[str, Any], dialect: Dialect = CLOUDFORMATION) -> list[str]:
    return [each.text for each in Judge(dialect).faults(value, schema)]


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"minimum": 1}, 1, 0),
        ({"maximum": 64}, 64, 65),
        ({"exclusiveMinimum": 0}, 1, 0),
        ({"exclusiveMaximum": 2}, 1, 2),
        ({"multipleOf": 2}, 4, 3),
        ({"minLength": 2, "type": "string"}, "ab", "a"),
        ({"maxLength": 2, "type": "string"}, "ab", "abc"),
        ({"minItems": 1}, ["a"], []),
        ({"maxItems": 1}, ["a"], ["a", "b"]),
        ({"uniqueItems": True}, ["a", "b"], ["a", "a"]),
        ({"minProperties": 1}, {"a": 1}, {}),
        ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 1}),
        ({"pattern": "^a+$", "type": "string"}, "aa", "b"),
        ({"enum": ["a", "b"]}, "a", "c"),
        ({"enumOfAnyCase": ["A"]}, "a", "c"),
        ({"const": "a"}, "a", "b"),
        ({"required": ["a"]}, {"a": 1}, {"b": 1}),
        ({"requiredXor": ["a", "b"]}, {"a": 1}, {"a": 1, "b": 1}),
        ({"requiredOr": ["a", "b"]}, {"a": 1, "b": 1}, {}),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ({"dependentExcluded": {"a": ["b"], "b": ["a"]}}, {"a": 1}, {"a": 1, "b": 1}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"c": 1}),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"a": 1, "b": 1}),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2, 3),
        ({"not": {"required": ["a"]}}, {"b": 1}, {"a": 1}),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"c": 1}, {"a": 1}),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, {"a": 1}, {"c": 1}),
        ({"items": {"minimum": 1}}, [1], [1, 0]),
        ({"patternProperties": {"^x": {"minimum": 1}}}, {"x": 1}, {"x": 0}),
        ({"additionalProperties": {"minimum": 1}}, {"a": 1}, {"a": 0}),
        (PAIR, {"a": "x"}, {"c": "x"}),
    ],
)
def test_a_word(schema: dict[str, Any], right: Any, wrong: Any) -> None:
    assert faults(right, schema) == []
    assert len(faults(wrong, schema)) == 1


@pytest.mark.parametrize(
    "value",
    [Unknown("${A}"), "${A}", "{{ .Values.a }}", "$GPUS", "$(GPUS)", "<your-role>", "PLACEHOLDER_GPUS", {"Fn::If": []}],
)
def test_what_is_filled_in_later_is_never_wrong(value: Any) -> None:
    schema = {"type": "string", "enum": ["a"], "pattern": "^a$", "maxLength": 1}

    assert faults(value, schema) == []
    assert faults([value, value], {"uniqueItems": True, "items": schema}) == []


def test_a_list_of_unknown_length_is_not_counted() -> None:
    assert faults([Unknown("${A}")], {"minItems": 2}) == []


def test_a_mapping_that_a_function_adds_to_lacks_nothing() -> None:
    assert faults({"Fn::Transform": {}}, {**PAIR, "required": ["a"]}) == []


@pytest.mark.parametrize(
    ("kind", "value"),
    [("integer", "3"), ("number", "1.5"), ("boolean", "True"), ("string", 3), ("string", True), ("integer", 3.0)],
)
def test_cloudformation_reads_scalars_of_every_spelling(kind: str, value: Any) -> None:
    assert faults(value, {"type": kind}) == []
    assert bool(faults(value, {"type": kind}, CUSTOM_RESOURCE)) is (kind != "integer" or value == "3")


def test_an_api_server_takes_an_empty_text_for_none_in_its_own_objects() -> None:
    assert faults("", {"enum": ["a"]}, KUBERNETES) == []
    assert faults("", {"enum": ["a"]}, CUSTOM_RESOURCE) != []
    assert faults({"a": ""}, {"required": ["a"]}, KUBERNETES) != []


def test_what_yaml_made_of_a_word_is_not_certain() -> None:
    [of_a_switch] = Judge(CLOUDFORMATION).faults(False, {"enum": ["OFF", "FLEXIBLE"]})
    [of_no_switch] = Judge(CLOUDFORMATION).faults(False, {"enum": ["SPOT"]})

    assert (of_a_switch.newer, of_no_switch.newer) == (True, False)
    assert faults(1.3, {"type": "string", "pattern": r"^1\.\d\d$"}) == []


def test_a_path_leads_to_the_field() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {"minimum": 1}}}}}}

    assert faults({"a": [{"b": 1}, {"b": 0}]}, schema) == ["a[1].b must be at least 1, got 0"]


def test_an_error_about_a_misplaced_field_names_its_place() -> None:
    spec = {"disruption": {"expireAfter": "720h", "consolidateAfter": "1m"}}
    content = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": spec}

    found = {each.path: each for each in Fields().object_faults(Object(content, Origin("file", "path")))}

    assert found["spec.disruption.expireAfter"].nearest == "spec.template.spec.expireAfter"
    assert not found["spec.disruption.expireAfter"].newer


def test_objects_of_nobody_that_is_known_are_left_alone() -> None:
    content = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": 7}

    assert Fields().object_faults(Object(content, Origin("file", "path"))) == ()


def test_no_more_than_help() -> None:
    containers = [{"nam": "a"} for _ in range(100)]
    content = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers}}

    assert len(Fields().object_faults(Object(content, Origin("file", "path")))) == 20
