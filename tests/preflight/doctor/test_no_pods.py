"""Owners without pods, and pods that the scheduler or Karpenter rejects before it compares nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.doctor.causes.karpenter import find as karpenter
from gpu_preflight.doctor.diagnosis import causes, find_target
from gpu_preflight.doctor.dump import read_dump
from gpu_preflight.doctor.live import Live
from tests.preflight.doctor.clusters import TOLERATION, cluster, ids, pod

_GPU = {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}


def _waits(message: str) -> dict[str, Any]:
    failed = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [failed]}


def _workload(owner: dict[str, Any] | None, **status: str) -> dict[str, Any]:
    message = "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
    conditions = [{"type": kind, "status": value, "message": message} for kind, value in status.items()]
    meta = {"name": "w", "namespace": "default"}
    references = [{"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": "1"}] if owner is not None else []
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {**meta, "ownerReferences": references},
        "spec": {"queueName": "research", "podSets": [{"name": "a", "count": 1, "template": {"spec": _GPU}}]},
        "status": {"conditions": conditions},
    }


_LABELS = {"kueue.x-k8s.io/queue-name": "research"}
_JOB_SET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "ablation", "namespace": "default", "uid": "1", "labels": _LABELS},
    "spec": {"suspend": True, "replicatedJobs": []},
}


@pytest.mark.parametrize("has_owner", [True, False])
def test_a_workload_that_kueue_does_not_admit_is_a_question_of_its_own(has_owner: bool) -> None:
    """Kueue suspends a JobSet before it creates a Job, so there is neither a pod nor a Job."""
    owner = _JOB_SET if has_owner else None
    live = cluster("karpenter", *([owner] if owner else []), _workload(owner, QuotaReserved="False"))
    [target] = live.targets()
    assert target.title == ("JobSet default/ablation" if has_owner else "Workload default/w")
    assert [each.id for each in causes(live, target)] == ["Q6"]
    admitted = cluster("karpenter", *([owner] if owner else []), _workload(owner, QuotaReserved="True"))
    assert not admitted.targets()


def test_a_suspended_job_set_is_a_question_without_the_workloads() -> None:
    jobs = [{"name": "a", "template": {"spec": {"template": {"spec": _GPU}}}}]
    suspended = {**_JOB_SET, "spec": {"suspend": True, "replicatedJobs": jobs}}
    live = cluster("karpenter", suspended)
    live.dump.complete -= {"Workload"}
    [target] = live.targets()
    assert "A11" in [each.id for each in causes(live, target)]
    assert "workloads.kueue.x-k8s.io" in [each.what for each in live.not_looked]
    assert not cluster("karpenter", {**suspended, "spec": {"replicatedJobs": jobs}}).targets()


def test_a_pod_with_a_workload_is_one_question() -> None:
    held = pod(status=_waits("gated"), metadata={"uid": "1", "labels": _LABELS})
    live = cluster("karpenter", held, _workload(held, QuotaReserved="False"))
    assert [each.title for each in live.targets()] == ["Pod default/train"]


def test_a_static_node_pool_gets_no_node_for_a_pod() -> None:
    live = cluster("karpenter", pod(status=_waits("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")))
    target = find_target(live, "train", None)
    assert "K2" not in [each.id for each in karpenter(live, target)]
    for each in live.objects("NodePool"):
        each.content["spec"]["replicas"] = 2
    assert "K2" in [each.id for each in karpenter(live, target)]


def test_no_gpu_is_in_use_for_a_pod_that_is_rejected_before_the_nodes() -> None:
    early = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: ..."
    assert "S1" not in ids(cluster("karpenter", pod(status=_waits(early))))
    assert "S1" in ids(
        cluster("karpenter", pod(status=_waits("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")))
    )


def test_a_message_of_karpenter_without_the_name_of_a_node_pool_counts() -> None:
    """The simulation doesn't find the fault, and the other part is about a NodePool without GPUs."""
    message = (
        "Failed to schedule pod, unsatisfiable topology constraint for topology spread, key=zone; "
        "no instance type has enough resources, requirements=karpenter.sh/nodepool In [general]"
    )
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "train", "namespace": "default"},
        "reason": "FailedScheduling",
        "message": message,
        "source": {"component": "karpenter"},
        "lastTimestamp": "2026-11-20T10:01:00Z",
    }
    waiting = pod(status=_waits("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))
    live = cluster("karpenter", waiting, event)
    found = [each for each in karpenter(live, find_target(live, "train", None)) if each.id in ("K8", "K16")]
    assert [(each.id, each.confidence) for each in found] == [("K16", "likely")]


@pytest.mark.parametrize(
    ("reason", "spec", "metadata", "expected"),
    [
        ("ScalingDisabled", {}, {}, ["A12"]),
        ("ValidMetricFound", {}, {}, []),
        ("ScalingDisabled", {"minReplicas": 0}, {}, []),
        # KEDA scales from 0 itself.
        ("ScalingDisabled", {}, {"ownerReferences": [{"kind": "ScaledObject", "name": "chat"}]}, []),
    ],
)
def test_an_autoscaler_of_an_owner_without_replicas_is_disabled(
    reason: str, spec: dict[str, Any], metadata: dict[str, Any], expected: list[str]
) -> None:
    meta = {"name": "chat", "namespace": "default"}
    template = {"spec": {**_GPU, "tolerations": [TOLERATION]}}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": meta | metadata,
        "spec": {"maxReplicas": 4, "scaleTargetRef": {"kind": "Deployment", "name": "chat"}} | spec,
        "status": {"conditions": [{"type": "ScalingActive", "status": "False", "reason": reason}]},
    }
    live = cluster("karpenter", {**owner, "spec": {"replicas": 0, "template": template}}, scaler)
    assert [each.id for one in live.targets() for each in causes(live, one)] == expected


@pytest.mark.parametrize(("name", "expected"), [("daemonsets", "likely"), ("daemonsets.apps", "proven")])
def test_a_file_is_named_with_or_without_the_group(name: str, expected: str, tmp_path: Path) -> None:
    """A list that a person wrote may be that of one namespace."""
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    (tmp_path / f"{name}.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": []}))
    assert Live(read_dump([str(tmp_path)])).certainty("DaemonSet") == expected
    (tmp_path / f"{name}.json").rename(tmp_path / f"{name}.err")
    (tmp_path / f"{name}.err").write_text("error: the server doesn't have a resource type")
    assert Live(read_dump([str(tmp_path)])).certainty("DaemonSet") == "proven"
