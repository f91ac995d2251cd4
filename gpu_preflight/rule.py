"""Rules, problems and findings, the parser of rule ids, and retired ids."""

from __future__ import annotations

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
# Begins the kind of a finding that isn't certain.
POSSIBLE = "possible "
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
    """The subject of a problem."""

    @property
    def origin(self) -> Origin:
        """Its file and path."""


class Named(Subject, Protocol):
    """The subject of a problem, with a name."""

    @property
    def title(self) -> str:
        """Its kind and name, for example ``pool l4``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One violation of a rule.

    Attributes:
        subject: The object that has the problem.
        text: The fault, with names and values.
        fix: The fix, if it is more specific than the rule's own fix.
        unknown: Whether it only may be a problem, because a value is known only at deployment.
        condition: The condition under which it isn't a problem, if the input merely lacks a component.
        name: The name at the start of the message; ``text`` doesn't contain it.
        field: Path of the only faulty field, in the object or among the resource's properties at `place`, for example
            ``spec.template.spec.taints[0].effect``; empty if several fields are faulty.
        owner: The object or resource that has the fault, such as the node class of a pool; ``None`` if it is the
            subject.
        doubt: Why it only may be a problem, as a sentence, if the rule knows more than that something isn't known.
    """

    subject: Subject
    text: str
    fix: str = ""
    unknown: bool = False
    condition: str = ""
    name: str = ""
    field: str = ""
    owner: Subject | None = None
    doubt: str = ""

    @classmethod
    def from_subject(
        cls, subject: Named, text: str, *, fix: str = "", unknown: bool = False, field: str = "", doubt: str = ""
    ) -> Problem:
        """Return a problem whose message starts with the name of its subject."""
        return cls(subject, text, fix, unknown, name=subject.title, field=field, doubt=doubt)

    def in_object(self, owner: Subject | None, field: str = "") -> Problem:
        """Return the same problem in the object or resource that has the fault; ``None`` for the subject."""
        return self if owner is None else replace(self, owner=owner, field=field)

    @property
    def message(self) -> str:
        """The fault, with the name."""
        return f"{self.name}: {self.text}" if self.name else self.text

    def with_workload(self, workload: Workload) -> Problem:
        """Return the same problem for another workload with the same pod."""
        return replace(self, subject=workload, name=workload.title)

    @property
    def origin(self) -> Origin:
        """The file and path of its subject."""
        return self.subject.origin

    @property
    def place(self) -> Origin:
        """The file and path of the object or resource that has the fault, which the user must change."""
        return self.subject.origin if self.owner is None else self.owner.origin

    @property
    def key(self) -> tuple[Origin, str, str, bool]:
        """The key that distinguishes it from other problems of its rule."""
        return self.origin, self.message, self.fix, self.unknown


def check_each_pod(workloads: Iterable[Workload], judge: Callable[[Workload], Iterable[Problem]]) -> Iterator[Problem]:
    """Yield the problems of workloads if they depend only on pod and namespace, which are checked once.

    Args:
        workloads: The workloads.
        judge: Yields the problems of a workload.
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
    """A check for one fault that keeps GPU pods from running, or costs money while no pod runs.

    Attributes:
        id: ``GPU`` and three digits. An id is never reused.
        severity: ``error`` if a pod can't run, ``warning`` if it may not run, ``note`` for other facts.
        title: A short sentence that states the fault.
        why: The consequences.
        source: The documentation of the fact, as a URL or a file of a project and its version.
        fix: The fix, as an instruction.
        check: Yields the violations in a case.
        stops: Whether a pool, a pod or an autoscaler with an error doesn't work until the error is fixed.
        presumed: Whether pools with a possible problem are assumed to work, with the condition in every answer. Most
            inputs don't contain the component that the rule requires.
        at_start: Whether pods with an error get a node, and their program fails at its start.
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
        """File and line of the rule's function."""
        function = cast("FunctionType", self.check)
        return f"{function.__module__.replace('.', '/')}.py:{function.__code__.co_firstlineno}"


def rule(
    id: str, severity: Severity, *, source: str, stops: bool = True, presumed: bool = False, at_start: bool = False
) -> Callable[[Check], Rule]:
    """Turn a function into a rule. Its docstring contains title, consequences, and the fix after "Fix:".

    Args:
        id: ``GPU`` and three digits.
        severity: ``error``, ``warning`` or ``note``.
        source: A URL, or a file of a project and its version.
        stops: Whether a pool, a pod or an autoscaler with an error doesn't work.
        presumed: Whether pools with a possible problem are assumed to work.
        at_start: Whether pods with an error get a node, and their program fails at its start.

    Raises:
        ValueError: The docstring lacks one of the three.
    """

    def make(check: Check) -> Rule:
        title, why, fix = _parts(id, check.__doc__ or "")
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
        raise ValueError(f"rule {id}: docstring must be a title, the consequences and '{_FIX}...', got {doc!r}")
    title, why, fix = paragraphs
    return title.removesuffix("."), why, fix.removeprefix(_FIX)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its rule, and the reason of its acknowledgement.

    Attributes:
        rule: The rule.
        cluster: Name of the cluster.
        problem: The problem.
        acknowledged: The reason of its acknowledgement; ``None`` without one.
        not_true: Whether the acknowledgement states that the finding is wrong.
        accepted_by: The place of the acknowledgement; ``None`` without one.
    """

    rule: Rule
    cluster: str
    problem: Problem
    acknowledged: str | None = None
    not_true: bool = False
    accepted_by: AcceptedBy | None = None

    @property
    def fix(self) -> str:
        """The fix."""
        return self.problem.fix or self.rule.fix

    @property
    def kind(self) -> str:
        """Its severity, after ``possible`` if it isn't certain: ``error``, ``possible error``."""
        return f"{POSSIBLE}{self.rule.severity}" if self.problem.unknown else self.rule.severity

    @property
    def holds(self) -> bool:
        """Whether it is a certain error, acknowledged or not: an acknowledgement doesn't fix it."""
        return self.rule.severity == "error" and not self.problem.unknown and not self.not_true

    @property
    def counts(self) -> bool:
        """Whether it makes a check fail."""
        return self.holds and self.acknowledged is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retired:
    """A removed rule. Its id is never reused.

    Attributes:
        title: The fault that it reported.
        date: Day of its removal, ISO 8601.
        now: Ids of the rules that report the fault now.
        why: The component that reports the fault now, if no rule does.
    """

    title: str
    date: str
    now: tuple[str, ...] = ()
    why: str = ""


RETIRED = MappingProxyType(
    {
        "GPU047": Retired(
            title="Nodes with several network interfaces are in a public subnet", date="2026-11-21", now=("GPU105",)
        ),
        "GPU109": Retired(
            title="EKS rejects the node repair settings",
            date="2026-11-21",
            why="EKS reports it when it creates the group",
        ),
        "GPU136": Retired(title="Disk is in a zone where the pools have no nodes", date="2026-11-21", now=("GPU120",)),
        "GPU138": Retired(
            title="Pods with anti-affinity by zone have too few zones", date="2026-11-21", now=("GPU120",)
        ),
        "GPU199": Retired(
            title="Requirement uses labels of the other Karpenter",
            date="2026-11-21",
            now=("GPU120",),
            why="for pods that need the NodePool",
        ),
        "GPU234": Retired(title="API doesn't have the field", date="2026-11-22", now=("GPU302",)),
    }
)


def rule_id(text: str) -> str:
    """Return the rule id for a text, which may lack the prefix or be in lower case."""
    found = _ID.fullmatch(text.strip())
    return f"GPU{found[1]}" if found else text


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
    """Return a hint for an id that no rule has: that it is retired, or ``; did you mean 'GPU120'?``."""
    if retired := RETIRED.get(rule_id(text)):
        found = f"{' and '.join(retired.now)} reports it now" if retired.now else ""
        now = ", ".join(each for each in (found, retired.why) if each)
        return f"; its rule, {retired.title!r}, was retired on {retired.date}: {now}"
    ids = tuple(known)
    typo = _TYPO.fullmatch(text.strip())
    meant = f"GPU{typo[1].upper().translate(_LOOKS_LIKE):0>3}" if typo else ""
    return f"; did you mean {meant!r}?" if meant in ids else did_you_mean(text, ids)
