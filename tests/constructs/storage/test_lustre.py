"""A file system that FSx makes, whose ports nodes reach, in the zone of its pods, kept when the app forgets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import GpuCluster, ManagedNodeGroup, NodeShape
from gpu_constructs.storage import FsxCsiDriver, LustreFileSystem, PersistentLustre, ScratchLustre
from gpu_constructs.storage.manifests import lustre_chart
from gpu_facts.storage import is_lustre_size
from tests.linting import cfn_lint
from tests.schemas import validate
from tests.templates import depends_on, manifests_of, of_type, only, resources_of, resources_under

FILE_SYSTEM, ADDON = "AWS::FSx::FileSystem", "AWS::EKS::Addon"
ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"


class Define(Protocol):
    """Create file systems in a stack."""

    def __call__(self, **changes: Any) -> LustreFileSystem:
        """Make one with changes."""


def subnet_in(stack: cdk.Stack, letter: str) -> ec2.ISubnet:
    return ec2.Subnet.from_subnet_attributes(
        stack, f"In{letter}", subnet_id=f"subnet-0123456789abcde{letter}0", availability_zone=f"us-west-2{letter}"
    )


@pytest.fixture
def define(stack: cdk.Stack, cluster: eks.ICluster) -> Define:
    """A valid file system of an imported cluster, with ``changes`` applied."""
    subnet = subnet_in(stack, "a")
    says = {"cluster": cluster, "name": "data", "subnet": subnet}
    return lambda id="Data", **changes: LustreFileSystem(stack, id, **says | changes)


def said(**changes: Any) -> list[dict[str, Any]]:
    """The objects of a volume, with ``changes`` applied."""
    says: dict[str, Any] = {"name": "data", "namespace": "train", "volume": "train.data", "size_gib": 2400}
    says |= {"file_system_id": "fs-0123456789abcdef0", "dns_name": "fs.example.com", "mount_name": "abcdev"}
    return list(lustre_chart(**says | {"zone": "us-west-2a"} | changes).to_json())


def test_manifests(snapshot_yaml: SnapshotAssertion) -> None:
    assert said() == snapshot_yaml


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
@pytest.mark.parametrize("zone", ["us-west-2a", None])
def test_the_objects_are_valid(minor: str, zone: str | None) -> None:
    for each in said(zone=zone):
        validate(each, minor)


def test_resources(stack: cdk.Stack, define: Define, snapshot_yaml: SnapshotAssertion) -> None:
    define(storage=PersistentLustre(size_gib=2400, mb_s_per_tib=250, compress=True, backup_days=7))

    assert resources_under(stack, "Data") == snapshot_yaml


@pytest.mark.linted
def test_cloudformation_takes_it(stack: cdk.Stack, define: Define, tmp_path: Path) -> None:
    data = define(key=kms.Key(stack, "Key"))
    data.add_data_repository("Corpus", bucket=s3.Bucket(stack, "Bucket"), path="/corpus", exports=True)

    template = tmp_path / "template.json"
    template.write_text(json.dumps({"Resources": resources_of(stack)}))
    # The CDK lists a dependency twice where two of its constructs add it.
    assert [each for each in cfn_lint([template]) if "W3005" not in str(each)] == []


def test_a_cluster_gets_the_driver_once(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu", admins=["arn:aws:iam::111122223333:role/Admin"])
    [subnet, *_] = gpu.cluster.vpc.private_subnets
    pool = gpu.add_pool(
        "l4", NodeShape(instance_types=("g6.xlarge",), storage_drivers=("fsx",)), max_nodes=2, subnets=[subnet]
    )
    for name in ("a", "b"):
        LustreFileSystem(stack, name, cluster=gpu, name=name, pool=pool)

    names = [each["Properties"]["AddonName"] for each in of_type(resources_of(stack), ADDON).values()]
    assert names.count("aws-fsx-csi-driver") == 1


def test_the_driver_may_nothing(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    FsxCsiDriver(stack, "Driver", cluster=cluster, version="v1.9.0-eksbuild.1")

    assert "ManagedPolicyArns" not in only(resources_of(stack), "AWS::IAM::Role")
    [linked] = only(resources_of(stack), ADDON)["PodIdentityAssociations"]
    assert linked["ServiceAccount"] == "fsx-csi-controller-sa"


def test_lustre_is_of_the_version_that_nodes_speak(stack: cdk.Stack, define: Define) -> None:
    define(storage=ScratchLustre())

    assert only(resources_of(stack), FILE_SYSTEM)["FileSystemTypeVersion"] == "2.15"


def test_file_system_and_nodes_reach_each_other(stack: cdk.Stack, define: Define) -> None:
    data = define(security_group_ids=["sg-0123456789abcdef0"])

    own = stack.resolve(data.security_group.security_group_id)
    resources = resources_of(stack)
    alone = [each["Properties"] for each in of_type(resources, "AWS::EC2::SecurityGroupIngress").values()]
    nodes = "sg-0123456789abcdef0"
    for group, source in ((own, own), (own, nodes), (nodes, own)):
        opened = [each for each in alone if (each["GroupId"], each["SourceSecurityGroupId"]) == (group, source)]
        assert {(each["FromPort"], each["ToPort"]) for each in opened} == {(988, 988), (1018, 1023)}


def test_its_servers_reach_each_other_before_it_is_made(stack: cdk.Stack, define: Define) -> None:
    define()

    resources = resources_of(stack)
    [name] = of_type(resources, FILE_SYSTEM)
    rules = [
        id
        for id, each in of_type(resources, "AWS::EC2::SecurityGroupIngress").items()
        if each["Properties"]["Description"] == "Its servers"
    ]
    assert len(rules) == 2
    assert set(rules) <= depends_on(resources, name)


@pytest.mark.parametrize(
    ("retain", "policies"), [(True, ("RetainExceptOnCreate", "Retain")), (False, ("Delete", "Delete"))]
)
def test_what_is_kept_keeps_its_security_group(
    stack: cdk.Stack, define: Define, retain: bool, policies: tuple[str, str]
) -> None:
    define(retain=retain)

    resources = resources_of(stack)
    rules = of_type(resources, "AWS::EC2::SecurityGroupIngress").values()
    among_servers = [each for each in rules if each["Properties"]["Description"] == "Its servers"]
    [data], [group] = (of_type(resources, kind).values() for kind in (FILE_SYSTEM, "AWS::EC2::SecurityGroup"))
    assert len(among_servers) == 2
    for each in (data, group, *among_servers):
        assert (each["DeletionPolicy"], each["UpdateReplacePolicy"]) == policies


def test_nothing_that_is_kept_names_the_group_of_the_cluster(stack: cdk.Stack, define: Define) -> None:
    define(retain=True, security_group_ids=["sg-0123456789abcdef0"])

    resources = resources_of(stack)
    kept = [each for each in resources.values() if each.get("UpdateReplacePolicy") == "Retain"]
    assert {"AWS::EC2::SecurityGroup", "AWS::EC2::SecurityGroupIngress"} <= {each["Type"] for each in kept}
    assert "sg-0123456789abcdef0" not in json.dumps(kept)


def volumes(stack: cdk.Stack) -> list[dict[str, Any]]:
    return [each for each in manifests_of(resources_of(stack)) if each["kind"] == "PersistentVolume"]


def test_pods_run_in_its_zone_by_default(stack: cdk.Stack, define: Define) -> None:
    define()

    [volume] = volumes(stack)
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["us-west-2a"]


def test_pods_may_run_in_other_zones(stack: cdk.Stack, define: Define) -> None:
    define(other_zones=True)

    [volume] = volumes(stack)
    assert "nodeAffinity" not in volume["spec"]


def test_pods_of_several_namespaces_mount_it(stack: cdk.Stack, define: Define) -> None:
    data = define(namespace="train")
    data.add_claim("Serve", namespace="serve")

    names = {each["metadata"]["name"]: each["spec"]["claimRef"]["namespace"] for each in volumes(stack)}
    assert names == {"train.data": "train", "serve.data": "serve"}
    with pytest.raises(ValueError, match="serve/data"):
        data.add_claim("Again", namespace="serve")


def test_it_is_in_the_only_subnet_of_its_pool(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    subnet = subnet_in(stack, "c")
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=2, subnets=[subnet])
    LustreFileSystem(stack, "Data", cluster=cluster, name="data", pool=pool)

    assert only(resources_of(stack), FILE_SYSTEM)["SubnetIds"] == [subnet.subnet_id]


def test_refuses_another_zone_than_the_pool_has(stack: cdk.Stack, cluster: eks.ICluster, define: Define) -> None:
    subnets = [subnet_in(stack, "b"), subnet_in(stack, "c")]
    shape = NodeShape(instance_types=("g6.xlarge",))
    pool = ManagedNodeGroup(stack, "Nodes", cluster=cluster, name="l4", shape=shape, max_nodes=2, subnets=subnets)

    with pytest.raises(
        ValueError, match="subnet must be in a zone of the pool, us-west-2b, us-west-2c, got 'us-west-2a'"
    ):
        define(pool=pool)
    with pytest.raises(ValueError, match="subnet must be given, got a pool with 2 subnets"):
        define(id="Other", pool=pool, subnet=None)


def test_files_come_from_a_bucket(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "corpus")
    data = define()
    data.add_data_repository("Corpus", bucket=bucket, path="/corpus", prefix="text/")

    made = only(resources_of(stack), ASSOCIATION)
    assert (made["DataRepositoryPath"], made["FileSystemPath"]) == ("s3://corpus/text/", "/corpus")
    assert made["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}}
    assert made["BatchImportMetaDataOnCreate"] is True


@pytest.mark.parametrize("path", ["corpus", "//", "/corpus/", "", "/a//b"])
def test_refuses_what_is_no_directory(stack: cdk.Stack, define: Define, path: str) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "corpus")

    with pytest.raises(ValueError, match=r"path must be a directory of the file system, got .*; write '/corpus', or"):
        define().add_data_repository("Corpus", bucket=bucket, path=path)


def test_all_of_a_file_system_may_be_the_only_link(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "corpus")
    data = define()
    data.add_data_repository("All", bucket=bucket, path="/", prefix="1/")

    with pytest.raises(ValueError, match="path must not overlap the path of another link, '/', got '/corpus'"):
        data.add_data_repository("Corpus", bucket=bucket, path="/corpus", prefix="2/")


def test_refuses_a_directory_in_another_one(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "corpus")
    data = define()
    data.add_data_repository("Corpus", bucket=bucket, path="/corpus", prefix="1/")

    with pytest.raises(
        ValueError, match="path must not overlap the path of another link, '/corpus', got '/corpus/text'"
    ):
        data.add_data_repository("Text", bucket=bucket, path="/corpus/text")
    data.add_data_repository("Other", bucket=bucket, path="/corpus-2", prefix="2/")


@pytest.mark.parametrize("prefix", ["text/", "text/en/", ""])
def test_refuses_a_second_directory_for_the_same_objects(stack: cdk.Stack, define: Define, prefix: str) -> None:
    first, second = (s3.Bucket(stack, each) for each in ("First", "Second"))
    data = define()
    data.add_data_repository("Corpus", bucket=first, path="/corpus", prefix="text/")
    data.add_data_repository("Images", bucket=first, path="/images", prefix="images/")
    data.add_data_repository("Other", bucket=second, path="/other", prefix="text/")

    with pytest.raises(
        ValueError, match="linked to one directory, got objects of '/again' that are also in '/corpus'; link"
    ):
        data.add_data_repository("Again", bucket=first, path="/again", prefix=prefix)


def test_refuses_a_bucket_of_another_region(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_attributes(stack, "Bucket", bucket_name="corpus", region="eu-central-1")

    with pytest.raises(
        ValueError, match="bucket must be in the file system's region 'us-east-1', got one in 'eu-central-1'; copy it"
    ):
        define().add_data_repository("Corpus", bucket=bucket, path="/corpus")


def test_refuses_a_ninth_link(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket(stack, "Bucket")
    data = define()
    for number in range(8):
        data.add_data_repository(f"Link{number}", bucket=bucket, path=f"/{number}", prefix=f"{number}/")

    with pytest.raises(ValueError, match=r"must have at most 8 data repositories, got 9; link a prefix"):
        data.add_data_repository("Link8", bucket=bucket, path="/8", prefix="8/")


def test_a_linked_file_system_has_no_backups(stack: cdk.Stack, define: Define) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "corpus")
    data = define(storage=PersistentLustre(backup_days=1))

    with pytest.raises(ValueError, match="storage must have backup_days=0 with a data repository, got 1"):
        data.add_data_repository("Corpus", bucket=bucket, path="/corpus")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"storage": 2400}, TypeError, r"storage must be PersistentLustre\(...\) or ScratchLustre"),
        ({"subnet": "subnet-0"}, TypeError, "subnet must be an ec2.ISubnet"),
        ({"subnet": None}, ValueError, "subnet must be given, got None"),
        ({"pool": "l4"}, TypeError, "pool must be a pool of this library, got 'l4'"),
        ({"name": "A"}, ValueError, "name must"),
        ({"name": "a" * 60}, ValueError, "name must be at most"),
        ({"security_group_ids": []}, ValueError, "security_group_ids must name at least one group"),
        ({"key": "arn"}, TypeError, "key must"),
        ({"retain": "yes"}, TypeError, "retain must"),
        ({"vpc": "vpc-0"}, TypeError, "vpc must be an ec2.IVpc"),
    ],
)
def test_refuses_what_cannot_be(define: Define, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        define(**changes)


def test_refuses_a_key_for_scratch(stack: cdk.Stack, define: Define) -> None:
    with pytest.raises(ValueError, match="key must be left out with ScratchLustre"):
        define(storage=ScratchLustre(), key=kms.Key(stack, "Key"))


def test_refuses_a_subnet_of_unknown_zone(stack: cdk.Stack, define: Define) -> None:
    unknown = ec2.Subnet.from_subnet_id(stack, "Somewhere", "subnet-0123456789abcdef0")

    with pytest.raises(ValueError, match="subnet must have a known zone, got 'Test/Somewhere' without"):
        define(subnet=unknown)


def test_takes_it_where_pods_may_run_anywhere(stack: cdk.Stack, define: Define) -> None:
    define(subnet=ec2.Subnet.from_subnet_id(stack, "Somewhere", "subnet-0123456789abcdef0"), other_zones=True)

    assert only(resources_of(stack), FILE_SYSTEM)["SubnetIds"] == ["subnet-0123456789abcdef0"]


@pytest.mark.parametrize("size", [1200, 2400, 4800, 7200])
def test_sizes_that_fsx_makes(size: int) -> None:
    assert PersistentLustre(size_gib=size).size_gib == ScratchLustre(size_gib=size).size_gib == size


@pytest.mark.parametrize("size", [0, 1199, 1201, 3600, 4801])
def test_refuses_other_sizes(size: int) -> None:
    with pytest.raises(ValueError, match="lustre: size_gib must be"):
        PersistentLustre(size_gib=size)


def test_sizes_of_older_kinds() -> None:
    assert is_lustre_size(3600, "SCRATCH_1")
    assert not is_lustre_size(4800, "SCRATCH_1")
    assert is_lustre_size(1800, "PERSISTENT_1", "HDD", 40)
    assert not is_lustre_size(1800, "PERSISTENT_1", "HDD", 12)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mb_s_per_tib": 200}, "mb_s_per_tib must be one of 125, 250, 500, 1000, got 200"),
        ({"backup_days": 91}, "backup_days must be at most 90, got 91"),
    ],
)
def test_refuses_what_fsx_does_not_sell(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PersistentLustre(**changes)
