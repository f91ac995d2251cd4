"""A misspelt context key of this library is rejected in any app, and other keys are ignored."""

from __future__ import annotations

import re
from typing import Any

import aws_cdk as cdk
import pytest

from gpu_constructs.devices.device_plugin import DevicePlugin
from gpu_constructs.installing.cluster_ref import cluster_ref
from gpu_constructs.installing.context import refuse_wrong_context
from tests.clusters import imported_cluster, imported_vpc
from tests.conftest import FLAGS

KNOWN = "gpu-constructs:delivery, gpu-constructs:manifests, gpu-constructs:chartMirror, gpu-constructs:chartDefinitions"


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("gpu-constructs:delivry", "gpu-constructs:delivery"),
        ("gpu_constructs:delivery", "gpu-constructs:delivery"),
        ("gpu-construct:delivery", "gpu-constructs:delivery"),
        ("GPU-constructs:delivery", "gpu-constructs:delivery"),
        ("gpuconstructs:manifest", "gpu-constructs:manifests"),
        ("gpu-constructs:chartmirror", "gpu-constructs:chartMirror"),
        ("gpu-constructs:chart-mirror", "gpu-constructs:chartMirror"),
        ("gpu-constructs/delivery", "gpu-constructs:delivery"),
        ("gpu-constructs.delivery", "gpu-constructs:delivery"),
        ("gpu-constructs::delivery", "gpu-constructs:delivery"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest(key: str, nearest: str) -> None:
    message = f"context: key must be one of {KNOWN}, got {key!r}; did you mean {nearest!r}?"

    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        refuse_wrong_context(FLAGS | {key: "argocd"})


def test_an_unknown_key_is_refused_without_a_nearest() -> None:
    with pytest.raises(ValueError, match=f"must be one of {KNOWN}, got 'gpu-constructs:zzz'; remove it$"):
        refuse_wrong_context({"gpu-constructs:zzz": 1})


@pytest.mark.parametrize(
    "key",
    [
        "my-gpu-constructs:delivery",
        "cdk-constructs:delivery",
        "gpu:delivery",
        "aws:cdk:enable-path-metadata",
        "@aws-cdk/core:x",
        "availability-zones:account=1:region=x",
        "gpu-constructs",
        "delivery",
    ],
)
def test_keys_of_others_are_left_alone(key: str) -> None:
    refuse_wrong_context({key: "delivry"})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delivery", "argo", r"must be one of kubectl, argocd, flux, got 'argo'; did you mean 'argocd'\?"),
        ("delivery", True, "must be one of kubectl, argocd, flux, got True"),
        ("manifests", "", "must be a folder, got ''"),
        ("manifests", 3, "must be a folder, got 3"),
        (
            "chartMirror",
            "https://charts.example.com",
            "must be an OCI registry, got 'https://charts.example.com'; write one such as 'oci://",
        ),
        ("chartMirror", ["oci://a"], "must be an OCI registry"),
    ],
)
def test_a_wrong_value_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^context: gpu-constructs:{key} {message}"):
        refuse_wrong_context({f"gpu-constructs:{key}": value})


@pytest.mark.parametrize(
    ("key", "value"), [("delivery", "flux"), ("manifests", "gitops"), ("chartMirror", "oci://example.com/charts")]
)
def test_a_right_value_is_taken(key: str, value: str) -> None:
    refuse_wrong_context({f"gpu-constructs:{key}": value})


def stack_of(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Test", env=cdk.Environment(account="111122223333", region="us-east-1"))


# The mirror and the folder are used by no construct here, and are looked at all the same.
@pytest.mark.parametrize(
    ("key", "value"),
    [("gpu_constructs:delivery", "argocd"), ("gpu-constructs:chartMirror", "x"), ("gpu-constructs:manifests", "")],
)
def test_the_first_construct_of_an_app_refuses(key: str, value: str) -> None:
    stack = stack_of(cdk.App(context={key: value}, analytics_reporting=False))
    cluster = imported_cluster(stack, imported_vpc(stack))

    with pytest.raises(ValueError, match=r"^context: "):
        DevicePlugin(stack, "Plugin", cluster=cluster)


def test_context_of_a_stack_is_looked_at_too() -> None:
    stack = stack_of(cdk.App(analytics_reporting=False))
    stack.node.set_context("gpu-constructs:delivry", "argocd")

    with pytest.raises(ValueError, match="did you mean 'gpu-constructs:delivery'"):
        DevicePlugin(stack, "Plugin", cluster=imported_cluster(stack, imported_vpc(stack)))


def test_a_cluster_asks_for_the_context_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = stack_of(cdk.App(analytics_reporting=False))
    cluster = imported_cluster(stack, imported_vpc(stack))
    asked: list[object] = []
    monkeypatch.setattr("gpu_constructs.installing.cluster_ref.refuse_wrong_context", asked.append)

    for _ in range(3):
        cluster_ref("test", cluster)

    assert len(asked) == 1
