"""Context keys become options; what is wrong is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_constructs import Spot
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


def test_the_first_deployment_states_the_size_of_every_group() -> None:
    assert options_from_context({"first_deployment": "true"}).system_nodes.scaling == {
        "minSize": 2,
        "maxSize": 4,
        "desiredSize": 2,
    }
    assert options_from_context({}).system_nodes.scaling == {"minSize": 2, "maxSize": 4}


def test_keys_of_others_are_left_alone() -> None:
    others = {
        "acknowledged-issue-numbers": [34892],
        "cli-telemetry": False,
        "aws:cdk:enable-path-metadata": True,
        "@aws-cdk/core:x": True,
        "availability-zones:account=1:region=x": [],
    }

    assert options_from_context(others) == GpuClusterOptions()


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        ({"autoscaler": "karpentr"}, ValueError, r"context: autoscaler must be one of .* did you mean 'karpenter'\?"),
        (
            {"auto-scaler": "karpenter"},
            ValueError,
            r"context: key must be one of .*'auto-scaler'; did you mean 'autoscaler'",
        ),
        ({"kubernetes-version": "1.36"}, ValueError, r"did you mean 'kubernetes_version'\?"),
        ({"kubernetes_version": "1.37"}, ValueError, r"kubernetes_version must be one of 1.33, 1.34, 1.35, 1.36"),
        ({"kubernetes_version": 1.36}, TypeError, r"must be a string such as '1.36', got 1.36; quote it"),
        ({"smoke_test": "yes please"}, ValueError, r"smoke_test must be JSON"),
        ({"smoke_test": 1}, TypeError, r"smoke_test must be true or false, got 1"),
        ({"pools": "l4"}, ValueError, r"pools must be JSON such as \[.*got 'l4'"),
        ({"pools": {"name": "l4"}}, TypeError, r"pools must be a list of objects with name and instance_types"),
        ({"pools": []}, ValueError, r"pools must hold at least one pool"),
        ({"pools": [{"name": "l4"}]}, ValueError, r"context: pool 'l4': instance_types must be given"),
        ({"pools": [{"instance_types": ["g6.xlarge"]}]}, ValueError, r"context: pool 1: name must be given"),
        (
            {"pools": [{"name": "l4", "instance_type": ["g6.xlarge"]}]},
            ValueError,
            r"context: pool 'l4': key must be .*'instance_type'; did you mean 'instance_types'\?",
        ),
        (
            {"pools": [{"name": "l4", "instance_types": "g6.xlarge"}]},
            TypeError,
            r"pool 'l4': instance_types must be a list",
        ),
        (
            {"pools": [{"name": "l4", "instance_types": ["g6.xlage"]}]},
            ValueError,
            r"pool 'l4': instance type 'g6.xlage' is unknown; did you mean 'g6.xlarge'\?",
        ),
        (
            {"pools": [{"name": "l4", "instance_types": ["g6.xlarge"], "capacity": "spott"}]},
            ValueError,
            r"pool 'l4': capacity must be one of on-demand, spot, got 'spott'; did you mean 'spot'\?",
        ),
        (
            {"pools": [{"name": "l4", "instance_types": ["g6.xlarge"], "disk_gib": 5}]},
            ValueError,
            r"pool 'l4': disk: size_gib must be at least 20, got 5",
        ),
        (
            {"pools": [{"name": "l4", "instance_types": ["g6.xlarge"], "max_nodes": "4"}]},
            TypeError,
            r"pool 'l4': max_nodes must be a whole number, got '4'",
        ),
        (
            {"pools": [{"name": name, "instance_types": ["g6.xlarge"]} for name in ("a", "a")]},
            ValueError,
            r"pools must differ in name, got \['a', 'a'\]",
        ),
        (
            {"autoscaler": "karpenter", "pools": [{"name": "a", "instance_types": ["g6.xlarge"], "min_nodes": 1}]},
            ValueError,
            r"pool 'a': min_nodes must be 0 with autoscaler 'karpenter', got 1",
        ),
    ],
)
def test_refuses(context: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        options_from_context(context)
