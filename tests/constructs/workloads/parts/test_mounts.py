"""Mounts put volumes into a container, and reject values that Kubernetes or a container runtime rejects."""

from __future__ import annotations

import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuPod
from gpu_constructs.workloads import (
    ConfigMapMount,
    InitContainer,
    Mount,
    ScratchMount,
    SecretMount,
    VolumeClaimMount,
)
from gpu_constructs.workloads.mounts import pod_volumes, scratch_gib, volume_name

IMAGE = "registry.example.com/train:1"
WEIGHTS = VolumeClaimMount(path="/models", claim="weights")
SCRATCH = ScratchMount(path="/scratch", size_gib=200)


def pod(**changes: Any) -> GpuPod:
    """A valid pod, with ``changes`` applied."""
    return GpuPod(**{"image": IMAGE} | changes)


def mounted(mount: Mount) -> dict[str, Any]:
    return {"volume": mount.volume(), "mount": mount.to_manifest()}


def test_every_kind_of_mount(snapshot_yaml: SnapshotAssertion) -> None:
    kinds = (
        VolumeClaimMount(path="/models", claim="weights", read_only=True, sub_path="llama"),
        SCRATCH,
        ConfigMapMount(path="/etc/chat", config_map="chat"),
        SecretMount(path="/etc/hf/token", secret="hf", mode=0o400, sub_path="token"),
    )

    assert [mounted(each) for each in kinds] == snapshot_yaml


def test_a_claim_is_written_to_unless_said_otherwise() -> None:
    assert "readOnly" not in WEIGHTS.to_manifest()


def test_one_key_of_a_config_map_is_a_file() -> None:
    mount = ConfigMapMount(path="/etc/chat/mode", config_map="chat", sub_path="mode").to_manifest()

    assert (mount["subPath"], mount["readOnly"]) == ("mode", True)


def test_secrets_are_read_by_every_user_unless_said_otherwise() -> None:
    assert SecretMount(path="/etc/hf", secret="hf").volume()["secret"]["defaultMode"] == 0o444


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("models", "path must be absolute"),
        ("./models", "path must be absolute"),
        ("", "path must be absolute"),
        ("/", "below '/'"),
        ("/models/../etc", r"no '\.\.'"),
        ("/models:ro", "':'"),
        ("//models", "'//'"),
    ],
)
def test_refuses_a_path_that_is_no_place(path: str, message: str) -> None:
    with pytest.raises(ValueError, match=rf"^volume claim mount: .*{message}.*got '{path}'"):
        VolumeClaimMount(path=path, claim="weights")


@pytest.mark.parametrize("path", ["/m", "/models/", "/var/lib/my models", "/models/..hidden"])
def test_takes_any_other_path(path: str) -> None:
    assert VolumeClaimMount(path=path, claim="weights").to_manifest()["mountPath"] == path


@pytest.mark.parametrize("kind", [VolumeClaimMount, ConfigMapMount, SecretMount])
@pytest.mark.parametrize("sub_path", ["/llama", "../llama", "a/../b", ""])
def test_refuses_a_sub_path_outside_of_the_volume(kind: Any, sub_path: str) -> None:
    named = {VolumeClaimMount: "claim", ConfigMapMount: "config_map", SecretMount: "secret"}[kind]
    with pytest.raises(ValueError, match=r"sub_path must be relative to the volume and have no '\.\.', got"):
        kind(path="/models", sub_path=sub_path, **{named: "weights"})


@pytest.mark.parametrize(
    ("kind", "says", "error", "message"),
    [
        (VolumeClaimMount, {"path": "/m", "claim": "My_Claim"}, ValueError, "claim must be 1 to 253 lower-case"),
        (VolumeClaimMount, {"path": "/m", "claim": "a" * 254}, ValueError, "claim must be 1 to 253 lower-case"),
        (VolumeClaimMount, {"path": "/m", "claim": None}, TypeError, "claim must be a string, got None"),
        (VolumeClaimMount, {"path": 1, "claim": "a"}, TypeError, "path must be a string, got 1"),
        (
            VolumeClaimMount,
            {"path": "/m", "claim": "a", "read_only": "no"},
            TypeError,
            "read_only must be True or False",
        ),
        (VolumeClaimMount, {"path": "/m", "claim": "a", "sub_path": 1}, TypeError, "sub_path must be a string, got 1"),
        (ConfigMapMount, {"path": "/m", "config_map": "a..b"}, ValueError, "config_map must be 1 to 253 lower-case"),
        (SecretMount, {"path": "/m", "secret": "-a"}, ValueError, "secret must be 1 to 253 lower-case"),
        (SecretMount, {"path": "/m", "secret": "a", "mode": 0o1000}, ValueError, "mode must be at most 511, got 512"),
        (SecretMount, {"path": "/m", "secret": "a", "mode": -1}, ValueError, "mode must be at least 0"),
        (
            SecretMount,
            {"path": "/m", "secret": "a", "mode": 0o377},
            ValueError,
            "mode must allow the owner to read, got 0o377",
        ),
        (SecretMount, {"path": "/m", "secret": "a", "mode": "0400"}, TypeError, "mode must be a whole number"),
        (ScratchMount, {"path": "/m", "size_gib": 0}, ValueError, "size_gib must be at least 1, got 0"),
        (ScratchMount, {"path": "/m", "size_gib": 1.5}, TypeError, "size_gib must be a whole number, got 1.5"),
        (ScratchMount, {"path": "/m", "size_gib": 1, "name": "a.b"}, ValueError, "name must be 1 to 63"),
    ],
)
def test_refuses_a_mount(kind: Any, says: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        kind(**says)


@pytest.mark.parametrize(("mode", "meant"), [(400, "0o400"), (444, "0o444"), (500, "0o500"), (644, "0o644")])
def test_a_decimal_mode_is_refused_with_the_octal_one(mode: int, meant: str) -> None:
    with pytest.raises(ValueError, match=f"mode must be octal, got {mode}, which is {mode:#o}; write {meant}$"):
        SecretMount(path="/m", secret="a", mode=mode)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o444, 0o500, 0o555, 0o600, 0o640, 0o644, 0o660, 0o755, 0o777])
def test_an_octal_mode_is_taken(mode: int) -> None:
    assert SecretMount(path="/m", secret="a", mode=mode).mode == mode


def test_the_nearest_legal_mounts_are_taken() -> None:
    assert VolumeClaimMount(path="/m", claim="a" * 253).claim
    assert SecretMount(path="/m", secret="a.b", mode=0o777).mode == 0o777
    assert ScratchMount(path="/m", size_gib=1).size_gib == 1


@pytest.mark.parametrize("second", ["/models", "/models/", "/models/."])
def test_refuses_two_mounts_on_one_path(second: str) -> None:
    both = f"'/models' of mounts[0], a VolumeClaimMount and '{second}' of mounts[2], a ScratchMount"
    mounts = (WEIGHTS, SCRATCH, ScratchMount(path=second, size_gib=1, name="other"))

    message = re.escape(f"mounts must have different paths, got {both}; change one of them [GPU408]")
    with pytest.raises(ValueError, match=message):
        pod(mounts=mounts)


def test_takes_a_mount_below_another() -> None:
    assert len(pod(mounts=(WEIGHTS, ScratchMount(path="/models/cache", size_gib=1))).mounts) == 2


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_refuses_a_mount_where_the_shared_memory_is(path: str) -> None:
    mounts = (ScratchMount(path=path, size_gib=1),)

    with pytest.raises(ValueError, match=r"gpu pod: mounts must not be at /dev/shm, which shm_gib creates.*shm_gib=0"):
        pod(mounts=mounts)
    assert pod(mounts=mounts, shm_gib=0).mounts == mounts


@pytest.mark.parametrize("wrong", [{"hostPath": {"path": "/var"}}, "/var", None])
def test_refuses_what_is_no_mount_and_says_that_folders_of_the_node_are_none(wrong: object) -> None:
    with pytest.raises(
        TypeError, match=r"mounts must each be one of VolumeClaimMount, .*you can't mount folders of the node"
    ):
        pod(mounts=(wrong,))


def test_refuses_mounts_that_are_no_list() -> None:
    with pytest.raises(TypeError, match="gpu pod: mounts must be a list of mounts, got VolumeClaimMount"):
        pod(mounts=WEIGHTS)


def test_a_claim_under_two_paths_is_one_volume() -> None:
    more = VolumeClaimMount(path="/data", claim="weights", sub_path="data")

    [volume] = pod_volumes("pod", (WEIGHTS, more))
    assert volume == {"name": "claim-weights", "persistentVolumeClaim": {"claimName": "weights"}}


def test_scratch_of_one_name_is_one_folder_and_counts_once() -> None:
    loads = InitContainer(name="load", image=IMAGE, mounts=(ScratchMount(path="/to", size_gib=200),))
    made = pod(mounts=(SCRATCH,), init_containers=(loads,))

    assert len(pod_volumes("pod", made.every_mount)) == 1
    assert scratch_gib(made.every_mount) == 200


def test_scratch_of_two_names_adds_up() -> None:
    cache = ScratchMount(path="/cache", size_gib=50, name="cache")

    assert [each["name"] for each in pod_volumes("pod", (SCRATCH, cache))] == ["scratch", "scratch-cache"]
    assert scratch_gib((SCRATCH, cache)) == 250


def test_refuses_two_sizes_of_one_scratch() -> None:
    loads = InitContainer(name="load", image=IMAGE, mounts=(ScratchMount(path="/to", size_gib=100),))

    with pytest.raises(
        ValueError, match=r"mounts must define volume 'scratch' the same way each time, got .*200Gi.*100Gi"
    ):
        pod(mounts=(SCRATCH,), init_containers=(loads,))


def test_a_name_that_is_no_name_of_a_volume_gets_a_hash() -> None:
    dotted, long = volume_name("claim", "a.b"), volume_name("claim", "a" * 100)

    assert dotted.startswith("claim-a-b-")
    assert len(long) <= 63
    assert len({dotted, volume_name("claim", "a-b"), long, volume_name("claim", "a" * 101)}) == 4


def test_a_pod_with_mounts_can_be_a_key() -> None:
    assert {pod(mounts=(WEIGHTS, SCRATCH)): 1}[pod(mounts=[WEIGHTS, SCRATCH])] == 1
