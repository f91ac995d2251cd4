"""Many volumes, and few policies that allow exactly what each of them needs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from constructs import Construct

from gpu_constructs import GpuCluster
from gpu_constructs.identity import WorkloadIdentity
from gpu_constructs.installing.cluster_ref import cluster_ref
from gpu_constructs.storage import S3CsiDriver, S3Mount, S3Volume
from gpu_constructs.storage.s3_volume import DriverPermissions, driver_permissions, mount_statements
from gpu_facts.iam_policies import MAX_ATTACHED, MAX_MANAGED
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from tests.conftest import FLAGS
from tests.templates import depends_on, of_type, resources_of

POLICY, INLINE = "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"


@pytest.fixture
def permissions(stack: cdk.Stack) -> DriverPermissions:
    gpu = GpuCluster(stack, "Gpu")
    driver = S3CsiDriver(stack, "Driver", cluster=gpu)
    return driver_permissions(stack, cluster_ref("test", gpu), driver.driver)


def _name(number: int) -> str:
    """The longest name of a bucket."""
    return f"bucket-{number:04}".ljust(63, "x")


def _wanted(number: int, prefix: str = "", **mount: Any) -> list[dict[str, Any]]:
    bucket = f"arn:aws:s3:::{_name(number)}"
    return mount_statements(bucket_arn=bucket, prefix=prefix, mount=S3Mount(**mount))


def _policies(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    resources = resources_of(stack)
    found = of_type(resources, POLICY) | of_type(resources, INLINE)
    return {name: each["Properties"]["PolicyDocument"] for name, each in found.items()}


def _allowed(statements: Iterable[dict[str, Any]]) -> set[tuple[str, str, str | None]]:
    """Each action, resource and prefix that statements allow."""

    def listed(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]

    return {
        (action, resource, prefix)
        for each in statements
        for action in listed(each["Action"])
        for resource in listed(each["Resource"])
        for prefix in listed(each.get("Condition", {}).get("StringLike", {}).get("s3:prefix"))
    }


@pytest.mark.parametrize(("volumes", "most"), [(1, 1), (30, 2), (100, 5)])
def test_many_volumes_get_few_policies(
    stack: cdk.Stack, permissions: DriverPermissions, volumes: int, most: int
) -> None:
    wanted = {f"default/{number}": _wanted(number, read_only=False) for number in range(volumes)}
    for name, statements in wanted.items():
        permissions.allow("test", name, statements)

    found = _policies(stack)
    assert len(found) <= most
    assert all(len(json.dumps(each, separators=(",", ":"))) <= MAX_MANAGED for each in found.values())
    stated = _allowed(each for policy in found.values() for each in policy["Statement"])
    assert stated == _allowed(each for statements in wanted.values() for each in statements)


def test_hundred_volumes_of_new_buckets_pass_the_check(stack: cdk.Stack, tmp_path: Path) -> None:
    gpu = GpuCluster(stack, "Gpu")
    for number in range(100):
        bucket = s3.Bucket(stack, f"Bucket{number}")
        mount = S3Mount(read_only=False)
        S3Volume(stack, f"Volume{number}", cluster=gpu, name=f"data-{number}", bucket=bucket, mount=mount)

    template = Template.from_stack(stack).to_json()
    file = tmp_path / "app.template.json"
    file.write_text(json.dumps(template))
    report = check(read_input([str(file)], stack="app"))
    assert "GPU480" not in {each.rule.id for each in report.findings}
    assert "AWS::IAM::RolePolicy" not in json.dumps(template)
    assert 2 <= len(of_type(template["Resources"], POLICY)) <= MAX_ATTACHED


def test_prefixes_of_one_bucket_are_listed_together(stack: cdk.Stack, permissions: DriverPermissions) -> None:
    for team in ("a", "b"):
        permissions.allow("test", f"{team}/data", _wanted(1, prefix=f"{team}/"))

    [policy] = _policies(stack).values()
    assert [each.get("Condition") for each in policy["Statement"]] == [
        {"StringLike": {"s3:prefix": ["a/*", "b/*"]}},
        None,
    ]
    assert len(policy["Statement"][1]["Resource"]) == 2


def test_prefixes_of_two_buckets_stay_apart(stack: cdk.Stack, permissions: DriverPermissions) -> None:
    wanted = [_wanted(1, prefix="a/"), _wanted(2, prefix="b/"), _wanted(3)]
    for number, statements in enumerate(wanted):
        permissions.allow("test", f"default/{number}", statements)

    [policy] = _policies(stack).values()
    assert _allowed(policy["Statement"]) == _allowed(each for statements in wanted for each in statements)


def test_whole_bucket_needs_no_prefix(stack: cdk.Stack, permissions: DriverPermissions) -> None:
    permissions.allow("test", "default/a", _wanted(1, prefix="a/"))
    permissions.allow("test", "default/all", _wanted(1))

    [policy] = _policies(stack).values()
    assert not any("Condition" in each for each in policy["Statement"])


def _of(volumes: Iterable[int]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The policies of an app with some volumes, and its resources."""
    stack = cdk.Stack(cast("Construct", cdk.App(context=FLAGS)), "Test")
    gpu = GpuCluster(stack, "Gpu")
    driver = S3CsiDriver(stack, "Driver", cluster=gpu)
    permissions = driver_permissions(stack, cluster_ref("test", gpu), driver.driver)
    for number in volumes:
        permissions.allow("test", f"default/{number}", _wanted(number))
    resources = dict(resources_of(stack))
    return {name: each["Properties"]["PolicyDocument"] for name, each in of_type(resources, POLICY).items()}, resources


def _where(policies: dict[str, dict[str, Any]], number: int) -> str:
    [found] = [name for name, each in policies.items() if _name(number) in json.dumps(each)]
    return found


def test_another_volume_moves_none() -> None:
    before, _ = _of(range(1, 50))
    after, _ = _of(range(50))

    assert before.keys() == after.keys()
    assert len(before) > 1
    assert [_where(before, each) for each in range(1, 50)] == [_where(after, each) for each in range(1, 50)]


def test_volumes_move_to_new_policies_only_and_these_come_first() -> None:
    before, _ = _of(range(30))
    after, resources = _of(range(100))

    added = after.keys() - before.keys()
    assert before.keys() < after.keys()
    for number in range(30):
        first, then = _where(before, number), _where(after, number)
        assert first == then or (then in added and then in depends_on(resources, first))


def test_order_of_definition_changes_no_place() -> None:
    forwards, _ = _of(range(60))
    backwards, _ = _of(reversed(range(60)))

    assert [_where(forwards, each) for each in range(60)] == [_where(backwards, each) for each in range(60)]


def test_volume_in_a_stack_that_grows_gets_a_managed_policy(permissions: DriverPermissions, stack: cdk.Stack) -> None:
    permissions.allow("test", "default/0", _wanted(0))
    assert len(permissions.node.children) == 1
    assert cdk.CfnResource.is_cfn_resource(permissions.node.find_child("Policy"))
    for number in range(1, 10):
        permissions.allow("test", f"default/{number}", _wanted(number))

    resources = resources_of(stack)
    assert not of_type(resources, INLINE)
    assert len(of_type(resources, POLICY)) == 1


@pytest.mark.parametrize(("volumes", "most"), [(1, 26), (8, 10)])
def test_stacks_share_what_a_role_may_have(stack: cdk.Stack, volumes: int, most: int) -> None:
    gpu = GpuCluster(stack, "Gpu")
    app = cast("Construct", stack.node.root)
    env = cdk.Environment(account=stack.account, region=stack.region)

    def define(number: int) -> None:
        there = cdk.Stack(app, f"Team{number}", env=env)
        for each in range(volumes):
            bucket = s3.Bucket.from_bucket_name(there, f"Bucket{each}", f"data-{number}-{each}".ljust(30, "x"))
            mount = S3Mount(read_only=False)
            S3Volume(there, f"V{each}", cluster=gpu, name=f"data-{number}-{each}", bucket=bucket, mount=mount)

    def define_all(numbers: range) -> None:
        for number in numbers:
            define(number)

    define_all(range(most))
    with pytest.raises(ValueError, match=r"Team\d+/V\d: identity must be given, got None with permissions of \d+ vol"):
        define_all(range(most, most + 10))


def test_volume_with_an_identity_takes_none_of_them(stack: cdk.Stack) -> None:
    gpu = GpuCluster(stack, "Gpu")
    identity = WorkloadIdentity(stack, "Identity", cluster=gpu, service_account="train")
    bucket = s3.Bucket.from_bucket_name(stack, "Own", _name(11))
    S3Volume(stack, "Other", cluster=gpu, name="data", bucket=bucket, identity=identity)

    assert not _policies(stack)


def test_rejects_the_volume_that_does_not_fit(permissions: DriverPermissions) -> None:
    def allow_all() -> None:
        for number in range(1000):
            permissions.allow("test", f"default/{number}", _wanted(number))

    with pytest.raises(
        ValueError, match=r"test: identity must be given, got None with permissions of [23]\d\d volumes"
    ):
        allow_all()
