"""Two values as they are written, compared and shown."""

from __future__ import annotations

from typing import Any

from gpu_preflight.reading.unknown import Unknown

_SHOWN = 60
# Characters that are shown before the first difference.
_BEFORE = 20
# Keys that name a member of a list: of containers, tags, block devices, requirements and tag specifications.
_NAMES = ("name", "Name", "key", "Key", "deviceName", "DeviceName", "ResourceType")


def plain(value: Any) -> Any:
    """Return a value to compare; one that only deployment knows is its expression."""
    if isinstance(value, Unknown):
        return value.expression
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def differ(before: Any, after: Any) -> bool:
    """Whether two values are written differently."""
    return bool(plain(before) != plain(after))


def moved(name: str, before: Any, after: Any) -> str:
    """Return how a value changes, in one line; of long values the part around the first difference."""
    texts = _text(before), _text(after)
    pairs = enumerate(zip(*texts, strict=False))
    alike = next((index for index, (one, other) in pairs if one != other), min(map(len, texts)))
    return f"{name}: {' -> '.join(_cut(each, alike) for each in texts)}"


def leaf_changes(name: str, before: Any, after: Any, *, joint: str = ".") -> list[str]:
    """Return what differs, one line for each value inside mappings and inside lists of mappings.

    A member of a list is found by its name, e.g. ``BlockDeviceMappings[/dev/xvda].Ebs.VolumeSize: 200 -> 300``. Where
    members have none, one that goes and one that comes each get a line.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in dict.fromkeys((*before, *after)) if differ(before.get(key), after.get(key))]
        named = [(f"{name}{joint}{key}" if name else str(key), before.get(key), after.get(key)) for key in keys]
        return [line for each in named for line in leaf_changes(*each, joint=joint)]
    if isinstance(before, list) and isinstance(after, list):
        return _member_changes(name, before, after, joint) or [moved(name, before, after)]
    return [moved(name, before, after)]


def _member_changes(name: str, before: list[Any], after: list[Any], joint: str) -> list[str]:
    """Return what differs in two lists of mappings; nothing for other lists, or for another order."""
    if not all(isinstance(each, dict) for each in (*before, *after)):
        return []
    was, now = _by_name(before), _by_name(after)
    if was is None or now is None:
        gone = [moved(name, each, None) for each in before if each not in after]
        return gone + [moved(name, None, each) for each in after if each not in before]
    keys = [key for key in dict.fromkeys((*was, *now)) if differ(was.get(key), now.get(key))]
    if len(was) == len(now) == 1 and keys and was.keys() == now.keys():
        return leaf_changes(name, was[keys[0]], now[keys[0]], joint=joint)
    named = [(f"{name}[{key}]", was.get(key), now.get(key)) for key in keys]
    return [line for each in named for line in leaf_changes(*each, joint=joint)]


def _by_name(members: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the members of a list by their name, of pairs the value alone; ``None`` if names lack or repeat."""
    found: dict[str, Any] = {}
    for each in members:
        key = next((key for key in _NAMES if isinstance(each.get(key), str)), None)
        if key is None or each[key] in found:
            return None
        rest = {name: value for name, value in each.items() if name != key}
        found[each[key]] = next(iter(rest.values())) if [name.lower() for name in rest] == ["value"] else each
    return found


def _cut(text: str, alike: int) -> str:
    """Return a text, or if it is long, what it has from a little before the first difference on."""
    if len(text) <= _SHOWN:
        return text
    start = max(0, alike - _BEFORE) if alike > _SHOWN - _BEFORE else 0
    end = start + _SHOWN - 3
    return f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_inside(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(str(plain(each)) for each in value)
    return str(plain(value))


def _inside(value: Any) -> str:
    return f"({', '.join(str(plain(each)) for each in value)})" if isinstance(value, list) else str(plain(value))
