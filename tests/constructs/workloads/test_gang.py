"""Pods of a gang have names that resolve, and torchrun's environment says where to meet."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuJob, GpuPod, ManagedNodeGroup, NodeShape
from tests.schemas import validate
from tests.templates import manifests_of, resources_of

IMAGE = "registry.example.com/train@sha256:" + "a" * 64


def gang(stack: cdk.Stack, cluster: eks.ICluster, **changes: Any) -> dict[str, dict[str, Any]]:
    """Job and Service of a valid gang, with ``changes`` applied."""
    shape = NodeShape(instance_types=("g6.12xlarge",))
    pool = ManagedNodeGroup(stack, "Pool", cluster=cluster, name="l4", shape=shape, max_nodes=4)
    says: dict[str, Any] = {"name": "train", "pods": 4, "gang": True} | changes
    GpuJob(stack, "Job", cluster=cluster, pool=pool, pod=GpuPod(image=IMAGE, gpus=4, env={"A": "b"}), **says)
    return {each["kind"]: each for each in manifests_of(resources_of(stack))}


def environment(job: dict[str, Any]) -> dict[str, Any]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value") or each["valueFrom"] for each in container["env"]}


def test_the_first_pods_name_is_where_the_others_meet(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = gang(stack, cluster)
    job, service = made["Job"], made["Service"]

    assert (job["spec"]["completionMode"], job["spec"]["parallelism"]) == ("Indexed", 4)
    host, _, domain = environment(job)["PET_MASTER_ADDR"].partition(".")
    assert host == f"{job['metadata']['name']}-0"
    assert domain == job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == ("None", True)


def test_torchrun_gets_its_rank(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    told = environment(gang(stack, cluster)["Job"])

    assert (told["PET_NNODES"], told["PET_MASTER_PORT"], told["A"]) == ("4", "29500", "b")
    path = told["PET_NODE_RANK"]["fieldRef"]["fieldPath"]
    assert path == "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_objects_are_valid(stack: cdk.Stack, cluster: eks.ICluster, minor: str) -> None:
    for each in gang(stack, cluster).values():
        validate(each, minor)


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        ({"pods": 1}, ValueError, "pods must be at least 2 with gang=True, got 1"),
        ({"pods": 5}, ValueError, "pods must be at most 4, which fit on the 4 nodes of pool 'l4', got 5"),
        (
            {"name": "7b"},
            ValueError,
            "name must begin with a letter in .*, got '7b'; rename it, because only Kubernetes 1.36 and later allow",
        ),
        ({"parallel": 2}, ValueError, "parallel must be left out with gang=True, got 2"),
        ({"name": "t" * 53}, ValueError, "name must be 1 characters shorter with gang=True"),
        ({"gang": 1}, TypeError, "gang must be True or False, got 1"),
    ],
)
def test_refuses(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], rule: str
) -> None:
    with pytest.raises(error, match=f"Test/Job: {rule}"):
        gang(stack, cluster, **changes)
