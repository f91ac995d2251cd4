"""Each field that can keep a GPU pod from running is checked, or `fields.yaml` says why it needs no check."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts.schemas import find_schema
from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests.preflight.world_files import written

FOLDER = Path(__file__).parent
TABLE: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load((FOLDER / "fields.yaml").read_text())
WORLDS: dict[str, Any] = yaml.safe_load((FOLDER / "worlds.yaml").read_text())


@dataclass(frozen=True, slots=True)
class Section:
    """A part of an object whose fields are changed, each alone.

    Attributes:
        world: The input, by its name in `worlds.yaml`.
        kind: Kind of the object that changes.
        root: Place of the part in the object.
        schema: ``apiVersion/kind`` of its schema; empty for labels, which have none.
        depth: How many levels of fields are listed separately; 0 for all of them.
    """

    world: str
    kind: str
    root: tuple[str | int, ...] = ("spec",)
    schema: str = ""
    depth: int = 1


_POD = "v1/Pod"
_MAIN = ("spec", "containers", 0)
SECTIONS = {
    "Pod": Section("pod", "Pod", schema=_POD),
    "Container": Section("pod", "Pod", _MAIN, _POD),
    "PodSecurityContext": Section("pod", "Pod", ("spec", "securityContext"), _POD),
    "ContainerSecurityContext": Section("pod", "Pod", (*_MAIN, "securityContext"), _POD),
    "Volume": Section("volume", "Pod", ("spec", "volumes", 0), _POD),
    "Job": Section("job", "Job", schema="batch/v1/Job"),
    "CronJob": Section("cron job", "CronJob", schema="batch/v1/CronJob"),
    "Deployment": Section("deployment", "Deployment", schema="apps/v1/Deployment"),
    "StatefulSet": Section("stateful set", "StatefulSet", schema="apps/v1/StatefulSet"),
    "ResourceQuota": Section("quota", "ResourceQuota", schema="v1/ResourceQuota"),
    "LimitRange": Section("limits", "LimitRange", schema="v1/LimitRange"),
    "ClusterQueue": Section("queued", "ClusterQueue", schema="kueue.x-k8s.io/v1beta2/ClusterQueue", depth=0),
    "LocalQueue": Section("queued", "LocalQueue", schema="kueue.x-k8s.io/v1beta2/LocalQueue", depth=0),
    "ResourceFlavor": Section("queued", "ResourceFlavor", schema="kueue.x-k8s.io/v1beta2/ResourceFlavor", depth=0),
    "QueuedJob": Section("queued", "Job", ("metadata", "labels")),
    "NodePool": Section("node pool", "NodePool", schema="karpenter.sh/v1/NodePool", depth=0),
}
CHANGES = [
    (section, field, value)
    for section, table in TABLE.items()
    for field, values in table["changes"].items()
    for value in values
]


@dataclass(frozen=True, slots=True)
class Result:
    """The result for the GPU workload of an input.

    Attributes:
        answer: The answer.
        conditions: On what it depends.
        errors: Rules of certain and possible errors.
    """

    answer: Answer
    conditions: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def runs(self) -> bool:
        """Whether it is a yes without anything against it."""
        return self.answer is Answer.YES and not self.errors


def result_of(world: str, objects: list[Any]) -> Result:
    """Return the result for the one GPU workload of a world with some objects."""
    resources = WORLDS["resources"] | WORLDS["worlds"][world].get("resources", {})
    with tempfile.TemporaryDirectory() as folder:
        report = check(read_input([str(written({"resources": resources, "objects": objects}, Path(folder)))]))
    [case] = report.cases
    [verdict] = report.explanation(case).verdicts
    errors = (each.rule.id for each in report.findings if each.rule.severity == "error")
    return Result(verdict.answer, (*verdict.rests_on, *verdict.runs_if), tuple(errors))


def objects_of(world: str) -> list[Any]:
    return [*deepcopy(WORLDS["objects"]), *deepcopy(WORLDS["worlds"][world]["objects"])]


@cache
def unchanged(world: str) -> Result:
    return result_of(world, objects_of(world))


def steps_of(field: str, section: Section) -> list[str | int]:
    """Return the steps to a field: ``[]`` is the first element of a list."""
    if not section.schema:
        return [field]
    parts = field.split(".")
    return [step for part in parts for step in ((part[:-2], 0) if part.endswith("[]") else (part,))]


def set_value(target: Any, steps: list[str | int], value: Any) -> None:
    """Set a value, and make the mappings and lists on the way."""
    step, *rest = steps
    if isinstance(step, int) and not target:
        target.append({})
    if not rest:
        target[step] = value
    elif isinstance(target, list):
        set_value(target[int(step)], rest, value)
    else:
        set_value(target.setdefault(str(step), [] if isinstance(rest[0], int) else {}), rest, value)


def changed(name: str, field: str, value: Any) -> Result:
    """Return the result of an input with one field of one object changed."""
    section = SECTIONS[name]
    objects = objects_of(section.world)
    target = next(each for each in objects if each["kind"] == section.kind)
    set_value(target, [*section.root, *steps_of(field, section)], value)
    return result_of(section.world, objects)


def fields(schema: Mapping[str, Any], depth: int, path: str = "") -> Iterator[str]:
    """Yield the fields of a schema, down to a depth; an object without known fields counts as one field."""
    for name, inner in schema["properties"].items():
        below = inner.get("items", inner)
        place = f"{path}{name}{'[]' if below is not inner and 'properties' in below else ''}"
        if "properties" in below and depth != 1:
            yield from fields(below, depth - 1, f"{place}.")
        else:
            yield place.removesuffix("[]")


def schema_at(section: Section) -> Mapping[str, Any]:
    found = find_schema(section.schema)
    assert found is not None
    for step in section.root:
        found = found["items"] if isinstance(step, int) else found["properties"][step]
    return found


@pytest.mark.parametrize("world", WORLDS["worlds"])
def test_the_pod_of_each_world_runs(world: str) -> None:
    assert unchanged(world).runs, unchanged(world)


@pytest.mark.parametrize(
    ("name", "field", "value"), CHANGES, ids=[f"{each[0]}-{each[1]}-{each[2]}"[:60] for each in CHANGES]
)
def test_a_field_that_can_keep_the_pod_from_running_changes_the_result(name: str, field: str, value: Any) -> None:
    found = changed(name, field, value)

    assert found != unchanged(SECTIONS[name].world), json.dumps(value)


@pytest.mark.parametrize("name", [name for name, each in SECTIONS.items() if each.schema])
def test_every_field_is_in_the_table(name: str) -> None:
    table = TABLE[name]
    listed = {*table["changes"], *table["no_check"]}
    known = list(fields(schema_at(SECTIONS[name]), SECTIONS[name].depth))

    assert [each for each in known if not listed.intersection(enclosing_fields(each))] == []
    assert sorted(listed.difference(one for each in known for one in enclosing_fields(each))) == []


def enclosing_fields(field: str) -> list[str]:
    """Return a field and those that it is in."""
    parts = field.split(".")
    return [".".join(parts[:count]).removesuffix("[]") for count in range(1, len(parts) + 1)]
