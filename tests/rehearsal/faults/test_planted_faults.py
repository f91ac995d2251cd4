"""Each fault changes only the types that it declares, in an app without errors of `check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.rehearsal.faults.apps import CORRECT
from tests.rehearsal.faults.assembly import OBJECT, CloudAssembly, Resource, objects_of
from tests.rehearsal.faults.catalogue import FAULTS, PAIRS, faultless, planted_faults, planted_pairs

# `make rehearse` and `tools/planted.py` run the other faults, because each takes seconds.
SMALL = ("own-app", "without-account", "bottlerocket", "time-slices", "shared-by-mps")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


def kind_of(resource: Resource) -> str:
    """Return the kind of the object that a resource applies, else the type of the resource."""
    return str(objects_of(resource)[0]["kind"] if resource["Type"] == OBJECT else resource["Type"])


def kinds_that_differ(old: CloudAssembly, new: CloudAssembly) -> set[str]:
    """Return the types and kinds that differ, except resources that no longer depend on a removed one."""
    before, after = old.resources, new.resources

    def waits(resource: Resource) -> dict[str, object]:
        kept = [each for each in resource.get("DependsOn", ()) if each in before and each in after]
        return {**resource, "DependsOn": kept}

    found = {kind_of({**before, **after}[id]) for id in before.keys() ^ after.keys()}
    shared = before.keys() & after.keys()
    found |= {kind_of(after[id]) for id in shared if waits(before[id]) != waits(after[id])}
    return found | ({"Output"} if old.template.get("Outputs") != new.template.get("Outputs") else set())


def errors_of(folder: Path) -> list[str]:
    report = check(read_input([str(folder)]))
    pending = [str(each.workload) for each in report.pending]
    return [f"{each.rule.id}: {each.problem.message}" for each in report.findings if each.counts] + pending


def test_there_are_45_faults_25_pairs_and_20_correct_apps() -> None:
    assert (len(FAULTS), len(PAIRS), len(CORRECT)) == (45, 25, 20)
    assert not FAULTS.keys() & PAIRS.keys()


@pytest.mark.parametrize("id", [*FAULTS, *PAIRS])
def test_each_is_described(id: str) -> None:
    each = {**FAULTS, **PAIRS}[id]

    assert each.description.endswith(".")
    assert each.consequence.endswith(".")
    assert each.source.startswith("https://")
    assert not each.is_named_in("")


def test_the_faultless_apps_have_no_error(work: Path) -> None:
    assert errors_of(faultless(work).folder) == errors_of(faultless(work, "mine-with-import").folder) == []


@pytest.mark.parametrize("id", FAULTS)
def test_a_fault_changes_only_the_declared_types(id: str, work: Path) -> None:
    before = faultless(work)
    [(fault, folder)] = planted_faults(work, [id])

    assert kinds_that_differ(before, assembly_at(folder)) == fault.changes


@pytest.mark.parametrize("id", PAIRS)
def test_a_pair_differs_only_in_the_declared_types(id: str, work: Path) -> None:
    [(pair, old, new)] = planted_pairs(work, [id])

    found = kinds_that_differ(assembly_at(old), assembly_at(new))
    for stack in ("Consumer",) if pair.app == "mine-with-import" else ():
        found |= kinds_that_differ(assembly_at(old).stack(stack), assembly_at(new).stack(stack))
    assert found == pair.changes


def assembly_at(folder: Path) -> CloudAssembly:
    return CloudAssembly(folder, "Mine")


def test_a_planted_fault_leaves_the_faultless_app_as_it_was(work: Path) -> None:
    before = {each: each.read_bytes() for each in faultless(work).folder.glob("*.json")}

    [(_, folder)] = planted_faults(work / "again", ["p5-with-arm-image"])

    assert {each: each.read_bytes() for each in before} == before
    assert "AL2023_ARM_64_NVIDIA" in json.dumps(assembly_at(folder).template)


@pytest.mark.parametrize("name", SMALL)
def test_a_correct_app_has_no_error(name: str, tmp_path: Path) -> None:
    assert errors_of(CORRECT[name](tmp_path / name)) == []
