"""The checker's answer for a pod is compared with the rehearsal. Wrong and undecided answers fail."""

from __future__ import annotations

import pytest

from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.scheduling.fitting import TURNED_AWAY
from gpu_rehearsal.report import Outcome
from tests.e2e.rehearsal.agree import MOST_UNKNOWN, Agreement, Pair, Said, Told, batches, lines
from tests.e2e.rehearsal.decisions import Decision

ONE_SHARED = f"requests 2 nvidia.com/gpu.shared, {TURNED_AWAY}; request one"


def _compared(answer: Answer, *, runs: bool | None, reasons: tuple[Reason, ...] = ()) -> Told:
    return Told(pod={}, pool="l4", said=Said(answer=answer, reasons=reasons), decision=Decision(runs=runs))


@pytest.mark.parametrize(
    ("answer", "runs", "agreement"),
    [
        (Answer.YES, True, "agree"),
        (Answer.NO, False, "agree"),
        (Answer.YES, False, "false yes"),
        (Answer.NO, True, "false no"),
        (Answer.UNKNOWN, True, "unknown"),
        (Answer.UNKNOWN, False, "unknown"),
        (Answer.YES, None, "undecided"),
        (Answer.NO, None, "undecided"),
    ],
)
def test_two_answers_agree_or_do_not(answer: Answer, runs: bool | None, agreement: Agreement) -> None:
    assert _compared(answer, runs=runs).agreement == agreement


def test_a_no_for_what_only_the_node_refuses_is_counted_apart() -> None:
    shared = Reason(Answer.NO, "resource", ONE_SHARED)

    assert _compared(Answer.NO, runs=True, reasons=(shared,)).agreement == "stricter"
    assert _compared(Answer.NO, runs=False, reasons=(shared,)).agreement == "agree"
    assert _compared(Answer.YES, runs=False, reasons=(shared,)).agreement == "false yes"


def test_a_second_reason_must_be_true() -> None:
    shared = Reason(Answer.NO, "resource", ONE_SHARED)
    taint = Reason(Answer.NO, "taint", "doesn't tolerate taint team=a:NoSchedule; add the toleration")

    assert _compared(Answer.NO, runs=True, reasons=(shared, taint)).agreement == "false no"
    assert _compared(Answer.NO, runs=True, reasons=(taint,)).agreement == "false no"
    assert _compared(Answer.NO, runs=True).agreement == "false no"


def test_wrong_and_undecided_answers_fail() -> None:
    compared = [_compared(Answer.YES, runs=False), _compared(Answer.NO, runs=True), _compared(Answer.YES, runs=None)]

    assert [each.outcome for each in lines(compared)] == [*3 * [Outcome.FAILED], Outcome.HELD]


def test_at_most_2_percent_of_the_answers_can_be_unknown() -> None:
    many = [_compared(Answer.YES, runs=True)] * 98

    fine = [*lines([*many, *2 * [_compared(Answer.UNKNOWN, runs=True)]])]
    worse = [*lines([*many, *3 * [_compared(Answer.UNKNOWN, runs=True)]])]

    assert MOST_UNKNOWN == 0.02
    assert [each.outcome for each in fine] == 4 * [Outcome.HELD]
    assert [each.outcome for each in worse] == [*3 * [Outcome.HELD], Outcome.FAILED]


def test_pods_of_a_pool_with_existing_nodes_are_tried_one_at_a_time() -> None:
    pairs = [Pair(pod={}, pool=name) for name in ("static", "l4", "static", "l4", "l4")]

    found = [[each.pool for each in batch] for batch in batches(pairs, alone={"static"}, size=3)]

    assert found == [["static", "l4", "l4"], ["static", "l4"]]
