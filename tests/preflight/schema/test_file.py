"""The file of schemas: small, the same for the same sources, and quick to ask."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from io import BytesIO
from typing import Any

import pytest

from gpu_facts.schemas import find_schema, find_source, sources
from gpu_preflight.schema.validation import CUSTOM_RESOURCE, Judge
from tools.schemas import cloudformation, definitions
from tools.schemas.__main__ import FILE, INDEX, readers, texts
from tools.schemas.source import Source

OTHERS = ("CloudFormation", "Kubernetes", "eksctl", "nodeadm", "values of charts")
MOST_BYTES = 2 * 1024**2
# Text that a pattern must match fast: the beginnings of many words and no end.
TRAPS = tuple(
    (text * 5_000)[:length] + "!\n\n"
    for text in ("a", "0", "1h", "a.b-", "/", "arn:aws:", " ", "a ")
    for length in (25, 990, 5_000)
)


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from parts(each)


def test_it_is_small() -> None:
    assert FILE.stat().st_size < MOST_BYTES


@pytest.fixture(scope="module")
def read() -> dict[str, Callable[[], Iterable[Source]]]:
    """Read the sources."""
    return readers()


@pytest.mark.linted
@pytest.mark.parametrize("name", [*(each.name for each in definitions.PROJECTS), *OTHERS])
def test_the_same_source_gives_the_same_schemas(read: dict[str, Callable[[], Iterable[Source]]], name: str) -> None:
    try:
        found = texts(read[name]())
    except definitions.Missing as error:
        pytest.skip(str(error))

    with zipfile.ZipFile(BytesIO(FILE.read_bytes())) as written:
        index = {each["name"]: each for each in json.loads(written.read(INDEX))}
        for told in json.loads(found.pop(INDEX)):
            assert index[told["name"]] == told, "run 'make schemas'"
        assert found
        assert {each: written.read(each).decode() for each in found} == found, "run 'make schemas'"


def test_every_source_has_a_reader(read: dict[str, Callable[[], Iterable[Source]]]) -> None:
    assert set(read) == {*(each.name for each in definitions.PROJECTS), *OTHERS}


def test_each_source_has_a_version_and_a_day() -> None:
    for each in sources():
        assert each.version
        assert each.source.startswith("https://")
        assert date.fromisoformat(each.as_of)
        assert each.kinds


def test_each_kind_has_one_source() -> None:
    kinds = [kind for each in sources() for kind in each.kinds]

    assert len(set(kinds)) == len(kinds)
    assert all(find_schema(kind) and find_source(kind) for kind in kinds)
    assert find_schema("example.com/v1/Thing") is None


def test_it_lists_the_properties_that_replace_a_resource() -> None:
    for kind in cloudformation.types():
        said = cloudformation.read_schema(kind).get("createOnlyProperties", ())
        schema = find_schema(kind)
        assert schema is not None
        assert schema.get("createOnly", []) == sorted(each.removeprefix("/properties/") for each in said)


def test_it_holds_no_prose() -> None:
    texts = [
        part["description"]
        for each in sources()
        for kind in each.kinds
        for part in parts(find_schema(kind))
        if "description" in part
    ]

    # The schema of the object that has a field of that name.
    assert [each for each in texts if isinstance(each, str)] == []


def test_no_pattern_takes_long() -> None:
    patterns = {
        part["pattern"]
        for each in sources()
        for kind in each.kinds
        for part in parts(find_schema(kind))
        if isinstance(part.get("pattern"), str)
    }

    assert len(patterns) > 50
    slow = []
    for pattern in patterns:
        started = time.process_time()
        for trap in TRAPS:
            list(Judge(CUSTOM_RESOURCE).faults(trap, {"type": "string", "pattern": pattern}))
        if time.process_time() - started > 1:
            slow.append(pattern)
    assert slow == []
