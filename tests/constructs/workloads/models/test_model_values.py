"""A model states the location of its weights, and impossible values are rejected before any construct is created."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuPod
from gpu_constructs.workloads import (
    CopiedModel,
    HubModel,
    ImageModel,
    ImageMount,
    InitContainer,
    MountedModel,
    SecretKey,
    StreamedModel,
)
from gpu_facts.refusals import refuse_unless_image
from gpu_facts.versions import AWS_CLI

BUCKET = cast("s3.IBucket", SimpleNamespace(bucket_name="weights", bucket_arn="arn:aws:s3:::weights"))
IMAGE = "registry.example.com/llama@sha256:" + "a" * 64
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def copied(**changes: Any) -> CopiedModel:
    """A valid model that is copied, with ``changes`` applied."""
    return CopiedModel(**{"bucket": BUCKET, "prefix": "llama/", "size_gib": 140} | changes)


def hub(**changes: Any) -> HubModel:
    """A valid model of the hub, with ``changes`` applied."""
    says: dict[str, Any] = {"repo": "meta-llama/Llama-3.1-8B", "revision": COMMIT, "size_gib": 15}
    return HubModel(**says | changes)


def test_a_server_gets_the_location_of_its_model() -> None:
    told = [
        copied().location,
        MountedModel(bucket=BUCKET, path="/weights").location,
        StreamedModel(bucket=BUCKET, prefix="llama/").location,
        ImageModel(image=IMAGE).location,
        hub().location,
    ]

    assert told == ["/models", "/weights", "s3://weights/llama/", "/models", "meta-llama/Llama-3.1-8B"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"bucket": "weights"}, TypeError, "copied model: bucket must be an s3.IBucket, got 'weights'; import one"),
        ({"prefix": "llama"}, ValueError, "copied model: prefix must end with '/'.*; write 'llama/'"),
        ({"prefix": None}, TypeError, "copied model: prefix must be a string, got None"),
        ({"size_gib": 0}, ValueError, "copied model: size_gib must be at least 1, got 0"),
        ({"path": "models"}, ValueError, "copied model: path must be absolute"),
        ({"identity": "chat"}, TypeError, "copied model: identity must be a WorkloadIdentity, got 'chat'"),
        ({"region": "us-esat-1"}, ValueError, "copied model: region must be"),
        ({"image": "amazon/aws-cli"}, ValueError, "copied model: image must end in a tag"),
        ({"memory_gib": 0}, ValueError, "copied model: memory_gib must be at least 1, got 0"),
    ],
)
def test_refuses_a_model_that_is_copied(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        copied(**changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cache_gib": 0}, ValueError, "mounted model: cache_gib must be at least 1, got 0"),
        ({"path": "/"}, ValueError, "mounted model: path must be absolute, below '/'"),
        ({"bucket": None}, TypeError, "mounted model: bucket must be an s3.IBucket, got None"),
    ],
)
def test_refuses_a_model_that_is_mounted(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MountedModel(**{"bucket": BUCKET} | changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"buffer_gib": 0}, ValueError, "streamed model: buffer_gib must be at least 1, got 0"),
        ({"buffer_gib": "4"}, TypeError, "streamed model: buffer_gib must be a whole number, got '4'"),
        ({"prefix": "/llama/"}, ValueError, "streamed model: prefix must end with '/', not begin with it"),
    ],
)
def test_refuses_a_model_that_is_streamed(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        StreamedModel(**{"bucket": BUCKET} | changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"repo": "llama"}, ValueError, "hub model: repo must have the form 'owner/name', got 'llama'"),
        ({"repo": "https://huggingface.co/a/b"}, ValueError, "hub model: repo must have the form"),
        ({"revision": "main"}, ValueError, "hub model: revision must be a commit of 40 hex digits, got 'main'"),
        ({"revision": None}, TypeError, "hub model: revision must be a string, got None"),
        ({"size_gib": None}, ValueError, "hub model: exactly one of size_gib and claim must be given, got neither"),
        ({"claim": "hub"}, ValueError, "hub model: exactly one of size_gib and claim must be given, got both"),
        ({"size_gib": None, "claim": "Hub"}, ValueError, "hub model: claim must be 1 to 253"),
        ({"size_gib": 0}, ValueError, "hub model: size_gib must be at least 1, got 0"),
        ({"path": "models"}, ValueError, "hub model: path must be absolute"),
    ],
)
def test_refuses_a_model_of_the_hub(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        hub(**changes)


def test_a_token_that_is_written_out_is_refused_and_not_repeated() -> None:
    token: Any = "hf_" + "a" * 34

    with pytest.raises(
        TypeError, match=r"token must be a SecretKey, got a str; put the token into a Secret"
    ) as refused:
        hub(token=token)

    assert token not in str(refused.value)
    assert hub(token=SecretKey(secret="hf", key="token")).token is not None


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            "registry.example.com/llama:1",
            r"image mount: image must end in a digest, got .*; write 'name@sha256:\.\.\.'",
        ),
        ("registry.example.com/llama:latest", "image mount: image must end in a tag other than 'latest'"),
        ("registry.example.com/llama", "image mount: image must end in a tag"),
    ],
)
def test_an_image_has_a_digest(image: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageModel(image=image)


def test_an_image_is_mounted_by_a_name_of_its_own() -> None:
    one, other = ImageMount(path="/a", image=IMAGE), ImageMount(path="/b", image=IMAGE[:-1] + "b")

    pod = GpuPod(image="registry.example.com/chat:1", mounts=[one, other])

    assert len({each.volume()["name"] for each in pod.mounts}) == 2
    assert one.volume()["image"] == {"pullPolicy": "IfNotPresent", "reference": IMAGE}
    assert one.to_manifest()["readOnly"] is True


def test_an_init_container_may_run_as_another_user() -> None:
    def user(number: int | None) -> dict[str, Any]:
        made = InitContainer(name="load", image="registry.example.com/load:1", run_as_user=number).to_manifest()
        return {key: each for key, each in made["securityContext"].items() if key.startswith("runAs")}

    assert [user(None), user(0), user(1000)] == [{}, {"runAsUser": 0}, {"runAsNonRoot": True, "runAsUser": 1000}]


def test_the_image_that_copies_is_pinned_by_digest() -> None:
    refuse_unless_image("copy", "image", AWS_CLI.reference)

    assert "@sha256:" in AWS_CLI.reference
