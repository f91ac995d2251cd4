"""Acknowledgements: findings that a person accepts, each with a reason that every output shows.

They are in a file with ``acknowledgements:``, in metadata of a template's resource, in an annotation of a Kubernetes
object, in a comment next to it, or on a construct with ``Validations.of(...).acknowledge(...)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.documents import Document, UnusableInput
from gpu_preflight.reading.inputs import ACKNOWLEDGEMENTS
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import as_written, known_text, mapping
from gpu_preflight.rule import AcceptedBy, Finding, id_hint
from gpu_preflight.rules import rules

if TYPE_CHECKING:
    from gpu_preflight.reading.positions import Comment

# Key of a resource's metadata: {"gpu-constructs": {"acknowledge": {"GPU010": "reason"}}}.
METADATA = "gpu-constructs"
# Prefix of an object's annotation: gpu-constructs.io/acknowledge.GPU010: reason.
ANNOTATION = "gpu-constructs.io/acknowledge."
NOT_TRUE_ANNOTATION = "gpu-constructs.io/not-true."
_KEYS_OF_METADATA = ("reason", "not_true")
_KEYS = ("id", "path", *_KEYS_OF_METADATA)
# gpu-constructs: ignore GPU020,GPU021 the reason
_COMMENT = regex(r"ignore\s+([\w,-]+)\s*(.*)")


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A line that accepts findings of a rule.

    Attributes:
        id: The rule.
        reason: Why it is accepted.
        path: Pattern of the origin's path, with ``*``.
        not_true: Whether the finding is wrong. Such a finding doesn't stop pods.
        file: The file of the line.
        accepted_by: The kind of the line.
        most: Max number of findings per cluster that it accepts; ``None`` for no limit.
    """

    id: str
    reason: str
    path: str = "*"
    not_true: bool = False
    file: str = ""
    accepted_by: AcceptedBy = "acknowledgement file"
    most: int | None = None

    def accepts(self, finding: Finding) -> bool:
        """Whether it accepts a finding, by its subject or by the object that has the fault."""
        places = (finding.problem.origin, finding.problem.place)
        return self.id == finding.rule.id and any(map(self.covers, places))

    def covers(self, origin: Origin) -> bool:
        """Whether it is for an object or resource."""
        return fnmatchcase(origin.path, self.path)


def acknowledgements(documents: Iterable[Document]) -> tuple[Acknowledgement, ...]:
    """Return the lines of acknowledgement files.

    Raises:
        UnusableInput: A line has an unknown key, names no rule, has no reason, or its ``not_true`` isn't a boolean.
    """
    return tuple(
        _line(document.file, line)
        for document in documents
        for line in mapping(document.content).get(ACKNOWLEDGEMENTS, [])
    )


def _line(file: str, line: Any) -> Acknowledgement:
    for key in mapping(line):
        # With a typo in the key 'path', the line would accept the rule everywhere.
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS)
            raise UnusableInput(f"{file}: acknowledgements: keys must be {', '.join(_KEYS)}, got {key!r}{hint}")
    rule = known_text(mapping(line).get("id"))
    if why := rejection(rule, line, _KEYS):
        raise UnusableInput(f"{file}: acknowledgements: {why}")
    accepted = _acceptance(line)
    path = known_text(mapping(line).get("path")) or "*"
    return Acknowledgement(str(rule), accepted.reason, path, accepted.not_true, file)


@dataclass(frozen=True, slots=True)
class CommentAcknowledgement(Acknowledgement):
    """A comment that accepts findings about the object or resource that it is in.

    Attributes:
        names: The names of the object or resource, as `gpu_preflight.reading.positions.origin_names` returns them.
    """

    names: frozenset[str] = frozenset()

    def accepts(self, finding: Finding) -> bool:
        """Whether it accepts a finding: one of its rule, about its object."""
        from gpu_preflight.reading.positions import origin_names

        places = (each for each in (finding.problem.origin, finding.problem.place) if each.file == self.file)
        return self.id == finding.rule.id and not all(map(self.names.isdisjoint, map(origin_names, places)))


def comment_acknowledgements(comments: Iterable[Comment]) -> tuple[tuple[Acknowledgement, ...], tuple[str, ...]]:
    """Return the acknowledgements in comments of YAML files, and the errors in comments that accept nothing."""
    lines: list[Acknowledgement] = []
    errors: list[str] = []
    for comment in comments:
        place = f"{comment.file}: line {comment.line}"
        found = _COMMENT.fullmatch(comment.text)
        if not found or not comment.names:
            rule = (
                "be 'gpu-constructs: ignore RULE reason'"
                if not found
                else "be in an object or resource of a file below 2 MiB"
            )
            errors.append(f"{place}: comment must {rule}, got {comment.text!r}")
            continue
        for id in filter(None, found[1].split(",")):
            if why := rejection(id, found[2]):
                errors.append(f"{place}: comment: {why}")
                continue
            path = f"line {comment.line}"
            lines.append(
                CommentAcknowledgement(
                    id, found[2].strip(), path, False, comment.file, "comment", names=frozenset(comment.names)
                )
            )
    return tuple(lines), tuple(errors)


class Acceptance(NamedTuple):
    """Why a finding is accepted: the reason, whether the finding isn't true, and where the reason is."""

    reason: str
    not_true: bool = False
    accepted_by: AcceptedBy = "acknowledgement file"


def _acceptance(written: Any, accepted_by: AcceptedBy = "acknowledgement file") -> Acceptance:
    """Parse a reason, or a mapping with ``reason`` and ``not_true``. A blank reason becomes an empty one."""
    reason = known_text(mapping(written).get("reason") if isinstance(written, Mapping) else written)
    return Acceptance((reason or "").strip(), mapping(written).get("not_true") is True, accepted_by)


def rejection(rule: str | None, written: Any, keys: Sequence[str] = _KEYS_OF_METADATA) -> str | None:
    """Return the error in an acknowledgement's rule, keys or reason; ``None`` if it is valid."""
    if rule not in rules():
        return f"id must be a rule's id, got {rule!r}{id_hint(rule or '', rules())}"
    if wrong := next((key for key in mapping(written) if key not in keys), None):
        return f"keys of {rule} must be {', '.join(keys)}, got {wrong!r}{did_you_mean(str(wrong), keys)}"
    not_true = mapping(written).get("not_true", False)
    if not isinstance(not_true, bool):
        return f"not_true of {rule} must be true or false, got {not_true!r}"
    reason = mapping(written).get("reason") if isinstance(written, Mapping) else written
    return None if _acceptance(written).reason else f"{rule} must have a reason, got {as_written(reason)!r}"


def mistaken(told: Iterable[Cluster]) -> tuple[str, ...]:
    """Return errors of acknowledgements in metadata and annotations, such as an unknown rule or no reason."""
    written = list(told)
    resources = {each.key: each for cluster in written for each in cluster.resources.values()}
    objects = {each.origin: each for cluster in written for each in cluster.objects if each.annotations}
    lines = [
        *((each.origin, *line) for each in resources.values() for line in _template_acknowledgements(each).items()),
        *((each.origin, *line) for each in objects.values() for line in _object_acknowledgements(each)),
    ]
    wrong = ((origin, rejection(rule, written)) for origin, rule, written in lines)
    return tuple(f"{origin.file}: {origin.path}: acknowledge: {why}" for origin, why in wrong if why)


def with_acceptance(
    finding: Finding, cluster: Cluster, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Finding:
    """Return a finding. If it is accepted, the result has the reason.

    Args:
        finding: The finding.
        cluster: The cluster it was found in.
        listed: Lines of acknowledgement files.
        accepted: Acknowledgements of constructs, by construct path.
    """
    found = _acceptance_of_finding(finding, cluster, listed, accepted)
    return accept(finding, found) if found else finding


def accept(finding: Finding, by: Acceptance) -> Finding:
    """Return a finding that is accepted."""
    return replace(finding, acknowledged=by.reason, not_true=by.not_true, accepted_by=by.accepted_by)


def _acceptance_of_finding(
    finding: Finding, cluster: Cluster, listed: Iterable[Acknowledgement], accepted: Mapping[str, Mapping[str, str]]
) -> Acceptance | None:
    for each in listed:
        if each.accepts(finding):
            return Acceptance(each.reason, each.not_true, each.accepted_by)
    rule, origins = finding.rule.id, dict.fromkeys((finding.problem.origin, finding.problem.place))
    given: list[tuple[Any, AcceptedBy]] = [(_in_template(rule, each, cluster), "metadata") for each in origins]
    given += [(_in_object(rule, each, cluster), "annotation") for each in origins]
    written = next((_acceptance(each, place) for each, place in given if not rejection(rule, each)), None)
    return written or next(filter(None, (_above(rule, each, cluster, accepted) for each in origins)), None)


def _above(rule: str, origin: Origin, cluster: Cluster, accepted: Mapping[str, Mapping[str, str]]) -> Acceptance | None:
    """Return the acknowledgement of the construct, or of the nearest construct around it."""
    resource = cluster.resources.get(origin.resource or "")
    parts = resource.path.split("/") if resource and accepted else []
    paths = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next(
        (Acceptance(reason, False, "construct") for path in paths if (reason := accepted.get(path, {}).get(rule))),
        None,
    )


def _in_template(rule: str, origin: Origin, cluster: Cluster) -> Any:
    resource = cluster.resources.get(origin.resource or "")
    return _template_acknowledgements(resource).get(rule) if resource else None


def _template_acknowledgements(resource: Resource) -> Mapping[str, Any]:
    return mapping(mapping(resource.metadata.get(METADATA)).get("acknowledge"))


def _in_object(rule: str, origin: Origin, cluster: Cluster) -> Any:
    found = cluster.find_object(origin)
    written = _object_acknowledgements(found) if found is not None else ()
    valid = [each for id, each in written if id == rule and not rejection(id, each)]
    # An object may have both annotations.
    return max(valid, key=lambda each: bool(each["not_true"]), default=None)


def _object_acknowledgements(each: Object) -> Iterator[tuple[str, Any]]:
    for key, reason in each.annotations.items():
        for prefix, not_true in ((ANNOTATION, False), (NOT_TRUE_ANNOTATION, True)):
            if str(key).startswith(prefix):
                yield str(key).removeprefix(prefix), {"reason": reason, "not_true": not_true}
