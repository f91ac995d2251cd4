"""A class waits for the pod, its volumes are encrypted, and its driver is there once and may use the key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Annotations, Match
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import AutoMode, GpuCluster
from gpu_constructs.cluster.addons import Addons
from gpu_constructs.storage import EbsCsiDriver, EbsStorageClass, Gp3
from gpu_constructs.storage.manifests import storage_class_chart
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import (
    Resources,
    depends_on,
    manifest,
    object_id,
    of_type,
    only,
    resources_of,
    resources_under,
)

ADDON, USE = "AWS::EKS::Addon", "AWS::IAM::RolePolicy"
KEY = "arn:aws:kms:us-east-1:111122223333:key/0a1b"


class Define(Protocol):
    """Create storage classes in a stack."""

    def __call__(self, **changes: Any) -> EbsStorageClass:
        """Make one with changes."""


@pytest.fixture
def define(stack: cdk.Stack, cluster: eks.ICluster) -> Define:
    """A valid class of an imported cluster, with ``changes`` applied."""
    return lambda id="Fast", **changes: EbsStorageClass(stack, id, **{"cluster": cluster, "name": "fast"} | changes)


def said(**changes: Any) -> dict[str, Any]:
    """The object of a plain class, with ``changes`` applied."""
    plain: dict[str, Any] = {"name": "fast", "volume": Gp3(), "key_arn": None}
    plain |= {"is_default": False, "retain": False, "auto_mode": False}
    [made] = storage_class_chart(**plain | changes).to_json()
    return dict(made)


def drivers(resources: Resources) -> list[dict[str, Any]]:
    addons = (each["Properties"] for each in of_type(resources, ADDON).values())
    return [each for each in addons if each["AddonName"] == "aws-ebs-csi-driver"]


def test_manifest(snapshot_yaml: SnapshotAssertion) -> None:
    assert said() == snapshot_yaml


def test_manifest_of_auto_mode_with_everything(snapshot_yaml: SnapshotAssertion) -> None:
    volume = Gp3(iops=6_000, throughput_mib_s=1_000, file_system="xfs")

    assert said(volume=volume, key_arn=KEY, is_default=True, retain=True, auto_mode=True) == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("auto_mode", [True, False])
def test_the_class_is_valid(minor: str, auto_mode: bool) -> None:
    validate(said(key_arn=KEY, is_default=True, auto_mode=auto_mode), minor)


def test_resources_of_a_cluster_without_a_driver(
    stack: cdk.Stack, created_cluster: eks.Cluster, snapshot_yaml: SnapshotAssertion
) -> None:
    key = kms.Key.from_key_arn(stack, "Key", KEY)
    EbsStorageClass(stack, "Fast", cluster=created_cluster, name="fast", key=key)

    own, shared = resources_under(stack, "Fast"), resources_under(stack, "Created-shared/EbsCsiDriver")
    assert own | shared == snapshot_yaml


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, cluster: eks.ICluster, define: Define, tmp_path: Path) -> None:
    EbsCsiDriver(stack, "Driver", cluster=cluster)
    define(key=kms.Key(stack, "Key"))

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    assert cfn_lint([template]) == []


def test_several_classes_have_one_driver(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    for name in ("fast", "large"):
        EbsStorageClass(stack, name, cluster=created_cluster, name=name)

    assert len(drivers(resources_of(stack))) == 1


def test_the_driver_of_a_gpu_cluster_is_taken(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    EbsStorageClass(stack, "Fast", cluster=gpu, name="fast", key=kms.Key(stack, "Key"))

    resources = resources_of(stack)
    [driver] = drivers(resources)
    [association] = driver["PodIdentityAssociations"]
    assert {"Ref": association["RoleArn"]["Fn::GetAtt"][0]} == only(resources, USE)["RoleName"]


def test_a_driver_that_was_made_before_is_taken(stack: cdk.Stack, cluster: eks.ICluster, define: Define) -> None:
    EbsCsiDriver(stack, "Driver", cluster=cluster, version="v1.63.1-eksbuild.1")
    define(key=kms.Key(stack, "Key"))

    resources = resources_of(stack)
    [driver] = drivers(resources)
    assert driver["AddonVersion"] == "v1.63.1-eksbuild.1"
    [role] = [id for id in of_type(resources, "AWS::IAM::Role") if id.startswith("PodIdentityRoleEbs")]
    assert only(resources, USE)["RoleName"] == {"Ref": role}


def test_the_class_comes_after_its_driver_and_the_right_to_the_key(
    stack: cdk.Stack, created_cluster: eks.Cluster
) -> None:
    EbsStorageClass(stack, "Fast", cluster=created_cluster, name="fast", key=kms.Key(stack, "Key"))

    resources = resources_of(stack)
    made = object_id(resources, "StorageClass")
    for kind in (ADDON, USE):
        assert of_type(resources, kind).keys() <= depends_on(resources, made)


def test_an_imported_cluster_has_its_own_driver(stack: cdk.Stack, define: Define) -> None:
    define()

    resources = resources_of(stack)
    assert drivers(resources) == []
    assert manifest(resources, "StorageClass")["provisioner"] == "ebs.csi.aws.com"


@pytest.mark.parametrize("auto_mode", [None, True])
def test_who_may_not_be_given_the_key_is_said(stack: cdk.Stack, define: Define, auto_mode: bool | None) -> None:
    define(key=kms.Key(stack, "Key"), auto_mode=auto_mode)

    assert of_type(resources_of(stack), USE) == {}
    said = Annotations.from_stack(stack)
    said.has_warning(
        "/Test/Fast", Match.string_like_regexp(".*can't grant the driver of an imported cluster use of the key")
    )


def test_auto_mode_makes_volumes_as_the_cluster(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode())
    EbsStorageClass(stack, "Fast", cluster=gpu, name="fast", key=kms.Key(stack, "Key"))

    resources = resources_of(stack)
    assert drivers(resources) == []
    assert manifest(resources, "StorageClass")["provisioner"] == "ebs.csi.eks.amazonaws.com"
    cluster = only(resources, "AWS::EKS::Cluster")
    assert {"Ref": cluster["RoleArn"]["Fn::GetAtt"][0]} == only(resources, USE)["RoleName"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "Fast"}, ValueError, "name must be 1 to 63 lower-case letters"),
        ({"volume": "gp3"}, TypeError, "volume must be a Gp3, got 'gp3'; write Gp3(...)"),
        ({"key": KEY}, TypeError, f"key must be a kms.IKey, got '{KEY}'; import one with Key.from_key_arn"),
        ({"is_default": 1}, TypeError, "is_default must be True or False, got 1"),
        ({"retain": "yes"}, TypeError, "retain must be True or False, got 'yes'"),
        ({"auto_mode": "yes"}, TypeError, "auto_mode must be True or False, got 'yes'"),
    ],
)
def test_refuses(
    stack: cdk.Stack, define: Define, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(f"Test/Fast: {message}")):
        define(**changes)

    assert stack.node.find_child("Fast").node.children == []


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {}, "cluster must have one StorageClass 'fast', got a second one next to 'Test/Fast'"),
        ({"is_default": True}, {"is_default": True, "name": "other"}, "cluster must have one default StorageClass"),
    ],
)
def test_refuses_a_second_one(define: Define, first: dict[str, Any], second: dict[str, Any], message: str) -> None:
    define(**first)

    with pytest.raises(ValueError, match=f"Test/Again: {message}"):
        define(id="Again", **second)


def test_another_class_need_not_be_the_default(define: Define) -> None:
    define(is_default=True)

    assert define(id="Large", name="large").name == "large"


def test_refuses_another_mode_than_the_clusters_own(stack: cdk.Stack, created_cluster: eks.Cluster) -> None:
    with pytest.raises(ValueError, match="auto_mode must be the cluster's setting False, got True; leave it out"):
        EbsStorageClass(stack, "Fast", cluster=created_cluster, name="fast", auto_mode=True)


@pytest.mark.parametrize("kind", [EbsCsiDriver, Addons])
def test_refuses_a_second_driver(stack: cdk.Stack, created_cluster: eks.Cluster, kind: type[Construct]) -> None:
    EbsStorageClass(stack, "Fast", cluster=created_cluster, name="fast")

    with pytest.raises(ValueError, match="Test/Again: cluster must have one EBS CSI driver, got a second one next"):
        kind(stack, "Again", cluster=created_cluster)  # type: ignore[call-arg]


def test_refuses_a_driver_in_addition_to_auto_modes(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", auto_mode=AutoMode())

    with pytest.raises(
        ValueError, match="cluster must not use Auto Mode, which has its own driver, got 'Test/Gpu/Cluster'"
    ):
        EbsCsiDriver(stack, "Driver", cluster=gpu)


@pytest.mark.parametrize("version", ["", 1])
def test_refuses_what_is_no_version(stack: cdk.Stack, cluster: eks.ICluster, version: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^Test/Driver: version must be a string, got .*; write one such as 'v1\.63\.1-eksbuild\.1'"
    ):
        EbsCsiDriver(stack, "Driver", cluster=cluster, version=version)
