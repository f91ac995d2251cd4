"""Queues of KAI Scheduler have the GPUs of the pools, and its jobs are placed by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks

from gpu_constructs import GpuJob, GpuPod, ManagedNodeGroup, NodeShape, TimeSlicing
from gpu_constructs.queueing import KaiQueues, KaiScheduler, Kueue, TeamQueue
from gpu_constructs.queueing.kai import kai_values, queue
from gpu_constructs.workloads import KaiQueue
from tests.chart_values import unknown_values
from tests.schemas import validate_custom
from tests.templates import (
    CHART,
    MANIFEST,
    depends_on,
    ids_of_objects,
    manifest,
    manifests_of,
    of_type,
    only,
    resources_of,
)

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
        validate_custom(each, crds)


def test_queues_come_after_scheduler_and_department(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    queues(stack, cluster)

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    ids = {name: id for (_, name), id in ids_of_objects(resources).items()}
    assert {chart, ids["gpus"]} <= depends_on(resources, ids["research"])


def test_helm_waits_for_the_scheduler_and_not_only_for_its_operator(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    KaiScheduler(stack, "Kai", cluster=cluster, values={"global": {"gpuSharing": True}})

    values = json.loads(only(resources_of(stack), CHART)["Values"])
    # The object that the operator makes the scheduler from is in the release, and in no hook after it.
    assert values["kaiConfig"] == {"render": True}
    assert values["kaiConfigDeployer"] == {"enabled": False}
    assert values["global"] == {"gpuSharing": True}


def test_every_chart_value_exists(chart_values: Path) -> None:
    assert unknown_values(chart_values / "kai-scheduler-0.17.yaml", kai_values()) == []


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


def resource_of(resources: dict[str, Any], kind: str, name: str = "") -> str:
    """The logical id of the resource that applies an object."""
    [found] = [
        id
        for id in of_type(resources, MANIFEST)
        for each in manifests_of({id: resources[id]})
        if each["kind"] == kind and each["metadata"]["name"].startswith(name)
    ]
    return found


@pytest.mark.parametrize("job_first", [False, True])
def test_a_job_starts_after_its_queue_and_the_scheduler(
    stack: cdk.Stack, cluster: eks.ICluster, job_first: bool
) -> None:
    group = pool(stack, cluster)
    pod = GpuPod(image="example.com/train:1", gpus=8)
    says: dict[str, Any] = {"cluster": cluster, "pool": group, "name": "train", "pod": pod}
    if job_first:
        GpuJob(stack, "Job", **says, queue=KaiQueue("research"))
    scheduler = KaiScheduler(stack, "Kai", cluster=cluster)
    made = KaiQueues(stack, "Queues", cluster=cluster, scheduler=scheduler, pools=[group], teams=TEAMS)
    if not job_first:
        GpuJob(stack, "Job", **says, queue=made.queue("research"))

    resources = resources_of(stack)
    needed = depends_on(resources, resource_of(resources, "Job"))
    assert resource_of(resources, "Queue", "research") in needed
    assert set(of_type(resources, CHART)) <= needed
    assert resource_of(resources, "Queue", "product") not in needed


def test_a_job_of_a_queue_made_elsewhere_starts_after_the_scheduler(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    group = pool(stack, cluster)
    pod = GpuPod(image="example.com/train:1", gpus=8)
    GpuJob(stack, "Job", cluster=cluster, pool=group, name="train", pod=pod, queue=KaiQueue("elsewhere"))
    GpuJob(stack, "Plain", cluster=cluster, pool=group, name="plain", pod=pod)
    KaiScheduler(stack, "Kai", cluster=cluster)

    resources = resources_of(stack)
    [chart] = of_type(resources, CHART)
    assert chart in depends_on(resources, resource_of(resources, "Job", "train"))
    assert chart not in depends_on(resources, resource_of(resources, "Job", "plain"))


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


def test_refuses_kueue_together_with_it(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    KaiScheduler(stack, "Kai", cluster=cluster)

    with pytest.raises(ValueError, match="Test/Kueue: cluster must have one queueing system"):
        Kueue(stack, "Kueue", cluster=cluster)


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        (
            {"shape": NodeShape(instance_types=("g6.xlarge",), sharing=TimeSlicing(4))},
            ValueError,
            r"pools must have whole GPUs, because a queue counts them, got 'p5' with TimeSlicing\(replicas=4\); "
            r"remove it",
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
