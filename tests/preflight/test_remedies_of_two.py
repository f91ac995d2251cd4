"""If two faults keep a workload from running, the report has both; and an autoscaler of pods decides the count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.preflight.command_line.test_cli import Done
from tests.preflight.test_remedies import applied, explained

CLUSTER = {
    "Type": "AWS::EKS::Cluster",
    "Properties": {
        "Name": "demo",
        "Version": "1.36",
        "RoleArn": "arn:aws:iam::111122223333:role/cluster",
        "AccessConfig": {"AuthenticationMode": "API"},
        "ResourcesVpcConfig": {"SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]},
    },
}
TAINT = {"Key": "team", "Value": "ml", "Effect": "NO_EXECUTE"}
TYPE = (
    r"set InstanceTypes of .* to g6.4xlarge \(1 L4 of 22.4 GiB, 1.32 USD an hour on demand, list price of us-east-1\)"
)


def group(types: list[str], most: int, **properties: Any) -> dict[str, Any]:
    """A node group."""
    given = {
        "ClusterName": {"Ref": "Cluster"},
        "NodeRole": "arn:aws:iam::111122223333:role/nodes",
        "InstanceTypes": types,
        "ScalingConfig": {"MinSize": 0, "MaxSize": most},
        "Subnets": ["subnet-0123456789abcdef0"],
    }
    return {"Type": "AWS::EKS::Nodegroup", "Properties": given | properties}


def gpu_nodes(most: int = 2, **properties: Any) -> dict[str, Any]:
    """A template of a cluster with a group of GPU nodes."""
    gpus = group(["g6.xlarge"], most, AmiType="AL2023_x86_64_NVIDIA", **properties)
    system = group(["m6i.large"], 4, AmiType="AL2023_x86_64_STANDARD")
    system["Properties"]["ScalingConfig"]["MinSize"] = 2
    return {"Resources": {"Cluster": CLUSTER, "SystemNodes": system, "GpuNodes": gpus}}


def pods_of(kind: str, namespace: str, name: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What makes pods."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"selector": {"matchLabels": labels}, "template": template, **more}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def chat(replicas: int, limits: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A Deployment of pods of one GPU."""
    resources = {"limits": {"nvidia.com/gpu": 1, **(limits or {})}}
    container = {"name": "main", "image": "example.com/serve:1", "resources": resources}
    return pods_of("Deployment", "ml", "chat", {"containers": [container], **spec}, replicas=replicas)


def hpa(least: int, most: int) -> dict[str, Any]:
    """A HorizontalPodAutoscaler of those."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {**spec, "metrics": [{"type": "Resource", "resource": cpu}]},
    }


def keda(**bounds: int) -> dict[str, Any]:
    """A ScaledObject of those."""
    trigger = {"type": "prometheus", "metadata": {"serverAddress": "http://a:9090", "query": "q", "threshold": "5"}}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "chat", "namespace": "ml"},
        "spec": {"scaleTargetRef": {"name": "chat"}, "triggers": [trigger], **bounds},
    }


def quota(gpus: int) -> dict[str, Any]:
    """A quota of GPUs."""
    hard = {"requests.nvidia.com/gpu": str(gpus)}
    metadata = {"name": "gpus", "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


SOFTWARE = [
    pods_of(
        "DaemonSet",
        "kube-system",
        "nvidia-device-plugin",
        {
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"}],
        },
    ),
    pods_of(
        "Deployment",
        "kube-system",
        "cluster-autoscaler",
        {
            "serviceAccountName": "cluster-autoscaler",
            "containers": [
                {
                    "name": "cluster-autoscaler",
                    "image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
                    "command": [
                        "./cluster-autoscaler",
                        "--cloud-provider=aws",
                        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,"
                        "k8s.io/cluster-autoscaler/demo",
                    ],
                }
            ],
        },
    ),
]
LARGE, SELECTING = {"memory": "30Gi"}, {"nodeSelector": {"gpu-type": "l4"}}
FEWER = ", if fewer pods are enough"
CASES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "taint and maximum": (
        [gpu_nodes(Taints=[TAINT]), chat(4)],
        [
            "tolerate team=ml:NoExecute, and raise MaxSize of .*GpuNodes to 4",
            f"tolerate team=ml:NoExecute, and run 2 pods{FEWER}",
        ],
    ),
    "selector and type": (
        [gpu_nodes(), chat(1, LARGE, **SELECTING)],
        [
            f"{TYPE}, and label the nodes of .*GpuNodes with gpu-type=l4",
            "select no gpu-type, and request 13.8Gi memory, if the pod can do with less",
        ],
    ),
    "type and maximum": ([gpu_nodes(1), chat(3, LARGE)], [f"{TYPE}, and raise MaxSize of .*GpuNodes to 3"]),
    "quota and taint": (
        [gpu_nodes(Taints=[TAINT]), chat(2), quota(1)],
        ["tolerate team=ml:NoExecute, and raise requests.nvidia.com/gpu to 2 in ResourceQuota gpus"],
    ),
    "quota and maximum": (
        [gpu_nodes(1), chat(2), quota(1)],
        [
            "raise MaxSize of .* to 2, and raise requests.nvidia.com/gpu to 2 in ResourceQuota gpus",
            f"run 1 pod{FEWER}",
        ],
    ),
    "least pods of a HorizontalPodAutoscaler": (
        [gpu_nodes(), chat(1), hpa(5, 10)],
        [
            "raise MaxSize of .*GpuNodes to 5",
            f"lower maxReplicas of HorizontalPodAutoscaler ml/chat to 2, and lower minReplicas of .* to 2{FEWER}",
        ],
    ),
    "most pods of a HorizontalPodAutoscaler": (
        [gpu_nodes(), chat(8), hpa(1, 6)],
        ["raise MaxSize of .*GpuNodes to 6", f"lower maxReplicas of HorizontalPodAutoscaler ml/chat to 2{FEWER}"],
    ),
    "most pods of KEDA": (
        [gpu_nodes(), chat(9), keda(maxReplicaCount=6)],
        ["raise MaxSize of .*GpuNodes to 6", f"lower maxReplicaCount of ScaledObject ml/chat to 2{FEWER}"],
    ),
    "most pods of KEDA without a manifest": (
        [gpu_nodes(), chat(1), keda(minReplicaCount=4)],
        [
            "raise MaxSize of .*GpuNodes to 4",
            f"lower maxReplicaCount of ScaledObject ml/chat to 2, and lower minReplicaCount of .* ml/chat to 2{FEWER}",
        ],
    ),
    "taint and least pods of a HorizontalPodAutoscaler": (
        [gpu_nodes(Taints=[TAINT]), chat(1), hpa(5, 10)],
        [
            "tolerate team=ml:NoExecute, and raise MaxSize of .*GpuNodes to 5",
            f"tolerate team=ml:NoExecute, and lower maxReplicas of .* to 2, and lower minReplicas of .* to 2{FEWER}",
        ],
    ),
}


def file_of(folder: Path, documents: Iterable[Any]) -> Path:
    file = folder / "stack.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)))
    return file


@pytest.mark.parametrize("case", CASES)
def test_what_would_do_is_said_and_does(case: str, tmp_path: Path) -> None:
    documents, expected = CASES[case]
    file = file_of(tmp_path, [*documents, *SOFTWARE])

    workload = explained(str(file))

    told = [each["text"] for each in workload["wouldDo"]]
    assert workload["answer"] == "no"
    for text, pattern in zip(told, expected, strict=True):
        assert re.fullmatch(pattern, text), text
    for remedy in workload["wouldDo"]:
        changed = applied(file, workload, remedy)
        again = tmp_path / "changed"
        again.mkdir(exist_ok=True)
        assert explained(str(file_of(again, changed)))["answer"] == "yes", remedy


def test_half_of_it_would_not_do(tmp_path: Path) -> None:
    documents, _ = CASES["taint and maximum"]
    file = file_of(tmp_path, [*documents, *SOFTWARE])
    workload = explained(str(file))
    remedy = workload["wouldDo"][0]

    for each in remedy["changes"]:
        half = {
            **remedy,
            "changes": [each],
            "patch": remedy["patch"] if each["path"].startswith("Deployment") else None,
        }
        (tmp_path / "half").mkdir(exist_ok=True)
        changed = applied(file, workload, half)
        assert explained(str(file_of(tmp_path / "half", changed)))["answer"] == "no", each


def test_no_fix_exists_for_three_faults_that_no_two_changes_fix(tmp_path: Path) -> None:
    unheard = {"example.com/fpga": 1}
    file = file_of(tmp_path, [gpu_nodes(1, Taints=[TAINT]), chat(3, unheard), quota(1), *SOFTWARE])

    workload = explained(str(file))

    assert (workload["answer"], workload["wouldDo"]) == ("no", [])


def test_no_suggested_fix_stops_running_pods(tmp_path: Path) -> None:
    beside = chat(1, nodeSelector={"node.kubernetes.io/instance-type": "g6.xlarge"})
    beside["metadata"] = {"name": "other", "namespace": "ml"}
    documents = [gpu_nodes(), chat(1, LARGE), *SOFTWARE]

    alone = explained(str(file_of(tmp_path, documents)))
    told = [each["text"] for each in alone["wouldDo"]]
    both = every(str(file_of(tmp_path, [*documents, beside])))

    assert [re.fullmatch(TYPE, each) is not None for each in told] == [True, False]
    assert both["Deployment ml/other"]["answer"] == "yes"
    assert [each["text"] for each in both["Deployment ml/chat"]["wouldDo"]] == told[1:]


def every(*paths: str) -> dict[str, dict[str, Any]]:
    """Each workload of the one cluster, by name."""
    [cluster] = Done("explain", *paths, "--format", "json").json["clusters"]
    return {each["name"]: each for each in cluster["workloads"]}
