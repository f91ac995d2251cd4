"""Queues of KAI Scheduler have the GPUs of the pools, and its jobs are placed by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsonschema
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuJob, GpuPod, ManagedNodeGroup, NodeShape, TimeSlicing
from gpu_constructs.queueing import KaiQueues, KaiScheduler, Kueue, TeamQueue
from gpu_constructs.queueing.kai import queue
from gpu_constructs.workloads import KaiQueue
from tests.schemas import strict_schema
from tests.templates import CHART, depends_on, manifest, manifests_of, of_type, resources_of

TEAMS = (
    TeamQueue(name="research", namespace="research", nodes={"p5": 3}, weight=2),
    TeamQueue(name="product", namespace="product", nodes={"p5": 1}),
)


def pool(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape | None = None) -> ManagedNodeGroup:
    shape = shape or NodeShape(instance_types=("p5.48xlarge",))
    return ManagedNodeGroup(stack, "Pool", cluster=cluster, name="p5", shape=shape, max_nodes=4)


def queues(stack: cdk.Stack, cluster: eks.ICluster, shape: NodeShape | None = None, **changes: Any) -> KaiQueues:
    """Valid queues, with ``changes`` applied."""
    says: dict[str, Any] = {"pools": [pool(stack, cluster, shape)], "teams": TEAMS} | changes
    scheduler = says.pop("scheduler", None) or KaiScheduler(stack, "Kai", cluster=cluster)
    return KaiQueues(stack, "Queues", cluster=cluster, scheduler=scheduler, **says)


def test_quotas_follow_from_the_nodes(stack: cdk.Stack, cluster: eks.ICluster, crds: Path) -> None:
    queues(stack, cluster)

    resources = resources_of(stack)
    made = {each["metadata"]["name"]: each for each in manifests_of(resources) if each["kind"] == "Queue"}
    gpus = {name: each["spec"]["resources"]["gpu"]["quota"] for name, each in made.items()}
    assert gpus == {"gpus": 32, "research": 24, "product": 8}
    assert {name: each["spec"].get("parentQueue") for name, each in made.items()} == {
        "gpus": None,
        "research": "gpus",
        "product": "gpus",
    }
    for each in made.values():
        jsonschema.validate(each | {"metadata": {}}, strict_schema(crds, each))


def test_queues_come_after_scheduler_and_department(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    queues(stack, cluster)

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    ids = {
        next(manifests_of({id: each}))["metadata"]["name"]: id
        for id, each in resources.items()
        if id.startswith("Queues")
    }
    assert {chart, ids["gpus"]} <= depends_on(resources, ids["research"])


def test_its_jobs_are_placed_by_it(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    made = queues(stack, cluster)
    [group] = [each for each in stack.node.children if isinstance(each, ManagedNodeGroup)]
    pod = GpuPod(image="example.com/train:1", gpus=8)
    GpuJob(stack, "Job", cluster=cluster, pool=group, name="train", pod=pod, queue=made.queue("research"))

    job = manifest(resources_of(stack), "Job")
    template = job["spec"]["template"]
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "research"
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    assert "kueue.x-k8s.io/queue-name" not in job["metadata"]["labels"]


def test_another_queue_is_another_job(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group = pool(stack, cluster)
    pod = GpuPod(image="example.com/train:1", gpus=8)
    for name in ("a", "b"):
        GpuJob(stack, name, cluster=cluster, pool=group, name="train", pod=pod, queue=KaiQueue(name))

    jobs = [each for each in manifests_of(resources_of(stack)) if each["kind"] == "Job"]
    assert len({each["metadata"]["name"] for each in jobs}) == 2


def test_cpu_and_memory_are_not_limited() -> None:
    resources = queue("a", 8, 1)["spec"]["resources"]

    assert {key: resources["cpu"][key] for key in ("quota", "limit")} == {"quota": -1, "limit": -1}
    assert resources["gpu"]["limit"] == -1


def test_refuses_kueue_beside_it(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    KaiScheduler(stack, "Kai", cluster=cluster)

    with pytest.raises(ValueError, match="Test/Kueue: cluster must have one queueing system"):
        Kueue(stack, "Kueue", cluster=cluster)


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4))},
            ValueError,
            r"pools must have whole GPUs, which a queue counts, got 'p5' with TimeSlicing\(replicas=4\)",
        ),
        ({"scheduler": "kai"}, TypeError, "scheduler must be a KaiScheduler, got 'kai'"),
        ({"department": "research"}, ValueError, "department must differ from every team, got 'research'"),
        (
            {"teams": [TeamQueue(name="a", namespace="a", nodes={"p5": 5})]},
            ValueError,
            "teams must have at most the 4 nodes of pool 'p5', got 5",
        ),
    ],
)
def test_refuses(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], rule: str
) -> None:
    with pytest.raises(error, match=f"Test/Queues: {rule}"):
        queues(stack, cluster, **changes)


def test_refuses_a_queue_that_is_not_there(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    with pytest.raises(ValueError, match="Test/Queues: team must be one of product, research, got 'reserch'"):
        queues(stack, cluster).queue("reserch")
    with pytest.raises(ValueError, match="kai queue: name must"):
        KaiQueue("Not a name")
