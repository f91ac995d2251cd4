"""The list of judgements is in order, whether the corpus is there or not."""

from __future__ import annotations

from tests.corpus.answers import judgements
from tools.corpus import repositories


def test_nothing_that_preflight_says_for_certain_is_false() -> None:
    assert [each for each in judgements() if not each.judgement] == []


def test_every_judgement_is_about_a_listed_repository_and_has_a_reason() -> None:
    names = {each.name for each in repositories()}

    assert [each for each in judgements() if each.repository not in names or len(each.why.split()) < 3] == []


def test_every_repository_is_pinned_once() -> None:
    listed = repositories()

    assert len({each.name for each in listed}) == len(listed)
    assert all(len(each.commit) == 40 and int(each.commit, 16) for each in listed)
