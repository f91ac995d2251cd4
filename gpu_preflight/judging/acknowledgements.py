"""Findings that somebody accepts, each with a reason that every output shows.

Four places can say so: a file with ``acknowledgements:``, metadata of a template's resource, an annotation of a
Kubernetes object, and a construct, by ``Validations.of(...).acknowledge(...)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.refusals import did_you_mean
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import Document, UnusableInput
from gpu_preflight.reading.inputs import ACKNOWLEDGEMENTS
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import known_text, mapping
from gpu_preflight.rules import rules
from gpu_preflight.rules.rule import Finding
from gpu_preflight.rules.rule_ids import id_hint

# Key of a resource's metadata: {"gpu-constructs": {"acknowledge": {"GPU010": "reason"}}}.
METADATA = "gpu-constructs"
# Prefix of an object's annotation: gpu-constructs.io/acknowledge.GPU010: reason.
ANNOTATION = "gpu-constructs.io/acknowledge."
_KEYS = ("id", "reason", "path")


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """One line of an acknowledgement file.

    Attributes:
        id: The rule.
        reason: Why it is accepted.
        path: Pattern of the origin's path, with ``*``.
        file: Where the line stands.
    """

    id: str
    reason: str
    path: str = "*"
    file: str = ""

    def accepts(self, finding: Finding) -> bool:
        """Whether a finding is one of those that it accepts."""
        return self.id == finding.rule.id and fnmatchcase(finding.problem.origin.path, self.path)


def acknowledgements(documents: Iterable[Document]) -> tuple[Acknowledgement, ...]:
    """Return the lines of acknowledgement files.

    Raises:
        UnusableInput: A line names no rule or gives no reason.
    """
    return tuple(
        _line(document.file, line)
        for document in documents
        for line in mapping(document.content).get(ACKNOWLEDGEMENTS, [])
    )


def _line(file: str, line: Any) -> Acknowledgement:
    for key in mapping(line):
        # A misspelt path would accept the rule everywhere.
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS)
            raise UnusableInput(f"{file}: acknowledgements: keys must be {', '.join(_KEYS)}, got {key!r}{hint}")
    rule, reason = known_text(mapping(line).get("id")), known_text(mapping(line).get("reason"))
    if why := _refused(rule, reason):
        raise UnusableInput(f"{file}: acknowledgements: {why}")
    return Acknowledgement(str(rule), str(reason).strip(), known_text(mapping(line).get("path")) or "*", file)


def _refused(rule: str | None, reason: str | None) -> str | None:
    if rule not in rules():
        return f"id must be a rule's id, got {rule!r}{id_hint(rule or '', rules())}"
    return None if reason and reason.strip() else f"{rule} must have a reason, got {reason!r}"


def mistaken(told: Iterable[Cluster]) -> tuple[str, ...]:
    """Return what metadata and annotations acknowledge in vain: what is no rule, or without a reason."""
    written = list(told)
    resources = {each.key: each for cluster in written for each in cluster.resources.values()}
    objects = {each.origin: each for cluster in written for each in cluster.objects if each.annotations}
    lines = [
        *((each.origin, *line) for each in resources.values() for line in _of_template(each).items()),
        *((each.origin, *line) for each in objects.values() for line in _of_object(each)),
    ]
    wrong = ((origin, _refused(rule, known_text(reason))) for origin, rule, reason in lines)
    return tuple(f"{origin.file}: {origin.path}: acknowledge: {why}" for origin, why in wrong if why)


def acknowledged(
    finding: Finding, cluster: Cluster, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> str | None:
    """Return the reason for which a finding is accepted, or ``None``.

    Args:
        finding: The finding.
        cluster: The cluster it was found in.
        listed: Lines of acknowledgement files.
        accepted: What constructs acknowledge, by construct path.
    """
    for each in listed:
        if each.accepts(finding):
            return each.reason
    rule, origin = finding.rule.id, finding.problem.origin
    given = _in_template(rule, origin, cluster), _in_object(rule, origin, cluster)
    # Blanks are no reason.
    written = next((reason for each in given if each and (reason := each.strip())), None)
    return written or _above(rule, origin, cluster, accepted)


def _above(rule: str, origin: Origin, cluster: Cluster, accepted: Mapping[str, Mapping[str, str]]) -> str | None:
    """Return the reason that the construct, or one around it, gives."""
    resource = cluster.resources.get(origin.resource or "")
    parts = resource.path.split("/") if resource and accepted else []
    paths = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((reason for path in paths if (reason := accepted.get(path, {}).get(rule))), None)


def _in_template(rule: str, origin: Origin, cluster: Cluster) -> str | None:
    resource = cluster.resources.get(origin.resource or "")
    return known_text(_of_template(resource).get(rule)) if resource else None


def _of_template(resource: Resource) -> Mapping[str, Any]:
    return mapping(mapping(resource.metadata.get(METADATA)).get("acknowledge"))


def _in_object(rule: str, origin: Origin, cluster: Cluster) -> str | None:
    found = cluster.object_at(origin)
    return known_text(found.annotations.get(f"{ANNOTATION}{rule}")) if found is not None else None


def _of_object(each: Object) -> Iterator[tuple[str, Any]]:
    for key, reason in each.annotations.items():
        if str(key).startswith(ANNOTATION):
            yield str(key).removeprefix(ANNOTATION), reason
