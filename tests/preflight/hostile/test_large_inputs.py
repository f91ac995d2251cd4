"""Many resources, clusters, pools and pods take as much more work as there are more of them; counts are arithmetic."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.check import check
from gpu_preflight.judging.explain import explain
from gpu_preflight.reading.cloudformation import Template
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.unread import dangling
from tests.preflight.hostile.files import GROUP, everything, file_of
from tests.preflight.hostile.work import calls

POD = {"containers": [{"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}


def growth(few: Callable[[], object], many: Callable[[], object]) -> float:
    """Return the work of many divided by the work of few, when permanent caches are full."""
    few()
    return calls(many) / calls(few)


def judging(folder: Path, **files: Any) -> Callable[[], object]:
    """Return what reads, checks and explains some files."""
    folder.mkdir()
    for name, content in files.items():
        file_of(folder, content, f"{name}.json")
    return lambda: [explain(case) for case in check(read_input([str(folder)])).cases]


def topics(count: int) -> Any:
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}
    names = [{"TopicName": {"Fn::Sub": f"t{number}-${{AWS::Region}}"}} for number in range(count)]
    found = {f"R{number}": {"Type": "AWS::SNS::Topic", "Properties": name} for number, name in enumerate(names)}
    return {"Resources": {"Cluster": cluster, **found}}


def groups(count: int) -> Any:
    properties = [{**GROUP["Properties"], "Labels": {"n": str(number)}} for number in range(count)]
    return {"Resources": {f"N{number}": {**GROUP, "Properties": each} for number, each in enumerate(properties)}}


def pods(count: int) -> Any:
    """Pods each of which requests its own node group."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}"},
            "spec": {"nodeSelector": {"n": str(number)}, **POD},
        }
        for number in range(count)
    ]


def clusters(count: int) -> Any:
    properties = [{"Name": f"c{number}", "Version": "1.36"} for number in range(count)]
    return {"Resources": {each["Name"]: {"Type": "AWS::EKS::Cluster", "Properties": each} for each in properties}}


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ({"stack": topics(1_000)}, {"stack": topics(2_000)}),
        ({"stack": clusters(100)}, {"stack": clusters(200)}),
        ({"stack": groups(25), "pods": pods(25)}, {"stack": groups(50), "pods": pods(25)}),
        ({"stack": groups(25), "pods": pods(25)}, {"stack": groups(25), "pods": pods(50)}),
    ],
    ids=["resources", "clusters", "pools", "pods"],
)
def test_twice_as_many_take_twice_the_work(tmp_path: Path, few: Any, many: Any) -> None:
    assert growth(judging(tmp_path / "few", **few), judging(tmp_path / "many", **many)) < 2.4


def referring(count: int) -> Any:
    """Resources of which each refers to something that the template doesn't have."""
    properties = [{"InstanceType": {"Ref": f"X{number}"}} for number in range(count)]
    return {
        f"R{number}": {"Type": "AWS::EC2::Instance", "Properties": each, "DependsOn": f"R{number + 1}"}
        for number, each in enumerate(properties)
    }


def test_many_resources_that_refer_to_nothing_end_soon() -> None:
    """It took more than 76 s of 100,000 resources when each was compared with every other."""
    template = Template("x.json", "x", {"Resources": referring(100_000)})
    began = time.process_time()

    assert len(list(dangling(template))) == 100_001
    assert time.process_time() - began < 20


@pytest.mark.parametrize("count", [10**18 - 1, "9" * 18, 10**40, "1e9"])
def test_huge_counts_are_arithmetic(tmp_path: Path, count: Any) -> None:
    spec = {"parallelism": count, "template": {"spec": POD}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    group = {**GROUP, "Properties": {**GROUP["Properties"], "ScalingConfig": {"MaxSize": count}}}
    file_of(tmp_path, {"Resources": {"Nodes": group}})
    file_of(tmp_path, job, "job.json")

    assert calls(lambda: everything(str(tmp_path))) < 100_000
