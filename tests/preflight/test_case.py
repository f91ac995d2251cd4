"""A case derives each thing of its cluster once, and answers for nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from tests.preflight.inputs import BAD, given, template

IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
PLUGIN: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "plugin", "namespace": "kube-system"},
    "spec": {"template": {"spec": {"containers": [{"name": "a", "image": IMAGE}]}}},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train"},
    "spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A cluster with a tainted group, a plugin that does not tolerate the taint, and a pod."""
    (tmp_path / "objects.json").write_text(json.dumps([PLUGIN, POD]))
    group = {**BAD, "Taints": [{"Key": "team", "Value": "a", "Effect": "NO_SCHEDULE"}]}
    [cluster] = clusters(given(tmp_path, template(group)))
    return Case(cluster)


def test_what_is_derived_is_derived_once(case: Case) -> None:
    [pool], [workload] = case.cluster.pools, case.cluster.workloads

    assert case.nodes(pool) is case.nodes(pool)
    assert case.verdict(workload) is case.verdict(workload) is case.verdicts[0]


def test_a_pool_of_another_cluster_is_refused(case: Case) -> None:
    [pool], [daemon] = case.cluster.pools, case.cluster.daemon_sets
    other = replace(pool)

    with pytest.raises(KeyError):
        case.nodes(other)
    with pytest.raises(KeyError):
        case.reaches(daemon, other)
    with pytest.raises(KeyError):
        case.reaches(replace(daemon), pool)


def test_the_taint_that_keeps_a_daemon_set_off(case: Case) -> None:
    [pool], [daemon] = case.cluster.pools, case.cluster.daemon_sets

    assert case.reaches(daemon, pool) is Answer.NO
    assert str(case.blocking_taint(daemon, pool)) == "team=a:NoSchedule"
    assert case.blocking_taint(daemon, replace(pool, taints=())) is None
