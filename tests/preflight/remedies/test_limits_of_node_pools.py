"""The suggested limit of a NodePool is the lowest one with which all pods run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.remedies.remedy import fixes_by_workload

_GPU = "nvidia.com/gpu"


def _raised(folder: Path, limits: dict[str, Any], types: list[str], replicas: int, gpus: int) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "limits": limits,
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
        },
    }
    container = {"name": "main", "image": "a/b:1", "resources": {"limits": {_GPU: gpus}}}
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "llm"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "llm"}},
            "template": {"metadata": {"labels": {"app": "llm"}}, "spec": {"containers": [container]}},
        },
    }
    (folder / "all.yaml").write_text(yaml.safe_dump_all([pool, workload]))
    given = read_input([str(folder / "all.yaml")], assumed=frozenset({"karpenter", "device-plugin"}))
    [case] = check(given).cases
    [(found, _)] = fixes_by_workload(given, case, case.verdicts).values()
    [change] = found[0].changes
    return dict(change.value)


@pytest.mark.parametrize(
    ("limits", "types", "replicas", "gpus", "raised"),
    [
        ({_GPU: 8}, ["g6.12xlarge", "g6.48xlarge"], 8, 2, {_GPU: 16}),
        ({_GPU: 8}, ["g6.48xlarge"], 2, 8, {_GPU: 16}),
        ({_GPU: 4}, ["g6.12xlarge", "g6.48xlarge"], 3, 3, {_GPU: 12}),
        ({_GPU: 4}, ["g6.xlarge", "g6.48xlarge"], 5, 1, {_GPU: 5}),
        ({_GPU: 1}, ["g6.12xlarge", "g6.48xlarge"], 2, 5, {_GPU: 16}),
        ({_GPU: 64, "cpu": 50}, ["g6.12xlarge", "g6.48xlarge"], 4, 4, {_GPU: 64, "cpu": 192}),
        ({_GPU: 64, "nodes": 1}, ["g6.12xlarge"], 3, 4, {_GPU: 64, "nodes": 3}),
    ],
)
def test_no_lower_limit_is_enough(
    limits: dict[str, Any], types: list[str], replicas: int, gpus: int, raised: dict[str, Any], tmp_path: Path
) -> None:
    assert _raised(tmp_path, limits, types, replicas, gpus) == raised
