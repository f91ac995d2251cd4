"""A dump of a running cluster: nodes with their free resources, pods with their owners, limits with their usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.judging.check import check
from gpu_preflight.judging.explain import Explanation
from gpu_preflight.model.answer import Answer
from gpu_preflight.reading import documents
from gpu_preflight.reading.inputs import read_input

TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
MESSAGE = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def node(name: str, gpus: int = 1, group: str = "karpenter.sh/nodepool", **spec: Any) -> dict[str, Any]:
    """A running g5.2xlarge."""
    labels = {group: "gpu", "node.kubernetes.io/instance-type": "g5.2xlarge", "kubernetes.io/hostname": name}
    amounts = {"cpu": "7910m", "memory": "30Gi", "pods": "58", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"taints": [TAINT], **spec},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_spec(**more: Any) -> dict[str, Any]:
    """A pod with one GPU."""
    return {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}], **more}


def owned(kind: str, name: str) -> list[dict[str, Any]]:
    """References to the object that makes another one."""
    return [{"kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}]


def deployment(name: str, replicas: int) -> list[dict[str, Any]]:
    """A Deployment and its ReplicaSet."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    both = [
        {"kind": "Deployment", "metadata": {"name": name}},
        {"kind": "ReplicaSet", "metadata": {"name": f"{name}-1", "ownerReferences": owned("Deployment", name)}},
    ]
    return [{"apiVersion": "apps/v1", "spec": spec, **each} for each in both]


def pod(owner: str, number: int, place: str | None = None, **status: Any) -> dict[str, Any]:
    """A pod of a ReplicaSet, on a node or waiting for one."""
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": MESSAGE}
    told = {"phase": "Running"} if place else {"phase": "Pending", "conditions": [waits]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{owner}-1-{number}", "ownerReferences": owned("ReplicaSet", f"{owner}-1")},
        "spec": pod_spec(**({"nodeName": place} if place else {})),
        "status": {**told, **status},
    }


def node_pool(limit: int, **status: Any) -> dict[str, Any]:
    """The NodePool of those nodes."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.2xlarge"]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"}
    made = {"requirements": [requirement], "nodeClassRef": reference, "taints": [TAINT]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu", "uid": "uid-gpu"},
        "spec": {"limits": {"nvidia.com/gpu": str(limit)}, "template": {"spec": made}},
        "status": status,
    }


def explained(folder: Path, *objects: Any) -> Explanation:
    """The explanation of a dump."""
    listed = [one for each in objects for one in (each if isinstance(each, list) else [each])]
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    report = check(read_input([str(file)]))
    return report.explanation(report.cases[0])


def answers(folder: Path, *objects: Any) -> dict[str, Answer]:
    """The answer for each workload."""
    return {each.workload.name: each.answer for each in explained(folder, *objects).verdicts}


def test_a_deployment_its_replica_set_and_its_pods_are_one_demand(tmp_path: Path) -> None:
    found = answers(
        tmp_path,
        [node("n1"), node("n2"), node_pool(2, resources={"nvidia.com/gpu": "2"})],
        [*deployment("a", 2), pod("a", 1, "n1"), pod("a", 2, "n2")],
        [*deployment("b", 1), pod("b", 1)],
    )

    assert found == {"Deployment default/a": YES, "Deployment default/b": NO}


def test_only_pods_without_a_node_look_for_one(tmp_path: Path) -> None:
    found = answers(tmp_path, node("n1"), node("n2"), *deployment("a", 2), pod("a", 1, "n1"))

    assert found == {"Deployment default/a": YES}


@pytest.mark.parametrize(("limit", "expected"), [(1, NO), (2, YES)])
def test_running_nodes_count_against_the_limit_of_their_pool(tmp_path: Path, limit: int, expected: Answer) -> None:
    found = answers(tmp_path, node("n1"), node_pool(limit), *deployment("a", 2), pod("a", 1, "n1"))

    assert found == {"Deployment default/a": expected}


def test_the_status_of_a_node_pool_counts_without_nodes(tmp_path: Path) -> None:
    used = node_pool(2, resources={"nvidia.com/gpu": "2", "nodes": "2"})

    assert answers(tmp_path, used, *deployment("b", 1)) == {"Deployment default/b": NO}


def test_without_pods_what_is_free_is_not_known(tmp_path: Path) -> None:
    assert answers(tmp_path, node("n1"), *deployment("b", 1)) == {"Deployment default/b": UNKNOWN}


def test_the_message_of_the_scheduler_contradicts_a_yes(tmp_path: Path) -> None:
    [found] = explained(tmp_path, node("n1"), node("n2"), *deployment("b", 1), pod("b", 1), pod("x", 1, "n1")).verdicts[
        :1
    ]

    assert (found.answer, MESSAGE in found.reasons[0].text) == (UNKNOWN, True)


def test_nodes_that_advertise_no_gpu_take_no_pod(tmp_path: Path) -> None:
    found = answers(tmp_path, node("n1", 0), node("n2", 0), node_pool(2), *deployment("b", 1))

    assert found == {"Deployment default/b": NO}


def test_a_node_group_may_get_a_fresh_node(tmp_path: Path) -> None:
    running = node("n1", group="eks.amazonaws.com/nodegroup")

    found = answers(tmp_path, running, *deployment("a", 2), pod("a", 1, "n1"))

    assert found == {"Deployment default/a": UNKNOWN}


def test_a_cordoned_node_takes_no_pod(tmp_path: Path) -> None:
    found = answers(tmp_path, node("n1", unschedulable=True), node_pool(1), *deployment("b", 1), pod("x", 1, "n1"))

    assert found["Deployment default/b"] is NO


def test_pods_that_ended_demand_nothing(tmp_path: Path) -> None:
    done = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "done"},
        "spec": {"template": {"spec": pod_spec()}},
    }
    done["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    assert answers(tmp_path, node("n1"), done, pod("x", 1, "n1", phase="Succeeded")) == {}


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_a_large_dump_is_read(tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_FILE_BYTES", 4096)
    nodes = [node(f"n{number}") for number in range(20)]
    nodes[0]["status"]["images"] = [{"names": ["a"]}] * 100
    file = tmp_path / "dump.json"
    items = [*nodes, *deployment("a", 1), pod("a", 1, "n1")]
    # kubectl writes no alias of YAML.
    file.write_text(write(json.loads(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}))))

    report = check(read_input([str(file)]))

    [verdict] = report.explanation(report.cases[0]).verdicts
    assert (file.stat().st_size > 4096, verdict.answer) == (True, YES)
    assert sum(each.max_nodes or 0 for each in report.cases[0].cluster.observed if each.kind == "observed") == 20


@pytest.mark.parametrize(
    ("place", "status", "expected"),
    [
        ("n1", {}, YES),
        ("elsewhere", {}, UNKNOWN),
        ("elsewhere", {"phase": "Running"}, YES),
    ],
    ids=["node of the input", "manifest that names a node", "dump without the node"],
)
def test_a_pod_with_a_node_name_is_placed_on_a_known_node_or_with_a_phase(
    tmp_path: Path, place: str, status: dict[str, Any], expected: Answer
) -> None:
    alone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train"},
        "spec": pod_spec(nodeName=place),
        "status": status,
    }

    [found] = explained(tmp_path, node("n1"), alone).verdicts

    assert found.answer is expected
    assert any(f"node {place} exists" in each.condition for each in found.reasons) is (expected is UNKNOWN)
