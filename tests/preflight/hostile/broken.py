"""Broken inputs: real templates and manifests with values replaced or removed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import Phase, given, settings

from gpu_preflight.judging.check import check
from gpu_preflight.judging.explain import explain
from gpu_preflight.judging.review import review
from gpu_preflight.reading.documents import UnusableInput, parse
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.report.review_view import review_view
from tests.preflight.rule_cases import FIXTURES
from tests.preflight.strategies.pods import pods
from tests.preflight.strategies.vocabulary import Json
from tests.preflight.strategies.worlds import worlds

_ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    10**17,
    10**40,
    1.5,
    -0.0,
    float("1e308"),
    "",
    " ",
    "x",
    "true",
    "-1",
    "0",
    "1e3",
    "9" * 40,
    "nvidia.com/gpu",
    "p5.48xlarge",
    "²",
    "\x00",
    "\ue0009\ue001",
    "${",
    "${}",
    "${AWS::Region}",
    "${Cluster}",
    "{{resolve:ssm:/x}}",
    "arn:aws:iam::aws:policy/x",
    "a" * 3000,
    "%s{}",
    [],
    [[]],
    [None],
    [{}],
    ["x", 1, None, {}],
    {},
    {"": ""},
    {"x": None},
    {"Ref": "AWS::NoValue"},
    {"Ref": "Cluster"},
    {"Ref": "Missing"},
    {"Ref": []},
    {"Fn::GetAtt": ["Cluster", "Arn"]},
    {"Fn::GetAtt": "Cluster"},
    {"Fn::Sub": "${Cluster}-${AWS::StackName}"},
    {"Fn::Sub": ["${A}", {"A": {"Ref": "AWS::NoValue"}}]},
    {"Fn::Join": ["", ["a", {"Ref": "Cluster"}]]},
    {"Fn::Join": [",", {"Ref": "Missing"}]},
    {"Fn::Select": ["²", ["a"]]},
    {"Fn::Select": [0, {"Fn::GetAZs": ""}]},
    {"Fn::Split": ["", "a"]},
    {"Fn::If": ["Missing", "a", {"Ref": "AWS::NoValue"}]},
    {"Fn::FindInMap": ["a", "b", "c"]},
    {"Fn::ImportValue": {"Ref": "Cluster"}},
    {"Fn::Base64": {"Ref": "Missing"}},
    {"Fn::ToJsonString": {"Ref": "AWS::NoValue"}},
    {"Fn::Length": []},
    {"Fn::Transform": {}},
)
_DELETED = object()
_DRAWN = 20


@cache
def realistic() -> list[Callable[[], list[Any]]]:
    """Functions that return documents: one for each fixture of a rule, and for some drawn clusters."""
    files = sorted(FIXTURES.glob("GPU*/*.yaml"))
    return [*(partial(_documents, file) for file in files), *(partial(list, each) for each in _drawn())]


def _documents(file: Path) -> list[Any]:
    return [each.content for each in parse(str(file), file.read_text())]


def _drawn() -> list[list[Any]]:
    found: list[list[Any]] = []

    @settings(max_examples=_DRAWN, phases=[Phase.generate])
    @given(worlds(), pods(most=1))
    def keep(world: Json, some: list[Json]) -> None:
        found.append([{"Resources": world["resources"]}, *world["objects"], *some])

    keep()
    return found


def broken(random: Random, documents: list[Any]) -> list[Any]:
    """Return a copy with a few random parts replaced, deleted, doubled, moved or retyped."""
    whole = [copy.deepcopy(documents)]
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        places = list(_places(whole))
        if not places:
            break
        holder, key = random.choice(places)
        new = _changed(random, holder[key], places)
        if new is _DELETED:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(new)
    return whole[0] if whole and isinstance(whole[0], list) else whole


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield value, key
        yield from _places(child)


def _changed(random: Random, value: Any, places: list[tuple[Any, Any]]) -> Any:
    way = random.random()
    if way < 0.5:
        return random.choice(_ODD)
    if way < 0.6:
        return _DELETED
    if way < 0.7:
        holder, key = random.choice(places)
        return holder[key]
    if way < 0.8:
        return [value, value]
    if way < 0.85:
        return {"key": value, "x": value}
    if way < 0.9 and isinstance(value, dict) and value:
        return {random.choice(("", "Ref", "kind", "Fn::Sub", *value)): each for each in value.values()}
    return json.dumps(value)


def written(documents: list[Any], file: Path) -> Path:
    """Write documents into a file that preflight reads."""
    file.write_text("\n---\n".join(json.dumps(each) for each in documents))
    return file


def judged(file: Path, before: Input | None = None) -> Input | None:
    """Read, check, explain and review a file; ``None`` when it is refused."""
    refused = ""
    try:
        given = read_input([str(file)])
        report = check(given)
        for case in report.cases:
            explain(case)
        if before is not None:
            for old, new in ((before, given), (given, before)):
                assert review_view(review(old, new)).headline.startswith("GPU review: ")
    except UnusableInput as error:
        refused = str(error)
    assert "\n" not in refused
    assert len(refused) < 2000
    return None if refused else given
