"""Pods beside parts of the input that were not read, and that may hold pools."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpu_preflight.case import Case
from gpu_preflight.cluster.clusters import clusters
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.scheduling.verdict import Verdict

CLUSTER = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}
GROUP = {
    "Type": "AWS::EKS::Nodegroup",
    "Properties": {"ClusterName": {"Ref": "Cluster"}, "InstanceTypes": ["m6i.large"], "Subnets": ["subnet-1"]},
}
NESTED = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://example.com/nodes.yaml"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team"},
    "spec": {"containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}


def verdict(folder: Path, **more: object) -> Verdict:
    """The verdict on the pod beside a cluster and other resources."""
    (folder / "stack.yaml").write_text(yaml.safe_dump_all([{"Resources": {"Cluster": CLUSTER, **more}}, POD]))
    [found] = clusters(read_input([str(folder / "stack.yaml")]))
    [judged] = Case(found).verdicts
    return judged


def test_a_cluster_without_pools_is_reported(tmp_path: Path) -> None:
    found = verdict(tmp_path)

    assert found.answer is Answer.NO
    assert [each.text for each in found.reasons] == ["the cluster has no pool in the input"]


@pytest.mark.parametrize(("groups", "said"), [({}, "the input has no pool"), ({"Group": GROUP}, "no pool accepts it")])
def test_a_nested_stack_that_is_not_read_may_hold_a_pool(tmp_path: Path, groups: dict[str, object], said: str) -> None:
    found = verdict(tmp_path, Nested=NESTED, **groups)

    assert found.answer is Answer.UNKNOWN
    assert [each.text for each in found.reasons] == [f"{said}, but stack/Nested, which isn't read, may have one"]
