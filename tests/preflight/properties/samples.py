"""Inputs of other tests as documents that a test may change before it writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gpu_preflight.reading.documents import read
from gpu_preflight.reading.versions import is_template
from tests.preflight.rule_cases import FIXTURES
from tests.preflight.scheduling.decided import CASES, Decided
from tests.preflight.world_files import LATER, written

Step = str | int
Place = tuple[Step, ...]
_PARAMETER = "ValueOfDeployment"
# An intrinsic function is one value: its arguments are the way to find the value.
_INTRINSICS = ("Ref", "Condition")


@dataclass(frozen=True, slots=True)
class Sample:
    """An input as documents.

    Attributes:
        name: Where it is from.
        documents: Its documents; a world begins with its template.
        world: Whether its objects are in a manifest of its template.
        blank: Name of the value that only deployment sets.
    """

    name: str
    documents: Sequence[Any]
    world: bool = False
    blank: str = ""

    def places(self) -> Iterator[Place]:
        """Yield the place of each leaf, beginning with the number of its document."""
        for number, document in enumerate(self.documents):
            if isinstance(document, dict):
                placed = _in_template(document) if is_template(document) else _below(document, ())
                yield from ((number, *place) for place, value in placed if is_leaf(value))

    def blanked(self, place: Place) -> Sample:
        """Return the sample with a value that only deployment sets."""
        number, *path = place
        documents = list(self.documents)
        document = documents[int(number)] = deepcopy(documents[int(number)])
        templated = is_template(document)
        removed = templated and path[0] == "Parameters"
        if removed:
            del _at(document, path[:-1])[path[-1]]
        else:
            _at(document, path[:-1])[path[-1]] = self._blank(templated)
        if templated and not self.world:
            document.setdefault("Parameters", {})[_PARAMETER] = {"Type": "String"}
        blank = "Later" if self.world else str(path[1]) if removed else _PARAMETER
        return Sample(self.name, documents, self.world, blank)

    def _blank(self, templated: bool) -> Any:
        if self.world:
            return {"Ref": "Later"} if templated else LATER
        return {"Ref": _PARAMETER} if templated else f"${{{_PARAMETER}}}"

    def write(self, folder: Path) -> list[str]:
        """Write the files, and return their names."""
        if self.world:
            template, *objects = self.documents
            return [str(written({"resources": template["Resources"], "objects": objects}, folder))]
        files = [folder / f"{number}.json" for number in range(len(self.documents))]
        for file, document in zip(files, self.documents, strict=True):
            file.write_text(json.dumps(document))
        return [str(each) for each in files]

    def title(self, place: Place) -> str:
        """Return a place by its kind: ``Deployment spec.template.spec.containers[].image``."""
        number, *path = place
        document = self.documents[int(number)]
        kind = str(document.get("kind", ""))
        if is_template(document):
            kind = "template"
            if len(path) > 2 and path[0] == "Resources":
                kind, path = str(document["Resources"][path[1]].get("Type")), path[2:]
                path = path[1:] if path[0] == "Properties" and len(path) > 1 else path
        steps = "".join("[]" if isinstance(each, int) else f".{each}" for each in path)
        return f"{kind} {steps.removeprefix('.')}"


def _at(value: Any, path: Sequence[Step]) -> Any:
    for step in path:
        value = value[step]
    return value


def _in_template(template: dict[str, Any]) -> Iterator[tuple[Place, Any]]:
    for name, parameter in template.get("Parameters", {}).items():
        if "Default" in parameter:
            yield ("Parameters", name, "Default"), parameter["Default"]
    for name, resource in template.get("Resources", {}).items():
        if isinstance(resource, dict) and not name.startswith("Fn::"):
            yield from _below(resource.get("Properties"), ("Resources", name, "Properties"))


def _below(value: Any, path: Place) -> Iterator[tuple[Place, Any]]:
    """Yield each value below one, mappings and lists included, and its place."""
    listed = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in listed:
        yield (*path, step), each
        if not _is_intrinsic(each):
            yield from _below(each, (*path, step))


def is_leaf(value: Any) -> bool:
    """Whether a parameter or a placeholder can replace a value: a scalar, an intrinsic or a list of them."""
    if isinstance(value, list):
        return all(map(is_leaf, value))
    return not value or not isinstance(value, dict) or _is_intrinsic(value)


def _is_intrinsic(value: Any) -> bool:
    """Whether a value is an intrinsic function of CloudFormation."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    [key] = value
    return key in _INTRINSICS or str(key).startswith("Fn::")


def fixtures() -> dict[str, Callable[[], Sample]]:
    """Return what reads each fixture of the rules, by name."""
    files = {f"{each.parent.name}/{each.stem}": each for each in sorted(FIXTURES.glob("*/*.yaml"))}
    return {name: partial(_fixture, name, file) for name, file in files.items()}


def _fixture(name: str, file: Path) -> Sample:
    return Sample(name, [each.content for each in read(str(file))])


def decided() -> dict[str, Callable[[], Sample]]:
    """Return what reads each case that the scheduler decided, by name."""
    return {f"decided/{name}": partial(_decided, name) for name in CASES}


def _decided(name: str) -> Sample:
    case = Decided.read(name)
    template = {"Resources": case.world["resources"]}
    return Sample(f"decided/{name}", [template, *case.world["objects"], case.pod], world=True)
