"""A change to the input, and its form for users: a patch for kubectl, or a property of a construct."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.quantities import MIB
from gpu_preflight.reading.inputs import Input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import as_written

# Path of the pod template, and of the number of pods, in kinds whose patches merge lists by name.
_PODS: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"), ("spec", "template", "spec")),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One value to set.

    Attributes:
        text: The change in words.
        origin: Place of the resource or object in the input.
        property: Path of the value, as a tuple of names.
        value: The value to set.
        key: Key of the resource; ``None`` for an object.
        of_pool: Whether it changes a pool or a quota, and not the workload.
        written: Path of the value in the file, if the user's file has other names.
        written_value: The value to set in the file; ``None`` if it is the same.
    """

    text: str
    origin: Origin
    property: tuple[str, ...]
    value: Any
    key: str | None = None
    of_pool: bool = False
    written: tuple[str, ...] = ()
    written_value: Any = None


def written(name: str, have: int, *, up: bool = False) -> int | str:
    """Return an amount in base units as a quantity, rounded down or up."""
    if name == "cpu":
        return f"{have}m" if have % 1000 else have // 1000
    return f"{-(-have // MIB) if up else have // MIB}Mi" if have >= MIB else have


def pod_path(owner: Object) -> tuple[str, ...] | None:
    """Return the path of an object's pod; ``None`` for kinds whose patches replace whole lists."""
    return _PODS.get(owner.kind)


def strategic_merge_patch(changes: Iterable[Change]) -> dict[str, Any] | None:
    """Return the changes of a workload as the body of one strategic merge patch; ``None`` if there are none."""
    body: dict[str, Any] = {}
    for each in changes:
        if not each.of_pool:
            body = _joined(body, _nested(each.property, each.value))
    written: dict[str, Any] = as_written(body)
    return written or None


def with_containers_merged(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return changes with all container changes of a pod in one. Separate ones would replace each other's values."""
    found: list[Change] = []
    for each in changes:
        places = [number for number, one in enumerate(found) if one.property == each.property and one.key == each.key]
        if places and each.property[-1:] == ("containers",) and found[places[0]].origin == each.origin:
            before = found[places[0]]
            text, value = f"{before.text}, and {each.text}", _joined(before.value, each.value)
            found[places[0]] = replace(before, text=text, value=value)
        else:
            found.append(each)
    return tuple(found)


def _joined(one: Any, other: Any) -> Any:
    """Merge two patches, including their removals."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _joined(one[key], each) if key in one else each for key, each in other.items()}}
    if isinstance(one, list) and isinstance(other, list) and _all_have_names(one) and _all_have_names(other):
        parts = {each["name"]: each for each in one}
        return list({**parts, **{each["name"]: _joined(parts.get(each["name"], {}), each) for each in other}}.values())
    return other


def _nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    for name in reversed(path):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


def merged(whole: Any, patch: Any) -> Any:
    """Return a value after a strategic merge patch: containers merge by name, other lists whole, ``None`` removes."""
    if isinstance(whole, dict) and isinstance(patch, dict):
        found = {key: each for key, each in whole.items() if patch.get(key, whole) is not None}
        for key, each in patch.items():
            if each is not None:
                found[key] = merged(found.get(key, {} if isinstance(each, dict) else None), each)
        return found
    if isinstance(whole, list) and isinstance(patch, list) and _all_have_names(whole) and _all_have_names(patch):
        parts = {each["name"]: each for each in patch}
        return [merged(each, parts[each["name"]]) if each["name"] in parts else each for each in whole]
    return patch


def _all_have_names(values: list[Any]) -> bool:
    return all(isinstance(each, dict) and "name" in each for each in values)


def changed(given: Input, owner: Object, changes: Iterable[Change]) -> Input:
    """Return the input as it would be read after some changes."""
    listed = list(changes)
    resources = dict(given.resources)
    objects = given.objects
    for each in listed:
        if each.key is not None:
            resource = resources[each.key]
            properties = merged(dict(resource.properties), _nested(each.property, each.value))
            resources[each.key] = replace(resource, properties=properties)
        elif each.of_pool:
            objects = with_change(objects, each)
    if patch := strategic_merge_patch(listed):
        objects = _apply_patch(objects, owner.origin, patch)
    return replace(given, resources=resources, objects=objects)


def with_change(objects: tuple[Object, ...], change: Change) -> tuple[Object, ...]:
    """Return objects after a change of one of them."""
    return _apply_patch(objects, change.origin, _nested(change.property, change.value))


def _apply_patch(objects: tuple[Object, ...], origin: Origin, patch: dict[str, Any]) -> tuple[Object, ...]:
    return tuple(
        replace(each, content=merged(dict(each.content), patch)) if each.origin == origin else each for each in objects
    )
