"""Plant each fault on disk, and print which of `check`, `review`, cfn-lint and the rehearsal report it with its cause.

    PYTHONPATH=. python -m tools.planted                      # all faults, pairs and correct apps; some minutes
    PYTHONPATH=. python -m tools.planted --of check p5-with-arm-image
    PYTHONPATH=. python -m tools.planted --of rehearsal       # first deployments only; a minute or two for each

A finding counts if it is an error or a warning that isn't reported for the app without the fault. The cause is named
if one such finding has the words that the fault expects. The tables are in Markdown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_rehearsal.assemblies import Assembly, read
from gpu_rehearsal.play import play_and_write
from gpu_rehearsal.report import NOT_TRIED, Line, Outcome
from tests.rehearsal.faults.apps import REGION
from tests.rehearsal.faults.catalogue import CORRECT, FAULTS, PAIRS, faultless, planted_faults, planted_pairs
from tests.rehearsal.faults.fault import Described
from tools import rehearse

ROOT = Path(__file__).parents[1]
DEFAULT_READERS = ("check", "cfn-lint", "review")
READERS = (*DEFAULT_READERS, "rehearsal")
# Changes that a reviewer of a second deployment must see. The others are intended.
_ALARMING = ("destructive", "fails", "left behind", "unknown")
_SEVERITIES = ("error", "warning")
# W3005: DependsOn next to a Ref of the same resource, which the CDK emits.
_CDKS_OWN = ("W3005",)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a reader.

    Attributes:
        rule: Id of its rule, or class of its change.
        severity: ``error`` or ``warning``.
        place: Its position.
        message: Message of the finding, with the title of the rule.
    """

    rule: str
    severity: str
    place: str
    message: str

    @property
    def line(self) -> str:
        """The place and the message."""
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The report of a reader for one fault.

    Attributes:
        findings: Findings that are only reported with the fault. The ones that name the cause are first.
        named: Whether one of them names the cause.
        seconds: How long the command took.
    """

    findings: tuple[Finding, ...]
    named: bool
    seconds: float

    def text(self) -> str:
        """Return the cell of the table."""
        if not self.findings:
            return "no"
        severity = min((each.severity for each in self.findings), key=_SEVERITIES.index)
        rules = ", ".join(dict.fromkeys(each.rule for each in self.findings))
        return f"{severity}, {'cause named' if self.named else 'no cause'} ({rules})"


def main() -> None:
    """Print the requested tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--of", default=",".join(DEFAULT_READERS), help=f"of {', '.join(READERS)}; default: %(default)s"
    )
    parser.add_argument(
        "--without-baseline",
        action="store_true",
        help="don't run the readers on the apps without a fault first; everything that they report counts",
    )
    parser.add_argument("ids", nargs="*", metavar="id", help="faults, pairs and correct apps; default: all")
    given = parser.parse_args()
    readers = tuple(given.of.split(","))
    known = [*FAULTS, *PAIRS, *CORRECT]
    if wrong := sorted({*readers} - {*READERS}) or sorted({*given.ids} - {*known}):
        parser.error(f"unknown {', '.join(wrong)}; readers are {', '.join(READERS)}, ids are {', '.join(known)}")
    ids = given.ids or known
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        faults = [each for each in ids if each in FAULTS]
        _print_faults(work, faults, [each for each in readers if each != "review"], baseline=not given.without_baseline)
        _print_pairs(work, [each for each in ids if each in PAIRS], [each for each in readers if each != "rehearsal"])
        _print_correct(work, [each for each in ids if each in CORRECT], readers)


def _print_faults(work: Path, ids: Sequence[str], readers: Sequence[str], *, baseline: bool) -> None:
    if not ids or not readers:
        return
    run = {"check": check, "cfn-lint": cfn_lint, "rehearsal": rehearsal}
    before = {each: run[each](faultless(work).folder)[0] if baseline else [] for each in readers}
    _print_header("fault", readers)
    found: dict[str, list[Answer]] = {each: [] for each in readers}
    for fault, folder in planted_faults(work, ids):
        for reader in readers:
            result = rehearsal(folder, fault) if reader == "rehearsal" else run[reader](folder)
            found[reader].append(answer(fault, *result, before[reader]))
        _print_row(fault, [found[each][-1] for each in readers])
    _print_sums(found)


def _print_pairs(work: Path, ids: Sequence[str], readers: Sequence[str]) -> None:
    if not ids or not readers:
        return
    one = {"check": check, "cfn-lint": cfn_lint}
    _print_header("second deployment", readers)
    found: dict[str, list[Answer]] = {each: [] for each in readers}
    for pair, old, new in planted_pairs(work, ids):
        for reader in readers:
            if reader == "review":
                found[reader].append(answer(pair, *review(old, new), ()))
            else:
                found[reader].append(answer(pair, *one[reader](new), one[reader](old)[0]))
        _print_row(pair, [found[each][-1] for each in readers])
    _print_sums(found)


def _print_correct(work: Path, ids: Sequence[str], readers: Sequence[str]) -> None:
    run = {"check": check, "rehearsal": rehearsal}
    asked = [each for each in readers if each in run]
    if not ids or not asked:
        return
    _print_header("correct app", [f"errors of {each}" for each in asked])
    for name in ids:
        folder, cells, seconds = CORRECT[name](work / name), [], 0.0
        for reader in asked:
            found, seconds = run[reader](folder)
            not_played = "not played" if any(each.rule == "not played" for each in found) else "none"
            cells.append("; ".join(_short(reader, each) for each in found if each.severity == "error") or not_played)
        print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


def _short(reader: str, found: Finding) -> str:
    return found.rule if reader == "check" else found.line


def _print_header(what: str, readers: Sequence[str]) -> None:
    print(f"| {what} | {' | '.join(readers)} | s |")
    print("| --- " * (len(readers) + 2) + "|", flush=True)


def _print_row(fault: Described, answers: Sequence[Answer]) -> None:
    texts = " | ".join(each.text() for each in answers)
    print(f"| {fault.id} | {texts} | {answers[-1].seconds:.1f} |", flush=True)


def _print_sums(found: dict[str, list[Answer]]) -> None:
    print()
    for reader, answers in found.items():
        reported = sum(bool(each.findings) for each in answers)
        named = sum(each.named for each in answers)
        print(f"{reader}: {reported} of {len(answers)} reported, {named} with the cause")
    print()


def answer(fault: Described, found: Sequence[Finding], seconds: float, before: Sequence[Finding]) -> Answer:
    """Return the findings that a reader only reports with the fault."""
    known = {(each.rule, one) for each in before for one in (each.place, each.message)}
    new = [each for each in found if not known & {(each.rule, each.place), (each.rule, each.message)}]
    new.sort(key=lambda each: not fault.is_named_in(each.line))
    return Answer(tuple(new), bool(new) and fault.is_named_in(new[0].line), seconds)


def check(folder: Path) -> tuple[list[Finding], float]:
    """Return the findings of `check` in a folder, and its seconds."""
    printed, seconds = _run(sys.executable, "-m", "gpu_constructs", "check", "--format", "json", str(folder))
    return list(_findings(printed["findings"])), seconds


def review(old: Path, new: Path) -> tuple[list[Finding], float]:
    """Return the findings of `review` for a second deployment, and its seconds."""
    printed, seconds = _run(sys.executable, "-m", "gpu_constructs", "review", "--format", "json", str(old), str(new))
    changes = [
        Finding(
            rule=each["change"],
            severity="warning" if each["change"] == "unknown" else "error",
            place=each["what"],
            message=f"{each['change']}: {each['detail']}",
        )
        for each in printed["changes"]
        if each["change"] in _ALARMING
    ]
    return [*changes, *_findings(printed["new"])], seconds


def _findings(printed: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    for each in printed:
        if each["severity"] in _SEVERITIES:
            severity = "warning" if each["unknown"] else each["severity"]
            yield Finding(each["id"], severity, each["origin"]["path"], f"{each['title']}: {each['message']}")


def cfn_lint(folder: Path) -> tuple[list[Finding], float]:
    """Return the findings of cfn-lint in the templates of a folder, and its seconds."""
    program = Path(sys.executable).parent / "cfn-lint"
    ignored = [f"--ignore-checks={each}" for each in _CDKS_OWN]
    templates = [str(each) for each in sorted(folder.glob("*.template.json"))]
    printed, seconds = _run(str(program), *ignored, "--format", "json", "--template", *templates)
    levels: dict[str, str] = {"Error": "error", "Warning": "warning"}
    return [
        Finding(
            rule=each["Rule"]["Id"],
            severity=levels[each["Level"]],
            place="/".join(map(str, each["Location"]["Path"])),
            message=each["Message"],
        )
        for each in printed
        if each["Level"] in levels
    ], seconds


def rehearsal(folder: Path, fault: Described | None = None) -> tuple[list[Finding], float]:
    """Return the failures of plays of the stacks of a folder, and the seconds of the plays.

    A play that tried nothing is a warning. A play ends when a failure names the cause of ``fault``.
    """

    def names_cause(line: Line) -> bool:
        return fault is not None and line.outcome is Outcome.FAILED and fault.is_named_in(_failure(line).line)

    began, found = time.monotonic(), list[Finding]()
    for stacks in _plays(read(folder, region=REGION)):
        with contextlib.redirect_stdout(sys.stderr):
            report = play_and_write(stacks, rehearse.props(), until=names_cause)
        found += map(_failure, report.failed)
        if report.exit_code() == NOT_TRIED and not any(each.outcome is Outcome.HELD for each in report.lines):
            found += [Finding("not played", "warning", each.promise, each.text) for each in report.lines]
    return found, time.monotonic() - began


def _failure(line: Line) -> Finding:
    return Finding(line.scenario, "error", line.promise, line.text)


def _plays(stacks: Sequence[Assembly]) -> list[list[Assembly]]:
    """Return the stacks of each cluster: a stack that creates a cluster, and the stacks before the next such stack."""
    found: list[list[Assembly]] = []
    for each in stacks:
        creates = any(one["Type"] == "AWS::EKS::Cluster" for one in each.template["Resources"].values())
        if creates or not found:
            found.append([])
        found[-1].append(each)
    return found


def _run(*command: str) -> tuple[Any, float]:
    """Run a command that prints JSON, and return it and the seconds that it took."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    try:
        return json.loads(done.stdout), seconds
    except json.JSONDecodeError:
        raise SystemExit(
            f"planted: {' '.join(command)} printed no JSON: {(done.stderr or done.stdout)[-2000:]}"
        ) from None


if __name__ == "__main__":
    main()
