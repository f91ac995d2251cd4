"""Text that Go and Python read as it was meant. Go itself is asked in tests/e2e/test_yaml.py."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpu_constructs.installing.yaml_text import to_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@pytest.mark.parametrize(
    "text", ["y", "N", "08", "1e3", "1E-5", "0o14", "0X1F", "-_6", "0b-1", "+12e3", "1_000", "on", "null", "1.36"]
)
def test_a_string_that_looks_like_something_else_is_quoted(text: str) -> None:
    assert to_yaml(text) == f"'{text}'\n"


@pytest.mark.parametrize("text", ["l4", "v1.36", "0.12.0", "10Gi", "100m", "us-east-1a", "e3", "yes-man"])
def test_other_strings_are_not(text: str) -> None:
    assert to_yaml(text).splitlines()[0] == text


@given(DOCUMENTS)
def test_it_is_read_as_it_was_written(document: Any) -> None:
    assert yaml.safe_load(to_yaml(document)) == document


def test_several_documents_are_told_apart() -> None:
    assert to_yaml({"a": 1}, {"b": 2}) == "---\na: 1\n---\nb: 2\n"
