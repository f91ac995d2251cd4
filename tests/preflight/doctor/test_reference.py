"""The pages of causes and of other tools are what the causes and the dumps say."""

from __future__ import annotations

import pytest

from gpu_preflight.doctor.catalogue import TITLES, ranked, stage
from gpu_preflight.doctor.cause import Cause


def test_the_page_of_causes_is_what_the_tool_writes() -> None:
    pytest.importorskip("tools.docs", reason="the page is written from a checkout")
    from tools import write_causes

    assert write_causes.DOCUMENT.read_text(encoding="utf-8") == write_causes.document(), "run: make causes"


def test_the_page_about_other_tools_has_the_answers_of_doctor() -> None:
    pytest.importorskip("tools.docs", reason="the page is written from a checkout")
    from tools import write_pending_tools

    page = write_pending_tools.document()

    assert write_pending_tools.DOCUMENT.read_text(encoding="utf-8") == page, "run: make causes"


@pytest.mark.parametrize("id", TITLES)
def test_each_cause_has_a_place_in_the_order_of_questions(id: str) -> None:
    assert stage(id) < 15


@pytest.mark.parametrize("id", TITLES)
def test_two_causes_always_have_a_root(id: str) -> None:
    """Otherwise the answer would have no headline."""
    for other in TITLES:
        both = ranked(Cause(each, "Pod a/b", "text", "proven", (), "fix") for each in (id, other))
        assert both.roots, (id, other)
