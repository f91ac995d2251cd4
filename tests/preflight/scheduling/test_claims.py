"""Whether Karpenter makes a node for a pod that claims a device, by its version and its gates."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.label_values import Requirement
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import ORIGIN, pool, workload

LATER = Unknown("${later}")

CLAIMING = {
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
    "containers": [{"name": "train", "image": "example.com/train:1", "resources": {"claims": [{"name": "gpu"}]}}],
}


def template(**request: Any) -> Object:
    """The template of the claim."""
    exactly = {"deviceClassName": "gpu.nvidia.com", **request}
    spec = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    metadata = {"name": "one-gpu", "namespace": "default"}
    return Object({"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}, ORIGIN)


def answer(
    version: str | None, settings: dict[str, Any], *claims: Object, kubernetes: str | None = None
) -> tuple[Answer, str]:
    karpenter = Autoscaler("karpenter", ORIGIN, {"clusterName": "demo"} | settings, version)
    types = (Requirement("node.kubernetes.io/instance-type", "In", ("g6.xlarge",)),)
    nodes = pool(kind="karpenter", requirements=types, capacity_types=("on-demand",))
    pods = workload("Job", {"template": {"spec": CLAIMING | {"restartPolicy": "Never"}}})
    cluster = Cluster(
        name="demo",
        version=kubernetes,
        pools=(nodes,),
        autoscalers=(karpenter,),
        workloads=(pods,),
        objects=claims,
        assumed=frozenset({"karpenter"}),
    )
    verdict = Case(cluster).verdict(pods)
    return verdict.answer, " ".join(reason.text for each in verdict.pools for reason in each.reasons)


@pytest.mark.parametrize(
    ("version", "settings"),
    [
        ("1.14.1", {}),
        ("1.14.1", {"awsFeatureGates": {"draNVIDIAGPU": True}}),
        ("1.15.1", {}),
        ("1.15.1", {"enableDRA": False}),
        ("1.15.1", {"awsFeatureGates": {"draEFA": True}}),
    ],
)
def test_it_makes_none_before_1_15_and_without_its_gate(version: str, settings: dict[str, Any]) -> None:
    said, why = answer(version, settings)

    assert said is Answer.NO
    assert f"Karpenter {version} launches no nodes for claimed devices" in why


@pytest.mark.parametrize("settings", [{"enableDRA": True}, {"awsFeatureGates": {"draNVIDIAGPU": "true"}}])
def test_it_makes_one_from_1_15_on_with_either_gate(settings: dict[str, Any]) -> None:
    assert answer("1.15.1", settings, template())[0] is Answer.YES


@pytest.mark.parametrize(
    ("version", "settings", "claims", "why"),
    [
        (None, {}, [template()], "depends on its version"),
        ("1.15.1", {"enableDRA": LATER}, [template()], "depends on its feature gates"),
        ("1.15.1", {"enableDRA": True}, [], "only its driver knows what the claim selects"),
        (
            "1.15.1",
            {"enableDRA": True},
            [template(selectors=[{"cel": {"expression": "true"}}])],
            "only its driver knows what the claim selects",
        ),
    ],
)
def test_otherwise_it_may(version: str | None, settings: dict[str, Any], claims: list[Object], why: str) -> None:
    said, text = answer(version, settings, *claims)

    assert said is Answer.UNKNOWN
    assert why in text


@pytest.mark.parametrize(("request_", "expected"), [({"count": 2}, "claims 2 GPUs"), ({}, "")])
def test_a_node_has_as_many_as_are_claimed(request_: dict[str, Any], expected: str) -> None:
    said, text = answer("1.15.1", {"enableDRA": True}, template(**request_))

    assert (said is Answer.NO) is bool(expected)
    assert expected in text


@pytest.mark.parametrize("kubernetes", ["1.32", "1.33"])
def test_it_makes_none_before_kubernetes_1_34(kubernetes: str) -> None:
    said, why = answer("1.15.1", {"enableDRA": True}, template(), kubernetes=kubernetes)

    assert said is Answer.NO
    assert f"on Kubernetes {kubernetes}" in why


def beside(*claims: Object, ready: bool = True) -> tuple[Answer, str]:
    """A node with one GPU runs already."""
    nodes = pool(instance_types=("g6.xlarge",), min_nodes=1, max_nodes=1)
    pods = workload("Job", {"template": {"spec": CLAIMING | {"restartPolicy": "Never"}}})
    own = Object({"kind": "DeviceClass", "metadata": {"name": "large"}, "spec": {"selectors": [LARGE]}}, ORIGIN)
    whole = Object({"kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {}}, ORIGIN)
    objects = (*claims, own, *([whole] if ready else []))
    verdict = Case(Cluster(name="demo", pools=(nodes,), workloads=(pods,), objects=objects)).verdict(pods)
    return verdict.answer, " ".join(reason.text for each in verdict.pools for reason in each.reasons)


LARGE = {"cel": {"expression": 'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].index == 9'}}


def test_a_node_that_is_there_has_a_plain_gpu() -> None:
    assert beside(template())[0] is Answer.YES


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"selectors": [LARGE]}, "only its driver knows"),
        ({"deviceClassName": "large"}, "only its driver knows"),
        ({"adminAccess": True}, "only its driver knows"),
        ({"capacity": {"requests": {"memory": "10Gi"}}}, "only its driver knows"),
        ({"deviceClassName": "gpus.example.com"}, "a device of class gpus.example.com"),
    ],
)
def test_what_a_claim_selects_is_not_known(request_: dict[str, Any], why: str) -> None:
    said, told = beside(template(**request_))

    assert said is Answer.UNKNOWN
    assert why in told


def test_a_class_or_a_claim_that_is_not_seen_is_not_known() -> None:
    assert beside(template(), ready=False)[0] is Answer.UNKNOWN
    assert beside()[0] is Answer.UNKNOWN
