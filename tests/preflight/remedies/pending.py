"""Inputs whose GPU pods stay Pending, each with the fix that an expert makes first (`pending.yaml`)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.remedies.remedy import Remedy, fixes_by_workload

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True, slots=True)
class PendingCase:
    """An input and its fix; `pending.yaml` describes the fields."""

    name: str
    base: str
    expert: list[Any]
    pools: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)
    args: list[str] = field(default_factory=list)
    replicas: int = 1
    more: list[dict[str, Any]] = field(default_factory=list)

    def documents(self) -> list[dict[str, Any]]:
        """Return the input."""
        found = list(yaml.safe_load_all((HERE / "bases" / f"{self.base}.yaml").read_text()))
        for name, patch in self.pools.items():
            self._patched(found, name, patch)
        spec = found[-1]["spec"]
        spec["replicas"] = self.replicas
        spec["template"]["spec"].update(self.pod)
        [container] = spec["template"]["spec"]["containers"]
        if self.limits:
            container["resources"] = {"limits": dict(self.limits)}
        if self.args:
            container["args"] = self.args
        return [*found, *self.more]

    def _patched(self, documents: list[dict[str, Any]], name: str, patch: Any) -> None:
        for each in documents:
            if f"{each.get('kind')} {each.get('metadata', {}).get('name')}" == name:
                _merge(each, patch)
                return
            if name in each.get("Resources", {}):
                _merge(each["Resources"][name]["Properties"], patch)
                return
        raise KeyError(name)


def _merge(whole: dict[str, Any], patch: Mapping[str, Any]) -> None:
    for key, each in patch.items():
        if isinstance(each, Mapping) and isinstance(whole.get(key), dict):
            _merge(whole[key], each)
        else:
            whole[key] = copy.deepcopy(each)


def read_pending() -> list[PendingCase]:
    """Return all cases."""
    return [PendingCase(**each) for each in yaml.safe_load((HERE / "pending.yaml").read_text())]


def fixes(case: PendingCase, folder: Path) -> tuple[Remedy, ...]:
    """Return the fixes that are suggested for a case.

    Raises:
        AssertionError: Its pods don't stay Pending.
    """
    file = folder / "input.yaml"
    file.write_text("\n---\n".join(map(json.dumps, case.documents())))
    given = read_input([str(file)])
    report = check(given)
    [found] = [each for each in report.cases if each.judged_workloads]
    verdicts = report.explanation(found).verdicts
    [verdict] = [each for each in verdicts if each.workload.name == "Deployment ml/chat"]
    assert verdict.answer.value == "no", (case.name, verdict.answer)
    return fixes_by_workload(given, found, verdicts).get(id(verdict.workload), ((), None))[0]


def is_right(case: PendingCase, fix: Remedy | None) -> bool:
    """Whether a fix is what the expert does, no more and no less."""
    options = case.expert if isinstance(case.expert[0], list) else [case.expert]
    return fix is not None and any(_matches(each, fix) for each in options)


def _matches(expected: list[dict[str, str]], fix: Remedy) -> bool:
    changes = list(_settings(fix))
    found = [[each for each in changes if _is(wanted, each)] for wanted in expected]
    return all(found) and sum(map(len, found)) == len(changes)


def _settings(fix: Remedy) -> Iterator[tuple[str, str, str]]:
    for each in fix.changes:
        yield each.origin.path, (each.written or each.property)[-1], json.dumps(each.value, default=str)


def _is(wanted: Mapping[str, str], change: tuple[str, str, str]) -> bool:
    path, name, value = change
    on = path == wanted["object"] or path.endswith(("/" + wanted["object"], " " + wanted["object"]))
    return on and name == wanted["set"] and re.search(wanted["value"], value) is not None


def main() -> None:
    """Print how many first fixes are right, and those that aren't."""
    import os
    import tempfile

    os.environ.setdefault("SOURCE_DATE_EPOCH", "1795219200")
    right = 0
    cases = read_pending()
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = fixes(case, Path(folder))
            except AssertionError as error:
                print(error)
                continue
        first = found[0] if found else None
        right += is_right(case, first)
        if not is_right(case, first):
            print(f"{case.name}: {first.text if first else 'no fix'}")
            for one in first.changes if first else ():
                print("     ", one.origin.path, one.property, json.dumps(one.value, default=str)[:150])
    print(f"{right} of {len(cases)} first fixes are right")


if __name__ == "__main__":
    main()
