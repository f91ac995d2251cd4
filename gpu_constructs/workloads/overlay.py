"""Fields of a pod that the app sets itself, merged over the library's fields."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from gpu_facts.access import access_token_kind
from gpu_facts.merging import merged
from gpu_facts.refusals import did_you_mean

# Keys that identify the items of a list, by the name of the list. Every other list is one value.
# Source: kubernetes/kubernetes v1.36.3 staging/src/k8s.io/api/core/v1/types.go (patchMergeKey)
MERGE_KEYS: Final = MappingProxyType(
    {
        "containers": "name",
        "env": "name",
        "hostAliases": "ip",
        "imagePullSecrets": "name",
        "initContainers": "name",
        "ports": "containerPort",
        "resourceClaims": "name",
        "schedulingGates": "name",
        "topologySpreadConstraints": "topologyKey",
        "volumeDevices": "devicePath",
        "volumeMounts": "mountPath",
        "volumes": "name",
    }
)
# Lists whose items have exactly one kind, so that another kind replaces the first.
_OF_ONE_KIND = ("env", "resourceClaims", "volumes")
# Fields around the spec in a manifest.
_AROUND_THE_SPEC = ("apiVersion", "kind", "metadata", "spec", "status", "template")
_CONTAINERS = ("containers", "initContainers")


def parse_overlay(who: object, overlay: object) -> Mapping[str, Any]:
    """Return a checked overlay of a pod.

    Raises:
        TypeError: The value isn't a mapping that JSON can represent.
        ValueError: It removes the containers, an item of a list lacks its key, or it contains an access token.
    """
    if not isinstance(overlay, Mapping):
        raise TypeError(
            f"{who}: overlay must be a mapping of fields of a pod's spec, got {overlay!r}; write {{'field': value}}"
        )
    wrapped = next((each for each in _AROUND_THE_SPEC if each in overlay), None)
    if wrapped is not None:
        raise ValueError(
            f"{who}: overlay must have fields of a pod's spec, got {wrapped!r}; leave {wrapped!r} out, because the "
            "overlay applies to the spec"
        )
    for place, value in _leaves(overlay, "overlay"):
        if not _is_plain(value):
            raise TypeError(
                f"{who}: {place} must consist of mappings with names, lists, strings, finite numbers, true, false and "
                f"None, got {value!r}; convert it"
            )
        if isinstance(value, str) and (kind := access_token_kind(value)) is not None:
            raise ValueError(
                f"{who}: {place} must contain no secret in the template, got {kind}; put it into a Secret of the "
                "cluster, and write a secretKeyRef [GPU413]"
            )
    if "containers" in overlay and overlay["containers"] is None:
        raise ValueError(f"{who}: overlay must not remove the containers, got None; leave containers out")
    _refuse_unless_told_apart(who, overlay, "overlay")
    copied: Mapping[str, Any] = MappingProxyType(_copied(overlay))
    return copied


def with_overlay(who: object, pod: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a pod with an overlay applied to it.

    Raises:
        ValueError: The overlay has a new container without image.
    """
    for kind in _CONTAINERS:
        _refuse_unknown(who, kind, pod.get(kind) or (), overlay.get(kind) or ())
    found: dict[str, Any] = _without_none(merged(pod, overlay, other=_laid_over))
    return found


def _refuse_unknown(
    who: object, kind: str, there: Sequence[Mapping[str, Any]], said: Sequence[Mapping[str, Any]]
) -> None:
    names = [each["name"] for each in there]
    for each in said:
        if each["name"] not in names and not each.get("image"):
            known = ", ".join(names) or "none"
            raise ValueError(
                f"{who}: overlay must name one of the {kind}, {known}, or give a new one its image, got "
                f"{each['name']!r}{did_you_mean(str(each['name']), names)}"
            )


def _laid_over(field: str, ours: Any, theirs: Any) -> Any:
    if field not in MERGE_KEYS or not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs
    key = MERGE_KEYS[field]
    found = {each[key]: each for each in ours}
    for each in theirs:
        found[each[key]] = _item(field, found.get(each[key], {}), each)
    return list(found.values())


def _item(field: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in ours.items() if key in theirs} if field in _OF_ONE_KIND else ours
    return merged(kept, theirs, other=_laid_over)


def _refuse_unless_told_apart(who: object, value: object, place: str) -> None:
    for field, inner in value.items() if isinstance(value, Mapping) else ():
        listed, key = isinstance(inner, (list, tuple)), MERGE_KEYS.get(field)
        if key is not None and inner is not None and not listed:
            raise ValueError(f"{who}: {place}.{field} must be a list, got {inner!r}; write [...]")
        for at, each in enumerate(inner) if listed else ():
            if key is not None and (not isinstance(each, Mapping) or each.get(key) is None):
                raise ValueError(
                    f"{who}: {place}.{field} must have {key} in each item, got {each!r}; add it, because it identifies "
                    "the item"
                )
            _refuse_unless_told_apart(who, each, f"{place}.{field}[{at}]")
        _refuse_unless_told_apart(who, inner, f"{place}.{field}")


def _leaves(value: object, place: str) -> Iterator[tuple[str, object]]:
    """Yield each value that is neither a mapping with names nor a list, with its place."""
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{at}]")
    else:
        yield place, value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(each) for each in value] if isinstance(value, (list, tuple)) else value


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(each) for each in value] if isinstance(value, list) else value
