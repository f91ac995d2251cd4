"""Context keys become options, and wrong ones are rejected by name."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs import Spot
from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.options import GpuClusterOptions, options_from_context
from tests.conftest import FLAGS


def test_without_context_the_defaults_hold() -> None:
    assert options_from_context(FLAGS) == GpuClusterOptions()


def test_cdk_json_and_command_line_say_the_same() -> None:
    pools = [{"name": "l4", "instance_types": ["g6.xlarge"], "max_nodes": 2, "capacity": "spot"}]
    written = {"autoscaler": "karpenter", "pools": pools, "nat_gateways": 2, "smoke_test": True, "admins": []}
    typed = {
        "autoscaler": "karpenter",
        "pools": '[{"name": "l4", "instance_types": ["g6.xlarge"], "max_nodes": 2, "capacity": "spot"}]',
        "nat_gateways": "2",
        "smoke_test": "true",
        "admins": "[]",
    }

    assert options_from_context(written) == options_from_context(typed)
    [pool] = options_from_context(typed).pools
    assert (pool.bought, pool.max_gpus) == (Spot(), 2)


def test_lists_may_be_typed_with_commas() -> None:
    found = options_from_context({"availability_zones": "us-east-1a, us-east-1b"})

    assert found.availability_zones == ("us-east-1a", "us-east-1b")


def test_keys_of_others_are_left_alone() -> None:
    others = {
        "acknowledged-issue-numbers": [34892],
        "cli-telemetry": False,
        "aws:cdk:enable-path-metadata": True,
        "@aws-cdk/core:x": True,
        "availability-zones:account=1:region=x": [],
    }

    assert options_from_context(others) == GpuClusterOptions()


def l4(more: str) -> str:
    """A list of one pool, as it is typed."""
    return f'[{{"name": "l4", "instance_types": ["g6.xlarge"], {more}}}]'


LIST = r'context: pools must be a list in JSON such as \[{"name": "l4", "instance_types": \["g6.xlarge"\]}\], got '
ZONES = r'context: availability_zones must be a list in JSON such as \["us-east-1a", "us-east-1b"\], got '
SYSTEM = "context: system_instance_types: system nodes: instance_types must "
VERSION = r"context: kubernetes_version must be one of 1.33, 1.34, 1.35, 1.36, 1.37, got "

# Faults of one option, in the order of the options. As `-c` types it, or as cdk.json writes it.
WRONG: list[tuple[str, object, type[Exception], str]] = [
    ("autoscaler", "karpentr", ValueError, r"must be one of .*, got 'karpentr'; did you mean 'karpenter'\?"),
    ("autoscaler", "", ValueError, "must be one of cluster-autoscaler, karpenter, got ''"),
    ("autoscaler", True, ValueError, "must be one of cluster-autoscaler, karpenter, got True"),
    ("kubernetes_version", "1.30", ValueError, f"{VERSION}'1.30'; EKS ended its support, use 1.33, the oldest"),
    (
        "kubernetes_version",
        "1.38",
        ValueError,
        f"{VERSION}'1.38'; upgrade this library, which supports no version newer than",
    ),
    ("kubernetes_version", 1.36, TypeError, f"{VERSION}1.36, a number; quote it: '1.36'"),
    ("kubernetes_version", None, TypeError, f"{VERSION}None; write '1.36'"),
    ("pools", "", ValueError, f"{LIST}'', which ends too early; is a bracket or a quote missing"),
    ("pools", "l4", ValueError, f"{LIST}'l4', which isn't valid JSON from character 1: 'l4'"),
    (
        "pools",
        "[{'name': 'l4'}]",
        ValueError,
        r"valid JSON from character 3: \"'name': 'l4'}\]\"; JSON has double quotes",
    ),
    ("pools", '[{"name": "l4"}', ValueError, "which ends too early; is a bracket or a quote missing"),
    ("pools", '[{"name": "l4"}] x', ValueError, "which isn't valid JSON from character 18: 'x'"),
    ("pools", '[\n {"name": l4}]', ValueError, r"which isn't valid JSON from line 2, character 11: 'l4\}\]'"),
    ("pools", "3", TypeError, "pools must be a list of objects with name and instance_types, got '3'"),
    ("pools", "[3]", TypeError, "pools must be a list of objects with name and instance_types"),
    ("pools", {"name": "l4"}, TypeError, r"pools must be a list of objects with name and instance_types"),
    ("pools", [], ValueError, "pools must contain at least one pool"),
    ("pools", [{"name": "l4"}], ValueError, "context: pool 'l4': instance_types must be given"),
    ("pools", [{"instance_types": ["g6.xlarge"]}], ValueError, "context: pool 1: name must be given"),
    ("pools", l4('"instance_type": []'), ValueError, r"pool 'l4': key must be .*; did you mean 'instance_types'\?"),
    ("pools", [{"name": "L4", "instance_types": ["g6.xlarge"]}], ValueError, "name must be 1 to 63 lower-case letters"),
    ("pools", [{"name": 4, "instance_types": ["g6.xlarge"]}], TypeError, "name must be a string, got 4"),
    ("pools", [{"name": "l4", "instance_types": "g6.xlarge"}], TypeError, "pool 'l4': instance_types must be a list"),
    ("pools", [{"name": "l4", "instance_types": [6]}], TypeError, r"instance_types\[0\] must be a string, got 6"),
    ("pools", [{"name": "l4", "instance_types": []}], ValueError, "instance_types must name at least one type"),
    ("pools", [{"name": "l4", "instance_types": ["g6.xlage"]}], ValueError, r"unknown; did you mean 'g6.xlarge'\?"),
    ("pools", [{"name": "l4", "instance_types": ["p2.xlarge"]}], ValueError, "'p2.xlarge' is retired: "),
    ("pools", l4('"max_nodes": 0'), ValueError, "pool 'l4': max_nodes must be at least 1, got 0; delete the pool"),
    ("pools", l4('"max_nodes": "4"'), TypeError, "pool 'l4': max_nodes must be a whole number, got '4'"),
    ("pools", l4('"min_nodes": -1'), ValueError, "pool 'l4': min_nodes must be at least 0, got -1"),
    ("pools", l4('"min_nodes": 5'), ValueError, "pool 'l4': min_nodes must be at most max_nodes, got 5 and 4"),
    ("pools", l4('"capacity": "spott"'), ValueError, r"capacity must be one of .*'spott'; did you mean 'spot'\?"),
    ("pools", l4('"operating_system": "al2"'), ValueError, "operating_system must be one of al2023, bottlerocket"),
    ("pools", l4('"disk_gib": 5'), ValueError, "pool 'l4': disk: size_gib must be at least 20, got 5"),
    ("pools", l4('"disk_gib": "100"'), TypeError, "pool 'l4': disk: size_gib must be a whole number"),
    ("system_instance_types", "m6i.larg", ValueError, rf"{SYSTEM}be EC2 types, .*; did you mean 'm6i.large'\?"),
    ("system_instance_types", "t3.nano", ValueError, f"{SYSTEM}be EC2 types that support 12 pods, .* use 't3.medium'"),
    ("system_instance_types", "g6.xlarge", ValueError, f"{SYSTEM}be EC2 types without GPU, got 'g6.xlarge'"),
    ("system_instance_types", "m6i.large,m7g.large", ValueError, f"{SYSTEM}share one CPU architecture"),
    ("system_instance_types", "m6i.large,m6i.large", ValueError, f"{SYSTEM}differ"),
    ("system_instance_types", "", ValueError, f"{SYSTEM}be EC2 types such as 'm6i.large', got ''"),
    ("system_instance_types", "[]", ValueError, f"{SYSTEM}name at least one type"),
    ("system_instance_types", "[m6i.large]", ValueError, r"which isn't valid JSON from character 2: 'm6i.large\]'"),
    ("system_instance_types", 3, TypeError, "system_instance_types must be a list of names, got 3"),
    (
        "availability_zones",
        "[us-east-1a",
        ValueError,
        rf"{ZONES}'\[us-east-1a', which isn't valid JSON from character 2",
    ),
    ("availability_zones", 2, TypeError, "availability_zones must be a list of names, got 2"),
    ("nat_gateways", "two", TypeError, "context: nat_gateways must be a whole number, got 'two'; write one such as 2"),
    ("nat_gateways", "1.5", TypeError, "context: nat_gateways must be a whole number, got '1.5'; write one such as 2"),
    ("nat_gateways", 1.5, TypeError, "context: nat_gateways must be a whole number, got 1.5"),
    ("nat_gateways", "-1", ValueError, "context: nat_gateways must be at least 0, got -1"),
    ("public_access_cidrs", 3, TypeError, "public_access_cidrs must be a list of names, got 3"),
    ("admins", '["me"', ValueError, "admins must be a list in JSON such as .*which ends too early"),
    ("smoke_test", "yes", TypeError, "context: smoke_test must be true or false, got 'yes'"),
    ("smoke_test", 1, TypeError, "context: smoke_test must be true or false, got 1"),
    ("tags", "team=research", ValueError, "context: tags must be an object in JSON such as .*team"),
    ("tags", '["team"]', TypeError, r"context: tags must map keys to values, got \['team'\]"),
    ("tags", {"team": 7}, TypeError, "context: tags must map keys to values, got {'team': 7}"),
    ("tags", {"aws:team": "a"}, ValueError, "context: tags must not set 'aws:team'"),
]


@pytest.mark.parametrize(("key", "value", "error", "message"), WRONG)
def test_a_wrong_value_is_refused(key: str, value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as refused:
        options_from_context(FLAGS | {key: value})

    assert "line 1 column" not in str(refused.value)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"auto-scaler": "karpenter"}, r"context: key must be one of .*'auto-scaler'; did you mean 'autoscaler'"),
        ({"kubernetes-version": "1.36"}, r"did you mean 'kubernetes_version'\?"),
        ({"delivery": "argocd"}, r"got 'delivery'; did you mean 'gpu-constructs:delivery'\?"),
        ({"gpu-constructs:delivry": "argocd"}, r"did you mean 'gpu-constructs:delivery'\?"),
        ({"gpu_constructs:delivery": "argocd"}, r"did you mean 'gpu-constructs:delivery'\?"),
        ({"gpu-constructs:delivery": "argo"}, r"got 'argo'; did you mean 'argocd'\?"),
        (
            {"pools": [{"name": name, "instance_types": ["g6.xlarge"]} for name in ("a", "a")]},
            r"pools must differ in name, got \['a', 'a'\]",
        ),
        (
            {"autoscaler": "karpenter", "pools": [{"name": "a", "instance_types": ["g6.xlarge"], "min_nodes": 1}]},
            r"pool 'a': min_nodes must be 0 with autoscaler 'karpenter', got 1",
        ),
    ],
)
def test_a_wrong_key_or_what_does_not_go_together_is_refused(context: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        options_from_context(context)


# Faults that only the constructs check, which know their scope.
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cluster_name", "", "Stack/Gpu: cluster_name must be 1 to 100 letters"),
        ("cluster_name", 3, "Stack/Gpu: cluster_name must be a string, got 3"),
        ("pools", l4('"max_nodes": 99999'), "Stack/Pool-l4: subnets must have an address for each of 99999 nodes"),
        ("availability_zones", "us-east-1a", "Stack/Vpc: availability_zones must name at least two zones"),
        ("availability_zones", "us-east-1,us-east-2", "must be a zone name such as 'us-east-1a', got 'us-east-1'"),
        ("availability_zones", "us-east-1a,us-east-1a", "availability_zones must differ"),
        ("availability_zones", "us-east-1a,us-west-2a", "availability_zones must be in one region"),
        ("nat_gateways", "3", "Stack/Vpc: nat_gateways must be at most 2, one for each zone, got 3"),
        ("public_access_cidrs", "203.0.113.7/24", r"got '203.0.113.7/24'; did you mean '203.0.113.0/24'\?"),
        ("public_access_cidrs", "anywhere", "must be an address block such as '203.0.113.0/24', got 'anywhere'$"),
        ("public_access_cidrs", "10.0.0.0/8", "public_access_cidrs must be public"),
        ("admins", "me", "admins must be literal ARNs of IAM users or roles, got 'me'"),
        ("admins", "", "admins must be literal ARNs of IAM users or roles, got ''"),
        ("admins", "arn:aws:iam::111122223333:root", "admins must be literal ARNs of IAM users or roles"),
    ],
)
def test_the_stack_refuses_what_its_constructs_refuse(key: str, value: object, message: str) -> None:
    options = options_from_context({key: value})

    with pytest.raises((TypeError, ValueError), match=message):
        GpuClusterStack(cdk.App(analytics_reporting=False), "Stack", options=options)


def test_every_option_has_a_wrong_value() -> None:
    judged_by_constructs = {"cluster_name"}

    assert {key for key, *_ in WRONG} | judged_by_constructs == {each.name for each in fields(GpuClusterOptions)}


@pytest.mark.parametrize(("typed", "nat_gateways"), [("2", 2), (" 0 ", 0), (1, 1)])
def test_a_number_is_typed_or_written(typed: object, nat_gateways: int) -> None:
    assert options_from_context({"nat_gateways": typed}).nat_gateways == nat_gateways


@pytest.mark.parametrize("typed", ["true", "True", " TRUE ", True])
def test_a_switch_is_typed_or_written(typed: object) -> None:
    assert options_from_context({"smoke_test": typed}).smoke_test is True


def test_options_given_in_python_are_checked_too() -> None:
    says: dict[str, Any] = {"smoke_test": "maybe"}

    with pytest.raises(TypeError, match="smoke_test must be true or false, got 'maybe'"):
        GpuClusterOptions(**says)


def test_a_long_text_is_shown_in_part() -> None:
    with pytest.raises(ValueError, match=r"^.{,500}$"):
        options_from_context({"pools": "[" + "3, " * 1000})
