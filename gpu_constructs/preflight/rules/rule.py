"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gpu_constructs.preflight.model import Cluster, Origin

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a rule is broken.

    Attributes:
        origin: Where.
        message: What is wrong there, with names and figures.
        fix: What to do there, when it is more than the rule's own fix.
        unknown: Whether it only may be wrong, because something is known at deployment only.
    """

    origin: Origin
    message: str
    fix: str = ""
    unknown: bool = False


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
        causes: Ids of the causes that it covers, as `docs/rules.md` lists them.
        check: Yields the places where a cluster breaks it.
    """

    id: str
    severity: Severity
    title: str
    why: str
    source: str
    fix: str
    causes: tuple[str, ...]
    check: Callable[[Cluster], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A cause that no template and no manifest shows.

    Attributes:
        cause: Its id.
        what: What goes wrong.
        why: Why it cannot be told before deployment.
    """

    cause: str
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem, its rule, and why somebody accepts it.

    Attributes:
        rule: The rule.
        cluster: Name of the cluster.
        problem: The problem.
        acknowledged: The reason given for accepting it; ``None`` when nobody does.
    """

    rule: Rule
    cluster: str
    problem: Problem
    acknowledged: str | None = None

    @property
    def fix(self) -> str:
        """What to do."""
        return self.problem.fix or self.rule.fix

    @property
    def counts(self) -> bool:
        """Whether it makes a check fail."""
        return self.rule.severity == "error" and self.acknowledged is None and not self.problem.unknown
