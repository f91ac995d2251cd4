"""The name of a job doesn't change when another part of the app does."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuPod, ManagedNodeGroup, NodeShape
from gpu_constructs.workloads.manifests import job_manifest, smoke_test_chart
from gpu_constructs.workloads.mpi_manifests import mpi_job


def names(pool: ManagedNodeGroup, image: str) -> list[Any]:
    """The names of the three kinds of jobs of an image."""
    job = job_manifest(
        "Test",
        scope=pool,
        pool=pool,
        name="train",
        pod=GpuPod(image=image),
        namespace="gpu",
        queue=None,
        limits={},
        claim=None,
        gang=False,
    )
    test = mpi_job("Test", scope=pool, pool=pool, nodes=2, image=image, namespace="gpu", queue=None)
    smoke = smoke_test_chart(scope=pool, pool=pool, image=image, cuda_image=None, namespace="gpu").to_json()[0]
    return [each["metadata"]["name"] for each in (job, test, smoke)]


@pytest.fixture
def pool(stack: cdk.Stack, cluster: eks.ICluster) -> ManagedNodeGroup:
    """Two nodes of one GPU."""
    shape = NodeShape(instance_types=["g6.2xlarge"])
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=2)


def test_an_image_that_deployment_tells_is_named_as_the_template_writes_it(pool: ManagedNodeGroup) -> None:
    # Each call is another token, as when a construct before it makes one more.
    once, again, other = (names(pool, cdk.Fn.ref(each)) for each in ("Image", "Image", "Other"))

    assert once == again
    assert not set(once) & set(other)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"limits": {"backoff_limit": 3}}, True),
        ({"limits": {"active_deadline_seconds": 7200}}, True),
        ({"limits": {"ttl_seconds_after_finished": 60}}, True),
        ({"limits": {"parallelism": 1}}, True),
        ({"limits": {"completions": 3}}, False),
        ({"gang": True}, False),
        ({"queue": "research"}, False),
        ({"pod": GpuPod(image="example.com/train:2")}, False),
    ],
)
def test_what_kubernetes_changes_in_place_keeps_the_name(
    pool: ManagedNodeGroup, change: dict[str, Any], same: bool
) -> None:
    def name(**changes: Any) -> str:
        given: dict[str, Any] = {
            "scope": pool,
            "pool": pool,
            "name": "train",
            "pod": GpuPod(image="example.com/train:1"),
            "namespace": "gpu",
            "queue": None,
            "limits": {},
            "claim": None,
            "gang": False,
        }
        return str(job_manifest("Test", **given | changes)["metadata"]["name"])

    assert (name() == name(**change)) is same
