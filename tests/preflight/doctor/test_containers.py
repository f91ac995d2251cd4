"""Texts of kubelet, containerd and programs, in the variants of their versions, and the causes that they show."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.doctor.live import Live
from tests.preflight.doctor.clusters import (
    GPU,
    NEW_NODE,
    cluster,
    ended,
    event,
    failed_attachment,
    ids,
    node,
    pod,
    roots,
    waiting,
)

_NODE = node(capacity={GPU: "1"}, allocatable={GPU: "1"})
_LOG = ("default", "train", "main")


def _live(status: dict[str, Any], *objects: dict[str, Any], log: str = "", **changes: Any) -> Live:
    logs = {_LOG: log} if log else {}
    return cluster("karpenter", pod(node=NEW_NODE, status=status, **changes), _NODE, *objects, logs=logs)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pull access denied, repository does not exist or may require authorization", "I2"),
        ("unexpected status: 401 Unauthorized", "I2"),
        ("no basic auth credentials", "I2"),
        ("toomanyrequests: You have reached your pull rate limit", "I2"),
        ("manifest unknown: Requested image not found", "I3"),
        ("train:1: not found", "I3"),
        ("no match for platform in manifest: not found", "P11"),
        ("dial tcp: lookup registry.example.com on 10.0.0.2:53: no such host", "I5"),
        ("net/http: TLS handshake timeout", "I5"),
        ("failed to extract layer: write /var/lib/containerd/x: no space left on device", "I6"),
    ],
)
@pytest.mark.parametrize("in_status", [True, False])
def test_the_error_of_a_pull_decides(text: str, expected: str, in_status: bool) -> None:
    back_off = 'Back-off pulling image "train:1"'
    if in_status:
        # Since Kubernetes 1.32 the status has the error too.
        live = _live(waiting("ImagePullBackOff", f"{back_off}: ErrImagePull: {text}"))
    else:
        live = _live(waiting("ImagePullBackOff", back_off), event("Failed", f'Failed to pull image "train:1": {text}'))

    assert ids(live) == [expected]
    assert text in roots(live)[0].message


def test_a_back_off_without_its_error_is_only_possible() -> None:
    found = roots(_live(waiting("ImagePullBackOff", 'Back-off pulling image "train:1"')))

    assert [each.confidence for each in found] == ["possible"]


@pytest.mark.parametrize(
    ("minutes", "more", "expected"),
    [
        (2, [], []),
        (19, [], ["I1"]),
        (19, [event("Pulled", 'Successfully pulled image "train:1" in 9m', type="Normal")], []),
        (19, [event("Pulled", 'Container image "other:1" already present on machine', type="Normal")], ["I1"]),
    ],
)
def test_a_pull_is_slow_after_three_minutes(minutes: int, more: list[dict[str, Any]], expected: list[str]) -> None:
    pulling = event("Pulling", 'Pulling image "train:1"', type="Normal", at="2026-11-20T10:01:00Z")
    later = event("Tick", "tick", about={"kind": "Node", "name": "x"}, at=f"2026-11-20T10:{1 + minutes:02}:00Z")

    found = ids(_live(waiting("ContainerCreating"), pulling, later, *more))

    assert [each for each in found if each != "R16"] == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch", "R5"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded", "R5"),
        ("nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1", "R5"),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0", "R5"),
        ("failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=0", "R5"),
        ("exec /app/run: exec format error", "P11"),
    ],
)
def test_the_error_of_a_start_decides(message: str, expected: str) -> None:
    state = {"terminated": {"exitCode": 128, "reason": "StartError", "message": message}}
    by_state = _live(waiting("CrashLoopBackOff", lastState=state, restartCount=3))
    by_event = _live(waiting("RunContainerError"), event("Failed", f"Error: {message}"))

    assert roots(by_state)[0].id == expected
    assert roots(by_event)[0].id == expected


def test_a_missing_secret_of_a_container_is_named() -> None:
    live = _live(waiting("CreateContainerConfigError", 'secret "hf-token" not found'))

    assert ids(live) == ["R4"]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("CUDA driver version is insufficient for CUDA runtime version", "R6"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12020).", "R6"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "R8"),
        ("ValueError: No available memory for the cache blocks.", "R8"),
        ("jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate", "R8"),
        ("Error while creating shared memory segment /dev/shm/nccl-aB3 (size 9637888)", "R9"),
        ("exec /usr/bin/python: exec format error", "P11"),
        ("ModuleNotFoundError: No module named 'torch'", "R14"),
    ],
)
def test_the_log_of_a_program_that_ended_decides(log: str, expected: str) -> None:
    assert roots(_live(ended(1), log=log))[0].id == expected


def test_the_log_of_a_program_that_runs_is_no_cause() -> None:
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {}}}]}

    assert ids(_live(status, log="retrying after CUDA out of memory")) == []


def test_a_pod_that_requests_a_gpu_does_not_lack_the_request() -> None:
    log = "CUDA error: no CUDA-capable device is detected"

    assert "P1" not in ids(_live(ended(1), log=log))
    assert roots(_live(ended(1), log=log, container={"resources": {}}))[0].id == "P1"


@pytest.mark.parametrize(
    ("objects", "reason", "expected"),
    [
        ([], "OOMKilled", "R7"),
        ([], "Error", "R14"),
        ([event("SystemOOM", "System OOM encountered", about={"kind": "Node", "name": NEW_NODE})], "Error", "R7"),
    ],
)
def test_exit_code_137_alone_is_not_out_of_memory(objects: list[dict[str, Any]], reason: str, expected: str) -> None:
    assert roots(_live(ended(137, reason), *objects))[0].id == expected


@pytest.mark.parametrize("probe", ["startup", "liveness"])
def test_a_probe_that_killed_the_container(probe: str) -> None:
    last = {"terminated": {"exitCode": 137, "reason": "Error"}}
    killing = event("Killing", f"Container main failed {probe} probe, will be restarted", type="Normal")

    assert roots(_live(waiting("CrashLoopBackOff", lastState=last, restartCount=3), killing))[0].id == "R11"


# Events of an earlier step don't count after it has ended.

_STARTED = waiting("CrashLoopBackOff", lastState={"terminated": {"exitCode": 1, "reason": "Error"}}, restartCount=3)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        ("FailedCreatePodSandBox", "aws-cni: failed to assign an IP address to container", "R1"),
        ("FailedMount", 'MountVolume.SetUp failed for volume "token" : secret "hf" not found', "V9"),
        ("FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition", "V9"),
        ("FailedAttachVolume", 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached', "V7"),
        ("FailedAttachVolume", 'AttachVolume.Attach failed for volume "pvc-1" : rpc error: timeout', "V8"),
        ("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: NodePrepareResources failed", "G23"),
    ],
)
def test_an_event_before_the_start_counts_only_until_the_pod_starts(reason: str, message: str, expected: str) -> None:
    assert ids(_live(waiting("ContainerCreating"), event(reason, message))) == [expected]
    assert ids(_live({**_STARTED, "phase": "Running"}, event(reason, message))) == ["R14"]


@pytest.mark.parametrize(
    "status",
    [
        {**waiting("ContainerCreating"), "podIP": "10.0.1.9"},
        waiting("CreateContainerConfigError", 'secret "hf" not found'),
    ],
)
def test_a_pod_with_a_sandbox_does_not_wait_for_its_volumes(status: dict[str, Any]) -> None:
    events = [
        event("FailedMount", 'MountVolume.SetUp failed for volume "a" : timeout'),
        event("FailedCreatePodSandBox", "failed to assign an IP address"),
    ]

    assert not {"V9", "R1"} & {*ids(_live(status, *events))}


def test_a_token_that_is_not_registered_yet_is_no_mount_error() -> None:
    text = 'MountVolume.SetUp failed for volume "kube-api-access" : object "default"/"kube-root-ca.crt" not registered'

    assert "V9" not in ids(_live(waiting("ContainerCreating"), event("FailedMount", text)))


def test_the_status_of_an_attachment_counts_after_its_events_expired() -> None:
    claim, attachment = failed_attachment("data", "UnauthorizedOperation")
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}

    live = _live(waiting("ContainerCreating"), claim, attachment, spec=volumes)

    assert "UnauthorizedOperation" in next(each.message for each in roots(live) if each.id == "V8")


def test_a_pod_that_was_bound_a_minute_ago_is_not_silent() -> None:
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T11:59:00Z"}
    tick = event("Tick", "tick", about={"kind": "Node", "name": "x"}, at="2026-11-20T12:00:00Z")

    assert ids(_live({**waiting("ContainerCreating"), "conditions": [bound]}, tick)) == []
    assert ids(_live(waiting("ContainerCreating"), tick)) == ["R16"]


def test_commands_quote_names_of_the_cluster() -> None:
    name = "x;reboot"
    live = _live({"phase": "Failed", "containerStatuses": [{**ended(2)["containerStatuses"][0], "name": name}]})

    assert roots(live)[0].command == "kubectl logs -n default train -c 'x;reboot'"
