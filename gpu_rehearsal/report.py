"""The report of a rehearsal, line by line. Times are in another file, so that reports of two plays can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

# Exit code of a run that tried nothing, or less than required.
NOT_TRIED = 3


class Outcome(Enum):
    """The result of a promise."""

    HELD = "held"
    FAILED = "FAILED"
    NOT_PLAYED = "not played"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One promise of a stack, and its result.

    Attributes:
        scenario: Name of the scenario.
        promise: The expected behavior.
        outcome: Its result.
        text: The actual behavior, the reason why it was not played, or the evidence.
    """

    scenario: str
    promise: str
    outcome: Outcome
    text: str = ""

    @property
    def statement(self) -> str:
        """The promise, and the text if there is one."""
        return f"{self.promise}: {self.text}" if self.text else self.promise


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """A time in a play.

    Attributes:
        what: Name of the step.
        began: Seconds since the start of the play.
        ended: Seconds since the start of the play.
    """

    what: str
    began: float
    ended: float


@dataclass(slots=True)
class Report:
    """All lines of the plays of one stack.

    Attributes:
        stack: Name of the stack.
        lines: The results, in the order of the scenarios.
        moments: Times of the steps.
        listener: Called with each line as soon as it is known.
    """

    stack: str
    lines: list[Line] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    listener: Callable[[Line], object] = lambda line: None

    def add(self, lines: Iterable[Line]) -> None:
        """Add lines, each as soon as the iterable yields it."""
        for line in lines:
            self.lines.append(line)
            self.listener(line)

    def follow(self, moments: Iterable[Moment]) -> None:
        """Add moments whose times count from the end of all earlier moments."""
        start = max((each.ended for each in self.moments), default=0.0)
        self.moments += [replace(each, began=each.began + start, ended=each.ended + start) for each in moments]

    @property
    def counts(self) -> str:
        """The number of promises by result, as one line."""
        counts = Counter(each.outcome for each in self.lines)
        return ", ".join(f"{counts[each]} {each.value}" for each in Outcome if counts[each]) or "nothing played"

    @property
    def failed(self) -> list[Line]:
        """The promises that failed."""
        return [each for each in self.lines if each.outcome is Outcome.FAILED]

    def not_tried(self, required: Iterable[str] = ()) -> list[str]:
        """Return the required names for which nothing was tried.

        Args:
            required: Names of scenarios, or beginnings of promises. Default: every scenario of the report.
        """
        tried = [each for each in self.lines if each.outcome is not Outcome.NOT_PLAYED]
        wanted = list(required) or list(dict.fromkeys(each.scenario for each in self.lines)) or ["anything"]
        return [each for each in wanted if not any(_is_named(line, each) for line in tried)]

    def exit_code(self, required: Iterable[str] = ()) -> int:
        """Return 1 if a promise failed, 3 if a required name wasn't tried, and 0 otherwise.

        Args:
            required: As for `not_tried`.
        """
        if self.failed:
            return 1
        return NOT_TRIED if self.not_tried(required) else 0

    def text(self) -> str:
        """Render the report as Markdown, without times."""
        return "\n".join(_rendered(self)) + "\n"

    def write(self, folder: Path, name: str = "") -> None:
        """Write the report and its times to a folder, under a name. Default: the name of the stack."""
        folder.mkdir(parents=True, exist_ok=True)
        name = name or self.stack.replace(", ", "+")
        (folder / f"{name}.md").write_text(self.text())
        (folder / f"{name}.times.md").write_text(self.times())

    def times(self) -> str:
        """Render the times as Markdown."""
        rows = [f"| {each.began:.1f} | {each.ended - each.began:.1f} | {each.what} |" for each in self.moments]
        table = ["| began (s) | took (s) | what |", "|---:|---:|---|", *rows]
        return "\n".join([f"# Times of {self.stack}", "", *table]) + "\n"


def _rendered(report: Report) -> Iterator[str]:
    yield f"# Rehearsal of {report.stack}"
    yield ""
    yield report.counts
    for scenario in dict.fromkeys(each.scenario for each in report.lines):
        yield from ("", f"## {scenario}", "")
        for line in (each for each in report.lines if each.scenario == scenario):
            yield _item(line)


def _is_named(line: Line, wanted: str) -> bool:
    return line.scenario.lower() == wanted.lower() or line.promise.startswith(wanted)


def _item(line: Line) -> str:
    return f"* **{line.outcome.value}** {line.statement}"
