"""Several versions of one object in an input, and values of Helm.

The same object read twice counts once. Different versions of one object, as in overlays, are alternatives: each becomes
a separate cluster, and their requests are never added up.

Example: ``overlays/dev`` and ``overlays/prod`` both render Deployment ``ml/llm``, with other replicas. The alternatives
are ``dev`` and ``prod``. A file outside of both folders belongs to each of them.

If the user names folder ``infra`` and file ``new/llm.yaml``, the alternatives are the files ``infra/llm.yaml`` and
``new/llm.yaml``. The other files of ``infra`` belong to both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from pathlib import PurePath
from typing import Any, TypeVar

from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.light import dataclass
from gpu_preflight.reading.documents import UnusableInput
from gpu_preflight.reading.objects import Chart, Object, Part, Unread
from gpu_preflight.reading.unknown import Unknown, choices, dig, mapping

# Max length of a text that intrinsics build. CloudFormation accepts templates of 1 MiB.
MAX_TEXT = 1024**2
# For all templates of an input together: visited values, and characters of built texts.
MAX_STEPS = 10_000_000
MAX_CHARACTERS = 128 * 1024**2
# A parameter of such a type has the name of something. Its value is looked up at deployment.
_LOOKED_UP = ("AWS::SSM::Parameter::Value",)
Item = TypeVar("Item", Object, Chart)
_Path = tuple[str, ...]
# The API server writes them, not the author of an object.
_WRITTEN_BY_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
# Kinds with an identity outside of the cluster.
_NOT_IN_A_CLUSTER = ("ClusterConfig",)
_POOLS = ("NodePool", "EC2NodeClass", "NodeClass", "NodeOverlay")
# Kinds that request capacity and change nothing else in a cluster.
_DEMANDS = ("Deployment", "StatefulSet", "Job", "CronJob", "Pod", "Service", "Ingress", "HorizontalPodAutoscaler")


@dataclass(slots=True)
class Work:
    """The remaining budget for resolving values. Nested outputs and texts double their size."""

    steps: int = MAX_STEPS
    characters: int = MAX_CHARACTERS
    too_large: int = 0

    def step(self, file: str, count: int = 1) -> None:
        """Count visited values.

        Raises:
            UnusableInput: There are too many.
        """
        self.steps -= count
        if self.steps < 0:
            raise UnusableInput(f"{file}: intrinsics must resolve in {MAX_STEPS:,} steps, got more")

    def write(self, characters: int) -> bool:
        """Count characters of built texts. Return ``False`` if there are too many."""
        if characters > min(MAX_TEXT, self.characters):
            return False
        self.characters -= characters
        return True

    def give_up(self) -> Unknown:
        """Return an unknown value for a value that is too large. It equals no other value."""
        self.too_large += 1
        return Unknown(f"${{value {self.too_large} that is too large}}")


def equal(pair: Any) -> bool | None:
    """Return whether the two values of ``Fn::Equals`` are equal; ``None`` if that isn't known."""
    if not isinstance(pair, list) or len(pair) != 2:
        return None
    left, right = pair
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return True if left == right else None
    if isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        return None
    return scalar(left) == scalar(right)


def scalar(value: Any) -> str:
    """Return a scalar as CloudFormation writes it into a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def typed(kind: Any, value: Any) -> Any:
    """Return the value of a parameter of a type, in CloudFormation's notation."""
    if not isinstance(kind, str) or not isinstance(value, (str, int, float)):
        return value
    if kind.startswith(_LOOKED_UP):
        return Unknown(f"{{{{resolve:ssm:{value}}}}}")
    if kind == "CommaDelimitedList" or kind.startswith("List<"):
        return [each.strip() for each in str(value).split(",")]
    return value


def is_partly_unknown(value: Any) -> bool:
    """Whether a part of a value isn't known."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Unknown) or any(map(is_partly_unknown, parts))


def values_of_map(level: Any, keys: list[Any], step: Callable[[int], None]) -> list[Any]:
    """Return every value of a map that some keys, known or known at deployment only, may select.

    Args:
        level: The map.
        keys: The keys.
        step: Counts visited values.
    """
    if not keys:
        return [] if level is None else [level]
    wanted = [str(each) for each in choices(keys[0])] or list(mapping(level))
    step(len(wanted))
    return [value for each in wanted for value in values_of_map(mapping(level).get(each), keys[1:], step)]


def characters(value: Any) -> int:
    """Return how many characters a value has. Nested values count each time."""
    if isinstance(value, Unknown):
        return len(value.expression)
    if isinstance(value, dict):
        return sum(len(key) + characters(each) for key, each in value.items())
    if isinstance(value, list):
        return sum(map(characters, value))
    return len(value) if isinstance(value, str) else 1


def compact(value: Any) -> str:
    """Return a value as JSON, for comparisons and for the names of unknown values."""
    return json.dumps(value, default=str, separators=(",", ":"), sort_keys=True)


def is_template(content: Any) -> bool:
    """Whether a document is a CloudFormation template."""
    resources = mapping(content).get("Resources")
    made = any(str(key).startswith("Fn::") for key in mapping(resources))
    typed = (isinstance(each, dict) and isinstance(each.get("Type"), str) for each in mapping(resources).values())
    return isinstance(resources, dict) and (made or any(typed))


@dataclass(frozen=True, slots=True)
class Versions:
    """Objects and charts of an input, each once in every alternative.

    Attributes:
        objects: The objects.
        charts: The Helm releases.
        alternatives: Names of the alternatives, with the parts of each whose version is unknown. Empty without
            alternatives.
    """

    objects: tuple[Object, ...]
    charts: tuple[Chart, ...]
    alternatives: Mapping[str, tuple[Unread, ...]] = field(default_factory=dict)


def separate_versions(objects: Iterable[Object], charts: Iterable[Chart], folders: Iterable[PurePath] = ()) -> Versions:
    """Keep each object once, and assign different versions to alternatives.

    Args:
        objects: The objects.
        charts: The Helm releases.
        folders: The folders that the user named. Other files are named one by one.
    """
    written, releases = _without_replaced(list(objects)), list(charts)
    named = [each.cluster for each in written] + [each.cluster for each in releases]
    several = len({str(each) for each in named if each is not None}) > 1
    keyed = [(_key(each, several), each) for each in written]
    keyed_charts = [(_chart_key(each, several), each) for each in releases]
    places = _alternative_places([*_conflicts(keyed), *_conflicts(keyed_charts)], set(folders))
    names = list(dict.fromkeys(name for found in places.values() for name in found))
    kept = _deduplicate(keyed, places)
    return Versions(
        tuple(kept),
        tuple(_deduplicate(keyed_charts, places)),
        {name: tuple(_missing(name, places, kept)) for name in names},
    )


def _without_replaced(objects: list[Object]) -> list[Object]:
    """Return the objects without live objects that the input also has as a plain manifest, which will replace them."""
    live = [each for each in objects if each.is_live]
    if not live:
        return objects
    planned = {_key(each, several=False) for each in objects if not each.is_live} - {None}
    return [each for each in objects if not each.is_live or _key(each, several=False) not in planned]


def _key(each: Object, several: bool) -> Hashable:
    """Return the identity of an object in its cluster; ``None`` if it isn't known."""
    name = dig(each.content, "metadata", "name")
    if not isinstance(name, str) or each.kind in _NOT_IN_A_CLUSTER or isinstance(_namespace(each), Unknown):
        return None
    return str(each.cluster) if several else "", each.group, each.kind, each.namespace, name


def _namespace(each: Object) -> Any:
    return dig(each.content, "metadata", "namespace")


def _chart_key(each: Chart, several: bool) -> Hashable:
    return str(each.cluster) if several else "", each.namespace, each.name, each.origin.path


def _content(each: Object | Chart) -> str:
    """Return the author's content of an object, as a text for comparison."""
    if isinstance(each, Chart):
        return compact([each.version, dict(each.values)])
    metadata = {key: value for key, value in mapping(each.content.get("metadata")).items() if _is_written(key, value)}
    body = {key: value for key, value in each.content.items() if key != "status"}
    return compact({**body, "metadata": metadata})


def _is_written(key: str, value: Any) -> bool:
    return key not in _WRITTEN_BY_SERVER and not (key == "namespace" and value == "default")


def _conflicts(keyed: Iterable[tuple[Hashable, Item]]) -> list[list[str]]:
    """Return, for each object with different versions, the files that contain it."""
    versions: dict[Hashable, dict[str, Item]] = {}
    for key, each in keyed:
        if key is not None:
            versions.setdefault(key, {})[each.origin.file] = each
    several = (found for found in versions.values() if len(found) > 1)
    return [list(found) for found in several if len(set(map(_content, found.values()))) > 1]


def _alternative_places(
    conflicts: Iterable[list[str]], folders: AbstractSet[PurePath]
) -> dict[_Path, dict[str, _Path]]:
    """Return the folders or files of alternatives by name, for each place where they differ."""
    found: dict[_Path, dict[str, _Path]] = {}
    for files in conflicts:
        paths = [PurePath(each).parts for each in files]
        start = _common(paths)
        end = _common([path[start:][::-1] for path in paths])
        in_folders = sum(not folders.isdisjoint(PurePath(each).parents) for each in files)
        # A file that is named next to a folder is another version of one file of the folder, not of the whole folder.
        # Next to two folders it isn't known which of them it belongs to.
        if any(len(path) <= start + end for path in paths) or 1 == in_folders < len(files):
            end = 0
        branches = found.setdefault(paths[0][:start], {})
        branches |= {"/".join(path[start : len(path) - end]): path[: len(path) - end] for path in paths}
    return found


def _common(paths: list[_Path]) -> int:
    """Return how many leading parts some paths share."""
    return next((i for i, parts in enumerate(zip(*paths, strict=False)) if len(set(parts)) > 1), min(map(len, paths)))


def _deduplicate(keyed: Iterable[tuple[Hashable, Item]], places: Mapping[_Path, Mapping[str, _Path]]) -> list[Item]:
    """Return each item once in each alternative. GPU452 reports two versions in one file, so both stay."""
    found: dict[Hashable, Item] = {}
    written = list(keyed)
    often = Counter(key for key, _ in written)
    for number, (key, each) in enumerate(written):
        item = replace(each, alternative=_alternative_name(each.origin.file, places)) if places else each
        same = number if key is None or often[key] == 1 else (key, item.alternative, _content(item))
        before = found.get(same)
        if before is not None and before.origin.resource and item.origin.resource:
            # Two template resources may apply the same object. Keep both.
            same = number
        if before is None or item.origin.resource:
            found[same] = item
    return list(found.values())


def _alternative_name(file: str, places: Mapping[_Path, Mapping[str, _Path]]) -> str:
    parts = PurePath(file).parts
    pairs = (pair for found in places.values() for pair in found.items())
    every = [(len(place), name) for name, place in pairs if parts[: len(place)] == place]
    return max(every)[1] if every else ""


def _missing(name: str, places: Mapping[_Path, Mapping[str, _Path]], objects: Iterable[Object]) -> Iterable[Unread]:
    """Yield an unread part for each place that has no version under the alternative's name."""
    for found in places.values():
        if name in found:
            continue
        others = [each for each in objects if each.alternative in found]
        held: frozenset[Part] = frozenset(part for each in others for part in _parts(each))
        if held:
            text = f"it is unknown which of {', '.join(found)} belongs to {name}"
            yield Unread(others[0].origin, text, held)


def _parts(each: Object) -> tuple[Part, ...]:
    if each.kind in _POOLS:
        return ("pools",)
    if each.kind in _DEMANDS and each.namespace != KUBE_SYSTEM:
        return ()
    return ("software", "device-plugin", "objects")
