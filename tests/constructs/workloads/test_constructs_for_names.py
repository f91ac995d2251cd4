"""A construct where its name was meant is refused with the attribute to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3 as s3

from gpu_constructs import GpuPod
from gpu_constructs.devices import SharedGpuClaim
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.storage import S3Volume
from gpu_constructs.workloads import VolumeClaimMount

IMAGE = "registry.example.com/train:1"


@pytest.fixture
def volume(stack: cdk.Stack, cluster: eks.ICluster) -> S3Volume:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "weights")
    return S3Volume(stack, "Volume", cluster=cluster, name="weights", bucket=bucket)


@pytest.fixture
def identity(stack: cdk.Stack, cluster: eks.ICluster) -> WorkloadIdentity:
    return WorkloadIdentity(stack, "Train", cluster=cluster, service_account="train")


def refusal(make: Callable[[], Any]) -> str:
    with pytest.raises(TypeError) as refused:
        make()
    return re.sub(r"<.*>", "it", str(refused.value))


def test_a_volume_is_mounted_by_a_mount(volume: S3Volume) -> None:
    assert refusal(lambda: GpuPod(image=IMAGE, mounts=[volume])).endswith(  # type: ignore[list-item]
        "got it; write VolumeClaimMount(path=..., claim=volume.name, read_only=True)"
    )


def test_a_claim_is_named_by_its_volume(volume: S3Volume) -> None:
    assert refusal(lambda: VolumeClaimMount(path="/models", claim=volume)) == (  # type: ignore[arg-type]
        "volume claim mount: claim must be a string, got it; write volume.name"
    )


def test_a_service_account_is_named_by_its_identity(identity: WorkloadIdentity) -> None:
    assert refusal(lambda: GpuPod(image=IMAGE, service_account=identity)) == (  # type: ignore[arg-type]
        "gpu pod: service_account must be a string, got it; write identity.service_account"
    )


def test_a_claim_of_gpus_is_named_by_the_construct(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shared = SharedGpuClaim(stack, "Shared", cluster=cluster, name="shared")

    assert refusal(lambda: GpuPod(image=IMAGE, claim=shared)) == (  # type: ignore[arg-type]
        "gpu pod: claim must be a string, got it; write claim.name"
    )


def test_nothing_is_offered_for_another_construct(volume: S3Volume) -> None:
    for argument in ("claim", "service_account", "priority_class"):
        says: dict[str, Any] = {argument: volume}
        assert refusal(lambda says=says: GpuPod(image=IMAGE, **says)).endswith(f"{argument} must be a string, got it")  # type: ignore[misc]
