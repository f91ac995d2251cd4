"""GPU pods wait for the roles without GPUs of the same object, such as Ray's head or an MPI launcher."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import Report, check
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading.inputs import read_input

TAINT = {"key": "team", "value": "ml", "effect": "NoSchedule"}


def config(*groups: dict[str, Any]) -> dict[str, Any]:
    """A cluster of eksctl."""
    metadata = {"name": "demo", "region": "us-east-1", "version": "1.36"}
    return {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": metadata,
        "managedNodeGroups": [*groups],
    }


def group(name: str, kind: str, **more: Any) -> dict[str, Any]:
    """A group of two nodes."""
    return {"name": name, "instanceType": kind, "minSize": 2, "maxSize": 2, "desiredCapacity": 2, **more}


def ray(head: dict[str, Any]) -> dict[str, Any]:
    """A RayCluster of one worker with a GPU."""
    worker = {
        "containers": [{"name": "w", "image": "rayproject/ray:2.50.0", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    }
    worker["tolerations"] = [{"operator": "Exists"}]
    head = {"containers": [{"name": "h", "image": "rayproject/ray:2.50.0", **head}]}
    groups = [{"groupName": "gpu", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "template": {"spec": worker}}]
    spec = {"headGroupSpec": {"template": {"spec": head}}, "workerGroupSpecs": groups}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": spec}


def report_of(folder: Path, *objects: dict[str, Any]) -> Report:
    """The report on one file."""
    (folder / "all.yaml").write_text(yaml.safe_dump_all(objects))
    return check(read_input([str(folder / "all.yaml")]))


@pytest.mark.parametrize(("selected", "expected"), [({}, False), ({"disk": "ssd"}, True)])
def test_a_head_that_no_pool_takes_holds_its_workers(tmp_path: Path, selected: Any, expected: bool) -> None:
    groups = config(group("gpu", "g6.xlarge", taints=[TAINT]), group("cpu", "m6i.large"))
    cluster = ray({"resources": {"requests": {"cpu": "1"}}})
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"] = selected

    report = report_of(tmp_path, groups, cluster)

    [found] = report.explanation(report.cases[0]).verdicts
    waits = [each for each in found.reasons if each.kind == "partner"]
    assert bool(waits) is expected
    assert (found.answer is Answer.NO) is expected
    assert any(each.rule.id == "GPU120" for each in report.findings) is expected


LAUNCHER = {"name": "l", "image": "example.com/mpi:1", "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}}}
WORKER = {"name": "w", "image": "example.com/mpi:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
GPU_POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "gpu"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
                ],
                "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            }
        }
    },
}


def auto_mode(pools: Any, enabled: Any = True) -> dict[str, Any]:
    """A template of a cluster in Auto Mode with some built-in pools."""
    compute = {"Enabled": enabled, "NodePools": pools, "NodeRoleArn": "arn:aws:iam::111122223333:role/nodes"}
    properties = {"Name": "demo", "Version": "1.36", "ComputeConfig": compute}
    parameters = {"Pools": {"Type": "CommaDelimitedList"}, "Auto": {"Type": "String"}}
    return {"Parameters": parameters, "Resources": {"Cluster": {"Type": "AWS::EKS::Cluster", "Properties": properties}}}


def mpi_job(selected: dict[str, str]) -> dict[str, Any]:
    """An MPIJob whose launcher selects nodes."""
    roles = {
        "Launcher": {"replicas": 1, "template": {"spec": {"containers": [LAUNCHER], "nodeSelector": selected}}},
        "Worker": {"replicas": 1, "template": {"spec": {"containers": [WORKER]}}},
    }
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "mpi"}, "spec": spec}


@pytest.mark.parametrize(
    ("pools", "selected", "expected"),
    [
        (["system", "general-purpose"], {}, Answer.YES),
        (["system", "general-purpose"], {"kubernetes.io/arch": "arm64"}, Answer.NO),
        (["system", "general-purpose"], {"disk": "ssd"}, Answer.NO),
        (["system"], {}, Answer.NO),
        ([], {}, Answer.NO),
        ({"Ref": "Pools"}, {}, Answer.UNKNOWN),
        ([{"Ref": "Pools"}], {}, Answer.UNKNOWN),
    ],
)
def test_a_launcher_runs_on_the_built_in_pool_of_auto_mode(
    tmp_path: Path, pools: Any, selected: dict[str, str], expected: Answer
) -> None:
    report = report_of(tmp_path, auto_mode(pools), GPU_POOL, mpi_job(selected))

    [found] = report.explanation(report.cases[0]).verdicts
    assert found.answer is expected, found.reasons
    assert any(each.rule.id == "GPU120" and each.counts for each in report.findings) is (expected is Answer.NO)


@pytest.mark.parametrize(("enabled", "expected"), [({"Ref": "Auto"}, Answer.UNKNOWN), (False, Answer.NO)])
def test_a_launcher_waits_where_auto_mode_may_be_off(tmp_path: Path, enabled: Any, expected: Answer) -> None:
    report = report_of(tmp_path, auto_mode(["general-purpose"], enabled), GPU_POOL, mpi_job({}))

    [found] = report.explanation(report.cases[0]).verdicts
    assert found.answer is expected, found.reasons
