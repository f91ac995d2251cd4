"""The page of causes is what the causes and the dumps say."""

from __future__ import annotations

import pytest

from gpu_preflight.doctor.catalogue import TITLES, is_effect, stage

pytest.importorskip("tools", reason="the page is written from a checkout")


def test_the_page_of_causes_is_what_the_tool_writes() -> None:
    from tools import write_causes

    assert write_causes.DOCUMENT.read_text(encoding="utf-8") == write_causes.document(), "run: make causes"


@pytest.mark.parametrize("id", TITLES)
def test_each_cause_has_a_place_in_the_order_of_questions(id: str) -> None:
    assert stage(id) < 15


def test_no_cause_is_an_effect_of_its_own_effect() -> None:
    both = [(one, other) for one in TITLES for other in TITLES if is_effect(one, other) and is_effect(other, one)]
    assert both == []
