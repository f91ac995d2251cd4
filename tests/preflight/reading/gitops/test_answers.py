"""Answers that depend on changes by GitOps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpu_preflight.judging.check import check
from gpu_preflight.model.answer import Answer
from tests.preflight.reading.gitops.repository import deployment, given, kustomization
from tests.preflight.reading.programs import with_programs

pytestmark = with_programs

CLUSTER = {
    "apiVersion": "eksctl.io/v1alpha5",
    "kind": "ClusterConfig",
    "metadata": {"name": "demo", "region": "us-east-1", "version": "1.36"},
    "managedNodeGroups": [
        {"name": "gpu", "instanceType": "g6.xlarge", "desiredCapacity": 1, "labels": {"pool": "gpu"}}
    ],
}


def answer(folder: Path, **spec: Any) -> Answer:
    apps = deployment(nodeSelector={"pool": "${POOL}"})
    [case] = check(given(folder, cluster=[CLUSTER], clusters__prod=[kustomization(**spec)], apps__infer=[apps])).cases
    [verdict] = case.verdicts
    return verdict.answer


def test_a_pool_that_is_substituted(tmp_path: Path) -> None:
    assert answer(tmp_path, postBuild={"substitute": {"POOL": "gpu"}}) is Answer.YES
    assert answer(tmp_path, postBuild={"substitute": {"POOL": "other"}}) is Answer.NO
    assert answer(tmp_path) is Answer.UNKNOWN


def test_more_gpus_than_a_node_has(tmp_path: Path) -> None:
    patch = (
        '[{"op": "replace", "path": "/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu", "value": 2}]'
    )
    patches = [{"target": {"kind": "Deployment"}, "patch": patch}]

    assert answer(tmp_path, patches=patches, postBuild={"substitute": {"POOL": "gpu"}}) is Answer.NO
