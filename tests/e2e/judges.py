"""Preflight and the scheduler on drawn worlds, and how to shrink a disagreement in bounded time."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.e2e.questions import fate, questions
from tests.e2e.rig import Rig
from tests.preflight.strategies.pods import pods
from tests.preflight.strategies.vocabulary import Json
from tests.preflight.strategies.worlds import worlds

# More examples: EXAMPLES=2000 pytest tests/e2e/test_scheduler_agrees.py.
EXAMPLES = int(os.environ.get("EXAMPLES", "120"))
PODS = 8
ONE_MISTAKEN_IN = 8
ROOMS = (0, 100, 50)


class Judges:
    """Preflight and the scheduler, who remember what they were asked.

    Attributes:
        told: How often preflight reported each result, with the scheduler's decision.
        smallest: The last example on which they disagreed, as a case to be kept; of all that Hypothesis tries while it
            makes one smaller, the smallest. Empty while they agree.

    Args:
        rig: The scheduler.
        shrink_seconds: How long a disagreement is shrunk; later questions aren't asked.
    """

    def __init__(self, rig: Rig, *, shrink_seconds: float = 60.0) -> None:
        self.told: Counter[tuple[str, str]] = Counter()
        self.smallest: Json = {}
        self._rig, self._seconds, self._until = rig, shrink_seconds, float("inf")
        self._known: dict[str, Json] = {}

    def disagreement(self, world: Json, drawn: Sequence[Json], room: int) -> Json:
        """Return the case of the first pod on which they disagree; empty where there is none."""
        key = json.dumps([world, drawn, room])
        if key not in self._known and time.monotonic() < self._until:
            self._known[key] = self._disagreement(world, drawn, room)
            if self._known[key]:
                self._until = min(self._until, time.monotonic() + self._seconds)
        found = self._known.get(key, {})
        self.smallest = found or self.smallest
        return found

    def _disagreement(self, world: Json, drawn: Sequence[Json], room: int) -> Json:
        asked = questions(world, drawn, room=room)
        decisions = self._rig.decide([each.case for each in asked])
        pairs = list(zip(asked, decisions, strict=True))
        self.told += Counter((each.told, fate(decision)) for each, decision in pairs)
        wrong = next((each.pod for each, decision in pairs if not each.is_right(decision)), None)
        [pod] = [each for each in drawn if each["metadata"]["name"] == wrong] or [{}]
        decided = {each.place: fate(decision) for each, decision in pairs if each.pod == wrong}
        return {**world, "pod": pod, "room": room, "decided": decided} if wrong else {}

    def ask(self, examples: int = EXAMPLES, *, most: int = PODS) -> None:
        """Ask both about so many worlds, with so many pods at most.

        Raises:
            AssertionError: They disagree, with the case to be kept.
        """

        @settings(max_examples=examples, report_multiple_bugs=False)
        @given(worlds(), pods(most=most, one_mistaken_in=ONE_MISTAKEN_IN), st.sampled_from(ROOMS))
        def agree(world: Json, drawn: list[Json], room: int) -> None:
            found = self.disagreement(world, drawn, room)
            assert not found, (
                f"keep it in tests/preflight/scheduling/decided:\n{yaml.safe_dump(found, sort_keys=False)}"
            )

        agree()
