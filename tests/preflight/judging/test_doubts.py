"""A finding that may be true, and an unknown result, name what isn't known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import Report, check
from gpu_preflight.judging.doubts import _is_named
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.report.view import check_view
from tests.preflight.rule_cases import FIXTURES

_POOL: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "limits": {"nvidia.com/gpu": "${LIMIT}"},
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
                ],
            }
        },
    },
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train"},
    "spec": {"containers": [{"name": "main", "image": "a/b:1", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
}


def _check(folder: Path, *documents: Any) -> Report:
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return check(read_input([str(folder / "all.yaml")]))


def _doubt(report: Report, rule: str) -> str:
    return next(each.doubt for each in check_view(report).findings if each.id == rule)


def test_a_finding_about_a_part_of_a_cluster_names_the_missing_cluster(tmp_path: Path) -> None:
    assert _doubt(_check(tmp_path, _POOL, _POD), "GPU120") == (
        "may be true: the input may not have all objects of the cluster. It lacks the cluster itself (a template or "
        "ClusterConfig)"
    )


def test_a_finding_about_an_object_with_a_placeholder_names_the_placeholder() -> None:
    file = FIXTURES / "GPU203" / "fails_a_quota_that_deployment_decides.yaml"
    report = check(read_input([str(file)]))

    assert _doubt(report, "GPU203") == (
        "may be true: spec.resourceGroups[].flavors[].resources[].nominalQuota of ClusterQueue gpu (${QUOTA}) is known "
        "only at deployment"
    )


def test_a_field_that_may_be_newer_says_so(tmp_path: Path) -> None:
    queue = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "gpu"},
        "spec": {"cohortName": "${COHORT}", "sparkles": 1},
    }

    assert _doubt(_check(tmp_path, queue), "GPU302") == (
        "may be true: a newer version of its API than the one that was checked may accept it"
    )


def test_a_certain_finding_has_no_doubt(tmp_path: Path) -> None:
    found = check_view(_check(tmp_path, {**_POOL, "spec": {**_POOL["spec"], "weight": 1000}})).findings

    assert [each.doubt for each in found if each.id == "GPU301"] == [""]


def test_an_unknown_result_names_the_value_of_the_pool(tmp_path: Path) -> None:
    pod = _POD | {
        "kind": "Pod",
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
    }
    report = _check(tmp_path, _POOL, pod)

    [verdict] = report.explanation(report.cases[0]).verdicts

    texts = [each.text for each in verdict.pools[0].reasons]
    assert verdict.answer is Answer.UNKNOWN
    assert "its limit of nvidia.com/gpu (${LIMIT}) is known only at deployment" in texts


def test_a_fault_that_only_some_clusters_have_says_so(tmp_path: Path) -> None:
    clusters = [
        {"Type": "AWS::EKS::Cluster", "Properties": {"Name": name, "Version": version}}
        for name, version in (("old", "1.33"), ("new", "1.36"))
    ]
    (tmp_path / "stack.json").write_text(json.dumps({"Resources": {"Old": clusters[0], "New": clusters[1]}}))
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": {}}
    (tmp_path / "claim.yaml").write_text(yaml.safe_dump(claim))

    report = check(read_input([str(tmp_path)]))

    assert _doubt(report, "GPU134") == "may be true: its file names no cluster, and not every cluster has the fault"


@pytest.mark.parametrize(("message", "named"), [("NodePool gpu: it has", True), ("NodePool gpu-2: it has", False)])
def test_an_object_is_named_only_by_its_whole_name(message: str, named: bool) -> None:
    assert _is_named("NodePool gpu", message) is named
