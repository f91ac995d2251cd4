"""A pod that requests `nvidia.com/gpu` needs no toleration on EKS, five others do, and preflight reports which."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from tests import behind_taints
from tests.behind_taints import CLAIM, CLAIMED, PLAIN, POOL_OF, RUNS


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return behind_taints.synthesized(tmp_path_factory.mktemp("cdk.out"))


def judged(assembly: Path, folder: Path, name: str, *, tolerating: bool) -> tuple[Answer, list[str]]:
    """The answer for the pool that the pod targets, and the reasons against that pool."""
    items = [behind_taints.manifest(name, tolerating=tolerating), CLAIMED]
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    [cluster] = clusters(read_input([str(assembly), str(file)]))
    case = Case(cluster)
    [workload] = [each for each in cluster.workloads if each.owner.name == name]
    [found] = [each for each in case.verdict(workload).pools if POOL_OF[name] in each.pool.name.lower()]
    return found.answer, [each.kind for each in found.reasons if each.answer is Answer.NO]


@pytest.mark.parametrize("name", RUNS)
def test_only_the_plain_pod_runs_without_a_toleration(assembly: Path, tmp_path: Path, name: str) -> None:
    answer, kinds = judged(assembly, tmp_path, name, tolerating=False)

    assert answer is (Answer.YES if RUNS[name] else Answer.NO)
    assert "taint" in kinds or name == PLAIN


@pytest.mark.parametrize("name", RUNS)
def test_with_a_toleration_no_taint_keeps_any_of_them_off(assembly: Path, tmp_path: Path, name: str) -> None:
    answer, kinds = judged(assembly, tmp_path, name, tolerating=True)

    assert "taint" not in kinds
    # No autoscaler of this cluster makes a first node for a claim.
    assert answer is Answer.YES or name == CLAIM
