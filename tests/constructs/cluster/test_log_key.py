"""A key of one's own for the logs of a cluster and of its network."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms

from gpu_constructs import GpuCluster, gpu_vpc
from tests.templates import Resources, of_type, resources_of, slice_of


def keys_of_logs(resources: Resources) -> list[Any]:
    """The keys of the log groups of cluster and network."""
    found = of_type(resources, "AWS::Logs::LogGroup")
    return [each["Properties"].get("KmsKeyId") for id, each in found.items() if "NodeGroupSize" not in id]


def test_it_encrypts_every_log_of_cluster_and_network(stack: cdk.Stack) -> None:
    key = kms.Key(stack, "Key")
    GpuCluster(stack, "Gpu", log_key=key)

    resources = resources_of(stack)
    [id] = [each for each in of_type(resources, "AWS::KMS::Key") if each.startswith("Key")]
    assert keys_of_logs(resources) == [{"Fn::GetAtt": [id, "Arn"]}] * 3
    policy = resources[id]["Properties"]["KeyPolicy"]["Statement"]
    # Once, though three groups ask.
    [logs] = [each for each in policy if each.get("Sid") == "CloudWatchLogs"]
    assert "us-east-1.amazonaws.com" in json.dumps(logs["Principal"])
    assert "kms:EncryptionContext:aws:logs:arn" in logs["Condition"]["ArnLike"]


def test_an_imported_one_is_named_and_not_changed(stack: cdk.Stack) -> None:
    arn = "arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"
    gpu_vpc(stack, "Net", log_key=kms.Key.from_key_arn(stack, "Key", arn))

    resources = resources_of(stack)
    assert keys_of_logs(resources) == [arn]
    assert not slice_of(resources, "Key")


def test_without_one_no_key_is_named(stack: cdk.Stack) -> None:
    GpuCluster(stack, "Gpu")

    assert keys_of_logs(resources_of(stack)) == [None] * 3


def test_refuses_what_is_no_key(stack: cdk.Stack) -> None:
    with pytest.raises(TypeError, match=r"Test/Gpu: log_key must be a kms.IKey, got 'arn:aws:kms'; import one with"):
        GpuCluster(stack, "Gpu", log_key="arn:aws:kms")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Test/Net: log_key must be a kms.IKey, got 1"):
        gpu_vpc(stack, "Net", log_key=1)  # type: ignore[arg-type]
