"""Values laid over others keep what is not named."""

from __future__ import annotations

from gpu_facts.merging import merged


def test_mappings_merge_in_depth_and_everything_else_is_replaced() -> None:
    values, more = {"a": {"b": 1, "c": [1, 2]}, "d": 4}, {"a": {"c": [3]}, "e": None}

    assert merged(values, more) == {"a": {"b": 1, "c": [3]}, "d": 4, "e": None}
    assert values == {"a": {"b": 1, "c": [1, 2]}, "d": 4}


def test_what_becomes_of_other_values_can_be_said() -> None:
    values, more = {"a": {"b": [1]}}, {"a": {"b": [2], "c": 3}}

    made = merged(values, more, other=lambda key, ours, theirs: (key, ours, theirs))

    assert made == {"a": {"b": ("b", [1], [2]), "c": ("c", None, 3)}}
