"""Every instance type in every kind of pool, on every system, bought in every way: emitted right or refused."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_facts.hardware.catalogue import catalogue
from tests.conftest import ROOT
from tests.emitted import Matrix
from tests.linting import CDKS_OWN, cfn_lint, each_shape_once
from tests.matrix import CAPACITIES, KINDS, ON_NEWER, SYSTEMS, Tried
from tests.schemas import validate_custom
from tests.templates import manifests_of


@pytest.fixture
def matrix(tried: Matrix) -> list[Tried]:
    """The results of all combinations."""
    return [tried(kind) for kind in (*KINDS, *ON_NEWER)]


# On the newer Kubernetes words differ that cfn-lint does not know of.
@pytest.mark.linted
@pytest.mark.parametrize("kind", ["self-managed", "managed", "karpenter", "auto mode"])
def test_cfn_lint_finds_nothing(tried: Matrix, kind: str, tmp_path: Path) -> None:
    # Resources that differ only in names and figures are checked once: types and sizes are compared with API models.
    templates = tried(kind).templates
    for name, text in zip(templates, each_shape_once(templates.values()), strict=True):
        (tmp_path / name).write_text(text)

    # E3010 counts resources, of which a stack here has more than CloudFormation takes. E3628 knows the types that
    # have a price in us-east-1, and so neither p5e nor p6e-gb200; ours are held against botocore.
    assert cfn_lint(tmp_path.iterdir(), ignore=(*CDKS_OWN, "E3010", "E3628")) == []


@pytest.mark.parametrize("kind", [*KINDS, *ON_NEWER])
def test_every_refusal_names_a_fact(tried: Matrix, kind: str) -> None:
    assert tried(kind).unexplained == []


def test_what_is_emitted_and_refused(matrix: list[Tried], snapshot_yaml: SnapshotAssertion) -> None:
    emitted = {place: count for each in matrix for place, count in each.emitted.items()}
    refused = sum((collections.Counter(each.refused) for each in matrix), collections.Counter())
    tried = sum(emitted.values()) + refused.total()

    assert tried == len(catalogue()) * len(SYSTEMS) * (len(KINDS) * len(CAPACITIES) + len(ON_NEWER))
    assert {
        "tried": tried,
        "emitted": sum(emitted.values()),
        "refused": refused.total(),
        "emitted by kind, system and capacity": emitted,
        "refused because": dict(sorted(refused.items())),
    } == snapshot_yaml


@pytest.mark.parametrize(("kind", "least"), [("karpenter", 700), ("auto mode", 150)])
def test_custom_resources_are_valid_for_their_definitions(tried: Matrix, kind: str, least: int, crds: Path) -> None:
    checked = 0
    for template in tried(kind).templates.values():
        for each in manifests_of(json.loads(template)["Resources"]):
            # EKS publishes no definition of Auto Mode's NodeClass.
            if each["apiVersion"].startswith("eks.amazonaws.com/"):
                continue
            validate_custom(each, crds)
            checked += 1
    assert checked > least


def test_the_evidence_says_the_numbers(matrix: list[Tried]) -> None:
    emitted = sum(sum(each.emitted.values()) for each in matrix)
    refused = sum(sum(each.refused.values()) for each in matrix)
    evidence = (ROOT / "docs" / "contributing" / "evidence.md").read_text()

    said = f"of {emitted + refused:,} combinations, {emitted:,} are emitted. Each of the {refused:,} others is rejected"
    assert said in evidence
