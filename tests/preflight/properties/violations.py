"""Values whose absence gives a better result, and the exceptions from the rule that none does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_preflight.cluster import open_values
from gpu_preflight.cluster.open_values import field_name, judged_fields
from gpu_preflight.model.answer import Answer
from tests.preflight.properties.results import Results, results
from tests.preflight.properties.samples import Place, Sample

# Classes of values whose absence may change a result in any way, as patterns over `Sample.title`, and why.
EXCEPTIONS: tuple[tuple[str, str], ...] = (
    (r"^\S* (apiVersion|kind)$", "identity: without it, the document is another object, or none"),
    (r" metadata(\.(name|namespace))?$", "identity: the object with that name isn't there any more, another one is"),
    (
        r" metadata\.labels|template\.metadata(\.labels.*)?$",
        "identity: labels decide which selectors match",
    ),
    (r"KubernetesResource Manifest$", "all of its objects: the report lists the manifest as unread"),
    (r"\bJobSet spec\.replicatedJobs\[\]\.name$", "identity: the workload has that name"),
    (r"\bRay(Cluster|Job|Service) .*\.groupName$", "identity: the workload has that name"),
    (r" ClusterName$", "identity: the resource belongs to another cluster"),
    (r" (spec|spec\.template|.*\.(spec|template|jobTemplate))$", "whole parts: programs fill in values, not objects"),
)
_EXCEPTIONS = re.compile("|".join(pattern for pattern, _ in EXCEPTIONS))
_FIELDS = Path(open_values.__file__).with_name("judged_fields.json")


@dataclass(frozen=True, order=True, slots=True)
class Violation:
    """A better result without a value.

    Attributes:
        kind: ``better`` for a workload that runs now, ``gone`` for one without a result, ``lost`` for an error that
            disappeared.
        what: The rule of an error; the place of the value for a workload.
        sample: The sample.
        title: The place of the value.
    """

    kind: str
    what: str
    sample: str
    title: str

    def __str__(self) -> str:
        return f"{self.kind} {self.what}: {self.sample} without {self.title}"


def is_exception(title: str) -> bool:
    """Whether the place of a value is of one of the classes of exceptions."""
    return _EXCEPTIONS.search(title) is not None


def violations(read: Callable[[], Sample], chosen: Callable[[list[Place]], Iterable[Place]]) -> Iterator[Violation]:
    """Yield what is better about a sample without one of its values.

    Args:
        read: The reader of the sample.
        chosen: Chooses the places to leave a value out at.
    """
    sample = read()
    before = results(sample)
    if before is None or not before.has_no:
        return
    for place in chosen([each for each in sample.places() if not is_exception(sample.title(each))]):
        blanked = sample.blanked(place)
        after = results(blanked)
        if after is not None:
            title = sample.title(place)
            found = dict.fromkeys(_better(before, after, blanked.blank, title))
            yield from (Violation(kind, what, sample.name, title) for kind, what in found)


def _better(before: Results, after: Results, blank: str, title: str) -> Iterator[tuple[str, str]]:
    for name, told in before.workloads.items():
        now = after.workloads.get(name)
        if now is None and told.answer is not Answer.YES:
            yield "gone", title
        elif now is not None and now.is_better(told, blank):
            yield "better", title
    rules = {rule for rule, _ in after.possible}
    subjects = {subject for _, subject in after.certain}
    for rule, subject in before.certain:
        named = any(blank in expression for each, expression in after.unjudged if each == rule)
        if rule not in rules and subject not in subjects and not named:
            yield "lost", rule


def fields_of(found: Iterable[Violation]) -> dict[str, list[str]]:
    """Return the fields of some violations, each with the rules whose errors are lost without it."""
    rules: dict[str, set[str]] = {}
    for each in found:
        kind, _, path = each.title.partition(" ")
        if each.kind != "gone":
            rules.setdefault(field_name(kind, path), set()).update([each.what] if each.kind == "lost" else [])
    return {name: sorted(each) for name, each in sorted(rules.items())}


def write_fields(fields: dict[str, list[str]]) -> None:
    """Write `judged_fields.json`, one field a line."""
    lines = (f"  {json.dumps(name)}: {json.dumps(rules)}" for name, rules in fields.items())
    _FIELDS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    judged_fields.cache_clear()
