"""One app: rejected parts are left out, and the checker has no certain error about the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.explain import Stops
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.conftest import FLAGS
from tests.fuzz.hostile import REFUSAL
from tests.random_apps.apps import RandomApp, draw
from tests.random_apps.parts import World

# The CDK's message about a construct that is rejected when the app is synthesized.
_AT_SYNTH = re.compile(r"ValidationFailedWithErrors: .*?errors:\n(?P<lines>.*)", re.DOTALL)
# Workloads may ask together for more than bounded pools have: each runs alone, which is asked for by itself.
_CONTENTION = ("GPU374", "GPU375")
_LINE = re.compile(r" *\[[^\]]+\] (?P<text>.*)")


@dataclass(frozen=True)
class Trial:
    """The result of an app.

    Attributes:
        seed: Its seed.
        options: The drawn options, by part.
        rejected: Messages of constructs, by part; ``synth`` for those at the end, about the whole app.
        contradictions: Certain errors of the checker about accepted parts.
    """

    seed: int
    options: dict[str, Any]
    rejected: dict[str, str]
    contradictions: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether there is an app with a pool."""
        return "synth" not in self.rejected and any(each.startswith("pool") for each in self.options)

    def __str__(self) -> str:
        parts = (f"  {name}: {options}" for name, options in self.options.items())
        return "\n".join((f"seed {self.seed}", *parts, *self.contradictions))


def run(seed: int, folder: Path) -> Trial:
    """Make the app of a seed, and check it.

    Raises:
        AssertionError: Something was rejected, and not in the library's words.
    """
    app = draw(seed)
    rejected: dict[str, str] = {}
    while (refusal := _build(app, rejected, folder / str(len(rejected)))) is not None:
        part, text = refusal
        assert REFUSAL.fullmatch(text), f"seed {seed}: {part}: {text}"
        rejected[part] = text
        if part in ("synth", "cluster"):
            return Trial(seed, _options(app, rejected), rejected, ())
    report = check(read_input([str(folder / str(len(rejected)))]))
    return Trial(seed, _options(app, rejected), rejected, (*_errors(report), *_pending(report)))


def _options(app: RandomApp, rejected: dict[str, str]) -> dict[str, Any]:
    gone = set(rejected)
    found: dict[str, Any] = {"region": app.region}
    for part in app.parts:
        if part.name not in gone and not gone.intersection(part.needs):
            found[part.name] = part.options
        else:
            gone.add(part.name)
    return found


def _build(app: RandomApp, rejected: dict[str, str], folder: Path) -> tuple[str, str] | None:
    """Synthesize an app without some parts; return the part that is rejected next, and why."""
    stack = app.stack(str(folder), FLAGS)
    world = World(stack)
    for part in app.parts:
        if part.name in rejected or any(each not in world.made for each in part.needs):
            continue
        try:
            world.made[part.name] = part.make(world)
        except ValueError as error:
            return part.name, str(error)
    try:
        stack.node.root.synth()  # type: ignore[attr-defined]
    except RuntimeError as error:
        if (found := _AT_SYNTH.match(str(error))) is None:
            raise
        [first, *_] = filter(None, map(_LINE.fullmatch, found["lines"].splitlines()))
        return _part_of(app, first["text"]), first["text"]
    return None


def _part_of(app: RandomApp, text: str) -> str:
    """Return the part that an error at synth names by its path, such as ``Lab/Work0: ...``; ``synth`` for none."""
    id = text.partition(":")[0].removeprefix("Lab/").partition("/")[0]
    return next((part.name for part in app.parts if part.name.title() == id), "synth")


def _errors(report: Report) -> list[str]:
    certain = [each for each in report.findings if each.counts and each.rule.id not in _CONTENTION]
    return [f"  {each.rule.id} {each.problem.message}" for each in certain]


def _pending(report: Report) -> list[str]:
    found = []
    for case in report.cases:
        stops = Stops(case, report.findings)
        verdicts = [stops.apply(case.verdict(each)) for each in case.gpu_workloads]
        found += [f"  Pending: {each.workload.name}" for each in verdicts if each.answer is Answer.NO]
    return found
