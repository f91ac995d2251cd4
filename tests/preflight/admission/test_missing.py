"""A name that is not there is refused for certain only where it is a slip for one that is."""

from __future__ import annotations

import pytest

from gpu_preflight.admission.controllers import missing
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster


class Seen(Cluster):
    """A cluster of which the input says all that is there."""

    sees_objects = True


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("trainer-b", Answer.UNKNOWN),
        ("trainer-2", Answer.UNKNOWN),
        ("other", Answer.UNKNOWN),
        ("trianer-a", Answer.NO),
        ("Trainer_A", Answer.NO),
    ],
)
def test_only_a_slip_is_certain(name: str, answer: Answer) -> None:
    [reason] = missing("no account", name, ["trainer-a", "trainer-1"], Seen("demo"), "GPU371", Answer.UNKNOWN)

    assert reason.answer is answer
