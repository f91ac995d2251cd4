"""Less knowledge never gives a better result: each value of an input in turn is one that only deployment sets.

Pending may become unknown or a condition, and a certain error one that may be, or one of the rules that the report
names beside the value. `violations.EXCEPTIONS` lists the values that are exceptions. `make test` tries some values of
some inputs; the failure names the seed and GPU_CONSTRUCTS_SEED sets another. Every value of every input, some
minutes:

    GPU_CONSTRUCTS_LONG=1 pytest tests/preflight/properties/test_monotone.py

It finds fields that rules check and `judged_fields.json` lacks: with GPU_CONSTRUCTS_FIELDS=1 that run writes
the file again.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG, count
from tests.preflight.properties.samples import Place, Sample, decided, fixtures
from tests.preflight.properties.violations import Violation, fields_of, violations, write_fields
from tests.preflight.strategies.pods import jobs
from tests.preflight.strategies.worlds import worlds

WRITES = bool(os.environ.get("GPU_CONSTRUCTS_FIELDS"))
SEED = int(os.environ.get("GPU_CONSTRUCTS_SEED", "27"))
_SAMPLES, _PLACES = 80, 3
_SOURCES = [*fixtures().values(), *decided().values()]


def _some(drawn: random.Random, places: list[Place]) -> list[Place]:
    return drawn.sample(places, min(_PLACES, len(places)))


def test_less_knowledge_gives_no_better_result() -> None:
    drawn = random.Random(SEED)
    sources = drawn.sample(_SOURCES, _SAMPLES)

    found = [each for source in sources for each in violations(source, partial(_some, drawn))]

    assert not list(map(str, found)), f"seed {SEED}"


def _every(number: int) -> list[Violation]:
    return list(violations(_SOURCES[number], list))


@pytest.mark.skipif(not LONG, reason="every value of every input takes minutes: GPU_CONSTRUCTS_LONG=1")
def test_less_knowledge_gives_no_better_result_anywhere() -> None:
    if WRITES:
        write_fields({})
    with ProcessPoolExecutor() as processes:
        found = [each for some in processes.map(_every, range(len(_SOURCES)), chunksize=10) for each in some]
    if WRITES:
        write_fields(fields_of(found))

    assert WRITES or not list(map(str, found))


@settings(max_examples=count(15, 3000))
@given(worlds(), jobs(most=2), st.integers(0, 2**32).map(random.Random))
def test_less_knowledge_of_a_drawn_cluster_gives_no_better_result(
    world: dict[str, object], pods: list[dict[str, object]], drawn: random.Random
) -> None:
    objects = [*world["objects"], *pods]  # type: ignore[misc]
    sample = Sample("world", [{"Resources": world["resources"]}, *objects], world=True)

    found = violations(lambda: sample, lambda places: _some(drawn, places))

    assert not list(map(str, found))
