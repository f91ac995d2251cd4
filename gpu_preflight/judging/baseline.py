"""Findings that options hide: by selected rules and clusters, by acknowledgements outside of the input, by a baseline.

A baseline is a file with the findings of a repository on one day. A check then fails only for other findings. An entry
accepts findings of its rule about its object or resource in its file. The message and the line don't matter. It doesn't
accept more findings than it counts, nor worse findings: an entry for a possible error doesn't accept a certain error.

Filters apply to a finished report, so they can't change the result of `explain`.
"""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import did_you_mean
from gpu_facts.today import today
from gpu_preflight.judging.acknowledgements import Acceptance, Acknowledgement, accept, rejection
from gpu_preflight.judging.check import PENDING_RULE, Report, finding_order
from gpu_preflight.reading.documents import UnusableInput, read_text
from gpu_preflight.reading.objects import Origin
from gpu_preflight.rule import POSSIBLE, SEVERITIES, Finding
from gpu_preflight.rules import rules
from gpu_preflight.rules.pods import pending_problem

VERSION = 1
_DAY = regex(r"\d{4}-\d{2}-\d{2}")
_WILDCARD = regex(r"[*?\[]")
KINDS = tuple(f"{possible}{severity}" for severity in SEVERITIES for possible in ("", POSSIBLE))
_TEXTS = ("rule", "path", "kind", "file", "reason", "date")
_KEYS = (*_TEXTS, "count")


@dataclass(frozen=True, slots=True)
class FileAcknowledgement(Acknowledgement):
    """An acknowledgement of findings in certain files.

    Attributes:
        within: Pattern of the finding's file, or of a folder around it, relative to the folder of ``file``.
        anywhere: Whether the finding's file may be in another folder, such as another checkout of the repository. The
            pattern then matches the end of the file's path.
    """

    within: str = "*"
    anywhere: bool = False

    def covers(self, origin: Origin) -> bool:
        """Whether it is for an object or resource: one of its path and file."""
        return Acknowledgement.covers(self, origin) and self.is_within(origin)

    @property
    def is_placed(self) -> bool:
        """Whether it is for some places only. A rule that settings ignore everywhere may find nothing."""
        return self.path != "*" or self.within != "*"

    def is_within(self, origin: Origin) -> bool:
        """Whether the file of an origin matches the pattern."""
        if self.within == "*":
            return True
        place = relative_file(origin.file, os.path.dirname(self.file))
        within = (
            [_without_parents(self.within), f"*/{_without_parents(self.within)}"] if self.anywhere else [self.within]
        )
        return any(fnmatchcase(place, each) or fnmatchcase(place, f"{each.rstrip('/')}/*") for each in within)


def _without_parents(pattern: str) -> str:
    """Return a pattern without the ``../`` at its beginning."""
    while pattern.startswith("../"):
        pattern = pattern[3:]
    return pattern


def relative_file(file: str, folder: str) -> str:
    """Return the path of a file relative to a folder, with slashes; ``<stdin>`` stays unchanged."""
    if file.startswith("<"):
        return file
    try:
        return Path(os.path.relpath(os.path.abspath(file), os.path.abspath(folder))).as_posix()
    except ValueError:
        # The file is on another Windows drive.
        return Path(os.path.abspath(file)).as_posix()


@dataclass(frozen=True, slots=True)
class Filters:
    """Selects the findings of a report, and accepts findings outside of the input.

    Attributes:
        accepted: Acknowledgements on the command line, in settings and in a baseline.
        selected: Ids of the rules whose findings are reported; ``None`` for all.
        clusters: Names of the clusters whose findings are reported; empty for all.
    """

    accepted: tuple[Acknowledgement, ...] = ()
    selected: frozenset[str] | None = None
    clusters: tuple[str, ...] = ()

    def applied(self, report: Report) -> Report:
        """Return a report with these filters. It keeps the hidden findings, so that outputs can count them."""
        chosen = tuple(each for each in report.cases if not self.clusters or each.cluster.title in self.clusters)
        kept = [each for each in report.findings if self._is_selected(each)]
        pending = pending_findings(replace(report, cases=chosen))
        waived = [each for each in _accept(pending, self.accepted) if each.acknowledged is not None]
        waived += [each for each in pending if not self._is_selected(each)]
        result = replace(
            report,
            cases=chosen,
            findings=tuple(_accept(kept, self.accepted)),
            selected=None if self.selected is None else len(self.selected),
            unselected=tuple(each for each in report.findings if not self._is_selected(each)),
            waived=frozenset((each.cluster, each.problem.origin) for each in waived),
        )
        findings = (*result.findings, *_unexplained(result, pending, {id(each) for each in report.findings}))
        return replace(result, findings=tuple(sorted(findings, key=finding_order)))

    def _is_selected(self, finding: Finding) -> bool:
        ruled = self.selected is None or finding.rule.id in self.selected
        return ruled and (not self.clusters or finding.cluster in self.clusters)

    def unused(self, report: Report) -> tuple[Acknowledgement, ...]:
        """Return the entries of a baseline, and of settings for some places, that accept nothing in a report.

        Args:
            report: The report, before or after these filters.
        """
        found = (*report.findings, *report.unselected, *pending_findings(report))
        placed = (each for each in self.accepted if isinstance(each, FileAcknowledgement) and each.is_placed)
        return tuple(each for each in placed if not any(map(each.accepts, found)))


def pending_findings(report: Report) -> list[Finding]:
    """Return a finding for each GPU workload that would stay Pending, even if another rule reports the cause."""
    return [
        Finding(rules()[PENDING_RULE], case.cluster.title, pending_problem(verdict, unknown=False, doubt=""))
        for case, verdict in report.pending_by_case()
    ]


def _unexplained(result: Report, pending: Iterable[Finding], known: Container[int]) -> list[Finding]:
    """Return findings for Pending workloads that make the check fail although filters hide their errors.

    Args:
        result: The report after the filters.
        pending: A finding for each Pending workload.
        known: Identities of the findings before the filters. An accepted finding is a new object.
    """
    hidden = [each for each in result.findings if id(each) not in known] + [*result.unselected]
    if not any(each.rule.severity == "error" for each in hidden):
        return []
    open_ones = {(each.cluster, each.problem.origin) for each in result.findings if each.counts}
    left = {(case.cluster.title, each.workload.origin) for case, each in result.pending_by_case(accepted=False)}
    return [each for each in pending if (each.cluster, each.problem.origin) in left - open_ones]


def _accept(findings: Iterable[Finding], lines: Sequence[Acknowledgement]) -> list[Finding]:
    """Return findings, each accepted by the first line that matches and hasn't reached its max number."""
    used: Counter[tuple[int, str]] = Counter()
    found = []
    for finding in findings:
        place = next(
            (
                number
                for number, line in enumerate(lines if finding.acknowledged is None else ())
                if line.accepts(finding) and (line.most is None or used[number, finding.cluster] < line.most)
            ),
            None,
        )
        if place is not None:
            used[place, finding.cluster] += 1
            line = lines[place]
            finding = accept(finding, Acceptance(line.reason, line.not_true, line.accepted_by))
        found.append(finding)
    return found


@dataclass(frozen=True, slots=True)
class BaselineEntry(FileAcknowledgement):
    """An entry of a baseline.

    Attributes:
        kind: Severity of the finding, with the prefix ``possible`` if the finding is uncertain.
        date: Day on which it was added, ISO 8601.
        plain_path: Path of the object or resource.
        plain_file: Its file, relative to the folder of the baseline.
    """

    kind: str = SEVERITIES[0]
    date: str = ""
    plain_path: str = ""
    plain_file: str = ""

    def accepts(self, finding: Finding) -> bool:
        """Whether it accepts a finding: one of its rule, object and file that isn't worse."""
        return _rank(finding.kind) >= _rank(self.kind) and FileAcknowledgement.accepts(self, finding)


def _rank(kind: str) -> int:
    return KINDS.index(kind)


def _entry(file: str, raw: Mapping[str, Any], *, anywhere: bool = False) -> BaselineEntry:
    path, within = raw["path"], raw["file"]
    return BaselineEntry(
        raw["rule"],
        raw["reason"].strip(),
        glob.escape(path),
        False,
        file,
        "baseline",
        raw.get("count", 1),
        glob.escape(within),
        anywhere,
        kind=raw["kind"],
        date=raw["date"],
        plain_path=path,
        plain_file=within,
    )


def read_baseline(file: str, *, anywhere: bool = False) -> tuple[BaselineEntry, ...]:
    """Read a baseline.

    Args:
        file: Its path.
        anywhere: Whether its files may be in another folder, such as another checkout of the repository.

    Raises:
        UnusableInput: It can't be read, isn't a baseline, or was written by a newer version.
    """
    return tuple(_entry(file, each, anywhere=anywhere) for each in _raw_entries(file))


def _raw_entries(file: str) -> list[Mapping[str, Any]]:
    try:
        content = json.loads(read_text(Path(file)))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnusableInput):
            raise UnusableInput(f"{error}; 'gpu-constructs check --write-baseline {file}' writes it") from None
        raise UnusableInput(f"{file}: baseline must be JSON, got {error}; {_again(file)}") from None
    version = content.get("version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise UnusableInput(
            f"{file}: baseline must have version {VERSION}, got {version} of a newer release; upgrade gpu-constructs"
        )
    if version != VERSION or not isinstance(content.get("entries"), list):
        raise UnusableInput(f"{file}: baseline must have version {VERSION} and a list of entries; {_again(file)}")
    for number, entry in enumerate(content["entries"]):
        if why := _fault(entry):
            raise UnusableInput(f"{file}: entries[{number}]: {why}{'' if '; ' in why else f'; {_again(file)}'}")
    return list(content["entries"])


def _again(file: str) -> str:
    # The command doesn't overwrite a file that isn't a baseline: the path may be a mistake.
    return f"delete it, then write it with 'gpu-constructs check --write-baseline {file}'"


def _fault(entry: Any) -> str:
    """Return the error of an entry; empty if it is valid."""
    if not isinstance(entry, dict):
        return f"must be an object with {', '.join(_KEYS)}, got {entry!r}"
    if wrong := next((key for key in entry if key not in _KEYS), None):
        return f"keys must be {', '.join(_KEYS)}, got {wrong!r}{did_you_mean(wrong, _KEYS)}"
    if missing := next((key for key in _TEXTS if not isinstance(entry.get(key), str)), None):
        return f"{missing} must be a text, got {entry.get(missing)!r}"
    if why := rejection(entry["rule"], entry["reason"]):
        return why
    if entry["kind"] not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}, got {entry['kind']!r}{did_you_mean(entry['kind'], KINDS)}"
    if not _DAY.fullmatch(entry["date"]):
        return f"date must be a day such as '2026-11-26', got {entry['date']!r}"
    count = entry.get("count", 1)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return f"count must be a whole number of at least 1, got {count!r}"
    return ""


def new_entries(file: str, report: Report, filters: Filters) -> tuple[BaselineEntry, ...]:
    """Return an entry for each finding of a report that nothing else accepts, and for each Pending workload.

    Args:
        file: Path of the baseline.
        report: The report, before any filters.
        filters: Other filters, which accept or hide findings.
    """
    found = filters.applied(report)
    entries = _entries(file, (each for each in found.findings if each.acknowledged is None))
    # A workload may be Pending because of a finding about its pool. A new workload of that pool still fails.
    rest = replace(filters, accepted=(*filters.accepted, *entries)).applied(report)
    still = {(case.cluster.title, each.workload.origin) for case, each in rest.pending_by_case(accepted=False)}
    pending = (each for each in pending_findings(report) if (each.cluster, each.problem.origin) in still)
    return (*entries, *_entries(file, pending))


def _entries(file: str, findings: Iterable[Finding]) -> tuple[BaselineEntry, ...]:
    folder, reason, day = os.path.dirname(file), f"found when the baseline was written on {today()}", str(today())
    counted: Counter[tuple[str, str, str, str, str]] = Counter()
    for each in findings:
        origin = each.problem.origin
        place = relative_file(origin.file, folder)
        counted[each.cluster, each.rule.id, origin.path, each.kind, place] += 1
    # The same object may be checked in several clusters.
    most: dict[tuple[str, ...], int] = {}
    for (_, *key), count in counted.items():
        most[tuple(key)] = max(count, most.get(tuple(key), 0))
    return tuple(
        _entry(
            file,
            {"rule": rule, "path": path, "kind": kind, "file": place, "reason": reason, "date": day, "count": count},
        )
        for (rule, path, kind, place), count in most.items()
    )


def updated_entries(
    old: Iterable[BaselineEntry], new: Iterable[BaselineEntry], stale: Iterable[BaselineEntry]
) -> tuple[BaselineEntry, ...]:
    """Return the entries of an updated baseline.

    Args:
        old: The previous entries. An entry that is also in ``new`` keeps its reason and date.
        new: Entries for the current findings.
        stale: Previous entries that no longer accept a finding.
    """
    known = {_key(each): each for each in old}
    found = [known[_key(each)] if _same(each, known.get(_key(each))) else each for each in new]
    # Keep the entries for files that weren't read, and for rules that weren't selected.
    gone = {_key(each) for each in stale}
    places = {_place(each) for each in found}
    found += [each for key, each in known.items() if key not in gone and _place(each) not in places]
    return tuple(sorted(found, key=lambda each: (each.plain_file, each.plain_path, each.id, each.kind)))


def _place(entry: BaselineEntry) -> tuple[str, str, str]:
    return entry.id, entry.plain_path, entry.plain_file


def _key(entry: BaselineEntry) -> tuple[str, str, str, str]:
    return entry.id, entry.plain_path, entry.kind, entry.plain_file


def _same(new: BaselineEntry, old: BaselineEntry | None) -> bool:
    return old is not None and old.most == new.most


def baseline_text(entries: Iterable[BaselineEntry]) -> str:
    """Return a baseline as JSON with one entry per line, so that a diff shows each entry."""
    rows = [
        json.dumps(
            {
                "rule": each.id,
                "kind": each.kind,
                "path": each.plain_path,
                "file": each.plain_file,
                "reason": each.reason,
                "date": each.date,
                **({"count": each.most} if each.most != 1 else {}),
            }
        )
        for each in entries
    ]
    listed = ",\n".join(f"    {each}" for each in rows)
    return f'{{\n  "version": {VERSION},\n  "date": "{today()}",\n  "entries": [\n{listed}\n  ]\n}}\n'


def stale_entries(unused: Iterable[Acknowledgement], paths: Sequence[str]) -> tuple[BaselineEntry, ...]:
    """Return the unused entries of files that were read or don't exist any more.

    Args:
        unused: Entries that accept nothing.
        paths: The files and folders that were read.
    """
    entries = (each for each in unused if isinstance(each, BaselineEntry))
    return tuple(each for each in entries if _was_read(each.file, each.plain_file, paths))


def stale_settings(unused: Iterable[Acknowledgement], paths: Sequence[str]) -> tuple[FileAcknowledgement, ...]:
    """Return the unused places in settings: paths, and files that were read or don't exist any more.

    Args:
        unused: Entries that accept nothing.
        paths: The files and folders that were read.
    """
    placed = (each for each in unused if each.accepted_by == "settings" and isinstance(each, FileAcknowledgement))
    # A pattern may match each file in the folder before its first wildcard.
    return tuple(each for each in placed if each.within == "*" or _was_read(each.file, _literal(each.within), paths))


def _literal(pattern: str) -> str:
    """Return a path, or of a pattern the folder before its first wildcard."""
    found = _WILDCARD.search(pattern)
    return pattern[: found.start()].rpartition("/")[0] if found else pattern


def _was_read(file: str, place: str, paths: Sequence[str]) -> bool:
    """Whether a place, relative to the folder of a file, was read, or doesn't exist."""
    place = os.path.abspath(os.path.join(os.path.dirname(file), place))
    read = [os.path.abspath(each) for each in paths]
    return not os.path.exists(place) or any(place == each or place.startswith(f"{each}{os.sep}") for each in read)
