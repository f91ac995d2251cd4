"""Fields of a deployed object that differ from the planned object, by meaning.

Only fields that the plan sets are compared, because the API server and controllers add others. The exceptions are
fields that only a person adds, such as the taints of a NodePool.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import decimal_value
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.unknown import HIDDEN, Unknown, mapping, mappings


class Member(NamedTuple):
    """An item of a list, by the value of its identifying key."""

    key: str
    value: str


Path = tuple[str | Member, ...]
# Lists whose items have no name and must be equal as a whole.
EXACT = ("taints", "startupTaints", "tolerations", "requirements", "Taints")
# Values of a taint, toleration or requirement that the API server treats like no value.
_DEFAULTS = ((None, ""), ("operator", "Equal"))
# Keys that identify an item of a list in Kubernetes' own kinds. Source: the patchMergeKey tags of k8s.io/api/core/v1.
_KEYS = ("name", "mountPath", "containerPort")
# Fields that are true, or at least 1, without a value.
_NOT_FALSE_BY_DEFAULT = (
    *("allowPrivilegeEscalation", "automountServiceAccountToken", "enableServiceLinks", "replicas", "enabled"),
)
_ORDERED = ("args", "command")
# Fields with quantities.
_QUANTITIES = frozenset(
    (
        *("limits", "requests", "hard", "capacity", "resources", "nominalQuota", "borrowingLimit", "lendingLimit"),
        *("sizeLimit", "storage", "volumeSize", "quota", "limit", "default", "defaultRequest", "max", "min"),
    )
)
_DURATION = regex(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_PART = regex(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
_POD = ("spec", "template", "spec")
_OF_PODS = ((*_POD, "nodeSelector"), (*_POD, "tolerations"))
# Fields that no controller adds: another value than the planned one comes from a person, also without a planned value.
_OWN: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "NodePool": (
        ("spec", "limits"),
        ("spec", "template", "metadata", "labels"),
        *((*_POD, name) for name in ("taints", "startupTaints", "requirements")),
    ),
    "ResourceQuota": (("spec", "hard"),),
    "ConfigMap": (("data",),),
    **dict.fromkeys(("DaemonSet", "Deployment", "StatefulSet"), _OF_PODS),
    "AWS::EKS::Nodegroup": (("Labels",), ("Taints",)),
}
# Switches, with the value that means the same as no value.
_SWITCHES: Mapping[str, tuple[str, Any]] = {
    "Deployment": ("paused", False),
    "CronJob": ("suspend", False),
    "ClusterQueue": ("stopPolicy", "None"),
    "LocalQueue": ("stopPolicy", "None"),
}
# Written by the API server, or by controllers.
_LEFT_OUT = ("apiVersion", "kind", "status")


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field whose live value differs from the planned one. ``None`` is no value."""

    path: Path
    planned: Any
    live: Any


def field_differences(planned: Mapping[str, Any], live: Mapping[str, Any], kind: str) -> Iterator[FieldDifference]:
    """Yield the fields that the plan sets, or that only a person adds, and that have another live value.

    Args:
        planned: The content of the planned object, or the properties of the planned resource.
        live: The same of the deployed one.
        kind: Its kind or resource type.
    """
    left = {key: each for key, each in planned.items() if key not in _LEFT_OUT}
    for each in _compare(left, live, (), kind):
        if each.path[:1] != ("metadata",) or each.path[1:2] in (("labels",), ("annotations",)):
            yield each
    for path in _OWN.get(kind, ()):
        have = field_value(live, path)
        if have and field_value(planned, path) is None:
            yield from _compare(type(have)(), have, path, kind)
    name, default = _SWITCHES.get(kind, ("", None))
    has = field_value(live, ("spec", name))
    if name and has not in (None, default) and field_value(planned, ("spec", name)) is None:
        yield FieldDifference(("spec", name), default, has)


def unknown_fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the fields whose planned value is known at deployment only."""
    if isinstance(value, Unknown):
        yield path
    elif isinstance(value, (dict, list)):
        pairs = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        for key, each in pairs:
            yield from unknown_fields(each, path if key is None else f"{path}.{key}".lstrip("."))


def _compare(planned: Any, live: Any, path: Path, kind: str) -> Iterator[FieldDifference]:
    if isinstance(planned, Unknown) or (live is None and _means_nothing(planned, path)):
        return
    if isinstance(planned, Mapping) and planned and live is None and path and not isinstance(path[-1], Member):
        live = {}
    if isinstance(planned, Mapping) and isinstance(live, Mapping):
        for key, each in planned.items():
            yield from _compare(each, live.get(key), (*path, str(key)), kind)
        if path in _OWN.get(kind, ()):
            yield from (FieldDifference((*path, key), None, live[key]) for key in live if key not in planned)
    elif isinstance(planned, list) and isinstance(live, list):
        yield from _compare_lists(planned, live, path, kind)
    elif not _is_same(planned, live, path):
        yield FieldDifference(path, planned, live)


def _means_nothing(planned: Any, path: Path) -> bool:
    """Whether a value means the same as no value. The API server drops such values of most fields.

    An empty selector selects everything, and no selector may select nothing. A limit of 0 allows nothing, and no limit
    everything.
    """
    name = str(path[-1]) if path else ""
    if planned == {}:
        return name != "emptyDir" and (name == "nodeSelector" or not name.endswith("Selector"))
    if planned == 0 and not isinstance(planned, bool) and _is_amount(path):
        return False
    return planned in (None, []) or (planned in ("", 0, False) and name not in _NOT_FALSE_BY_DEFAULT)


def _is_amount(path: Path) -> bool:
    return not _QUANTITIES.isdisjoint(each for each in path if isinstance(each, str))


def _compare_lists(planned: list[Any], live: list[Any], path: Path, kind: str) -> Iterator[FieldDifference]:
    was, now = _index_by_key(planned), _index_by_key(live)
    if was is None or now is None or not was:
        if not _have_same_members(planned, live, path, kind):
            yield FieldDifference(path, planned, live)
        return
    for member, each in was.items():
        yield from _compare(each, now.get(member), (*path, member), kind)
    # Admission adds containers and volumes to pods.
    if kind != "Pod":
        yield from (FieldDifference((*path, each), None, now[each]) for each in now if each not in was)


def _index_by_key(members: list[Any]) -> dict[Member, Any] | None:
    """Return the items of a list by their identifying key; ``None`` if they have none, or share it."""
    found: dict[Member, Any] = {}
    for each in members:
        key = next((key for key in _KEYS if key in each), None) if isinstance(each, dict) else None
        if key is None or isinstance(each[key], Unknown) or Member(key, str(each[key])) in found:
            return None
        found[Member(key, str(each[key]))] = each
    return found


def _have_same_members(planned: list[Any], live: list[Any], path: Path, kind: str) -> bool:
    """Whether two lists have the same items in any order. An unknown planned item matches any item."""
    name = path[-1] if path else ""
    if name in _ORDERED:
        return len(planned) == len(live) and all(map(lambda one, other: _is_same(one, other, path), planned, live))
    left = list(live)
    for each in sorted(planned, key=lambda each: any(unknown_fields(each, "-"))):
        alike = (one for one in left if _is_same_member(each, one, path, kind))
        found = next(alike, None)
        if found is None:
            return False
        left.remove(found)
    return not left or (name == "tolerations" and kind not in _OWN)


def _is_same_member(planned: Any, live: Any, path: Path, kind: str) -> bool:
    if isinstance(planned, dict) and isinstance(live, dict) and path[-1:] and path[-1] in EXACT:
        one, other = _without_defaults(planned), _without_defaults(live)
        return one.keys() == other.keys() and not any(_compare(one, other, path, kind))
    return not any(_compare(planned, live, path, kind))


def _without_defaults(each: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in each.items() if value not in (None, "") and (key, value) not in _DEFAULTS}


def _is_same(planned: Any, live: Any, path: Path) -> bool:
    """Whether two values mean the same: as written, as quantities, or as durations."""
    if live == HIDDEN or planned == live or str(planned).lower() == str(live).lower() in ("true", "false"):
        return True
    if live is None or isinstance(planned, (dict, list)) or isinstance(live, (dict, list)):
        return False
    texts = str(planned), str(live)
    if texts[0] == texts[1]:
        return True
    if path[:1] == ("data",):
        files = [parsed(each) for each in texts]
        return files[0] is not None and files[0] == files[1]
    if _is_amount(path):
        amounts = [decimal_value(each) for each in texts]
        return amounts[0] is not None and amounts[0] == amounts[1]
    times = [_seconds(each) for each in texts]
    return times[0] is not None and times[0] == times[1]


def parsed(text: str) -> Any:
    """Return the content of a file in a ConfigMap; ``None`` if it isn't one YAML document."""
    try:
        found = [each.content for each in parse("data", text)]
    except UnusableInput:
        return None
    return found[0] if len(found) == 1 and isinstance(found[0], dict) else None


def _seconds(text: str) -> Decimal | None:
    if not _DURATION.fullmatch(text):
        return None
    return sum((Decimal(amount) * _SECONDS[unit] for amount, unit in _PART.findall(text)), Decimal(0))


def field_value(content: Any, path: Iterable[str | Member]) -> Any:
    """Return the value at a path; ``None`` if there is none."""
    for each in path:
        if isinstance(each, Member):
            content = next((one for one in mappings(content) if str(one.get(each.key)) == each.value), None)
        else:
            content = mapping(content).get(each)
    return content


def with_value(content: Any, path: Path, value: Any) -> Any:
    """Return a value with another value at a path; ``None`` removes it."""
    if not path:
        return value
    first, rest = path[0], path[1:]
    inner = with_value(field_value(content, (first,)), rest, value)
    if isinstance(first, Member):
        found = {str(one.get(first.key)): one for one in mappings(content)}
        return [each for each in {**found, first.value: inner}.values() if each is not None]
    kept = {key: each for key, each in mapping(content).items() if key != first}
    return kept if inner is None else {**kept, first: inner}


def patch_body(path: Path, value: Any) -> Any:
    """Return the patch that sets a value; ``None`` removes it. Items of lists need a strategic merge patch."""
    body = value
    for each in reversed(path):
        if not isinstance(each, Member):
            body = {each: body}
        elif body is None:
            body = [{"$patch": "delete", each.key: each.value}]
        else:
            body = [{each.key: each.value, **body}]
    return body


def path_text(path: Path) -> str:
    """Return a path in one line, such as ``spec.limits[nvidia.com/gpu]``."""
    text = ""
    for each in path:
        name = each.value if isinstance(each, Member) else each
        text += f"[{name}]" if isinstance(each, Member) or "." in name or "/" in name else f".{name}"
    return text.lstrip(".")


def last_writer(content: Mapping[str, Any], path: Path) -> tuple[str, str]:
    """Return the field manager that last wrote a field, and when; empty if the dump doesn't have it.

    Source: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management (2026-11)
    """
    entries = mappings(mapping(content.get("metadata")).get("managedFields"))
    owners = [each for each in entries if (fields := mapping(each.get("fieldsV1"))) and _owns(fields, path)]
    last = max(owners, key=lambda each: str(each.get("time") or ""), default=None)
    return ("", "") if last is None else (str(last.get("manager") or ""), str(last.get("time") or ""))


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    for each in path:
        # An atomic list or map has no parts.
        if not fields:
            return True
        name = (
            f"f:{each}" if isinstance(each, str) else f"k:{json.dumps({each.key: each.value}, separators=(',', ':'))}"
        )
        if name not in fields:
            return False
        fields = mapping(fields[name])
    return True
