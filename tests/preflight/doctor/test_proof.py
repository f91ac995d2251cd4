"""One signal, an old signal or an incomplete list proves nothing, and an object that exists isn't called missing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_preflight.command_line.cli import _namespace_of_pod
from gpu_preflight.doctor.cause import Cause
from gpu_preflight.doctor.collector import Collector
from gpu_preflight.doctor.connection import Refused
from tests.preflight.doctor.cases import cases
from tests.preflight.doctor.clusters import GPU, NEW_NODE, cluster, ended, event, node, plugin_pod, pod, roots, waiting

_WITH_GPU = node(capacity={GPU: "1"}, allocatable={GPU: "1"})
_CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}


def _unscheduled(message: str) -> dict[str, Any]:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


def test_an_error_in_a_log_is_likely_if_the_node_offers_its_gpus() -> None:
    logs = {("kube-system", "plugin-1", "app"): "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND."}

    found = [
        roots(cluster("karpenter", each, plugin_pod(), logs=logs), "plugin-1")[0].confidence
        for each in (node(), _WITH_GPU)
    ]

    assert found == ["proven", "likely"]


def test_a_line_in_the_log_of_a_program_is_likely() -> None:
    logs = {("default", "train", "main"): "exec /bin/train: exec format error"}

    found = roots(cluster("karpenter", pod(node=NEW_NODE, status=ended(1)), _WITH_GPU, logs=logs))

    assert [(each.id, each.confidence) for each in found] == [("P11", "likely")]


def test_an_event_about_a_volume_is_likely_without_its_attachment() -> None:
    failed = event("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-1" : rpc error: denied')

    found = roots(cluster("karpenter", pod(node=NEW_NODE, status=waiting("ContainerCreating")), _WITH_GPU, failed))

    assert [(each.id, each.confidence) for each in found] == [("V8", "likely")]


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("FailedCreatePodSandBox", "aws-cni: failed to assign an IP address to container", "R1"),
        ("FailedCreatePodSandBox", 'no runtime for "nvidia" is configured', "R3"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "token" : secret "hf" not found', "V9"),
        ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached', "V7"),
        ("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: NodePrepareResources failed", "G23"),
    ],
)
def test_an_event_alone_is_likely(reason: str, message: str, expected: str) -> None:
    created = pod(node=NEW_NODE, status=waiting("ContainerCreating"))

    found = roots(cluster("karpenter", created, _WITH_GPU, event(reason, message)))

    assert [(each.id, each.confidence) for each in found] == [(expected, "likely")]


def _with_two_containers(*states: dict[str, Any]) -> dict[str, Any]:
    containers = [{"name": name, "image": f"{name}:1"} for name in ("main", "sidecar")]
    status = {"phase": "Pending", "containerStatuses": [each["containerStatuses"][0] for each in states]}
    status["containerStatuses"][1]["name"] = "sidecar"
    return pod(node=NEW_NODE, spec={"containers": containers}, status=status)


def test_an_event_about_a_start_does_not_prove_the_fault_of_another_container() -> None:
    failed = event("Failed", "Error: nvidia-container-cli: initialization error: driver not loaded")
    states = waiting("CrashLoopBackOff", restartCount=2), waiting("RunContainerError")

    [found] = roots(cluster("karpenter", _with_two_containers(*states), _WITH_GPU, failed))

    assert (found.id, found.confidence) == ("R5", "likely")


def test_an_event_about_an_image_does_not_prove_the_fault_of_another_image() -> None:
    failed = event("Failed", 'Failed to pull image "sidecar:1": 403 Forbidden')
    states = waiting("ImagePullBackOff"), waiting("ImagePullBackOff")

    found = roots(cluster("karpenter", _with_two_containers(*states), _WITH_GPU, failed))

    assert [(each.message.split()[1], each.confidence) for each in found] == [("sidecar:1", "proven")]


def test_a_container_without_a_limit_did_not_exceed_its_limit() -> None:
    killed = ended(137, "OOMKilled")
    limited = {"resources": {"limits": {GPU: "1", "memory": "4Gi"}}}

    found = [
        roots(cluster("karpenter", pod(node=NEW_NODE, status=killed, container=each), _WITH_GPU))[0]
        for each in ({}, limited)
    ]

    assert [each.confidence for each in found] == ["likely", "proven"]
    assert found[0].fix == "request the memory that the container uses"
    assert "its limit 4Gi" in found[1].message


@pytest.mark.parametrize(
    ("spec", "mounts", "expected"),
    [
        ({}, [], ["R9"]),
        ({"hostIPC": True}, [], []),
        (
            {"volumes": [{"name": "shm", "hostPath": {"path": "/dev/shm"}}]},
            [{"name": "shm", "mountPath": "/dev/shm"}],
            [],
        ),
    ],
)
def test_a_pod_with_the_shared_memory_of_its_node_has_more_than_64_mib(
    spec: dict[str, Any], mounts: list[dict[str, Any]], expected: list[str]
) -> None:
    logs = {("default", "train", "main"): "Bus error (core dumped)"}
    failed = pod(node=NEW_NODE, status=ended(1), spec=spec, container={"volumeMounts": mounts})

    found = roots(cluster("karpenter", failed, _WITH_GPU, logs=logs))

    assert [each.id for each in found if each.id != "R14"] == expected


def test_the_error_of_a_program_is_in_the_message() -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 21.99 GiB"
    failed = pod(node=NEW_NODE, status=ended(1))

    [found] = roots(cluster("karpenter", failed, _WITH_GPU, logs={("default", "train", "main"): line}))

    assert (found.id, line in found.message) == ("R8", True)


@pytest.mark.parametrize(("name", "expected"), [("data", False), ("other", True)])
def test_a_claim_that_was_created_later_is_not_missing(name: str, expected: bool) -> None:
    message = '0/2 nodes are available: persistentvolumeclaim "data" not found. '
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"}}

    found = roots(cluster("karpenter", pod(spec={"volumes": [_CLAIM]}, status=_unscheduled(message)), claim))

    assert ("V1" in [each.id for each in found]) == expected


def test_an_image_that_must_not_be_pulled_is_not_called_missing() -> None:
    [found] = roots(cluster("karpenter", pod(node=NEW_NODE, status=waiting("ErrImageNeverPull")), _WITH_GPU))

    assert (found.id, found.excluded) == ("I3", ())
    assert "imagePullPolicy is Never" in found.message


@pytest.mark.parametrize("name", ["written/Q13-strict-fifo-head-blocks"])
def test_a_workload_of_another_queue_is_not_in_front(name: str) -> None:
    case = next(each for each in cases() if each.name == name)
    live = case.live()
    queue = next(each for each in live.dump.objects if each.kind == "ClusterQueue")
    for each in live.dump.objects:
        if each.kind == "LocalQueue":
            each.content["spec"]["clusterQueue"] = f"{queue.name}-2"

    assert "Q13" not in [each.id for each in roots(live, str(case.pod))]


@pytest.mark.parametrize("kind", ["Deployment", "NodePool"])
def test_a_fault_of_the_spec_is_at_most_likely_if_an_autoscaler_may_be_unseen(kind: str) -> None:
    case = next(each for each in cases() if each.name == "written/P5-taint-of-a-team-is-not-a-sick-node")
    live = case.live()
    live.dump.complete |= {"Deployment", "NodePool"} - {kind}
    live.dump.complete -= {kind}
    live.dump.listed -= {kind}

    assert roots(live, str(case.pod))[0].confidence != "proven"


def test_a_guessed_version_of_a_group_does_not_prove_that_a_list_is_empty() -> None:
    class Api:
        time = None

        def get(self, path: str, parameters: Mapping[str, str]) -> Any:
            if path.startswith("/api/v1/"):
                return {"items": []}
            raise Refused("Forbidden", 403) if path == "/apis" else Refused("not found", 404)

    dump = Collector(Api()).collect()

    assert "Node" in dump.complete
    assert "ResourceClaim" not in dump.complete


_WITHOUT_NAMESPACE = (
    "Node",
    "NodePool",
    "NodeClaim",
    "PersistentVolume",
    "ClusterQueue",
    "CSINode",
    "VolumeAttachment",
)


@cache
def _causes() -> list[tuple[str, Cause]]:
    """Return the causes of each case. Not at import: every process imports this module."""
    return [
        (each.name, cause)
        for each in cases()
        if not each.name.startswith("unseen")
        for one in each.diagnoses[1]
        for cause in (*one.ranking.roots, *one.ranking.effects)
    ]


def _texts(cause: Cause) -> str:
    return " ".join((cause.subject, cause.message, cause.fix, *(each.source for each in cause.evidence)))


def test_each_message_begins_with_an_object_and_no_title_has_a_made_up_namespace() -> None:
    made_up = [f"{kind} default/" for kind in _WITHOUT_NAMESPACE]
    assert not [name for name, cause in _causes() if any(each in _texts(cause) for each in made_up)]
    vague = ("a ", "the ", "no ", "nothing ", "webhook ", "scheduling ", "admission ", "node ip")
    assert not [(name, cause.message) for name, cause in _causes() if cause.message.startswith(vague)]
    assert not [(name, cause.message) for name, cause in _causes() if cause.message.startswith(("The ", "A ", "No "))]


def test_each_command_can_be_parsed_by_a_shell() -> None:
    assert all(shlex.split(cause.command) for _, cause in _causes() if cause.command)


def test_a_pod_without_a_namespace_is_in_the_namespace_of_the_named_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = [{"name": name, "context": {"namespace": f"team-{name}"}} for name in ("a", "b")]
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"current-context": "a", "contexts": contexts}))
    monkeypatch.setenv("KUBECONFIG", str(file))

    assert _namespace_of_pod("train", None, "b") == ("team-b", "train")
    assert _namespace_of_pod("daemonset/plugin", None, None) == ("team-a", "daemonset/plugin")
