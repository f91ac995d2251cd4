"""What a rule is, what it finds, how a rule id is parsed, and which ids are retired."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType, MappingProxyType
from typing import Literal, Protocol, cast, get_args

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.objects import Origin

Severity = Literal["error", "warning", "note"]
# The most severe first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
# Where the reason is for which a finding is accepted.
AcceptedBy = Literal[
    "acknowledgement file", "metadata", "annotation", "construct", "comment", "--ignore", "settings", "baseline"
]
_FIX = "Fix: "
# An id as users write it: gpu120, GPU-120, 120.
_ID = regex(r"(?:GPU)?[-_ ]?(\d{3})", re.IGNORECASE)
# Typos in an id: letters that look like digits, too many or too few zeros.
_TYPO = regex(r"(?:GPU)?[-_ ]?0*([0-9OIL]{1,3})", re.IGNORECASE)
_LOOKS_LIKE = str.maketrans("OIL", "011")


class Subject(Protocol):
    """What a problem is about."""

    @property
    def origin(self) -> Origin:
        """Where it stands."""


class Named(Subject, Protocol):
    """What a problem is about, where its name tells it from others."""

    @property
    def title(self) -> str:
        """Its name as people say it, e.g. ``pool l4``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a rule is broken.

    Attributes:
        subject: What it is about.
        text: What is wrong there, with names and figures.
        fix: What to do there, when it is more than the rule's own fix.
        unknown: Whether it only may be wrong, because something is known at deployment only.
        condition: What would have to be true for it not to be wrong, where the input merely lacks a component.
        name: The name with which the message begins; ``text`` doesn't have it.
        field: Path of the only field that is wrong, where it is in the object or among the resource's properties at the
            origin of the subject, e.g. ``spec.template.spec.taints[0].effect``; empty where several are.
    """

    subject: Subject
    text: str
    fix: str = ""
    unknown: bool = False
    condition: str = ""
    name: str = ""
    field: str = ""

    @classmethod
    def from_subject(
        cls, subject: Named, text: str, *, fix: str = "", unknown: bool = False, field: str = ""
    ) -> Problem:
        """Return a problem whose message begins with the name of what it is about."""
        return cls(subject, text, fix, unknown, name=subject.title, field=field)

    def with_field(self, owner: Subject, field: str) -> Problem:
        """Return the same problem with the field of an object that is wrong, if it is about that object."""
        return replace(self, field=field) if owner.origin == self.subject.origin else self

    @property
    def message(self) -> str:
        """What is wrong, with the name."""
        return f"{self.name}: {self.text}" if self.name else self.text

    def with_workload(self, workload: Workload) -> Problem:
        """Return the same problem of another workload with the same pod."""
        return replace(self, subject=workload, name=workload.title)

    @property
    def origin(self) -> Origin:
        """Where it stands."""
        return self.subject.origin

    @property
    def key(self) -> tuple[Origin, str, str, bool]:
        """What tells it from other problems of its rule."""
        return self.origin, self.message, self.fix, self.unknown


def check_each_pod(workloads: Iterable[Workload], judge: Callable[[Workload], Iterable[Problem]]) -> Iterator[Problem]:
    """Yield the problems of workloads, where pod and namespace alone decide: what is alike is judged once.

    Args:
        workloads: The workloads.
        judge: Yields problems of a workload that are about it.
    """
    known: dict[tuple[int, str], tuple[Workload, list[Problem]]] = {}
    for workload in workloads:
        key = id(workload.pod), workload.namespace
        if key not in known:
            known[key] = workload, list(judge(workload))
        first, problems = known[key]
        yield from problems if workload is first else (each.with_workload(workload) for each in problems)


Check = Callable[[Case], Iterable[Problem]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing that keeps a GPU pod Pending, or that costs money without a pod running.

    Attributes:
        id: ``GPU`` and three digits; never used again once given.
        severity: ``error`` where a pod cannot run, ``warning`` where it may not, ``note`` for what is worth knowing.
        title: What is wrong, in one line.
        why: What happens then.
        source: Where that is documented, as a URL or a file of a project and its version.
        fix: What to do.
        check: Yields the places where a case breaks it.
        stops: Whether a pool, a pod or an autoscaler in which it finds an error does not work until that is mended.
        presumed: Whether pools that it only may be about are taken to work, and every answer says what it rests on:
            most inputs leave to others what it asks for.
        at_start: Whether the pods of its errors get a node, and their program fails there.
    """

    id: str
    severity: Severity
    title: str
    why: str
    source: str
    fix: str
    check: Check
    stops: bool = True
    presumed: bool = False
    at_start: bool = False

    @property
    def place(self) -> str:
        """File and line of the function that is the rule."""
        function = cast("FunctionType", self.check)
        return f"{function.__module__.replace('.', '/')}.py:{function.__code__.co_firstlineno}"


def rule(
    id: str, severity: Severity, *, source: str, stops: bool = True, presumed: bool = False, at_start: bool = False
) -> Callable[[Check], Rule]:
    """Make a function a rule: its docstring gives the title, why it matters, and after "Fix:" what to do.

    Args:
        id: ``GPU`` and three digits.
        severity: ``error``, ``warning`` or ``note``.
        source: A URL, or a file of a project and its version.
        stops: Whether an error keeps from working what it is found in, so that no pod runs by it.
        presumed: Whether pools are taken to work where there only may be one.
        at_start: Whether its pods get a node, and their program fails there.

    Raises:
        ValueError: The docstring lacks one of the three.
    """

    def make(check: Check) -> Rule:
        title, why, fix = _parts(id, inspect.getdoc(check) or "")
        return Rule(
            id=id,
            severity=severity,
            title=title,
            why=why,
            source=source,
            fix=fix,
            check=check,
            stops=stops,
            presumed=presumed,
            at_start=at_start,
        )

    return make


def _parts(id: str, doc: str) -> tuple[str, str, str]:
    paragraphs = [" ".join(each.split()) for each in doc.split("\n\n")]
    if len(paragraphs) != 3 or not paragraphs[2].startswith(_FIX):
        raise ValueError(f"rule {id}: docstring must be a title, why it matters and '{_FIX}...', got {doc!r}")
    title, why, fix = paragraphs
    return title.removesuffix("."), why, fix.removeprefix(_FIX)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its rule, and why somebody accepts it.

    Attributes:
        rule: The rule.
        cluster: Name of the cluster.
        problem: The problem.
        acknowledged: The reason given for accepting it; ``None`` when nobody does.
        not_true: Whether the one who accepts it states that it is wrong.
        accepted_by: Where that reason is; ``None`` if it isn't accepted.
    """

    rule: Rule
    cluster: str
    problem: Problem
    acknowledged: str | None = None
    not_true: bool = False
    accepted_by: AcceptedBy | None = None

    @property
    def fix(self) -> str:
        """What to do."""
        return self.problem.fix or self.rule.fix

    @property
    def holds(self) -> bool:
        """Whether it certainly keeps something from working, accepted or not: no reason makes a node join."""
        return self.rule.severity == "error" and not self.problem.unknown and not self.not_true

    @property
    def counts(self) -> bool:
        """Whether it makes a check fail."""
        return self.holds and self.acknowledged is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retired:
    """A rule that is no more. Its id is never given again.

    Attributes:
        title: What it found.
        date: Day it went, ISO 8601.
        now: Ids of the rules that find it now.
        why: Who says it now, where no rule does.
    """

    title: str
    date: str
    now: tuple[str, ...] = ()
    why: str = ""


RETIRED = MappingProxyType(
    {
        "GPU047": Retired(title="Several network interfaces in a public subnet", date="2026-11-21", now=("GPU105",)),
        "GPU109": Retired(
            title="Node repair that EKS refuses", date="2026-11-21", why="EKS says it itself when the group is made"
        ),
        "GPU136": Retired(title="Disk in a zone where the pools have no nodes", date="2026-11-21", now=("GPU120",)),
        "GPU138": Retired(title="Pods that keep apart by zone, and too few zones", date="2026-11-21", now=("GPU120",)),
        "GPU199": Retired(
            title="Requirement on labels of the other Karpenter",
            date="2026-11-21",
            now=("GPU120",),
            why="for pods that need the NodePool",
        ),
        "GPU234": Retired(title="Field that the API does not have", date="2026-11-22", now=("GPU302",)),
    }
)


def rule_id(text: str) -> str:
    """Return the id that somebody says, without its prefix or in small letters too."""
    said = _ID.fullmatch(text.strip())
    return f"GPU{said[1]}" if said else text


def matching_rules(rules: Mapping[str, Rule], word: str | None, severity: str | None) -> dict[str, Rule]:
    """Return the rules that have a severity, and a word in id, title, reason or fix, in any case; ``None`` for any."""
    wanted = (word or "").casefold()
    return {
        id: each
        for id, each in rules.items()
        if severity in (None, each.severity)
        and any(wanted in text.casefold() for text in (each.id, each.title, each.why, each.fix))
    }


def id_hint(text: str, known: Iterable[str]) -> str:
    """Return what helps with an id that no rule has: that it is retired, or ``; did you mean 'GPU120'?``."""
    if retired := RETIRED.get(rule_id(text)):
        found = f"{' and '.join(retired.now)} finds it now" if retired.now else ""
        told = ", ".join(each for each in (found, retired.why) if each)
        return f"; it was {retired.title!r}, retired on {retired.date}: {told}"
    ids = tuple(known)
    slip = _TYPO.fullmatch(text.strip())
    meant = f"GPU{slip[1].upper().translate(_LOOKS_LIKE):0>3}" if slip else ""
    return f"; did you mean {meant!r}?" if meant in ids else did_you_mean(text, ids)
