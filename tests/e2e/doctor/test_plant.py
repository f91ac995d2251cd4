"""The tool that plants causes still works, and its committed fixtures are what it writes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.e2e.doctor.cause import Cause
from tests.e2e.doctor.dumps import cause_namespace, cause_texts, load_dump, observed_texts
from tests.e2e.doctor.karpenter_world import KarpenterCause
from tests.e2e.doctor.plant import CAUSES, CAUSES_OF_KARPENTER, PLANTED, render_case, world
from tests.e2e.doctor.world import World
from tools import build_e2e_tools

# Decided by the scheduler, by admission with a controller, and by the scheduler about a volume.
REPLANTED = ("p5-dedicated-taint", "a1-quota-refuses-a-job", "v1-missing-claim")
ALL: Mapping[str, Cause | KarpenterCause] = {**CAUSES, **CAUSES_OF_KARPENTER}


@pytest.fixture(scope="module")
def planting() -> Iterator[World]:
    """A control plane in which causes can be planted."""
    folder = build_e2e_tools.folder_of_tools()
    if folder is None:
        pytest.skip(build_e2e_tools.MISSING)
    with world(folder) as made:
        yield made


@pytest.mark.parametrize("name", REPLANTED)
def test_a_cause_has_the_texts_of_its_fixture(planting: World, name: str) -> None:
    dump = planting.plant(CAUSES[name])

    fixture = load_dump(PLANTED / name)
    texts = cause_texts(dump, planting.namespace)
    assert texts == cause_texts(fixture, cause_namespace(fixture))
    assert texts


def test_every_cause_has_a_fixture() -> None:
    assert {each.name for each in PLANTED.iterdir()} == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_a_fixture_has_the_texts_that_its_cause_waits_for(name: str) -> None:
    dump = load_dump(PLANTED / name)

    texts = list(observed_texts(each for objects in dump.values() for each in objects))
    assert [each for each in ALL[name].until if not any(re.search(each, text) for text in texts)] == []


@pytest.mark.parametrize("name", ALL)
def test_a_case_is_written_from_its_cause_and_its_dump(name: str) -> None:
    dump = load_dump(PLANTED / name)

    assert (PLANTED / name / "case.toml").read_text() == render_case(ALL[name], dump, cause_namespace(dump))
    assert not {*ALL[name].first, *ALL[name].also} & set(ALL[name].never)
