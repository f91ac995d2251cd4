"""A pod is read once: its fields become typed, and values known only at deployment stay unknown."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import Pod, read_pod
from gpu_preflight.model.taints import Taint, tolerates
from gpu_preflight.reading.unknown import Unknown

LATER = Unknown("${Later}")
GPU = "nvidia.com/gpu"


def pod(container: Any = None, **spec: Any) -> Pod:
    """A pod of one container."""
    return read_pod({"containers": [{"name": "main", **(container or {})}], **spec})


def test_a_container_is_read_whole() -> None:
    [container] = pod(
        {
            "image": "example.com/a:1",
            "command": ["run"],
            "args": ["--fast"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}},
        }
    ).every_container

    assert (container.name, container.image_text, container.words) == ("main", "example.com/a:1", ("run", "--fast"))
    assert (container.env, container.mounts) == ({"A": "1", "B": None}, {"/data": "data"})
    assert container.capabilities == ("SYS_ADMIN",)


def test_an_image_that_is_not_known_is_not_none() -> None:
    [container] = pod({"image": LATER}).every_container

    assert (container.image, container.image_text) == (LATER, "")


@pytest.mark.parametrize(
    ("spec", "asks"),
    [
        ({"container": {"resources": {"limits": {GPU: 1}}}}, True),
        ({"container": {"resources": {"requests": {"nvidia.com/mig-1g.10gb": LATER}}}}, True),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}, True),
        ({"initContainers": [{"name": "warm", "resources": {"limits": {GPU: 1}}}]}, True),
        ({"container": {"resources": {"limits": {"cpu": 1}}}}, False),
        ({"container": {"resources": {"limits": {GPU: 0}}}}, False),
        ({"container": {"resources": {"limits": {GPU: "0"}, "requests": {GPU: 0}}}}, False),
        ({}, False),
    ],
)
def test_which_pods_ask_for_gpus(spec: Any, asks: bool) -> None:
    assert pod(**spec).asks_for_gpu is asks


@pytest.mark.parametrize(
    "container",
    [
        {"resources": LATER},
        {"resources": {"limits": LATER}},
        {"resources": {"requests": {"cpu": LATER}}},
    ],
)
def test_an_amount_that_is_not_known_leaves_the_pod_open(container: Any) -> None:
    assert pod(container).is_open


def test_a_pod_whose_amounts_are_all_written_is_not_open() -> None:
    assert not pod({"resources": {"limits": {"cpu": "1"}}}, overhead={"cpu": "100m"}).is_open


def test_an_overhead_that_is_not_known_leaves_the_pod_open() -> None:
    assert pod(overhead=LATER).is_open
    assert pod(overhead={"memory": LATER}).is_open


def test_tolerations_that_are_not_known_may_tolerate_everything() -> None:
    assert tolerates(pod(tolerations=LATER).tolerations, Taint(GPU, "true", "NoSchedule")) is Answer.UNKNOWN


def test_a_pod_without_tolerations_tolerates_nothing() -> None:
    assert tolerates(pod().tolerations, Taint(GPU, "true", "NoSchedule")) is Answer.NO


@pytest.mark.parametrize(("written", "refused"), [(None, True), ("main", True), ([], False), (LATER, False)])
def test_containers_must_be_a_list(written: Any, refused: bool) -> None:
    assert ("spec.containers isn't a list" in read_pod({"containers": written}).refusals) is refused


def test_the_service_account_by_its_old_name() -> None:
    assert pod(serviceAccount="old").service_account == "old"
    assert pod(serviceAccount="old", serviceAccountName="new").service_account == "new"


def test_volumes_by_their_storage() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        {"name": "c", "configMap": {"name": "settings"}},
        {"name": "d", "emptyDir": {}},
    ]

    found = pod(volumes=volumes).volumes

    assert [each.is_claimed for each in found] == [True, True, False, False]
    assert (found[0].claim, found[1].claim_spec, found[2].config_map) == (
        "data",
        {"storageClassName": "fast"},
        "settings",
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"nodeSelector": {"a": "b"}},
        {"hostNetwork": True},
        {"initContainers": [{"name": "warm"}]},
        {"overhead": {"cpu": "1"}},
    ],
)
def test_pods_that_are_scheduled_otherwise_are_not_alike(changes: Any) -> None:
    assert pod(**changes).likeness != pod().likeness


@pytest.mark.parametrize(
    "part", ["hostNetwork", "schedulerName", "schedulingGates", "topologySpreadConstraints", "volumes"]
)
def test_an_unknown_part_is_reported(part: str) -> None:
    found = pod(**{part: LATER})

    assert found.open_parts == (part,)
    assert found.likeness != pod().likeness


def test_containers_that_are_not_known_leave_the_pod_open() -> None:
    assert read_pod({"containers": LATER}).is_open


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": LATER},
        {"affinity": LATER},
        {"affinity": {"nodeAffinity": LATER}},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": LATER}}},
    ],
)
def test_a_selection_that_is_not_known_may_take_any_node(spec: Any) -> None:
    assert pod(**spec).selection.takes({}) is Answer.UNKNOWN


def test_pods_without_containers_are_not_like_those_with_none_or_unknown_ones() -> None:
    written: list[dict[str, Any]] = [{}, {"containers": []}, {"containers": LATER}]

    assert len({read_pod(each).likeness for each in written}) == 3


def test_a_port_of_a_sidecar_is_one_of_the_node() -> None:
    sidecar = {"name": "log", "restartPolicy": "Always", "ports": [{"hostPort": LATER}]}

    assert pod(initContainers=[sidecar]).has_open_ports
    assert not pod(initContainers=[{**sidecar, "restartPolicy": None}]).has_open_ports


def test_on_the_network_of_the_host_every_port_counts() -> None:
    ports = {"ports": [{"containerPort": LATER}]}

    assert pod(ports, hostNetwork=True).has_open_ports
    assert not pod(ports).has_open_ports


def test_pods_that_differ_in_their_image_alone_are_alike() -> None:
    assert pod({"image": "a"}).likeness == pod({"image": "b"}).likeness
