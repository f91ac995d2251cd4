"""What happened in a rehearsal, line by line; times apart, so that two plays of one stack read alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    """How a promise fared."""

    HELD = "held"
    FAILED = "FAILED"
    NOT_PLAYED = "not played"
    NOT_USED = "not used"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One promise of a stack, and what became of it.

    Attributes:
        scene: Name of the scene.
        promise: What was to happen.
        outcome: How it fared.
        text: What happened instead, why it was not played, or what it was seen by.
        same_source: Whether the judge rests on the same source as the judged, so that both may err alike.
    """

    scene: str
    promise: str
    outcome: Outcome
    text: str = ""
    same_source: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """A time in a play.

    Attributes:
        what: What took that long.
        began: Seconds since the curtain rose.
        ended: The same.
        after: What it waited for.
    """

    what: str
    began: float
    ended: float
    after: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """All lines of the plays of one stack.

    Attributes:
        stack: Name of the stack.
        lines: What happened, in the order of the scenes.
        moments: What took how long.
    """

    stack: str
    lines: list[Line] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)

    def add(self, lines: Iterable[Line]) -> None:
        """Take lines in."""
        self.lines.extend(lines)

    def follow(self, moments: Iterable[Moment]) -> None:
        """Take in moments that began when all before had ended: what waited for nothing else waited for the last.

        Args:
            moments: Timed from their own beginning.
        """
        last = max(self.moments, key=lambda each: each.ended, default=None)
        if last is None:
            self.moments.extend(moments)
            return
        self.moments += [
            replace(
                each,
                began=each.began + last.ended,
                ended=each.ended + last.ended,
                after=each.after or (last.what,),
            )
            for each in moments
        ]

    @property
    def failed(self) -> list[Line]:
        """The promises that did not hold."""
        return [each for each in self.lines if each.outcome is Outcome.FAILED]

    def text(self) -> str:
        """Render it as Markdown, without a time."""
        return "\n".join(_rendered(self)) + "\n"

    def write(self, folder: Path) -> None:
        """Write the report, and its times beside it, under the name of the stack."""
        folder.mkdir(parents=True, exist_ok=True)
        name = self.stack.replace(", ", "+")
        (folder / f"{name}.md").write_text(self.text())
        (folder / f"{name}.times.md").write_text(self.times())

    def times(self) -> str:
        """Render how long everything took and the critical path, as Markdown."""
        path = critical_path(self.moments)
        rows = [f"| {each.began:.1f} | {each.ended - each.began:.1f} | {each.what} |" for each in self.moments]
        said = " → ".join(f"{each.what} ({each.ended - each.began:.1f} s)" for each in path)
        table = ["| began (s) | took (s) | what |", "|---:|---:|---|", *rows]
        return "\n".join([f"# Times of {self.stack}", "", f"Critical path: {said or 'nothing'}", "", *table]) + "\n"


def critical_path(moments: Sequence[Moment]) -> list[Moment]:
    """Return the chain that ended last: each of it waited for the one before, of all that it waited for the slowest."""
    by_name = {each.what: each for each in moments}
    last = max(moments, key=lambda each: each.ended, default=None)
    path: list[Moment] = []
    while last is not None:
        path.append(last)
        waited = (by_name[name] for name in last.after if name in by_name)
        last = max(waited, key=lambda each: each.ended, default=None)
    return path[::-1]


def _rendered(report: Report) -> Iterator[str]:
    counts = Counter(each.outcome for each in report.lines)
    yield f"# Rehearsal of {report.stack}"
    yield ""
    yield ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]) or "nothing played"
    for scene in dict.fromkeys(each.scene for each in report.lines):
        yield from ("", f"## {scene}", "")
        for line in (each for each in report.lines if each.scene == scene):
            yield _item(line)


def _item(line: Line) -> str:
    said = f": {line.text}" if line.text else ""
    source = " (same source)" if line.same_source else ""
    return f"* **{line.outcome.value}**{source} {line.promise}{said}"
