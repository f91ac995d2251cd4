"""Constraints that aren't evaluated: on which condition a pod that has one runs, and which values need none."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.admission.unevaluated import unevaluated
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Workload, read_pod
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown

ORIGIN = Origin("pod.yaml", "pod")
MAIN = {"name": "main", "image": "app:1"}
LATER = Unknown("${Later}")


def reasons(spec: dict[str, Any], *objects: Object, kind: str = "Pod", **of_owner: Any) -> list[Any]:
    owner = Object({"apiVersion": "v1", "kind": kind, "spec": of_owner}, ORIGIN)
    pod = read_pod({"containers": [MAIN], **spec})
    workload = Workload("train", "ml", ORIGIN, pod, {}, {}, 1, together=False, owner=owner)
    return list(unevaluated(workload, Cluster("demo", objects=objects)))


def conditions(spec: dict[str, Any], *objects: Object, kind: str = "Pod", **of_owner: Any) -> list[str]:
    return [each.condition for each in reasons(spec, *objects, kind=kind, **of_owner)]


def volume(**kind: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "data", **kind}]}


@pytest.mark.parametrize(
    ("spec", "condition"),
    [
        ({"hostUsers": False}, "the nodes enable user namespaces, and their NVIDIA container toolkit supports them"),
        (
            {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}},
            "kubelet allows sysctl net.core.somaxconn (allowedUnsafeSysctls)",
        ),
        (
            {"containers": [{**MAIN, "securityContext": {"seccompProfile": {"localhostProfile": "a.json"}}}]},
            "the nodes have seccomp profile a.json",
        ),
        (volume(hostPath={"path": "/models", "type": "Directory"}), "the nodes have /models"),
        (volume(csi={"driver": "csi.example.com"}), "CSI driver csi.example.com runs on the nodes"),
        ({"securityContext": LATER}, "the value of securityContext that deployment sets allows the pod to run"),
        ({"hostUsers": "${Later}"}, "the value of hostUsers that deployment sets allows the pod to run"),
    ],
)
def test_the_pod_runs_on_a_condition(spec: dict[str, Any], condition: str) -> None:
    [found] = reasons(spec)

    assert (found.answer, found.condition) == (Answer.UNKNOWN, condition)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostUsers": True},
        {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
        {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}, "appArmorProfile": {"type": "Unconfined"}}},
        {"securityContext": {"runAsNonRoot": True, "runAsUser": 1000}},
        # The result rests on its image.
        {"securityContext": {"runAsNonRoot": True}},
        {
            "securityContext": {"runAsNonRoot": True},
            "containers": [{**MAIN, "securityContext": {"runAsNonRoot": False}}],
        },
        volume(hostPath={"path": "/dev/shm", "type": "Directory"}),
        volume(hostPath={"path": "/models", "type": "DirectoryOrCreate"}),
        volume(emptyDir={"medium": "Memory"}),
        volume(emptyDir={"medium": "HugePages"})
        | {"containers": [{**MAIN, "resources": {"limits": {"hugepages-2Mi": "2Mi", "cpu": "1"}}}]},
        # `Pod.open_parts` names these.
        {"containers": LATER, "volumes": LATER},
    ],
)
def test_no_condition_is_needed(spec: dict[str, Any]) -> None:
    assert conditions(spec) == []


def test_a_container_that_must_not_be_root_and_is_doesnt_start() -> None:
    [found] = reasons({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}})

    assert found.answer is Answer.NO


def test_a_driver_of_the_input_runs() -> None:
    driver = Object(
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "csi.example.com"}}, ORIGIN
    )

    assert conditions(volume(csi={"driver": "csi.example.com"}), driver) == []


@pytest.mark.parametrize(
    ("kind", "spec", "condition"),
    [
        ("Deployment", {"paused": True}, "the Deployment, which is paused, is resumed"),
        ("Job", {"managedBy": "example.com/own"}, "controller example.com/own creates the pods of the Job"),
        ("Job", {"activeDeadlineSeconds": 30}, "the pods of the Job start in less than 30 seconds"),
        (
            "CronJob",
            {"jobTemplate": {"spec": {"managedBy": "example.com/own"}}},
            "controller example.com/own creates the pods of the Job",
        ),
    ],
)
def test_an_owner_makes_pods_on_a_condition(kind: str, spec: dict[str, Any], condition: str) -> None:
    assert conditions({}, kind=kind, **spec) == [condition]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"paused": False}),
        ("Job", {"managedBy": "kubernetes.io/job-controller", "activeDeadlineSeconds": 3600}),
    ],
)
def test_an_owner_makes_pods(kind: str, spec: dict[str, Any]) -> None:
    assert conditions({}, kind=kind, **spec) == []
