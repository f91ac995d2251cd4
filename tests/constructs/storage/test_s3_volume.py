"""One claim mounts a bucket, with its own handle and no more permissions than reading needs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Protocol, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from constructs import Construct
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.storage import S3CsiDriver, S3Mount, S3Volume
from gpu_constructs.storage.manifests import s3_volume_chart
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
    text_of,
)

ADDON, PERMISSIONS = "AWS::EKS::Addon", "AWS::IAM::RolePolicy"


class Define(Protocol):
    """Create volumes in a stack."""

    def __call__(self, **changes: Any) -> S3Volume:
        """Make one with changes."""


@pytest.fixture
def bucket(stack: cdk.Stack) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, "Bucket", "weights")


@pytest.fixture
def define(stack: cdk.Stack, cluster: eks.ICluster, bucket: s3.IBucket) -> Define:
    """A valid volume of an imported cluster, with ``changes`` applied."""
    says = {"cluster": cluster, "name": "weights", "bucket": bucket}
    return lambda id="Weights", **changes: S3Volume(stack, id, **says | changes)


def said(**changes: Any) -> list[dict[str, Any]]:
    """The objects of a volume, with ``changes`` applied."""
    says: dict[str, Any] = {"name": "weights", "namespace": "serving", "volume": "serving.weights"}
    says |= {"bucket_name": "weights", "region": "us-west-2", "prefix": "", "mount": S3Mount(), "by_pod": False}
    return list(s3_volume_chart(**says | changes).to_json())


def drivers(resources: Resources) -> list[dict[str, Any]]:
    return [
        each["Properties"] for each in of_type(resources, ADDON).values() if "s3" in each["Properties"]["AddonName"]
    ]


def options(stack: cdk.Stack) -> list[str]:
    return list(manifest(resources_of(stack), "PersistentVolume")["spec"]["mountOptions"])


def test_manifests(snapshot_yaml: SnapshotAssertion) -> None:
    mount = S3Mount(cache_gib=500, metadata_ttl="indefinite")

    assert said(prefix="llama-70b/", mount=mount) == snapshot_yaml


def test_manifests_of_what_pods_write_as_themselves(snapshot_yaml: SnapshotAssertion) -> None:
    mount = S3Mount(read_only=False, allow_delete=True, uid=1000, gid=1000)

    assert said(mount=mount, by_pod=True) == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("read_only", [True, False])
def test_the_objects_are_valid(minor: str, read_only: bool) -> None:
    for each in said(prefix="a/", mount=S3Mount(read_only=read_only, cache_gib=2)):
        validate(each, minor)


def test_resources_of_a_cluster_without_a_driver(
    stack: cdk.Stack, created_cluster: eks.Cluster, define: Define, snapshot_yaml: SnapshotAssertion
) -> None:
    define(cluster=created_cluster, prefix="llama/")

    parts = ("Weights", "Created-shared/S3CsiDriver", "Created-shared/S3Permissions")
    own, driver, permissions = (resources_under(stack, each) for each in parts)
    assert own | driver | permissions == snapshot_yaml


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, cluster: eks.ICluster, define: Define, tmp_path: Path) -> None:
    S3CsiDriver(stack, "Driver", cluster=cluster, controller_tolerates=["CriticalAddonsOnly"])
    define(bucket=s3.Bucket(stack, "Own", encryption=s3.BucketEncryption.KMS))
    identity = WorkloadIdentity(stack, "Identity", cluster=cluster, service_account="train")
    define(id="Other", name="other", identity=identity)

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    assert cfn_lint([template]) == []


def test_several_volumes_have_one_driver_and_handles_of_their_own(
    stack: cdk.Stack, created_cluster: eks.Cluster
) -> None:
    bucket = s3.Bucket(stack, "Own")
    for name, namespace in (("a", "serving"), ("b", "serving"), ("a", "training")):
        S3Volume(stack, f"{name}-{namespace}", cluster=created_cluster, name=name, namespace=namespace, bucket=bucket)

    resources = resources_of(stack)
    text = json.dumps(resources)
    assert len(drivers(resources)) == 1
    assert set(re.findall(r"volumeHandle\W+([\w.]+)", text)) == {"serving.a", "serving.b", "training.a"}


def test_the_driver_may_read_what_is_under_the_prefix(stack: cdk.Stack, cluster: eks.ICluster, define: Define) -> None:
    driver = S3CsiDriver(stack, "Driver", cluster=cluster)
    define(prefix="llama/")

    permissions = only(resources_of(stack), PERMISSIONS)
    assert permissions["RoleName"] == stack.resolve(driver.driver.role.ref)
    listed, read = permissions["PolicyDocument"]["Statement"]
    assert listed["Condition"] == {"StringLike": {"s3:prefix": "llama/*"}}
    assert "weights/llama/*" in json.dumps(read["Resource"])


def test_a_driver_without_volumes_may_nothing(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    S3CsiDriver(stack, "Driver", cluster=cluster)

    [role] = of_type(resources_of(stack), "AWS::IAM::Role").values()
    assert role["Properties"].keys() == {"AssumeRolePolicyDocument"}


def test_the_key_of_the_bucket_may_be_used(stack: cdk.Stack, created_cluster: eks.Cluster, define: Define) -> None:
    own = s3.Bucket(stack, "Own", encryption=s3.BucketEncryption.KMS)
    define(cluster=created_cluster, bucket=own)

    statements = only(resources_of(stack), PERMISSIONS)["PolicyDocument"]["Statement"]
    assert [each["Action"] for each in statements][-1] == ["kms:Decrypt"]


def test_pods_mount_as_themselves(stack: cdk.Stack, created_cluster: eks.Cluster, define: Define) -> None:
    identity = WorkloadIdentity(stack, "Identity", cluster=created_cluster, service_account="train")
    define(cluster=created_cluster, identity=identity)

    resources = resources_of(stack)
    assert of_type(resources, PERMISSIONS) == {}
    [policy] = [each for id, each in of_type(resources, "AWS::IAM::Policy").items() if id.startswith("Identity")]
    assert "s3:GetObject" in json.dumps(policy)
    volume = manifest(resources, "PersistentVolume")
    assert volume["spec"]["csi"]["volumeAttributes"]["authenticationSource"] == "pod"


def test_two_volumes_of_one_identity_make_one_valid_policy(
    stack: cdk.Stack, cluster: eks.ICluster, define: Define
) -> None:
    identity = WorkloadIdentity(stack, "Identity", cluster=cluster, service_account="train")
    define(identity=identity, prefix="a/")
    define(id="Other", name="other", identity=identity, prefix="b/", mount=S3Mount(read_only=False))

    statements = only(resources_of(stack), "AWS::IAM::Policy")["PolicyDocument"]["Statement"]
    assert [each for each in statements if "Sid" in each] == []
    assert [each["Resource"] for each in statements if "s3:PutObject" in each["Action"]] != []


def test_the_volume_comes_after_driver_and_permissions(
    stack: cdk.Stack, created_cluster: eks.Cluster, define: Define
) -> None:
    define(cluster=created_cluster)

    resources = resources_of(stack)
    made = object_id(resources, "PersistentVolume")
    for kind in (ADDON, PERMISSIONS):
        assert of_type(resources, kind).keys() <= depends_on(resources, made)


def test_a_volume_in_another_stack_leaves_that_of_the_cluster_alone(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    there = cdk.Stack(
        cast("Construct", stack.node.root), "There", env=cdk.Environment(account="111122223333", region="us-east-1")
    )
    S3Volume(there, "Weights", cluster=gpu, name="weights", bucket=s3.Bucket(there, "Own"))

    assert of_type(resources_of(there), PERMISSIONS)
    assert len(drivers(resources_of(stack))) == 1
    assert "There" not in json.dumps(resources_of(stack))


def test_an_imported_bucket_may_know_its_region(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_attributes(stack, "There", bucket_name="weights", region="eu-central-1")
    define(bucket=bucket)

    assert options(stack)[-1] == "region eu-central-1"


def test_refuses_another_region_than_an_imported_bucket_knows(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_attributes(stack, "There", bucket_name="weights", region="eu-central-1")

    with pytest.raises(
        ValueError, match="region must be the region of the bucket, 'eu-central-1', got 'eu-west-1'; leave"
    ):
        define(bucket=bucket, region="eu-west-1")


def test_the_region_is_that_of_the_stack_or_the_one_that_is_said(stack: cdk.Stack, define: Define) -> None:
    define(region="eu-west-1", prefix="a/")

    assert options(stack)[-2:] == ["region eu-west-1", "prefix a/"]


def test_by_default_it_is_that_of_the_stack(stack: cdk.Stack, define: Define) -> None:
    define()

    assert options(stack)[-1] == "region us-east-1"


def test_gpu_nodes_have_the_driver(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    S3CsiDriver(
        stack, "Driver", cluster=cluster, controller_tolerates=["CriticalAddonsOnly"], version="v2.7.0-eksbuild.1"
    )

    [driver] = drivers(resources_of(stack))
    tolerated = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    values = {"node": {"tolerateAllTaints": True}, "controller": {"tolerations": tolerated}}
    assert json.loads(driver["ConfigurationValues"]) == values
    assert driver["AddonVersion"] == "v2.7.0-eksbuild.1"


def test_who_may_not_be_given_the_bucket_is_said(stack: cdk.Stack, define: Define) -> None:
    define()

    Annotations.from_stack(stack).has_warning("/Test/Weights", Match.string_like_regexp(".*the driver of an imported"))


def test_a_role_of_another_account_is_in_the_policy_of_the_bucket(
    stack: cdk.Stack, cluster: eks.ICluster, define: Define
) -> None:
    target = iam.Role.from_role_arn(stack, "Target", "arn:aws:iam::444455556666:role/data")
    identity = WorkloadIdentity(stack, "Identity", cluster=cluster, service_account="train", target_role=target)
    define(bucket=s3.Bucket(stack, "Own"), prefix="a/", identity=identity)

    listed, read = only(resources_of(stack), "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert listed["Principal"] == read["Principal"] == {"AWS": "arn:aws:iam::444455556666:role/data"}
    assert listed["Condition"] == {"StringLike": {"s3:prefix": "a/*"}}


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"name": "Weights"}, ValueError, "name must be 1 to 63 lower-case letters"),
        ({"namespace": "a.b"}, ValueError, "namespace must be 1 to 63 lower-case letters"),
        ({"name": "a" * 56}, ValueError, "name must be at most 55 characters in namespace 'default', got"),
        ({"bucket": "weights"}, TypeError, "bucket must be an s3.IBucket, got 'weights'; import one with"),
        ({"prefix": "llama"}, ValueError, "prefix must end with '/', not begin with it, and have no spaces"),
        ({"prefix": "/llama/"}, ValueError, "prefix must end with '/', not begin with it, and have no spaces"),
        ({"prefix": "my llama/"}, ValueError, "prefix must end with '/', not begin with it, and have no spaces"),
        ({"prefix": "llama*/"}, ValueError, "prefix must end with '/', not begin with it, and have no spaces"),
        ({"prefix": None}, TypeError, "prefix must be a string, got None"),
        ({"mount": "read-only"}, TypeError, "mount must be S3Mount(...), got 'read-only'"),
        ({"identity": "train"}, TypeError, "identity must be a WorkloadIdentity, got 'train'"),
        (
            {"region": "us-esat-1"},
            ValueError,
            "region must be a region, got 'us-esat-1'; did you mean 'us-east-1'?",
        ),
        ({"region": "europe"}, ValueError, "region must be a region, got 'europe'"),
    ],
)
def test_refuses(
    stack: cdk.Stack, define: Define, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(f"Test/Weights: {message}")):
        define(**changes)

    assert stack.node.find_child("Weights").node.children == []


@pytest.mark.parametrize(
    "prefix", ["a/", "models/llama-70b/", f"{cdk.Aws.STACK_ID}/a/"], ids=["short", "deep", "token"]
)
def test_the_nearest_legal_prefixes(stack: cdk.Stack, define: Define, prefix: str) -> None:
    define(prefix=prefix)

    assert options(stack)[-1] == text_of(stack.resolve(f"prefix {prefix}"))


@pytest.mark.parametrize("name", ["Weights", "my_weights"])
def test_a_name_that_no_bucket_there_has_is_refused(stack: cdk.Stack, define: Define, name: str) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Old", name)

    with pytest.raises(
        ValueError, match=f"bucket must have a name of lower-case letters, .*, got '{name}'; correct it"
    ):
        define(bucket=bucket, region="eu-west-1")


@pytest.mark.parametrize(
    ("name", "region"),
    [("my_Weights", "us-east-1"), ("my_Weights", None), ("my_Weights", cdk.Aws.REGION), ("my.weights-2", "eu-west-1")],
    ids=["old", "stack", "token", "new"],
)
def test_names_that_a_bucket_may_have_are_taken(
    stack: cdk.Stack, define: Define, name: str, region: str | None
) -> None:
    define(bucket=s3.Bucket.from_bucket_name(stack, "Old", name), region=region)

    attributes = manifest(resources_of(stack), "PersistentVolume")["spec"]["csi"]["volumeAttributes"]
    assert attributes["bucketName"] == name


@pytest.mark.parametrize(
    ("prefix", "fix"),
    [
        ("llama-8b", "; write 'llama-8b/'"),
        ("/llama-8b/", "; write 'llama-8b/'"),
        ("/", "; leave it out for the whole bucket"),
        ("my llama", ""),
    ],
)
def test_a_prefix_is_refused_with_the_nearest(define: Define, prefix: str, fix: str) -> None:
    with pytest.raises(ValueError, match=f"got '{prefix}'{fix}$"):
        define(prefix=prefix)


def test_the_longest_legal_name(define: Define) -> None:
    assert define(name="a" * 55).name == "a" * 55


def test_refuses_an_identity_of_another_namespace(stack: cdk.Stack, cluster: eks.ICluster, define: Define) -> None:
    identity = WorkloadIdentity(stack, "Identity", cluster=cluster, service_account="train", namespace="training")

    with pytest.raises(ValueError, match="identity must be of the volume's namespace 'default', got 'Test/Identity'"):
        define(identity=identity)


def test_refuses_a_second_volume_of_a_name(define: Define) -> None:
    define()

    with pytest.raises(ValueError, match="cluster must have one volume default/weights, got a second one next"):
        define(id="Again")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 2}, TypeError, "version must be a string, got 2"),
        (
            {"version": "v1.15.0-eksbuild.1"},
            ValueError,
            "version must be v2 or newer to support Pod Identity",
        ),
        ({"controller_tolerates": "all"}, TypeError, "controller_tolerates must be a list of names, got 'all'"),
        ({"controller_tolerates": ["a b"]}, ValueError, "controller_tolerates must contain keys of taints, got 'a b'"),
    ],
)
def test_refuses_what_is_no_driver(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"Test/Driver: {message}"):
        S3CsiDriver(stack, "Driver", cluster=cluster, **changes)


def test_the_oldest_driver(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    S3CsiDriver(stack, "Driver", cluster=cluster, version="v2.0.0-eksbuild.1")

    assert drivers(resources_of(stack))[0]["AddonVersion"] == "v2.0.0-eksbuild.1"


def test_refuses_a_second_driver(stack: cdk.Stack, created_cluster: eks.Cluster, define: Define) -> None:
    define(cluster=created_cluster)

    with pytest.raises(ValueError, match="cluster must have one Mountpoint S3 CSI driver, got a second one next"):
        S3CsiDriver(stack, "Again", cluster=created_cluster)
