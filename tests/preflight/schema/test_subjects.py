"""A field that is refused is a problem of the pool or the workload that is not there without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Object
from gpu_preflight.rule import Subject

GROUP = {
    "ClusterName": "demo",
    "NodeRole": "arn:aws:iam::111122223333:role/nodes",
    "Subnets": ["subnet-0123456789abcdef0"],
}
CLASS = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
POD = {"containers": [{"name": "main", "image": "example.com/a:1"}]}


def node_pool(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"nodeClassRef": CLASS, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def node_class(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "gpu"}, "spec": spec}


def subjects(folder: Path, content: Any, rule: str) -> list[Subject]:
    (folder / "input.json").write_text(json.dumps(content))
    return [each.problem.subject for each in check(read_input([str(folder)])).findings if each.rule.id == rule]


def stack(**resources: Any) -> dict[str, Any]:
    return {"Resources": {name: {"Type": kind, "Properties": given} for name, (kind, given) in resources.items()}}


def test_of_a_group(tmp_path: Path) -> None:
    content = stack(Nodes=("AWS::EKS::Nodegroup", {**GROUP, "CapacityType": "ondemand"}))

    [found] = subjects(tmp_path, content, "GPU300")

    assert isinstance(found, Pool)


def test_of_the_launch_template_of_two_groups(tmp_path: Path) -> None:
    launched = {**GROUP, "LaunchTemplate": {"Id": {"Ref": "Template"}}}
    data = {"LaunchTemplateData": {"MetadataOptions": {"HttpPutResponseHopLimit": 650}}}
    content = stack(
        Template=("AWS::EC2::LaunchTemplate", data),
        One=("AWS::EKS::Nodegroup", launched),
        Two=("AWS::EKS::Nodegroup", launched),
    )

    assert sorted(each.name for each in subjects(tmp_path, content, "GPU300") if isinstance(each, Pool)) == [
        "One",
        "Two",
    ]


def test_of_a_resource_that_is_no_pool(tmp_path: Path) -> None:
    wrong = {"VpcId": "vpc-0123456789abcdef0", "CidrBlok": "10.0.0.0/24"}
    content = stack(Nodes=("AWS::EKS::Nodegroup", GROUP), Subnet=("AWS::EC2::Subnet", wrong))

    [found] = subjects(tmp_path, content, "GPU300")

    assert found.origin.path.endswith("Subnet")


def test_of_a_node_pool_and_of_the_class_of_two(tmp_path: Path) -> None:
    content = [node_pool("one", weight=101), node_pool("two"), node_class(rolle="nodes")]

    assert [each.name for each in subjects(tmp_path, content, "GPU301") if isinstance(each, Pool)][:1] == ["one"]
    assert sorted(each.name for each in subjects(tmp_path, content, "GPU302") if isinstance(each, Pool)) == [
        "one",
        "two",
    ]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_of_a_workload(tmp_path: Path, kind: str) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}
    content = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {**spec, "replica": 2}}

    [found] = subjects(tmp_path, content, "GPU302")

    assert isinstance(found, Workload)


def test_of_an_object_that_makes_no_pods(tmp_path: Path) -> None:
    content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "date": {}}

    [found] = subjects(tmp_path, content, "GPU302")

    assert isinstance(found, Object)
