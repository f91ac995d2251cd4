"""Nodes whose GPUs aren't offered: which cause is named, how certain it is, and when none is."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from gpu_preflight.doctor.causes.device_plugins import device_manager
from tests.preflight.doctor.clusters import (
    GPU,
    NEW_NODE,
    PLUGINS,
    cluster,
    event,
    ids,
    node,
    plugin_pod,
    pod,
    roots,
    waiting,
)

_ONE, _NONE = {GPU: "1"}, {GPU: "0"}


def _stack(found: list[str]) -> list[str]:
    return [each for each in found if each.startswith(("G", "H")) and not each.startswith("H-")]


@pytest.mark.parametrize(
    ("spec", "container"),
    [
        ({"nodeSelector": {"team": "vision"}}, {}),
        ({"tolerations": []}, {}),
        ({}, {"resources": {"limits": {GPU: "1"}, "requests": {"cpu": "64"}}}),
        ({}, {"resources": {"limits": {GPU: "4"}}}),
        ({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, {}),
    ],
)
def test_a_broken_node_is_not_named_if_the_pod_waits_for_something_else(
    spec: dict[str, Any], container: dict[str, Any]
) -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    status = {"conditions": [gated]} if "schedulingGates" in spec else {}
    live = cluster("karpenter", pod(spec=spec, container=container, status=status), node())

    assert _stack(ids(live)) == []


def test_a_broken_node_is_not_named_if_another_node_has_room() -> None:
    live = cluster("karpenter", pod(), node(), node("ip-10-0-1-31", capacity=_ONE, allocatable=_ONE))

    assert _stack(ids(live)) == []


def test_several_broken_nodes_are_one_cause() -> None:
    spec = {"taints": [{"key": GPU, "effect": "NoSchedule"}, {"key": "team", "value": "ml", "effect": "NoSchedule"}]}
    nodes = [node(f"ip-10-0-1-{number}", spec=spec) for number in range(30, 35)]
    live = cluster("karpenter", pod(spec={"tolerations": [{"operator": "Exists"}]}), *nodes)

    causes = [each for each in roots(live) if each.id == "G3"]
    assert [each.message.endswith("(and 4 more nodes)") for each in causes] == [True]
    assert '"key":"team"' in causes[0].command


@pytest.mark.parametrize(
    ("image", "labels", "expected"),
    [
        ("Bottlerocket OS 1.64.0 (aws-k8s-1.36)", {}, ("G5", "likely")),
        ("Bottlerocket OS 1.64.0 (aws-k8s-1.36-nvidia)", {}, ("G8", "possible")),
        ("Bottlerocket (EKS Auto, Standard) 2026.11.1", {"eks.amazonaws.com/compute-type": "auto"}, ("G8", "possible")),
    ],
)
def test_an_image_with_its_own_device_plugin_needs_no_daemon_set(
    image: str, labels: dict[str, str], expected: tuple[str, str]
) -> None:
    live = cluster("karpenter", pod(), node(image=image, labels=labels), without=("nvidia-device-plugin",))

    assert expected in [(each.id, each.confidence) for each in roots(live)]
    assert "G1" not in ids(live)


@pytest.mark.parametrize(
    ("name", "image", "title"),
    [
        ("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "device plugin"),
        ("plugin", "111122223333.dkr.ecr.us-west-2.amazonaws.com/default-amd64/k8s-device-plugin:1", "device plugin"),
        ("aws-efa-k8s-device-plugin", "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/efa:1", "EFA device plugin"),
        ("neuron-device-plugin", "public.ecr.aws/neuron/neuron-device-plugin:2.30", None),
        ("rdma", "nvcr.io/nvidia/cloud-native/k8s-rdma-shared-dev-plugin:1", None),
        ("agent", "agent:1", None),
    ],
)
def test_device_plugins_of_other_devices_do_not_count(name: str, image: str, title: str | None) -> None:
    spec = {"containers": [{"image": image}], "volumes": [{"hostPath": {"path": PLUGINS}}]}

    found = device_manager(spec, name)

    assert (found.title if found is not None else None) == title
    assert device_manager({"containers": [{"image": image}]}, name) is None


def test_a_plugin_that_started_a_minute_ago_is_no_cause_yet() -> None:
    live = cluster("karpenter", pod(), node(created="2026-11-20T10:00:00Z"), plugin_pod())
    live.now = datetime(2026, 11, 20, 10, 1, tzinfo=timezone.utc)
    assert _stack(ids(live)) == []

    live.now = datetime(2026, 11, 20, 10, 9, tzinfo=timezone.utc)
    assert _stack(ids(live)) == ["G5"]


def test_the_gpus_of_a_node_whose_plugin_is_gone_are_not_called_unhealthy() -> None:
    live = cluster("karpenter", pod(), node(capacity=_ONE, allocatable=_NONE), without=("nvidia-device-plugin",))

    assert _stack(ids(live)) == ["G1"]


def test_a_node_that_lacks_a_label_of_the_chart_gets_it_by_a_command() -> None:
    live = cluster("karpenter", pod(), node(labels={"nvidia.com/gpu.present": "false"}))
    plugin = live.object("DaemonSet", "nvidia-device-plugin")
    assert plugin is not None
    template = plugin.spec["template"]["spec"]
    del template["nodeSelector"]
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]}
        for key in ("feature.node.kubernetes.io/pci-10de.present", "nvidia.com/gpu.present")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    template["affinity"] = {"nodeAffinity": required}

    cause = roots(live)[0]

    assert cause.id == "G2"
    assert cause.command == f"kubectl label node {NEW_NODE} nvidia.com/gpu.present=true"


def test_a_typo_is_not_another_name_of_the_gpus() -> None:
    wrong = {"resources": {"limits": {"nvidia.com/gpus": "1"}}}

    assert "G10" not in ids(cluster("karpenter", pod(container=wrong)))


def test_slices_of_a_gpu_without_mig_are_not_another_name_of_it() -> None:
    wrong = {"resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}
    live = cluster("karpenter", pod(container=wrong), without=("serve-6d5f8b7c9-aaaaa",))

    assert "G10" not in ids(live)


@pytest.mark.parametrize(
    ("log", "confidence"), [("KeyError: 'data'", "possible"), ("CUDA error: uncorrectable ECC error", "likely")]
)
def test_a_gpu_that_became_unhealthy_under_a_failing_pod(log: str, confidence: str) -> None:
    last = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = {**waiting("CrashLoopBackOff", lastState=last, restartCount=3), "phase": "Running"}
    faulty = node(capacity=_ONE, allocatable=_NONE)
    logs = {("default", "train", "main"): log}

    found = roots(cluster("karpenter", pod(node=NEW_NODE, status=status), faulty, plugin_pod(), logs=logs))

    assert [each.confidence for each in found if each.id == "G9"] == [confidence]


def test_the_device_plugin_itself_may_be_the_pod_in_question() -> None:
    logs = {("kube-system", "plugin-1", "app"): "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND."}

    assert ids(cluster("karpenter", node(), plugin_pod(), logs=logs), "plugin-1") == ["G5"]


@pytest.mark.parametrize(
    ("daemon", "expected"),
    [(None, "possible"), ("Error creating: pods is forbidden: exceeded quota", "likely")],
)
def test_a_plugin_without_a_pod_on_the_node(daemon: str | None, expected: str) -> None:
    about = {"kind": "DaemonSet", "name": "nvidia-device-plugin", "namespace": "kube-system"}
    events = [event("FailedCreate", daemon, about=about, component="daemonset-controller")] if daemon else []

    found = roots(cluster("karpenter", pod(), node(), *events))

    assert [(each.id, each.confidence) for each in found if each.id.startswith("G")] == [("G4", expected)]


def test_kubernetes_adds_tolerations_to_the_pods_of_a_plugin() -> None:
    taints = [
        {"key": GPU, "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
    ]
    tolerant = pod(spec={"tolerations": [{"operator": "Exists"}]})

    found = ids(cluster("karpenter", tolerant, node(spec={"taints": taints})))

    assert "G4" in found
    assert "G3" not in found


# Rejections of kubelet.

_OUT = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Pod was rejected: Node didn't have enough"}
_FULL = "ip-10-0-1-21.us-west-2.compute.internal"


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([], ("P10", "likely")),
        ([event("Scheduled", "Successfully assigned", component="default-scheduler")], ("G20", "proven")),
    ],
)
def test_who_selected_the_node_of_a_rejected_pod(objects: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    live = cluster("karpenter", pod(node=_FULL, status=_OUT), *objects)

    assert [(each.id, each.confidence) for each in roots(live)] == [expected]


def test_the_template_of_an_owner_may_name_the_node() -> None:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True}]
    template = {"spec": {"nodeName": _FULL, "containers": [{"name": "main"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template}}
    live = cluster("karpenter", pod("train-0", node=_FULL, status=_OUT, metadata={"ownerReferences": owners}), job)

    assert [(each.id, each.confidence) for each in roots(live, "train-0")] == [("P10", "proven")]


def test_after_an_hour_the_missing_event_of_the_scheduler_shows_nothing() -> None:
    at = datetime(2026, 11, 20, 14, tzinfo=timezone.utc)

    assert ids(cluster("karpenter", pod(node=_FULL, status=_OUT), at=at)) == ["G20"]


def test_a_pod_that_names_a_node_that_does_not_exist() -> None:
    assert "P10" in ids(cluster("karpenter", pod(node="ip-10-0-9-9")))


# Health.

_XID = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error", "message": "XID-79"}


def test_a_faulty_gpu_does_not_explain_a_missing_image() -> None:
    status = {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": "ErrImagePull"}}}],
    }
    live = cluster("karpenter", pod(node=NEW_NODE, status=status), node(conditions=[_XID]))

    assert "H1" not in ids(live)


def test_a_faulty_node_of_another_kind_is_not_named() -> None:
    live = cluster("karpenter", pod(spec={"nodeSelector": {"team": "vision"}}), node(conditions=[_XID]))

    assert _stack(ids(live)) == []


def test_a_cordoned_faulty_node_is_not_named_if_another_node_has_room() -> None:
    healthy = node("ip-10-0-1-31", capacity=_ONE, allocatable=_ONE)
    faulty = node(capacity=_ONE, allocatable=_ONE, conditions=[_XID], spec={"unschedulable": True})

    assert _stack(ids(cluster("karpenter", pod(), faulty, healthy))) == []


@pytest.mark.parametrize(
    ("type", "status", "expected"),
    [
        ("GpuMemWatch", "True", "H3"),
        ("GpuMemWatch", "False", None),
        ("GpuMemWatch", "Unknown", None),
        ("SysLogsXIDError", "True", "H1"),
        ("SysLogsGPUFallenOff", "True", "H2"),
        ("NVSwitchNonFatalError", "True", None),
    ],
)
def test_conditions_of_nvsentinel_are_true_if_there_is_a_fault(type: str, status: str, expected: str | None) -> None:
    condition = {"type": type, "status": status, "reason": type, "message": "[CODE] text - RecommendedAction: NONE"}
    cordoned = node(capacity=_ONE, allocatable=_ONE, conditions=[condition], spec={"unschedulable": True})

    found = [each for each in ids(cluster("karpenter", pod(), cordoned)) if each.startswith("H")]

    assert found == ([expected] if expected else [])
